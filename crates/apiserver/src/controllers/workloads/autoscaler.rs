//! Horizontal pod autoscalers. Nothing is measured: each metric has its target value, so that only the
//! bounds of the number of replicas have an effect.

use super::context::{Context, EventSource, wanted};
use super::{KINDS, Kind};
use crate::builtin::tree::{get, has, items, text};
use crate::store::Key;
use serde_json::{Value, json};
use tokio::time::Duration;

const COMPONENT: &str = "horizontal-pod-autoscaler";
/// Upstream's period between two decisions.
const SYNC_EVERY: Duration = Duration::from_secs(15);

/// The key of the scaled object, if its kind is simulated.
pub(super) fn target(key: &Key, autoscaler: &Value) -> Option<Key> {
    let reference = get(autoscaler, "spec.scaleTargetRef");
    let group = text(reference, "apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group);
    let kind = KINDS
        .iter()
        .find(|k| k.2 == text(reference, "kind") && k.0 == group)?
        .3;
    let scalable = matches!(
        kind,
        Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet | Kind::ReplicationController
    );
    scalable.then(|| Key::new(&kind.resource(), &*key.namespace, text(reference, "name")))
}

struct Decision {
    replicas: usize,
    reason: Option<&'static str>,
    active: bool,
}

pub(super) fn reconcile(cx: &mut Context<'_>, autoscaler: &Value) {
    let mut status = get(autoscaler, "status").clone();
    // A version of the kind that cannot hold these fields is converted by the write.
    status["observedGeneration"] = get(autoscaler, "metadata.generation").clone();
    let found = target(cx.key, autoscaler).and_then(|key| {
        let entry = cx.seen.snapshot.get(&key)?;
        Some((key, entry.object()))
    });
    let Some((key, object)) = found else {
        let reference = get(autoscaler, "spec.scaleTargetRef");
        let why = format!(
            "the HPA controller was unable to get the target's current scale: {} {:?} not found",
            text(reference, "kind"),
            text(reference, "name")
        );
        set_condition(
            &mut status,
            "AbleToScale",
            ("False", "FailedGetScale", &why),
            &cx.now(),
        );
        return write(cx, autoscaler, &status);
    };
    let current = wanted(object, "spec.replicas", 1);
    let decision = decide(autoscaler, current);
    status["currentReplicas"] = json!(wanted(object, "status.replicas", 0));
    status["desiredReplicas"] = json!(decision.replicas);
    let now = cx.now();
    let got = "the HPA controller was able to get the target's current scale";
    set_condition(
        &mut status,
        "AbleToScale",
        ("True", "SucceededGetScale", got),
        &now,
    );
    if !decision.active {
        let why = "scaling is disabled since the replica count of the target is zero";
        set_condition(
            &mut status,
            "ScalingActive",
            ("False", "ScalingDisabled", why),
            &now,
        );
        return write(cx, autoscaler, &status);
    }
    if let Some(reason) = decision.reason {
        if is_recent(cx, autoscaler) {
            return;
        }
        let size = decision.replicas;
        let why = format!("the HPA controller was able to update the target scale to {size}");
        set_condition(
            &mut status,
            "AbleToScale",
            ("True", "SucceededRescale", &why),
            &now,
        );
        status["lastScaleTime"] = now;
        let by = EventSource {
            component: COMPONENT,
            about: autoscaler,
        };
        let message = format!("New size: {size}; reason: {reason}");
        let actions = vec![
            cx.change(&key, object, json!({ "spec": { "replicas": size } })),
            cx.event(by, "Normal", "SuccessfulRescale", &message),
        ];
        cx.step(actions);
        return write(cx, autoscaler, &status);
    }
    let metrics = metrics(autoscaler);
    let ready = "recommended size matches current size";
    set_condition(
        &mut status,
        "AbleToScale",
        ("True", "ReadyForNewScale", ready),
        &now,
    );
    let name = metrics.first().map(metric_name).unwrap_or_default();
    let valid = format!("the HPA was able to successfully calculate a replica count from {name}");
    set_condition(
        &mut status,
        "ScalingActive",
        ("True", "ValidMetricFound", &valid),
        &now,
    );
    let within = "the desired count is within the acceptable range";
    set_condition(
        &mut status,
        "ScalingLimited",
        ("False", "DesiredWithinRange", within),
        &now,
    );
    status["currentMetrics"] = metrics.iter().map(measured).collect();
    write(cx, autoscaler, &status);
}

fn decide(autoscaler: &Value, current: usize) -> Decision {
    let least = wanted(autoscaler, "spec.minReplicas", 1);
    let most = wanted(autoscaler, "spec.maxReplicas", 1);
    let (replicas, reason) = match current {
        0 => (0, None),
        _ if current > most => (most, Some("Current number of replicas above Spec.MaxReplicas")),
        _ if current < least => (least, Some("Current number of replicas below Spec.MinReplicas")),
        _ => (current, None),
    };
    Decision {
        replicas,
        reason,
        active: current > 0,
    }
}

/// Whether the last decision was less than a period ago; then the next one waits.
fn is_recent(cx: &mut Context<'_>, autoscaler: &Value) -> bool {
    let last: Option<jiff::Timestamp> = text(autoscaler, "status.lastScaleTime").parse().ok();
    let Some(next) = last
        .map(|last| last + SYNC_EVERY)
        .filter(|next| *next > cx.seen.now)
    else {
        return false;
    };
    cx.wake_at("rescale", next);
    true
}

fn write(cx: &mut Context<'_>, autoscaler: &Value, status: &Value) {
    let action = cx.status(autoscaler, status);
    cx.step(action.into_iter().collect());
}

fn set_condition(
    status: &mut Value,
    kind: &str,
    (verdict, reason, message): (&str, &str, &str),
    now: &Value,
) {
    let mut conditions = items(status, "conditions").to_vec();
    let known = conditions.iter_mut().find(|c| c["type"] == kind);
    let since = known.as_ref().filter(|c| c["status"] == verdict);
    let since = since.map_or(now, |c| &c["lastTransitionTime"]).clone();
    let new = json!({
        "type": kind, "status": verdict, "reason": reason, "message": message, "lastTransitionTime": since,
    });
    match known {
        Some(known) => *known = new,
        None => conditions.push(new),
    }
    status["conditions"] = json!(conditions);
}

fn metrics(autoscaler: &Value) -> Vec<Value> {
    let utilization = get(autoscaler, "spec.targetCPUUtilizationPercentage");
    match utilization.is_null() {
        true => items(autoscaler, "spec.metrics").to_vec(),
        false => vec![json!({ "type": "Resource", "resource": {
            "name": "cpu", "target": { "type": "Utilization", "averageUtilization": utilization },
        } })],
    }
}

/// The field of a metric that holds its target, by its type.
fn section(metric: &Value) -> &'static str {
    match text(metric, "type") {
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => "resource",
    }
}

fn metric_name(metric: &Value) -> String {
    let section = section(metric);
    let source = &metric[section];
    let name = text(source, "name");
    let of_utilization = has(source, "target.averageUtilization");
    match section {
        "pods" => format!("pods metric {}", text(source, "metric.name")),
        "object" => format!(
            "{} metric {}",
            text(source, "describedObject.kind"),
            text(source, "metric.name")
        ),
        "external" => format!("external metric {}(nil)", text(source, "metric.name")),
        "containerResource" if of_utilization => {
            format!("{name} container resource utilization (percentage of request)")
        }
        _ if of_utilization => format!("{name} resource utilization (percentage of request)"),
        _ => format!("{name} resource"),
    }
}

fn measured(metric: &Value) -> Value {
    let section = section(metric);
    let mut source = metric[section].clone();
    if let Some(fields) = source.as_object_mut()
        && let Some(mut target) = fields.remove("target")
    {
        if let Some(target) = target.as_object_mut() {
            target.remove("type");
        }
        // A share is always measured as an amount too.
        if has(&target, "averageUtilization") {
            target["averageValue"] = json!("0");
        }
        fields.insert("current".to_owned(), target);
    }
    json!({ "type": metric["type"], section: source })
}
