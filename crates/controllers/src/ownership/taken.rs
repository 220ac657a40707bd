//! Objects that an owner began to apply while no inventory had them: they are its own from then on.

use std::collections::{BTreeSet, HashMap};

use equate_apply::id::ObjectId;

use crate::ObjectRef;
use crate::kit::shrink::shrink;

/// Objects that nobody held when an owner began to apply them, until they are in its inventory. The
/// owner holds them.
#[derive(Debug, Default)]
pub(crate) struct TakenObjects(HashMap<ObjectId, ObjectRef>);

impl TakenObjects {
    pub(super) fn by(&self, id: &ObjectId) -> Option<&ObjectRef> {
        self.0.get(id)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, owner: &ObjectRef, ids: impl Iterator<Item = ObjectId>) {
        self.forget(owner);
        self.0.extend(ids.map(|id| (id, owner.clone())));
    }

    pub(super) fn recorded(&mut self, owner: &ObjectRef, inventory: &BTreeSet<ObjectId>) {
        self.0.retain(|id, by| by != owner || !inventory.contains(id));
        shrink(&mut self.0);
    }

    pub(super) fn forget(&mut self, owner: &ObjectRef) {
        self.0.retain(|_, by| by != owner);
        shrink(&mut self.0);
    }
}
