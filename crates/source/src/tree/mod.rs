//! Immutable, content-addressed trees.
//!
//! A tree contains files and directories. As in Flux's artifacts, symbolic links are left out, but
//! remembered so that a failed build can name them. Trees share directories: a new revision costs only its
//! changes.
//!
//! Ambiguous or unsafe paths are refused: absolute ones, `.` and `..`, names that are not UTF-8, and
//! anything beyond [`crate::Limits`].

mod build;
mod compose;
#[cfg(test)]
mod compose_tests;
mod directory;
mod gather;
mod git;
#[cfg(test)]
mod git_tests;
mod ignored;
mod pack;
#[cfg(test)]
mod pause_tests;
mod select;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::{Buf as _, Bytes};
use thiserror::Error;

use crate::limits::LimitExceeded;
use crate::pauses::Stopped;

pub(crate) use build::{Building, Content, Directory, File, Node, PathError};
pub use compose::{ComposeError, Included, Parts, Submodule};
pub use gather::Gathering;
pub(crate) use pack::{PackError, Packing};
pub use select::UnpackError;

/// The tree of an artifact's files. Clones are cheap.
///
/// Paths are relative to the root "", separated by `/`, without `.`, `..` or empty segments. Other forms
/// are not found.
#[derive(Clone)]
pub struct Tree {
    root: Arc<Directory>,
    source: Source,
}

/// The source of contents that are not in memory. A shared directory is also in its own commit, so the
/// tree's own handle reads it.
#[derive(Clone)]
enum Source {
    Memory,
    Git {
        tree: equate_git::Tree,
        rules: [u8; 32],
        kept: Arc<StoredCopy>,
    },
}

/// Reads the stored tree again; `None` if it is missing or damaged.
pub(crate) type Reread = dyn Fn() -> Option<Tree> + Send + Sync;

/// The fallback for git: a repository that is moved or rewritten takes nothing from published trees.
#[derive(Default)]
struct StoredCopy {
    stored: Mutex<Option<Arc<Reread>>>,
    read: OnceLock<Tree>,
}

/// The entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file; its id covers content and executable bit.
    File {
        /// Equal ids mean equal files.
        id: ContentId,
        /// The executable bit.
        executable: bool,
    },
    /// A directory; its id covers everything below it.
    Directory {
        /// Equal ids mean equal directories.
        id: ContentId,
    },
}

/// The id of a file or directory. Equal ids mean equal content; trees read from git, an archive or a
/// directory may have different ids for the same content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentId(pub [u8; 32]);

/// The reason why a tree could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TreeError {
    /// A limit is exceeded.
    #[error("{path:?}: {limit}")]
    Limit {
        /// The path that exceeds it.
        path: String,
        /// The limit.
        limit: LimitExceeded,
    },
    /// A name is invalid.
    #[error("{path:?} cannot be part of a tree: {why}")]
    Path {
        /// The path, as far as it is text.
        path: String,
        /// The reason.
        why: &'static str,
    },
    /// An object of the commit cannot be read.
    #[error("cannot read {path:?} from git")]
    Git {
        /// The directory or file.
        path: String,
        /// The reason.
        #[source]
        source: equate_git::TreeError,
    },
    /// A local directory or file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written to the store's disk.
    #[error("cannot write {path:?} to the disk of the store")]
    Pack {
        /// Its path.
        path: String,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A file of another tree cannot be read.
    #[error(transparent)]
    Content(#[from] ReadError),
    /// The work was ended at a pause.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// The reason why a file could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The path does not exist.
    #[error("{path:?} does not exist")]
    Absent {
        /// The path.
        path: String,
    },
    /// The path is a directory.
    #[error("{path:?} is a directory")]
    Directory {
        /// The path.
        path: String,
    },
    /// The path is a symbolic link, which artifacts leave out.
    #[error("{path:?} is a symbolic link, which is not part of an artifact")]
    Link {
        /// The path.
        path: String,
    },
    /// The git object cannot be read.
    #[error("cannot read {path:?} from git")]
    Git {
        /// The path.
        path: String,
        /// The reason.
        #[source]
        source: equate_git::TreeError,
    },
    /// The unpacked archive cannot be read.
    #[error("cannot read {path:?} from the unpacked archive")]
    Packed {
        /// The path.
        path: String,
        /// The reason.
        #[source]
        source: io::Error,
    },
}

impl Tree {
    pub(crate) fn of(root: Arc<Directory>) -> Tree {
        Tree {
            root,
            source: Source::Memory,
        }
    }

    /// A tree without any entry.
    pub fn empty() -> Tree {
        Tree::of(Arc::default())
    }

    /// The entry at `path`.
    pub fn entry(&self, path: &str) -> Option<Entry> {
        match path {
            "" => Some(Entry::Directory { id: self.root.id }),
            path => self.find(path).map(Node::entry),
        }
    }

    /// The entries of the directory `path`, sorted by name; `None` if it is not a directory.
    pub fn list(&self, path: &str) -> Option<Vec<(String, Entry)>> {
        let directory = self.directory(path)?;
        Some(
            directory
                .entries
                .iter()
                .map(|(name, node)| (name.to_string(), node.entry()))
                .collect(),
        )
    }

    /// The content of the file `path`.
    ///
    /// # Errors
    /// The path is not a file, or its content cannot be read from the tree's source.
    pub fn read(&self, path: &str) -> Result<Bytes, ReadError> {
        match self.find(path) {
            Some(Node::File(file)) => self.content(path, file),
            Some(Node::Directory(_)) => Err(ReadError::Directory {
                path: path.to_owned(),
            }),
            None if path.is_empty() => Err(ReadError::Directory {
                path: path.to_owned(),
            }),
            None if self.is_link(path) => Err(ReadError::Link {
                path: path.to_owned(),
            }),
            None => Err(ReadError::Absent {
                path: path.to_owned(),
            }),
        }
    }

    /// The size and the content of the file `path`, to be read part by part.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn open(&self, path: &str) -> Result<(u64, Box<dyn io::Read>), ReadError> {
        if let Some(Node::File(File {
            content: Content::Packed(packed),
            ..
        })) = self.find(path)
        {
            return Ok((packed.bytes(), Box::new(packed.reader())));
        }
        let content = self.read(path)?;
        Ok((content.len() as u64, Box::new(content.reader())))
    }

    /// Bytes of contents on disk beside an archive.
    pub(crate) fn packed_bytes(&self) -> u64 {
        self.root.packed
    }

    /// The id of the whole tree.
    pub fn id(&self) -> ContentId {
        self.root.id
    }

    /// Whether a symbolic link was left out at `path`.
    pub fn is_link(&self, path: &str) -> bool {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.directory(parent)
            .is_some_and(|directory| directory.links.iter().any(|link| **link == *name))
    }

    /// Visits parents before children, siblings by name.
    pub(crate) fn walk<E>(&self, visit: &mut dyn FnMut(&str, &Node) -> Result<(), E>) -> Result<(), E> {
        fn below<E>(
            directory: &Directory,
            path: &mut String,
            visit: &mut dyn FnMut(&str, &Node) -> Result<(), E>,
        ) -> Result<(), E> {
            for (name, node) in &directory.entries {
                let length = path.len();
                if length > 0 {
                    path.push('/');
                }
                path.push_str(name);
                visit(path, node)?;
                if let Node::Directory(directory) = node {
                    below(directory, path, visit)?;
                }
                path.truncate(length);
            }
            Ok(())
        }
        below(&self.root, &mut String::new(), visit)
    }

    pub(crate) fn content(&self, path: &str, file: &File) -> Result<Bytes, ReadError> {
        match (&file.content, &self.source) {
            (Content::Git(blob), Source::Git { tree, kept, .. }) => tree.read(blob).or_else(|source| {
                kept.content(path).ok_or_else(|| ReadError::Git {
                    path: path.to_owned(),
                    source,
                })
            }),
            (content, _) => content.read(path),
        }
    }

    /// Bytes of contents that are in memory.
    #[cfg(test)]
    pub(crate) fn bytes_in_memory(&self) -> usize {
        let mut bytes = 0;
        let walked: Result<(), ()> = self.walk(&mut |_, node| {
            if let Node::File(File {
                content: Content::Memory(content),
                ..
            }) = node
            {
                bytes += content.len();
            }
            Ok(())
        });
        walked.map_or(0, |()| bytes)
    }

    /// Sets the fallback for contents.
    pub(crate) fn keep(&self, stored: Arc<Reread>) {
        if let Source::Git { kept, .. } = &self.source {
            *kept.stored.lock().unwrap_or_else(PoisonError::into_inner) = Some(stored);
        }
    }

    fn find(&self, path: &str) -> Option<&Node> {
        let (parent, name) = split(path)?;
        self.directory(parent)?.child(name)
    }

    fn directory(&self, path: &str) -> Option<&Directory> {
        if path.is_empty() {
            return Some(&self.root);
        }
        path.split('/')
            .try_fold(&*self.root, |directory, name| match directory.child(name)? {
                Node::Directory(next) => Some(&**next),
                Node::File(_) => None,
            })
    }
}

impl StoredCopy {
    fn content(&self, path: &str) -> Option<Bytes> {
        if self.read.get().is_none() {
            let stored = self
                .stored
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()?;
            // concurrent readers read the same
            let _again = self.read.set(stored()?);
        }
        self.read.get()?.read(path).ok()
    }
}

/// Returns directory and name; `None` for an absolute path.
fn split(path: &str) -> Option<(&str, &str)> {
    match path.rsplit_once('/') {
        Some(("", _)) => None,
        Some(parts) => Some(parts),
        None => Some(("", path)),
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tree({})", self.root.id)
    }
}

impl PartialEq for Tree {
    fn eq(&self, other: &Tree) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Tree {}

impl fmt::Display for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
