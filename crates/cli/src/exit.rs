//! How a command fails: one place that prints the chain, the hint, and picks the code.

use crate::diff::DiffError;
use crate::up::UpError;
use crate::workspace::ClaimError;
use equate_apiserver::cluster::{BuildError, ServeError};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The async runtime could not start.
    #[error("could not start the runtime")]
    Runtime(#[source] std::io::Error),
    /// The cluster could not be built.
    #[error("could not start the embedded API")]
    Build(#[source] Box<BuildError>),
    /// The address could not be served.
    #[error("could not serve the embedded API")]
    Serve(#[source] ServeError),
    /// The kubeconfig could not be written.
    #[error("could not write the kubeconfig {path}")]
    Kubeconfig {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// `equate up` did not start, or its wait was not fulfilled.
    #[error(transparent)]
    Up(#[from] UpError),
    /// It could not be told what would change.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// Standard output could not be written.
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
    /// Waiting for the interrupt failed.
    #[error("could not listen for signals")]
    Signal(#[source] std::io::Error),
}

impl Failure {
    /// What to do next.
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Serve(ServeError::Listen { .. }) => {
                Some("choose another port with --port, or 0 for any free one")
            }
            Self::Kubeconfig { .. } => Some("choose another place with --kubeconfig"),
            Self::Build(error) if matches!(**error, BuildError::Store(_)) => {
                Some("name another file with --persist, or leave it out to keep everything in memory")
            }
            Self::Up(UpError::Claim(ClaimError::Taken { .. })) => {
                Some("end that one first, or run this in another directory")
            }
            Self::Up(UpError::Repository(_)) => Some(
                "name a directory in a git repository that has a commit, or a URL; see `equate up --help`",
            ),
            Self::Up(UpError::Serve(ServeError::Listen { .. })) => {
                Some("choose another port with --port, or 0 for any free one")
            }
            Self::Up(UpError::NotReady { .. }) => {
                Some("run it without --once to watch it; --timeout waits longer")
            }
            Self::Diff(DiffError::None { .. }) => Some(
                "a GitRepository's spec.url must be this repository's origin; `equate get sources git -A` lists them",
            ),
            Self::Diff(_)
            | Self::Up(_)
            | Self::Runtime(_)
            | Self::Build(_)
            | Self::Serve(_)
            | Self::Output(_)
            | Self::Signal(_) => None,
        }
    }
}

/// Prints the failure with its causes to standard error; the exit code is 1 (2 is clap's, for bad usage).
pub(crate) fn report(failure: &Failure) -> ExitCode {
    let mut text = format!("error: {failure}");
    let mut cause: Option<&dyn Error> = failure.source();
    while let Some(error) = cause {
        text.push_str(&format!("\n  caused by: {error}"));
        cause = error.source();
    }
    if let Some(hint) = failure.hint() {
        text.push_str(&format!("\nhint: {hint}"));
    }
    eprintln!("{text}");
    ExitCode::FAILURE
}
