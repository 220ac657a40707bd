//! What a Kustomization of another shard says: its status is all there is to know of it, for nothing
//! of it is built here.
//!
//! What it holds is its inventory, which is written before anything is applied. Whether it holds all
//! that it wants is known when all is applied from what its source has now. What it does not want any
//! more it holds until it is deleted or claimed (`run::handover`), so from here wanting and holding
//! look the same until it has seen a claim.

use equate_api::kustomize::Kustomization;
use equate_api::meta::{ConditionType, Reason, condition, is_true};

/// What of its status is listened to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StatusSeen {
    generation: (Option<i64>, Option<i64>),
    attempted: Option<String>,
    applied: Option<String>,
    ready: Option<(String, String)>,
    held: bool,
    suspended: bool,
}

impl StatusSeen {
    pub(crate) fn of(object: &Kustomization) -> Self {
        let status = object.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions[..]);
        let ready = condition(conditions, ConditionType::Ready);
        Self {
            generation: (
                object.metadata.generation,
                status.and_then(|status| status.observed_generation),
            ),
            attempted: status.and_then(|status| status.last_attempted_revision.clone()),
            applied: status.and_then(|status| status.last_applied_revision.clone()),
            ready: ready.map(|ready| (ready.status.clone(), ready.reason.clone())),
            held: is_true(conditions, ConditionType::PruneHeld),
            suspended: object.spec.suspend,
        }
    }
}

/// Whether its inventory holds all that it wants of this revision of its source; one that is being
/// deleted or suspended comes to want nothing else.
pub(crate) fn is_settled(object: &Kustomization, revision: &str) -> bool {
    if object.metadata.deletion_timestamp.is_some() || object.spec.suspend {
        return true;
    }
    let Some(status) = &object.status else {
        return false;
    };
    let generation = object.metadata.generation;
    let is = |known: &Option<String>| known.as_deref() == Some(revision);
    if is(&status.last_applied_revision) && status.observed_generation == generation {
        return true;
    }
    // applied, and not healthy
    let ready = condition(&status.conditions, ConditionType::Ready);
    is(&status.last_attempted_revision)
        && ready.is_some_and(|ready| {
            ready.status == "False"
                && ready.reason == Reason::HealthCheckFailed.as_str()
                && ready.observed_generation == generation
        })
}

/// Whether its inventory may hold what it does not want: it does not delete it yet. What another claims of
/// that, it lets go of.
pub(crate) fn keeps(object: &Kustomization) -> bool {
    let conditions = object.status.as_ref().map(|status| &status.conditions[..]);
    object.metadata.deletion_timestamp.is_none()
        && !object.spec.suspend
        && is_true(conditions.unwrap_or_default(), ConditionType::PruneHeld)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(merge: &Value) -> Kustomization {
        let mut object = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization",
            "metadata": { "name": "app", "namespace": "a", "generation": 2 },
            "spec": { "interval": "1m", "prune": true, "sourceRef": { "kind": "GitRepository", "name": "fleet" } },
        });
        json_patch(&mut object, merge);
        serde_json::from_value(object).unwrap()
    }

    fn json_patch(into: &mut Value, merge: &Value) {
        match (into, merge) {
            (Value::Object(into), Value::Object(merge)) => {
                for (key, value) in merge {
                    json_patch(into.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
            (into, merge) => *into = merge.clone(),
        }
    }

    fn ready(status: &str, reason: &str, generation: i64) -> Value {
        json!([{ "type": "Ready", "status": status, "reason": reason, "message": "", "observedGeneration": generation,
                 "lastTransitionTime": "2026-01-01T00:00:00Z" }])
    }

    #[test]
    fn it_is_settled_when_all_is_applied() {
        let check = |merge: Value, expected: bool| {
            assert_eq!(is_settled(&object(&merge), "main@sha1:2"), expected, "{merge}");
        };
        check(json!({}), false);
        check(json!({ "spec": { "suspend": true } }), true);
        check(
            json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
            true,
        );
        let applied = |revision: &str, generation: i64| json!({ "status": { "lastAppliedRevision": revision, "observedGeneration": generation } });
        check(applied("main@sha1:2", 2), true);
        check(applied("main@sha1:1", 2), false);
        check(applied("main@sha1:2", 1), false);
        let attempted = |revision: &str, reason: &str, generation: i64| {
            json!({ "status": {
                "lastAttemptedRevision": revision,
                "observedGeneration": 1,
                "conditions": ready("False", reason, generation),
            }})
        };
        check(attempted("main@sha1:2", "HealthCheckFailed", 2), true);
        check(attempted("main@sha1:2", "HealthCheckFailed", 1), false);
        check(attempted("main@sha1:1", "HealthCheckFailed", 2), false);
        check(attempted("main@sha1:2", "BuildFailed", 2), false);
    }

    #[test]
    fn it_may_hold_what_it_does_not_want() {
        let check = |merge: Value, expected: bool| {
            assert_eq!(keeps(&object(&merge)), expected, "{merge}");
        };
        let held = |status: &str| {
            let mut conditions = ready(status, "OthersUnknown", 2);
            conditions[0]["type"] = "PruneHeld".into();
            json!({ "status": { "conditions": conditions } })
        };
        check(json!({}), false);
        check(held("True"), true);
        check(held("False"), false);
        for over in [
            json!({ "spec": { "suspend": true } }),
            json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
        ] {
            let mut merge = held("True");
            json_patch(&mut merge, &over);
            check(merge, false);
        }
    }
}
