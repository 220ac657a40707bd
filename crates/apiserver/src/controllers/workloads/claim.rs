//! Volume claims: bound at once, and deleted when no pod uses them.
//!
//! A claim that no PersistentVolume suits is bound as if one had been provisioned. None is created, and
//! `spec.volumeName` stays as declared.

use super::bindings;
use super::context::{Context, EventSource};
use super::volume::{self, Choice, unprotect};
use crate::builtin::quantity;
use crate::builtin::tree::{get, text};
use crate::controllers::object::{deleting, has_finalizer};
use serde_json::{Value, json};
use std::cmp::Ordering;

const PROTECTION: &str = "kubernetes.io/pvc-protection";
const COMPONENT: &str = "persistentvolume-controller";

pub(super) fn reconcile(cx: &mut Context<'_>, claim: &Value) {
    if deleting(claim) {
        if has_finalizer(claim, PROTECTION) && !is_used(cx) {
            unprotect(cx, claim, PROTECTION);
        }
        return;
    }
    let is_bound = text(claim, "status.phase") == "Bound";
    match volume::choose(cx, claim) {
        Choice::Bind(volume) => volume::bind(cx, claim, volume),
        Choice::Provisioned if !is_bound || has_grown(claim) => {
            let storage = get(claim, "spec.resources.requests.storage");
            let status = volume::bound_status(claim, get(claim, "spec"), &json!({ "storage": storage }));
            let action = cx.status(claim, &status);
            cx.step(action.into_iter().collect());
        }
        Choice::Refused(reason, message) if !is_bound => {
            if cx.alarms.is_new(cx.key, ("unbound", &message), cx.seen.at) {
                let by = EventSource {
                    component: COMPONENT,
                    about: claim,
                };
                let event = cx.event(by, "Warning", reason, &message);
                cx.step(vec![event]);
            }
        }
        Choice::Provisioned | Choice::Refused(..) => {}
    }
}

fn has_grown(claim: &Value) -> bool {
    let capacity = text(claim, "status.capacity.storage");
    let request = text(claim, "spec.resources.requests.storage");
    quantity::compare(capacity, request) == Some(Ordering::Less)
}

fn is_used(cx: &Context<'_>) -> bool {
    let pods = &cx.seen.snapshot;
    let mut users = cx.bindings.users(cx.key).filter_map(|pod| pods.get(pod));
    users.any(|pod| bindings::claims_of(&pod.view()).any(|claim| claim == cx.key.name))
}
