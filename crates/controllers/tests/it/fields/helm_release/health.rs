//! Waiting for objects.

use serde_json::{Value, json};

use super::{KIND, installed, ready, release, stalls, start};
use crate::session::Session;

/// A release whose ConfigMap is judged by an expression; the wait lasts a second unless the spec says more.
async fn judged(check: Value, spec: Value) -> Session {
    let session = start().await;
    let mut whole = json!({ "timeout": "1s", "healthCheckExprs": [check] });
    crate::fields::merge(&mut whole, &spec);
    release(&session, "app", whole).await;
    session
}

/// The release waits until the object is as the expression says.
#[tokio::test]
async fn spec_health_check_exprs_current() {
    let check = json!({ "apiVersion": "v1", "kind": "ConfigMap", "current": "data.value == 'two'" });
    let session = judged(check, json!({ "timeout": "1h" })).await;
    session.exists("ConfigMap", "app-map", true).await;
    session.reports(KIND, "app", "Progressing", "").await;
    session
        .set("ConfigMap", "app-map", json!({ "data": { "value": "two" } }))
        .await;
    ready(&session, "InstallSucceeded", 1).await;
    session.end().await;
}

#[tokio::test]
async fn spec_health_check_exprs_failed() {
    let check = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "current": "true", "failed": "data.value == 'one'",
    });
    let session = judged(check, json!({ "timeout": "1h" })).await;
    let message = "failed early due to stalled resources: [ConfigMap/@home/app-map status: 'Failed']";
    stalls(&session, "InstallFailed", message).await;
    session.end().await;
}

#[tokio::test]
async fn spec_health_check_exprs_in_progress() {
    let check = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "inProgress": "data.value == 'one'", "failed": "true", "current": "true",
    });
    let session = judged(check, json!({})).await;
    let message = "timeout waiting for: [ConfigMap/@home/app-map status: 'InProgress'";
    stalls(&session, "InstallFailed", message).await;
    session.end().await;
}

/// Only the group is compared.
#[tokio::test]
async fn spec_health_check_exprs_api_version() {
    let check = json!({ "apiVersion": "v7", "kind": "ConfigMap", "current": "false" });
    let session = judged(check, json!({})).await;
    stalls(&session, "InstallFailed", "ConfigMap/@home/app-map").await;
    session.end().await;
    let check = json!({ "apiVersion": "other.test/v1", "kind": "ConfigMap", "current": "false" });
    let session = judged(check, json!({})).await;
    ready(&session, "InstallSucceeded", 1).await;
    session.end().await;
}

/// None is all kinds of the group.
#[tokio::test]
async fn spec_health_check_exprs_kind() {
    let session = judged(json!({ "apiVersion": "v1", "current": "false" }), json!({})).await;
    stalls(&session, "InstallFailed", "ConfigMap/@home/app-map").await;
    session.end().await;
    let session = judged(
        json!({ "apiVersion": "v1", "kind": "Secret", "current": "false" }),
        json!({}),
    )
    .await;
    ready(&session, "InstallSucceeded", 1).await;
    session.end().await;
}

/// Either way, a Deployment without pods that run is waited for, and one that is ready is not.
async fn waits(strategy: &str) {
    let session = start().await;
    let spec = json!({ "waitStrategy": { "name": strategy }, "values": { "web": "registry.invalid/web:1" } });
    installed(&session, spec).await;
    session
        .respec(
            KIND,
            "app",
            json!({ "timeout": "1s", "values": { "stuck": true } }),
        )
        .await;
    stalls(
        &session,
        "UpgradeFailed",
        "timeout waiting for: [Deployment/@home/app-stuck",
    )
    .await;
    session.end().await;
}

#[tokio::test]
async fn spec_wait_strategy_name_poller() {
    waits("poller").await;
}

#[tokio::test]
async fn spec_wait_strategy_name_legacy() {
    waits("legacy").await;
}
