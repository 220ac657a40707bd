//! HorizontalPodAutoscaler, in both versions.

use super::SPEC_AND_STATUS;
use super::names;
use super::quantity;
use super::tree::{annotation, default, get, has, int, is_empty, items, set, text};
use crate::field::FieldError;
use crate::registry::Strategy;
use serde_json::{Value, json};

pub(super) static HORIZONTAL_POD_AUTOSCALER: Strategy = Strategy {
    default: default_autoscaler,
    prepare_create: |autoscaler| {
        let status = if is_v1(autoscaler) {
            json!({"currentReplicas": 0, "desiredReplicas": 0})
        } else {
            json!({"desiredReplicas": 0, "currentMetrics": null})
        };
        set(autoscaler, "status", status);
    },
    validate,
    ..SPEC_AND_STATUS
};

fn is_v1(autoscaler: &Value) -> bool {
    text(autoscaler, "apiVersion") == "autoscaling/v1"
}

fn default_autoscaler(autoscaler: &mut Value) {
    default(autoscaler, "spec.minReplicas", 1);
    if is_v1(autoscaler) {
        // this version keeps metrics of other kinds in the annotation
        if annotation(autoscaler, "autoscaling.alpha.kubernetes.io/metrics").is_none() {
            default(autoscaler, "spec.targetCPUUtilizationPercentage", 80);
        }
        return;
    }
    if is_empty(get(autoscaler, "spec.metrics")) {
        set(
            autoscaler,
            "spec.metrics",
            json!([{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80}}}]),
        );
    }
    if !has(autoscaler, "spec.behavior") {
        return;
    }
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    default(autoscaler, "spec.behavior.scaleUp.stabilizationWindowSeconds", 0);
    for (direction, policies) in [
        (
            "scaleUp",
            json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, percent]),
        ),
        ("scaleDown", json!([percent])),
    ] {
        default(
            autoscaler,
            &format!("spec.behavior.{direction}.selectPolicy"),
            "Max",
        );
        default(
            autoscaler,
            &format!("spec.behavior.{direction}.policies"),
            policies,
        );
    }
}

fn validate(autoscaler: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = get(autoscaler, "spec");
    let min = int(spec, "minReplicas");
    if let Some(n) = min.filter(|n| *n < 1) {
        out.push(FieldError::invalid(
            "spec.minReplicas",
            &n.into(),
            "must be greater than or equal to 1",
        ));
    }
    let max = int(spec, "maxReplicas").unwrap_or(0);
    if max == 0 {
        out.push(FieldError::required(
            "spec.maxReplicas",
            "must be set and greater than 0",
        ));
    } else if max < 0 {
        out.push(FieldError::invalid(
            "spec.maxReplicas",
            &max.into(),
            "must be greater than or equal to 1",
        ));
    }
    if min.is_some_and(|n| max < n) {
        out.push(FieldError::invalid(
            "spec.maxReplicas",
            &max.into(),
            "must be greater than or equal to `minReplicas`",
        ));
    }
    for field in ["kind", "name"] {
        let value = text(spec, &format!("scaleTargetRef.{field}"));
        let path = format!("spec.scaleTargetRef.{field}");
        if value.is_empty() {
            out.push(FieldError::required(path, ""));
        } else {
            for message in names::path_segment(value, false) {
                out.push(FieldError::invalid(path.clone(), &value.into(), message));
            }
        }
    }
    let target = get(spec, "scaleTargetRef.apiVersion");
    // core kinds need no group in `apiVersion`
    if !target.as_str().unwrap_or("").contains('/')
        && text(spec, "scaleTargetRef.kind") != "ReplicationController"
    {
        out.push(FieldError::invalid(
            "spec.scaleTargetRef.apiVersion",
            &target.as_str().unwrap_or("").into(),
            "apiVersion must specify API group",
        ));
    }
    let metrics = items(spec, "metrics");
    for (i, metric) in metrics.iter().enumerate() {
        out.extend(validate_metric(metric, &format!("spec.metrics[{i}]")));
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = get(spec, "behavior").get(direction).filter(|r| !r.is_null());
        if let Some(rules) = rules {
            out.extend(validate_behavior(rules, &format!("spec.behavior.{direction}")));
        }
    }
    let from_outside = |metric: &Value| matches!(text(metric, "type"), "Object" | "External");
    if min == Some(0) && !metrics.iter().any(from_outside) {
        out.push(FieldError::forbidden(
            "spec.metrics",
            "must specify at least one Object or External metric to support scaling to zero replicas",
        ));
    }
    out
}

fn validate_behavior(rules: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    let window = get(rules, "stabilizationWindowSeconds");
    if let Some(n) = window.as_i64() {
        if n < 0 {
            out.push(FieldError::invalid(
                format!("{path}.stabilizationWindowSeconds"),
                window,
                "must be greater than or equal to 0",
            ));
        } else if n > 3600 {
            out.push(FieldError::invalid(
                format!("{path}.stabilizationWindowSeconds"),
                window,
                "must be less than or equal to 3600",
            ));
        }
    }
    let select = get(rules, "selectPolicy");
    if select
        .as_str()
        .is_some_and(|p| !matches!(p, "Disabled" | "Max" | "Min"))
    {
        out.push(FieldError::not_supported(
            format!("{path}.selectPolicy"),
            select,
            &["Disabled", "Max", "Min"],
        ));
    }
    for (i, policy) in items(rules, "policies").iter().enumerate() {
        let at = |field: &str| format!("{path}.policies[{i}].{field}");
        let kind = get(policy, "type");
        if !matches!(kind.as_str(), Some("Percent" | "Pods")) {
            out.push(FieldError::not_supported(at("type"), kind, &["Percent", "Pods"]));
        }
        for field in ["value", "periodSeconds"] {
            let n = int(policy, field).unwrap_or(0);
            if n <= 0 {
                out.push(FieldError::invalid(
                    at(field),
                    &n.into(),
                    "must be greater than zero",
                ));
            } else if field == "periodSeconds" && n > 1800 {
                out.push(FieldError::invalid(
                    at(field),
                    &n.into(),
                    "must be less than or equal to 1800",
                ));
            }
        }
    }
    out
}

fn validate_metric(metric: &Value, path: &str) -> Vec<FieldError> {
    const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
    let mut out = Vec::new();
    let kind = get(metric, "type");
    let expected = match kind.as_str() {
        Some("Object") => "object",
        Some("Pods") => "pods",
        Some("Resource") => "resource",
        Some("External") => "external",
        Some("ContainerResource") => "containerResource",
        _ => {
            if is_empty(kind) {
                out.push(FieldError::required(
                    format!("{path}.type"),
                    "must specify a metric source type",
                ));
            }
            out.push(FieldError::not_supported(format!("{path}.type"), kind, TYPES));
            return out;
        }
    };
    if !has(metric, expected) {
        out.push(FieldError::required(
            format!("{path}.{expected}"),
            "must populate information for the given metric source",
        ));
    }
    let sources = ["object", "external", "pods", "resource", "containerResource"];
    let present: Vec<&str> = sources.into_iter().filter(|s| has(metric, s)).collect();
    if present.len() > 1 {
        for other in present.iter().filter(|s| **s != expected) {
            out.push(FieldError::forbidden(
                format!("{path}.{other}"),
                "must populate the given metric source only",
            ));
        }
    }
    // upstream checks the first source, even if the type names another
    let Some(source) = present.first().copied() else {
        return out;
    };
    let target = get(metric, source).get("target").cloned().unwrap_or_default();
    let path = format!("{path}.{source}");
    let expected = source;
    if expected == "resource" && text(metric, "resource.name").is_empty() {
        out.push(FieldError::required(
            format!("{path}.name"),
            "must specify a resource name",
        ));
    }
    let path = format!("{path}.target");
    let target_type = get(&target, "type");
    if is_empty(target_type) {
        out.push(FieldError::required(
            format!("{path}.type"),
            "must specify a metric target type",
        ));
    }
    if !matches!(
        target_type.as_str(),
        Some("Utilization" | "Value" | "AverageValue")
    ) {
        out.push(FieldError::invalid(
            format!("{path}.type"),
            &target_type.as_str().unwrap_or("").into(),
            "must be either Utilization, Value, or AverageValue",
        ));
    }
    for field in ["value", "averageValue"] {
        let value = get(&target, field);
        if value.as_str().and_then(quantity::nano).is_some_and(|n| n <= 0) {
            out.push(FieldError::invalid(
                format!("{path}.{field}"),
                value,
                "must be positive",
            ));
        }
    }
    if let Some(n) = int(&target, "averageUtilization").filter(|n| *n < 1) {
        out.push(FieldError::invalid(
            format!("{path}.averageUtilization"),
            &n.into(),
            "must be greater than 0",
        ));
    }
    if source == "resource" {
        match (has(&target, "averageUtilization"), has(&target, "averageValue")) {
            (false, false) => out.push(FieldError::required(
                format!("{path}.averageUtilization"),
                "must set either a target raw value or a target utilization",
            )),
            (true, true) => out.push(FieldError::forbidden(
                format!("{path}.averageValue"),
                "may not set both a target raw value and a target utilization",
            )),
            _ => {}
        }
    }
    out
}
