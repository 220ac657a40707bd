//! Immutable, content-addressed trees.
//!
//! A tree holds what an artifact holds: files and directories. Symbolic links are not part of a tree, as
//! they are not part of Flux's artifacts; where one stood is remembered, so that a build which misses it
//! can say why. Directories are shared between trees: the tree of a new revision costs what changed.
//!
//! A tree refuses what could mean two things or leave the tree: absolute paths, `.` and `..`, names that
//! are not UTF-8, and anything beyond its [`Limits`].

mod build;
mod compose;
#[cfg(test)]
mod compose_tests;
mod directory;
mod git;
#[cfg(test)]
mod git_tests;
mod pack;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use thiserror::Error;

use crate::limits::LimitExceeded;

pub(crate) use build::{Building, Content, Directory, File, Node, PathError};
pub use compose::{ComposeError, Included, Parts, Submodule};
pub(crate) use pack::Packing;

/// A tree of files, as an artifact holds them. Cheap to clone, free to share.
///
/// Paths are relative to the tree's root, separated by `/`, without `.`, `..` or empty segments; the root
/// is "". A path in another form is not found.
#[derive(Clone)]
pub struct Tree {
    root: Arc<Directory>,
    source: Source,
}

/// What contents that are not in memory are read through. A directory that a tree shares with an earlier
/// one is in its own commit too, so the tree's own handle reads it.
#[derive(Clone)]
enum Source {
    Memory,
    Git {
        tree: equate_git::Tree,
        rules: [u8; 32],
        kept: Arc<Kept>,
    },
}

/// Reads what was stored of a tree, whole; none when it is not there any more or not what it was.
pub(crate) type Reread = dyn Fn() -> Option<Tree> + Send + Sync;

/// Where a tree's contents are when git cannot be read: a repository that is moved away, or rewritten and
/// cleaned up, takes nothing from what was published of it.
#[derive(Default)]
struct Kept {
    stored: Mutex<Option<Arc<Reread>>>,
    read: OnceLock<Tree>,
}

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file; its id covers its content and whether it is executable.
    File {
        /// Equal ids mean equal files.
        id: ContentId,
        /// Whether it may be run.
        executable: bool,
    },
    /// A directory; its id covers the names, modes and contents of everything below it.
    Directory {
        /// Equal ids mean equal directories.
        id: ContentId,
    },
}

/// What a file or directory is known by. Equal ids mean equal content; trees read from different places
/// (git, an archive, a directory) may name the same content differently.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentId(pub [u8; 32]);

/// Why a tree could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TreeError {
    /// It is larger than a tree may be.
    #[error("{path:?}: {limit}")]
    Limit {
        /// Where the limit was hit.
        path: String,
        /// Which.
        limit: LimitExceeded,
    },
    /// A name that cannot be part of a tree.
    #[error("{path:?} cannot be part of a tree: {why}")]
    Path {
        /// The path, as far as it is text.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An object of the commit could not be read.
    #[error("cannot read {path:?} from git")]
    Git {
        /// The directory or file.
        path: String,
        /// Why.
        #[source]
        source: equate_git::TreeError,
    },
    /// A local directory or a file in it could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Why a file of a tree could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing stands at the path.
    #[error("{path:?} does not exist")]
    Absent {
        /// The path asked for.
        path: String,
    },
    /// A directory stands there.
    #[error("{path:?} is a directory")]
    Directory {
        /// The path asked for.
        path: String,
    },
    /// A symbolic link stood there; artifacts hold none.
    #[error("{path:?} is a symbolic link, which is not part of an artifact")]
    Link {
        /// The path asked for.
        path: String,
    },
    /// Its object could not be read.
    #[error("cannot read {path:?} from git")]
    Git {
        /// The path asked for.
        path: String,
        /// Why.
        #[source]
        source: equate_git::TreeError,
    },
    /// Its bytes, which were unpacked beside others, could not be read.
    #[error("cannot read {path:?} from the unpacked archive")]
    Packed {
        /// The path asked for.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
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

    /// What stands at `path`.
    pub fn entry(&self, path: &str) -> Option<Entry> {
        match path {
            "" => Some(Entry::Directory { id: self.root.id }),
            path => self.find(path).map(Node::entry),
        }
    }

    /// What stands in the directory `path`, sorted by name; none when it is no directory.
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
    /// Nothing there, no file, or its content cannot be read from where the tree came from.
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

    /// What the whole tree is known by.
    pub fn id(&self) -> ContentId {
        self.root.id
    }

    /// Whether a symbolic link stood at `path` where the tree was read. It is not part of the tree.
    pub fn is_link(&self, path: &str) -> bool {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.directory(parent)
            .is_some_and(|directory| directory.links.iter().any(|link| **link == *name))
    }

    /// Every file and directory below the root: a directory before what it holds, siblings by name.
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
            (Content::Memory(bytes), _) => Ok(bytes.clone()),
            (Content::Packed(packed), _) => packed.read().map_err(|source| ReadError::Packed {
                path: path.to_owned(),
                source,
            }),
            (Content::Git(blob), Source::Git { tree, kept, .. }) => tree.read(blob).or_else(|source| {
                kept.content(path).ok_or_else(|| ReadError::Git {
                    path: path.to_owned(),
                    source,
                })
            }),
            (Content::Git(_), Source::Memory) => Err(ReadError::Absent {
                path: path.to_owned(),
            }),
        }
    }

    /// Says where else the contents are, from now on.
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

impl Kept {
    /// A file of what was stored, which is read once.
    fn content(&self, path: &str) -> Option<Bytes> {
        if self.read.get().is_none() {
            let stored = self
                .stored
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()?;
            // two who read at once read the same
            let _again = self.read.set(stored()?);
        }
        self.read.get()?.read(path).ok()
    }
}

/// Directory and name; none for what is absolute.
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

/// Trees are equal when their ids are.
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
