//! DaemonSets: one pod, because there is one node; two while an update with `maxSurge` proceeds.

use super::context::{Context, EventSource, free_names, is_active, is_ready, pod_of, seconds, set_count};
use super::revision::{HASH, Revisions};
use super::{Kind, NODE, pod, replica_set};
use crate::builtin::tree::{annotation, flag, get, items, text};
use crate::controllers::object::{deleting, meta};
use crate::store::Key;
use serde_json::{Value, json};

const COMPONENT: &str = "daemonset-controller";
const GENERATION: &str = "deprecated.daemonset.template.generation";

struct Set<'a> {
    object: &'a Value,
    revisions: Revisions<'a>,
    /// Neither ended nor being deleted.
    pods: Vec<(&'a Key, &'a Value)>,
}

pub(super) fn reconcile(cx: &mut Context<'_>, object: &Value) {
    if let Some(why) = cx.refusal() {
        cx.report_refusal(event_source(object), &why, &format!("Error creating: {why}"));
    }
    let all = cx.children_of(object, Kind::Pod);
    let mut claims = replica_set::claims(cx, object, Kind::Pod, &all);
    claims.extend(Revisions::adopt(cx, object));
    if !claims.is_empty() {
        return cx.step(claims);
    }
    let revisions = Revisions::of(cx, object);
    let actions = revisions.keep(cx, object, &revisions.hash, &[]);
    cx.step(actions);
    let mut set = Set {
        object,
        revisions,
        pods: Vec::new(),
    };
    for (key, pod) in &all {
        if deleting(pod) {
            continue;
        }
        if is_active(pod) {
            set.pods.push((key, pod));
        } else {
            remove(cx, object, key, pod);
        }
    }
    let going = all.len() > set.pods.len();
    if set.update(cx) {
        return;
    }
    if set.pods.is_empty() && !going {
        return set.add(cx);
    }
    set.report(cx);
}

fn event_source(set: &Value) -> EventSource<'_> {
    EventSource {
        component: COMPONENT,
        about: set,
    }
}

fn remove(cx: &mut Context<'_>, set: &Value, key: &Key, pod: &Value) {
    let mut actions = pod::remove(cx, key, pod);
    let message = format!("Deleted pod: {}", key.name);
    actions.push(cx.event(event_source(set), "Normal", "SuccessfulDelete", &message));
    cx.step(actions);
}

impl Set<'_> {
    fn is_current(&self, pod: &Value) -> bool {
        pod["metadata"]["labels"][HASH] == self.revisions.hash.as_str()
    }

    fn is_available(&self, cx: &mut Context<'_>, pod: &Value) -> bool {
        cx.available(pod, seconds(self.object, "spec.minReadySeconds"))
    }

    /// Replaces a pod of an older template. Returns whether it did anything.
    fn update(&self, cx: &mut Context<'_>) -> bool {
        let strategy = get(self.object, "spec.updateStrategy");
        let rolls = text(strategy, "type") != "OnDelete";
        let (new, old): (Vec<_>, Vec<_>) = self.pods.iter().partition(|(_, pod)| self.is_current(pod));
        let excess = match (rolls, new.first(), old.is_empty()) {
            // Without a surge, the old pod goes first.
            (true, None, false) if !surges(strategy) => &old[..],
            (true, None, false) => {
                self.add(cx);
                return true;
            }
            (true, Some((_, pod)), false) if self.is_available(cx, pod) => &old[..],
            // An unavailable old pod is of no use.
            (true, Some(_), false) => &old[1..],
            (_, _, true) => &new[new.len().min(1)..],
            (false, _, false) => match new.is_empty() {
                true => &old[1..],
                false => &old[..],
            },
        };
        for (key, pod) in excess {
            remove(cx, self.object, key, pod);
        }
        !excess.is_empty()
    }

    fn add(&self, cx: &mut Context<'_>) {
        let set = self.object;
        for name in free_names(cx, meta(set, "name"), 1) {
            let mut pod = pod_of(set, get(set, "spec.template"), &name);
            pod["metadata"]["labels"][HASH] = json!(self.revisions.hash);
            let generation = annotation(set, GENERATION).unwrap_or("1");
            pod["metadata"]["labels"]["pod-template-generation"] = json!(generation);
            place(&mut pod["spec"]);
            let message = format!("Created pod: {name}");
            let actions = vec![
                cx.create(Kind::Pod, pod),
                cx.event(event_source(set), "Normal", "SuccessfulCreate", &message),
            ];
            cx.step(actions);
        }
    }

    fn report(&self, cx: &mut Context<'_>) {
        let set = self.object;
        let current = self.pods.iter().find(|(_, pod)| self.is_current(pod));
        let ready = self.pods.iter().any(|(_, pod)| is_ready(pod));
        let available = self.pods.iter().any(|(_, pod)| self.is_available(cx, pod));
        let mut status = json!({
            "currentNumberScheduled": usize::from(!self.pods.is_empty()),
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 1,
            "numberReady": usize::from(ready),
            "observedGeneration": get(set, "metadata.generation"),
        });
        set_count(
            &mut status,
            "updatedNumberScheduled",
            usize::from(current.is_some()),
        );
        set_count(&mut status, "numberAvailable", usize::from(available));
        set_count(&mut status, "numberUnavailable", usize::from(!available));
        let action = cx.status(set, &status);
        cx.step(action.into_iter().collect());
    }
}

fn surges(strategy: &Value) -> bool {
    let surge = get(strategy, "rollingUpdate.maxSurge");
    !matches!(surge.as_str(), Some("0%")) && surge.as_i64() != Some(0) && !surge.is_null()
}

/// The affinity to the node, and the tolerations that every pod of a DaemonSet has.
fn place(spec: &mut Value) {
    let node = json!([{ "key": "metadata.name", "operator": "In", "values": [NODE] }]);
    let terms = json!([{ "matchFields": node }]);
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({ "nodeSelectorTerms": terms });
    let mut tolerations = items(spec, "tolerations").to_vec();
    let network = flag(spec, "hostNetwork").then_some(("network-unavailable", "NoSchedule"));
    let all = [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ];
    for (name, effect) in all.into_iter().chain(network) {
        let toleration =
            json!({ "key": format!("node.kubernetes.io/{name}"), "operator": "Exists", "effect": effect });
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    spec["tolerations"] = json!(tolerations);
}
