//! CRDs: accepts their names, establishes them, and deletes the objects of a deleted CRD before the CRD
//! itself.

use super::object::{deleting, finalizers, has_finalizer, meta, text, uid};
use super::{Action, Controller, Propagation, Seen, Step};
use crate::crd::{ClaimedNames, establish, terminating};
use crate::store::{Entry, Event, Key, ResourceId, Snapshot};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::Instant;

/// Upstream runs these controllers inside the kube-apiserver, and they write under its name.
const MANAGER: &str = "kube-apiserver";
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

#[derive(Debug)]
pub(super) struct Definitions {
    resource: ResourceId,
    emptying: BTreeMap<ResourceId, String>,
    dirty: BTreeSet<String>,
}

impl Default for Definitions {
    fn default() -> Self {
        Self {
            resource: ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions"),
            emptying: BTreeMap::new(),
            dirty: BTreeSet::new(),
        }
    }
}

impl Definitions {
    fn reconcile(&mut self, name: &str, seen: &Seen<'_>) -> Vec<Step> {
        let key = Key::new(&self.resource, "", name);
        match seen.snapshot.get(&key) {
            None => Vec::new(),
            Some(entry) if deleting(entry.object()) => self.empty(&key, entry, seen),
            Some(entry) => self.establish(&key, entry.object(), seen),
        }
    }

    fn establish(&self, key: &Key, definition: &Value, seen: &Seen<'_>) -> Vec<Step> {
        let group = text(&definition["spec"], "group");
        let all = seen.snapshot.list(&self.resource, None);
        let claimed = ClaimedNames::of_group(group, &key.name, all.map(|(_, e)| e.object()));
        let status = establish(definition, &claimed, &stamp(seen));
        if status == definition["status"] {
            return Vec::new();
        }
        vec![Step::one(
            key.clone(),
            self.write_status(key, definition, &status),
        )]
    }

    fn empty(&mut self, key: &Key, entry: &Arc<Entry>, seen: &Seen<'_>) -> Vec<Step> {
        let definition = entry.object();
        if !has_finalizer(definition, CLEANUP) {
            return Vec::new();
        }
        let defined = defines(definition);
        self.emptying.insert(defined.clone(), key.name.clone());
        let left = seen.snapshot.count(&defined, None);
        let done = left == 0;
        let mut actions = Vec::new();
        // Upstream reports completion in the write that ends the object, so nobody ever sees it.
        let status = terminating(definition, &stamp(seen));
        if status != definition["status"] {
            actions.push(self.write_status(key, definition, &status));
        }
        if done {
            let kept: Vec<&str> = finalizers(definition).filter(|f| *f != CLEANUP).collect();
            actions.push(Action::Merge {
                key: key.clone(),
                endpoint: "",
                patch: json!({ "metadata": {
                    "uid": uid(definition),
                    "finalizers": if kept.is_empty() { Value::Null } else { json!(kept) },
                } }),
                manager: MANAGER,
            });
        }
        let mut steps = vec![Step {
            about: key.clone(),
            actions,
        }];
        let objects = seen.snapshot.list(&defined, None);
        steps.extend(objects.filter(|(_, e)| !deleting(e.object())).map(|(path, e)| {
            let action = Action::Delete {
                key: Key::new(&defined, path.namespace(), path.name()),
                uid: uid(e.object()).to_owned(),
                revision: None,
                propagation: Propagation::Background,
            };
            Step::one(key.clone(), action)
        }));
        steps.retain(|step| !step.actions.is_empty());
        steps
    }

    fn write_status(&self, key: &Key, definition: &Value, status: &Value) -> Action {
        Action::Merge {
            key: key.clone(),
            endpoint: "status",
            patch: json!({
                "metadata": {
                    "uid": uid(definition),
                    "resourceVersion": meta(definition, "resourceVersion"),
                },
                "status": replacing(&definition["status"], status),
            }),
            manager: MANAGER,
        }
    }
}

impl Controller for Definitions {
    fn name(&self) -> &'static str {
        "CRD"
    }

    fn resync(&mut self, snapshot: &Snapshot, _at: Instant, _now: Timestamp) {
        self.emptying.clear();
        self.dirty = snapshot
            .list(&self.resource, None)
            .map(|(path, _)| path.name().to_owned())
            .collect();
    }

    fn observe(&mut self, event: &Event, _at: Instant) {
        if event.key.resource != self.resource {
            self.dirty.extend(self.emptying.get(&event.key.resource).cloned());
            return;
        }
        self.dirty.insert(event.key.name.clone());
        let before = event.previous.as_ref().map(|entry| entry.view());
        let after = event.entry.view();
        if before.as_deref().map(|before| &before["status"]) != Some(&after["status"])
            || event.kind == crate::store::EventKind::Deleted
        {
            // Another definition of the group may wait for the freed names.
            self.dirty.insert(String::new());
        }
        if event.kind == crate::store::EventKind::Deleted {
            self.emptying.remove(&defines(&after));
        }
    }

    fn again(&mut self, about: Key) {
        self.dirty.insert(about.name);
    }

    fn decide(&mut self, seen: &Seen<'_>) -> Vec<Step> {
        let mut names = std::mem::take(&mut self.dirty);
        if names.remove("") {
            let all = seen.snapshot.list(&self.resource, None);
            names.extend(all.map(|(path, _)| path.name().to_owned()));
        }
        names.iter().flat_map(|name| self.reconcile(name, seen)).collect()
    }
}

fn defines(definition: &Value) -> ResourceId {
    let spec = &definition["spec"];
    ResourceId::new(text(spec, "group"), text(&spec["names"], "plural"))
}

fn stamp(seen: &Seen<'_>) -> String {
    seen.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn replacing(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let removed = old.keys().filter(|k| !new.contains_key(*k));
    let mut patch: serde_json::Map<String, Value> = removed.map(|k| (k.clone(), Value::Null)).collect();
    for (key, value) in new {
        let before = old.get(key).unwrap_or(&Value::Null);
        if before != value {
            patch.insert(key.clone(), replacing(before, value));
        }
    }
    Value::Object(patch)
}
