//! The Service `kubernetes` of the namespace `default`: made again after a deletion.

use super::object::deleting;
use super::{Action, Controller, Seen, Step};
use crate::builtin::bootstrap::kubernetes_service;
use crate::store::{Event, EventKind, Key, ResourceId, Snapshot};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

const MANAGER: &str = "kube-apiserver";
const NAMESPACE: &str = "default";

#[derive(Debug)]
pub(super) struct OwnService {
    key: Key,
    object: Value,
    dirty: bool,
}

impl Default for OwnService {
    fn default() -> Self {
        Self {
            key: Key::new(&ResourceId::new("", "services"), NAMESPACE, "kubernetes"),
            object: kubernetes_service(),
            dirty: false,
        }
    }
}

impl Controller for OwnService {
    fn name(&self) -> &'static str {
        "kubernetes service"
    }

    fn resync(&mut self, _snapshot: &Snapshot, _at: Instant, _now: Timestamp) {
        self.dirty = true;
    }

    fn observe(&mut self, event: &Event, _at: Instant) {
        self.dirty |= event.kind == EventKind::Deleted && event.key == self.key;
    }

    fn again(&mut self, _about: Key) {
        self.dirty = true;
    }

    fn decide(&mut self, seen: &Seen<'_>) -> Vec<Step> {
        let namespace = Key::new(&ResourceId::new("", "namespaces"), "", NAMESPACE);
        let lives = |key: &Key| {
            seen.snapshot
                .get(key)
                .is_some_and(|entry| !deleting(&entry.view()))
        };
        let wanted =
            std::mem::take(&mut self.dirty) && lives(&namespace) && seen.snapshot.get(&self.key).is_none();
        if !wanted {
            return Vec::new();
        }
        let create = Action::Create {
            key: self.key.clone(),
            object: self.object.clone(),
            manager: MANAGER,
        };
        vec![Step::one(self.key.clone(), create)]
    }
}
