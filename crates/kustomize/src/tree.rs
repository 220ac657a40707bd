//! The source of a build: a tree of files with relative paths.
//!
//! Callers adapt their file system or git. Paths are relative to the root, separated by `/`, without `.`,
//! `..` or empty segments; the root is the empty path.

use bytes::Bytes;

/// A tree of files.
///
/// `stat` does not follow symbolic links; the build does, inside the tree.
pub trait Tree {
    /// The entry at `path`; `None` if there is none.
    fn stat(&self, path: &str) -> Option<Stat>;

    /// The entries of the directory `dir` by name; `None` if it is not a directory.
    fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>>;

    /// The content of the file at `path`; for a symbolic link, its target as written.
    fn read(&self, path: &str) -> Result<Bytes, ReadError>;
}

/// An entry of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its kind.
    pub kind: EntryKind,
    /// The identity of its content: equal ids mean equal content. A directory's covers the names, kinds and
    /// ids below it.
    pub id: [u8; 32],
}

/// The kind of an entry.
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
    /// It does not exist.
    #[error("no such file or directory")]
    Absent,
    /// It is a directory.
    #[error("is a directory")]
    Directory,
    /// The tree's store failed.
    #[error("the tree cannot be read")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
}
