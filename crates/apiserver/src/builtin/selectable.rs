//! Field selectors of built-in kinds.
//!
//! Upstream has two refusals: kinds with a conversion function of their own name only the field, all others
//! list the fields they know.

use super::strategy;
use super::tree::{flag, get, text};
use crate::field::go_quote;
use serde_json::Value;

/// An unsupported field. `Display` is the message of the 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnsupportedField {
    #[error("{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", go_quote(.0))]
    OnlyMetadata(String),
    #[error("field label not supported: {0}")]
    NotSupported(String),
}

/// The value of a selectable field; empty if the object has none.
///
/// `field` is as in the request; aliases are resolved.
pub(crate) fn selectable(
    group: &str,
    kind: &str,
    field: &str,
    object: &Value,
) -> Result<String, UnsupportedField> {
    match field {
        "metadata.name" | "metadata.namespace" => return Ok(text(object, field).to_owned()),
        _ => {}
    }
    let fields = strategy(group, kind).selectable;
    let field = match (kind, field) {
        ("Event", "source") => "source",
        ("Pod", "spec.host") => "spec.nodeName",
        ("Namespace" | "Node", "name") | ("Secret" | "Service", "name") => {
            return if matches!(kind, "Namespace") {
                Ok(text(object, "metadata.name").to_owned())
            } else {
                Err(unknown(fields, field))
            };
        }
        _ => field,
    };
    if !fields.contains(&field) {
        return Err(unknown(fields, field));
    }
    Ok(match (group, kind, field) {
        ("", "Event", "source") => {
            let component = text(object, "source.component");
            if component.is_empty() {
                text(object, "reportingComponent")
            } else {
                component
            }
            .to_owned()
        }
        ("events.k8s.io", "Event", "source") => {
            let component = text(object, "deprecatedSource.component");
            if component.is_empty() {
                text(object, "reportingController")
            } else {
                component
            }
            .to_owned()
        }
        ("events.k8s.io", "Event", "reportingComponent") => text(object, "reportingController").to_owned(),
        ("events.k8s.io", "Event", field) => match field.strip_prefix("involvedObject.") {
            Some(part) => text(object, &format!("regarding.{part}")).to_owned(),
            None => text(object, field).to_owned(),
        },
        (_, "Pod", "status.podIP" | "status.podIPs") => text(object, "status.podIP").to_owned(),
        (_, "Pod", "spec.hostNetwork") | (_, "Node", "spec.unschedulable") => flag(object, field).to_string(),
        (_, "ReplicaSet" | "ReplicationController", "status.replicas") => number(object, "status.replicas"),
        (_, "Job", "status.successful") => number(object, "status.succeeded"),
        _ => text(object, field).to_owned(),
    })
}

fn number(object: &Value, path: &str) -> String {
    get(object, path).as_i64().unwrap_or(0).to_string()
}

fn unknown(fields: &[&str], field: &str) -> UnsupportedField {
    if fields.is_empty() {
        UnsupportedField::OnlyMetadata(field.to_owned())
    } else {
        UnsupportedField::NotSupported(field.to_owned())
    }
}
