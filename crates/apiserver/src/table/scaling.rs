//! Cells of autoscaling, budgets, quotas and priorities.

use super::cells::{View, cells};
use serde_json::Value;

const METRICS_MAX: usize = 2;

pub(super) fn autoscaler(view: &View<'_>) -> Vec<Value> {
    let targets = match view.text("/apiVersion") {
        "autoscaling/v1" => cpu_target(view),
        _ => metrics(view),
    };
    let min = view.get("/spec/minReplicas").and_then(Value::as_i64);
    cells![
        view.name(),
        format!(
            "{}/{}",
            view.text("/spec/scaleTargetRef/kind"),
            view.text("/spec/scaleTargetRef/name")
        ),
        targets,
        min.map_or_else(|| "<unset>".to_owned(), |min| min.to_string()),
        view.number("/spec/maxReplicas"),
        view.number("/status/currentReplicas"),
        view.age(),
    ]
}

fn cpu_target(view: &View<'_>) -> String {
    let percent = |pointer: &str| {
        view.get(pointer)
            .and_then(Value::as_i64)
            .map(|number| format!("{number}%"))
    };
    match percent("/spec/targetCPUUtilizationPercentage") {
        None => "<none>".to_owned(),
        Some(target) => {
            let current = percent("/status/currentCPUUtilizationPercentage");
            format!("cpu: {}/{target}", current.as_deref().unwrap_or("<unknown>"))
        }
    }
}

fn metrics(view: &View<'_>) -> String {
    let (specs, current) = (view.list("/spec/metrics"), view.list("/status/currentMetrics"));
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let shown: Vec<String> = specs
        .iter()
        .enumerate()
        .take(METRICS_MAX)
        .map(|(index, spec)| {
            let status = current.get(index).map(|object| View {
                object,
                now: view.now,
            });
            metric(
                &View {
                    object: spec,
                    now: view.now,
                },
                status.as_ref(),
            )
        })
        .collect();
    let text = shown.join(", ");
    if specs.len() > METRICS_MAX {
        format!("{text} + {} more...", specs.len() - METRICS_MAX)
    } else {
        text
    }
}

fn metric(spec: &View<'_>, status: Option<&View<'_>>) -> String {
    let (source, named) = match spec.text("/type") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let present = status.filter(|status| status.get(&format!("/{source}")).is_some());
    let current = |field: &str| present.and_then(|status| status.get(&format!("/{source}/current/{field}")));
    let target = |field: &str| spec.get(&format!("/{source}/target/{field}"));
    let quantity = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let percent = |value: Option<&Value>| value.and_then(Value::as_i64).map(|number| format!("{number}%"));
    let unknown = || "<unknown>".to_owned();
    // a quantity absent from a present status is zero
    let zero = || {
        if present.is_some() {
            "0".to_owned()
        } else {
            unknown()
        }
    };
    if named {
        let name = spec.text(&format!("/{source}/name"));
        return match quantity(target("averageValue")) {
            Some(wanted) => {
                format!(
                    "{name}: {}/{wanted}",
                    quantity(current("averageValue")).unwrap_or_else(zero)
                )
            }
            None => {
                let wanted = percent(target("averageUtilization")).unwrap_or_else(|| "<auto>".to_owned());
                format!(
                    "{name}: {}/{wanted}",
                    percent(current("averageUtilization")).unwrap_or_else(unknown)
                )
            }
        };
    }
    match quantity(target("averageValue")) {
        Some(wanted) if source == "pods" => {
            format!(
                "{}/{wanted}",
                quantity(current("averageValue")).unwrap_or_else(zero)
            )
        }
        Some(wanted) => format!(
            "{}/{wanted} (avg)",
            quantity(current("averageValue")).unwrap_or_else(unknown)
        ),
        None => {
            let wanted = quantity(target("value")).unwrap_or_else(|| "0".to_owned());
            format!("{}/{wanted}", quantity(current("value")).unwrap_or_else(zero))
        }
    }
}

pub(super) fn resource_quota(view: &View<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let used = view.map("/status/used");
    for (resource, hard) in view.map("/status/hard").into_iter().flatten() {
        let used = used
            .and_then(|used| used.get(resource))
            .and_then(Value::as_str)
            .unwrap_or("0");
        let entry = format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default());
        if resource.starts_with("limits.") {
            limits.push(entry);
        } else {
            requests.push(entry);
        }
    }
    cells![view.name(), requests.join(", "), limits.join(", "), view.age()]
}

pub(super) fn disruption_budget(view: &View<'_>) -> Vec<Value> {
    let bound = |pointer: &str| match view.get(pointer) {
        None => "N/A".to_owned(),
        Some(Value::String(percent)) => percent.clone(),
        Some(number) => number.to_string(),
    };
    cells![
        view.name(),
        bound("/spec/minAvailable"),
        bound("/spec/maxUnavailable"),
        view.number("/status/disruptionsAllowed"),
        view.age(),
    ]
}

pub(super) fn priority_class(view: &View<'_>) -> Vec<Value> {
    cells![
        view.name(),
        view.number("/value"),
        view.flag("/globalDefault").unwrap_or(false),
        view.age(),
        view.text("/preemptionPolicy"),
    ]
}

pub(super) fn flow_schema(view: &View<'_>) -> Vec<Value> {
    cells![
        view.name(),
        view.text("/spec/priorityLevelConfiguration/name"),
        view.number("/spec/matchingPrecedence"),
        view.optional("/spec/distinguisherMethod/type")
            .unwrap_or("<none>"),
        view.age(),
        view.condition("/status/conditions", "Dangling").unwrap_or("?"),
    ]
}

pub(super) fn priority_level(view: &View<'_>) -> Vec<Value> {
    let number = |pointer: &str| match view.get(pointer) {
        Some(number) => number.clone(),
        None => "<none>".into(),
    };
    let queuing = "/spec/limited/limitResponse/queuing";
    cells![
        view.name(),
        view.text("/spec/type"),
        number("/spec/limited/nominalConcurrencyShares"),
        number(&format!("{queuing}/queues")),
        number(&format!("{queuing}/handSize")),
        number(&format!("{queuing}/queueLengthLimit")),
        view.age(),
    ]
}
