//! Decides from observations: pure, no client, no clock.

use equate_api::meta::{ConditionType, is_true};
use equate_api::source::{Artifact as Included, GitRepositoryStatus};
use equate_git::{Remote, Revision};

use super::declared::Declared;
use super::failure::Failure;
use super::host::Fetching;

#[derive(Debug)]
pub(crate) enum Seen {
    /// The object alone decides: nothing outside was read.
    Unobserved,
    Observed(Box<Observed>),
}

#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) status: GitRepositoryStatus,
    pub(crate) artifact: Artifact,
    /// The revision of the reference, if all that resolves it is available.
    pub(crate) revision: Result<Revision, Failure>,
    pub(crate) included: Vec<Included>,
    /// The open remote: fetching needs it again.
    pub(crate) remote: Option<Remote>,
    /// Of a new revision.
    pub(crate) fetching: Option<Fetching>,
}

impl Observed {
    pub(crate) fn is_lost(&self) -> bool {
        self.artifact == Artifact::Lost
    }
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
    /// The artifact is up to date.
    Keep,
    Publish(Revision, Why),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    First,
    /// The store lost the last one.
    Lost,
    Revision,
    /// The same revision, but the spec selects other files.
    Content,
    /// The same revision, but its signatures are not verified.
    Verification,
}

/// Decides from the object, then from the repository and the store.
pub(crate) fn decide(declared: &Declared, seen: &Seen) -> Plan {
    if declared.deleting {
        return Plan::Delete;
    }
    if let Some(field) = declared.unsupported {
        let failure = Failure::unsupported(field, "repository");
        return Plan::Fail { failure, lost: false };
    }
    match seen {
        Seen::Observed(observed) => compare(declared, observed),
        // nothing was read, for a reason that is not here
        Seen::Unobserved => Plan::Keep,
    }
}

fn compare(declared: &Declared, seen: &Observed) -> Plan {
    let status = &seen.status;
    let revision = match &seen.revision {
        Ok(revision) => revision.clone(),
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
        Artifact::Stored if stored != Some(&revision.to_string()) => Why::Revision,
        Artifact::Stored if takes_other_files(declared, status, &seen.included) => Why::Content,
        Artifact::Stored if is_unverified(declared, status) => Why::Verification,
        Artifact::Stored => return Plan::Keep,
    };
    Plan::Publish(revision, why)
}

/// Whether the artifact lacks a required verification.
fn is_unverified(declared: &Declared, status: &GitRepositoryStatus) -> bool {
    declared.verify.as_ref().is_some_and(|verify| {
        !verify.is_covered_by(status.source_verification_mode.as_deref())
            || !is_true(&status.conditions, ConditionType::SourceVerified)
    })
}

/// Whether the artifact was made under other rules, or from other included artifacts.
fn takes_other_files(declared: &Declared, status: &GitRepositoryStatus, included: &[Included]) -> bool {
    let same = |(old, new): (&Included, &Included)| old.revision == new.revision && old.digest == new.digest;
    status.observed_ignore != declared.ignore
        || status.observed_sparse_checkout != declared.sparse
        || status.observed_recurse_submodules != declared.submodules
        || status.observed_include != declared.include
        || status.included_artifacts.len() != included.len()
        || !status.included_artifacts.iter().zip(included).all(same)
}
