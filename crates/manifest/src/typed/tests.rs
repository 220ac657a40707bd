//! Types from OpenAPI; the upstream vectors test operations on values.

use super::*;
use crate::schema::{Schema as OpenApi, kubernetes};
use serde_json::{Value, json};

fn builtin(definition: &str) -> Type {
    from_openapi(definition, |name| kubernetes().get(name))
}

fn custom(schema: Value) -> Type {
    let schema: OpenApi = serde_json::from_value(schema).unwrap();
    custom_resource(Some(&schema), |name| kubernetes().get(name))
}

fn paths(kind: &Type, value: &Value) -> Vec<String> {
    kind.validate(value, Duplicates::Refuse).unwrap();
    kind.field_set(value)
        .unwrap()
        .paths()
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn error(kind: &Type, value: &Value) -> String {
    kind.validate(value, Duplicates::Refuse).unwrap_err().to_string()
}

#[test]
fn built_in_kinds_have_their_merge_rules() {
    let pod = builtin("io.k8s.api.core.v1.Pod");
    let value = json!({
        "metadata": { "labels": { "a": "1" }, "finalizers": ["x/y"], "ownerReferences": [{ "uid": "u", "name": "n" }] },
        "spec": {
            "nodeSelector": { "zone": "a" },
            "tolerations": [{ "key": "k" }],
            "containers": [{
                "name": "c",
                "args": ["-v"],
                "ports": [{ "containerPort": 80 }],
                "resources": { "limits": { "cpu": 1 } },
                "livenessProbe": { "httpGet": { "port": "http" } },
            }],
        },
    });
    assert_eq!(
        paths(&pod, &value),
        [
            ".metadata.finalizers[=\"x/y\"]",
            ".metadata.labels.a",
            ".metadata.ownerReferences[uid=\"u\"]",
            ".spec.nodeSelector",
            ".spec.tolerations",
            ".spec.containers[name=\"c\"]",
            ".spec.containers[name=\"c\"].args",
            ".spec.containers[name=\"c\"].name",
            ".spec.containers[name=\"c\"].livenessProbe.httpGet.port",
            ".spec.containers[name=\"c\"].ports[containerPort=80,protocol=\"TCP\"]",
            ".spec.containers[name=\"c\"].ports[containerPort=80,protocol=\"TCP\"].containerPort",
            ".spec.containers[name=\"c\"].resources.limits.cpu",
        ]
    );
    assert_eq!(
        error(&pod, &json!({ "spec": { "foo": 1 } })),
        ".spec.foo: field not declared in schema"
    );
    assert_eq!(
        error(
            &pod,
            &json!({ "spec": { "containers": [{ "name": "c", "image": 1_500_000 }] } })
        ),
        ".spec.containers[name=\"c\"].image: expected string, got &value.valueUnstructured{Value:1.5e+06}"
    );
}

#[test]
fn every_built_in_kind_converts() {
    for resource in crate::schema::kubernetes_resources() {
        let kind = builtin(&resource.definition);
        let value = json!({ "apiVersion": "v1", "kind": "K", "metadata": { "name": "a" } });
        assert_eq!(
            paths(&kind, &value),
            [".apiVersion", ".kind", ".metadata.name"],
            "{}",
            resource.definition
        );
    }
}

#[test]
fn custom_resources_have_what_every_object_has() {
    let kind = custom(json!({
        "type": "object",
        "properties": {
            "metadata": { "type": "object", "properties": { "name": { "type": "string" } } },
            "spec": { "type": "object", "properties": {
                "closed": { "type": "object", "properties": { "a": { "type": "integer" } } },
                "open": { "type": "object" },
                "kept": { "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                    "inner": { "type": "object", "properties": { "a": { "type": "integer" } } },
                } },
                "port": { "x-kubernetes-int-or-string": true },
                "template": { "type": "object", "x-kubernetes-embedded-resource": true,
                    "x-kubernetes-preserve-unknown-fields": true },
                "entries": { "type": "object", "additionalProperties": { "type": "integer" } },
            } },
        },
    }));
    let value = json!({
        "apiVersion": "a/v1", "kind": "K", "metadata": { "labels": { "a": "1" } },
        "spec": {
            "closed": { "a": 1 },
            "open": { "x": { "y": [1] } },
            "kept": { "other": 1, "inner": { "other": 1 } },
            "port": "5%",
            "template": { "metadata": { "labels": { "b": "1" } }, "spec": { "x": 1 } },
            "entries": { "e": 1 },
        },
    });
    assert_eq!(
        paths(&kind, &value),
        [
            ".apiVersion",
            ".kind",
            ".metadata.labels.a",
            ".spec.port",
            ".spec.closed.a",
            ".spec.entries.e",
            ".spec.kept.other",
            ".spec.kept.inner.other",
            ".spec.open.x",
            ".spec.open.x.y",
            ".spec.template.spec",
            ".spec.template.metadata.labels.b",
            ".spec.template.spec.x",
        ]
    );
    for (value, message) in [
        (json!({ "status": {} }), ".status: field not declared in schema"),
        (
            json!({ "spec": { "closed": { "b": 1 } } }),
            ".spec.closed.b: field not declared in schema",
        ),
        (
            json!({ "metadata": { "foo": 1 } }),
            ".metadata.foo: field not declared in schema",
        ),
        (
            json!({ "spec": { "entries": [] } }),
            ".spec.entries: expected map, got &{[]}",
        ),
    ] {
        assert_eq!(error(&kind, &value), message);
    }
    let free = custom_resource(None, |name| kubernetes().get(name));
    assert_eq!(
        paths(&free, &json!({ "any": { "thing": 1 } })),
        [".any", ".any.thing"]
    );
}

#[test]
fn a_definition_that_is_missing_is_named() {
    let kind = custom(json!({ "type": "object", "properties": { "a": { "$ref": "no.such.Thing" } } }));
    assert_eq!(
        error(&kind, &json!({ "a": 1 })),
        ".a: schema error: no type found matching: no.such.Thing"
    );
    assert!(kind.validate(&json!({}), Duplicates::Refuse).is_ok());
}

#[test]
fn a_reference_may_change_the_relationship() {
    let kind = custom(json!({ "type": "object", "properties": { "m": {
        "allOf": [{ "$ref": "io.k8s.api.core.v1.ConfigMap" }], "x-kubernetes-map-type": "atomic",
    } } }));
    assert_eq!(paths(&kind, &json!({ "m": { "data": { "a": "1" } } })), [".m"]);
}
