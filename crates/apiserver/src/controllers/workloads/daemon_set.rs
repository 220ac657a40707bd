//! DaemonSets: one pod, because there is one node.

use super::Kind;
use super::look::{Look, Speaker, counted, free_names, is_active, is_ready, pod_of, seconds};
use super::revision::{HASH, Revisions};
use crate::builtin::tree::{annotation, get, text};
use crate::controllers::object::{deleting, meta};
use serde_json::{Value, json};

const COMPONENT: &str = "daemonset-controller";
const GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn look(look: &mut Look<'_>, set: &Value) {
    if let Some(why) = look.refusal() {
        look.tell_refusal(speaker(set), &why, &format!("Error creating: {why}"));
    }
    let revisions = Revisions::of(look, set);
    let actions = revisions.keep(look, set, &revisions.hash, &[]);
    look.step(actions);
    let pods = look.children_of(set, Kind::Pod);
    let current = |pod: &Value| pod["metadata"]["labels"][HASH] == revisions.hash.as_str();
    let rolls = text(set, "spec.updateStrategy.type") != "OnDelete";
    let mut present = None;
    for (key, pod) in &pods {
        if deleting(pod) {
            continue;
        }
        let useless = !is_active(pod) || present.is_some() || (rolls && !current(pod));
        if useless {
            let mut actions = vec![look.kill(key, pod)];
            let message = format!("Deleted pod: {}", key.name);
            actions.push(look.event(speaker(set), "Normal", "SuccessfulDelete", &message));
            look.step(actions);
        } else {
            present = Some(*pod);
        }
    }
    if pods.is_empty() {
        add(look, set, &revisions);
        return;
    }
    report(look, set, present, present.is_some_and(current));
}

fn speaker(set: &Value) -> Speaker<'_> {
    Speaker {
        component: COMPONENT,
        about: set,
    }
}

fn add(look: &mut Look<'_>, set: &Value, revisions: &Revisions<'_>) {
    for name in free_names(look, meta(set, "name"), 1) {
        let mut pod = pod_of(set, get(set, "spec.template"), &name);
        pod["metadata"]["labels"][HASH] = json!(revisions.hash);
        let generation = annotation(set, GENERATION).unwrap_or("1");
        pod["metadata"]["labels"]["pod-template-generation"] = json!(generation);
        let message = format!("Created pod: {name}");
        let actions = vec![
            look.create(Kind::Pod, pod),
            look.event(speaker(set), "Normal", "SuccessfulCreate", &message),
        ];
        look.step(actions);
    }
}

fn report(look: &mut Look<'_>, set: &Value, pod: Option<&Value>, updated: bool) {
    let min_ready = seconds(set, "spec.minReadySeconds");
    let ready = pod.is_some_and(is_ready);
    let available = pod.is_some_and(|pod| look.available(pod, min_ready));
    let mut status = json!({
        "currentNumberScheduled": usize::from(pod.is_some()),
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 1,
        "numberReady": usize::from(ready),
        "observedGeneration": get(set, "metadata.generation"),
    });
    counted(&mut status, "updatedNumberScheduled", usize::from(updated));
    counted(&mut status, "numberAvailable", usize::from(available));
    counted(&mut status, "numberUnavailable", usize::from(!available));
    let action = look.status(set, &status);
    look.step(action.into_iter().collect());
}
