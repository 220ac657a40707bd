//! The status.

use serde_json::{Value, json};

use super::{KIND, chart, packaged, push, start};
use crate::fields::objects::told;
use crate::session::Session;

async fn stored() -> (Value, Session) {
    let session = start().await;
    chart(&session, "app", json!({})).await;
    let status = packaged(&session, "app", "1.0.0").await;
    (status, session)
}

/// The revision is the version of the chart.
#[tokio::test]
async fn status_artifact() {
    let (status, session) = stored().await;
    let artifact = &status["artifact"];
    assert_eq!(artifact["revision"], json!("1.0.0"));
    let path = session.here("helmchart/@home/app/app-1.0.0.tgz");
    assert_eq!(artifact["path"], json!(path));
    assert!(artifact["url"].as_str().unwrap().ends_with(&path), "{artifact}");
    assert_eq!(artifact["size"], json!(session.archived(artifact).unwrap().len()));
    session.end().await;
}

#[tokio::test]
async fn status_conditions() {
    let (status, session) = stored().await;
    for of in ["Ready", "ArtifactInStorage"] {
        let said = told(&status, of);
        let message = "packaged 'app' chart with version '1.0.0'";
        assert_eq!(
            (&said["status"], &said["reason"], &said["message"]),
            (&json!("True"), &json!("ChartPackageSucceeded"), &json!(message))
        );
    }
    assert_eq!(status["conditions"].as_array().unwrap().len(), 2, "{status}");
    session.end().await;
}

#[tokio::test]
async fn status_observed_generation() {
    let (status, session) = stored().await;
    assert_eq!(status["observedGeneration"], json!(1));
    session.respec(KIND, "app", json!({ "interval": "2h" })).await;
    session
        .is(KIND, "app", "/status/observedGeneration", json!(2))
        .await;
    session.end().await;
}

#[tokio::test]
async fn status_last_handled_reconcile_at() {
    let (status, session) = stored().await;
    assert_eq!(status["lastHandledReconcileAt"], Value::Null);
    session.demand(KIND, "app", "then").await;
    session.end().await;
}

#[tokio::test]
async fn status_observed_chart_name() {
    let (status, session) = stored().await;
    assert_eq!(status["observedChartName"], json!("app"));
    session.end().await;
}

#[tokio::test]
async fn status_observed_source_artifact_revision() {
    let (_, session) = stored().await;
    let revision = push(&session, &[("other", Some("1"))]).await;
    let pointer = "/status/observedSourceArtifactRevision";
    session.is(KIND, "app", pointer, json!(revision)).await;
    session.end().await;
}

/// Those that exist, where missing ones are ignored.
#[tokio::test]
async fn status_observed_values_files() {
    let (status, session) = stored().await;
    assert_eq!(status["observedValuesFiles"], Value::Null);
    let files = json!(["charts/app/none.yaml", "env/site.yaml"]);
    let spec = json!({ "valuesFiles": files, "ignoreMissingValuesFiles": true });
    session.respec(KIND, "app", spec).await;
    let pointer = "/status/observedValuesFiles";
    session.is(KIND, "app", pointer, json!(["env/site.yaml"])).await;
    session.end().await;
}

#[tokio::test]
async fn status_url() {
    let (status, session) = stored().await;
    let path = session.here("/helmchart/@home/app/latest.tar.gz");
    assert!(status["url"].as_str().unwrap().ends_with(&path), "{status}");
    session.end().await;
}
