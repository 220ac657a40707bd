//! kustomize's Go engine from pykustomize on PyPI, behind a C interface.
//!
//! A Python program (`crates/xtask/peers/kustomize_oracle.py`) loads it and answers builds over a pipe.
//! The engine has process-wide state and runs one build at a time: for two cores start two.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::{Error, Progress, cache_folder, once, pip, runs};

/// The package, its only wheel, and the engine's version.
const PACKAGE: pip::Package = pip::Package {
    name: "pykustomize",
    version: "0.1.4",
    sha256: "f8da6be12fb35b56158d2f9043a67d39c1ce84eae9c8f344c7ed934709192467",
};

/// The Python version that the wheel requires; its Python code is not used.
const PYTHON: &str = "3.14";

/// The version of kustomize's api module.
pub const KUSTOMIZE_API_VERSION: &str = "0.21.3";

const LIBRARY: &str = "libpykustomize.so";

/// Options of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KustomizeOptions {
    /// Legacy order, as the CLI without `sortOptions`; otherwise input order, as Flux.
    pub legacy_order: bool,
    /// Load files from anywhere, as Flux does.
    pub any_file: bool,
}

/// The engine's answer to a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KustomizeAnswer {
    /// The document stream, or the error text.
    pub result: Result<String, String>,
    /// Its stderr: deprecations, a line each.
    pub warnings: String,
}

/// The running engine.
#[derive(Debug)]
pub struct Kustomize {
    library: PathBuf,
    process: Process,
}

#[derive(Debug)]
struct Process {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Fetches the engine unless cached, and starts it.
///
/// # Errors
/// [`Error::NoPip`] without a Python that has pip, [`Error::NoBuild`] without a library for this machine;
/// otherwise the failed step.
pub fn kustomize(progress: Progress<'_>) -> Result<Kustomize, Error> {
    let wanted = || format!("kustomize {KUSTOMIZE_API_VERSION}");
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(Error::NoBuild { wanted: wanted() });
    }
    let folder = cache_folder()?.join(format!("{}-{}", PACKAGE.name, PACKAGE.version));
    if !folder.is_dir() && !runs("python3", &["-m", "pip", "--version"]) {
        return Err(Error::NoPip { wanted: wanted() });
    }
    once(&folder, progress, |partial, progress| {
        progress(&format!(
            "fetching kustomize {KUSTOMIZE_API_VERSION} ({} {})",
            PACKAGE.name, PACKAGE.version
        ));
        fetch(partial)
    })?;
    let library = folder.join(LIBRARY);
    let process = start(&library)?;
    Ok(Kustomize { library, process })
}

impl Kustomize {
    /// The engine's shared library.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// Builds a directory. A build that crashes the engine returns an error text.
    ///
    /// # Errors
    /// The engine cannot be restarted, or its answer is invalid.
    pub fn build(&mut self, directory: &Path, options: KustomizeOptions) -> Result<KustomizeAnswer, Error> {
        self.build_with(directory, options, None)
    }

    /// Same as [`Kustomize::build`], with a helm program for charts.
    ///
    /// # Errors
    /// Those of [`Kustomize::build`].
    pub fn build_with(
        &mut self,
        directory: &Path,
        options: KustomizeOptions,
        helm: Option<&Path>,
    ) -> Result<KustomizeAnswer, Error> {
        let mut request = serde_json::json!({
            "path": directory,
            "options": {
                "reorder": if options.legacy_order { "unspecified" } else { "none" },
                "load_restrictions": i32::from(options.any_file),
            },
        });
        if let Some(helm) = helm {
            request["options"]["enable_helm"] = true.into();
            request["options"]["helm_command"] = helm.to_string_lossy().into();
        }
        match self.process.ask(&request.to_string()) {
            Ok(line) if !line.is_empty() => answer(&line).ok_or_else(|| {
                Error::io("understand the answer of", &self.library)(std::io::Error::from(
                    std::io::ErrorKind::InvalidData,
                ))
            }),
            Ok(_) | Err(_) => {
                self.process = start(&self.library)?;
                Ok(KustomizeAnswer {
                    result: Err("the engine crashed".into()),
                    warnings: String::new(),
                })
            }
        }
    }
}

impl Process {
    /// One line to the process, one line back; empty when it has ended.
    fn ask(&mut self, request: &str) -> std::io::Result<String> {
        writeln!(self.requests, "{request}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // it has no state to save; an error means that it has ended already
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answer(line: &str) -> Option<KustomizeAnswer> {
    let answer: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = |field: &str| answer[field].as_str().map(str::to_owned);
    Some(KustomizeAnswer {
        result: match text("output") {
            Some(output) => Ok(output),
            None => Err(text("error")?),
        },
        warnings: text("warnings")?,
    })
}

fn start(library: &Path) -> Result<Process, Error> {
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/peers/kustomize_oracle.py");
    let failed = Error::io("start", &driver);
    let mut command = Command::new("python3");
    command
        .arg(&driver)
        .arg(library)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // answers contain its messages; only crash traces are lost
        .stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    let (requests, answers) =
        pipes.ok_or_else(|| Error::io("open a pipe to", &driver)(std::io::ErrorKind::BrokenPipe.into()))?;
    Ok(Process {
        child,
        requests,
        answers: BufReader::new(answers),
    })
}

fn fetch(partial: &Path) -> Result<(), Error> {
    let download = partial.join("download");
    PACKAGE.unpack(&download, &["--python-version", PYTHON, "--only-binary=:all:"])?;
    let library = download.join("pykustomize/_lib/linux-amd64").join(LIBRARY);
    let target = partial.join(LIBRARY);
    fs::rename(&library, &target).map_err(Error::io("keep", &library))?;
    fs::remove_dir_all(&download).map_err(Error::io("remove", &download))
}
