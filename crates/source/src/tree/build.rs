//! The nodes of a tree, and a builder that adds path by path.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use equate_git::{BlobId, TreeId};
use sha2::{Digest, Sha256};

use super::pack::Packed;
use super::{ContentId, Entry, ReadError, Tree, TreeError};
use crate::limits::{LimitExceeded, Limits};

#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) id: ContentId,
    pub(crate) entries: Vec<(Box<str>, Node)>,
    /// Symbolic links, which artifacts never contain; they are not part of the id.
    pub(crate) links: Vec<Box<str>>,
    pub(crate) count: usize,
    /// Bytes of contents below that are in a pack.
    pub(crate) packed: u64,
    pub(crate) origin: Option<Origin>,
    /// Excluded git trees without any `.sourceignore`, which are skipped while they stay the same.
    hidden: Vec<(Box<str>, TreeId)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) id: TreeId,
    /// Whether there is no `.sourceignore` below, even in excluded directories.
    pub(crate) plain: bool,
}

#[derive(Debug)]
pub(crate) enum Node {
    File(File),
    Directory(Arc<Directory>),
}

#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) id: ContentId,
    pub(crate) executable: bool,
    pub(crate) content: Content,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Memory(Bytes),
    Git(BlobId),
    Packed(Packed),
}

impl Content {
    /// Content in git is not read without its tree.
    pub(crate) fn read(&self, path: &str) -> Result<Bytes, ReadError> {
        let path = path.to_owned();
        match self {
            Content::Memory(bytes) => Ok(bytes.clone()),
            Content::Packed(packed) => packed.read().map_err(|source| ReadError::Packed { path, source }),
            Content::Git(_) => Err(ReadError::Absent { path }),
        }
    }

    /// Its size; `None` for content in git.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match self {
            Content::Memory(bytes) => Some(bytes.len() as u64),
            Content::Packed(packed) => Some(packed.bytes()),
            Content::Git(_) => None,
        }
    }
}

impl Default for Directory {
    fn default() -> Directory {
        Directory::new(Vec::new(), Vec::new())
    }
}

impl Directory {
    /// `entries` must be sorted by name.
    pub(crate) fn new(entries: Vec<(Box<str>, Node)>, links: Vec<Box<str>>) -> Directory {
        let mut hash = Sha256::new_with_prefix("equate directory 1\0");
        for (name, node) in &entries {
            let (kind, id) = match node {
                Node::File(file) => (b'f', file.id),
                Node::Directory(directory) => (b'd', directory.id),
            };
            hash.update([kind]);
            hash.update((name.len() as u64).to_be_bytes());
            hash.update(name.as_bytes());
            hash.update(id.0);
        }
        let below = |node: &Node| match node {
            Node::File(_) => 1,
            Node::Directory(directory) => directory.count.saturating_add(1),
        };
        let count = entries
            .iter()
            .map(|(_, node)| below(node))
            .fold(links.len(), usize::saturating_add);
        let packed = |node: &Node| match node {
            Node::File(file) => match &file.content {
                Content::Packed(packed) => packed.bytes(),
                Content::Memory(_) | Content::Git(_) => 0,
            },
            Node::Directory(directory) => directory.packed,
        };
        let packed = entries
            .iter()
            .map(|(_, node)| packed(node))
            .fold(0, u64::saturating_add);
        let id = ContentId(hash.finalize().into());
        Directory {
            id,
            entries,
            links,
            count,
            packed,
            origin: None,
            hidden: Vec::new(),
        }
    }

    pub(crate) fn of_git(
        entries: Vec<(Box<str>, Node)>,
        links: Vec<Box<str>>,
        origin: Origin,
        hidden: Vec<(Box<str>, TreeId)>,
    ) -> Directory {
        Directory {
            origin: Some(origin),
            hidden,
            ..Directory::new(entries, links)
        }
    }

    pub(crate) fn directory(&self, name: &str) -> Option<&Arc<Directory>> {
        match self.child(name)? {
            Node::Directory(directory) => Some(directory),
            Node::File(_) => None,
        }
    }

    /// Whether this git tree is excluded here and known to contain no `.sourceignore`.
    pub(crate) fn hides(&self, name: &str, id: TreeId) -> bool {
        // by name, as the entries
        let found = self.hidden.binary_search_by(|(own, _)| (**own).cmp(name));
        found.is_ok_and(|at| self.hidden[at].1 == id)
    }

    pub(crate) fn child(&self, name: &str) -> Option<&Node> {
        let at = self.entries.binary_search_by(|(own, _)| (**own).cmp(name)).ok()?;
        Some(&self.entries[at].1)
    }
}

impl Node {
    pub(crate) fn entry(&self) -> Entry {
        match self {
            Node::File(file) => Entry::File {
                id: file.id,
                executable: file.executable,
            },
            Node::Directory(directory) => Entry::Directory { id: directory.id },
        }
    }
}

impl File {
    /// The id contains git's id of the content, so that a tree read back from its archive equals that of
    /// its commit. Content crafted to collide is refused.
    pub(crate) fn of(
        path: &str,
        blob: Option<BlobId>,
        executable: bool,
        content: Content,
    ) -> Result<File, PathError> {
        let blob = blob.ok_or_else(|| PathError::Path {
            path: path.to_owned(),
            why: "its content collides with another object's id (a SHA-1 collision)",
        })?;
        Ok(File {
            id: file_id(&blob, executable),
            executable,
            content,
        })
    }

    pub(crate) fn in_git(blob: BlobId, executable: bool) -> File {
        File {
            id: file_id(&blob, executable),
            executable,
            content: Content::Git(blob),
        }
    }
}

fn file_id(blob: &BlobId, executable: bool) -> ContentId {
    let mut hash = Sha256::new_with_prefix("equate file 1\0");
    hash.update([u8::from(executable)]);
    hash.update(blob.as_bytes());
    ContentId(hash.finalize().into())
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PathError {
    Limit { path: String, limit: LimitExceeded },
    Path { path: String, why: &'static str },
}

impl From<PathError> for TreeError {
    fn from(error: PathError) -> TreeError {
        match error {
            PathError::Limit { path, limit } => TreeError::Limit { path, limit },
            PathError::Path { path, why } => TreeError::Path { path, why },
        }
    }
}

/// A tree under construction, path by path in any order. Of a file given twice the later one counts.
#[derive(Debug)]
pub(crate) struct Building<'a> {
    limits: &'a Limits,
    root: Draft,
    entries: usize,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Draft {
    children: BTreeMap<Box<str>, DraftNode>,
    links: BTreeSet<Box<str>>,
}

#[derive(Debug)]
enum DraftNode {
    File(File),
    Directory(Draft),
}

impl<'a> Building<'a> {
    pub(crate) fn new(limits: &'a Limits) -> Building<'a> {
        Building {
            limits,
            root: Draft::default(),
            entries: 0,
            bytes: 0,
        }
    }

    pub(crate) fn bytes_left(&self) -> u64 {
        self.limits.tree_bytes_max.saturating_sub(self.bytes)
    }

    pub(crate) fn directory(&mut self, path: &str) -> Result<(), PathError> {
        self.draft(path, &names(path, self.limits)?)?;
        Ok(())
    }

    pub(crate) fn file(&mut self, path: &str, content: Bytes, executable: bool) -> Result<(), PathError> {
        let blob = BlobId::of(&content);
        self.file_of(path, blob, Content::Memory(content), executable)
    }

    /// A file whose content is in memory or packed, and has this id.
    pub(crate) fn file_of(
        &mut self,
        path: &str,
        blob: Option<BlobId>,
        content: Content,
        executable: bool,
    ) -> Result<(), PathError> {
        let limit = |limit| PathError::Limit {
            path: path.to_owned(),
            limit,
        };
        let bytes = content.bytes().unwrap_or_default();
        if bytes > self.limits.file_bytes_max {
            return Err(limit(LimitExceeded::FileBytes(self.limits.file_bytes_max)));
        }
        // a repeated file counts twice, because each was read
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limits.tree_bytes_max {
            return Err(limit(LimitExceeded::TreeBytes(self.limits.tree_bytes_max)));
        }
        let file = File::of(path, blob, executable, content)?;
        self.place(path, file)
    }

    pub(crate) fn place(&mut self, path: &str, file: File) -> Result<(), PathError> {
        let names = names(path, self.limits)?;
        let Some((name, parents)) = names.split_last() else {
            return Err(PathError::Path {
                path: path.to_owned(),
                why: "a file needs a name",
            });
        };
        self.count(path)?;
        let draft = self.draft(path, parents)?;
        if let Some(DraftNode::Directory(_)) = draft.children.get(*name) {
            return Err(PathError::Path {
                path: path.to_owned(),
                why: "it is both a file and a directory",
            });
        }
        draft.children.insert((*name).into(), DraftNode::File(file));
        Ok(())
    }

    pub(crate) fn git_file(&mut self, path: &str, blob: BlobId, executable: bool) -> Result<(), PathError> {
        self.place(path, File::in_git(blob, executable))
    }

    pub(crate) fn link(&mut self, path: &str) -> Result<(), PathError> {
        let names = names(path, self.limits)?;
        if let Some((name, parents)) = names.split_last() {
            self.count(path)?;
            self.draft(path, parents)?.links.insert((*name).into());
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Tree {
        Tree::of(self.root())
    }

    pub(crate) fn root(self) -> Arc<Directory> {
        Arc::new(self.root.finish())
    }

    fn count(&mut self, path: &str) -> Result<(), PathError> {
        self.entries += 1;
        match self.entries > self.limits.entries_max {
            true => Err(PathError::Limit {
                path: path.to_owned(),
                limit: LimitExceeded::Entries(self.limits.entries_max),
            }),
            false => Ok(()),
        }
    }

    fn draft(&mut self, path: &str, names: &[&str]) -> Result<&mut Draft, PathError> {
        let (entries_max, mut entries) = (self.limits.entries_max, self.entries);
        let mut draft = &mut self.root;
        for name in names {
            let node = draft.children.entry((*name).into()).or_insert_with(|| {
                entries += 1;
                DraftNode::Directory(Draft::default())
            });
            draft = match node {
                DraftNode::Directory(draft) => draft,
                DraftNode::File(_) => {
                    let why = "it is both a file and a directory";
                    return Err(PathError::Path {
                        path: path.to_owned(),
                        why,
                    });
                }
            };
        }
        self.entries = entries;
        if entries > entries_max {
            let limit = LimitExceeded::Entries(entries_max);
            return Err(PathError::Limit {
                path: path.to_owned(),
                limit,
            });
        }
        Ok(draft)
    }
}

impl Draft {
    fn finish(self) -> Directory {
        let entries = self.children.into_iter().map(|(name, node)| {
            let node = match node {
                DraftNode::File(file) => Node::File(file),
                DraftNode::Directory(draft) => Node::Directory(Arc::new(draft.finish())),
            };
            (name, node)
        });
        Directory::new(entries.collect(), self.links.into_iter().collect())
    }
}

pub(crate) fn names<'p>(path: &'p str, limits: &Limits) -> Result<Vec<&'p str>, PathError> {
    let wrong = |why| {
        Err(PathError::Path {
            path: path.chars().take(200).collect(),
            why,
        })
    };
    let limit = |limit| {
        Err(PathError::Limit {
            path: path.chars().take(200).collect(),
            limit,
        })
    };
    if path.is_empty() {
        return Ok(Vec::new());
    }
    if path.len() > limits.path_bytes_max {
        return limit(LimitExceeded::PathBytes(limits.path_bytes_max));
    }
    let names: Vec<&str> = path.split('/').collect();
    if names.len() > limits.depth_max + 1 {
        return limit(LimitExceeded::Depth(limits.depth_max));
    }
    for name in &names {
        match *name {
            "" if path.starts_with('/') => return wrong("it is absolute"),
            "" => return wrong("it has an empty name"),
            "." | ".." => return wrong("it has the name . or .."),
            name if name.contains('\0') => return wrong("it has a NUL byte"),
            _ => {}
        }
    }
    Ok(names)
}
