//! Commits on a tip, each on the one before, with their notes: made in memory.

use std::{collections::BTreeMap, sync::Arc};

use gix::ObjectId;

use super::Tips;
use crate::{
    commit::Commit,
    limits::Limits,
    objects::{Draft, Identity, Objects, ObjectsError},
    reference::Revision,
    store::Store,
    transport::RefUpdate,
};

/// Commits that no ref names yet.
#[derive(Debug)]
pub(super) struct Chain {
    /// The repository, with the new objects in memory.
    store: Arc<Store>,
    limits: Arc<Limits>,
    base: Tips,
    tips: Tips,
    /// The ref of the notes.
    notes: Option<String>,
    objects: Objects,
    commits: usize,
}

impl Chain {
    pub(super) fn new(store: &Store, limits: &Arc<Limits>, base: Tips) -> Self {
        Self {
            store: Arc::new(store.with_memory()),
            limits: Arc::clone(limits),
            base,
            tips: base,
            notes: None,
            objects: Objects::default(),
            commits: 0,
        }
    }

    /// Adds a commit of a draft on top. After an error, the chain is as before.
    pub(super) fn add(&mut self, draft: &Draft) -> Result<ObjectId, ObjectsError> {
        let mut objects = Objects::default();
        let people = (&draft.author, &draft.committer);
        let root = self.tree_of(self.tips.branch)?;
        let tree = objects.tree(&self.store, Some(root), &draft.changes)?;
        let commit = objects.commit(tree, Some(self.tips.branch), people, draft.time, &draft.message)?;
        let mut tips = Tips {
            branch: commit,
            ..self.tips
        };
        if let Some((_, text)) = &draft.note {
            let id = commit.to_string();
            let (directory, name) = id.split_at(2);
            let path = format!("{directory}/{name}");
            let changes = BTreeMap::from([(path, Some(text.clone().into_bytes()))]);
            let before = self.tips.notes;
            let root = before.map(|notes| self.tree_of(notes)).transpose()?;
            let tree = objects.tree(&self.store, root, &changes)?;
            let people: (&Identity, &Identity) = (&draft.committer, &draft.committer);
            let message = "Notes added by equate\n";
            tips.notes = Some(objects.commit(tree, before, people, draft.time, message)?);
        }
        self.store.add(&objects.0);
        self.objects.extend(objects);
        self.tips = tips;
        self.commits += 1;
        if let Some((reference, _)) = &draft.note {
            self.notes = Some(reference.clone());
        }
        Ok(commit)
    }

    /// The newest commit.
    pub(super) fn tip(&self) -> ObjectId {
        self.tips.branch
    }

    /// The number of commits.
    pub(super) fn commits(&self) -> usize {
        self.commits
    }

    /// The new objects.
    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The tip of the notes, if it is new.
    pub(super) fn notes(&self) -> Option<ObjectId> {
        self.tips.notes.filter(|_| self.notes.is_some())
    }

    /// The newest commit, with its tree.
    pub(super) fn read_tip(&self) -> Result<Commit, ObjectsError> {
        let revision = Revision {
            reference: None,
            absolute: false,
            id: self.tips.branch,
        };
        let read = Commit::read(&self.store, &revision, &self.limits);
        read.map_err(|source| ObjectsError::Read {
            id: self.tips.branch.to_string(),
            source,
        })
    }

    /// The refs to move, the branch first.
    pub(super) fn updates(&self, branch: &str) -> Vec<RefUpdate> {
        let mut updates = vec![RefUpdate {
            name: branch.to_owned(),
            old: Some(self.base.branch),
            new: self.tips.branch,
        }];
        if let (Some(name), Some(new)) = (&self.notes, self.tips.notes) {
            updates.push(RefUpdate {
                name: name.clone(),
                old: self.base.notes,
                new,
            });
        }
        updates
    }

    fn tree_of(&self, commit: ObjectId) -> Result<ObjectId, ObjectsError> {
        let tree = self.store.with(|repository| {
            let commit = repository.find_commit(commit)?;
            Ok(commit.tree_id()?.detach())
        });
        tree.map_err(|source| ObjectsError::Read {
            id: commit.to_string(),
            source,
        })
    }
}
