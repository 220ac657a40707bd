//! The normal form of objects: the output of a Go client that knows their types.
//!
//! Flux decodes every built-in object into its Go type and encodes it again (`pkg/ssa/normalize`), so it
//! owns fields in that form: no nulls, no zero values of `omitempty` fields, canonical quantities,
//! `stringData` as `data`, ports with a protocol. A drop-in must send the same. It also makes the digest
//! of the sent object equal to that of the stored one.
//!
//! Unlike Flux it does not add Go's empty structures for unset fields. It also keeps unknown fields for
//! the API server to judge, which may be newer than our table.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_manifest::object::Object;
use equate_manifest::schema;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::LazyLock;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// Send them: the API server decides.
    Keep,
    /// Drop them, as Flux does.
    Drop,
}

/// Brings an object to normal form; returns its unknown fields.
///
/// An object that does not match its type is unchanged, so that the API server's error is about the
/// written form.
pub(crate) fn normalise(object: &mut Object, unknown: Unknown) -> Vec<String> {
    object.0.remove("status");
    string_data(object);
    ca_bundle(object);
    let definition = object.gvk().and_then(|gvk| {
        DEFINITIONS
            .get(&(gvk.group.as_str(), gvk.version.as_str(), gvk.kind.as_str()))
            .copied()
    });
    let unknowns = match definition {
        Some(definition) => decoded(&mut object.0, definition, unknown),
        None => match object.0.get_mut("metadata") {
            Some(Value::Object(metadata)) => decoded(metadata, OBJECT_META, unknown),
            _ => Vec::new(),
        },
    };
    if definition.is_some() {
        protocols(object);
    }
    unknowns
}

static DEFINITIONS: LazyLock<HashMap<(&str, &str, &str), &str>> = LazyLock::new(|| {
    schema::kubernetes_resources()
        .iter()
        .map(|r| ((&*r.group, &*r.version, &*r.kind), &*r.definition))
        .collect()
});

fn decoded(map: &mut Map<String, Value>, definition: &str, unknown: Unknown) -> Vec<String> {
    let Ok(decoded) = schema::decode(schema::kubernetes(), definition, Value::Object(map.clone())) else {
        return Vec::new();
    };
    let Value::Object(mut normal) = decoded.value else {
        return Vec::new();
    };
    if decoded.unknown.is_empty() || unknown == Unknown::Drop {
        only_written(&mut normal, map);
        *map = normal;
    }
    decoded.unknown
}

/// Removes what decoding added: nulls, and fields that were not written.
fn only_written(normal: &mut Map<String, Value>, written: &Map<String, Value>) {
    normal.retain(|key, value| match (value, written.get(key)) {
        (Value::Null, _) | (_, None | Some(Value::Null)) => false,
        (Value::Object(normal), Some(Value::Object(written))) => {
            only_written(normal, written);
            true
        }
        (Value::Array(normal), Some(Value::Array(written))) => {
            for (normal, written) in normal.iter_mut().zip(written) {
                if let (Value::Object(normal), Value::Object(written)) = (normal, written) {
                    only_written(normal, written);
                }
            }
            true
        }
        _ => true,
    });
}

/// A Secret's `stringData` is write-only: changes to it cannot be detected.
fn string_data(object: &mut Object) {
    if object.api_version() != "v1" || object.kind() != "Secret" {
        return;
    }
    let Some(Value::Object(texts)) = object.0.get("stringData") else {
        return;
    };
    if texts.values().any(|text| !text.is_string() && !text.is_null()) {
        return;
    }
    let Some(Value::Object(texts)) = object.0.remove("stringData") else {
        return;
    };
    let data = object
        .0
        .entry("data")
        .or_insert_with(|| Value::Object(Map::new()));
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    if let Value::Object(data) = data {
        for (key, text) in texts {
            let text = text.as_str().unwrap_or_default();
            data.insert(key, Value::String(STANDARD.encode(text)));
        }
    }
}

/// Some definitions have a placeholder (`Cg==`) for an injected CA; API servers since 1.31 refuse it.
fn ca_bundle(object: &mut Object) {
    if object.kind() != "CustomResourceDefinition" {
        return;
    }
    let config = object
        .0
        .get_mut("spec")
        .and_then(|v| v.get_mut("conversion"))
        .and_then(|v| v.get_mut("webhook"))
        .and_then(|v| v.get_mut("clientConfig"))
        .and_then(Value::as_object_mut);
    let Some(config) = config else {
        return;
    };
    let is_certificate = |bundle: &str| {
        STANDARD
            .decode(bundle)
            .is_ok_and(|pem| String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----"))
    };
    let bundle = config.get("caBundle").and_then(Value::as_str);
    if bundle.is_some_and(|bundle| !bundle.is_empty() && !is_certificate(bundle)) {
        config.remove("caBundle");
    }
}

/// The protocol is part of a port's key: without it, one port owned twice would be two ports.
fn protocols(object: &mut Object) {
    let template: &[&str] = match (object.api_version(), object.kind()) {
        ("v1", "Service") => {
            if let Some(ports) = object.0.get_mut("spec").and_then(|spec| spec.get_mut("ports")) {
                tcp(ports);
            }
            return;
        }
        ("v1", "Pod") => &["spec"],
        ("apps/v1", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") | ("batch/v1", "Job") => {
            &["spec", "template", "spec"]
        }
        ("batch/v1", "CronJob") => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => return,
    };
    let mut at = object.0.get_mut(template[0]);
    for key in &template[1..] {
        at = at.and_then(|value| value.get_mut(*key));
    }
    let containers = at.and_then(|pod| pod.get_mut("containers"));
    for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(ports) = container.get_mut("ports") {
            tcp(ports);
        }
    }
}

fn tcp(ports: &mut Value) {
    for port in ports.as_array_mut().into_iter().flatten() {
        if let Value::Object(port) = port {
            port.entry("protocol")
                .or_insert_with(|| Value::String("TCP".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use equate_manifest::yaml;

    fn object(text: &str) -> Object {
        let documents = yaml::load(text, &yaml::Options::default()).unwrap();
        Object::from_value(documents.into_iter().next().unwrap().value).unwrap()
    }

    fn check(written: &str, expected: &str) {
        let mut object = object(written);
        assert_eq!(normalise(&mut object, Unknown::Keep), Vec::<String>::new());
        assert_eq!(yaml::to_string(&object.into_value()), expected.trim_start());
    }

    #[test]
    fn built_in_kinds_are_sent_as_a_go_client_would() {
        check(
            "
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, creationTimestamp: null, annotations: {}}
spec:
  replicas: 0
  paused: false
  selector: {matchLabels: {a: b}}
  strategy: {}
  template:
    spec:
      hostNetwork: false
      nodeSelector: {}
      containers:
      - name: c
        command: []
        env: null
        ports: [{containerPort: 80}, {containerPort: 53, protocol: UDP}]
        resources: {limits: {cpu: 1000m, memory: 1024Mi}}
      volumes: [{name: v, emptyDir: {}}]
status: {replicas: 1}
",
            "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: a
spec:
  replicas: 0
  selector:
    matchLabels:
      a: b
  strategy: {}
  template:
    spec:
      containers:
      - name: c
        ports:
        - containerPort: 80
          protocol: TCP
        - containerPort: 53
          protocol: UDP
        resources:
          limits:
            cpu: \"1\"
            memory: 1Gi
      volumes:
      - emptyDir: {}
        name: v
",
        );
        check(
            "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80}]}}",
            "
apiVersion: v1
kind: Service
metadata:
  name: a
spec:
  ports:
  - port: 80
    protocol: TCP
",
        );
    }

    #[test]
    fn secrets_have_data_only() {
        check(
            "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {b: eA==, c: eA==}, stringData: {c: z}}",
            "
apiVersion: v1
data:
  b: eA==
  c: eg==
kind: Secret
metadata:
  name: a
",
        );
    }

    #[test]
    fn other_kinds_keep_all_but_status_and_empty_metadata() {
        check(
            "{apiVersion: g/v1, kind: K, metadata: {name: a, labels: {}, creationTimestamp: null}, spec: {a: null, b: {}}, status: 1}",
            "
apiVersion: g/v1
kind: K
metadata:
  name: a
spec:
  a: null
  b: {}
",
        );
    }

    #[test]
    fn a_placeholder_for_a_ca_bundle_goes() {
        let config = |bundle: &str| {
            let mut object = Object::from_value(serde_json::json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "a" },
                "spec": { "conversion": { "webhook": { "clientConfig": { "caBundle": bundle } } } },
            }))
            .unwrap();
            ca_bundle(&mut object);
            let value = object.into_value();
            value
                .pointer("/spec/conversion/webhook/clientConfig")
                .cloned()
                .unwrap()
        };
        assert_eq!(config("Cg=="), serde_json::json!({}));
        assert_eq!(config("no base64"), serde_json::json!({}));
        let certificate = STANDARD.encode("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n");
        assert_eq!(
            config(&certificate),
            serde_json::json!({ "caBundle": certificate })
        );
    }

    #[test]
    fn unknown_fields_are_kept_until_the_api_server_refuses_them() {
        let text =
            "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {colour: blue, clusterIP: ''}}";
        let mut kept = object(text);
        assert_eq!(normalise(&mut kept, Unknown::Keep), ["spec.colour"]);
        assert_eq!(kept, object(text));
        let mut dropped = object(text);
        assert_eq!(normalise(&mut dropped, Unknown::Drop), ["spec.colour"]);
        assert_eq!(
            yaml::to_string(&dropped.into_value()),
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\nspec: {}\n"
        );
    }

    #[test]
    fn objects_of_a_wrong_type_are_unchanged() {
        check(
            "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: text}}",
            "
apiVersion: v1
kind: Service
metadata:
  name: a
spec:
  ports: text
",
        );
    }
}
