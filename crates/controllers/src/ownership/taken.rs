//! Objects that an owner began to apply while no inventory had them: they are its own from then on.

use std::collections::{BTreeSet, HashMap, HashSet};

use equate_apply::id::ObjectId;

use crate::ObjectRef;
use crate::kit::shrink::shrink;

/// Objects that nobody held when an owner began to apply them, until they are in its inventory. The
/// owner holds them.
#[derive(Debug, Default)]
pub(crate) struct TakenObjects {
    by: HashMap<ObjectId, ObjectRef>,
    of: HashMap<ObjectRef, HashSet<ObjectId>>,
}

impl TakenObjects {
    pub(super) fn by(&self, id: &ObjectId) -> Option<&ObjectRef> {
        self.by.get(id)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by.is_empty() && self.of.is_empty()
    }

    pub(crate) fn take(&mut self, owner: &ObjectRef, ids: impl Iterator<Item = ObjectId>) {
        self.forget(owner);
        let ids: HashSet<ObjectId> = ids.collect();
        for id in &ids {
            if let Some(before) = self.by.insert(id.clone(), owner.clone())
                && let Some(taken) = self.of.get_mut(&before)
            {
                taken.remove(id);
            }
        }
        if !ids.is_empty() {
            self.of.insert(owner.clone(), ids);
        }
    }

    pub(super) fn recorded(&mut self, owner: &ObjectRef, inventory: &BTreeSet<ObjectId>) {
        let Some(taken) = self.of.get(owner) else {
            return;
        };
        for id in taken.iter().filter(|id| inventory.contains(*id)) {
            self.by.remove(id);
        }
        shrink(&mut self.by);
        if let Some(taken) = self.of.get_mut(owner) {
            taken.retain(|id| !inventory.contains(id));
            if taken.is_empty() {
                self.of.remove(owner);
                shrink(&mut self.of);
            }
        }
    }

    pub(super) fn forget(&mut self, owner: &ObjectRef) {
        for id in self.of.remove(owner).into_iter().flatten() {
            self.by.remove(&id);
        }
        shrink(&mut self.of);
        shrink(&mut self.by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_has_one_taker_until_it_is_recorded() {
        let id = |name: &str| ObjectId::new("", "ConfigMap", "n", name);
        let apps = |name: &str| ObjectRef::new("Kustomization", "n", name);
        let mut taken = TakenObjects::default();
        taken.take(&apps("a"), [id("x"), id("y")].into_iter());
        taken.take(&apps("b"), [id("y"), id("z")].into_iter());
        let by = |taken: &TakenObjects, name: &str| taken.by(&id(name)).map(|owner| owner.name.clone());
        let all = |taken: &TakenObjects| ["x", "y", "z"].map(|name| by(taken, name).unwrap_or_default());
        assert_eq!(all(&taken), ["a", "b", "b"]);
        taken.recorded(&apps("a"), &[id("x"), id("y")].into());
        assert_eq!(all(&taken), ["", "b", "b"]);
        taken.recorded(&apps("b"), &[id("z")].into());
        assert_eq!(all(&taken), ["", "b", ""]);
        taken.forget(&apps("a"));
        taken.take(&apps("b"), [id("x")].into_iter());
        assert_eq!(all(&taken), ["b", "", ""]);
        taken.forget(&apps("b"));
        assert!(taken.by.is_empty() && taken.of.values().all(HashSet::is_empty));
    }
}
