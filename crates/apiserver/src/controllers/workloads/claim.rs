//! Volume claims: bound at once, and deleted when no pod uses them.
//!
//! No PersistentVolume is created, and `spec.volumeName` stays as declared.

use super::Kind;
use super::context::Context;
use crate::builtin::tree::{get, items, text};
use crate::controllers::object::{deleting, finalizers, has_finalizer};
use serde_json::{Value, json};

const PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

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
    if text(claim, "status.phase") != "Bound" {
        let mut status = get(claim, "status").clone();
        status["phase"] = json!("Bound");
        status["accessModes"] = get(claim, "spec.accessModes").clone();
        status["capacity"] = json!({ "storage": get(claim, "spec.resources.requests.storage") });
        let action = cx.status(claim, &status);
        cx.step(action.into_iter().collect());
    }
    State::Settled
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

/// Removes the finalizer of a deleted volume: nothing is bound to it.
pub(super) fn volume(cx: &mut Context<'_>, volume: &Value) {
    if deleting(volume) && has_finalizer(volume, VOLUME_PROTECTION) {
        unprotect(cx, volume, VOLUME_PROTECTION);
    }
}

fn unprotect(cx: &mut Context<'_>, object: &Value, finalizer: &str) {
    let kept: Vec<&str> = finalizers(object).filter(|f| *f != finalizer).collect();
    let patch = json!({ "metadata": { "finalizers": kept } });
    let change = cx.change(cx.key, object, patch);
    cx.step(vec![change]);
}

fn uses(pod: &Value, claim: &str) -> bool {
    !matches!(text(pod, "status.phase"), "Succeeded" | "Failed")
        && items(pod, "spec.volumes")
            .iter()
            .any(|volume| text(volume, "persistentVolumeClaim.claimName") == claim)
}
