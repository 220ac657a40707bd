//! The status.

use serde_json::{Value, json};

use super::{Charts, KIND};
use crate::fields::objects::told;

async fn stored() -> (Value, String, Charts) {
    let charts = Charts::open().await;
    let revision = charts.publish(&["1.0.0"]);
    charts.source("app", json!({})).await;
    let status = charts.stored("app", &revision).await;
    (status, revision, charts)
}

/// The revision is the digest of the index.
#[tokio::test]
async fn status_artifact() {
    let (status, revision, charts) = stored().await;
    let artifact = &status["artifact"];
    assert_eq!(artifact["revision"], json!(revision));
    let hex = revision.trim_start_matches("sha256:");
    let session = &charts.session;
    let path = session.here(&format!("helmrepository/@home/app/index-{hex}.yaml"));
    assert_eq!(artifact["path"], json!(path));
    assert!(artifact["url"].as_str().unwrap().ends_with(&path), "{artifact}");
    assert_eq!(artifact["size"], json!(session.archived(artifact).unwrap().len()));
    charts.session.end().await;
}

#[tokio::test]
async fn status_conditions() {
    let (status, revision, charts) = stored().await;
    let message = format!("stored artifact: revision '{revision}'");
    for of in ["Ready", "ArtifactInStorage"] {
        let said = told(&status, of);
        assert_eq!(
            (&said["status"], &said["reason"], &said["message"]),
            (&json!("True"), &json!("Succeeded"), &json!(message))
        );
    }
    assert_eq!(status["conditions"].as_array().unwrap().len(), 2, "{status}");
    charts.session.end().await;
}

#[tokio::test]
async fn status_observed_generation() {
    let (status, _, charts) = stored().await;
    assert_eq!(status["observedGeneration"], json!(1));
    let session = &charts.session;
    session.respec(KIND, "app", json!({ "interval": "2h" })).await;
    session
        .is(KIND, "app", "/status/observedGeneration", json!(2))
        .await;
    charts.session.end().await;
}

#[tokio::test]
async fn status_last_handled_reconcile_at() {
    let (status, _, charts) = stored().await;
    assert_eq!(status["lastHandledReconcileAt"], Value::Null);
    charts.session.demand(KIND, "app", "then").await;
    charts.session.end().await;
}

#[tokio::test]
async fn status_url() {
    let (status, _, charts) = stored().await;
    let path = charts.session.here("/helmrepository/@home/app/index.yaml");
    assert!(status["url"].as_str().unwrap().ends_with(&path), "{status}");
    charts.session.end().await;
}
