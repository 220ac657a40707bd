//! How a command fails: one place that prints the chain, the hint, and picks the code.

use crate::build::RenderError;
use crate::build::kustomization::KustomizationError;
use crate::build::output::OutputError;
use crate::connection::ConnectError;
use crate::controllers::ControllersError;
use crate::diff::DiffError;
use crate::events::EventsError;
use crate::explain::ExplainError;
use crate::get::GetError;
use crate::install::InstallError;
use crate::objects::RequestError;
use crate::reconcile::ReconcileError;
use crate::suspend::SuspendError;
use crate::template::TemplateError;
use crate::tree::TreeError;
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
    /// Something else wrote the file that a kubeconfig was to be written to.
    #[error("the kubeconfig {path} is there and was not written by `equate api`: it is not overwritten")]
    KubeconfigTaken {
        /// Where.
        path: PathBuf,
    },
    /// `equate up` did not start, or its wait was not fulfilled.
    #[error(transparent)]
    Up(#[from] UpError),
    /// `equate controllers` did not start, or broke off.
    #[error(transparent)]
    Controllers(#[from] ControllersError),
    /// Equate is not installed, or does not run.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// Nothing was built.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// No chart was rendered.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// It could not be told what would change.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// There is no cluster to talk to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Nothing was listed.
    #[error(transparent)]
    Get(#[from] GetError),
    /// No tree was shown.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Nothing was explained.
    #[error(transparent)]
    Explain(#[from] ExplainError),
    /// No events were listed.
    #[error(transparent)]
    Events(#[from] EventsError),
    /// An object is not as it should be after its run.
    #[error(transparent)]
    Reconcile(#[from] ReconcileError),
    /// An object does not rest, or does not work.
    #[error(transparent)]
    Suspend(#[from] SuspendError),
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
            Self::KubeconfigTaken { .. } => Some(
                "`equate api` runs a cluster of its own and writes the way to it there: choose another file, or none",
            ),
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
            // To wait longer for what has failed mends nothing.
            Self::Up(UpError::NotReady { early: true, .. }) => Some("run it without --once to watch it"),
            Self::Up(UpError::NotReady { early: false, .. }) => {
                Some("run it without --once to watch it; --timeout waits longer")
            }
            Self::Diff(DiffError::None { .. }) => Some(
                "a GitRepository's spec.url must be this repository's origin; `equate get sources git -A` lists them",
            ),
            Self::Controllers(ControllersError::InCluster(_)) => {
                Some("name a cluster with --kubeconfig; in a pod, mount the token of its ServiceAccount")
            }
            Self::Connect(error)
            | Self::Controllers(ControllersError::Connect(error))
            | Self::Diff(DiffError::Connect(error))
            | Self::Template(TemplateError::Connect(error))
            | Self::Render(RenderError::Kustomization(KustomizationError::Connect(error))) => {
                connection_hint(error)
            }
            Self::Render(RenderError::Target(_)) => Some(
                "DIR is a directory, REPO@REV:PATH where REPO is a directory, or a URL; see `equate build --help`",
            ),
            Self::Get(GetError::Kind(_))
            | Self::Tree(TreeError::Kind(_))
            | Self::Explain(ExplainError::Kind(_))
            | Self::Events(EventsError::Kind(_))
            | Self::Reconcile(ReconcileError::Kind(_))
            | Self::Suspend(SuspendError::Kind(_)) => Some(
                "kinds are called as in Flux and kubectl: kustomizations or ks, sources git or gitrepo, hr, ...",
            ),
            Self::Get(GetError::NothingServed) => Some(NOT_SERVED),
            Self::Get(GetError::Request(error))
            | Self::Tree(TreeError::Request(error))
            | Self::Explain(ExplainError::Request(error))
            | Self::Events(EventsError::Request(error))
            | Self::Reconcile(ReconcileError::Request(error))
            | Self::Suspend(SuspendError::Request(error)) => request_hint(error),
            Self::Reconcile(error) | Self::Suspend(SuspendError::Reconcile(error)) => reconcile_hint(error),
            Self::Install(error) => install_hint(error),
            Self::Explain(ExplainError::Elsewhere { .. }) => Some("-n names the namespace"),
            Self::Diff(_)
            | Self::Render(_)
            | Self::Template(_)
            | Self::Get(_)
            | Self::Tree(_)
            | Self::Events(_)
            | Self::Explain(_)
            | Self::Suspend(_)
            | Self::Up(_)
            | Self::Controllers(_)
            | Self::Runtime(_)
            | Self::Build(_)
            | Self::Serve(_)
            | Self::Output(_)
            | Self::Signal(_) => None,
        }
    }
}

const NOT_SERVED: &str =
    "the definitions of Flux's kinds are not installed there: is it the cluster you mean?";

fn connection_hint(error: &ConnectError) -> Option<&'static str> {
    match error {
        ConnectError::Unchosen { .. } => {
            Some("run `equate up` here, set KUBECONFIG, or name a cluster with --kubeconfig or --context")
        }
        ConnectError::Read { .. } | ConnectError::Context { .. } => {
            Some("name another with --kubeconfig or --context")
        }
        ConnectError::Directory(_) | ConnectError::Use { .. } => None,
    }
}

fn install_hint(error: &InstallError) -> Option<&'static str> {
    match error {
        InstallError::OwnCluster => Some("name another cluster with --kubeconfig or --context"),
        InstallError::Held { .. } => Some(
            "--beside-flux leaves Flux's objects as they are; or put there what --export prints, see docs/install.md; --force writes them all the same",
        ),
        InstallError::Elsewhere { .. } => {
            Some("name that namespace with -n, or scale it to 0 and say --force")
        }
        InstallError::NoFlux { .. } => Some("install without --beside-flux, or name its namespace with -n"),
        InstallError::Late { .. } => Some(
            "while Flux's controllers run they hold the Leases; --timeout waits longer, --no-wait not at all",
        ),
        InstallError::Unestablished { .. }
        | InstallError::Definition(_)
        | InstallError::Unread { .. }
        | InstallError::Unserved { .. }
        | InstallError::Unknown { .. }
        | InstallError::Refused { .. }
        | InstallError::Answer { .. }
        | InstallError::Watch { .. }
        | InstallError::Output(_) => None,
    }
}

fn request_hint(error: &RequestError) -> Option<&'static str> {
    match error {
        RequestError::NotFound { .. } => {
            Some("`equate get all -A` lists what there is; -n names another namespace")
        }
        RequestError::NotServed(_) => Some(NOT_SERVED),
        RequestError::Failed { source, .. } if !matches!(**source, kube::Error::Api(_)) => {
            Some("does the cluster run? --kubeconfig and --context choose another")
        }
        RequestError::Failed { .. } => None,
    }
}

fn reconcile_hint(error: &ReconcileError) -> Option<&'static str> {
    match error {
        ReconcileError::Suspended { .. } => Some("`equate resume` lets it work again"),
        ReconcileError::NotReady { .. } => Some("`equate events --for KIND/NAME` says more"),
        ReconcileError::Timeout { .. } => Some("--timeout waits longer; `equate get` shows how it stands"),
        _ => None,
    }
}

impl Failure {
    /// Whether the reader of standard output left early, as `head` does: that is no failure.
    pub(crate) fn is_reader_gone(&self) -> bool {
        let (Self::Output(error)
        | Self::Render(RenderError::Output(OutputError::Standard(error)))
        | Self::Template(TemplateError::Output(error))
        | Self::Get(GetError::Output(error))
        | Self::Tree(TreeError::Output(error))
        | Self::Events(EventsError::Output(error))
        | Self::Explain(ExplainError::Output(error))
        | Self::Reconcile(ReconcileError::Output(error))
        | Self::Suspend(SuspendError::Output(error))
        | Self::Install(InstallError::Output(error))) = self
        else {
            return false;
        };
        error.kind() == std::io::ErrorKind::BrokenPipe
    }
}

/// Prints the failure with its causes to standard error; the exit code is 1 (2 is clap's, for bad usage).
pub(crate) fn report(failure: &Failure) -> ExitCode {
    let mut text = format!("{} {failure}", console::style("error:").red().bold().for_stderr());
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
