//! The kinds that the cluster lacked when objects were applied, for each owner whose apply failed for it.
//!
//! It makes no definition: the program that adds one reports it, and the owners try again at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use equate_manifest::object::GroupVersionKind;

use crate::ObjectRef;

/// The missing kinds of one owner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MissingKinds {
    /// The kinds, and whether one of the objects has a namespace.
    pub kinds: BTreeMap<GroupVersionKind, bool>,
    /// Whether nothing else failed.
    pub only: bool,
    /// Whether all was applied since; the status may still say otherwise.
    pub resolved: bool,
}

#[derive(Debug, Default)]
pub(crate) struct MissingByOwner(Mutex<BTreeMap<ObjectRef, Entry>>);

#[derive(Debug)]
struct Entry {
    missing: MissingKinds,
    /// Whether one of the kinds was defined since.
    defined: bool,
}

impl MissingByOwner {
    /// Replaces the record of an owner.
    pub(crate) fn set(&self, owner: &ObjectRef, missing: MissingKinds) {
        let mut entries = self.entries();
        if missing.kinds.is_empty() {
            entries.remove(owner);
            return;
        }
        let defined = false;
        entries.insert(owner.clone(), Entry { missing, defined });
    }

    /// Notes that all objects of an owner are applied.
    pub(crate) fn resolve(&self, owner: &ObjectRef) {
        if let Some(entry) = self.entries().get_mut(owner) {
            entry.missing.resolved = true;
        }
    }

    /// Notes that an owner tries again: it has used the definitions that were made since.
    pub(crate) fn attempted(&self, owner: &ObjectRef) {
        if let Some(entry) = self.entries().get_mut(owner) {
            entry.defined = false;
        }
    }

    pub(crate) fn forget(&self, owner: &ObjectRef) {
        self.entries().remove(owner);
    }

    pub(crate) fn all(&self) -> BTreeMap<ObjectRef, MissingKinds> {
        let entries = self.entries();
        let all = entries.iter();
        all.map(|(owner, entry)| (owner.clone(), entry.missing.clone()))
            .collect()
    }

    /// Notes that a kind is served now; returns the owners that lacked it.
    pub(crate) fn define(&self, group: &str, kind: &str) -> Vec<ObjectRef> {
        let mut entries = self.entries();
        let lack = |entry: &Entry| {
            let mut kinds = entry.missing.kinds.keys();
            kinds.any(|gvk| gvk.group == group && gvk.kind == kind)
        };
        let mut owners = Vec::new();
        for (owner, entry) in entries.iter_mut().filter(|(_, entry)| lack(entry)) {
            entry.defined = true;
            owners.push(owner.clone());
        }
        owners
    }

    /// Whether a kind that an owner lacked was defined since.
    pub(crate) fn is_defined(&self, owner: &ObjectRef) -> bool {
        self.entries().get(owner).is_some_and(|entry| entry.defined)
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<ObjectRef, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_a_defined_kind_are_found() {
        let missing = |kinds: &[&str]| MissingKinds {
            kinds: kinds
                .iter()
                .map(|kind| (GroupVersionKind::new("example.org", "v1", *kind), true))
                .collect(),
            only: true,
            resolved: false,
        };
        let owner = |name: &str| ObjectRef::new("Kustomization", "n", name);
        let all = MissingByOwner::default();
        all.set(&owner("a"), missing(&["A", "B"]));
        all.set(&owner("b"), missing(&["B"]));
        assert_eq!(all.define("example.org", "A"), [owner("a")]);
        assert!(all.is_defined(&owner("a")) && !all.is_defined(&owner("b")));
        assert_eq!(all.define("other.org", "B"), []);
        all.attempted(&owner("a"));
        assert!(!all.is_defined(&owner("a")));
        assert_eq!(all.define("example.org", "A"), [owner("a")]);
        // the next apply says what is still missing
        all.set(&owner("a"), missing(&["B"]));
        assert!(!all.is_defined(&owner("a")));
        all.resolve(&owner("a"));
        assert!(all.all()[&owner("a")].resolved);
        all.set(&owner("a"), missing(&[]));
        all.forget(&owner("b"));
        assert!(all.all().is_empty());
    }
}
