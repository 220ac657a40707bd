//! What a build reads from: a tree of files, addressed by relative paths.
//!
//! The crate knows no file system and no git; callers adapt what they have.
//! Paths are relative to the tree's root, separated by `/`, without `.`, `..`
//! or empty segments; the root is the empty path.

use bytes::Bytes;

/// A tree of files.
///
/// `stat` does not follow symbolic links; the build does, inside the tree.
pub trait Tree {
    /// What stands at `path`; `None` if nothing does.
    fn stat(&self, path: &str) -> Option<Stat>;

    /// What the directory `dir` holds, by name; `None` if it is no directory.
    fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>>;

    /// The content of the file at `path`; of a symbolic link, its target as it is written.
    fn read(&self, path: &str) -> Result<Bytes, ReadError>;
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: EntryKind,
    /// Its content's identity: equal ids mean equal content. A directory's covers the names,
    /// kinds and ids of everything below it.
    pub id: [u8; 32],
}

/// What an entry of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// Why a file of a tree cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Nothing stands there.
    #[error("no such file or directory")]
    Absent,
    /// It is a directory.
    #[error("is a directory")]
    Directory,
    /// The tree's store failed.
    #[error("the tree cannot be read")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
}
