//! What has to be healthy.

use equate_api::meta::{ConditionType, condition};
use serde_json::json;

use super::super::{config, workload};
use super::apply::never_available;
use crate::session::Session;

#[tokio::test]
async fn spec_wait() {
    let session = Session::anywhere(&[("apps/web.yaml", &*never_available())]).await;
    session.kustomize("apps", "apps", json!({ "wait": true })).await;
    session.exists("Deployment", "web", true).await;
    session
        .until("apps", "waits", |status| {
            let progress = condition(&status.conditions, ConditionType::Reconciling);
            progress.is_some_and(|progress| progress.message.starts_with("Running health checks"))
        })
        .await;
    let revision = session.commit(&[("apps/web.yaml", Some(&*workload("web", "registry.invalid/web:1")))]);
    let status = session.ready("apps", &revision).await;
    let healthy = condition(&status.conditions, ConditionType::Healthy).unwrap();
    assert_eq!((&*healthy.status, &*healthy.reason), ("True", "Succeeded"));
    session.end().await;
}

/// What is named is waited for, whoever made it, and nothing else.
async fn waits_for(named: serde_json::Value) {
    let files = [
        ("apps/a.yaml", &*config("a", "one")),
        ("apps/web.yaml", &*never_available()),
    ];
    let session = Session::anywhere(&files).await;
    session
        .kustomize("apps", "apps", json!({ "healthChecks": [named] }))
        .await;
    session
        .until("apps", "waits", |status| {
            let progress = condition(&status.conditions, ConditionType::Reconciling);
            progress.is_some_and(|progress| progress.message.starts_with("Running health checks"))
        })
        .await;
    let object = super::super::manifest("ConfigMap", "later", json!({}));
    session.create(serde_json::from_str(&object).unwrap()).await;
    session
        .until("apps", "is ready", |status| {
            condition(&status.conditions, ConditionType::Ready).is_some_and(|ready| ready.status == "True")
        })
        .await;
    session.end().await;
}

#[tokio::test]
async fn spec_health_checks_name() {
    waits_for(json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "later" })).await;
}

#[tokio::test]
async fn spec_health_checks_namespace() {
    waits_for(json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "later", "namespace": "@home" }))
        .await;
}

/// An object of that kind, and no other of that name.
#[tokio::test]
async fn spec_health_checks_kind() {
    let files = [
        ("apps/a.yaml", &*config("web", "one")),
        ("apps/web.yaml", &*never_available()),
    ];
    let session = Session::anywhere(&files).await;
    let check = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "web" }]);
    session
        .kustomize("apps", "apps", json!({ "healthChecks": check }))
        .await;
    session
        .until("apps", "is ready", |status| {
            condition(&status.conditions, ConditionType::Ready).is_some_and(|ready| ready.status == "True")
        })
        .await;
    let check = json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" }]);
    session
        .patch(
            "apps",
            json!({ "spec": { "healthChecks": check, "timeout": "1s" } }),
        )
        .await;
    let message = session.fails("apps", "HealthCheckFailed").await;
    assert!(message.contains("Deployment"), "{message}");
    session.end().await;
}

#[tokio::test]
async fn spec_health_checks_api_version() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    let check = json!([{ "apiVersion": "absent.test/v1", "kind": "Nothing", "name": "a" }]);
    session
        .kustomize("apps", "apps", json!({ "healthChecks": check, "timeout": "1s" }))
        .await;
    let message = session.fails("apps", "HealthCheckFailed").await;
    assert!(message.contains("Nothing"), "{message}");
    session.end().await;
}
