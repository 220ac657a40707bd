//! What a build read, so that a caller can tell that building again would give the same.
//!
//! Recorded are: every file read, by its content id; every path where something
//! was looked for, by what stood there; every directory that was walked, by the
//! names and kinds it lists. A directory that was only passed through does not
//! count: a change elsewhere below it goes unnoticed, on purpose. Of what lies
//! elsewhere: every repository by URL, reference and commit, every file by its
//! digest.

use crate::tree::{EntryKind, Tree};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// What a build read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inputs {
    reads: BTreeMap<String, Seen>,
    lists: BTreeMap<String, Option<[u8; 32]>>,
    remotes: Vec<RemoteInput>,
}

/// Something a build read that is not in its tree. URLs are without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteInput {
    /// A repository.
    Repository {
        /// What git clones.
        url: String,
        /// The branch, tag, ref or commit that was asked for; empty for HEAD.
        reference: String,
        /// The commit it was.
        commit: String,
    },
    /// A file that http served.
    File {
        /// Where.
        url: String,
        /// SHA-256 of its content.
        digest: [u8; 32],
    },
}

impl RemoteInput {
    /// Whether it can never be anything else: a repository that was asked for by its commit.
    pub fn is_pinned(&self) -> bool {
        match self {
            Self::Repository {
                reference, commit, ..
            } => reference.eq_ignore_ascii_case(commit),
            Self::File { .. } => false,
        }
    }
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
    /// Whether everything the build read stands in `tree` as it did. What is elsewhere counts as
    /// changed unless it is pinned.
    pub fn unchanged(&self, tree: &dyn Tree) -> bool {
        self.unchanged_but(tree, |_| false)
    }

    /// The same, where the caller says of what is elsewhere and not pinned whether it is as it was.
    pub fn unchanged_but(&self, tree: &dyn Tree, mut remote: impl FnMut(&RemoteInput) -> bool) -> bool {
        self.unchanged_in(tree)
            && self
                .remotes
                .iter()
                .all(|input| input.is_pinned() || remote(input))
    }

    /// What was read that is not in the tree, in the order of its first use.
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

    /// Records something that is not in the tree.
    pub(crate) fn fetched(&mut self, input: RemoteInput) {
        self.remotes.push(input);
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
