//! The status.

use equate_api::meta::{ConditionType, condition};
use serde_json::{Value, json};

use super::super::{config, workload};
use crate::session::Session;

/// A Kustomization that applied two objects; its status, the revision and the session.
async fn applied() -> (Value, String, Session) {
    let files = [
        ("apps/a.yaml", &*config("a", "one")),
        ("apps/web.yaml", &*workload("web", "registry.invalid/web:1")),
    ];
    let session = Session::anywhere(&files).await;
    session.kustomize("apps", "apps", json!({ "wait": true })).await;
    let revision = session.commit(&[("README.md", Some("second"))]);
    session.ready("apps", &revision).await;
    let object = session.look("Kustomization", "@home", "apps").await;
    (object["status"].clone(), revision, session)
}

#[tokio::test]
async fn status_inventory_entries_id() {
    let (status, _, session) = applied().await;
    let entries = status["inventory"]["entries"].as_array().unwrap();
    let ids: Vec<&str> = entries
        .iter()
        .map(|entry| entry["id"].as_str().unwrap())
        .collect();
    let expected = [
        session.here("@home_a__ConfigMap"),
        session.here("@home_web_apps_Deployment"),
    ];
    assert_eq!(ids, expected);
    session.end().await;
}

#[tokio::test]
async fn status_inventory_entries_v() {
    let (status, _, session) = applied().await;
    let entries = status["inventory"]["entries"].as_array().unwrap();
    assert!(entries.iter().all(|entry| entry["v"] == "v1"), "{entries:?}");
    session.end().await;
}

#[tokio::test]
async fn status_last_applied_revision() {
    let (status, revision, session) = applied().await;
    assert_eq!(status["lastAppliedRevision"], json!(revision));
    session.end().await;
}

/// A failed revision is attempted, and not applied.
#[tokio::test]
async fn status_last_attempted_revision() {
    let (_, revision, session) = applied().await;
    let broken = session.commit(&[("apps/a.yaml", Some("kind: ["))]);
    session.fails("apps", "BuildFailed").await;
    let status = session.look("Kustomization", "@home", "apps").await["status"].clone();
    assert_eq!(status["lastAttemptedRevision"], json!(broken));
    assert_eq!(status["lastAppliedRevision"], json!(revision));
    session.end().await;
}

#[tokio::test]
async fn status_observed_generation() {
    let (status, _, session) = applied().await;
    assert_eq!(status["observedGeneration"], json!(1));
    session
        .patch("apps", json!({ "spec": { "interval": "11m" } }))
        .await;
    session
        .is("Kustomization", "apps", "/status/observedGeneration", json!(2))
        .await;
    session.end().await;
}

#[tokio::test]
async fn status_last_handled_reconcile_at() {
    let (status, _, session) = applied().await;
    assert_eq!(status["lastHandledReconcileAt"], Value::Null);
    let asked = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "then" } } });
    session.patch("apps", asked).await;
    session
        .is(
            "Kustomization",
            "apps",
            "/status/lastHandledReconcileAt",
            json!("then"),
        )
        .await;
    session.end().await;
}

#[tokio::test]
async fn status_conditions() {
    let (_, revision, session) = applied().await;
    let status = session.ready("apps", &revision).await;
    for (of, reason) in [
        (ConditionType::Ready, "ReconciliationSucceeded"),
        (ConditionType::Healthy, "Succeeded"),
    ] {
        let said = condition(&status.conditions, of).unwrap();
        assert_eq!((&*said.status, &*said.reason), ("True", reason));
        assert_eq!(said.observed_generation, Some(1));
    }
    assert!(condition(&status.conditions, ConditionType::Reconciling).is_none());
    assert!(condition(&status.conditions, ConditionType::Stalled).is_none());
    session.end().await;
}

/// Applied builds, with times, durations, counts and revisions.
#[tokio::test]
async fn status_history() {
    let (status, revision, session) = applied().await;
    let latest = &status["history"][0];
    assert!(
        latest["digest"].as_str().unwrap().starts_with("sha256:"),
        "{latest}"
    );
    assert_eq!(latest["lastReconciledStatus"], json!("ReconciliationSucceeded"));
    assert_eq!(latest["metadata"]["revision"], json!(revision));
    assert!(latest["totalReconciliations"].as_u64().unwrap() >= 1, "{latest}");
    for field in ["firstReconciled", "lastReconciled", "lastReconciledDuration"] {
        assert!(latest[field].is_string(), "{field}: {latest}");
    }
    session.end().await;
}

/// A failure is another entry, the newest first; at most five stay.
#[tokio::test]
async fn status_history_of_changes() {
    let (_, _, session) = applied().await;
    for value in ["two", "three", "four", "five", "six"] {
        let revision = session.commit(&[("apps/a.yaml", Some(&*config("a", value)))]);
        session.ready("apps", &revision).await;
    }
    let status = session.look("Kustomization", "@home", "apps").await["status"].clone();
    let history = status["history"].as_array().unwrap();
    assert_eq!(history.len(), 5, "{history:?}");
    session.end().await;
}
