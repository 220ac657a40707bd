//! The cost of structured merge for a Deployment of three containers.
//!
//! The server's budget is a millisecond for a whole apply.

#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

use criterion::{Criterion, criterion_group, criterion_main};
use equate_manifest::fieldpath::Set;
use equate_manifest::merge::{self, Managers, Request};
use equate_manifest::schema;
use equate_manifest::typed::{Duplicates, Type, from_openapi};
use serde_json::{Value, json};
use std::hint::black_box;

const DEPLOYMENT: &str = "io.k8s.api.apps.v1.Deployment";

fn deployment(image: &str, probes: bool) -> Value {
    let container = |name: &str| {
        let mut container = json!({
            "name": name,
            "image": image,
            "args": ["--listen=:8080", "--log=json"],
            "env": [
                { "name": "REGION", "value": "north" },
                { "name": "TOKEN", "valueFrom": { "secretKeyRef": { "name": "token", "key": "value" } } },
            ],
            "ports": [{ "name": "http", "containerPort": 8080 }, { "name": "metrics", "containerPort": 9090 }],
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/config" }],
            "securityContext": { "readOnlyRootFilesystem": true },
        });
        if probes {
            container["readinessProbe"] = json!({ "httpGet": { "path": "/ready", "port": "http" } });
        }
        container
    };
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "shop",
            "labels": { "app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop", "team": "a" },
            "annotations": { "owner": "a@example.org" },
        },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": {
                    "serviceAccountName": "web",
                    "containers": [container("web"), container("proxy"), container("exporter")],
                    "volumes": [{ "name": "config", "configMap": { "name": "web" } }],
                },
            },
        },
    })
}

fn kind() -> Type {
    let definitions = schema::kubernetes();
    from_openapi(DEPLOYMENT, |name| definitions.get(name))
}

/// A stored object with one applier, and a status written by another manager.
fn stored(kind: &Type) -> (Value, Managers<String>) {
    let empty = json!({ "apiVersion": "apps/v1", "kind": "Deployment" });
    let nothing = Set::default();
    let request = |manager: &str| Request {
        kind,
        manager: manager.to_owned(),
        api_version: "apps/v1",
        ignored: &nothing,
    };
    let config = deployment("web:1", true);
    let (live, managers) = merge::apply(&request("flux"), &empty, &config, Managers::new(), false).unwrap();
    let live = schema::decode(schema::kubernetes(), DEPLOYMENT, live.unwrap())
        .unwrap()
        .value;
    let mut with_status = live.clone();
    with_status["status"] = json!({
        "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3,
        "conditions": [{ "type": "Available", "status": "True", "reason": "r", "message": "m" }],
    });
    let managers = merge::update(&request("controller"), &live, &with_status, managers).unwrap();
    (with_status, managers)
}

fn applies(c: &mut Criterion) {
    let kind = kind();
    let (live, managers) = stored(&kind);
    let nothing = Set::default();
    let request = Request {
        kind: &kind,
        manager: "flux".to_owned(),
        api_version: "apps/v1",
        ignored: &nothing,
    };
    for (name, config) in [
        ("apply unchanged", deployment("web:1", true)),
        ("apply a new image", deployment("web:2", true)),
        ("apply without probes", deployment("web:1", false)),
    ] {
        c.bench_function(name, |b| {
            b.iter(|| {
                kind.validate(&config, Duplicates::Refuse).unwrap();
                kind.validate(&live, Duplicates::Allow).unwrap();
                merge::apply(
                    &request,
                    black_box(&live),
                    black_box(&config),
                    managers.clone(),
                    true,
                )
                .unwrap()
            });
        });
    }
    let mut changed = live.clone();
    changed["spec"]["replicas"] = json!(5);
    c.bench_function("update replicas", |b| {
        b.iter(|| merge::update(&request, black_box(&live), black_box(&changed), managers.clone()).unwrap());
    });
}

fn sets(c: &mut Criterion) {
    let kind = kind();
    let (live, managers) = stored(&kind);
    let (all, owned) = (kind.field_set(&live).unwrap(), &managers["flux"].fields);
    let wire = owned.to_fields_v1();
    c.bench_function("field set of an object", |b| {
        b.iter(|| kind.field_set(black_box(&live)).unwrap());
    });
    c.bench_function("difference", |b| b.iter(|| black_box(&all).difference(owned)));
    c.bench_function("union", |b| b.iter(|| black_box(&all).union(owned)));
    c.bench_function("read FieldsV1", |b| {
        b.iter(|| Set::from_fields_v1(black_box(&wire)).unwrap());
    });
    c.bench_function("write FieldsV1", |b| b.iter(|| black_box(owned).to_fields_v1()));
    c.bench_function("merge type of Deployment", |b| b.iter(self::kind));
}

criterion_group!(benches, applies, sets);
criterion_main!(benches);
