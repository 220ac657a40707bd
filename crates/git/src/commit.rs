//! One commit that is at hand: who, when, and the tree.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use gix::ObjectId;

use crate::{
    limits::Limits,
    reference::Revision,
    signature::{SignatureError, Signers, verify_commit},
    store::Store,
    tree::Tree,
};

/// A fetched commit.
#[derive(Debug, Clone)]
pub struct Commit {
    revision: Revision,
    author: Signature,
    committer: Signature,
    message: String,
    tree: Tree,
}

/// Who did something, and when. The texts are the repository's own and prove nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
    /// When, as the writer's clock said.
    pub time: SystemTime,
}

impl Commit {
    /// Reads a commit that is in the store.
    pub(crate) fn read(
        store: &Arc<Store>,
        revision: &Revision,
        limits: &Arc<Limits>,
    ) -> Result<Self, gix::Error> {
        store.with(|repository| {
            let commit = repository.find_commit(revision.id)?;
            let tree: ObjectId = commit.tree_id()?.detach();
            Ok(Self {
                revision: revision.clone(),
                author: signature(commit.author()?),
                committer: signature(commit.committer()?),
                message: String::from_utf8_lossy(commit.message_raw()?).into_owned(),
                tree: Tree::new(Arc::clone(store), tree, Arc::clone(limits)),
            })
        })
    }

    /// What was fetched.
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// Who wrote the change.
    pub fn author(&self) -> &Signature {
        &self.author
    }

    /// Who made the commit.
    pub fn committer(&self) -> &Signature {
        &self.committer
    }

    /// The whole message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The message's first line, at most 50 characters of it.
    pub fn summary(&self) -> String {
        const CHARS_MAX: usize = 50;
        let line = self.message.lines().next().unwrap_or_default();
        match line.char_indices().nth(CHARS_MAX) {
            Some((end, _)) => format!("{}...", &line[..end]),
            None => line.to_owned(),
        }
    }

    /// Which of the signers signed it: the id of an OpenPGP key, or the fingerprint of an SSH key.
    ///
    /// # Errors
    /// None of them did.
    pub fn verify(&self, signers: &Signers, now: SystemTime) -> Result<String, SignatureError> {
        verify_commit(self.tree.store(), self.revision.id, signers, now)
    }

    /// The content.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }
}

fn signature(signature: gix::actor::SignatureRef<'_>) -> Signature {
    let seconds = signature.time().map(|time| time.seconds).unwrap_or_default();
    let offset = Duration::from_secs(seconds.unsigned_abs());
    let time = match seconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(offset),
        _ => SystemTime::UNIX_EPOCH.checked_sub(offset),
    };
    Signature {
        name: signature.name.to_string(),
        email: signature.email.to_string(),
        time: time.unwrap_or(SystemTime::UNIX_EPOCH),
    }
}
