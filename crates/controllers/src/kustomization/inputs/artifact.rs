//! The artifact of a source, as values. `observe::artifact` finds it.

use equate_source::Tree;

/// The revision of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revision {
    /// The artifact's revision.
    pub revision: String,
    /// The revision that it was made from, if the source names one.
    pub origin: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Artifact {
    pub(crate) revision: Revision,
    pub(crate) digest: String,
    pub(crate) tree: Tree,
}

/// The state of a Kustomization's source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceSeen {
    /// The Kustomization may not read it.
    Denied(String),
    /// The API server does not serve its kind.
    Unserved,
    /// It is unknown whether it exists; the text is the cause, if there is one.
    Unlisted(Option<String>),
    /// It does not exist.
    Absent,
    /// It has no artifact yet.
    NoArtifact {
        /// Whether this process has a controller of its kind.
        served: bool,
    },
    /// Its status names an artifact that is not in the store.
    NotStored,
    /// Its artifact is being fetched.
    Fetching {
        /// Its revision.
        revision: String,
        /// The error of the last attempt, if it failed.
        trouble: Option<String>,
    },
    /// Its artifact could not be fetched.
    Unfetched {
        /// Its revision.
        revision: String,
        /// Whether the source no longer has it.
        gone: bool,
        /// The error, and the remedy.
        why: String,
    },
    /// There is an artifact.
    Stored {
        /// Its revision.
        revision: String,
    },
}
