//! Applying an object with ignored fields (`ignore`).
//!
//! As in Flux, a created object has all its fields. On a later apply, each ignored field that differs in
//! the cluster is treated in one of two ways. If another manager applies it, it is not sent, so that the
//! other owns it alone. Otherwise the live value is sent, so that it stays (`pkg/ssa` 0.76,
//! `manager_apply.go`).

use crate::owned;
use crate::pointer::Pointer;
use equate_manifest::object::Object;

/// The object to send in place of the desired one; `None` if nothing is to be adjusted.
pub(crate) fn adjusted(
    desired: &Object,
    live: &Object,
    manager: &str,
    ignored: &[Pointer],
) -> Option<Object> {
    let differs = |pointer: &&Pointer| {
        pointer.get(&desired.0).is_some() && pointer.get(&desired.0) != pointer.get(&live.0)
    };
    let mut differing: Vec<&Pointer> = ignored.iter().filter(differs).collect();
    if differing.is_empty() {
        return None;
    }
    let mut object = desired.clone();
    // list items from the end on, so that indices stay valid
    differing.sort_by(|a, b| deepest_last(a, b).reverse());
    differing.dedup();
    for pointer in differing {
        match pointer.get(&live.0) {
            Some(value) if !owned::applied_by_another(live, manager, pointer) => {
                pointer.replace(&mut object.0, value.clone());
            }
            _ => pointer.remove(&mut object.0),
        }
    }
    Some(object)
}

fn deepest_last(a: &Pointer, b: &Pointer) -> std::cmp::Ordering {
    let key = |step: &String| (crate::pointer::index(step).unwrap_or_default(), step.clone());
    let keys = |pointer: &Pointer| pointer.steps().iter().map(key).collect::<Vec<_>>();
    keys(a).cmp(&keys(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn ignored_fields_are_adjusted_before_an_apply() {
        let check = |paths: &[&str], live: Value, managers: Value, expected: Option<Value>| {
            let object = |spec: &Value, managers: &Value| {
                Object::from_value(json!({
                    "apiVersion": "apps/v1", "kind": "Deployment",
                    "metadata": { "name": "a", "managedFields": managers }, "spec": spec,
                }))
                .unwrap()
            };
            let desired = json!({ "replicas": 1, "paused": false, "containers": [
                { "name": "a", "image": "one" }, { "name": "b", "image": "one" },
            ] });
            let ignored: Vec<Pointer> = paths.iter().map(|path| path.parse().unwrap()).collect();
            let sent = adjusted(
                &object(&desired, &Value::Null),
                &object(&live, &managers),
                "kustomize-controller",
                &ignored,
            );
            assert_eq!(
                sent.map(|sent| sent.0["spec"].clone()),
                expected,
                "{paths:?} {live}"
            );
        };
        let apply = |manager: &str, operation: &str, fields: Value| json!([{ "manager": manager, "operation": operation, "fieldsV1": { "f:spec": fields } }]);
        let containers = json!([{ "name": "a", "image": "one" }, { "name": "b", "image": "one" }]);
        let live = |replicas: u32| json!({ "replicas": replicas, "paused": false, "containers": containers });
        let replicas = || json!({ "f:replicas": {} });
        check(&["/spec/replicas"], live(1), json!([]), None);
        check(&["/spec/other"], live(5), json!([]), None);
        // an update owns a field, but does not apply it
        for managers in [
            json!([]),
            apply("scaler", "Update", replicas()),
            apply("kustomize-controller", "Apply", replicas()),
        ] {
            check(&["/spec/replicas"], live(5), managers, Some(live(5)));
        }
        check(
            &["/spec/replicas"],
            live(5),
            apply("scaler", "Apply", replicas()),
            Some(json!({ "paused": false, "containers": containers })),
        );
        // a field that others removed stays removed
        check(
            &["/spec/replicas"],
            json!({ "paused": false, "containers": containers }),
            json!([]),
            Some(json!({ "paused": false, "containers": containers })),
        );
        // items by their keys, at any index
        let two = json!([{ "name": "a", "image": "two" }, { "name": "b", "image": "two" }]);
        let live = json!({ "replicas": 1, "paused": false, "containers": two });
        check(
            &["/spec/containers/0/image", "/spec/containers/1/image"],
            live,
            apply(
                "patcher",
                "Apply",
                json!({ "f:containers": { "k:{\"name\":\"b\"}": { ".": {}, "f:image": {}, "f:name": {} } } }),
            ),
            Some(json!({ "replicas": 1, "paused": false, "containers": [
                { "name": "a", "image": "two" }, { "name": "b" },
            ] })),
        );
        // two items are removed, each the right one
        check(
            &["/spec/containers/0", "/spec/containers/1"],
            json!({ "replicas": 1, "paused": false }),
            json!([]),
            Some(json!({ "replicas": 1, "paused": false, "containers": [] })),
        );
    }
}
