//! What is known of a collection: values by id, which never go back in time.
//!
//! Three sources tell of the same objects at their own pace: lists, watch events, and the
//! answers to our own writes, which arrive before their events. The rules that keep them
//! from contradicting each other are all here, pure:
//!
//! - of two values of an object the one with the higher version stays;
//! - an object that is absent, although everything up to a version was told, cannot be
//!   brought back by a value of that version or before: it has been deleted since;
//! - a list removes what it does not have, unless that was written after the list was read;
//! - a list that is older than what was told already comes from a cluster that was
//!   restored: then the list is right.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::feed::Item;

#[derive(Debug)]
struct Slot<V> {
    version: u64,
    value: Arc<V>,
}

/// Values by id.
#[derive(Debug)]
pub(super) struct Shelf<I, V> {
    slots: HashMap<I, Slot<V>>,
    /// Everything up to this version was told.
    told: u64,
    listed: bool,
}

/// What a change did to one object; at least one side is there.
#[derive(Debug)]
pub(super) struct Difference<V> {
    pub(super) before: Option<Arc<V>>,
    pub(super) after: Option<Arc<V>>,
}

impl<I: Clone + Eq + Hash, V> Shelf<I, V> {
    pub(super) fn new() -> Self {
        Self {
            slots: HashMap::new(),
            told: 0,
            listed: false,
        }
    }

    /// Whether the collection was ever listed.
    pub(super) fn listed(&self) -> bool {
        self.listed
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn get(&self, id: &I) -> Option<&Arc<V>> {
        self.slots.get(id).map(|slot| &slot.value)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<V>> {
        self.slots.values().map(|slot| &slot.value)
    }

    /// A watch event: new or changed.
    pub(super) fn apply(&mut self, id: I, item: Item<V>) -> Option<Difference<V>> {
        let told = self.told;
        self.told = told.max(item.version);
        self.put(id, item, told)
    }

    /// The answer to a write of ours.
    pub(super) fn note(&mut self, id: I, item: Item<V>) -> Option<Difference<V>> {
        self.put(id, item, self.told)
    }

    fn put(&mut self, id: I, item: Item<V>, told: u64) -> Option<Difference<V>> {
        let before = match self.slots.get(&id) {
            Some(slot) if slot.version >= item.version => return None,
            Some(slot) => Some(Arc::clone(&slot.value)),
            None if item.version <= told => return None,
            None => None,
        };
        let value = Arc::new(item.value);
        let after = Some(Arc::clone(&value));
        let version = item.version;
        self.slots.insert(id, Slot { version, value });
        Some(Difference { before, after })
    }

    /// A watch event: gone.
    pub(super) fn delete(&mut self, id: &I, version: u64) -> Option<Difference<V>> {
        self.told = self.told.max(version);
        if self.slots.get(id).is_none_or(|slot| slot.version > version) {
            return None;
        }
        let before = self.slots.remove(id).map(|slot| slot.value);
        Some(Difference { before, after: None })
    }

    /// A bookmark.
    pub(super) fn tell(&mut self, version: u64) {
        self.told = self.told.max(version);
    }

    /// A list: what differs from what was known.
    pub(super) fn relist(
        &mut self,
        version: u64,
        items: impl IntoIterator<Item = (I, Item<V>)>,
    ) -> Vec<(I, Difference<V>)> {
        let restored = version < self.told;
        let mut old = std::mem::take(&mut self.slots);
        let mut differences = Vec::new();
        for (id, item) in items {
            let before = match old.remove(&id) {
                Some(slot) if slot.version == item.version || (slot.version > item.version && !restored) => {
                    self.slots.insert(id, slot);
                    continue;
                }
                Some(slot) => Some(slot.value),
                None => None,
            };
            let value = Arc::new(item.value);
            let after = Some(Arc::clone(&value));
            let version = item.version;
            self.slots.insert(id.clone(), Slot { version, value });
            differences.push((id, Difference { before, after }));
        }
        for (id, slot) in old {
            if slot.version > version && !restored {
                self.slots.insert(id, slot);
            } else {
                let before = Some(slot.value);
                differences.push((id, Difference { before, after: None }));
            }
        }
        self.told = version;
        self.listed = true;
        differences
    }
}
