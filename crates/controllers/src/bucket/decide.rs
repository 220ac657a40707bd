//! Decides from observations: pure, no client, no clock.

use equate_api::source::BucketStatus;
use equate_bucket::Access;

use super::declared::Declared;
use super::index::Index;
use crate::sources::failure::Failure;

#[derive(Debug)]
pub(crate) enum Seen {
    /// The object alone decides: nothing outside was read.
    Unobserved,
    /// It was deleted while it was observed.
    Deleted,
    Observed(Box<Observed>),
}

#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) status: BucketStatus,
    pub(crate) artifact: Artifact,
    pub(crate) found: Result<Found, Failure>,
}

impl Observed {
    pub(crate) fn is_lost(&self) -> bool {
        self.artifact == Artifact::Lost
    }
}

/// The objects of the bucket.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) index: Index,
    pub(crate) revision: String,
    /// The `.sourceignore`, which the artifact contains.
    pub(crate) ignore_file: Option<Vec<u8>>,
    /// How the store is reached: fetching needs it again.
    pub(crate) access: Access,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Artifact {
    /// The status names none.
    None,
    /// In the store, intact.
    Stored,
    Lost,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Remove the artifacts, then the finalizer.
    Delete,
    /// Report the failure. The present artifact stays, unless the store lost it.
    Fail {
        failure: Failure,
        lost: bool,
    },
    /// The artifact is up to date; its number of objects.
    Keep {
        objects: usize,
    },
    Publish {
        revision: String,
        why: Why,
    },
    /// The next run deletes it.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    First,
    /// The store lost the last one.
    Lost,
    Revision,
}

/// Decides from the object, then from the store of objects and that of artifacts.
pub(crate) fn decide(declared: &Declared, seen: &Seen) -> Plan {
    if declared.deleting {
        return Plan::Delete;
    }
    if let Some(failure) = declared.refused() {
        return Plan::Fail { failure, lost: false };
    }
    match seen {
        Seen::Observed(observed) => compare(observed),
        // nothing was read, for a reason that is not here
        Seen::Unobserved => Plan::Keep { objects: 0 },
        Seen::Deleted => Plan::End,
    }
}

fn compare(seen: &Observed) -> Plan {
    let found = match &seen.found {
        Ok(found) => found,
        Err(failure) => {
            return Plan::Fail {
                failure: failure.clone(),
                lost: seen.is_lost(),
            };
        }
    };
    let stored = seen.status.artifact.as_ref().map(|artifact| &artifact.revision);
    let why = match seen.artifact {
        Artifact::None => Why::First,
        Artifact::Lost => Why::Lost,
        Artifact::Stored if stored != Some(&found.revision) => Why::Revision,
        Artifact::Stored => {
            let objects = found.index.0.len();
            return Plan::Keep { objects };
        }
    };
    Plan::Publish {
        revision: found.revision.clone(),
        why,
    }
}
