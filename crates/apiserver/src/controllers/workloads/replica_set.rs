//! ReplicaSets: the wanted number of pods, and their counts.

use super::Kind;
use super::look::{EVENTS_MAX, Look, Speaker, condition, counted, free_names, is_active, is_ready, pod_of};
use super::look::{seconds, wanted};
use crate::builtin::tree::{entries, get};
use crate::controllers::object::{deleting, meta};
use crate::store::Key;
use serde_json::{Value, json};
use std::cmp::Reverse;

const COMPONENT: &str = "replicaset-controller";

pub(super) fn look(look: &mut Look<'_>, set: &Value) {
    let pods = look.children_of(set, Kind::Pod);
    let active: Vec<(&Key, &Value)> = pods.iter().copied().filter(|(_, p)| is_active(p)).collect();
    let replicas = wanted(set, "spec.replicas", 1);
    let refusal = look.refusal();
    if active.len() < replicas {
        add(look, set, replicas - active.len());
    } else {
        remove(look, set, &active, active.len() - replicas);
    }
    // Counts change while pods are created and deleted: write them afterwards, or when that fails.
    if active.len() == replicas || refusal.is_some() {
        report(look, set, &pods, refusal.as_deref());
    }
}

fn speaker(set: &Value) -> Speaker<'_> {
    Speaker {
        component: COMPONENT,
        about: set,
    }
}

fn add(look: &mut Look<'_>, set: &Value, count: usize) {
    for (nth, name) in free_names(look, meta(set, "name"), count).into_iter().enumerate() {
        let pod = pod_of(set, get(set, "spec.template"), &name);
        let mut actions = vec![look.create(Kind::Pod, pod)];
        if nth < EVENTS_MAX {
            let message = format!("Created pod: {name}");
            actions.push(look.event(speaker(set), "Normal", "SuccessfulCreate", &message));
        }
        look.step(actions);
    }
}

/// Pods that are not ready go first, then the youngest.
fn remove(look: &mut Look<'_>, set: &Value, active: &[(&Key, &Value)], count: usize) {
    let mut ranked = active.to_vec();
    ranked.sort_by_key(|(key, pod)| {
        (
            is_ready(pod),
            Reverse(meta(pod, "creationTimestamp")),
            Reverse(&key.name),
        )
    });
    for (nth, (key, pod)) in ranked.into_iter().take(count).enumerate() {
        let mut actions = vec![look.kill(key, pod)];
        if nth < EVENTS_MAX {
            let message = format!("Deleted pod: {}", key.name);
            actions.push(look.event(speaker(set), "Normal", "SuccessfulDelete", &message));
        }
        look.step(actions);
    }
}

fn report(look: &mut Look<'_>, set: &Value, pods: &[(&Key, &Value)], refusal: Option<&str>) {
    let labels = get(set, "spec.template.metadata.labels");
    let labelled = |pod: &Value| {
        entries(set, "spec.template.metadata.labels")
            .all(|(name, value)| pod["metadata"]["labels"].get(name) == Some(value))
    };
    let min_ready = seconds(set, "spec.minReadySeconds");
    let active: Vec<&Value> = pods.iter().map(|(_, p)| *p).filter(|p| is_active(p)).collect();
    let going = pods.iter().filter(|(_, p)| deleting(p)).count();
    let available = active.iter().filter(|p| look.available(p, min_ready)).count();
    let mut status = json!({
        "replicas": active.len(),
        "terminatingReplicas": going,
        "observedGeneration": get(set, "metadata.generation"),
    });
    let full = active.iter().filter(|p| labels.is_null() || labelled(p)).count();
    counted(&mut status, "fullyLabeledReplicas", full);
    counted(
        &mut status,
        "readyReplicas",
        active.iter().filter(|p| is_ready(p)).count(),
    );
    counted(&mut status, "availableReplicas", available);
    let mut actions = Vec::new();
    if let Some(why) = refusal {
        let known = condition(set, "ReplicaFailure");
        let now = look.now();
        let since = known.map_or(&now, |c| &c["lastTransitionTime"]);
        status["conditions"] = json!([{
            "type": "ReplicaFailure", "status": "True", "lastTransitionTime": since,
            "reason": "FailedCreate", "message": why,
        }]);
        look.tell_refusal(speaker(set), why, &format!("Error creating: {why}"));
    }
    actions.extend(look.status(set, &status));
    look.step(actions);
}
