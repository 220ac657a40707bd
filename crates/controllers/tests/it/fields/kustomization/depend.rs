//! Dependencies.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::super::{config, manifest};
use crate::session::Session;

const FILES: [&str; 2] = ["first/a.yaml", "second/b.yaml"];

async fn session() -> Session {
    let texts = [config("a", "one"), config("b", "one")];
    Session::anywhere(&[(FILES[0], &texts[0]), (FILES[1], &texts[1])]).await
}

#[tokio::test]
async fn spec_depends_on_name() {
    let session = session().await;
    let after = json!({ "dependsOn": [{ "name": "first" }] });
    session.kustomize("second", "second", after).await;
    let message = session.fails("second", "DependencyNotReady").await;
    assert!(message.contains(&session.here("@home/first")), "{message}");
    session.exists("ConfigMap", "b", false).await;
    session.kustomize("first", "first", json!({})).await;
    session.exists("ConfigMap", "b", true).await;
    session.end().await;
}

#[tokio::test]
async fn spec_depends_on_namespace() {
    let session = session().await;
    session.namespace("@home-team").await;
    let mut object =
        serde_json::to_value(crate::session::kustomization("second", "second", json!({}))).unwrap();
    object["metadata"] = json!({ "name": "second", "namespace": "@home-team", "labels": session.labels() });
    object["spec"]["sourceRef"]["namespace"] = json!("@home");
    object["spec"]["dependsOn"] = json!([{ "name": "first", "namespace": "@home" }]);
    session.create(object).await;
    session
        .is_in(
            "@home-team",
            "Kustomization",
            "second",
            "/status/conditions/0/reason",
            json!("DependencyNotReady"),
        )
        .await;
    session.exists("ConfigMap", "b", false).await;
    session.kustomize("first", "first", json!({})).await;
    session.exists("ConfigMap", "b", true).await;
    session.end().await;
}

/// `dep` is the dependency, `self` the dependent.
#[tokio::test]
async fn spec_depends_on_ready_expr() {
    let session = session().await;
    session.kustomize("first", "first", json!({})).await;
    session.exists("ConfigMap", "a", true).await;
    let expression = "has(dep.metadata.annotations) && dep.metadata.annotations['go'] == self.spec.path";
    let after = json!({ "dependsOn": [{ "name": "first", "readyExpr": expression }] });
    session.kustomize("second", "second", after).await;
    session.fails("second", "DependencyNotReady").await;
    session.exists("ConfigMap", "b", false).await;
    session
        .patch(
            "first",
            json!({ "metadata": { "annotations": { "go": "second" } } }),
        )
        .await;
    session.exists("ConfigMap", "b", true).await;
    session.end().await;
}

#[tokio::test]
async fn spec_depends_on_ready_expr_that_cannot_be_read() {
    let session = session().await;
    let after = json!({ "dependsOn": [{ "name": "first", "readyExpr": "dep.status ==" }] });
    session.kustomize("second", "second", after).await;
    session.fails("second", "InvalidCELExpression").await;
    session.end().await;
}

/// A dependency with the same source has to be at the same revision.
#[tokio::test]
async fn spec_depends_on_name_has_the_same_revision() {
    let session = session().await;
    session.kustomize("first", "first", json!({})).await;
    let after = json!({ "dependsOn": [{ "name": "first" }] });
    session.kustomize("second", "second", after).await;
    session.exists("ConfigMap", "b", true).await;
    let broken = manifest("ConfigMap", "a", json!({ "data": { "value": 1 } }));
    session.commit(&[(FILES[0], Some(&*broken)), (FILES[1], Some(&*config("b", "two")))]);
    session.fails("first", "ReconciliationFailed").await;
    session.fails("second", "DependencyNotReady").await;
    let held: ConfigMap = session.get("@home", "b").await.unwrap();
    assert_eq!(held.data.unwrap()["value"], "one");
    session.commit(&[(FILES[0], Some(&*config("a", "two")))]);
    session.is("ConfigMap", "b", "/data/value", json!("two")).await;
    session.end().await;
}
