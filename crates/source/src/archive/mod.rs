//! Trees as `tar.gz`, the form in which artifacts travel.
//!
//! Written, an archive is a function of the tree alone: entries sorted, times zero, no owners, the modes
//! Flux gives (0600, 0700 for what may run, 0750 for directories), so that equal trees have equal digests.
//! Read, it is a stranger's: everything in it is bounded by [`Limits`], and whatever is neither a file, a
//! directory nor a symbolic link (which is skipped, as Flux's readers skip it) refuses the whole archive.
//! (Flux: `fluxcd/pkg/artifact/storage` v0.18, `fluxcd/pkg/tar` v1.2.)

mod bounded;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::io;

use thiserror::Error;

use crate::limits::LimitExceeded;
use crate::tree::{PathError, ReadError};

/// An archive as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archived {
    /// `sha256:` and the hex digits over the archive's bytes.
    pub digest: String,
    /// Bytes.
    pub size: u64,
}

/// Why an archive could not be written or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// It is larger than a tree may be.
    #[error("archive entry {path:?}: {limit}")]
    Limit {
        /// The entry at which the limit was hit.
        path: String,
        /// Which.
        limit: LimitExceeded,
    },
    /// An entry has a path that cannot be part of a tree.
    #[error("archive entry {path:?}: {why}")]
    Path {
        /// The path, as far as it is text.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An entry is something no artifact holds.
    #[error("archive entry {path:?} is a {kind}; an artifact holds files and directories")]
    Kind {
        /// The entry.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// The bytes are no `tar.gz`, or they end too early.
    #[error("not a complete tar.gz archive")]
    Malformed(#[source] io::Error),
    /// A file of the tree could not be read.
    #[error("cannot read the tree")]
    Tree(#[source] ReadError),
    /// The archive could not be written.
    #[error("cannot write the archive")]
    Write(#[source] io::Error),
    /// There is no room for what is in it, or it may not be written.
    #[error("cannot unpack the archive")]
    Unpack(#[source] io::Error),
}

impl From<PathError> for ArchiveError {
    fn from(error: PathError) -> ArchiveError {
        match error {
            PathError::Limit { path, limit } => ArchiveError::Limit { path, limit },
            PathError::Path { path, why } => ArchiveError::Path { path, why },
        }
    }
}
