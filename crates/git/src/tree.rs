//! The content of one commit, read from objects: no checkout, no filters, no attributes.
//!
//! Remote content is untrusted: names that would leave the tree are refused, and walks and reads obey
//! [`Limits`].

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use bytes::Bytes;
use gix::{ObjectId, objs::tree::EntryKind};

use crate::{limits::Limits, store::Store};

/// A directory at one commit. Cheap to clone; objects are read on demand.
#[derive(Debug, Clone)]
pub struct Tree {
    store: Arc<Store>,
    id: ObjectId,
    limits: Arc<Limits>,
}

/// The id of a file's content: equal ids mean equal bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId(pub(crate) ObjectId);

/// The id of a directory: equal ids mean equal names, modes and content below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreeId(pub(crate) ObjectId);

impl BlobId {
    /// The id that git gives this content. `None` for content crafted to collide with another.
    pub fn of(content: &[u8]) -> Option<Self> {
        gix::objs::compute_hash(gix::hash::Kind::Sha1, gix::objs::Kind::Blob, content)
            .ok()
            .map(Self)
    }

    /// The id's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The id of a content that comes in parts.
pub struct BlobHash(gix::hash::Hasher);

impl BlobHash {
    /// Of a content of this many bytes.
    pub fn new(size: u64) -> Self {
        let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
        hasher.update(&gix::objs::encode::loose_header(gix::objs::Kind::Blob, size));
        Self(hasher)
    }

    /// The next part.
    pub fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    /// The id that git gives the content. `None` for content crafted to collide with another.
    pub fn id(self) -> Option<BlobId> {
        self.0.try_finalize().ok().map(BlobId)
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobHash").finish_non_exhaustive()
    }
}

impl TreeId {
    /// The id's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// A file.
    File,
    /// A file with the executable bit.
    Executable,
    /// A symbolic link; its content is the target.
    Symlink,
    /// Another repository's commit; its id is not content of this repository.
    Submodule,
}

/// One file, link or submodule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path relative to the walked tree, with `/` between names.
    pub path: String,
    /// Its type.
    pub mode: Mode,
    /// Its content.
    pub id: BlobId,
}

/// A direct child of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its name.
    pub name: String,
    /// Its type and id.
    pub node: Node,
}

/// A directory, or another entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Directory(TreeId),
    /// A file, link or submodule.
    Leaf(Mode, BlobId),
}

/// The reason why a tree cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// [`Limits::entries_max`].
    #[error("more than {max} files in one tree")]
    Entries {
        /// The limit.
        max: usize,
    },
    /// [`Limits::entries_max`].
    #[error("more than {max} directories in one tree")]
    Directories {
        /// The limit.
        max: usize,
    },
    /// [`Limits::listed_bytes_max`].
    #[error("the paths of one tree have more than {max} bytes in total; use shorter names")]
    Listed {
        /// The limit.
        max: u64,
    },
    /// [`Limits::depth_max`].
    #[error("{path:?} is nested deeper than {max} directories")]
    Depth {
        /// The place where the walk stopped.
        path: String,
        /// The limit.
        max: usize,
    },
    /// [`Limits::path_bytes_max`].
    #[error("the path {path:?} is longer than {max} bytes")]
    Path {
        /// The path, shortened.
        path: String,
        /// The limit.
        max: usize,
    },
    /// [`Limits::blob_bytes_max`].
    #[error("blob {id} has {bytes} bytes, more than the limit of {max}")]
    Blob {
        /// The blob.
        id: BlobId,
        /// Its size.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// [`Limits::tree_bytes_max`].
    #[error("the files of the tree have more than {max} bytes in total")]
    Bytes {
        /// The limit.
        max: u64,
    },
    /// A name that no file system may be given (`..`, or one with a slash), or one that is not UTF-8.
    #[error("the name {name:?} in directory {directory:?} is invalid: {problem}")]
    Name {
        /// The name in printable form.
        name: String,
        /// Its directory.
        directory: String,
        /// The reason.
        problem: &'static str,
    },
    /// An object is missing or damaged.
    #[error("cannot read git object {id}")]
    Object {
        /// The object.
        id: String,
        /// The error from gix.
        source: gix::Error,
    },
}

impl Tree {
    pub(crate) fn new(store: Arc<Store>, id: ObjectId, limits: Arc<Limits>) -> Self {
        Self { store, id, limits }
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The tree's id.
    pub fn id(&self) -> TreeId {
        TreeId(self.id)
    }

    /// Every file, link and submodule, sorted by path bytes.
    pub fn entries(&self) -> Result<Vec<Entry>, TreeError> {
        self.entries_where(|_| true)
    }

    /// Like [`Tree::entries`], without directories for whose path `descend` returns false. Parents come
    /// first, and skipped directories are not read.
    pub fn entries_where(&self, mut descend: impl FnMut(&str) -> bool) -> Result<Vec<Entry>, TreeError> {
        let mut entries = Vec::new();
        let (mut listed, max) = (0_u64, self.limits.listed_bytes_max);
        self.visit(&mut descend, &mut |path, mode, id| {
            listed = listed.saturating_add(path.len() as u64);
            if listed > max {
                return Err(TreeError::Listed { max });
            }
            entries.push(Entry {
                path: path.to_owned(),
                mode,
                id,
            });
            Ok(())
        })?;
        Ok(entries)
    }

    /// The contents of every file and link.
    pub(crate) fn blobs(&self) -> Result<BTreeSet<BlobId>, TreeError> {
        let mut blobs = BTreeSet::new();
        self.visit(&mut |_| true, &mut |_, mode, id| {
            if mode != Mode::Submodule {
                blobs.insert(id);
            }
            Ok(())
        })?;
        Ok(blobs)
    }

    fn visit(&self, descend: &mut Descend<'_>, found: &mut Found<'_>) -> Result<(), TreeError> {
        self.store.with(|repository| {
            let mut walk = Walk {
                repository,
                limits: &self.limits,
                entries: 0,
                directories: 0,
                descend,
                found,
            };
            walk.directory(self.id, &mut String::new(), 0)
        })
    }

    /// The direct children, in git's order.
    pub fn children(&self) -> Result<Vec<Child>, TreeError> {
        self.store.with(|repository| {
            let tree = repository
                .find_tree(self.id)
                .map_err(|error| object_error(self.id, error))?;
            let mut children = Vec::new();
            for entry in tree.iter() {
                let entry = entry.map_err(|error| object_error(self.id, error))?;
                let name = checked(entry.filename(), "")?.to_owned();
                let node = match mode(entry.mode().kind()) {
                    Some(mode) => Node::Leaf(mode, BlobId(entry.object_id())),
                    None => Node::Directory(TreeId(entry.object_id())),
                };
                children.push(Child { name, node });
            }
            Ok(children)
        })
    }

    /// A directory of the same repository by its id, as returned by [`Tree::children`].
    #[must_use]
    pub fn at(&self, id: TreeId) -> Self {
        Self {
            id: id.0,
            ..self.clone()
        }
    }

    /// The directory at a path, or `None`.
    pub fn subtree(&self, path: &str) -> Result<Option<Tree>, TreeError> {
        let found = self.lookup(path)?.filter(|(kind, _)| *kind == EntryKind::Tree);
        Ok(found.map(|(_, id)| Self { id, ..self.clone() }))
    }

    /// The paths of files, links and submodules that differ from another tree of the same repository.
    pub fn changed(&self, other: &Self) -> Result<Vec<String>, TreeError> {
        let mut changed = Vec::new();
        self.differences(Some(self.id), Some(other.id), "", 0, &mut changed)?;
        Ok(changed)
    }

    fn differences(
        &self,
        one: Option<ObjectId>,
        other: Option<ObjectId>,
        directory: &str,
        depth: usize,
        changed: &mut Vec<String>,
    ) -> Result<(), TreeError> {
        if one == other {
            return Ok(());
        }
        if depth > self.limits.depth_max {
            let (path, max) = (directory.to_owned(), self.limits.depth_max);
            return Err(TreeError::Depth { path, max });
        }
        let children = |id: Option<ObjectId>| -> Result<BTreeMap<String, Node>, TreeError> {
            let Some(id) = id else {
                return Ok(BTreeMap::new());
            };
            let children = self.at(TreeId(id)).children()?;
            Ok(children
                .into_iter()
                .map(|child| (child.name, child.node))
                .collect())
        };
        let (one, other) = (children(one)?, children(other)?);
        let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        for name in names {
            let (left, right) = (one.get(name), other.get(name));
            if left == right {
                continue;
            }
            let path = match directory {
                "" => name.clone(),
                directory => format!("{directory}/{name}"),
            };
            let is_leaf = |node: Option<&Node>| matches!(node, Some(Node::Leaf(..)));
            let below = |node: Option<&Node>| match node {
                Some(Node::Directory(id)) => Some(id.0),
                Some(Node::Leaf(..)) | None => None,
            };
            if is_leaf(left) || is_leaf(right) {
                changed.push(path.clone());
            }
            if changed.len() > self.limits.entries_max {
                let max = self.limits.entries_max;
                return Err(TreeError::Entries { max });
            }
            self.differences(below(left), below(right), &path, depth + 1, changed)?;
        }
        Ok(())
    }

    /// The file, link or submodule at a path.
    pub fn entry(&self, path: &str) -> Result<Option<Entry>, TreeError> {
        let found = self.lookup(path)?;
        Ok(found.and_then(|(kind, id)| {
            mode(kind).map(|mode| Entry {
                path: path.trim_matches('/').to_owned(),
                mode,
                id: BlobId(id),
            })
        }))
    }

    /// The content of a file, or the target of a link.
    pub fn read(&self, id: &BlobId) -> Result<Bytes, TreeError> {
        let bytes = self.size(id)?;
        let max = self.limits.blob_bytes_max;
        if bytes > max {
            return Err(TreeError::Blob { id: *id, bytes, max });
        }
        self.store.with(|repository| {
            let mut object = repository
                .find_object(id.0)
                .map_err(|error| object_error(id.0, error))?;
            Ok(Bytes::from(std::mem::take(&mut object.data)))
        })
    }

    /// The size of a blob in bytes, without reading it.
    pub fn size(&self, id: &BlobId) -> Result<u64, TreeError> {
        self.store.with(|repository| {
            repository
                .find_header(id.0)
                .map(|header| header.size())
                .map_err(|error| object_error(id.0, error))
        })
    }

    /// The total size of these entries without submodules, limited by [`Limits::tree_bytes_max`].
    pub fn bytes<'a>(&self, entries: impl IntoIterator<Item = &'a Entry>) -> Result<u64, TreeError> {
        let max = self.limits.tree_bytes_max;
        let mut total = 0_u64;
        for entry in entries.into_iter().filter(|entry| entry.mode != Mode::Submodule) {
            total = total.saturating_add(self.size(&entry.id)?);
            if total > max {
                return Err(TreeError::Bytes { max });
            }
        }
        Ok(total)
    }

    /// The empty path is the tree itself.
    fn lookup(&self, path: &str) -> Result<Option<(EntryKind, ObjectId)>, TreeError> {
        let mut found = (EntryKind::Tree, self.id);
        self.store.with(|repository| {
            for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
                if found.0 != EntryKind::Tree {
                    return Ok(None);
                }
                let tree = repository
                    .find_tree(found.1)
                    .map_err(|error| object_error(found.1, error))?;
                let entry = tree
                    .iter()
                    .filter_map(Result::ok)
                    .find(|entry| entry.filename() == name);
                match entry {
                    Some(entry) => found = (entry.mode().kind(), entry.object_id()),
                    None => return Ok(None),
                }
            }
            Ok(Some(found))
        })
    }
}

type Descend<'a> = dyn FnMut(&str) -> bool + 'a;
type Found<'a> = dyn FnMut(&str, Mode, BlobId) -> Result<(), TreeError> + 'a;

/// Depth first in git's order, so that full paths are sorted.
struct Walk<'a, 'd, 'f> {
    repository: &'a gix::Repository,
    limits: &'a Limits,
    entries: usize,
    directories: usize,
    descend: &'a mut Descend<'d>,
    found: &'a mut Found<'f>,
}

impl Walk<'_, '_, '_> {
    fn directory(&mut self, id: ObjectId, path: &mut String, depth: usize) -> Result<(), TreeError> {
        if depth > self.limits.depth_max {
            return Err(TreeError::Depth {
                path: shortened(path),
                max: self.limits.depth_max,
            });
        }
        let tree = self
            .repository
            .find_tree(id)
            .map_err(|error| object_error(id, error))?;
        for entry in tree.iter() {
            let entry = entry.map_err(|error| object_error(id, error))?;
            let name = checked(entry.filename(), path)?;
            let parent = path.len();
            if parent > 0 {
                path.push('/');
            }
            path.push_str(name);
            if path.len() > self.limits.path_bytes_max {
                return Err(TreeError::Path {
                    path: shortened(path),
                    max: self.limits.path_bytes_max,
                });
            }
            match mode(entry.mode().kind()) {
                Some(mode) => self.entry(path, mode, entry.object_id())?,
                None => self.subdirectory(entry.object_id(), path, depth + 1)?,
            }
            path.truncate(parent);
        }
        Ok(())
    }

    fn subdirectory(&mut self, id: ObjectId, path: &mut String, depth: usize) -> Result<(), TreeError> {
        if self.directories == self.limits.entries_max {
            let max = self.limits.entries_max;
            return Err(TreeError::Directories { max });
        }
        self.directories += 1;
        match (self.descend)(path) {
            true => self.directory(id, path, depth),
            false => Ok(()),
        }
    }

    fn entry(&mut self, path: &str, mode: Mode, id: ObjectId) -> Result<(), TreeError> {
        if self.entries == self.limits.entries_max {
            let max = self.limits.entries_max;
            return Err(TreeError::Entries { max });
        }
        self.entries += 1;
        (self.found)(path, mode, BlobId(id))
    }
}

fn mode(kind: EntryKind) -> Option<Mode> {
    match kind {
        EntryKind::Tree => None,
        EntryKind::Blob => Some(Mode::File),
        EntryKind::BlobExecutable => Some(Mode::Executable),
        EntryKind::Link => Some(Mode::Symlink),
        EntryKind::Commit => Some(Mode::Submodule),
    }
}

fn checked<'a>(name: &'a gix::bstr::BStr, directory: &str) -> Result<&'a str, TreeError> {
    let refuse = |problem| {
        let name = String::from_utf8_lossy(name).into_owned();
        Err(TreeError::Name {
            name,
            directory: directory.to_owned(),
            problem,
        })
    };
    match std::str::from_utf8(name) {
        Err(_) => refuse("not UTF-8"),
        Ok("" | "." | "..") => refuse("reserved"),
        Ok(name) if name.contains(['/', '\0']) => refuse("it contains a slash or a zero byte"),
        Ok(name) => Ok(name),
    }
}

fn shortened(path: &str) -> String {
    const SHOWN_MAX: usize = 120;
    match path.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &path[..end]),
        None => path.to_owned(),
    }
}

fn object_error(id: ObjectId, source: gix::Error) -> TreeError {
    TreeError::Object {
        id: id.to_string(),
        source,
    }
}
