//! What to do, from what was seen: pure, no client, no clock.

use equate_api::meta::{ConditionType, is_true};
use equate_api::source::{Artifact as Included, GitRepositoryStatus};
use equate_git::Revision;

use super::declared::Declared;
use super::failure::Failure;

/// What a run is about, before anything outside is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Its artifacts go, then the finalizer.
    Delete,
    /// It is suspended: what there is stays as it is.
    Rest,
    /// Nothing can be done until the spec changes.
    Stall(Failure),
    /// The repository is looked at.
    Look,
}

/// What there is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) artifact: Artifact,
    /// What the reference leads to in the repository, if all that is needed to know it is there.
    pub(crate) revision: Result<Revision, Failure>,
    /// The artifacts to include, in the order of `spec.include`.
    pub(crate) included: Vec<Included>,
}

/// The artifact that the status names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Artifact {
    /// It names none.
    None,
    /// It is in the store, whole.
    Stored,
    /// It is not, or it is damaged.
    Lost,
}

/// What to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The artifact is what the repository says.
    Keep,
    /// An artifact is made of this revision.
    Publish(Revision, Why),
    /// Nothing is known: what there is stays.
    Fail(Failure),
}

/// Why an artifact is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// There was none yet.
    First,
    /// There was one, which is no longer in the store.
    Lost,
    /// The reference leads elsewhere than before.
    Revision,
    /// The same revision, but the spec takes other files of it.
    Content,
    /// The same revision, whose signatures nobody looked at yet.
    Verification,
}

/// What the object itself says.
pub(crate) fn admit(declared: &Declared) -> Admission {
    if declared.deleting {
        return Admission::Delete;
    }
    if declared.suspend {
        return Admission::Rest;
    }
    match declared.unsupported {
        Some(field) => Admission::Stall(Failure::unsupported(field)),
        None => Admission::Look,
    }
}

/// What the repository and the store say.
pub(crate) fn decide(declared: &Declared, status: &GitRepositoryStatus, seen: &Seen) -> Decision {
    let revision = match &seen.revision {
        Ok(revision) => revision.clone(),
        Err(failure) => return Decision::Fail(failure.clone()),
    };
    let stored = status.artifact.as_ref().map(|artifact| &artifact.revision);
    match seen.artifact {
        Artifact::None => Decision::Publish(revision, Why::First),
        Artifact::Lost => Decision::Publish(revision, Why::Lost),
        Artifact::Stored if stored != Some(&revision.to_string()) => {
            Decision::Publish(revision, Why::Revision)
        }
        Artifact::Stored if takes_other_files(declared, status, &seen.included) => {
            Decision::Publish(revision, Why::Content)
        }
        Artifact::Stored if is_unverified(declared, status) => Decision::Publish(revision, Why::Verification),
        Artifact::Stored => Decision::Keep,
    }
}

/// Whether signatures are asked for that were not verified for the artifact there is.
fn is_unverified(declared: &Declared, status: &GitRepositoryStatus) -> bool {
    declared.verify.as_ref().is_some_and(|verify| {
        !verify.is_covered_by(status.source_verification_mode.as_deref())
            || !is_true(&status.conditions, ConditionType::SourceVerified)
    })
}

/// Whether the artifact was made by other rules than the spec's, or of other artifacts than there are now.
fn takes_other_files(declared: &Declared, status: &GitRepositoryStatus, included: &[Included]) -> bool {
    let same = |(old, new): (&Included, &Included)| old.revision == new.revision && old.digest == new.digest;
    status.observed_ignore != declared.ignore
        || status.observed_sparse_checkout != declared.sparse
        || status.observed_recurse_submodules != declared.submodules
        || status.observed_include != declared.include
        || status.included_artifacts.len() != included.len()
        || !status.included_artifacts.iter().zip(included).all(same)
}
