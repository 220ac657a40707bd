//! ReplicaSets and ReplicationControllers: the wanted number of pods, and their counts.

use super::context::{
    Context, EVENTS_MAX, EventSource, condition, controller_reference, free_names, is_active, is_ready,
    pod_of, seconds, set_count, wanted,
};
use super::{Kind, controller, pod};
use crate::builtin::selector;
use crate::builtin::tree::{entries, get, text};
use crate::controllers::Action;
use crate::controllers::object::{deleting, meta, owner_references, uid};
use crate::store::Key;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// The differences between the two kinds.
#[derive(Debug)]
pub(super) struct Flavour {
    component: &'static str,
    counts_terminating: bool,
}

pub(super) const REPLICA_SET: Flavour = Flavour {
    component: "replicaset-controller",
    counts_terminating: true,
};

pub(super) const REPLICATION_CONTROLLER: Flavour = Flavour {
    component: "replication-controller",
    counts_terminating: false,
};

pub(super) fn reconcile(cx: &mut Context<'_>, set: &Value, flavour: &Flavour) {
    let pods = cx.children_of(set, Kind::Pod);
    let claims = claims(cx, set, Kind::Pod, &pods);
    if !claims.is_empty() {
        return cx.step(claims);
    }
    let active: Vec<(&Key, &Value)> = pods.iter().copied().filter(|(_, p)| is_active(p)).collect();
    let replicas = wanted(set, "spec.replicas", 1);
    let refusal = cx.refusal();
    if active.len() < replicas {
        add(cx, flavour.source(set), replicas - active.len());
    } else {
        remove(cx, flavour.source(set), &active, active.len() - replicas);
    }
    // Counts change while pods are created and deleted: write them afterwards, or when that fails.
    if active.len() == replicas || refusal.is_some() {
        report(cx, set, flavour, &pods, refusal.as_deref());
    }
}

/// A ReplicationController selects by labels alone.
pub(super) fn selector(set: &Value) -> Value {
    let selector = get(set, "spec.selector");
    match text(set, "kind") {
        "ReplicationController" => json!({ "matchLabels": selector }),
        _ => selector.clone(),
    }
}

/// Releases children that the selector does not match any more, and adopts orphans that it matches.
pub(super) fn claims(cx: &Context<'_>, set: &Value, kind: Kind, children: &[(&Key, &Value)]) -> Vec<Action> {
    claims_of(cx, set, kind, children, |_| true)
}

/// `claims` with a second condition: whether the name can be that of a child.
pub(super) fn claims_of(
    cx: &Context<'_>,
    set: &Value,
    kind: Kind,
    children: &[(&Key, &Value)],
    is_member: impl Fn(&str) -> bool,
) -> Vec<Action> {
    let selector = selector(set);
    let foreign = |child: &Value| {
        !selector::matches(&selector, &child["metadata"]["labels"]) || !is_member(meta(child, "name"))
    };
    let change = |key: &Key, child: &Value, owners: Vec<Value>| {
        let patch = json!({ "metadata": {
            "ownerReferences": owners, "resourceVersion": meta(child, "resourceVersion"),
        } });
        cx.change(key, child, patch)
    };
    let mut actions = Vec::new();
    for (key, child) in children
        .iter()
        .filter(|(_, child)| !deleting(child) && foreign(child))
    {
        let others = owner_references(child).iter().filter(|r| r["uid"] != uid(set));
        actions.push(change(key, child, others.cloned().collect()));
    }
    let stays = |child: &Value| match kind {
        Kind::Pod => is_active(child),
        _ => !deleting(child),
    };
    for (key, child) in cx.orphans_of(kind, &selector) {
        if controller(child).is_none() && stays(child) && is_member(&key.name) {
            let mut owners = owner_references(child).to_vec();
            let own = controller_reference(set);
            owners.extend(own.as_array().into_iter().flatten().cloned());
            actions.push(change(key, child, owners));
        }
    }
    actions
}

impl Flavour {
    fn source<'a>(&self, set: &'a Value) -> EventSource<'a> {
        EventSource {
            component: self.component,
            about: set,
        }
    }
}

fn add(cx: &mut Context<'_>, source: EventSource<'_>, count: usize) {
    let set = source.about;
    for (nth, name) in free_names(cx, meta(set, "name"), count).into_iter().enumerate() {
        let pod = pod_of(set, get(set, "spec.template"), &name);
        let mut actions = vec![cx.create(Kind::Pod, pod)];
        if nth < EVENTS_MAX {
            let message = format!("Created pod: {name}");
            actions.push(cx.event(source, "Normal", "SuccessfulCreate", &message));
        }
        cx.step(actions);
    }
}

/// Pods that are not ready go first, then the youngest.
fn remove(cx: &mut Context<'_>, source: EventSource<'_>, active: &[(&Key, &Value)], count: usize) {
    let mut ranked = active.to_vec();
    ranked.sort_by_key(|(key, pod)| {
        (
            is_ready(pod),
            Reverse(meta(pod, "creationTimestamp")),
            Reverse(&key.name),
        )
    });
    for (nth, (key, pod)) in ranked.into_iter().take(count).enumerate() {
        let mut actions = pod::remove(cx, key, pod);
        if nth < EVENTS_MAX {
            let message = format!("Deleted pod: {}", key.name);
            actions.push(cx.event(source, "Normal", "SuccessfulDelete", &message));
        }
        cx.step(actions);
    }
}

fn report(
    cx: &mut Context<'_>,
    set: &Value,
    flavour: &Flavour,
    pods: &[(&Key, &Value)],
    refusal: Option<&str>,
) {
    let labels = get(set, "spec.template.metadata.labels");
    let labelled = |pod: &Value| {
        entries(set, "spec.template.metadata.labels")
            .all(|(name, value)| pod["metadata"]["labels"].get(name) == Some(value))
    };
    let min_ready = seconds(set, "spec.minReadySeconds");
    let active: Vec<&Value> = pods.iter().map(|(_, p)| *p).filter(|p| is_active(p)).collect();
    let going = pods.iter().filter(|(_, p)| deleting(p)).count();
    let available = active.iter().filter(|p| cx.available(p, min_ready)).count();
    let mut status = json!({
        "replicas": active.len(),
        "observedGeneration": get(set, "metadata.generation"),
    });
    if flavour.counts_terminating {
        status["terminatingReplicas"] = json!(going);
    }
    let full = active.iter().filter(|p| labels.is_null() || labelled(p)).count();
    set_count(&mut status, "fullyLabeledReplicas", full);
    set_count(
        &mut status,
        "readyReplicas",
        active.iter().filter(|p| is_ready(p)).count(),
    );
    set_count(&mut status, "availableReplicas", available);
    let mut actions = Vec::new();
    if let Some(why) = refusal {
        let known = condition(set, "ReplicaFailure");
        let now = cx.now();
        let since = known.map_or(&now, |c| &c["lastTransitionTime"]);
        status["conditions"] = json!([{
            "type": "ReplicaFailure", "status": "True", "lastTransitionTime": since,
            "reason": "FailedCreate", "message": why,
        }]);
        cx.report_refusal(flavour.source(set), why, &format!("Error creating: {why}"));
    }
    actions.extend(cx.status(set, &status));
    cx.step(actions);
}
