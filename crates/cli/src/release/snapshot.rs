//! The tree of a commit for many builds: each directory and file is read from git's objects once.

use bytes::Bytes;
use equate_git::{BlobId, Mode, Node, TreeError};
use equate_kustomize::{EntryKind, ReadError, Stat, Tree};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

type Entries = BTreeMap<String, Node>;

/// The first object that is missing or damaged. A build takes it for an absent file.
pub(crate) type Fault = Rc<RefCell<Option<TreeError>>>;

/// A commit's tree that remembers what it read.
pub(crate) struct Snapshot {
    root: equate_git::Tree,
    fault: Fault,
    directories: RefCell<HashMap<String, Option<Rc<Entries>>>>,
    files: RefCell<HashMap<BlobId, Bytes>>,
}

#[derive(Debug, thiserror::Error)]
#[error("it is a submodule, and submodules are not fetched")]
struct Submodule;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unreadable(String);

impl Snapshot {
    pub(crate) fn new(root: equate_git::Tree) -> Self {
        Self::with_fault(root, Fault::default())
    }

    /// A tree that shares its fault with others.
    pub(crate) fn with_fault(root: equate_git::Tree, fault: Fault) -> Self {
        Self {
            root,
            fault,
            directories: RefCell::default(),
            files: RefCell::default(),
        }
    }

    fn note(&self, error: TreeError) {
        if matches!(error, TreeError::Object { .. }) {
            self.fault.borrow_mut().get_or_insert(error);
        }
    }

    /// The entries of a directory; none if it does not exist or cannot be read.
    fn directory(&self, path: &str) -> Option<Rc<Entries>> {
        if let Some(known) = self.directories.borrow().get(path) {
            return known.clone();
        }
        let tree = match path {
            "" => Some(self.root.clone()),
            path => match self.node(path) {
                Some(Node::Directory(id)) => Some(self.root.at(id)),
                Some(Node::Leaf(..)) | None => None,
            },
        };
        let children = tree.and_then(|tree| tree.children().map_err(|error| self.note(error)).ok());
        let entries = children.map(|children| {
            let entries = children.into_iter().map(|child| (child.name, child.node));
            Rc::new(entries.collect::<Entries>())
        });
        self.directories
            .borrow_mut()
            .insert(path.to_owned(), entries.clone());
        entries
    }

    fn node(&self, path: &str) -> Option<Node> {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.directory(directory)?.get(name).copied()
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
        if let Some(known) = self.files.borrow().get(&id) {
            return Ok(known.clone());
        }
        let content = self.root.read(&id).map_err(|error| {
            let text = error.to_string();
            self.note(error);
            ReadError::Store(Box::new(Unreadable(text)))
        })?;
        self.files.borrow_mut().insert(id, content.clone());
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
