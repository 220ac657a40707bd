//! Commands that release versions: they work on a clone, and need neither a server nor a cluster.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done, or nothing to do |
//! | 1 | an error |
//! | 2 | wrong usage |
//! | 3 | a rule refused |
//! | 4 | written, and unhealthy |
//! | 5 | the outcome is unknown |
//! | 6 | the plan is stale |

mod applied;
pub(crate) mod describe;
pub(crate) mod doctor;
pub(crate) mod history;
pub(crate) mod holds;
mod index;
pub(crate) mod init;
pub(crate) mod matrix;
mod past;
mod plan_file;
pub(crate) mod promote;
mod read_ahead;
mod repository;
mod snapshot;
pub(crate) mod status;
mod text;
pub(crate) mod undeploy;
mod view;
mod wait;
mod write;

use crate::failure::{Failure, StdoutError};
use equate_git::{ChangeError, OpenError, Refusal, TreeError};
use equate_release::edit::EditError;
use equate_release::plan::PlanError;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) const POLICY: u8 = 3;
pub(crate) const UNHEALTHY: u8 = 4;
pub(crate) const UNKNOWN: u8 = 5;
pub(crate) const STALE: u8 = 6;

/// The form of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// Text.
    #[default]
    Text,
    /// Text with more columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReleaseError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Change(ChangeError<Box<Self>>),
    #[error(transparent)]
    Stdout(#[from] StdoutError),
    #[error("cannot read the history: an object of the repository is missing or damaged")]
    Object(#[source] TreeError),
    #[error("cannot read the services from standard input")]
    Stdin(#[source] std::io::Error),
    #[error("HEAD is on no branch")]
    Detached,
    #[error("no name and address for the commit")]
    NoAuthor,
    #[error("{0:?} is not a name and an address")]
    Author(String),
    #[error("commit.gpgsign is set, and commits are not signed by this version of equate")]
    Signing,
    #[error("{0:?} is not NAME=VERSION")]
    Image(String),
    #[error("{0:?} is not a time or a duration")]
    Until(String),
    #[error("{0:?} is not a time in the past")]
    At(String),
    #[error("{0:?} is not ENVIRONMENT or ENVIRONMENT@TIME")]
    Side(String),
    #[error("undeploy deletes objects from a cluster, and there is no terminal to confirm it")]
    Unconfirmed,
    #[error("not confirmed; nothing was written")]
    Declined,
    #[error("the environment is given twice: {at:?} and --env {env}")]
    TwoEnvironments { at: String, env: String },
    #[error("the history begins at {first}, after {time}")]
    Begins {
        first: String,
        time: String,
        is_shallow: bool,
    },
    #[error("{name} is not a plan file of this version of equate")]
    PlanFile { name: String },
    #[error("could not {doing} {}", path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{name} is a plan of `equate {command}`")]
    OtherPlan { name: String, command: String },
    #[error("the plan is stale: the repository changed so that the same request changes something else")]
    Stale,
    #[error("the repository changed since the question, so that something else would be removed")]
    Changed,
    #[error("{0} exists already")]
    Exists(&'static str),
    #[error("{service} in {environment} is not healthy: {cause}")]
    Unhealthy {
        service: String,
        environment: String,
        cause: String,
    },
    #[error("the outcome in {environment} is unknown: {reason}")]
    Blind { environment: String, reason: String },
}

impl From<ChangeError<Box<Self>>> for ReleaseError {
    fn from(error: ChangeError<Box<Self>>) -> Self {
        match error {
            ChangeError::Make(error) => *error,
            other => Self::Change(other),
        }
    }
}

impl ReleaseError {
    /// The exit code of the process.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Author(_) | Self::Image(_) | Self::Until(_) => 2,
            Self::At(_) | Self::Side(_) | Self::TwoEnvironments { .. } | Self::Unconfirmed => 2,
            Self::Plan(
                PlanError::Environment { .. } | PlanError::Service { .. } | PlanError::First { .. },
            ) => 2,
            Self::Unhealthy { .. } => UNHEALTHY,
            Self::Blind { .. } | Self::Change(ChangeError::Unknown { .. }) => UNKNOWN,
            Self::Stale | Self::Changed => STALE,
            _ => 1,
        }
    }
}

impl Failure for ReleaseError {
    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Plan(PlanError::NoEnvironments) => {
                "write an equate.yaml that lists environments and their directories"
            }
            Self::Plan(PlanError::First { .. }) => "name the version: --version, or --image NAME=VERSION",
            Self::Plan(PlanError::Ambiguous { .. }) => "choose one with --from",
            Self::Plan(PlanError::Range { .. }) => "give one version with --pin",
            Self::Plan(PlanError::NothingBefore { .. }) => "name the version with --to",
            Self::Plan(PlanError::NotHeld { .. }) => "list holds with `equate status`",
            Self::Plan(PlanError::Edit(EditError::Others { .. })) => {
                "set the version in a place that this service alone uses"
            }
            Self::Change(ChangeError::Dirty { .. }) => "commit or stash them, or push without --local",
            Self::Change(ChangeError::Refused { cause, .. }) => match cause {
                Refusal::Rule => {
                    "if the branch is protected, allow your account to push, or push to another one with --branch"
                }
                Refusal::CheckedOut => {
                    "push to a bare repository, or check out another branch there; in that clone itself, give --local"
                }
                Refusal::Permission => "give your user write permission to the files of that repository",
                Refusal::Locked => {
                    "another push holds the branch: try again; if a push was killed there, remove the .lock file of \
                     the ref on the server"
                }
            },
            Self::Change(ChangeError::Locked { .. }) => {
                "if no git process works in that repository, one that was killed left the file: remove it and try again"
            }
            Self::Change(ChangeError::Unknown { .. }) => {
                "run the same command again: it says whether the version is there"
            }
            Self::Change(ChangeError::Moved { .. }) => "try again",
            Self::Object(_) => "check the clone with `git fsck`, or clone again without a filter",
            Self::Detached => "name the branch with --branch",
            Self::NoAuthor => {
                "set user.name and user.email with git config, or give --author 'Name <address>'"
            }
            Self::Author(_) => "write it as 'Name <address>'",
            Self::Signing => "give --no-gpg-sign to commit without a signature",
            Self::Image(_) => "write it as registry.example/checkout=2.4.1",
            Self::Until(_) => "write it as 2026-11-27, 2026-11-27T16:00:00Z or 3d",
            Self::At(_) => "write it as 2026-11-20, 2026-11-20T16:00:00Z, or 3d for three days ago",
            Self::Side(_) => "write it as staging@2026-11-20 or prod-eu@3d; without a time, it means now",
            Self::TwoEnvironments { .. } => "give one of them",
            Self::Unconfirmed => "give --yes, or --dry-run to see the change",
            Self::Plan(PlanError::Undeploy { .. }) => {
                "remove these references first, then run the command again"
            }
            Self::Begins { is_shallow: true, .. } => "fetch the whole history: git fetch --unshallow",
            Self::OtherPlan { .. } => "give it to that command with --apply",
            Self::Stale => "make a new plan with --plan",
            Self::Changed => "run the command again",
            Self::Exists(_) => "edit it, or remove it first",
            Self::Blind { .. } => {
                "name a cluster under `clusters` in equate.yaml or with --context, or run `equate up` here"
            }
            _ => return None,
        })
    }

    fn hint_with_names(&self) -> Option<String> {
        match self {
            Self::Plan(PlanError::Environment { near, known, .. }) => {
                let names = format!("the environments are {}", known.join(", "));
                Some(match near {
                    Some(near) => format!("did you mean {near}? {names}"),
                    None => names,
                })
            }
            Self::Plan(PlanError::Service { near: Some(near), .. }) => Some(format!("did you mean {near}?")),
            Self::Plan(PlanError::Version { known, .. }) if !known.is_empty() => {
                Some(format!("known versions are {}", known.join(", ")))
            }
            Self::Plan(PlanError::Image { known, .. }) if !known.is_empty() => {
                Some(format!("its images are {}", known.join(", ")))
            }
            _ => self.hint().map(str::to_owned),
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Stdout(error) if error.is_reader_gone())
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }
}
