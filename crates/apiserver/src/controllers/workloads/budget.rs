//! Disruption budgets: the number of healthy pods, and of those that an eviction may take.

use super::context::{Context, EventSource, is_ready, time, wanted};
use super::{Kind, controller, owner_key};
use crate::builtin::tree::{entries, get, int, items, text};
use crate::controllers::object::{deleting, meta};
use crate::store::{Key, Snapshot};
use equate_manifest::go::quote;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tokio::time::Duration;

const COMPONENT: &str = "controllermanager";
/// How long an evicted pod may exist before it counts again.
const DELETION_TIMEOUT: Duration = Duration::from_mins(2);
const CONDITION: &str = "DisruptionAllowed";

#[derive(Debug, PartialEq, Eq)]
struct Expected {
    pods: usize,
    healthy: usize,
}

pub(super) fn reconcile(cx: &mut Context<'_>, budget: &Value) {
    let pods = cx.selected_pods();
    let status = match expected(cx.seen.snapshot, budget, &pods) {
        Ok(expected) => settled(cx, budget, &pods, &expected),
        Err(why) => {
            let message = format!("Failed to calculate the number of expected pods: {why}");
            report(
                cx,
                budget,
                ("Warning", "CalculateExpectedPodCountFailed", &message),
            );
            let mut status = get(budget, "status").clone();
            status["disruptionsAllowed"] = json!(0);
            let observed = get(budget, "status.observedGeneration").clone();
            set_condition(&mut status, ("False", "SyncFailed", &why), &observed, cx.now());
            status
        }
    };
    if pods.is_empty() {
        report(cx, budget, ("Normal", "NoPods", "No matching pods found"));
    }
    let action = cx.status(budget, &status);
    cx.step(action.into_iter().collect());
}

/// Reports each problem once.
fn report(cx: &mut Context<'_>, budget: &Value, (kind, reason, message): (&str, &str, &str)) {
    if cx.alarms.is_new(cx.key, ("reported", message), cx.seen.at) {
        let by = EventSource {
            component: COMPONENT,
            about: budget,
        };
        let event = cx.event(by, kind, reason, message);
        cx.step(vec![event]);
    }
}

fn settled(cx: &mut Context<'_>, budget: &Value, pods: &[&Value], expected: &Expected) -> Value {
    let disrupted = disrupted(cx, budget, pods);
    let is_healthy =
        |pod: &&&Value| !deleting(pod) && !disrupted.contains_key(meta(pod, "name")) && is_ready(pod);
    let healthy = pods.iter().filter(is_healthy).count();
    let allowed = match expected.pods {
        0 => 0,
        _ => healthy.saturating_sub(expected.healthy),
    };
    let generation = get(budget, "metadata.generation").clone();
    let mut status = json!({
        "observedGeneration": generation,
        "currentHealthy": healthy,
        "desiredHealthy": expected.healthy,
        "expectedPods": expected.pods,
        "disruptionsAllowed": allowed,
        "conditions": get(budget, "status.conditions"),
    });
    if !disrupted.is_empty() {
        status["disruptedPods"] = Value::Object(disrupted);
    }
    allow(&mut status, cx.now());
    status
}

/// Sets the condition that follows from `disruptionsAllowed`.
pub(crate) fn allow(status: &mut Value, now: Value) {
    let verdict = match int(status, "disruptionsAllowed") {
        Some(1..) => ("True", "SufficientPods", ""),
        _ => ("False", "InsufficientPods", ""),
    };
    let observed = get(status, "observedGeneration").clone();
    set_condition(status, verdict, &observed, now);
}

fn set_condition(
    status: &mut Value,
    (verdict, reason, message): (&str, &str, &str),
    observed: &Value,
    now: Value,
) {
    let known = items(status, "conditions")
        .iter()
        .find(|c| c["type"] == CONDITION);
    let since = known.filter(|c| c["status"] == verdict);
    let since = since.map_or(now, |c| c["lastTransitionTime"].clone());
    let others = items(status, "conditions")
        .iter()
        .filter(|c| c["type"] != CONDITION);
    let mut conditions: Vec<Value> = others.cloned().collect();
    conditions.push(json!({
        "type": CONDITION, "status": verdict, "reason": reason, "message": message,
        "lastTransitionTime": since, "observedGeneration": observed,
    }));
    status["conditions"] = json!(conditions);
}

/// The evicted pods that still exist; they do not count as healthy.
fn disrupted(cx: &mut Context<'_>, budget: &Value, pods: &[&Value]) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, since) in entries(budget, "status.disruptedPods") {
        let Some(since): Option<jiff::Timestamp> = since.as_str().and_then(|s| s.parse().ok()) else {
            continue;
        };
        let exists = pods.iter().any(|pod| meta(pod, "name") == name && !deleting(pod));
        let until = since + DELETION_TIMEOUT;
        if exists && until > cx.seen.now {
            cx.wake_at("disrupted", until);
            out.insert(name.clone(), time(since));
        }
    }
    out
}

fn expected(snapshot: &Snapshot, budget: &Value, pods: &[&Value]) -> Result<Expected, String> {
    let (most, least) = (
        get(budget, "spec.maxUnavailable"),
        get(budget, "spec.minAvailable"),
    );
    if !most.is_null() {
        let all = scale(snapshot, pods)?;
        return Ok(Expected {
            pods: all,
            healthy: all.saturating_sub(share(most, all)),
        });
    }
    if least.is_string() {
        let all = scale(snapshot, pods)?;
        return Ok(Expected {
            pods: all,
            healthy: share(least, all),
        });
    }
    let count = |healthy| Expected {
        pods: pods.len(),
        healthy,
    };
    Ok(match least.is_null() {
        true => Expected { pods: 0, healthy: 0 },
        false => count(share(least, 0)),
    })
}

/// A number or a percentage, rounded up.
fn share(value: &Value, all: usize) -> usize {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%'));
    match percent.and_then(|percent| percent.parse::<usize>().ok()) {
        Some(percent) => (all * percent).div_ceil(100),
        None => value.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
    }
}

/// The sum of the replicas of the pods' controllers. Pods without a controller do not count.
fn scale(snapshot: &Snapshot, pods: &[&Value]) -> Result<usize, String> {
    let mut scales: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods {
        let Some(reference) = controller(pod) else {
            continue;
        };
        let name = quote(meta(pod, "name"));
        let absent = || format!("found no controllers for pod {name}");
        let mut key = owner_key(reference, meta(pod, "namespace")).ok_or_else(absent)?;
        let mut owner = find(snapshot, &key).ok_or_else(absent)?;
        if let Some(reference) = controller(owner).filter(|r| text(r, "kind") == "Deployment") {
            key = owner_key(reference, meta(pod, "namespace")).ok_or_else(absent)?;
            owner = find(snapshot, &key).ok_or_else(absent)?;
        }
        match Kind::of(&key.resource) {
            Some(Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet | Kind::ReplicationController) => {
                scales.insert(meta(owner, "uid"), wanted(owner, "spec.replicas", 1));
            }
            _ => {
                return Err(format!(
                    "{} does not implement the scale subresource",
                    key.resource
                ));
            }
        }
    }
    Ok(scales.values().sum())
}

fn find<'s>(snapshot: &'s Snapshot, key: &Key) -> Option<&'s Value> {
    snapshot.get(key).map(|entry| entry.object())
}
