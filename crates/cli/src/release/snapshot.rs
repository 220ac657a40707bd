//! The tree of a commit for many builds: each directory and file is read from git's objects once.

use bytes::Bytes;
use equate_git::{BlobId, Mode, Node, TreeError, TreeId};
use equate_kustomize::{EntryKind, ReadError, Stat, Tree};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most entries of directories, and bytes of files, that are kept for other trees.
const ENTRIES_MAX: usize = 500_000;
const BYTES_MAX: usize = 64 << 20;

/// The entries of a directory, sorted by name.
type Entries = Vec<(String, Node)>;

/// The first object that is missing or damaged. A build takes it for an absent file.
#[derive(Clone, Default)]
pub(crate) struct Fault(Arc<Mutex<Option<TreeError>>>);

impl Fault {
    /// The object, once.
    pub(crate) fn take(&self) -> Option<TreeError> {
        lock(&self.0).take()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A commit's tree that remembers what it read.
pub(crate) struct Snapshot {
    root: equate_git::Tree,
    fault: Fault,
    directories: RefCell<HashMap<String, Option<Arc<Entries>>>>,
    shared: Arc<Shared>,
}

/// Directories and files by their ids, for the trees of many commits.
#[derive(Default)]
pub(crate) struct Shared {
    directories: Mutex<Limited<TreeId, Arc<Entries>>>,
    files: Mutex<Limited<BlobId, Bytes>>,
}

/// A map that is emptied when it becomes too large.
struct Limited<K, V> {
    known: HashMap<K, V>,
    weight: usize,
}

impl<K, V> Default for Limited<K, V> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            weight: 0,
        }
    }
}

impl<K: std::hash::Hash + Eq, V: Clone> Limited<K, V> {
    fn insert(&mut self, key: K, value: V, weight: usize, max: usize) {
        if self.weight + weight > max {
            self.known.clear();
            self.weight = 0;
        }
        self.weight += weight;
        self.known.insert(key, value);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("it is a submodule, and submodules are not fetched")]
struct Submodule;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unreadable(String);

impl Snapshot {
    pub(crate) fn new(root: equate_git::Tree) -> Self {
        Self::sharing(root, Fault::default(), Arc::default())
    }

    /// A tree that shares its fault, and all that it read, with others.
    pub(crate) fn sharing(root: equate_git::Tree, fault: Fault, shared: Arc<Shared>) -> Self {
        Self {
            root,
            fault,
            directories: RefCell::default(),
            shared,
        }
    }

    /// The first object of this tree, and of those that share its fault, that cannot be read.
    pub(crate) fn fault(&self) -> &Fault {
        &self.fault
    }

    fn note(&self, error: TreeError) {
        if matches!(error, TreeError::Object { .. }) {
            lock(&self.fault.0).get_or_insert(error);
        }
    }

    /// The entries of a directory; none if it does not exist or cannot be read.
    fn directory(&self, path: &str) -> Option<Arc<Entries>> {
        if let Some(known) = self.directories.borrow().get(path) {
            return known.clone();
        }
        let id = match path {
            "" => Some(self.root.id()),
            path => match self.node(path) {
                Some(Node::Directory(id)) => Some(id),
                Some(Node::Leaf(..)) | None => None,
            },
        };
        let entries = id.and_then(|id| self.entries(id));
        self.directories
            .borrow_mut()
            .insert(path.to_owned(), entries.clone());
        entries
    }

    fn entries(&self, id: TreeId) -> Option<Arc<Entries>> {
        if let Some(known) = lock(&self.shared.directories).known.get(&id) {
            return Some(Arc::clone(known));
        }
        let children = self.root.at(id).children();
        let children = children.map_err(|error| self.note(error)).ok()?;
        let mut entries: Entries = children
            .into_iter()
            .map(|child| (child.name, child.node))
            .collect();
        // git sorts a directory as if its name ended with a slash
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        let weight = entries.len() + 1;
        let entries = Arc::new(entries);
        let mut known = lock(&self.shared.directories);
        known.insert(id, Arc::clone(&entries), weight, ENTRIES_MAX);
        Some(entries)
    }

    fn node(&self, path: &str) -> Option<Node> {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let entries = self.directory(directory)?;
        let at = entries.binary_search_by(|(found, _)| found.as_str().cmp(name));
        Some(entries.get(at.ok()?)?.1)
    }
}

impl Tree for Snapshot {
    fn stat(&self, path: &str) -> Option<Stat> {
        match path {
            "" => Some(stat(Node::Directory(self.root.id()))),
            path => self.node(path).map(stat),
        }
    }

    fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>> {
        let entries = self.directory(dir)?;
        let entries = entries.iter().map(|(name, node)| (name.clone(), stat(*node)));
        Some(entries.collect())
    }

    fn read(&self, path: &str) -> Result<Bytes, ReadError> {
        let id = match self.node(path) {
            None if path.is_empty() => return Err(ReadError::Directory),
            None => return Err(ReadError::Absent),
            Some(Node::Directory(_)) => return Err(ReadError::Directory),
            Some(Node::Leaf(Mode::Submodule, _)) => return Err(ReadError::Store(Box::new(Submodule))),
            Some(Node::Leaf(_, id)) => id,
        };
        if let Some(known) = lock(&self.shared.files).known.get(&id) {
            return Ok(known.clone());
        }
        let content = self.root.read(&id).map_err(|error| {
            let text = error.to_string();
            self.note(error);
            ReadError::Store(Box::new(Unreadable(text)))
        })?;
        let mut known = lock(&self.shared.files);
        known.insert(id, content.clone(), content.len() + 1, BYTES_MAX);
        Ok(content)
    }
}

fn stat(node: Node) -> Stat {
    let (kind, id) = match node {
        Node::Directory(id) => (EntryKind::Directory, filled(id.as_bytes())),
        Node::Leaf(Mode::Symlink, id) => (EntryKind::Symlink, filled(id.as_bytes())),
        Node::Leaf(Mode::File | Mode::Executable | Mode::Submodule, id) => {
            (EntryKind::File, filled(id.as_bytes()))
        }
    };
    Stat { kind, id }
}

fn filled(id: &[u8]) -> [u8; 32] {
    let mut whole = [0; 32];
    for (to, from) in whole.iter_mut().zip(id) {
        *to = *from;
    }
    whole
}
