//! Takeover of fields that `kubectl` owns.
//!
//! Server-side apply removes only fields of its own manager. Fields set by `kubectl apply` or `kubectl
//! edit` would stay for ever, so their ownership moves to ours before an apply, and kubectl's annotation
//! is removed. Managers and keys are Flux's (`internal/controller/kustomization_controller.go`,
//! `pkg/ssa/patch.go`).

use equate_manifest::fieldpath::{PathElement, Set};
use equate_manifest::object::Object;
use serde_json::{Value, json};

/// Annotations to remove: kubectl's, and those of Flux before version 2.
const ANNOTATIONS: [&str; 3] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "kustomize.toolkit.fluxcd.io/checksum",
    "fluxcd.io/sync-checksum",
];

const LABELS: [&str; 1] = ["fluxcd.io/sync-gc-mark"];

/// Metadata of the API server.
const UNWRITABLE: [&str; 8] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "uid",
    "name",
    "namespace",
];

/// Managers whose fields move, besides our own updates: a prefix of the name, and the operation.
const MANAGERS: [(&str, &str); 3] = [
    ("kubectl", "Apply"),
    ("kubectl", "Update"),
    ("before-first-apply", "Update"),
];

pub(crate) fn needed(live: &Object, manager: &str) -> bool {
    leftovers(live, "annotations", &ANNOTATIONS).next().is_some()
        || leftovers(live, "labels", &LABELS).next().is_some()
        || bookings(live).iter().any(|entry| is_taken(entry, manager))
}

/// The JSON patch of the takeover; `None` if there is nothing to take.
///
/// It requires the resource version: changed entries must be read again.
pub(crate) fn patch(live: &Object, manager: &str) -> Option<Vec<Value>> {
    let mut patch = Vec::new();
    for (place, keys) in [("annotations", &ANNOTATIONS[..]), ("labels", &LABELS[..])] {
        for key in leftovers(live, place, keys) {
            let path = format!("/metadata/{place}/{}", escaped(key));
            patch.push(json!({ "op": "remove", "path": path }));
        }
    }
    if let Some(entries) = merged(bookings(live), manager) {
        patch.push(json!({ "op": "replace", "path": "/metadata/managedFields", "value": entries }));
    }
    if patch.is_empty() {
        return None;
    }
    if let Some(version) = live.metadata().and_then(|m| m.get("resourceVersion")) {
        patch.push(json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": version }));
    }
    Some(patch)
}

/// The fields after a takeover and an apply, by the answer to an apply before the takeover: a JSON patch
/// for the live object. The API server then adds defaults.
pub(crate) fn foreseen(live: &Object, answer: &Object, manager: &str) -> Vec<Value> {
    let (taken, kept): (Vec<&Value>, Vec<&Value>) = bookings(answer)
        .iter()
        .partition(|entry| is_taken(entry, manager));
    let kept = fields(kept);
    let mut after = Value::Object(answer.0.clone());
    remove(&mut after, &fields(taken).difference(&kept), Some(&kept));
    for (place, keys) in [("annotations", &ANNOTATIONS[..]), ("labels", &LABELS[..])] {
        if let Some(map) = after["metadata"][place].as_object_mut() {
            map.retain(|key, _| !keys.contains(&key.as_str()));
        }
    }
    let before = Value::Object(live.0.clone());
    let mut patch = Vec::new();
    replace(
        "",
        &before,
        &after,
        &["apiVersion", "kind", "metadata", "status"],
        &mut patch,
    );
    replace(
        "/metadata",
        &before["metadata"],
        &after["metadata"],
        &UNWRITABLE,
        &mut patch,
    );
    patch
}

/// Replaces the members of a map that differ.
fn replace(path: &str, before: &Value, after: &Value, except: &[&str], patch: &mut Vec<Value>) {
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (before, after) = (members(before), members(after));
    let path = |key: &str| format!("{path}/{}", escaped(key));
    let is_meant = |key: &str| !except.contains(&key);
    for key in before
        .keys()
        .filter(|key| is_meant(key) && !after.contains_key(*key))
    {
        patch.push(json!({ "op": "remove", "path": path(key) }));
    }
    for (key, value) in after.iter().filter(|(key, _)| is_meant(key)) {
        if before.get(key) != Some(value) {
            patch.push(json!({ "op": "add", "path": path(key), "value": value }));
        }
    }
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn fields<'e>(entries: impl IntoIterator<Item = &'e Value>) -> Set {
    let sets = entries
        .into_iter()
        .filter_map(|entry| Set::from_fields_v1(entry.get("fieldsV1")?).ok());
    sets.fold(Set::default(), |all, some| all.union(&some))
}

/// Removes fields, except those with kept ones below.
fn remove(value: &mut Value, gone: &Set, kept: Option<&Set>) {
    let kept_below = |element: &PathElement| kept.and_then(|kept| kept.child(element));
    for member in gone.members() {
        if kept_below(member).is_none_or(Set::is_empty) {
            remove_element(value, member);
        }
    }
    for (element, below) in gone.children() {
        if let Some(inner) = find_element(value, element) {
            remove(inner, below, kept_below(element));
        }
    }
}

fn remove_element(value: &mut Value, element: &PathElement) {
    match (value, element) {
        (Value::Object(map), PathElement::Field(name)) => {
            map.remove(&**name);
        }
        (Value::Array(items), element) => {
            let mut at = 0..;
            items.retain(|item| !is_item(element, at.next(), item));
        }
        _ => {}
    }
}

fn find_element<'v>(value: &'v mut Value, element: &PathElement) -> Option<&'v mut Value> {
    match (value, element) {
        (Value::Object(map), PathElement::Field(name)) => map.get_mut(&**name),
        (Value::Array(items), element) => {
            let mut all = (0..).zip(items);
            all.find_map(|(at, item)| is_item(element, Some(at), item).then_some(item))
        }
        _ => None,
    }
}

fn is_item(element: &PathElement, at: Option<i64>, item: &Value) -> bool {
    match element {
        PathElement::Field(_) => false,
        PathElement::Key(keys) => keys
            .iter()
            .all(|(name, wanted)| item.get(&**name).is_some_and(|found| found == wanted)),
        PathElement::Value(wanted) => *item == **wanted,
        PathElement::Index(index) => at == Some(*index),
    }
}

fn leftovers<'a>(live: &'a Object, place: &str, keys: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let found = live
        .metadata()
        .and_then(|m| m.get(place))
        .and_then(Value::as_object);
    keys.iter()
        .copied()
        .filter(move |key| found.is_some_and(|map| map.contains_key(*key)))
}

fn bookings(live: &Object) -> &[Value] {
    live.metadata()
        .and_then(|m| m.get("managedFields"))
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn is_taken(entry: &Value, manager: &str) -> bool {
    let mut taken = MANAGERS.into_iter().chain([(manager, "Update")]);
    text(entry, "subresource").is_empty()
        && taken.any(|(manager, operation)| {
            text(entry, "manager").starts_with(manager) && text(entry, "operation") == operation
        })
}

/// All entries, with the taken ones merged into our own, which comes last; `None` if none is taken.
fn merged(entries: &[Value], manager: &str) -> Option<Vec<Value>> {
    let (taken, rest): (Vec<&Value>, Vec<&Value>) =
        entries.iter().partition(|entry| is_taken(entry, manager));
    let first = *taken.first()?;
    let is_ours = |entry: &&Value| crate::owned::is_apply_of(entry, manager);
    let mut ours = rest.iter().copied().find(is_ours).unwrap_or(first).clone();
    let fields = taken
        .iter()
        .chain(rest.iter().filter(|entry| is_ours(entry)))
        .filter_map(|entry| Set::from_fields_v1(entry.get("fieldsV1")?).ok())
        .fold(Set::default(), |all, some| all.union(&some));
    ours["manager"] = json!(manager);
    ours["operation"] = json!("Apply");
    ours["fieldsV1"] = fields.to_fields_v1();
    let others = rest.into_iter().filter(|entry| !is_ours(entry)).cloned();
    Some(others.chain([ours]).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value, reason = "tables of values")]

    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({ "manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields })
    }

    fn check(metadata: Value, expected: Value) {
        let live = Object::from_value(json!({ "metadata": metadata })).unwrap();
        let patch = patch(&live, "kustomize-controller");
        assert_eq!(needed(&live, "kustomize-controller"), patch.is_some());
        assert_eq!(patch.map_or(Value::Null, Value::Array), expected);
    }

    #[test]
    fn objects_without_kubectl_fields_need_no_takeover() {
        check(json!({}), Value::Null);
        check(
            json!({ "annotations": { "a": "b" }, "managedFields": [
                entry("kustomize-controller", "Apply", json!({ "f:data": {} })),
                entry("hpa", "Update", json!({ "f:spec": {} })),
            ] }),
            Value::Null,
        );
        // a status that kubectl wrote is no claim on the object
        let mut status = entry("kubectl-edit", "Update", json!({ "f:status": {} }));
        status["subresource"] = json!("status");
        check(json!({ "managedFields": [status] }), Value::Null);
    }

    #[test]
    fn kubectl_entries_become_ours() {
        check(
            json!({
                "resourceVersion": "7",
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "keep": "x" },
                "managedFields": [
                    entry("kubectl-client-side-apply", "Update", json!({ "f:data": { "f:a": {} } })),
                    entry("hpa", "Update", json!({ "f:spec": {} })),
                ],
            }),
            json!([
                { "op": "remove", "path": "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration" },
                { "op": "replace", "path": "/metadata/managedFields", "value": [
                    entry("hpa", "Update", json!({ "f:spec": {} })),
                    entry("kustomize-controller", "Apply", json!({ "f:data": { "f:a": {} } })),
                ] },
                { "op": "replace", "path": "/metadata/resourceVersion", "value": "7" },
            ]),
        );
    }

    #[test]
    fn entries_are_merged() {
        check(
            json!({ "managedFields": [
                entry("kubectl", "Apply", json!({ "f:data": { "f:a": {} } })),
                entry("kustomize-controller", "Apply", json!({ "f:data": { "f:b": {} } })),
                entry("before-first-apply", "Update", json!({ "f:data": { "f:c": {} } })),
            ] }),
            json!([{ "op": "replace", "path": "/metadata/managedFields", "value": [
                entry("kustomize-controller", "Apply", json!({ "f:data": { "f:a": {}, "f:b": {}, "f:c": {} } })),
            ] }]),
        );
    }
}
