//! Ignored fields.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::super::manifest;
use crate::session::Session;

fn map(value: &str, other: &str) -> String {
    manifest(
        "ConfigMap",
        "a",
        json!({ "metadata": { "labels": { "tier": "front" }, "annotations": { "by": "git" } },
            "data": { "value": value, "other": other } }),
    )
}

/// A Kustomization that ignores its ConfigMap's value.
async fn session(target: Value) -> Session {
    let session = Session::anywhere(&[("apps/a.yaml", &*map("one", "one"))]).await;
    let ignore = json!([{ "paths": ["/data/value"], "target": target }]);
    session
        .kustomize("apps", "apps", json!({ "ignore": ignore }))
        .await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    let revision = session.commit(&[]);
    session.ready("apps", &revision).await;
    session
}

async fn set(session: &Session, data: Value) {
    let home = session.here("@home");
    session
        .merge::<ConfigMap>(&home, "a", json!({ "data": data }))
        .await;
}

/// Changes of the ignored field stay, also when the object is corrected or git changes other fields.
#[tokio::test]
async fn spec_ignore_paths() {
    let session = session(Value::Null).await;
    set(&session, json!({ "value": "mine" })).await;
    set(&session, json!({ "other": "mine" })).await;
    session.is("ConfigMap", "a", "/data/other", json!("one")).await;
    session.is("ConfigMap", "a", "/data/value", json!("mine")).await;
    let revision = session.commit(&[("apps/a.yaml", Some(&*map("two", "two")))]);
    session.ready("apps", &revision).await;
    session.is("ConfigMap", "a", "/data/other", json!("two")).await;
    session.is("ConfigMap", "a", "/data/value", json!("mine")).await;
    // a change of only this field in git changes nothing, and a recreated object has it
    let revision = session.commit(&[("apps/a.yaml", Some(&*map("three", "two")))]);
    session.ready("apps", &revision).await;
    session.is("ConfigMap", "a", "/data/value", json!("mine")).await;
    let home = session.here("@home");
    session.delete::<ConfigMap>(&home, "a").await;
    session.is("ConfigMap", "a", "/data/value", json!("three")).await;
    session.end().await;
}

/// A field that another manager applies belongs to that manager alone.
#[tokio::test]
async fn spec_ignore_paths_that_another_applies() {
    let session = session(Value::Null).await;
    let home = session.here("@home");
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(session.client.clone(), &home);
    let theirs = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "value": "theirs" },
    });
    let params = PatchParams::apply("scaler").force();
    maps.patch("a", &params, &Patch::Apply(theirs)).await.unwrap();
    let revision = session.commit(&[("apps/a.yaml", Some(&*map("one", "two")))]);
    session.ready("apps", &revision).await;
    session.is("ConfigMap", "a", "/data/other", json!("two")).await;
    session.is("ConfigMap", "a", "/data/value", json!("theirs")).await;
    let object = session.look("ConfigMap", "@home", "a").await;
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let fields = |manager: &str| {
        let entry = entries.iter().find(|entry| entry["manager"] == manager).unwrap();
        entry["fieldsV1"]["f:data"].clone()
    };
    assert_eq!(fields("kustomize-controller"), json!({ "f:other": {} }));
    assert_eq!(fields("scaler"), json!({ "f:value": {} }));
    session.end().await;
}

/// An object that the target does not select is corrected.
async fn target(target: Value, meant: bool) {
    let session = session(target).await;
    set(&session, json!({ "value": "mine" })).await;
    if meant {
        set(&session, json!({ "other": "mine" })).await;
        session.is("ConfigMap", "a", "/data/other", json!("one")).await;
        session.is("ConfigMap", "a", "/data/value", json!("mine")).await;
    } else {
        session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    }
    session.end().await;
}

#[tokio::test]
async fn spec_ignore_target_kind() {
    target(json!({ "kind": "Config.*" }), true).await;
    target(json!({ "kind": "Secret" }), false).await;
}

#[tokio::test]
async fn spec_ignore_target_group() {
    target(json!({ "group": "apps" }), false).await;
}

#[tokio::test]
async fn spec_ignore_target_version() {
    target(json!({ "version": "v1" }), true).await;
}

#[tokio::test]
async fn spec_ignore_target_name() {
    target(json!({ "name": "a" }), true).await;
    target(json!({ "name": "b" }), false).await;
}

#[tokio::test]
async fn spec_ignore_target_namespace() {
    target(json!({ "namespace": "elsewhere" }), false).await;
}

#[tokio::test]
async fn spec_ignore_target_label_selector() {
    target(json!({ "labelSelector": "tier=front" }), true).await;
    target(json!({ "labelSelector": "tier=back" }), false).await;
}

#[tokio::test]
async fn spec_ignore_target_annotation_selector() {
    target(json!({ "annotationSelector": "by=git" }), true).await;
    target(json!({ "annotationSelector": "by=hand" }), false).await;
}

/// With the rule, a change is kept; without it, it is corrected.
#[tokio::test]
async fn spec_ignore_paths_that_begin_and_end() {
    let session = session(Value::Null).await;
    set(&session, json!({ "value": "mine" })).await;
    session
        .patch(
            "apps",
            json!({ "spec": { "ignore": [{ "paths": ["/data/none"] }] } }),
        )
        .await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    session
        .patch("apps", json!({ "spec": { "ignore": [{ "paths": ["data"] }] } }))
        .await;
    let message = session.fails("apps", "ReconciliationFailed").await;
    assert!(
        message.contains("configuration error: spec.ignore[0].paths[0]: invalid JSON pointer \"data\""),
        "{message}"
    );
    session.end().await;
}
