//! The applied objects, so that those which git no longer declares can be pruned.
//!
//! An inventory is a set of ids, each with the version it was applied in. It is stored in a
//! Kustomization's status, in Flux's format, and nowhere else.

use crate::id::{ObjectId, ParseIdError};
use std::collections::BTreeMap;
use std::collections::btree_map;

/// The objects that an owner has applied, or is about to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    entries: BTreeMap<ObjectId, String>,
}

impl Inventory {
    /// Parses the `id` and `v` of `status.inventory.entries`.
    ///
    /// # Errors
    /// An id is invalid: skipping it would mean that its object is never pruned.
    pub fn parse<'a>(
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Inventory, ParseIdError> {
        entries
            .into_iter()
            .map(|(id, version)| Ok((ObjectId::from_inventory(id)?, version.to_owned())))
            .collect()
    }

    /// The `id` and `v` of each entry, sorted by `id`, so that equal inventories are equal texts.
    pub fn entries(&self) -> Vec<(String, String)> {
        let mut entries: Vec<_> = self
            .entries
            .iter()
            .map(|(id, version)| (id.to_inventory(), version.clone()))
            .collect();
        entries.sort();
        entries
    }

    /// Adds an object, or updates its version.
    pub fn insert(&mut self, id: ObjectId, version: impl Into<String>) {
        self.entries.insert(id, version.into());
    }

    /// Removes an object.
    pub fn remove(&mut self, id: &ObjectId) -> bool {
        self.entries.remove(id).is_some()
    }

    /// Whether it contains the object.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.entries.contains_key(id)
    }

    /// The version of an object.
    pub fn version(&self, id: &ObjectId) -> Option<&str> {
        self.entries.get(id).map(String::as_str)
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The objects, sorted by id.
    pub fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.entries.keys()
    }

    /// The objects and their versions, sorted by id.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectId, &str)> {
        self.entries.iter().map(|(id, version)| (id, version.as_str()))
    }

    /// The objects in either; the other's versions win.
    #[must_use]
    pub fn union(&self, other: &Inventory) -> Inventory {
        let mut union = self.clone();
        union
            .entries
            .extend(other.entries.iter().map(|(id, v)| (id.clone(), v.clone())));
        union
    }

    /// The objects in this one but not in the other.
    #[must_use]
    pub fn difference(&self, other: &Inventory) -> Inventory {
        self.iter()
            .filter(|(id, _)| !other.contains(id))
            .map(|(id, version)| (id.clone(), version.to_owned()))
            .collect()
    }

    /// Whether the other contains every object of this one.
    pub fn is_subset(&self, other: &Inventory) -> bool {
        self.ids().all(|id| other.contains(id))
    }
}

impl FromIterator<(ObjectId, String)> for Inventory {
    fn from_iter<T: IntoIterator<Item = (ObjectId, String)>>(entries: T) -> Self {
        Self {
            entries: entries.into_iter().collect(),
        }
    }
}

impl IntoIterator for Inventory {
    type Item = (ObjectId, String);
    type IntoIter = btree_map::IntoIter<ObjectId, String>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(text: &str) -> Inventory {
        Inventory::parse(text.split_whitespace().map(|id| (id, "v1"))).unwrap()
    }

    fn shown(inventory: &Inventory) -> String {
        let ids: Vec<_> = inventory.entries().into_iter().map(|(id, _)| id).collect();
        ids.join(" ")
    }

    #[test]
    fn sets() {
        let check = |a: &str, b: &str, union: &str, difference: &str, subset: bool| {
            let (a, b) = (inventory(a), inventory(b));
            assert_eq!(shown(&a.union(&b)), union);
            assert_eq!(shown(&a.difference(&b)), difference);
            assert_eq!(a.is_subset(&b), subset);
        };
        check("", "", "", "", true);
        check("_a__N", "", "_a__N", "_a__N", false);
        check("", "_a__N", "_a__N", "", true);
        check(
            "n_b__C _a__N",
            "n_b__C n_c_g_D",
            "_a__N n_b__C n_c_g_D",
            "_a__N",
            false,
        );
        // the version is not part of the identity
        let (mut old, mut new) = (Inventory::default(), Inventory::default());
        old.insert(ObjectId::new("g", "D", "n", "c"), "v1beta1");
        new.insert(ObjectId::new("g", "D", "n", "c"), "v1");
        assert!(old.difference(&new).is_empty());
        assert_eq!(
            old.union(&new).version(&ObjectId::new("g", "D", "n", "c")),
            Some("v1")
        );
    }

    #[test]
    fn a_bad_entry_is_named() {
        let error = Inventory::parse([("_a__N", "v1"), ("nonsense", "v1")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "inventory entry `nonsense` is invalid: it is not <namespace>_<name>_<group>_<kind>"
        );
    }
}
