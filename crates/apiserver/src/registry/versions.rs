//! Conversion between the versions or groups of a kind.
//!
//! As upstream, such objects are stored once and converted on reading: Events (`v1` and
//! `events.k8s.io/v1`), and HorizontalPodAutoscalers (`autoscaling/v1` and `/v2`).

use crate::status::ApiError;
use serde_json::{Map, Value, json};

/// The storage group and plural: its own, except for Events of `events.k8s.io`.
pub(super) fn storage_of<'a>(group: &'a str, plural: &'a str) -> (&'a str, &'a str) {
    match (group, plural) {
        ("events.k8s.io", "events") => ("", "events"),
        own => own,
    }
}

/// Converts a stored object to another version of its kind.
pub(super) fn convert(stored: &Value, api_version: &str) -> Result<Value, ApiError> {
    let from = stored["apiVersion"].as_str().unwrap_or_default();
    let mut out = stored.clone();
    out["apiVersion"] = json!(api_version);
    match (stored["kind"].as_str().unwrap_or_default(), from, api_version) {
        ("Event", "v1", "events.k8s.io/v1") => rename(&mut out, &EVENT_FIELDS),
        ("Event", "events.k8s.io/v1", "v1") => rename(&mut out, &EVENT_FIELDS.map(|(a, b)| (b, a))),
        ("HorizontalPodAutoscaler", "autoscaling/v1", "autoscaling/v2") => autoscaler_to_v2(&mut out),
        ("HorizontalPodAutoscaler", "autoscaling/v2", "autoscaling/v1") => autoscaler_to_v1(&mut out),
        (kind, _, _) => {
            return Err(ApiError::internal(format!(
                "no conversion of {kind} from {from} to {api_version}"
            )));
        }
    }
    Ok(out)
}

/// Core name, `events.k8s.io` name.
const EVENT_FIELDS: [(&str, &str); 8] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

fn rename(object: &mut Value, fields: &[(&str, &str)]) {
    let Value::Object(map) = object else { return };
    let moved: Vec<(String, Value)> = fields
        .iter()
        .filter_map(|(from, to)| map.remove(*from).map(|v| ((*to).to_owned(), v)))
        .collect();
    map.extend(moved);
}

/// `autoscaling/v1` keeps other metrics here (k8s.io/api `autoscaling/annotations.go`).
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

fn autoscaler_to_v2(object: &mut Value) {
    let mut metrics = unfold(object, METRICS)
        .and_then(|v| v.as_array().cloned())
        .unwrap_or_default();
    if let Some(target) = take(object, "spec", "targetCPUUtilizationPercentage") {
        metrics.insert(0, cpu_metric("target", "averageUtilization", target));
    }
    if !metrics.is_empty() {
        object["spec"]["metrics"] = Value::Array(metrics);
    }
    if let Some(behavior) = unfold(object, BEHAVIOR) {
        object["spec"]["behavior"] = behavior;
    }
    let mut current = unfold(object, CURRENT_METRICS)
        .and_then(|v| v.as_array().cloned())
        .unwrap_or_default();
    if let Some(value) = take(object, "status", "currentCPUUtilizationPercentage") {
        current.insert(0, cpu_metric("current", "averageUtilization", value));
    }
    if object.get("status").is_some_and(Value::is_object) {
        object["status"]["currentMetrics"] = if current.is_empty() {
            Value::Null
        } else {
            Value::Array(current)
        };
        if let Some(conditions) = unfold(object, CONDITIONS) {
            object["status"]["conditions"] = conditions;
        }
    }
}

fn autoscaler_to_v1(object: &mut Value) {
    let mut rest = Vec::new();
    let mut cpu = None;
    for metric in take(object, "spec", "metrics")
        .and_then(|v| v.as_array().cloned())
        .unwrap_or_default()
    {
        match cpu_utilization(&metric, "target") {
            Some(value) if cpu.is_none() => cpu = Some(value),
            _ => rest.push(metric),
        }
    }
    if let Some(value) = cpu {
        object["spec"]["targetCPUUtilizationPercentage"] = value;
    }
    fold(object, METRICS, rest);
    if let Some(behavior) = take(object, "spec", "behavior") {
        annotate(object, BEHAVIOR, &behavior);
    }
    let mut rest = Vec::new();
    let mut current = None;
    for metric in take(object, "status", "currentMetrics")
        .and_then(|v| v.as_array().cloned())
        .unwrap_or_default()
    {
        match cpu_utilization(&metric, "current") {
            Some(value) if current.is_none() => current = Some(value),
            _ => rest.push(metric),
        }
    }
    if let Some(value) = current {
        object["status"]["currentCPUUtilizationPercentage"] = value;
    }
    fold(object, CURRENT_METRICS, rest);
    if let Some(conditions) = take(object, "status", "conditions").filter(|c| !c.is_null()) {
        annotate(object, CONDITIONS, &conditions);
    }
}

fn cpu_metric(role: &str, field: &str, value: Value) -> Value {
    let mut target = Map::new();
    target.insert(field.to_owned(), value);
    if role == "target" {
        target.insert("type".to_owned(), json!("Utilization"));
    }
    json!({ "type": "Resource", "resource": { "name": "cpu", role: target } })
}

fn cpu_utilization(metric: &Value, role: &str) -> Option<Value> {
    let resource = &metric["resource"];
    (metric["type"] == "Resource" && resource["name"] == "cpu")
        .then(|| resource[role].get("averageUtilization").cloned())
        .flatten()
}

fn take(object: &mut Value, section: &str, field: &str) -> Option<Value> {
    object.get_mut(section)?.as_object_mut()?.remove(field)
}

fn unfold(object: &mut Value, annotation: &str) -> Option<Value> {
    let annotations = object.pointer_mut("/metadata/annotations")?.as_object_mut()?;
    let text = annotations.remove(annotation)?;
    let empty = annotations.is_empty();
    let value = serde_json::from_str(text.as_str()?).ok();
    if empty {
        object
            .pointer_mut("/metadata")?
            .as_object_mut()?
            .remove("annotations");
    }
    value
}

fn fold(object: &mut Value, annotation: &str, values: Vec<Value>) {
    if !values.is_empty() {
        annotate(object, annotation, &Value::Array(values));
    }
}

fn annotate(object: &mut Value, annotation: &str, value: &Value) {
    let metadata = &mut object["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][annotation] = json!(value.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_change_names_and_come_back() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {}, "involvedObject": { "name": "a" }, "message": "m",
            "reportingComponent": "c", "reportingInstance": "i", "source": {}, "type": "Normal",
        });
        let new = convert(&core, "events.k8s.io/v1").unwrap();
        assert_eq!(new["regarding"]["name"], "a");
        assert_eq!(new["note"], "m");
        assert_eq!(new["reportingController"], "c");
        assert_eq!(convert(&new, "v1").unwrap(), core);
    }

    #[test]
    fn autoscaler_keeps_fields_unknown_to_v1() {
        let v2 = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {},
            "spec": { "maxReplicas": 3, "metrics": [
                cpu_metric("target", "averageUtilization", json!(80)),
                { "type": "Resource", "resource": { "name": "memory", "target": { "type": "Utilization", "averageUtilization": 70 } } },
            ] },
        });
        let v1 = convert(&v2, "autoscaling/v1").unwrap();
        assert_eq!(v1["spec"]["targetCPUUtilizationPercentage"], 80);
        assert_eq!(convert(&v1, "autoscaling/v2").unwrap(), v2);
    }
}
