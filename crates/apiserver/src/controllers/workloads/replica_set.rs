//! ReplicaSets: the wanted number of pods, and their counts.

use super::Kind;
use super::context::{
    Context, EVENTS_MAX, EventSource, condition, free_names, is_active, is_ready, pod_of, set_count,
};
use super::context::{seconds, wanted};
use crate::builtin::tree::{entries, get};
use crate::controllers::object::{deleting, meta};
use crate::store::Key;
use serde_json::{Value, json};
use std::cmp::Reverse;

const COMPONENT: &str = "replicaset-controller";

pub(super) fn reconcile(cx: &mut Context<'_>, set: &Value) {
    let pods = cx.children_of(set, Kind::Pod);
    let active: Vec<(&Key, &Value)> = pods.iter().copied().filter(|(_, p)| is_active(p)).collect();
    let replicas = wanted(set, "spec.replicas", 1);
    let refusal = cx.refusal();
    if active.len() < replicas {
        add(cx, set, replicas - active.len());
    } else {
        remove(cx, set, &active, active.len() - replicas);
    }
    // Counts change while pods are created and deleted: write them afterwards, or when that fails.
    if active.len() == replicas || refusal.is_some() {
        report(cx, set, &pods, refusal.as_deref());
    }
}

fn event_source(set: &Value) -> EventSource<'_> {
    EventSource {
        component: COMPONENT,
        about: set,
    }
}

fn add(cx: &mut Context<'_>, set: &Value, count: usize) {
    for (nth, name) in free_names(cx, meta(set, "name"), count).into_iter().enumerate() {
        let pod = pod_of(set, get(set, "spec.template"), &name);
        let mut actions = vec![cx.create(Kind::Pod, pod)];
        if nth < EVENTS_MAX {
            let message = format!("Created pod: {name}");
            actions.push(cx.event(event_source(set), "Normal", "SuccessfulCreate", &message));
        }
        cx.step(actions);
    }
}

/// Pods that are not ready go first, then the youngest.
fn remove(cx: &mut Context<'_>, set: &Value, active: &[(&Key, &Value)], count: usize) {
    let mut ranked = active.to_vec();
    ranked.sort_by_key(|(key, pod)| {
        (
            is_ready(pod),
            Reverse(meta(pod, "creationTimestamp")),
            Reverse(&key.name),
        )
    });
    for (nth, (key, pod)) in ranked.into_iter().take(count).enumerate() {
        let mut actions = vec![cx.kill(key, pod)];
        if nth < EVENTS_MAX {
            let message = format!("Deleted pod: {}", key.name);
            actions.push(cx.event(event_source(set), "Normal", "SuccessfulDelete", &message));
        }
        cx.step(actions);
    }
}

fn report(cx: &mut Context<'_>, set: &Value, pods: &[(&Key, &Value)], refusal: Option<&str>) {
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
        "terminatingReplicas": going,
        "observedGeneration": get(set, "metadata.generation"),
    });
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
        cx.report_refusal(event_source(set), why, &format!("Error creating: {why}"));
    }
    actions.extend(cx.status(set, &status));
    cx.step(actions);
}
