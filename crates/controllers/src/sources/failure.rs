//! Failures of a source: the condition, its reason and message, and whether a retry helps. Reasons and the
//! beginnings of well-known messages are those of Flux's source-controller.

use equate_api::meta::{ConditionType, Reason};
use equate_egress::Refusal;
use equate_source::{PlaceError, StorageError};

use crate::Key;
use crate::kit::controller::{self, Retry};
use crate::kit::processors::JobError;
use crate::kit::read::chain;

/// The conditions of failures, of all kinds of sources.
pub(crate) const CONDITIONS: [ConditionType; 4] = [
    ConditionType::FetchFailed,
    ConditionType::BuildFailed,
    ConditionType::StorageOperationFailed,
    ConditionType::IncludeUnavailable,
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The condition beside `Ready`; none where only `Stalled` is set.
    pub(crate) condition: Option<ConditionType>,
    pub(crate) reason: Reason,
    pub(crate) message: String,
    /// Whether it can succeed without a change of the spec.
    pub(crate) retry: Retry,
}

impl From<PlaceError> for controller::Failure {
    /// No API server accepts such a name.
    fn from(error: PlaceError) -> Self {
        Self::stalled(Reason::Failed, error.to_string())
    }
}

impl Failure {
    /// A failure that may pass by itself.
    pub(crate) fn passing(condition: ConditionType, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            condition: Some(condition),
            reason,
            message: message.into(),
            retry: Retry::Backoff,
        }
    }

    /// A failure that only another spec can fix.
    pub(crate) fn stalling(condition: ConditionType, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            retry: Retry::Never,
            ..Self::passing(condition, reason, message)
        }
    }

    /// The failure without its own condition.
    pub(crate) fn general(&self) -> controller::Failure {
        controller::Failure {
            reason: self.reason,
            message: self.message.clone(),
            retry: self.retry,
        }
    }

    /// Whether the status hides the revision: it is not verified, or it is the first (`first`) and was
    /// never fetched.
    pub(crate) fn hides_revision(&self, first: bool) -> bool {
        match self.condition {
            Some(ConditionType::SourceVerified) => true,
            Some(ConditionType::FetchFailed) => first,
            _ => false,
        }
    }

    /// A field of the spec that Equate does not support. `what` is the noun for the source.
    pub(crate) fn unsupported(field: &str, what: &str) -> Self {
        Self {
            condition: None,
            reason: Reason::Unsupported,
            message: format!(
                "{field} is not supported yet; remove it. Until then the {what} is not fetched \
                 and the last artifact is kept"
            ),
            retry: Retry::Never,
        }
    }

    /// The failure with a way to repair it.
    pub(crate) fn advised(mut self, advice: Option<String>) -> Self {
        if let Some(advice) = advice {
            self.message = format!("{} ({advice})", self.message);
        }
        self
    }

    /// The host does not answer this namespace, and is not asked. `doing` is the beginning of the message.
    pub(crate) fn closed(reason: Reason, doing: &str, refusal: &Refusal) -> Self {
        let message = format!("{doing}: {refusal}");
        Self::passing(ConditionType::FetchFailed, reason, message)
    }

    pub(crate) fn storage(error: &StorageError) -> Self {
        Self::passing(
            ConditionType::StorageOperationFailed,
            Reason::ArchiveOperationFailed,
            format!("unable to archive artifact to storage: {}", chain(error)),
        )
    }

    /// Work on a processor did not end. `doing` is the beginning of the message.
    pub(crate) fn unfinished(error: &JobError, reason: Reason, key: &Key, doing: &str) -> Self {
        let message = match error {
            JobError::Late(limit) => {
                let limit: equate_api::meta::Duration = (*limit).into();
                format!(
                    "{doing}: it takes longer than {limit} of a processor; use fewer files or patterns, or raise \
                     --timeout-max"
                )
            }
            JobError::NoThread | JobError::Displaced => format!("{doing}: {}", chain(error)),
            JobError::Panicked(_) => return Self::broken(reason, key),
        };
        Self::passing(ConditionType::FetchFailed, reason, message)
    }

    /// A thread panicked: a defect, with details in the log.
    pub(crate) fn broken(reason: Reason, key: &Key) -> Self {
        let message = format!("internal error while reconciling {key}; see the controller's log");
        Self::passing(ConditionType::FetchFailed, reason, message)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn unfinished_work_has_advice() {
        let check = |error: JobError, expected: &str| {
            let failure =
                Failure::unfinished(&error, Reason::Failed, &Key::new("apps", "app"), "cannot make it");
            assert_eq!((&*failure.message, failure.retry), (expected, Retry::Backoff));
        };
        let late = "cannot make it: it takes longer than 1m0s of a processor; use fewer files or patterns, or raise \
                    --timeout-max";
        check(JobError::Late(Duration::from_secs(60)), late);
        let thread = "cannot make it: cannot start a thread; raise the limit of processes of this container";
        check(JobError::NoThread, thread);
        let memory = "cannot make it: all builds together used too much memory";
        check(JobError::Displaced, memory);
        let defect = "internal error while reconciling apps/app; see the controller's log";
        check(JobError::Panicked("a secret".to_owned()), defect);
    }
}
