//! Trees as `tar.gz`, the transport form of artifacts.
//!
//! Archives are deterministic: sorted entries, zero times, no owners, and Flux's modes (0600, 0700 for
//! executables, 0750 for directories), so equal trees have equal digests. Archives that are read are
//! untrusted: [`crate::Limits`] apply. Symbolic links are skipped as in Flux; any other special entry refuses the
//! whole archive. (Flux: `fluxcd/pkg/artifact/storage` v0.18, `fluxcd/pkg/tar` v1.2.)

mod bounded;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::io;

use thiserror::Error;

use crate::limits::LimitExceeded;
use crate::pauses::Stopped;
use crate::tree::{PathError, ReadError};

/// The digest and size of a written archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archived {
    /// `sha256:` and the hexadecimal digits.
    pub digest: String,
    /// The size in bytes.
    pub size: u64,
}

/// The reason why an archive could not be written or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// A limit is exceeded.
    #[error("archive entry {path:?}: {limit}")]
    Limit {
        /// The entry that exceeds the limit.
        path: String,
        /// The limit.
        limit: LimitExceeded,
    },
    /// An entry has an invalid path.
    #[error("archive entry {path:?}: {why}")]
    Path {
        /// The path, as far as it is text.
        path: String,
        /// The reason.
        why: &'static str,
    },
    /// An entry is neither a file nor a directory.
    #[error("archive entry {path:?} is a {kind}; an artifact holds files and directories")]
    Kind {
        /// The entry.
        path: String,
        /// Its kind.
        kind: &'static str,
    },
    /// The bytes are not a `tar.gz`, or they are truncated.
    #[error("not a complete tar.gz archive")]
    Malformed(#[source] io::Error),
    /// A file of the tree cannot be read.
    #[error("cannot read the tree")]
    Tree(#[source] ReadError),
    /// The archive cannot be written.
    #[error("cannot write the archive")]
    Write(#[source] io::Error),
    /// The content cannot be written to disk.
    #[error("cannot unpack the archive")]
    Unpack(#[source] io::Error),
    /// The work was ended at a pause.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl From<PathError> for ArchiveError {
    fn from(error: PathError) -> ArchiveError {
        match error {
            PathError::Limit { path, limit } => ArchiveError::Limit { path, limit },
            PathError::Path { path, why } => ArchiveError::Path { path, why },
        }
    }
}
