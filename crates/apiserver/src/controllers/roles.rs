//! Aggregated ClusterRoles: fills in their rules.

use super::{Action, Controller, Seen, Step};
use crate::auth::aggregate::aggregated_rules;
use crate::auth::rbac::GROUP;
use crate::store::{Event, Key, ResourceId, Snapshot};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

const MANAGER: &str = "clusterrole-aggregation-controller";

/// Any change of a ClusterRole may affect any aggregated one; there are few of either.
#[derive(Debug)]
pub(super) struct Roles {
    resource: ResourceId,
    dirty: bool,
}

impl Default for Roles {
    fn default() -> Self {
        Self {
            resource: ResourceId::new(GROUP, "clusterroles"),
            dirty: false,
        }
    }
}

impl Controller for Roles {
    fn name(&self) -> &'static str {
        "ClusterRole aggregation"
    }

    fn resync(&mut self, _snapshot: &Snapshot, _at: Instant, _now: Timestamp) {
        self.dirty = true;
    }

    fn observe(&mut self, event: &Event, _at: Instant) {
        self.dirty |= event.key.resource == self.resource;
    }

    fn again(&mut self, _about: Key) {
        self.dirty = true;
    }

    fn decide(&mut self, seen: &Seen<'_>) -> Vec<Step> {
        if !std::mem::take(&mut self.dirty) {
            return Vec::new();
        }
        let roles: Vec<&Value> = seen
            .snapshot
            .list(&self.resource, None)
            .map(|(_, entry)| entry.object())
            .collect();
        let gathering = roles.iter().filter_map(|role| {
            let rules = aggregated_rules(role, &roles.iter().copied())?;
            let present = role["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
            if rules == present {
                return None;
            }
            let name = role["metadata"]["name"].as_str()?;
            let key = Key::new(&self.resource, "", name);
            let object = json!({
                "kind": "ClusterRole",
                "apiVersion": format!("{GROUP}/v1"),
                "metadata": { "name": name },
                "rules": rules,
            });
            Some(Step::one(
                key.clone(),
                Action::Apply {
                    key,
                    object,
                    manager: MANAGER,
                },
            ))
        });
        gathering.collect()
    }
}
