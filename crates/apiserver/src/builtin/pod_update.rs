//! Updates of a Pod may change images, a deadline, add tolerations and remove gates.

use super::names;
use super::tree::{get, int, items, restore, set};
use crate::field::FieldError;
use serde_json::Value;

pub(super) fn validate_pod_update(new: &Value, stored: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    for list in ["containers", "initContainers"] {
        let path = format!("spec.{list}");
        let (now, before) = (items(new, &path), items(stored, &path));
        if now.len() != before.len() {
            out.push(FieldError::forbidden(
                path,
                "pod updates may not add or remove containers",
            ));
            return out;
        }
        for (i, container) in now.iter().enumerate() {
            let image = get(container, "image").as_str().unwrap_or("");
            if image.trim() != image {
                out.push(FieldError::invalid(
                    format!("{path}[{i}].image"),
                    &image.into(),
                    "must not have leading or trailing whitespace",
                ));
            }
        }
    }
    let (deadline, old_deadline) = (
        int(new, "spec.activeDeadlineSeconds"),
        int(stored, "spec.activeDeadlineSeconds"),
    );
    let path = "spec.activeDeadlineSeconds";
    match (deadline, old_deadline) {
        (Some(n), _) if !(0..=i64::from(i32::MAX)).contains(&n) => {
            out.push(FieldError::invalid(
                path,
                &n.into(),
                names::range(0, i32::MAX.into()),
            ));
            return out;
        }
        (Some(n), Some(old)) if old < n => {
            out.push(FieldError::invalid(
                path,
                &n.into(),
                "must be less than or equal to previous value",
            ));
            return out;
        }
        (None, Some(_)) => out.push(FieldError::invalid(
            path,
            &Value::Null,
            "must not update from a positive integer to nil value",
        )),
        _ => {}
    }
    out.extend(only_more_tolerations(new, stored));
    out.extend(only_fewer_gates(new, stored));
    if get(new, "spec") == get(stored, "spec") {
        return out;
    }
    let mut masked = new.clone();
    for list in ["containers", "initContainers"] {
        let path = format!("spec.{list}");
        let mut containers = items(new, &path).to_vec();
        for (container, before) in containers.iter_mut().zip(items(stored, &path)) {
            restore(container, before, "image");
        }
        if !containers.is_empty() {
            set(&mut masked, &path, containers);
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(&mut masked, stored, &format!("spec.{field}"));
    }
    if int(stored, "spec.terminationGracePeriodSeconds").is_some_and(|n| n < 0)
        && int(new, "spec.terminationGracePeriodSeconds") == Some(1)
    {
        restore(&mut masked, stored, "spec.terminationGracePeriodSeconds");
    }
    if !items(stored, "spec.schedulingGates").is_empty() {
        // a gated pod may still change its placement
        restore(&mut masked, stored, "spec.nodeSelector");
        restore(&mut masked, stored, "spec.affinity.nodeAffinity");
    }
    if get(&masked, "spec") != get(stored, "spec") {
        out.push(FieldError::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        ));
    }
    out
}

fn only_more_tolerations(new: &Value, stored: &Value) -> Option<FieldError> {
    let without_seconds = |toleration: &Value| {
        let mut copy = toleration.clone();
        super::tree::remove(&mut copy, "tolerationSeconds");
        copy
    };
    let now: Vec<Value> = items(new, "spec.tolerations")
        .iter()
        .map(without_seconds)
        .collect();
    let kept = items(stored, "spec.tolerations")
        .iter()
        .all(|old| now.contains(&without_seconds(old)));
    (!kept).then(|| {
        FieldError::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        )
    })
}

fn only_fewer_gates(new: &Value, stored: &Value) -> Option<FieldError> {
    let before = items(stored, "spec.schedulingGates");
    let (i, gate) = items(new, "spec.schedulingGates")
        .iter()
        .enumerate()
        .find(|(_, gate)| !before.contains(gate))?;
    let name = get(gate, "name").as_str().unwrap_or("");
    Some(FieldError::forbidden(
        format!("spec.schedulingGates[{i}].name"),
        format!("only deletion is allowed, but found new scheduling gate '{name}'"),
    ))
}
