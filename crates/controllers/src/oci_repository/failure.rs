//! Failures of an OCIRepository. Reasons and the beginnings of messages are those of Flux's
//! `ocirepository_controller.go` (v1.9).

use equate_api::meta::{ConditionType, Reason};
use equate_registry::tags::TagError;
use equate_registry::{Error, NameError, Reason as Class};
use equate_source::UnpackError;

use super::declared::UrlError;
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;
use crate::sources::failure::Failure;

fn fetch(reason: Reason, message: String) -> Failure {
    Failure::passing(ConditionType::FetchFailed, reason, message)
}

fn told(error: &Error, limit: TimeLimit) -> String {
    match error.reason() {
        Class::Timeout => format!("{}{}", chain(error), limit.operators()),
        _ => chain(error),
    }
}

pub(super) fn url(url: &str, error: &UrlError) -> Failure {
    let message = format!("URL validation failed for '{url}': {}", chain(error));
    Failure::stalling(ConditionType::FetchFailed, Reason::UrlInvalid, message)
}

/// The digest or tag of the spec is malformed: only another spec helps.
pub(super) fn version(error: &NameError) -> Failure {
    let message = format!("failed to determine artifact digest: {}", chain(error));
    Failure::stalling(ConditionType::FetchFailed, Reason::OciArtifactPullFailed, message)
}

/// `doing` is `get credential`, `get proxy address` or `generate transport for '…'`.
pub(super) fn access(doing: &str, problem: &str, is_final: bool) -> Failure {
    let message = format!("failed to {doing}: {problem}");
    match is_final {
        true => Failure::stalling(ConditionType::FetchFailed, Reason::AuthenticationFailed, message),
        false => fetch(Reason::AuthenticationFailed, message),
    }
}

pub(super) fn open(url: &str, error: &Error) -> Failure {
    access(&format!("generate transport for '{url}'"), &chain(error), false)
}

pub(super) fn list(url: &str, error: &Error, limit: TimeLimit) -> Failure {
    tag(url, &told(error, limit))
}

/// Another tag may be pushed.
pub(super) fn no_tag(url: &str, error: &TagError) -> Failure {
    match error {
        TagError::None(_) | TagError::Ended => tag(url, &error.to_string()),
        TagError::Range { .. } | TagError::Filter { .. } => Failure {
            retry: crate::kit::controller::Retry::Never,
            ..tag(url, &error.to_string())
        },
    }
}

pub(super) fn tag(url: &str, problem: &str) -> Failure {
    let message = format!("failed to determine the artifact tag for '{url}': {problem}");
    fetch(Reason::ReadOperationFailed, message)
}

pub(super) fn digest(error: &Error, limit: TimeLimit) -> Failure {
    let message = format!("failed to determine artifact digest: {}", told(error, limit));
    fetch(Reason::OciArtifactPullFailed, message)
}

pub(super) fn pull(url: &str, error: &Error, limit: TimeLimit) -> Failure {
    let message = format!("failed to pull artifact from '{url}': {}", told(error, limit));
    fetch(Reason::OciArtifactPullFailed, message)
}

pub(super) fn layer(message: String) -> Failure {
    fetch(Reason::OciArtifactLayerOperationFailed, message)
}

pub(super) fn download(copies: bool, error: &Error, limit: TimeLimit) -> Failure {
    layer(format!("{}: {}", doing(copies), told(error, limit)))
}

pub(super) fn unpack(error: &UnpackError) -> Failure {
    layer(format!("{}: {}", doing(false), chain(error)))
}

pub(super) fn doing(copies: bool) -> &'static str {
    match copies {
        true => "failed to copy layer from artifact",
        false => "failed to extract layer contents from artifact",
    }
}

pub(super) fn copied(error: &equate_source::StorageError) -> Failure {
    let message = format!("unable to copy artifact to storage: {}", chain(error));
    Failure::passing(
        ConditionType::StorageOperationFailed,
        Reason::ArchiveOperationFailed,
        message,
    )
}
