//! The index, and the times of its fetches.

use serde_json::{Value, json};

use super::{Charts, KIND, chart, pulled};
use crate::session::Options;

#[tokio::test]
async fn spec_url() {
    let charts = Charts::open().await;
    let revision = charts.publish(&["1.0.0"]);
    charts
        .source("app", json!({ "url": format!("{}/none", charts.server.url()) }))
        .await;
    let session = &charts.session;
    session
        .reports(KIND, "app", "Failed", "/none/index.yaml : 404 Not Found")
        .await;
    session
        .respec(KIND, "app", json!({ "url": format!("{}/", charts.server.url()) }))
        .await;
    charts.stored("app", &revision).await;
    charts.session.end().await;
}

/// The index is asked for again without a request.
#[tokio::test]
async fn spec_interval() {
    let charts = Charts::open().await;
    let first = charts.publish(&["1.0.0"]);
    charts.source("app", json!({ "interval": "1s" })).await;
    charts.stored("app", &first).await;
    let second = charts.publish(&["1.0.0", "1.1.0"]);
    charts.stored("app", &second).await;
    charts.session.end().await;
}

#[tokio::test]
async fn spec_timeout() {
    let charts = Charts::open().await;
    charts.server.silence(true);
    charts.source("app", json!({ "timeout": "1s" })).await;
    let message = "no complete answer within 1s (spec.timeout)";
    charts.session.reports(KIND, "app", "Failed", message).await;
    charts.session.end().await;
}

#[tokio::test]
async fn spec_suspend() {
    let charts = Charts::open().await;
    let revision = charts.publish(&["1.0.0"]);
    charts.source("app", json!({ "suspend": true })).await;
    charts.source("also", json!({})).await;
    charts.stored("also", &revision).await;
    let session = &charts.session;
    assert_eq!(
        session.look(KIND, "@home", "app").await["status"]["artifact"],
        Value::Null
    );
    session.respec(KIND, "app", json!({ "suspend": false })).await;
    charts.stored("app", &revision).await;
    charts.session.end().await;
}

/// As in Flux, the field is accepted and limits nothing: its charts are used.
#[tokio::test]
async fn spec_access_from_namespace_selectors_match_labels_limits_nothing() {
    let charts = Charts::open().await;
    let selectors = json!([{ "matchLabels": { "team": "none" } }]);
    charts
        .source(
            "app",
            json!({ "accessFrom": { "namespaceSelectors": selectors } }),
        )
        .await;
    let session = &charts.session;
    session
        .is(KIND, "app", "/spec/accessFrom/namespaceSelectors", selectors)
        .await;
    chart(session, "app", "app").await;
    pulled(session, "app").await;
    charts.session.end().await;
}

#[tokio::test]
async fn spec_type_default() {
    let charts = Charts::open().await;
    let revision = charts.publish(&["1.0.0"]);
    charts.source("app", json!({ "type": "default" })).await;
    charts.stored("app", &revision).await;
    let session = &charts.session;
    let registry = json!({ "url": "oci://registry.invalid/charts" });
    session.respec(KIND, "app", registry).await;
    let message = "'oci' URL scheme cannot be used with 'default' HelmRepository type";
    session.reports(KIND, "app", "URLInvalid", message).await;
    charts.session.end().await;
}

#[tokio::test]
async fn annotation_requested_at() {
    let charts = Charts::open().await;
    let first = charts.publish(&["1.0.0"]);
    charts.source("app", json!({})).await;
    charts.stored("app", &first).await;
    let second = charts.publish(&["1.0.0", "1.1.0"]);
    charts.session.demand(KIND, "app", "now").await;
    charts.stored("app", &second).await;
    charts.session.end().await;
}

/// An object with a shard's key belongs to another process.
#[tokio::test]
async fn label_sharding_key() {
    let options = Options {
        selector: Some("!sharding.fluxcd.io/key".to_owned()),
        ..Options::default()
    };
    let charts = Charts::with(equate_testkit::web::WebOptions::default(), options).await;
    let revision = charts.publish(&["1.0.0"]);
    charts.source("app", json!({ "suspend": true })).await;
    let session = &charts.session;
    let key = |key: Value| json!({ "metadata": { "labels": { "sharding.fluxcd.io/key": key } } });
    session.set(KIND, "app", key(json!("one"))).await;
    session.respec(KIND, "app", json!({ "suspend": false })).await;
    charts.source("also", json!({})).await;
    charts.stored("also", &revision).await;
    assert_eq!(
        session.look(KIND, "@home", "app").await["status"]["artifact"],
        Value::Null
    );
    session.set(KIND, "app", key(Value::Null)).await;
    charts.stored("app", &revision).await;
    charts.session.end().await;
}

/// Annotations of its events.
#[tokio::test]
async fn annotation_event() {
    let charts = Charts::open().await;
    charts.source("app", json!({ "suspend": true })).await;
    let session = &charts.session;
    let annotation = "event.toolkit.fluxcd.io/team";
    session.annotate(KIND, "app", annotation, json!("blue")).await;
    session.respec(KIND, "app", json!({ "suspend": false })).await;
    session.carries(KIND, "app", annotation, "blue").await;
    charts.session.end().await;
}
