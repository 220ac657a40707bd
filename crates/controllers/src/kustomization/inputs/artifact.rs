//! The artifact of a source, and what there is to see of it: values. Where one is found says
//! `observe::artifact`.

use equate_source::Tree;

/// The revision a run is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revision {
    /// The artifact's revision.
    pub revision: String,
    /// The revision it was made from, where the source says so.
    pub origin: Option<String>,
}

/// An artifact that can be read.
#[derive(Debug, Clone)]
pub(crate) struct Artifact {
    pub(crate) revision: Revision,
    pub(crate) digest: String,
    pub(crate) tree: Tree,
}

/// A source, as far as a Kustomization needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceSeen {
    /// It may not be read here, and why.
    Denied(String),
    /// The API server does not serve its kind.
    Unserved,
    /// It is not known yet whether it exists; why not, if something is in the way.
    Unlisted(Option<String>),
    /// It does not exist.
    Absent,
    /// It has made nothing available yet.
    NoArtifact,
    /// Its status names an artifact whose content is not in the store (any more, or yet).
    NotStored,
    /// Its artifact is being fetched.
    Fetching {
        /// Its revision.
        revision: String,
        /// Why the last attempt failed, if one did.
        trouble: Option<String>,
    },
    /// Its artifact could not be fetched.
    Unfetched {
        /// Its revision.
        revision: String,
        /// Whether the source does not have it any more.
        gone: bool,
        /// What happened, and what to do.
        why: String,
    },
    /// There is an artifact.
    Stored {
        /// Its revision.
        revision: String,
    },
}
