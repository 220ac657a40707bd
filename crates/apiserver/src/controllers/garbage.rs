//! The garbage collector: handles the dependents of deleted owners, by upstream's rules (1.36).
//!
//! An object whose owners are all absent (by uid, where the reference points) is deleted. With one owner
//! left it loses only its dangling references. A foreground deletion of an owner waits for blocking
//! dependents; an orphaning one removes the dependents' references first.
//!
//! The index holds only objects with owner references, so its cost follows change. An owner of a kind that
//! is not served counts as present: nothing is deleted on partial knowledge.

use super::object::{FOREGROUND, ORPHAN, deleting, finalizers, has_finalizer};
use super::object::{meta, owner_references, text, uid};
use super::{Action, Controller, Propagation, Seen, Step};
use crate::field::go_quote;
use crate::store::{Entry, Event, EventKind, Key, ResourceId, Snapshot};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tokio::time::Instant;

const MANAGER: &str = "kube-controller-manager";
const REPORTER: &str = "garbage-collector-controller";

#[derive(Debug, Default)]
pub(super) struct Garbage {
    dependents: HashMap<String, BTreeSet<Key>>,
    waiting: HashMap<String, Key>,
    unserved: BTreeSet<Key>,
    reported: HashSet<(String, String)>,
    /// Owner uids of this round's dangling references, and whether the owner is in another namespace.
    foreign_owners: HashMap<String, bool>,
    dirty: BTreeSet<Key>,
}

#[derive(Default)]
struct Owners<'a> {
    solid: usize,
    dangling: Vec<&'a Value>,
    waiting: Vec<&'a Value>,
    unclear: bool,
}

impl Controller for Garbage {
    fn name(&self) -> &'static str {
        "garbage collector"
    }

    fn resync(&mut self, snapshot: &Snapshot, _at: Instant, _now: Timestamp) {
        *self = Self::default();
        for resource in snapshot.resources() {
            for (path, entry) in snapshot.list(resource, None) {
                let key = Key::new(resource, path.namespace(), path.name());
                self.changed(&key, None, Some(&entry.view()));
            }
        }
    }

    fn observe(&mut self, event: &Event, _at: Instant) {
        let before = event.previous.as_ref().map(|entry| entry.view());
        let after = match event.kind {
            EventKind::Added | EventKind::Modified => Some(event.entry.view()),
            EventKind::Deleted => None,
        };
        self.changed(&event.key, before.as_deref(), after.as_deref());
        let is_definition = event.key.resource.plural() == "customresourcedefinitions";
        if is_definition && !self.unserved.is_empty() {
            self.dirty.append(&mut self.unserved);
        }
    }

    fn again(&mut self, about: Key) {
        self.dirty.insert(about);
    }

    fn decide(&mut self, seen: &Seen<'_>) -> Vec<Step> {
        let mut steps = Vec::new();
        self.foreign_owners.clear();
        while let Some(key) = self.dirty.pop_first() {
            if let Some(entry) = seen.snapshot.get(&key) {
                self.reconcile(&key, entry, seen, &mut steps);
            }
        }
        steps
    }
}

impl Garbage {
    fn changed(&mut self, key: &Key, before: Option<&Value>, after: Option<&Value>) {
        let old = before.map(owner_references).unwrap_or_default();
        let new = after.map(owner_references).unwrap_or_default();
        if old != new {
            let uids = |refs: &[Value]| -> BTreeSet<String> {
                refs.iter().map(|r| text(r, "uid").to_owned()).collect()
            };
            let (old_uids, new_uids) = (uids(old), uids(new));
            for gone in old_uids.difference(&new_uids) {
                if let Some(set) = self.dependents.get_mut(gone) {
                    set.remove(key);
                    if set.is_empty() {
                        self.dependents.remove(gone);
                    }
                }
            }
            for owner in new_uids.difference(&old_uids) {
                self.dependents
                    .entry(owner.clone())
                    .or_default()
                    .insert(key.clone());
            }
            for owner in old_uids.union(&new_uids) {
                self.dirty.extend(self.waiting.get(owner).cloned());
            }
            if !new.is_empty() {
                self.dirty.insert(key.clone());
            }
        }
        let own = before.or(after).map(uid).unwrap_or_default();
        let state = |object: Option<&Value>| object.is_some_and(waits_for_dependents);
        let (held, holds) = (state(before), state(after));
        if holds {
            self.waiting.insert(own.to_owned(), key.clone());
        } else if held {
            self.waiting.remove(own);
        }
        if holds && !held {
            self.dirty.insert(key.clone());
        }
        let owner_changed = (before.is_some() && after.is_none()) || holds != held;
        if owner_changed && let Some(dependents) = self.dependents.get(own) {
            self.dirty.extend(dependents.iter().cloned());
        }
        if after.is_none() {
            self.unserved.remove(key);
            self.reported.retain(|(dependent, _)| dependent != own);
        }
    }

    fn reconcile(&mut self, key: &Key, entry: &Arc<Entry>, seen: &Seen<'_>, steps: &mut Vec<Step>) {
        let object = &*entry.view();
        if deleting(object) {
            if has_finalizer(object, ORPHAN) {
                steps.extend(self.orphan(key, entry, seen));
            } else if has_finalizer(object, FOREGROUND) {
                steps.extend(self.finish_foreground(key, entry, seen));
            }
            return;
        }
        let references = owner_references(object);
        if references.is_empty() {
            return;
        }
        let owners = self.classify(key, object, seen, steps);
        if owners.unclear {
            return;
        }
        if owners.solid > 0 {
            let lost: Vec<&Value> = owners.dangling.iter().chain(&owners.waiting).copied().collect();
            if !lost.is_empty() {
                let kept: Vec<&Value> = references.iter().filter(|r| !lost.contains(r)).collect();
                steps.push(Step::one(
                    key.clone(),
                    set_references(key, entry, &json!(kept), true),
                ));
            }
            return;
        }
        steps.push(self.collect(key, entry, &owners, seen));
    }

    fn collect(&self, key: &Key, entry: &Arc<Entry>, owners: &Owners<'_>, seen: &Seen<'_>) -> Step {
        let object = entry.object();
        let dependents = self.dependents.get(uid(object));
        let mut actions = Vec::new();
        let foreground = !owners.waiting.is_empty() && dependents.is_some();
        if foreground {
            let cyclic = dependents.into_iter().flatten().any(|d| {
                let dependent = seen.snapshot.get(d).map(|e| e.object());
                dependent.is_some_and(|d| deleting(d) && has_finalizer(d, FOREGROUND))
            });
            if cyclic {
                // Owners in a cycle would wait for each other: this object blocks nobody any more.
                let mut unblocked = owner_references(object).to_vec();
                for reference in &mut unblocked {
                    if reference.get("blockOwnerDeletion").is_some() {
                        reference["blockOwnerDeletion"] = json!(false);
                    }
                }
                actions.push(set_references(key, entry, &json!(unblocked), false));
            }
        }
        let propagation = if foreground || has_finalizer(object, FOREGROUND) {
            Propagation::Foreground
        } else if has_finalizer(object, ORPHAN) {
            Propagation::Orphan
        } else {
            Propagation::Background
        };
        actions.push(Action::Delete {
            key: key.clone(),
            uid: uid(object).to_owned(),
            revision: actions.is_empty().then_some(entry.revision),
            propagation,
        });
        Step {
            about: key.clone(),
            actions,
        }
    }

    /// Foreground deletion: removes the owner's finalizer once no dependent blocks it.
    fn finish_foreground(&mut self, key: &Key, entry: &Arc<Entry>, seen: &Seen<'_>) -> Option<Step> {
        let own = uid(entry.object());
        let mut blocked = false;
        for dependent in self.dependents.get(own).into_iter().flatten() {
            let Some(object) = seen.snapshot.get(dependent).map(|e| e.object()) else {
                continue;
            };
            blocked |= owner_references(object)
                .iter()
                .any(|r| text(r, "uid") == own && r["blockOwnerDeletion"] == true);
        }
        (!blocked).then(|| Step::one(key.clone(), drop_finalizer(key, entry, FOREGROUND)))
    }

    /// Orphaning deletion: dependents lose their references, then the owner its finalizer.
    fn orphan(&self, key: &Key, entry: &Arc<Entry>, seen: &Seen<'_>) -> Vec<Step> {
        let own = uid(entry.object());
        let mut steps = Vec::new();
        for dependent in self.dependents.get(own).into_iter().flatten() {
            let Some(current) = seen.snapshot.get(dependent) else {
                continue;
            };
            let references = owner_references(current.object());
            let kept: Vec<&Value> = references.iter().filter(|r| text(r, "uid") != own).collect();
            if kept.len() < references.len() {
                let patch = set_references(dependent, current, &json!(kept), true);
                steps.push(Step::one(key.clone(), patch));
            }
        }
        if steps.is_empty() {
            steps.push(Step::one(key.clone(), drop_finalizer(key, entry, ORPHAN)));
        }
        steps
    }

    fn classify<'a>(
        &mut self,
        key: &Key,
        object: &'a Value,
        seen: &Seen<'_>,
        steps: &mut Vec<Step>,
    ) -> Owners<'a> {
        let mut owners = Owners::default();
        for reference in owner_references(object) {
            let Some(served) = (seen.served)(text(reference, "apiVersion"), text(reference, "kind")) else {
                self.unserved.insert(key.clone());
                owners.unclear = true;
                continue;
            };
            let namespace = if served.namespaced { &*key.namespace } else { "" };
            let place = Key::new(&served.resource, namespace, text(reference, "name"));
            if served.namespaced && key.namespace.is_empty() {
                // The owner cannot be looked up from here: report, never delete.
                if self.is_foreign(&place, reference, seen.snapshot) {
                    steps.extend(self.report(key, object, reference, seen));
                }
                owners.unclear = true;
                continue;
            }
            let owner = seen.snapshot.get(&place).map(|e| e.view());
            match owner.filter(|owner| uid(owner) == text(reference, "uid")) {
                Some(owner) if deleting(&owner) && has_finalizer(&owner, FOREGROUND) => {
                    owners.waiting.push(reference);
                }
                Some(_) => owners.solid += 1,
                None => {
                    if served.namespaced && self.is_foreign(&place, reference, seen.snapshot) {
                        steps.extend(self.report(key, object, reference, seen));
                    }
                    owners.dangling.push(reference);
                }
            }
        }
        if !owners.unclear {
            self.unserved.remove(key);
        }
        owners
    }

    fn is_foreign(&mut self, place: &Key, reference: &Value, snapshot: &Snapshot) -> bool {
        let wanted = text(reference, "uid");
        if let Some(known) = self.foreign_owners.get(wanted) {
            return *known;
        }
        let mut namespaces = snapshot.list(&ResourceId::new("", "namespaces"), None);
        let found = namespaces.any(|(path, _)| {
            let other = Key::new(&place.resource, path.name(), &*place.name);
            snapshot
                .get(&other)
                .is_some_and(|owner| uid(owner.object()) == wanted)
        });
        self.foreign_owners.insert(wanted.to_owned(), found);
        found
    }

    fn report(&mut self, key: &Key, object: &Value, reference: &Value, seen: &Seen<'_>) -> Option<Step> {
        let pair = (uid(object).to_owned(), text(reference, "uid").to_owned());
        if !self.reported.insert(pair) {
            return None;
        }
        let namespace = if key.namespace.is_empty() {
            "default"
        } else {
            &key.namespace
        };
        let stamp = seen.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let name = format!("{}.{:x}", key.name, seen.now.as_nanosecond());
        let message = format!(
            "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace {}",
            text(reference, "apiVersion"),
            text(reference, "kind"),
            key.namespace,
            text(reference, "name"),
            text(reference, "uid"),
            go_quote(&key.namespace)
        );
        let mut involved = json!({
            "kind": text(object, "kind"), "apiVersion": text(object, "apiVersion"),
            "name": key.name, "uid": uid(object),
        });
        if !key.namespace.is_empty() {
            involved["namespace"] = json!(key.namespace);
        }
        let event = json!({
            "kind": "Event", "apiVersion": "v1",
            "metadata": { "name": name, "namespace": namespace },
            "involvedObject": involved,
            "reason": "OwnerRefInvalidNamespace", "message": message,
            "source": { "component": REPORTER }, "reportingComponent": REPORTER, "reportingInstance": "",
            "firstTimestamp": stamp, "lastTimestamp": stamp, "count": 1, "type": "Warning",
        });
        let place = Key::new(&ResourceId::new("", "events"), namespace, name);
        Some(Step::one(
            place.clone(),
            Action::Create {
                key: place,
                object: event,
                manager: MANAGER,
            },
        ))
    }
}

fn waits_for_dependents(object: &Value) -> bool {
    deleting(object) && (has_finalizer(object, FOREGROUND) || has_finalizer(object, ORPHAN))
}

fn set_references(key: &Key, entry: &Arc<Entry>, references: &Value, pinned: bool) -> Action {
    let empty = references.as_array().is_none_or(Vec::is_empty);
    let mut metadata = json!({
        "uid": uid(entry.object()),
        "ownerReferences": if empty { &Value::Null } else { references },
    });
    if pinned {
        metadata["resourceVersion"] = json!(meta(entry.object(), "resourceVersion"));
    }
    Action::Merge {
        key: key.clone(),
        endpoint: "",
        patch: json!({ "metadata": metadata }),
        manager: MANAGER,
    }
}

fn drop_finalizer(key: &Key, entry: &Arc<Entry>, name: &str) -> Action {
    let kept: Vec<&str> = finalizers(entry.object()).filter(|f| *f != name).collect();
    Action::Merge {
        key: key.clone(),
        endpoint: "",
        patch: json!({ "metadata": {
            "uid": uid(entry.object()),
            "resourceVersion": meta(entry.object(), "resourceVersion"),
            "finalizers": if kept.is_empty() { Value::Null } else { json!(kept) },
        } }),
        manager: MANAGER,
    }
}
