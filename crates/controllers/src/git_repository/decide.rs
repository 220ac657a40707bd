//! What to do, from what was seen: pure, no client, no clock.

use equate_api::source::GitRepositoryStatus;
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) artifact: Artifact,
    /// What the reference leads to in the repository.
    pub(crate) remote: Result<Revision, Failure>,
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
    let revision = match &seen.remote {
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
        Artifact::Stored if takes_other_files(declared, status) => Decision::Publish(revision, Why::Content),
        Artifact::Stored => Decision::Keep,
    }
}

/// Whether the artifact was made by other rules than the spec's. A status that Flux wrote may speak of
/// fields that the spec had then.
fn takes_other_files(declared: &Declared, status: &GitRepositoryStatus) -> bool {
    status.observed_ignore != declared.ignore
        || !status.observed_include.is_empty()
        || !status.included_artifacts.is_empty()
        || !status.observed_sparse_checkout.is_empty()
        || status.observed_recurse_submodules
}
