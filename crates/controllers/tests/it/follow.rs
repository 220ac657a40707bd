//! The cluster follows a commit that edits a file.

use serde_json::json;

use crate::session::{Session, config_map};

#[tokio::test]
async fn a_commit_is_followed() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.value("default", "a", Some("one")).await;
    for value in ["two", "three"] {
        let revision = session.commit(&[("apps/a.yaml", Some(&*config_map("a", value)))]);
        session.value("default", "a", Some(value)).await;
        let status = session.ready("apps", &revision).await;
        assert_eq!(status.last_applied_revision, Some(revision));
    }
    session
        .event("apps", "Normal Progressing ConfigMap/default/a configured")
        .await;
    session.end().await;
}

#[tokio::test]
async fn a_request_is_answered_by_its_token() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.value("default", "a", Some("one")).await;
    let token = "2026-11-21T18:00:00Z";
    session
        .patch(
            "apps",
            json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": token } } }),
        )
        .await;
    let handled = |status: &equate_api::kustomize::KustomizationStatus| {
        status.last_handled_reconcile_at.as_deref() == Some(token)
    };
    session.until("apps", "answers", handled).await;
    session.end().await;
}

#[tokio::test]
async fn a_changed_spec_is_followed() {
    let files = [
        ("one/a.yaml", &*config_map("a", "one")),
        ("two/a.yaml", &*config_map("a", "two")),
    ];
    let session = Session::start(&files).await;
    session.kustomize("apps", "one", json!({})).await;
    session.value("default", "a", Some("one")).await;
    session
        .patch("apps", json!({ "spec": { "path": "./two" } }))
        .await;
    session.value("default", "a", Some("two")).await;
    let done = |status: &equate_api::kustomize::KustomizationStatus| status.observed_generation == Some(2);
    session.until("apps", "has observed the new spec", done).await;
    session.end().await;
}
