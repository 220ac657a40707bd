//! DaemonSets: one pod, because there is one node.

use super::Kind;
use super::context::{Context, EventSource, free_names, is_active, is_ready, pod_of, seconds, set_count};
use super::revision::{HASH, Revisions};
use crate::builtin::tree::{annotation, get, text};
use crate::controllers::object::{deleting, meta};
use serde_json::{Value, json};

const COMPONENT: &str = "daemonset-controller";
const GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn reconcile(cx: &mut Context<'_>, set: &Value) {
    if let Some(why) = cx.refusal() {
        cx.report_refusal(event_source(set), &why, &format!("Error creating: {why}"));
    }
    let revisions = Revisions::of(cx, set);
    let actions = revisions.keep(cx, set, &revisions.hash, &[]);
    cx.step(actions);
    let pods = cx.children_of(set, Kind::Pod);
    let current = |pod: &Value| pod["metadata"]["labels"][HASH] == revisions.hash.as_str();
    let rolls = text(set, "spec.updateStrategy.type") != "OnDelete";
    let mut present = None;
    for (key, pod) in &pods {
        if deleting(pod) {
            continue;
        }
        let useless = !is_active(pod) || present.is_some() || (rolls && !current(pod));
        if useless {
            let mut actions = vec![cx.kill(key, pod)];
            let message = format!("Deleted pod: {}", key.name);
            actions.push(cx.event(event_source(set), "Normal", "SuccessfulDelete", &message));
            cx.step(actions);
        } else {
            present = Some(*pod);
        }
    }
    if pods.is_empty() {
        add(cx, set, &revisions);
        return;
    }
    report(cx, set, present, present.is_some_and(current));
}

fn event_source(set: &Value) -> EventSource<'_> {
    EventSource {
        component: COMPONENT,
        about: set,
    }
}

fn add(cx: &mut Context<'_>, set: &Value, revisions: &Revisions<'_>) {
    for name in free_names(cx, meta(set, "name"), 1) {
        let mut pod = pod_of(set, get(set, "spec.template"), &name);
        pod["metadata"]["labels"][HASH] = json!(revisions.hash);
        let generation = annotation(set, GENERATION).unwrap_or("1");
        pod["metadata"]["labels"]["pod-template-generation"] = json!(generation);
        let message = format!("Created pod: {name}");
        let actions = vec![
            cx.create(Kind::Pod, pod),
            cx.event(event_source(set), "Normal", "SuccessfulCreate", &message),
        ];
        cx.step(actions);
    }
}

fn report(cx: &mut Context<'_>, set: &Value, pod: Option<&Value>, updated: bool) {
    let min_ready = seconds(set, "spec.minReadySeconds");
    let ready = pod.is_some_and(is_ready);
    let available = pod.is_some_and(|pod| cx.available(pod, min_ready));
    let mut status = json!({
        "currentNumberScheduled": usize::from(pod.is_some()),
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 1,
        "numberReady": usize::from(ready),
        "observedGeneration": get(set, "metadata.generation"),
    });
    set_count(&mut status, "updatedNumberScheduled", usize::from(updated));
    set_count(&mut status, "numberAvailable", usize::from(available));
    set_count(&mut status, "numberUnavailable", usize::from(!available));
    let action = cx.status(set, &status);
    cx.step(action.into_iter().collect());
}
