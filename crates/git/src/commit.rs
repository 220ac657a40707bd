//! A fetched commit: author, committer, message and tree.

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

/// A name, an address and a time, as written in the repository. They prove nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
    /// The time by the writer's clock.
    pub time: SystemTime,
}

impl Commit {
    pub(crate) fn read(
        store: &Arc<Store>,
        revision: &Revision,
        limits: &Arc<Limits>,
    ) -> Result<Self, gix::Error> {
        let (commit, _) = Self::read_with_parents(store, revision, limits)?;
        Ok(commit)
    }

    /// The commit and the ids of its parents.
    pub(crate) fn read_with_parents(
        store: &Arc<Store>,
        revision: &Revision,
        limits: &Arc<Limits>,
    ) -> Result<(Self, Vec<ObjectId>), gix::Error> {
        store.with(|repository| {
            let found = repository.find_commit(revision.id)?;
            let decoded = found.decode()?;
            let commit = Self {
                revision: revision.clone(),
                author: signature(decoded.author()?),
                committer: signature(decoded.committer()?),
                message: String::from_utf8_lossy(decoded.message).into_owned(),
                tree: Tree::new(Arc::clone(store), decoded.tree(), Arc::clone(limits)),
            };
            Ok((commit, decoded.parents().collect()))
        })
    }

    /// The revision that was fetched.
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// The author of the change.
    pub fn author(&self) -> &Signature {
        &self.author
    }

    /// The creator of the commit.
    pub fn committer(&self) -> &Signature {
        &self.committer
    }

    /// The whole message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The message's first line, cut to 50 characters.
    pub fn summary(&self) -> String {
        const CHARS_MAX: usize = 50;
        let line = self.message.lines().next().unwrap_or_default();
        match line.char_indices().nth(CHARS_MAX) {
            Some((end, _)) => format!("{}...", &line[..end]),
            None => line.to_owned(),
        }
    }

    /// Returns the signer: the id of an OpenPGP key, or the fingerprint of an SSH key.
    ///
    /// # Errors
    /// None of the signers made a valid signature.
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
