//! PersistentVolumes: their phase, and the claim that each is bound to.
//!
//! A released volume stays, whatever its reclaim policy: nothing here owns its storage.

use super::Kind;
use super::context::Context;
use crate::builtin::admission::storage_class;
use crate::builtin::tree::{annotation, get, items, text};
use crate::builtin::{quantity, selector};
use crate::controllers::object::{deleting, finalizers, has_finalizer, meta, uid};
use crate::store::Key;
use serde_json::{Value, json};
use std::cmp::Ordering;

const PROTECTION: &str = "kubernetes.io/pv-protection";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

pub(super) enum Choice<'a> {
    Bind(&'a Value),
    Provisioned,
    /// The reason and the message of an Event.
    Refused(&'static str, String),
}

/// The volume of a claim: the named one, one that is reserved for it, or for a new claim the smallest that
/// suits it.
pub(super) fn choose<'a>(cx: &Context<'a>, claim: &Value) -> Choice<'a> {
    let name = text(claim, "spec.volumeName");
    if name.is_empty() {
        return find(cx, claim).map_or(Choice::Provisioned, Choice::Bind);
    }
    let Some(volume) = cx.get(Kind::Volume, "", name) else {
        return Choice::Provisioned;
    };
    if is_reserved(volume, claim) {
        return Choice::Bind(volume);
    }
    if !get(volume, "spec.claimRef").is_null() {
        let message = format!("volume {name:?} already bound to a different claim.");
        return Choice::Refused("FailedBinding", message);
    }
    match mismatch(volume, claim) {
        None => Choice::Bind(volume),
        Some(why) => {
            let message = format!("Cannot bind to requested volume {name:?}: {why}");
            Choice::Refused("VolumeMismatch", message)
        }
    }
}

fn find<'a>(cx: &Context<'a>, claim: &Value) -> Option<&'a Value> {
    let snapshot = cx.seen.snapshot;
    let resource = Kind::Volume.resource();
    let entry = |name: &String| snapshot.get(&Key::new(&resource, "", name.as_str()));
    let is_reserved =
        |volume: &Value| !deleting(volume) && is_reserved(volume, claim) && is_large(volume, claim);
    let mut reserved = cx.bindings.reserved_for(cx.key).filter_map(entry);
    if let Some(entry) = reserved.find(|entry| is_reserved(&entry.view())) {
        return Some(entry.object());
    }
    if text(claim, "status.phase") == "Bound" {
        return None;
    }
    let is_free = |volume: &Value| {
        !deleting(volume)
            && get(volume, "spec.claimRef").is_null()
            && mismatch(volume, claim).is_none()
            && (get(claim, "spec.selector").is_null()
                || selector::matches(get(claim, "spec.selector"), get(volume, "metadata.labels")))
    };
    let least = quantity::nano(text(claim, "spec.resources.requests.storage"));
    let free = cx.bindings.free(storage_class(claim), least);
    let found = free.filter_map(entry).find(|entry| is_free(&entry.view()));
    found.map(|entry| entry.object())
}

fn is_reserved(volume: &Value, claim: &Value) -> bool {
    let reference = get(volume, "spec.claimRef");
    text(reference, "name") == meta(claim, "name")
        && text(reference, "namespace") == meta(claim, "namespace")
        && ["", uid(claim)].contains(&text(reference, "uid"))
}

fn is_large(volume: &Value, claim: &Value) -> bool {
    let capacity = text(volume, "spec.capacity.storage");
    let request = text(claim, "spec.resources.requests.storage");
    quantity::compare(capacity, request) != Some(Ordering::Less)
}

/// Whether a claim names its volume and no class: the default class may be one that is not declared here.
fn leaves_class_open(claim: &Value) -> bool {
    !text(claim, "spec.volumeName").is_empty() && get(claim, "spec.storageClassName").is_null()
}

/// The first reason why a volume does not suit a claim, in upstream's words and order.
fn mismatch(volume: &Value, claim: &Value) -> Option<&'static str> {
    let differs = |field: &str| text(volume, field) != text(claim, field);
    let modes = items(volume, "spec.accessModes");
    if !is_large(volume, claim) {
        Some("requested PV is too small")
    } else if storage_class(volume) != storage_class(claim) && !leaves_class_open(claim) {
        Some("storageClassName does not match")
    } else if differs("spec.volumeAttributesClassName") {
        Some("volumeAttributesClassName does not match")
    } else if differs("spec.volumeMode") {
        Some("incompatible volumeMode")
    } else if !items(claim, "spec.accessModes")
        .iter()
        .all(|mode| modes.contains(mode))
    {
        Some("incompatible accessMode")
    } else {
        None
    }
}

/// Binds the two in upstream's order: the volume first, so that no second claim gets it.
pub(super) fn bind(cx: &mut Context<'_>, claim: &Value, volume: &Value) {
    let name = meta(volume, "name");
    cx.bindings.take(name);
    let mut actions = Vec::new();
    if text(volume, "spec.claimRef.uid") != uid(claim) {
        let mut patch = json!({
            "metadata": { "resourceVersion": meta(volume, "resourceVersion") },
            "spec": { "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": meta(claim, "namespace"), "name": meta(claim, "name"),
                "uid": uid(claim), "resourceVersion": meta(claim, "resourceVersion"),
            } },
        });
        if get(volume, "spec.claimRef").is_null() {
            patch["metadata"]["annotations"] = json!({ BOUND_BY_CONTROLLER: "yes" });
        }
        actions.push(cx.change(&Key::new(&Kind::Volume.resource(), "", name), volume, patch));
    }
    let is_named = !text(claim, "spec.volumeName").is_empty();
    if !is_named || annotation(claim, BIND_COMPLETED).is_none() {
        let mut patch = json!({ "metadata": { "annotations": { BIND_COMPLETED: "yes" } } });
        if !is_named {
            patch["metadata"]["annotations"][BOUND_BY_CONTROLLER] = json!("yes");
            patch["spec"] = json!({ "volumeName": name });
        }
        actions.push(cx.change(cx.key, claim, patch));
    }
    if !actions.is_empty() || text(claim, "status.phase") != "Bound" {
        let status = bound_status(claim, get(volume, "spec"), get(volume, "spec.capacity"));
        actions.extend(cx.status(claim, &status));
    }
    cx.step(actions);
}

/// The status of a bound claim, with the access modes of `spec`.
pub(super) fn bound_status(claim: &Value, spec: &Value, capacity: &Value) -> Value {
    let mut status = get(claim, "status").clone();
    status["phase"] = json!("Bound");
    status["accessModes"] = get(spec, "accessModes").clone();
    status["capacity"] = capacity.clone();
    status
}

pub(super) fn reconcile(cx: &mut Context<'_>, volume: &Value) {
    let reference = get(volume, "spec.claimRef");
    let (namespace, name) = (text(reference, "namespace"), text(reference, "name"));
    let phase = match text(reference, "uid") {
        "" => "Available",
        holder => match cx.get(Kind::Claim, namespace, name).map(uid) {
            Some(claim) if claim == holder => "Bound",
            _ => "Released",
        },
    };
    if deleting(volume) && phase != "Bound" {
        if has_finalizer(volume, PROTECTION) {
            unprotect(cx, volume, PROTECTION);
        }
        return;
    }
    if text(volume, "status.phase") != phase {
        let patch = json!({ "phase": phase, "lastPhaseTransitionTime": cx.now() });
        let change = cx.status_patch(volume, patch);
        cx.step(vec![change]);
    }
}

/// Removes a finalizer that protects the object in use.
pub(super) fn unprotect(cx: &mut Context<'_>, object: &Value, finalizer: &str) {
    let kept: Vec<&str> = finalizers(object).filter(|f| *f != finalizer).collect();
    let patch = json!({ "metadata": { "finalizers": kept } });
    let change = cx.change(cx.key, object, patch);
    cx.step(vec![change]);
}
