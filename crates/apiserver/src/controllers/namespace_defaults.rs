//! Objects that every active namespace has: the `default` ServiceAccount and the root CA.
//!
//! Both are created with the namespace, and again after a deletion. Edits of the ConfigMap are reverted.

use super::object::{deleting, text};
use super::{Action, Controller, Seen, Step};
use crate::store::{Event, EventKind, Key, ResourceId, Snapshot};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::time::Instant;

const MANAGER: &str = "kube-controller-manager";
const DESCRIPTION_KEY: &str = "kubernetes.io/description";
/// Upstream's text, which `kubectl` shows.
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

#[derive(Debug)]
pub(super) struct NamespaceDefaults {
    title: &'static str,
    namespaces: ResourceId,
    resource: ResourceId,
    /// As created; also its name.
    object: Value,
    /// The required content, as a merge patch; `None` leaves edits alone.
    kept: Option<Value>,
    dirty: BTreeSet<String>,
}

impl NamespaceDefaults {
    pub(super) fn service_account() -> Self {
        let object =
            json!({ "kind": "ServiceAccount", "apiVersion": "v1", "metadata": { "name": "default" } });
        Self::new("service account", "serviceaccounts", object, None)
    }

    pub(super) fn root_ca(pem: &str) -> Self {
        let annotations = json!({ DESCRIPTION_KEY: DESCRIPTION });
        let data = json!({ "ca.crt": pem });
        let object = json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": { "name": "kube-root-ca.crt", "annotations": annotations },
            "data": data,
        });
        let kept = json!({ "metadata": { "annotations": annotations }, "data": data });
        Self::new("root CA publisher", "configmaps", object, Some(kept))
    }

    fn new(title: &'static str, plural: &'static str, object: Value, kept: Option<Value>) -> Self {
        Self {
            title,
            namespaces: ResourceId::new("", "namespaces"),
            resource: ResourceId::new("", plural),
            object,
            kept,
            dirty: BTreeSet::new(),
        }
    }

    fn object_name(&self) -> &str {
        text(&self.object["metadata"], "name")
    }

    fn reconcile(&self, namespace: &str, seen: &Seen<'_>) -> Option<Step> {
        let living = seen
            .snapshot
            .get(&Key::new(&self.namespaces, "", namespace))
            .is_some_and(|entry| !deleting(&entry.view()));
        if !living {
            return None;
        }
        let key = Key::new(&self.resource, namespace, self.object_name());
        let action = match seen.snapshot.get(&key) {
            None => {
                let mut object = self.object.clone();
                object["metadata"]["namespace"] = json!(namespace);
                Action::Create {
                    key: key.clone(),
                    object,
                    manager: MANAGER,
                }
            }
            Some(entry) => self.put_right(&key, &entry.view())?,
        };
        Some(Step::one(key, action))
    }

    fn put_right(&self, key: &Key, present: &Value) -> Option<Action> {
        let kept = self.kept.as_ref()?;
        let described = present
            .pointer("/metadata/annotations")
            .map(|a| text(a, DESCRIPTION_KEY));
        if present["data"] == kept["data"] && described.is_some_and(|d| !d.is_empty()) {
            return None;
        }
        let mut patch = kept.clone();
        for (name, _) in present["data"].as_object().into_iter().flatten() {
            if kept["data"].get(name).is_none() {
                patch["data"][name] = Value::Null;
            }
        }
        Some(Action::Merge {
            key: key.clone(),
            endpoint: "",
            patch,
            manager: MANAGER,
        })
    }
}

impl Controller for NamespaceDefaults {
    fn name(&self) -> &'static str {
        self.title
    }

    fn resync(&mut self, snapshot: &Snapshot, _at: Instant, _now: Timestamp) {
        self.dirty = snapshot
            .list(&self.namespaces, None)
            .map(|(path, _)| path.name().to_owned())
            .collect();
    }

    fn observe(&mut self, event: &Event, _at: Instant) {
        let key = &event.key;
        if key.resource == self.namespaces && event.kind != EventKind::Deleted {
            self.dirty.insert(key.name.clone());
        }
        let ours = key.resource == self.resource && key.name == self.object_name();
        if ours && event.kind != EventKind::Added {
            self.dirty.insert(key.namespace.clone());
        }
    }

    fn again(&mut self, about: Key) {
        self.dirty.insert(about.namespace);
    }

    fn decide(&mut self, seen: &Seen<'_>) -> Vec<Step> {
        std::mem::take(&mut self.dirty)
            .iter()
            .filter_map(|namespace| self.reconcile(namespace, seen))
            .collect()
    }
}
