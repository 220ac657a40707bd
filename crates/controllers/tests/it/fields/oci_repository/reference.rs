//! The manifest to pull, and the time.

use equate_api::source::OciRepository;
use equate_testkit::registry::RegistryFault;
use serde_json::{Value, json};

use super::Registry;
use crate::session::Options;

#[tokio::test]
async fn spec_url() {
    let registry = Registry::open().await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    registry.source("app", json!({})).await;
    registry.stored("app", &digest).await;
    registry
        .change(
            "app",
            json!({ "url": format!("{}/org/other", registry.server.url()) }),
        )
        .await;
    registry
        .says(
            "app",
            "OCIArtifactPullFailed",
            "failed to determine artifact digest",
        )
        .await;
    registry
        .change("app", json!({ "url": format!("{}:v1", registry.url()) }))
        .await;
    let status = registry
        .says("app", "URLInvalid", "URL validation failed for")
        .await;
    let conditions = status["conditions"].as_array().unwrap();
    assert!(
        conditions.iter().any(|condition| condition["type"] == "Stalled"),
        "{status}"
    );
    registry.change("app", json!({ "url": registry.url() })).await;
    registry.stored("app", &digest).await;
    registry.session.end().await;
}

#[tokio::test]
async fn spec_ref_tag() {
    let registry = Registry::open().await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    let latest = registry.push("latest", &[("a.yaml", "a: 2\n")]);
    registry.source("app", json!({})).await;
    let status = registry.stored("app", &digest).await;
    assert_eq!(status["artifact"]["revision"], json!(format!("v1@{digest}")));
    registry.change("app", json!({ "ref": null })).await;
    let status = registry.stored("app", &latest).await;
    assert_eq!(status["artifact"]["revision"], json!(format!("latest@{latest}")));
    // a moved tag is found by the next request
    let moved = registry.push("latest", &[("a.yaml", "a: 3\n")]);
    registry.ask("app", "moved").await;
    registry.stored("app", &moved).await;
    registry.session.end().await;
}

#[tokio::test]
async fn spec_ref_semver() {
    let registry = Registry::open().await;
    registry.push("1.0.0", &[("a.yaml", "a: 1\n")]);
    let newest = registry.push("1.10.0", &[("a.yaml", "a: 2\n")]);
    registry.push("2.0.0", &[("a.yaml", "a: 3\n")]);
    // before the tag
    registry
        .source("app", json!({ "ref": { "semver": "1.x" } }))
        .await;
    let status = registry.stored("app", &newest).await;
    assert_eq!(status["artifact"]["revision"], json!(format!("1.10.0@{newest}")));
    registry
        .change("app", json!({ "ref": { "semver": "<= 0.1.0" } }))
        .await;
    registry
        .says(
            "app",
            "ReadOperationFailed",
            "no match found for semver: <= 0.1.0",
        )
        .await;
    registry.session.end().await;
}

#[tokio::test]
async fn spec_ref_semver_filter() {
    let registry = Registry::open().await;
    registry.push("1.1.0-beta", &[("a.yaml", "a: 1\n")]);
    let wanted = registry.push("1.1.0-rc", &[("a.yaml", "a: 2\n")]);
    registry.push("1.2.0", &[("a.yaml", "a: 3\n")]);
    let reference = json!({ "semver": ">=1.0.0-0", "semverFilter": ".*-rc$" });
    registry.source("app", json!({ "ref": reference })).await;
    registry.stored("app", &wanted).await;
    registry
        .change("app", json!({ "ref": { "semverFilter": "(" } }))
        .await;
    registry
        .says("app", "ReadOperationFailed", "is not a regular expression")
        .await;
    registry.session.end().await;
}

/// Before semver and tag.
#[tokio::test]
async fn spec_ref_digest() {
    let registry = Registry::open().await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    registry.push("v1", &[("a.yaml", "a: 2\n")]);
    let reference = json!({ "digest": digest, "semver": "*", "tag": "v1" });
    registry.source("app", json!({ "ref": reference })).await;
    let status = registry.stored("app", &digest).await;
    assert_eq!(status["artifact"]["revision"], json!(digest));
    registry.session.end().await;
}

#[tokio::test]
async fn spec_interval() {
    let registry = Registry::open().await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    registry.source("app", json!({ "interval": "200ms" })).await;
    registry.stored("app", &digest).await;
    let moved = registry.push("v1", &[("a.yaml", "a: 2\n")]);
    registry.stored("app", &moved).await;
    registry.session.end().await;
}

#[tokio::test]
async fn spec_timeout() {
    let registry = Registry::open().await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    registry.server.fault(RegistryFault::Silence, usize::MAX);
    registry.source("app", json!({ "timeout": "300ms" })).await;
    registry
        .says("app", "OCIArtifactPullFailed", "it took longer than 0.3s")
        .await;
    registry.server.heal();
    registry.change("app", json!({ "timeout": "60s" })).await;
    registry.stored("app", &digest).await;
    registry.session.end().await;
}

#[tokio::test]
async fn spec_suspend() {
    let registry = Registry::open().await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    registry.source("app", json!({ "suspend": true })).await;
    registry.source("other", json!({})).await;
    registry.stored("other", &digest).await;
    let object = registry.session.look("OCIRepository", "@home", "app").await;
    assert_eq!(object["status"]["artifact"], Value::Null);
    registry.change("app", json!({ "suspend": false })).await;
    registry.stored("app", &digest).await;
    registry.session.end().await;
}

#[tokio::test]
async fn label_sharding_key() {
    let options = Options {
        selector: Some("!sharding.fluxcd.io/key".to_owned()),
        ..Options::default()
    };
    let registry = Registry::with(Default::default(), options).await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    registry.source("app", json!({ "suspend": true })).await;
    let key = |key: Value| json!({ "metadata": { "labels": { "sharding.fluxcd.io/key": key } } });
    let session = &registry.session;
    session
        .merge::<OciRepository>("@home", "app", key(json!("one")))
        .await;
    registry.change("app", json!({ "suspend": false })).await;
    registry.source("also", json!({})).await;
    registry.stored("also", &digest).await;
    let object = session.look("OCIRepository", "@home", "app").await;
    assert_eq!(object["status"]["artifact"], Value::Null);
    session
        .merge::<OciRepository>("@home", "app", key(Value::Null))
        .await;
    registry.stored("app", &digest).await;
    registry.session.end().await;
}

#[tokio::test]
async fn annotation_requested_at() {
    let registry = Registry::open().await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    registry.source("app", json!({})).await;
    registry.stored("app", &digest).await;
    let moved = registry.push("v1", &[("a.yaml", "a: 2\n")]);
    registry.ask("app", "now").await;
    registry.stored("app", &moved).await;
    registry.session.end().await;
}
