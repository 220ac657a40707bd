//! The cost of a reconciliation without changes: the digest of a Deployment, and a plan of 10,000
//! objects.

#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

use criterion::{Criterion, criterion_group, criterion_main};
use equate_apply::desired::Desired;
use equate_apply::inventory::Inventory;
use equate_apply::observed::Observed;
use equate_apply::owned;
use equate_apply::owner::{Owner, OwnerKind};
use equate_apply::plan::{Live, Memory, Options, Presence, plan};
use equate_manifest::fieldpath::Set;
use equate_manifest::merge::{self, Managers, Request};
use equate_manifest::object::Object;
use equate_manifest::schema;
use equate_manifest::typed::from_openapi;
use serde_json::{Value, json};
use std::hint::black_box;
use std::sync::Arc;

const DEPLOYMENT: &str = "io.k8s.api.apps.v1.Deployment";

fn deployment(name: &str) -> Object {
    let container = |name: &str| {
        json!({
            "name": name,
            "image": "registry.example.org/shop/web:1.2.3",
            "args": ["--listen=:8080", "--log=json"],
            "env": [
                { "name": "REGION", "value": "north" },
                { "name": "TOKEN", "valueFrom": { "secretKeyRef": { "name": "token", "key": "value" } } },
            ],
            "ports": [{ "name": "http", "containerPort": 8080 }, { "name": "metrics", "containerPort": 9090 }],
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/config" }],
            "securityContext": { "readOnlyRootFilesystem": true },
            "readinessProbe": { "httpGet": { "path": "/ready", "port": "http" } },
        })
    };
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "namespace": "shop", "labels": { "app": "web", "team": "a" } },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": {
                    "containers": [container("web"), container("proxy"), container("exporter")],
                    "volumes": [{ "name": "config", "configMap": { "name": "web" } }],
                },
            },
        },
    });
    Object::from_value(object).unwrap()
}

/// The object as an API server stores it after our apply, with a controller's status.
fn live(desired: &Desired) -> Object {
    let definitions = schema::kubernetes();
    let kind = from_openapi(DEPLOYMENT, |name| definitions.get(name));
    let nothing = Set::default();
    let request = |manager: &str| Request {
        kind: &kind,
        manager: manager.to_owned(),
        api_version: "apps/v1",
        ignored: &nothing,
    };
    let empty = json!({ "apiVersion": "apps/v1", "kind": "Deployment" });
    let config = Value::Object(desired.object.0.clone());
    let us = request("kustomize-controller");
    let (stored, managers) = merge::apply(&us, &empty, &config, Managers::new(), true).unwrap();
    let stored = stored.unwrap();
    let mut live = stored.clone();
    live["metadata"]["uid"] = json!("0b3f");
    live["metadata"]["resourceVersion"] = json!("1");
    live["status"] = json!({ "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "conditions": [
        { "type": "Available", "status": "True", "reason": "r", "message": "m" },
    ] });
    let managers = merge::update(&request("controller"), &stored, &live, managers).unwrap();
    let entries: Vec<_> = managers
        .iter()
        .map(|(manager, owned)| {
            json!({
                "manager": manager, "operation": if owned.applied { "Apply" } else { "Update" },
                "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": owned.fields.to_fields_v1(),
            })
        })
        .collect();
    live["metadata"]["managedFields"] = json!(entries);
    Object::from_value(live).unwrap()
}

static KUSTOMIZATION: OwnerKind = OwnerKind {
    kind: "Kustomization",
    field_manager: "kustomize-controller",
    name_label: "kustomize.toolkit.fluxcd.io/name",
    namespace_label: "kustomize.toolkit.fluxcd.io/namespace",
};

fn digests(c: &mut Criterion) {
    let owner = Owner::new(&KUSTOMIZATION, "flux-system", "apps");
    let desired = Desired::new(deployment("web"), &owner, None);
    let live = live(&desired);
    c.bench_function("desired: a Deployment made ready to be sent", |b| {
        b.iter(|| Desired::new(black_box(deployment("web")), &owner, None));
    });
    c.bench_function("digest of a desired Deployment", |b| {
        b.iter(|| owned::desired(black_box(&desired.object)));
    });
    c.bench_function("digest of what we own of a live Deployment", |b| {
        b.iter(|| owned::owned(black_box(&live), KUSTOMIZATION.field_manager));
    });
    c.bench_function("all that is observed of a live Deployment", |b| {
        b.iter(|| Observed::of(black_box(&live), &KUSTOMIZATION));
    });
}

fn plans(c: &mut Criterion) {
    const OBJECTS: usize = 10_000;
    let owner = Owner::new(&KUSTOMIZATION, "flux-system", "apps");
    let one = Desired::new(deployment("web"), &owner, None);
    let observed = Arc::new(Observed {
        owned: one.digest,
        ..Observed::of(&live(&one), &KUSTOMIZATION)
    });
    let desired: Vec<Desired> = (0..OBJECTS)
        .map(|at| {
            let mut desired = one.clone();
            desired.id.name = format!("web-{at}").into();
            desired
        })
        .collect();
    let inventory: Inventory = desired.iter().map(|d| (d.id.clone(), "v1".to_owned())).collect();
    let state: Live = desired
        .iter()
        .map(|d| (d.id.clone(), Presence::Present(Arc::clone(&observed))))
        .collect();
    let options = Options::new(&owner, "main@sha1:1");
    let memory = Memory::default();
    assert!(plan(&desired, &inventory, &state, &memory, &options).is_noop());
    c.bench_function("plan of 10,000 unchanged objects", |b| {
        b.iter(|| plan(black_box(&desired), &inventory, &state, &memory, &options));
    });
}

criterion_group!(benches, digests, plans);
criterion_main!(benches);
