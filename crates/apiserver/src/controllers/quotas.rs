//! Keeps the status of ResourceQuotas: limits as declared, use as measured.
//!
//! Creations are charged by admission; deletions and changes of state are measured here.

use super::{Action, Controller, Seen, Step};
use crate::quota::measured_status;
use crate::store::{Event, EventKind, Key, ResourceId, Snapshot};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

const MANAGER: &str = "kube-controller-manager";

#[derive(Debug)]
pub(super) struct Quotas {
    quotas: ResourceId,
    /// The names of the quotas of each namespace that has any.
    known: BTreeMap<String, BTreeSet<String>>,
    /// Namespaces to measure.
    dirty: BTreeSet<String>,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            quotas: ResourceId::new("", "resourcequotas"),
            known: BTreeMap::new(),
            dirty: BTreeSet::new(),
        }
    }
}

impl Quotas {
    fn measure(&self, namespace: &str, seen: &Seen<'_>) -> Vec<Step> {
        let quotas = seen.snapshot.list(&self.quotas, Some(namespace));
        quotas
            .filter_map(|(path, entry)| {
                let quota = entry.object();
                let wanted = measured_status(quota, namespace, seen.snapshot, seen.now);
                if same_status(quota, &wanted) {
                    return None;
                }
                let mut patch = json!({
                    "metadata": { "resourceVersion": entry.revision.to_string() },
                    "status": wanted,
                });
                // a merge patch keeps names that it does not remove
                for list in ["hard", "used"] {
                    for name in quota["status"][list]
                        .as_object()
                        .into_iter()
                        .flatten()
                        .map(|(name, _)| name)
                    {
                        if patch["status"][list].get(name).is_none() {
                            patch["status"][list][name.as_str()] = Value::Null;
                        }
                    }
                }
                let key = Key::new(&self.quotas, namespace, path.name());
                let action = Action::Merge {
                    key: key.clone(),
                    endpoint: "status",
                    patch,
                    manager: MANAGER,
                };
                Some(Step::one(key, action))
            })
            .collect()
    }
}

fn same_status(quota: &Value, wanted: &Value) -> bool {
    ["hard", "used"]
        .iter()
        .all(|list| quota["status"][*list] == wanted[*list])
}

impl Controller for Quotas {
    fn name(&self) -> &'static str {
        "resource quota"
    }

    fn resync(&mut self, snapshot: &Snapshot, _at: Instant, _now: Timestamp) {
        self.known.clear();
        for (path, _) in snapshot.list(&self.quotas, None) {
            let names = self.known.entry(path.namespace().to_owned()).or_default();
            names.insert(path.name().to_owned());
        }
        self.dirty = self.known.keys().cloned().collect();
    }

    fn observe(&mut self, event: &Event, _at: Instant) {
        let key = &event.key;
        if key.resource == self.quotas {
            let names = self.known.entry(key.namespace.clone()).or_default();
            if event.kind == EventKind::Deleted {
                names.remove(&key.name);
            } else {
                names.insert(key.name.clone());
            }
            if names.is_empty() {
                self.known.remove(&key.namespace);
            }
        } else if event.kind == EventKind::Added || !self.known.contains_key(&key.namespace) {
            return;
        }
        self.dirty.insert(key.namespace.clone());
    }

    fn again(&mut self, about: Key) {
        self.dirty.insert(about.namespace);
    }

    fn decide(&mut self, seen: &Seen<'_>) -> Vec<Step> {
        std::mem::take(&mut self.dirty)
            .iter()
            .flat_map(|namespace| self.measure(namespace, seen))
            .collect()
    }
}
