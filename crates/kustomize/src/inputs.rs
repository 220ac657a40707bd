//! Inputs of a build, to decide whether a rebuild would give the same objects.
//!
//! Recorded: every file read, by content id; every path probed, by what was found; every directory walked, by
//! the names and kinds in it. A directory that was only traversed is not recorded, so unrelated changes below
//! it go unnoticed on purpose. Remote repositories are recorded by URL, reference and commit, remote files by
//! digest.

use crate::tree::{EntryKind, Tree};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// The inputs of a build.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inputs {
    reads: BTreeMap<String, Observed>,
    lists: BTreeMap<String, Option<[u8; 32]>>,
    remotes: Vec<RemoteInput>,
}

/// A remote input. URLs are without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteInput {
    /// A repository.
    Repository {
        /// The clone URL.
        url: String,
        /// The requested branch, tag, ref or commit; empty for HEAD.
        reference: String,
        /// The fetched commit.
        commit: String,
    },
    /// A file served over HTTP.
    File {
        /// The URL.
        url: String,
        /// SHA-256 of its content.
        digest: [u8; 32],
    },
}

impl RemoteInput {
    /// Whether the input can never change: a repository requested by commit.
    pub fn is_pinned(&self) -> bool {
        match self {
            Self::Repository {
                reference, commit, ..
            } => reference.eq_ignore_ascii_case(commit),
            Self::File { .. } => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Observed {
    Absent,
    /// A directory that was not listed.
    Directory,
    /// A file or symbolic link whose content may have been read.
    Content(EntryKind, [u8; 32]),
}

impl Inputs {
    /// Whether `tree` still has everything the build read. Remote inputs count as changed unless pinned.
    pub fn unchanged(&self, tree: &dyn Tree) -> bool {
        self.unchanged_with(tree, |_| false)
    }

    /// [`Self::unchanged`], where `remote` decides for remote inputs that are not pinned.
    pub fn unchanged_with(&self, tree: &dyn Tree, mut remote: impl FnMut(&RemoteInput) -> bool) -> bool {
        self.unchanged_in(tree)
            && self
                .remotes
                .iter()
                .all(|input| input.is_pinned() || remote(input))
    }

    /// The remote inputs, in the order of first use.
    pub fn remotes(&self) -> &[RemoteInput] {
        &self.remotes
    }

    fn unchanged_in(&self, tree: &dyn Tree) -> bool {
        self.reads.iter().all(|(path, seen)| look(tree, path) == *seen)
            && self
                .lists
                .iter()
                .all(|(dir, listing)| listed(tree, dir) == *listing)
    }

    /// The paths of files read and of paths where nothing was found.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.reads.keys().chain(self.lists.keys()).map(String::as_str)
    }

    pub(crate) fn record_path(&mut self, tree: &dyn Tree, path: &str) {
        if !self.reads.contains_key(path) {
            self.reads.insert(path.to_owned(), look(tree, path));
        }
    }

    pub(crate) fn fetched(&mut self, input: RemoteInput) {
        self.remotes.push(input);
    }

    pub(crate) fn record_listing(&mut self, tree: &dyn Tree, dir: &str) {
        if !self.lists.contains_key(dir) {
            self.lists.insert(dir.to_owned(), listed(tree, dir));
        }
    }
}

fn look(tree: &dyn Tree, path: &str) -> Observed {
    match tree.stat(path) {
        None => Observed::Absent,
        Some(stat) if stat.kind == EntryKind::Directory => Observed::Directory,
        Some(stat) => Observed::Content(stat.kind, stat.id),
    }
}

/// Names and kinds only: content counts where a file was read.
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
