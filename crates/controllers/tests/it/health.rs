//! Health checks block nothing: a revision that never becomes healthy does not block the next one.

use equate_api::meta::ConditionType;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use crate::session::{Session, config_map, deployment, ready, said};

#[tokio::test]
async fn the_next_revision_does_not_wait_for_an_unhealthy_one() {
    let broken = deployment(
        "web",
        "example.org/web:1",
        json!({ "equate.dev/simulate": "ImagePullBackOff" }),
    );
    let session = Session::start(&[("apps/web.yaml", &*broken)]).await;
    // a timeout far beyond the test: the next revision must not wait for it
    session
        .kustomize("apps", "apps", json!({ "wait": true, "timeout": "1h" }))
        .await;
    let waits = |status: &equate_api::kustomize::KustomizationStatus| {
        said(status, ConditionType::Reconciling).starts_with("Running health checks for revision main@sha1:")
    };
    let status = session.until("apps", "waits for health", waits).await;
    assert_eq!(ready(&status).0, "Unknown");
    let whole = deployment("web", "example.org/web:2", json!({}));
    let revision = session.commit(&[("apps/web.yaml", Some(&*whole))]);
    let status = session.ready("apps", &revision).await;
    assert!(said(&status, ConditionType::Healthy).starts_with("Health check passed in "));
    assert!(said(&status, ConditionType::Reconciling).is_empty());
    session.end().await;
}

#[tokio::test]
async fn an_object_of_another_is_waited_for_by_name() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    let revision = session.commit(&[]);
    let checks =
        json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "default" }]);
    session
        .kustomize("apps", "apps", json!({ "healthChecks": checks, "timeout": "1h" }))
        .await;
    session.value("default", "a", Some("one")).await;
    let web: Deployment = serde_json::from_str(&deployment("web", "example.org/web:1", json!({}))).unwrap();
    let deployments = kube::Api::<Deployment>::namespaced(session.client.clone(), "default");
    deployments
        .create(&kube::api::PostParams::default(), &web)
        .await
        .unwrap();
    session.ready("apps", &revision).await;
    session.end().await;
}
