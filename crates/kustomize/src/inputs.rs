//! What a build read, so that a caller can tell that building again would give the same.
//!
//! Recorded are: every file read, by its content id; every path where something
//! was looked for, by what stood there; every directory that was walked, by the
//! names and kinds it lists. A directory that was only passed through does not
//! count: a change elsewhere below it goes unnoticed, on purpose.

use crate::tree::{EntryKind, Tree};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// What a build read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inputs {
    reads: BTreeMap<String, Seen>,
    lists: BTreeMap<String, Option<[u8; 32]>>,
}

/// What stood at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Absent,
    /// A directory; its content was not asked for.
    Directory,
    /// A file or a symbolic link whose content may have been read.
    Content(EntryKind, [u8; 32]),
}

impl Inputs {
    /// Whether everything the build read stands in `tree` as it did.
    pub fn unchanged(&self, tree: &dyn Tree) -> bool {
        self.reads.iter().all(|(path, seen)| look(tree, path) == *seen)
            && self
                .lists
                .iter()
                .all(|(dir, listing)| listed(tree, dir) == *listing)
    }

    /// The paths of files that were read, and of paths where nothing was found.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.reads.keys().chain(self.lists.keys()).map(String::as_str)
    }

    /// Records what stands at `path`.
    pub(crate) fn saw(&mut self, tree: &dyn Tree, path: &str) {
        if !self.reads.contains_key(path) {
            self.reads.insert(path.to_owned(), look(tree, path));
        }
    }

    /// Records what the directory `dir` lists.
    pub(crate) fn walked(&mut self, tree: &dyn Tree, dir: &str) {
        if !self.lists.contains_key(dir) {
            self.lists.insert(dir.to_owned(), listed(tree, dir));
        }
    }
}

fn look(tree: &dyn Tree, path: &str) -> Seen {
    match tree.stat(path) {
        None => Seen::Absent,
        Some(stat) if stat.kind == EntryKind::Directory => Seen::Directory,
        Some(stat) => Seen::Content(stat.kind, stat.id),
    }
}

/// Names and kinds only: what a listed file holds counts where it was read.
fn listed(tree: &dyn Tree, dir: &str) -> Option<[u8; 32]> {
    let entries = tree.list(dir)?;
    let mut hash = Sha256::new();
    for (name, stat) in entries {
        hash.update(name.as_bytes());
        hash.update(match stat.kind {
            EntryKind::File => b"\0f",
            EntryKind::Directory => b"\0d",
            EntryKind::Symlink => b"\0l",
        });
    }
    Some(hash.finalize().into())
}
