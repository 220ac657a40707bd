//! Accessors of object metadata for controllers.

use serde_json::Value;

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn meta<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get("metadata").map_or("", |meta| text(meta, key))
}

pub(super) fn uid(object: &Value) -> &str {
    meta(object, "uid")
}

pub(super) fn deleting(object: &Value) -> bool {
    !meta(object, "deletionTimestamp").is_empty()
}

pub(super) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

pub(super) fn has_finalizer(object: &Value, name: &str) -> bool {
    finalizers(object).any(|f| f == name)
}

pub(super) fn owner_references(object: &Value) -> &[Value] {
    object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}
