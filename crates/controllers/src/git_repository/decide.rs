//! What to do, from what was seen: pure, no client, no clock.

use equate_api::meta::{ConditionType, is_true};
use equate_api::source::{Artifact as Included, GitRepositoryStatus};
use equate_git::{Remote, Revision};

use super::declared::Declared;
use super::failure::Failure;

/// What there is.
#[derive(Debug)]
pub(crate) enum Seen {
    /// The object itself says what to do: nothing outside was looked at.
    Unlooked,
    /// The store and the repository were looked at.
    Looked(Box<Looked>),
}

/// The store and the repository, as they were seen.
#[derive(Debug)]
pub(crate) struct Looked {
    /// The status as it stood.
    pub(crate) status: GitRepositoryStatus,
    pub(crate) artifact: Artifact,
    /// Where the reference leads in the repository, if all that is needed to know it is there.
    pub(crate) revision: Result<Revision, Failure>,
    /// The artifacts to include, in the order of `spec.include`.
    pub(crate) included: Vec<Included>,
    /// The repository, opened: fetching needs it again.
    pub(crate) remote: Option<Remote>,
}

impl Looked {
    /// Whether the artifact that the status names is not in the store.
    pub(crate) fn is_lost(&self) -> bool {
        self.artifact == Artifact::Lost
    }
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

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Its artifacts go, then the finalizer.
    Delete,
    /// It cannot be carried out: the artifact that is there stays, unless the store has lost it.
    Fail { failure: Failure, lost: bool },
    /// The artifact is what the repository says.
    Keep,
    /// An artifact is made of this revision.
    Publish(Revision, Why),
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

/// Decides, from what the object says, then from what the repository and the store say.
pub(crate) fn decide(declared: &Declared, seen: &Seen) -> Plan {
    if declared.deleting {
        return Plan::Delete;
    }
    if let Some(field) = declared.unsupported {
        let failure = Failure::unsupported(field);
        return Plan::Fail { failure, lost: false };
    }
    match seen {
        Seen::Looked(looked) => compare(declared, looked),
        // nothing was looked at for another reason than these
        Seen::Unlooked => Plan::Keep,
    }
}

fn compare(declared: &Declared, seen: &Looked) -> Plan {
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
