//! Volume claims: bound at once, and deleted when no pod uses them.
//!
//! A claim that no PersistentVolume suits is bound as if one had been provisioned. None is created, and
//! `spec.volumeName` stays as declared.

use super::context::{Context, EventSource};
use super::volume::{self, Choice};
use super::{Kind, volume::unprotect};
use crate::builtin::quantity;
use crate::builtin::tree::{get, items, text};
use crate::controllers::object::{deleting, has_finalizer};
use serde_json::{Value, json};
use std::cmp::Ordering;

const PROTECTION: &str = "kubernetes.io/pvc-protection";
const COMPONENT: &str = "persistentvolume-controller";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    Settled,
    /// Deleted while pods use it.
    InUse,
}

pub(super) fn reconcile(cx: &mut Context<'_>, claim: &Value) -> State {
    if deleting(claim) {
        return release(cx, claim);
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
    State::Settled
}

fn has_grown(claim: &Value) -> bool {
    let capacity = text(claim, "status.capacity.storage");
    let request = text(claim, "spec.resources.requests.storage");
    quantity::compare(capacity, request) == Some(Ordering::Less)
}

fn release(cx: &mut Context<'_>, claim: &Value) -> State {
    if !has_finalizer(claim, PROTECTION) {
        return State::Settled;
    }
    // Claims are deleted rarely: no index of their users is worth it.
    let mut pods = cx
        .seen
        .snapshot
        .list(&Kind::Pod.resource(), Some(&cx.key.namespace));
    if pods.any(|(_, pod)| uses(pod.object(), &cx.key.name)) {
        return State::InUse;
    }
    unprotect(cx, claim, PROTECTION);
    State::Settled
}

fn uses(pod: &Value, claim: &str) -> bool {
    !matches!(text(pod, "status.phase"), "Succeeded" | "Failed")
        && items(pod, "spec.volumes")
            .iter()
            .any(|volume| text(volume, "persistentVolumeClaim.claimName") == claim)
}
