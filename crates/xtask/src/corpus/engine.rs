//! The real engine's answers, optionally cached in a folder.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use equate_testkit::peers::{self, Kustomize, KustomizeOptions};
use sha2::Digest as _;

/// Builds per engine process: an engine keeps the schema set by a build.
const BUILDS_MAX: usize = 100;

pub(super) struct Answer {
    pub(super) result: Result<String, String>,
    pub(super) took: Duration,
}

pub(super) struct Engine {
    process: Kustomize,
    builds: usize,
    any_file: bool,
    answers: Option<PathBuf>,
}

impl Engine {
    /// `None`, with a printed line, if the engine is unavailable.
    pub(super) fn new(any_file: bool, answers: Option<PathBuf>) -> Result<Option<Self>, Box<dyn Error>> {
        if let Some(folder) = &answers {
            fs::create_dir_all(folder)?;
        }
        let started = peers::available(peers::kustomize(&mut |line| eprintln!("peers: {line}")))?;
        Ok(match started {
            Ok(process) => Some(Self {
                process,
                builds: 0,
                any_file,
                answers,
            }),
            Err(skip) => {
                println!("{}", skip.0);
                None
            }
        })
    }

    pub(super) fn build(&mut self, directory: &Path) -> Result<Answer, Box<dyn Error>> {
        let kept = self
            .answers
            .as_ref()
            .map(|folder| folder.join(self.name(directory)));
        if let Some(known) = kept.as_ref().and_then(|path| fs::read_to_string(path).ok()) {
            return read(&known)
                .ok_or_else(|| format!("the cached answer for {directory:?} is invalid").into());
        }
        let answer = self.ask(directory)?;
        if let Some(path) = kept {
            fs::write(path, write(&answer))?;
        }
        Ok(answer)
    }

    fn ask(&mut self, directory: &Path) -> Result<Answer, Box<dyn Error>> {
        if self.builds == BUILDS_MAX {
            self.process = peers::kustomize(&mut |line| eprintln!("peers: {line}"))?;
            self.builds = 0;
        }
        self.builds += 1;
        let options = KustomizeOptions {
            legacy_order: false,
            any_file: self.any_file,
        };
        let started = Instant::now();
        let answer = self.process.build(directory, options)?;
        Ok(Answer {
            result: answer.result,
            took: started.elapsed(),
        })
    }

    fn name(&self, directory: &Path) -> String {
        let hash = sha2::Sha256::digest(format!("{}:{}", self.any_file, directory.display()));
        let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("{hex}.json")
    }
}

fn write(answer: &Answer) -> String {
    let (field, text) = match &answer.result {
        Ok(output) => ("output", output),
        Err(error) => ("error", error),
    };
    serde_json::json!({ field: text, "seconds": answer.took.as_secs_f64() }).to_string()
}

fn read(text: &str) -> Option<Answer> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let field = |name: &str| value[name].as_str().map(str::to_owned);
    Some(Answer {
        result: field("output").map_or_else(|| field("error").map(Err), |output| Some(Ok(output)))?,
        took: Duration::try_from_secs_f64(value["seconds"].as_f64()?).ok()?,
    })
}
