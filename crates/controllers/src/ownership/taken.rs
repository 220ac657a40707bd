//! Objects that an owner began to apply while nobody held them: it holds them, though no inventory says so yet.

use std::collections::{BTreeSet, HashMap};

use equate_apply::id::ObjectId;

use crate::ObjectRef;

/// Objects that nobody held when an owner began to apply them, until they are in its inventory.
#[derive(Debug, Default)]
pub(crate) struct TakenObjects(HashMap<ObjectId, ObjectRef>);

impl TakenObjects {
    /// The owner that took an object.
    pub(super) fn by(&self, id: &ObjectId) -> Option<&ObjectRef> {
        self.0.get(id)
    }

    /// Whether nobody has taken anything.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An owner is about to apply these, and only these.
    pub(crate) fn take(&mut self, owner: &ObjectRef, ids: impl Iterator<Item = ObjectId>) {
        self.forget(owner);
        self.0.extend(ids.map(|id| (id, owner.clone())));
    }

    /// The inventory of an owner has these objects.
    pub(super) fn recorded(&mut self, owner: &ObjectRef, inventory: &BTreeSet<ObjectId>) {
        self.0.retain(|id, by| by != owner || !inventory.contains(id));
    }

    /// Forgets all that an owner took.
    pub(super) fn forget(&mut self, owner: &ObjectRef) {
        self.0.retain(|_, by| by != owner);
    }
}
