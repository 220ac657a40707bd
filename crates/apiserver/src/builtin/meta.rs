//! Validation of metadata. Rules, order and messages are those of
//! `apimachinery/pkg/api/validation/objectmeta.go` (1.36).

use super::names;
use super::tree::{entries, get, int, items, text};
use crate::field::{FieldError, FieldErrorKind, go_quote};
use crate::registry::NameRule;
use serde_json::Value;
use std::collections::BTreeSet;

const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

pub(crate) fn validate_object_meta(object: &Value, rule: NameRule, namespaced: bool) -> Vec<FieldError> {
    let mut out = Vec::new();
    let generate = text(object, "metadata.generateName");
    if !generate.is_empty() {
        for message in check_name(rule, generate, true) {
            out.push(FieldError::invalid(
                "metadata.generateName",
                &generate.into(),
                message,
            ));
        }
    }
    let name = text(object, "metadata.name");
    if name.is_empty() {
        out.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        for message in check_name(rule, name, false) {
            out.push(FieldError::invalid("metadata.name", &name.into(), message));
        }
    }
    let namespace = text(object, "metadata.namespace");
    if !namespaced {
        if !namespace.is_empty() {
            out.push(FieldError::forbidden(
                "metadata.namespace",
                "not allowed on this type",
            ));
        }
    } else if namespace.is_empty() {
        out.push(FieldError::required("metadata.namespace", ""));
    } else {
        for message in names::dns_label(namespace) {
            out.push(FieldError::invalid(
                "metadata.namespace",
                &namespace.into(),
                message,
            ));
        }
    }
    if let Some(generation) = int(object, "metadata.generation").filter(|g| *g < 0) {
        out.push(FieldError::invalid(
            "metadata.generation",
            &generation.into(),
            "must be greater than or equal to 0",
        ));
    }
    out.extend(validate_labels(get(object, "metadata.labels"), "metadata.labels"));
    out.extend(validate_annotations(
        get(object, "metadata.annotations"),
        "metadata.annotations",
    ));
    out.extend(validate_owner_references(items(
        object,
        "metadata.ownerReferences",
    )));
    let finalizers = items(object, "metadata.finalizers");
    out.extend(validate_finalizers(finalizers));
    let (group, _) = text(object, "apiVersion").rsplit_once('/').unwrap_or(("", ""));
    // custom resources and the API extension kinds may use any qualified name
    if super::GROUPS.contains(&group) {
        for (i, finalizer) in finalizers.iter().enumerate() {
            out.extend(unqualified_finalizer(
                finalizer,
                &format!("metadata.finalizers[{i}]"),
            ));
        }
    }
    out
}

/// Checks the change only; [`validate_object_meta`] checks the new object.
///
/// `resource_version_required`: the kind refuses unconditional updates.
pub(crate) fn validate_object_meta_update(
    new: &Value,
    stored: &Value,
    resource_version_required: bool,
) -> Vec<FieldError> {
    let mut out = Vec::new();
    if !get(stored, "metadata.deletionTimestamp").is_null() {
        let old: BTreeSet<&str> = strings(stored, "metadata.finalizers").collect();
        let added: BTreeSet<&str> = strings(new, "metadata.finalizers")
            .filter(|f| !old.contains(f))
            .collect();
        if !added.is_empty() {
            let list: Vec<String> = added.into_iter().map(go_quote).collect();
            out.push(FieldError::forbidden(
                "metadata.finalizers",
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    list.join(", ")
                ),
            ));
        }
    }
    if resource_version_required && text(new, "metadata.resourceVersion").is_empty() {
        out.push(FieldError::invalid(
            "metadata.resourceVersion",
            &0.into(),
            "must be specified for an update",
        ));
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let path = format!("metadata.{field}");
        out.extend(immutable(new, stored, &path));
    }
    out
}

pub(crate) fn immutable(new: &Value, stored: &Value, path: &str) -> Option<FieldError> {
    let (new, old) = (get(new, path), get(stored, path));
    (new != old).then(|| FieldError::invalid(path, new, "field is immutable"))
}

/// `prefix`: the name is a `generateName`, which may end in a dash.
pub(crate) fn check_name(rule: NameRule, name: &str, prefix: bool) -> Vec<String> {
    let masked = match name.strip_suffix('-') {
        // apimachinery cuts two characters here, and so tolerates a dash before the last one too
        Some(rest) if prefix && !rest.is_empty() => {
            let mut kept = rest.to_owned();
            kept.pop();
            kept + "a"
        }
        _ => name.to_owned(),
    };
    match rule {
        NameRule::DnsSubdomain => names::dns_subdomain(&masked),
        NameRule::DnsLabel => names::dns_label(&masked),
        NameRule::PathSegment => names::path_segment(name, prefix),
    }
}

pub(crate) fn validate_labels(labels: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    for (key, value) in entries(labels, "") {
        for message in names::qualified_name(key) {
            out.push(FieldError::invalid(path, &key.as_str().into(), message));
        }
        for message in names::label_value(value.as_str().unwrap_or("")) {
            out.push(FieldError::invalid(path, value, message));
        }
    }
    out
}

pub(crate) fn validate_annotations(annotations: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    let mut bytes = 0;
    for (key, value) in entries(annotations, "") {
        for message in names::qualified_name(&key.to_lowercase()) {
            out.push(FieldError::invalid(path, &key.as_str().into(), message));
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        out.push(FieldError::too_long(path, ANNOTATIONS_BYTES_MAX));
    }
    out
}

fn validate_owner_references(references: &[Value]) -> Vec<FieldError> {
    const PATH: &str = "metadata.ownerReferences";
    let mut out = Vec::new();
    let mut controller: Option<String> = None;
    for reference in references {
        let api_version = text(reference, "apiVersion");
        let parts: Vec<&str> = api_version.split('/').collect();
        let (group, version) = match parts[..] {
            [version] => ("", version),
            [group, version] => (group, version),
            _ => ("", ""),
        };
        if version.is_empty() {
            out.push(FieldError::invalid(
                format!("{PATH}.apiVersion"),
                &api_version.into(),
                "version must not be empty",
            ));
        }
        for field in ["kind", "name", "uid"] {
            let value = text(reference, field);
            if value.is_empty() {
                out.push(FieldError::invalid(
                    format!("{PATH}.{field}"),
                    &value.into(),
                    "must not be empty",
                ));
            }
        }
        let kind = text(reference, "kind");
        if (group, version, kind) == ("", "v1", "Event") {
            out.push(FieldError::invalid(
                PATH,
                reference,
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if get(reference, "controller").as_bool() == Some(true) {
            let this = format!("{kind}/{}", text(reference, "name"));
            match &controller {
                Some(first) => out.push(FieldError::with_value(
                    FieldErrorKind::Invalid,
                    PATH,
                    Some(print_references(references)),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    ),
                )),
                None => controller = Some(this),
            }
        }
    }
    out
}

/// Go prints the fields in the order of the type.
fn print_references(references: &[Value]) -> String {
    const FIELDS: &[&str] = &[
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    let one = |reference: &Value| {
        let shown: Vec<String> = FIELDS
            .iter()
            .filter_map(|field| Some(format!("\"{field}\":{}", reference.get(field)?)))
            .collect();
        format!("{{{}}}", shown.join(","))
    };
    format!("[{}]", references.iter().map(one).collect::<Vec<_>>().join(","))
}

fn validate_finalizers(finalizers: &[Value]) -> Vec<FieldError> {
    const PATH: &str = "metadata.finalizers";
    let mut out = Vec::new();
    for finalizer in finalizers {
        for message in names::qualified_name(finalizer.as_str().unwrap_or("")) {
            out.push(FieldError::invalid(PATH, finalizer, message));
        }
    }
    let has = |name: &str| finalizers.iter().any(|f| f.as_str() == Some(name));
    if has("orphan") && has("foregroundDeletion") {
        out.push(FieldError::invalid(
            PATH,
            &Value::Array(finalizers.to_vec()),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
    out
}

pub(crate) fn unqualified_finalizer(finalizer: &Value, path: &str) -> Option<FieldError> {
    let name = finalizer.as_str().unwrap_or("");
    (!name.contains('/') && !STANDARD_FINALIZERS.contains(&name)).then(|| {
        FieldError::invalid(
            path,
            finalizer,
            "name is neither a standard finalizer name nor is it fully qualified",
        )
    })
}

pub(crate) fn strings<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a str> {
    items(value, path).iter().filter_map(Value::as_str)
}
