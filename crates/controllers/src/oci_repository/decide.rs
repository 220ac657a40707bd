//! Decides from observations: pure, no client, no clock.

use equate_api::meta::{ConditionType, condition, is_true};
use equate_api::source::OciRepositoryStatus;
use equate_registry::oci_spec::image::Digest;
use equate_registry::{Access, Repository, Version};

use super::declared::Declared;
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
    pub(crate) status: OciRepositoryStatus,
    pub(crate) artifact: Artifact,
    pub(crate) found: Result<Found, Failure>,
    /// How the registry is reached: pulling needs it again.
    pub(crate) open: Option<(Repository, Access)>,
}

impl Observed {
    pub(crate) fn is_lost(&self) -> bool {
        self.artifact == Artifact::Lost
    }
}

/// The manifest of the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) version: Version,
    pub(crate) digest: Digest,
    /// `tag@digest`, or the digest alone.
    pub(crate) revision: String,
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
    /// It was deleted meanwhile: begin again.
    End,
    /// Remove the artifacts, then the finalizer.
    Delete,
    /// Report the failure. The present artifact stays, unless the store lost it.
    Fail {
        failure: Failure,
        lost: bool,
    },
    /// The artifact is up to date.
    Keep,
    /// The artifact is up to date, but not verified.
    Verify(Found),
    Publish(Found, Why),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    First,
    /// The store lost the last one.
    Lost,
    Revision,
    /// The same revision, but the spec selects other content.
    Content,
}

/// Decides from the object, then from the registry and the store.
pub(crate) fn decide(declared: &Declared, seen: &Seen) -> Plan {
    if declared.deleting {
        return Plan::Delete;
    }
    if let Some(failure) = declared.refused() {
        return Plan::Fail { failure, lost: false };
    }
    match seen {
        Seen::Observed(observed) => compare(declared, observed),
        // nothing was read, for a reason that is not here
        Seen::Unobserved => Plan::Keep,
        Seen::Deleted => Plan::End,
    }
}

fn compare(declared: &Declared, seen: &Observed) -> Plan {
    let status = &seen.status;
    let found = match &seen.found {
        Ok(found) => found.clone(),
        Err(failure) => {
            return Plan::Fail {
                failure: failure.clone(),
                lost: seen.is_lost(),
            };
        }
    };
    let stored = status.artifact.as_ref().map(|artifact| &artifact.revision);
    let why = match seen.artifact {
        Artifact::None => Why::First,
        Artifact::Lost => Why::Lost,
        Artifact::Stored if stored != Some(&found.revision) => Why::Revision,
        Artifact::Stored if takes_other_content(declared, status) => Why::Content,
        Artifact::Stored if is_unverified(declared, status) => return Plan::Verify(found),
        Artifact::Stored => return Plan::Keep,
    };
    Plan::Publish(found, why)
}

/// Whether the artifact was never verified by this spec.
fn is_unverified(declared: &Declared, status: &OciRepositoryStatus) -> bool {
    let verified = ConditionType::SourceVerified;
    let observed =
        condition(&status.conditions, verified).and_then(|condition| condition.observed_generation);
    declared.verify.is_some()
        && (!is_true(&status.conditions, verified) || observed != Some(declared.generation))
}

/// Whether the artifact was made under other rules.
fn takes_other_content(declared: &Declared, status: &OciRepositoryStatus) -> bool {
    status.observed_ignore != declared.ignore || status.observed_layer_selector != declared.selector
}
