//! Decides from observations: pure, no client, no clock.

use std::fs::File;

use equate_api::source::HelmRepositoryStatus;

use super::declared::Declared;
use crate::sources::failure::Failure;

#[derive(Debug)]
pub(crate) enum Seen {
    /// The object alone decides, with its status.
    Unobserved(Box<HelmRepositoryStatus>),
    Observed(Box<Observed>),
}

#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) status: HelmRepositoryStatus,
    pub(crate) artifact: Artifact,
    pub(crate) index: Result<Index, Failure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Artifact {
    /// The status names none.
    None,
    /// In the store, intact.
    Stored,
    Lost,
}

#[derive(Debug)]
pub(crate) enum Index {
    /// The host says that it has the index of the artifact.
    Unchanged,
    Fetched {
        /// Its text: a large one does not stay in memory.
        file: File,
        revision: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It is of type `oci`, and has nothing to clear.
    Nothing,
    /// Remove the artifacts, then the finalizer.
    Delete,
    /// It became one of type `oci`: remove the artifacts, then status and finalizer.
    Clear,
    /// Report the failure. The present artifact stays, unless the store lost it.
    Fail {
        failure: Failure,
        lost: bool,
    },
    /// The artifact is up to date.
    Keep,
    Publish {
        revision: String,
        lost: bool,
    },
}

/// Decides from the object, then from the host and the store.
pub(crate) fn decide(declared: &Declared, seen: &Seen) -> Plan {
    if declared.deleting {
        return Plan::Delete;
    }
    match seen {
        Seen::Unobserved(status) if **status == HelmRepositoryStatus::default() => Plan::Nothing,
        Seen::Unobserved(_) => Plan::Clear,
        Seen::Observed(observed) => compare(observed),
    }
}

fn compare(seen: &Observed) -> Plan {
    let lost = seen.artifact == Artifact::Lost;
    let stored = seen.status.artifact.as_ref();
    let stored = stored.filter(|_| seen.artifact == Artifact::Stored);
    match &seen.index {
        Err(failure) => Plan::Fail {
            failure: failure.clone(),
            lost,
        },
        Ok(Index::Unchanged) => Plan::Keep,
        Ok(Index::Fetched { revision, .. }) => {
            match stored.is_some_and(|artifact| artifact.revision == *revision) {
                true => Plan::Keep,
                false => Plan::Publish {
                    revision: revision.clone(),
                    lost,
                },
            }
        }
    }
}
