//! Overlays on overlays: names, namespaces, labels, images, replicas and generators over a base with
//! references.

use super::Files;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const OVERLAYS_MAX: usize = 3;

pub(super) fn inputs() -> BoxedStrategy<Files> {
    let base = (objects(), layer(Place::Base));
    let overlays = vec(layer(Place::Overlay), 0..OVERLAYS_MAX);
    let top = layer(Place::Overlay);
    (base, overlays, top, weighted(0.3, layer(Place::Component)))
        .prop_map(|((objects, base), overlays, top, component)| {
            let mut files = BTreeMap::new();
            let mut base = base;
            base.insert("resources".to_owned(), json!(["objects.yaml"]));
            put(&mut files, "base", base);
            files.insert("base/objects.yaml".to_owned(), documents(&objects));
            let mut below = "../base".to_owned();
            for (at, mut overlay) in overlays.into_iter().enumerate() {
                overlay.insert("resources".to_owned(), json!([below]));
                put(&mut files, &format!("over{at}"), overlay);
                below = format!("../over{at}");
            }
            let mut top = top;
            top.insert("resources".to_owned(), json!([below]));
            if let Some(mut component) = component {
                top.insert("components".to_owned(), json!(["../component"]));
                component.insert("apiVersion".to_owned(), "kustomize.config.k8s.io/v1alpha1".into());
                component.insert("kind".to_owned(), "Component".into());
                put(&mut files, "component", component);
            }
            put(&mut files, "top", top);
            Files(files)
        })
        .boxed()
}

fn put(files: &mut BTreeMap<String, String>, folder: &str, kustomization: Map<String, Value>) {
    let text = equate_manifest::yaml::to_string(&kustomization.into());
    files.insert(format!("{folder}/kustomization.yaml"), text);
}

fn documents(objects: &[Value]) -> String {
    let texts: Vec<String> = objects.iter().map(equate_manifest::yaml::to_string).collect();
    texts.join("---\n")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Base,
    Overlay,
    Component,
}

type Layer = BoxedStrategy<Map<String, Value>>;

fn layer(place: Place) -> Layer {
    let pairs = || json_of(select(&[("l", "v"), ("app", "w"), ("tier", "x")][..]));
    let fields: Vec<BoxedStrategy<Option<(&'static str, Value)>>> = vec![
        field(
            0.3,
            "namespace",
            select(&["one", "two", "default"][..]).prop_map(Value::from),
        ),
        field(
            0.35,
            "namePrefix",
            select(&["p-", "q-"][..]).prop_map(Value::from),
        ),
        field(
            0.25,
            "nameSuffix",
            select(&["-s", "-t"][..]).prop_map(Value::from),
        ),
        field(0.25, "commonLabels", pairs()),
        field(0.2, "commonAnnotations", pairs()),
        field(0.25, "labels", labels()),
        field(0.25, "images", vec(image(), 1..3).prop_map(Value::from)),
        field(0.15, "replicas", replicas()),
        field(
            0.25,
            "configMapGenerator",
            vec(generator(place, false), 1..2).prop_map(Value::from),
        ),
        field(
            0.15,
            "secretGenerator",
            vec(generator(place, true), 1..2).prop_map(Value::from),
        ),
        field(0.1, "generatorOptions", options()),
        field(
            0.1,
            "replacements",
            replacement().prop_map(|replacement| json!([replacement])),
        ),
        field(0.1, "buildMetadata", just(json!(["originAnnotations"]))),
    ];
    fields
        .prop_map(|fields| {
            let fields = fields.into_iter().flatten();
            fields.map(|(name, value)| (name.to_owned(), value)).collect()
        })
        .boxed()
}

fn field(
    odds: f64,
    name: &'static str,
    value: impl Strategy<Value = Value> + 'static,
) -> BoxedStrategy<Option<(&'static str, Value)>> {
    weighted(odds, value)
        .prop_map(move |value| value.map(|value| (name, value)))
        .boxed()
}

fn just(value: Value) -> BoxedStrategy<Value> {
    Just(value).boxed()
}

fn json_of(pair: impl Strategy<Value = (&'static str, &'static str)> + 'static) -> BoxedStrategy<Value> {
    pair.prop_map(|(key, value)| json!({ key: value })).boxed()
}

fn labels() -> BoxedStrategy<Value> {
    // keys that `commonLabels` also sets, with equal and other values
    let pairs = json_of(select(
        &[
            ("m", "v"),
            ("l", "v"),
            ("l", "other"),
            ("app", "x"),
            ("tier", "z"),
        ][..],
    ));
    (pairs, any::<bool>(), any::<bool>())
        .prop_map(|(pairs, selectors, templates)| {
            json!([{"pairs": pairs, "includeSelectors": selectors, "includeTemplates": templates}])
        })
        .boxed()
}

fn image() -> BoxedStrategy<Value> {
    let digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    (
        select(&["nginx", "busybox", "example.com:5000/app", "ng.nx"][..]),
        weighted(0.4, select(&["other", "example.com/new"][..])),
        weighted(0.5, select(&["1.2", "1", "v2"][..])),
        weighted(0.2, Just(digest)),
        weighted(0.1, Just("-x")),
    )
        .prop_map(|(name, new_name, tag, digest, suffix)| {
            let mut image = json!({"name": name});
            let fields = [
                ("newName", new_name),
                ("newTag", tag),
                ("digest", digest),
                ("tagSuffix", suffix),
            ];
            for (field, value) in fields {
                if let Some(value) = value {
                    image[field] = value.into();
                }
            }
            image
        })
        .boxed()
}

fn replicas() -> BoxedStrategy<Value> {
    (select(&["web", "db"][..]), 0..5_u8)
        .prop_map(|(name, count)| json!([{"name": name, "count": count}]))
        .boxed()
}

fn generator(place: Place, secret: bool) -> BoxedStrategy<Value> {
    let there = if secret { "token" } else { "config" };
    let made = match place {
        Place::Base => "made",
        Place::Overlay => "made-above",
        Place::Component => "made-beside",
    };
    let name_and_behavior = prop_oneof![
        1 => select(vec![(there, "merge"), (there, "replace")]),
        1 => select(vec![(made, ""), (made, "create")]),
    ];
    let literals = vec(
        select(&["a=1", "b=two", "c=x y", "d=", "a=yes", "e=1.50"][..]),
        1..4,
    );
    (name_and_behavior, literals, weighted(0.2, options()))
        .prop_map(|((name, behavior), mut literals, options)| {
            literals.sort_unstable();
            literals.dedup_by_key(|literal| literal.chars().next());
            let mut generator = json!({"name": name, "literals": literals});
            if !behavior.is_empty() {
                generator["behavior"] = behavior.into();
            }
            if let Some(options) = options {
                generator["options"] = options;
            }
            generator
        })
        .boxed()
}

fn options() -> BoxedStrategy<Value> {
    let fields: Vec<BoxedStrategy<Option<(&'static str, Value)>>> = vec![
        field(0.5, "disableNameSuffixHash", any::<bool>().prop_map(Value::from)),
        field(0.3, "labels", just(json!({"gen": "l"}))),
        field(0.3, "annotations", just(json!({"gen": "a"}))),
        field(0.2, "immutable", any::<bool>().prop_map(Value::from)),
    ];
    fields
        .prop_map(|fields| {
            let fields = fields.into_iter().flatten();
            let map: Map<String, Value> = fields.map(|(name, value)| (name.to_owned(), value)).collect();
            map.into()
        })
        .boxed()
}

fn replacement() -> BoxedStrategy<Value> {
    let sources = [
        json!({"kind": "Service", "name": "web"}),
        json!({"kind": "ConfigMap", "name": "config", "fieldPath": "data.k"}),
    ];
    let targets = [
        json!({"select": {"kind": "Deployment"}, "fieldPaths": ["metadata.annotations.from"], "options": {"create": true}}),
        json!({"select": {"name": "web"}, "fieldPaths": ["metadata.labels.from"], "options": {"create": true}}),
        json!({"select": {"kind": "Ingress"}, "fieldPaths": ["spec.rules.*.host"], "options": {"delimiter": ".", "index": 0}}),
        json!({"select": {"kind": "Deployment"}, "fieldPaths": ["spec.template.spec.containers.[name=main].image"],
               "options": {"delimiter": ":", "index": 1}}),
    ];
    (select(sources.to_vec()), select(targets.to_vec()))
        .prop_map(|(source, target)| json!({"source": source, "targets": [target]}))
        .boxed()
}

/// Some objects of a base, in any order, some in a namespace of their own.
fn objects() -> BoxedStrategy<Vec<Value>> {
    let (always, others) = catalogue();
    let count = always.len() + others.len();
    let namespaces = vec(
        weighted(0.1, select(&["one", "three", "default"][..])),
        count..=count,
    );
    let some = subsequence(others, 0..=count - always.len());
    let objects = some.prop_map(move |some| [always.clone(), some].concat());
    (objects.prop_shuffle(), namespaces)
        .prop_map(|(mut objects, namespaces)| {
            for (object, namespace) in objects.iter_mut().zip(namespaces) {
                let namespaced = !matches!(
                    object["kind"].as_str().unwrap(),
                    "Namespace" | "ClusterRole" | "ClusterRoleBinding" | "PersistentVolume" | "StorageClass"
                );
                if let Some(namespace) = namespace.filter(|_| namespaced) {
                    object["metadata"]["namespace"] = namespace.into();
                }
            }
            objects
        })
        .boxed()
}

fn pod() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "serviceAccountName": "runner",
            "imagePullSecrets": [{"name": "token"}],
            "initContainers": [{"name": "init", "image": "busybox:1.0@sha256:00"}],
            "containers": [{
                "name": "main",
                "image": "nginx:1.0",
                "env": [
                    {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "config", "key": "a"}}},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "token", "key": "b"}}}
                ],
                "envFrom": [{"configMapRef": {"name": "extra"}}, {"secretRef": {"name": "token"}}]
            }, {"name": "side", "image": "example.com:5000/app"}],
            "volumes": [
                {"name": "c", "configMap": {"name": "config"}},
                {"name": "s", "secret": {"secretName": "token"}},
                {"name": "p", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "j", "projected": {"sources": [{"configMap": {"name": "config"}}, {"secret": {"name": "token"}}]}}
            ]
        }
    })
}

/// The required and optional objects of a base.
fn catalogue() -> (Vec<Value>, Vec<Value>) {
    let named = |api_version: &str, kind: &str, name: &str, rest: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        for (field, value) in rest.as_object().unwrap() {
            object[field] = value.clone();
        }
        object
    };
    let selector = json!({"matchLabels": {"app": "web"}});
    let always = vec![
        named(
            "v1",
            "ConfigMap",
            "config",
            json!({"data": {"a": "zero", "k": "v"}}),
        ),
        named(
            "v1",
            "Secret",
            "token",
            json!({"type": "Opaque", "data": {"b": "Yg=="}}),
        ),
        named(
            "v1",
            "Service",
            "web",
            json!({"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}),
        ),
        named(
            "apps/v1",
            "Deployment",
            "web",
            json!({
                "spec": {"replicas": 1, "selector": selector, "template": pod()}
            }),
        ),
    ];
    let others = vec![
        named("v1", "Namespace", "one", json!({})),
        named(
            "v1",
            "ServiceAccount",
            "runner",
            json!({"imagePullSecrets": [{"name": "token"}]}),
        ),
        named("v1", "ConfigMap", "extra", json!({"data": {"k": "v"}})),
        named(
            "apps/v1",
            "StatefulSet",
            "db",
            json!({
                "spec": {
                    "serviceName": "web", "selector": selector, "template": pod(),
                    "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}]
                }
            }),
        ),
        named(
            "batch/v1",
            "CronJob",
            "tick",
            json!({
                "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": pod()}}}
            }),
        ),
        named(
            "networking.k8s.io/v1",
            "Ingress",
            "front",
            json!({
                "spec": {"tls": [{"secretName": "token"}], "rules": [{"host": "a.example.com", "http": {"paths": [{
                    "path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}
                }]}}]}
            }),
        ),
        named(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "allow",
            json!({
                "spec": {"podSelector": selector, "ingress": [{"from": [{"podSelector": selector}]}]}
            }),
        ),
        named(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            "web",
            json!({
                "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
            }),
        ),
        named(
            "policy/v1",
            "PodDisruptionBudget",
            "web",
            json!({"spec": {"selector": selector}}),
        ),
        named(
            "rbac.authorization.k8s.io/v1",
            "Role",
            "reader",
            json!({
                "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["token"], "verbs": ["get"]}]
            }),
        ),
        named(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            "reads",
            json!({
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
                "subjects": [{"kind": "ServiceAccount", "name": "runner"}, {"kind": "User", "name": "runner"}]
            }),
        ),
        named(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            "all",
            json!({"rules": []}),
        ),
        named(
            "rbac.authorization.k8s.io/v1",
            "ClusterRoleBinding",
            "all",
            json!({
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"},
                "subjects": [{"kind": "ServiceAccount", "name": "runner", "namespace": "one"}]
            }),
        ),
        named(
            "v1",
            "PersistentVolumeClaim",
            "data",
            json!({"spec": {"storageClassName": "fast", "volumeName": "disk"}}),
        ),
        named(
            "v1",
            "PersistentVolume",
            "disk",
            json!({"spec": {"storageClassName": "fast"}}),
        ),
        named(
            "storage.k8s.io/v1",
            "StorageClass",
            "fast",
            json!({"provisioner": "p"}),
        ),
        named(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            "hook",
            json!({
                "webhooks": [{"name": "h", "clientConfig": {"service": {"name": "web", "namespace": "one"}}}]
            }),
        ),
        named(
            "example.com/v1",
            "Thing",
            "web",
            json!({
                "spec": {"configMapRef": {"name": "config"}, "containers": [{"name": "x", "image": "nginx"}]}
            }),
        ),
    ];
    (always, others)
}
