//! Migration from `kubectl apply` to server-side apply and back.
//!
//! Client-side `kubectl apply` keeps its last configuration in an annotation. `kubectl apply --server-side`
//! may take over the fields of that configuration without force if nobody changed them since. It updates
//! the annotation for the way back.

use super::entries::Identity;
use super::{Manager, text};
use equate_manifest::fieldpath::Set;
use equate_manifest::merge::Conflict;
use equate_manifest::typed::Duplicates;
use serde_json::{Map, Value};

/// Only for this manager.
pub(super) const MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The sum over all annotations, names included (apimachinery validation).
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

pub(super) fn unresolved(
    conflicts: Vec<Conflict<Identity>>,
    live: &Value,
    manager: &Manager<'_>,
) -> Vec<Conflict<Identity>> {
    let Some(allowed) = unchanged_since(live, manager) else {
        return conflicts;
    };
    conflicts
        .into_iter()
        .filter(|conflict| !allowed.has(&conflict.path.0))
        .collect()
}

/// The fields of the last client-side configuration that still have its values. `None` if it is absent, of
/// another version, or either object does not fit the schema.
fn unchanged_since(live: &Value, manager: &Manager<'_>) -> Option<Set> {
    let last = annotation(live)?;
    let last: Value = serde_json::from_str(last).ok()?;
    if text(&last, "/apiVersion") != manager.api_version || text(&last, "/kind") != manager.kind {
        return None;
    }
    for object in [live, &last] {
        manager.types.validate(object, Duplicates::Refuse).ok()?;
    }
    let fields = manager.types.field_set(&last).ok()?;
    let changes = manager.types.compare(&last, live).ok()?;
    Some(
        fields
            .difference(&changes.modified)
            .difference(&changes.added)
            .difference(&changes.removed),
    )
}

pub(super) fn refresh(object: &mut Value, patch: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut patch = patch.clone();
    if let Some(annotations) = annotations_mut(&mut patch) {
        annotations.remove(ANNOTATION);
    }
    let mut configuration = go_json(&patch);
    configuration.push('\n');
    if let Some(annotations) = annotations_mut(object) {
        annotations.insert(ANNOTATION.to_owned(), Value::String(configuration));
        let bytes = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
        if annotations.iter().map(bytes).sum::<usize>() > ANNOTATIONS_BYTES_MAX {
            annotations.remove(ANNOTATION);
        }
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object
        .get("metadata")?
        .get("annotations")?
        .get(ANNOTATION)?
        .as_str()?;
    Some(text).filter(|text| !text.is_empty())
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object
        .get_mut("metadata")?
        .get_mut("annotations")?
        .as_object_mut()
}

/// JSON as Go's encoder writes it, with HTML's special characters escaped. They occur only in strings.
fn go_json(value: &Value) -> String {
    let mut out = String::new();
    for c in value.to_string().chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}
