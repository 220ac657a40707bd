//! The tree of a commit as input of a build, read from git's objects.

use bytes::Bytes;
use equate_git::{Entry, Mode, Node, TreeError};
use equate_kustomize::{EntryKind, ReadError, Stat, Tree};

/// Adapts a tree of `git` to the trait of `kustomize`.
#[derive(Debug, Clone)]
pub(crate) struct Commit(pub(crate) equate_git::Tree);

#[derive(Debug, thiserror::Error)]
#[error("the path is in a submodule, and submodules are not fetched")]
struct Submodule;

impl Commit {
    fn is_in_submodule(&self, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        ends.into_iter().any(|end| {
            let entry = self.0.entry(&path[..end]);
            matches!(
                entry,
                Ok(Some(Entry {
                    mode: Mode::Submodule,
                    ..
                }))
            )
        })
    }

    fn look(&self, path: &str) -> Result<Option<Stat>, TreeError> {
        if let Some(entry) = self.0.entry(path)? {
            return Ok(Some(leaf(entry.mode, entry.id.as_bytes())));
        }
        let directory = self.0.subtree(path)?;
        Ok(directory.map(|directory| stat(EntryKind::Directory, directory.id().as_bytes())))
    }
}

impl Tree for Commit {
    /// An unknown entry counts as a file: reading it reports the error.
    fn stat(&self, path: &str) -> Option<Stat> {
        match self.look(path) {
            Ok(Some(found)) => Some(found),
            Ok(None) if self.is_in_submodule(path) => Some(stat(EntryKind::File, &[])),
            Ok(None) => None,
            Err(_) => Some(stat(EntryKind::File, &[])),
        }
    }

    fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>> {
        let children = self.0.subtree(dir).ok()??.children().ok()?;
        let entries = children.into_iter().map(|child| {
            let stat = match child.node {
                Node::Leaf(mode, id) => leaf(mode, id.as_bytes()),
                Node::Directory(id) => stat(EntryKind::Directory, id.as_bytes()),
            };
            (child.name, stat)
        });
        Some(entries.collect())
    }

    fn read(&self, path: &str) -> Result<Bytes, ReadError> {
        let failed = |error: TreeError| ReadError::Store(Box::new(error));
        if self.is_in_submodule(path) {
            return Err(ReadError::Store(Box::new(Submodule)));
        }
        match self.0.entry(path).map_err(failed)? {
            Some(entry) => self.0.read(&entry.id).map_err(failed),
            None if self.0.subtree(path).map_err(failed)?.is_some() => Err(ReadError::Directory),
            None => Err(ReadError::Absent),
        }
    }
}

fn leaf(mode: Mode, id: &[u8]) -> Stat {
    match mode {
        Mode::Symlink => stat(EntryKind::Symlink, id),
        Mode::File | Mode::Executable | Mode::Submodule => stat(EntryKind::File, id),
    }
}

fn stat(kind: EntryKind, id: &[u8]) -> Stat {
    let mut whole = [0; 32];
    for (to, from) in whole.iter_mut().zip(id) {
        *to = *from;
    }
    Stat { kind, id: whole }
}
