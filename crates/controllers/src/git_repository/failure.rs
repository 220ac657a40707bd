//! Failures of a GitRepository. Reasons and the beginnings of well-known messages are those of Flux's
//! source-controller.

use std::error::Error;

use equate_api::meta::{ConditionType, Reason};
use equate_git::{FetchError, GithubError, Kind, ResolveError, SubmoduleError};
use equate_source::{ComposeError, TreeError};

use super::credentials::SecretError;
use crate::kit::controller::Retry;
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;

pub(crate) use crate::sources::failure::Failure;

/// The beginning of the message if a repository cannot be read.
pub(super) const CHECKOUT: &str = "failed to checkout and determine revision";

fn passing(passing: bool) -> Retry {
    match passing {
        true => Retry::Backoff,
        false => Retry::Never,
    }
}

impl Failure {
    pub(crate) fn secret(error: &SecretError) -> Self {
        Self {
            condition: Some(ConditionType::FetchFailed),
            reason: error.reason(),
            message: chain(error),
            retry: passing(!error.is_final()),
        }
    }

    pub(crate) fn github(error: &GithubError) -> Self {
        Self {
            condition: Some(ConditionType::FetchFailed),
            reason: Reason::AuthenticationFailed,
            message: format!("failed to configure authentication options: {}", chain(error)),
            retry: Retry::Backoff,
        }
    }

    /// The included artifact does not exist, yet or at all. A change of it wakes the including source.
    pub(crate) fn include(reason: Reason, message: String) -> Self {
        Self {
            condition: Some(ConditionType::IncludeUnavailable),
            reason,
            message,
            retry: Retry::Backoff,
        }
    }

    pub(crate) fn path(name: &str, path: &str) -> Self {
        Self {
            condition: Some(ConditionType::StorageOperationFailed),
            reason: Reason::IllegalPath,
            message: format!(
                "path calculation for include '{name}' failed: {path:?} is outside the repository"
            ),
            retry: Retry::Never,
        }
    }

    pub(crate) fn copy(message: String) -> Self {
        Self {
            condition: Some(ConditionType::StorageOperationFailed),
            reason: Reason::CopyFailure,
            message,
            retry: Retry::Backoff,
        }
    }

    pub(crate) fn compose(error: &ComposeError) -> Self {
        match error {
            ComposeError::Tree(error) => Self::tree(error),
            ComposeError::Include { .. } => Self::copy(chain(error)),
            error => Self {
                condition: Some(ConditionType::FetchFailed),
                reason: Reason::GitOperationFailed,
                // the space before the colon is Flux's
                message: format!("failed to sparse checkout directories : {}", chain(error)),
                retry: Retry::Backoff,
            },
        }
    }

    pub(crate) fn submodules(error: &SubmoduleError, limit: TimeLimit) -> Self {
        Self {
            // another commit may name other submodules
            retry: Retry::Backoff,
            ..Self::git(error.kind(), error, limit)
        }
    }

    /// A signature is missing or invalid; another commit, tag or key may be valid.
    pub(crate) fn verification(reason: Reason, message: String) -> Self {
        Self {
            condition: Some(ConditionType::SourceVerified),
            reason,
            message,
            retry: Retry::Backoff,
        }
    }

    pub(crate) fn resolve(error: &ResolveError, limit: TimeLimit) -> Self {
        match error {
            ResolveError::Empty { .. } => Self {
                condition: Some(ConditionType::FetchFailed),
                reason: Reason::EmptyGitRepository,
                message: chain(error),
                retry: Retry::Backoff,
            },
            error => Self::git(error.kind(), error, limit),
        }
    }

    pub(crate) fn fetch(error: &FetchError, limit: TimeLimit) -> Self {
        Self::git(error.kind(), error, limit)
    }

    fn git(kind: Kind, error: &dyn Error, limit: TimeLimit) -> Self {
        let reason = match kind {
            Kind::UrlInvalid => Reason::UrlInvalid,
            // as upstream: its reason for authentication is about the Secret alone
            Kind::Authentication
            | Kind::ReferenceInvalid
            | Kind::ReferenceNotFound
            | Kind::RepositoryNotFound
            | Kind::Unreachable(_)
            | Kind::Tls
            | Kind::Timeout
            | Kind::RemoteFailure
            | Kind::Protocol
            | Kind::Limit
            | Kind::Storage => Reason::GitOperationFailed,
        };
        Self {
            condition: Some(ConditionType::FetchFailed),
            reason,
            message: format!(
                "{CHECKOUT}: {}{}",
                chain(error),
                match kind {
                    Kind::Timeout => limit.operators(),
                    _ => String::new(),
                }
            ),
            retry: passing(kind.is_transient()),
        }
    }

    pub(crate) fn tree(error: &TreeError) -> Self {
        Self {
            condition: Some(ConditionType::FetchFailed),
            reason: Reason::GitOperationFailed,
            message: format!("failed to read the commit's files: {}", chain(error)),
            // another commit may be smaller, or without the faulty file
            retry: Retry::Backoff,
        }
    }
}
