//! `cargo xtask baseline kustomize`: the real engine's answers for our cases.
//!
//! Each case is built in a fresh folder; its path becomes `<ROOT>`, addresses in Go's messages become
//! `0x`. For charts, kustomize runs Helm 4.2, whose engine ours follows. For command line options,
//! kubectl's kustomize answers. A case with its own schema gets its own process, because the engine keeps
//! the schema of an earlier build. Only the recorded answers of a case are rewritten.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use equate_testkit::peers::{self, KubectlVersion, Kustomize, KustomizeAnswer, KustomizeOptions};
use tempfile::TempDir;

use super::format::{Case, Content, SPEC};

const CASES: &str = "../kustomize/tests/cases";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only cases whose path contains one of these
    names: Vec<String>,
    /// Compare with the recorded answers and change nothing
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut progress = |line: &str| eprintln!("peers: {line}");
    let mut engine = match peers::available(peers::kustomize(&mut progress))? {
        Ok(engine) => engine,
        Err(skip) => {
            println!("{}", skip.0);
            return Ok(());
        }
    };
    let mut charts = None;
    let mut used_for_a_schema = false;
    let (mut asked, mut stale) = (0, Vec::new());
    for path in cases()? {
        let name = path.to_string_lossy().replace('\\', "/");
        if !args.names.is_empty() && !args.names.iter().any(|wanted| name.contains(wanted)) {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let case = Case::parse(&text).map_err(|problem| format!("{name}: {problem}"))?;
        if !case.judged {
            continue;
        }
        if case.enable_helm && charts.is_none() {
            charts = match peers::available(Charts::new(&mut progress))? {
                Ok(found) => Some(found),
                Err(skip) => {
                    println!("{name}: {}", skip.0);
                    continue;
                }
            };
        }
        asked += 1;
        let has_a_schema = text.contains("openapi:");
        if has_a_schema || used_for_a_schema {
            engine = peers::kustomize(&mut progress)?;
        }
        used_for_a_schema = has_a_schema;
        let answered = case.with_answers(&answers(&mut engine, charts.as_ref(), &case)?);
        if answered != text {
            stale.push(path.clone());
            if !args.check {
                std::fs::write(&path, answered)?;
            }
        }
    }
    for path in &stale {
        println!("{}", path.display());
    }
    let what = if args.check { "differ" } else { "rewritten" };
    println!("{asked} cases asked, {} {what}", stale.len());
    if args.check && !stale.is_empty() {
        return Err("the real engine has other answers: run `cargo xtask baseline kustomize`".into());
    }
    Ok(())
}

pub(crate) fn cases() -> Result<Vec<PathBuf>, std::io::Error> {
    cases_in(CASES)
}

pub(super) fn cases_in(folder: &str) -> Result<Vec<PathBuf>, std::io::Error> {
    let mut found = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    for topic in std::fs::read_dir(folder)? {
        let topic = topic?.path();
        if topic.is_dir() {
            for case in std::fs::read_dir(topic)? {
                found.push(case?.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

struct Charts {
    /// Contains `helm`.
    folder: TempDir,
    helm: PathBuf,
    kubectl: PathBuf,
}

impl Charts {
    fn new(progress: &mut dyn FnMut(&str)) -> Result<Self, peers::Error> {
        let folder = tempfile::tempdir().map_err(|source| peers::Error::Io {
            what: "make a folder below",
            path: std::env::temp_dir(),
            source,
        })?;
        let helm = peers::helm(progress)?.script(folder.path())?;
        let kubectl = peers::kubectl(KubectlVersion::V1_37, progress)?.kubectl;
        Ok(Self {
            folder,
            helm,
            kubectl,
        })
    }

    fn by_command(&self, directory: &Path, words: &str) -> Result<KustomizeAnswer, std::io::Error> {
        let output = Command::new(&self.kubectl)
            .arg("kustomize")
            .arg(directory)
            .args(["--enable-helm", "--reorder", "none", "--helm-command"])
            .arg(&self.helm)
            .args(words.split_whitespace())
            .output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stderr);
        Ok(KustomizeAnswer {
            result: match output.status.success() {
                true => Ok(text(&output.stdout)),
                false => Err(said.strip_prefix("error: ").unwrap_or(&said).to_owned()),
            },
            warnings: said,
        })
    }

    fn hidden(&self, text: &str) -> String {
        const MADE: &str = "kustomize-helm-";
        let text = text.replace(&*self.folder.path().to_string_lossy(), "<HELM>");
        let text = text.replace(&format!("{}/{MADE}", std::env::temp_dir().display()), MADE);
        let mut pieces = text.split(MADE);
        let mut hidden = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            hidden.push_str("<MADE>");
            hidden.push_str(piece.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
        hidden
    }
}

/// The engine's answers to a case, by their names in the case.
fn answers(
    engine: &mut Kustomize,
    charts: Option<&Charts>,
    case: &Case,
) -> Result<Vec<(&'static str, String)>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let root = folder.path().canonicalize()?;
    write(case, &root)?;
    let options = KustomizeOptions {
        legacy_order: case.legacy_order,
        any_file: case.any_file,
    };
    let directory = root.join(&case.build);
    let charts = charts.filter(|_| case.enable_helm);
    let answer = match (charts, &case.args) {
        (Some(charts), Some(words)) => charts.by_command(&directory, words)?,
        (charts, _) => engine.build_with(&directory, options, charts.map(|charts| &*charts.helm))?,
    };
    let hide = |text: &str| {
        let text = without_addresses(&text.replace(&*root.to_string_lossy(), "<ROOT>"));
        charts.map_or(text.clone(), |charts| charts.hidden(&text))
    };
    let mut answers = match answer.result {
        Ok(output) => vec![("output", output)],
        Err(error) => {
            let error = hide(&error);
            let error = error.strip_prefix("kustomize build failed: ").unwrap_or(&error);
            return Ok(vec![("error", format!("{}\n", error.trim_end()))]);
        }
    };
    // other lines are log lines with the time
    let told = answer.warnings.lines().filter(|line| line.starts_with("# "));
    let warnings: String = told.flat_map(|line| [line, "\n"]).collect();
    if !warnings.is_empty() {
        answers.push(("warnings", hide(&warnings)));
    }
    Ok(answers)
}

fn without_addresses(text: &str) -> String {
    let mut pieces = text.split("0x");
    let mut hidden = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        let address = piece.len() - rest.len() >= 8;
        hidden.push_str("0x");
        hidden.push_str(if address { rest } else { piece });
    }
    hidden
}

fn write(case: &Case, root: &Path) -> Result<(), Box<dyn Error>> {
    // files for the reference alone come last and replace ours
    let mut files: Vec<_> = case.files.iter().filter(|file| file.path != SPEC).collect();
    files.sort_by_key(|file| file.for_the_judge);
    for file in files {
        let path = root.join(&file.path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        match &file.content {
            Content::Bytes(bytes) => std::fs::write(path, bytes)?,
            Content::Link(target) => std::os::unix::fs::symlink(target, path)?,
        }
    }
    Ok(())
}
