//! Values of a collection by id, which never go back in time. Pure.
//!
//! Lists, watch events and the answers to Equate's own writes arrive at their own pace; answers come
//! before their events:
//!
//! - of two values of an object the one with the higher version stays;
//! - if an object is absent although all changes up to a version arrived, no value up to that version
//!   can restore it: it was deleted since;
//! - a list removes missing objects, unless they were written after the list was read;
//! - a list older than the last event comes from a restored cluster: then the list is right.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::feed::Item;

#[derive(Debug)]
struct Slot<V> {
    version: u64,
    value: Arc<V>,
}

#[derive(Debug)]
pub(super) struct VersionedStore<I, V> {
    slots: HashMap<I, Slot<V>>,
    /// All changes up to this version arrived.
    seen_version: u64,
    listed: bool,
}

/// The change of one object; at least one side is set.
#[derive(Debug)]
pub(super) struct Difference<V> {
    pub(super) before: Option<Arc<V>>,
    pub(super) after: Option<Arc<V>>,
}

impl<I: Clone + Eq + Hash, V> VersionedStore<I, V> {
    pub(super) fn new() -> Self {
        Self {
            slots: HashMap::new(),
            seen_version: 0,
            listed: false,
        }
    }

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
        let seen_version = self.seen_version;
        self.seen_version = seen_version.max(item.version);
        self.put(id, item, seen_version)
    }

    pub(super) fn note(&mut self, id: I, item: Item<V>) -> Option<Difference<V>> {
        self.put(id, item, self.seen_version)
    }

    /// A value that was just read: also of the same version, which may be observed under other rules.
    pub(super) fn reread(&mut self, id: I, item: Item<V>) -> Option<Difference<V>> {
        match self.slots.get_mut(&id) {
            Some(slot) if slot.version == item.version => {
                let value = Arc::new(item.value);
                let after = Some(Arc::clone(&value));
                let before = Some(std::mem::replace(&mut slot.value, value));
                Some(Difference { before, after })
            }
            _ => self.put(id, item, self.seen_version),
        }
    }

    fn put(&mut self, id: I, item: Item<V>, seen_version: u64) -> Option<Difference<V>> {
        let before = match self.slots.get(&id) {
            Some(slot) if slot.version >= item.version => return None,
            Some(slot) => Some(Arc::clone(&slot.value)),
            None if item.version <= seen_version => return None,
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
        self.seen_version = self.seen_version.max(version);
        if self.slots.get(id).is_none_or(|slot| slot.version > version) {
            return None;
        }
        let before = self.slots.remove(id).map(|slot| slot.value);
        Some(Difference { before, after: None })
    }

    pub(super) fn bookmark(&mut self, version: u64) {
        self.seen_version = self.seen_version.max(version);
    }

    /// A list; returns the differences. An entry without a value exists and is unreadable: it keeps its
    /// last value.
    pub(super) fn relist(
        &mut self,
        version: u64,
        items: impl IntoIterator<Item = (I, Option<Item<V>>)>,
    ) -> Vec<(I, Difference<V>)> {
        let restored = version < self.seen_version;
        let mut old = std::mem::take(&mut self.slots);
        let mut differences = Vec::new();
        for (id, item) in items {
            let known = old.remove(&id);
            let Some(item) = item else {
                self.slots.extend(known.map(|slot| (id, slot)));
                continue;
            };
            let before = match known {
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
        self.seen_version = version;
        self.listed = true;
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a script of changes and returns the differences, then the content.
    ///
    /// `list V [ID@V...]`, `apply ID@V`, `delete ID@V`, `note ID@V`, `bookmark V`
    fn play(script: &str) -> String {
        let mut versioned_store: VersionedStore<String, u64> = VersionedStore::new();
        let item = |text: &str| {
            let (id, version) = text.split_once('@').unwrap();
            let version = version.parse().unwrap();
            (
                id.to_owned(),
                Item {
                    version,
                    value: version,
                },
            )
        };
        let side = |side: &Option<Arc<u64>>| side.as_ref().map_or("none".to_owned(), ToString::to_string);
        let show = |id: &str, d: &Difference<u64>| format!("{id}:{}>{}", side(&d.before), side(&d.after));
        let mut out = Vec::new();
        for line in script.split(';').map(str::trim) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let mut differences: Vec<String> = match words[..] {
                ["list", version, ref items @ ..] => {
                    let items = items.iter().map(|text| match text.strip_suffix('?') {
                        Some(id) => (id.to_owned(), None),
                        None => {
                            let (id, item) = item(text);
                            (id, Some(item))
                        }
                    });
                    let all = versioned_store.relist(version.parse().unwrap(), items);
                    all.iter().map(|(id, d)| show(id, d)).collect()
                }
                ["apply", text] => {
                    let (id, item) = item(text);
                    let difference = versioned_store.apply(id.clone(), item);
                    difference.iter().map(|d| show(&id, d)).collect()
                }
                ["note", text] => {
                    let (id, item) = item(text);
                    let difference = versioned_store.note(id.clone(), item);
                    difference.iter().map(|d| show(&id, d)).collect()
                }
                ["delete", text] => {
                    let (id, item) = item(text);
                    let difference = versioned_store.delete(&id, item.version);
                    difference.iter().map(|d| show(&id, d)).collect()
                }
                ["bookmark", version] => {
                    versioned_store.bookmark(version.parse().unwrap());
                    continue;
                }
                _ => panic!("{line}"),
            };
            differences.sort();
            out.push(if differences.is_empty() {
                "-".to_owned()
            } else {
                differences.join(",")
            });
        }
        let mut known: Vec<_> = versioned_store
            .slots
            .iter()
            .map(|(id, slot)| format!("{id}@{}", slot.value))
            .collect();
        known.sort();
        format!("{} | {}", out.join(" "), known.join(" "))
    }

    #[track_caller]
    fn check(script: &str, expected: &str) {
        assert_eq!(play(script), expected, "{script}");
    }

    #[test]
    fn a_repeated_event_changes_nothing() {
        check(
            "list 5 a@3; apply b@6; apply a@7; delete b@8",
            "a:none>3 b:none>6 a:3>7 b:6>none | a@7",
        );
        check(
            "list 5; apply a@6; apply a@6; delete a@7; delete a@7",
            "- a:none>6 - a:6>none - | ",
        );
    }

    #[test]
    fn a_repeated_event_does_not_restore_a_deleted_object() {
        check(
            "list 5; apply a@6; delete a@7; apply a@6",
            "- a:none>6 a:6>none - | ",
        );
        check(
            "list 5; apply a@6; delete a@7; apply a@9",
            "- a:none>6 a:6>none a:none>9 | a@9",
        );
    }

    #[test]
    fn an_older_event_does_not_revert_an_own_write() {
        check(
            "list 5; note a@8; apply a@7; apply a@8; delete a@7",
            "- a:none>8 - - - | a@8",
        );
        check("list 5 a@4; note a@8; apply a@9", "a:none>4 a:4>8 a:8>9 | a@9");
    }

    #[test]
    fn a_late_answer_does_not_restore_a_deleted_object() {
        check(
            "list 5; apply a@6; delete a@9; note a@7",
            "- a:none>6 a:6>none - | ",
        );
        check("list 5; bookmark 9; note a@7; note a@10", "- - a:none>10 | a@10");
    }

    #[test]
    fn an_unreadable_object_is_not_deleted() {
        check(
            "list 5 a@1 b@2; list 9 a? c?; list 10 a@8",
            "a:none>1,b:none>2 b:2>none a:1>8 | a@8",
        );
    }

    #[test]
    fn a_list_delivers_missed_changes() {
        check(
            "list 5 a@1 b@2 c@3; list 9 a@1 b@7",
            "a:none>1,b:none>2,c:none>3 b:2>7,c:3>none | a@1 b@7",
        );
    }

    #[test]
    fn a_list_read_before_an_answer_does_not_remove_it() {
        check("note a@8; list 6", "a:none>8 - | a@8");
        check("list 5 a@4; note a@8; list 6 a@4", "a:none>4 a:4>8 - | a@8");
        check("list 5 a@4; note a@8; list 9", "a:none>4 a:4>8 a:8>none | ");
    }

    #[test]
    fn a_list_of_a_restored_cluster_wins() {
        check(
            "list 50 a@40 b@41; list 9 a@4",
            "a:none>40,b:none>41 a:40>4,b:41>none | a@4",
        );
    }
}
