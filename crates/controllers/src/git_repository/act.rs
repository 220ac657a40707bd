//! Making an artifact: fetch, read the tree, publish. The only writes outside the cluster.

use std::sync::Arc;

use equate_git::{Remote, Revision};
use equate_source::{Ignore, Limits, Stored, Tree};
use tokio::task::spawn_blocking;

use super::Context;
use super::declared::Declared;
use super::failure::Failure;

/// An artifact that is in the store. Only [`publish`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) stored: Stored,
    /// The first line of the commit's message.
    pub(super) summary: String,
}

/// Makes the artifact of a revision. Where it fails, what was published before stays.
pub(super) async fn publish(
    cx: Arc<Context>,
    declared: Arc<Declared>,
    remote: Remote,
    revision: Revision,
) -> Result<Published, Failure> {
    let key = declared.key.clone();
    let work = spawn_blocking(move || {
        let commit = cx
            .git
            .fetch(&remote, &revision)
            .map_err(|error| Failure::fetch(&error))?;
        let ignore = Ignore::new(declared.ignore.as_deref());
        let previous = cx.storage.newest(&declared.place);
        let tree = Tree::from_git_after(commit.tree(), &ignore, &Limits::default(), previous.as_ref())
            .map_err(|error| Failure::tree(&error))?;
        let stored = cx
            .storage
            .publish(&declared.place, &revision.to_string(), &tree)
            .map_err(|error| Failure::storage(&error))?;
        Ok(Published {
            stored,
            summary: commit.summary(),
        })
    });
    work.await.unwrap_or_else(|_| Err(Failure::broken(&key)))
}
