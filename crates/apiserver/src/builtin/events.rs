//! Events, in the core group and in events.k8s.io.
//!
//! Upstream stores one kind and serves it under two schemas. Here each group keeps its own: Events written
//! through one are not listed through the other.

use super::meta::immutable;
use super::names;
use super::tree::{get, has, int, text};
use crate::field::FieldError;
use crate::registry::Strategy;
use serde_json::Value;

pub(super) static EVENT: Strategy = Strategy {
    create_on_update: true,
    validate,
    validate_create: |event| {
        if is_new(event) {
            validate_new(event)
        } else {
            Vec::new()
        }
    },
    validate_update: |new, stored| {
        if !is_new(new) {
            return Vec::new();
        }
        [
            "regarding",
            "reason",
            "note",
            "type",
            "eventTime",
            "action",
            "related",
            "reportingController",
            "reportingInstance",
        ]
        .iter()
        .filter_map(|field| immutable(new, stored, field))
        .collect()
    },
    selectable: &[
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ],
    ..Strategy::GENERIC
};

fn is_new(event: &Value) -> bool {
    text(event, "apiVersion") != "v1"
}

fn validate(event: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let new = is_new(event);
    let (object, controller, message) = if new {
        ("regarding", "reportingController", "note")
    } else {
        ("involvedObject", "reportingComponent", "message")
    };
    let namespace = text(event, "metadata.namespace");
    let about = get(event, &format!("{object}.namespace"));
    let about_text = about.as_str().unwrap_or("");
    let timed = has(event, "eventTime");
    let elsewhere = match (timed, about_text.is_empty()) {
        (false, true) => !namespace.is_empty() && namespace != "default",
        (false, false) => namespace != about_text,
        (true, true) => namespace != "default" && namespace != "kube-system",
        (true, false) => false,
    };
    if elsewhere {
        out.push(FieldError::invalid(
            "involvedObject.namespace",
            &about_text.into(),
            "does not match event.namespace",
        ));
    }
    if !timed {
        return out;
    }
    let name = text(event, controller);
    if name.is_empty() {
        out.push(FieldError::required(controller, ""));
    }
    for why in names::qualified_name(name) {
        out.push(FieldError::invalid(controller, &name.into(), why));
    }
    for (field, max, required) in [
        ("reportingInstance", 128, true),
        ("action", 128, true),
        ("reason", 128, true),
        (message, 1024, false),
    ] {
        let value = text(event, field);
        if required && value.is_empty() {
            out.push(FieldError::required(field, ""));
        }
        if value.len() > max {
            let field = if field == "note" { "message" } else { field };
            out.push(FieldError::invalid(
                field,
                &"".into(),
                format!("can have at most {max} characters"),
            ));
        }
    }
    out
}

fn validate_new(event: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    if !has(event, "eventTime") {
        out.push(FieldError::required("eventTime", ""));
    }
    let kind = text(event, "type");
    if kind != "Normal" && kind != "Warning" {
        out.push(FieldError::invalid(
            "type",
            &"".into(),
            format!("has invalid value: {kind}"),
        ));
    }
    let set = [
        ("firstTimestamp", has(event, "deprecatedFirstTimestamp")),
        ("lastTimestamp", has(event, "deprecatedLastTimestamp")),
        ("count", int(event, "deprecatedCount").unwrap_or(0) != 0),
        (
            "source",
            !text(event, "deprecatedSource.component").is_empty()
                || !text(event, "deprecatedSource.host").is_empty(),
        ),
    ];
    for (field, _) in set.into_iter().filter(|(_, present)| *present) {
        out.push(FieldError::invalid(field, &"".into(), "needs to be unset"));
    }
    out
}
