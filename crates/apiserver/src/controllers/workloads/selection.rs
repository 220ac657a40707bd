//! The pods that Services and disruption budgets select.
//!
//! An event about a pod finds the selectors by one of its labels, so that its cost does not depend on the
//! number of Services. A new selector reads its namespace once.

use super::Kind;
use crate::builtin::selector;
use crate::builtin::tree::entries;
use crate::store::{Key, Snapshot};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// Namespace, label, value. Both are empty for a selector without an exact label.
type Label = (String, String, String);

#[derive(Debug, Default)]
pub(super) struct Selections {
    by_label: HashMap<Label, BTreeSet<Key>>,
    selections: HashMap<Key, Selection>,
}

#[derive(Debug)]
struct Selection {
    label: Label,
    selector: Value,
    /// `None` until first read.
    pods: Option<BTreeSet<Key>>,
}

fn first_label(namespace: &str, selector: &Value) -> Label {
    let exact = entries(selector, "matchLabels").next();
    let (name, value) = exact.map_or(("", ""), |(name, value)| {
        (name.as_str(), value.as_str().unwrap_or_default())
    });
    (namespace.to_owned(), name.to_owned(), value.to_owned())
}

impl Selections {
    pub(super) fn set(&mut self, key: &Key, selector: Option<Value>) {
        if self.selections.get(key).map(|known| &known.selector) == selector.as_ref() {
            return;
        }
        if let Some(old) = self.selections.remove(key)
            && let Some(keys) = self.by_label.get_mut(&old.label)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.by_label.remove(&old.label);
            }
        }
        if let Some(selector) = selector {
            let label = first_label(&key.namespace, &selector);
            self.by_label
                .entry(label.clone())
                .or_default()
                .insert(key.clone());
            let selection = Selection {
                label,
                selector,
                pods: None,
            };
            self.selections.insert(key.clone(), selection);
        }
    }

    /// The keys whose selector matches labels.
    pub(super) fn selecting(&self, namespace: &str, labels: Option<&Value>) -> BTreeSet<Key> {
        let Some(labels) = labels else {
            return BTreeSet::new();
        };
        let namespace = || namespace.to_owned();
        let exact = entries(labels, "").map(|(name, value)| {
            let value = value.as_str().unwrap_or_default().to_owned();
            (namespace(), name.clone(), value)
        });
        std::iter::once((namespace(), String::new(), String::new()))
            .chain(exact)
            .filter_map(|label| self.by_label.get(&label))
            .flatten()
            .filter(|key| selector::matches(&self.selections[*key].selector, labels))
            .cloned()
            .collect()
    }

    /// The keys whose pods an event changes, from the pod's labels.
    pub(super) fn pod_changed(
        &mut self,
        pod: &Key,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> BTreeSet<Key> {
        if self.selections.is_empty() {
            return BTreeSet::new();
        }
        let old = self.selecting(&pod.namespace, before);
        let new = if before == after {
            old.clone()
        } else {
            self.selecting(&pod.namespace, after)
        };
        for (keys, present) in [(&old, false), (&new, true)] {
            for key in keys {
                let selection = self.selections.get_mut(key);
                match selection.and_then(|selection| selection.pods.as_mut()) {
                    Some(pods) if present => drop(pods.insert(pod.clone())),
                    Some(pods) => drop(pods.remove(pod)),
                    None => {}
                }
            }
        }
        old.into_iter().chain(new).collect()
    }

    /// The selected pods, by name.
    pub(super) fn pods<'s>(&mut self, key: &Key, snapshot: &'s Snapshot) -> Vec<&'s Value> {
        let Some(selection) = self.selections.get_mut(key) else {
            return Vec::new();
        };
        let resource = Kind::Pod.resource();
        let selector = &selection.selector;
        let pods = selection.pods.get_or_insert_with(|| {
            snapshot
                .list(&resource, Some(&key.namespace))
                .filter(|(_, pod)| selector::matches(selector, &pod.labels()))
                .map(|(path, _)| Key::new(&resource, path.namespace(), path.name()))
                .collect()
        });
        pods.iter()
            .filter_map(|pod| snapshot.get(pod).map(|entry| entry.object()))
            .filter(|pod| selector::matches(selector, &pod["metadata"]["labels"]))
            .collect()
    }
}
