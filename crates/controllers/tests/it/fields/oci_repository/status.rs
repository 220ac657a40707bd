//! The status.

use serde_json::{Value, json};

use super::{CONTENT, Registry, archive};

async fn stored() -> (Value, String, Registry) {
    let registry = Registry::open().await;
    let annotations = [
        ("org.opencontainers.image.source", "https://git/app"),
        ("org.opencontainers.image.revision", "main@sha1:1"),
    ];
    let layer = archive(&[("a.yaml", "a: 1\n")]);
    let layers: [(&str, &[u8]); 1] = [(CONTENT, &layer)];
    let digest = registry.server.artifact("org/app", "v1", &layers, &annotations);
    registry.source("app", json!({})).await;
    let status = registry.stored("app", &digest).await;
    (status, digest, registry)
}

#[tokio::test]
async fn status_artifact() {
    let (status, digest, registry) = stored().await;
    let artifact = &status["artifact"];
    assert_eq!(artifact["revision"], json!(format!("v1@{digest}")));
    let hex = digest.trim_start_matches("sha256:");
    let path = registry
        .session
        .here(&format!("ocirepository/@home/app/{hex}.tar.gz"));
    assert_eq!(artifact["path"], json!(path));
    assert!(artifact["url"].as_str().unwrap().ends_with(&path), "{artifact}");
    assert_eq!(registry.files(artifact), Some(vec!["a.yaml".to_owned()]));
    assert_eq!(artifact["size"], json!(registry.bytes(artifact).unwrap().len()));
    let metadata = json!({
        "org.opencontainers.image.source": "https://git/app",
        "org.opencontainers.image.revision": "main@sha1:1",
    });
    assert_eq!(artifact["metadata"], metadata);
    registry.session.end().await;
}

#[tokio::test]
async fn status_conditions() {
    let (status, digest, registry) = stored().await;
    let conditions = status["conditions"].as_array().unwrap();
    for of in ["Ready", "ArtifactInStorage"] {
        let said = conditions
            .iter()
            .find(|condition| condition["type"] == *of)
            .unwrap();
        assert_eq!(said["status"], json!("True"));
        assert_eq!(said["reason"], json!("Succeeded"));
        let message = format!("stored artifact for digest 'v1@{digest}'");
        assert_eq!(said["message"], json!(message));
    }
    assert_eq!(conditions.len(), 2, "{conditions:?}");
    registry.session.end().await;
}

#[tokio::test]
async fn status_observed_generation() {
    let (status, _, registry) = stored().await;
    assert_eq!(status["observedGeneration"], json!(1));
    registry.change("app", json!({ "interval": "2h" })).await;
    let pointer = "/status/observedGeneration";
    registry
        .session
        .is("OCIRepository", "app", pointer, json!(2))
        .await;
    registry.session.end().await;
}

#[tokio::test]
async fn status_last_handled_reconcile_at() {
    let (_, _, registry) = stored().await;
    registry.ask("app", "then").await;
    let pointer = "/status/lastHandledReconcileAt";
    registry
        .session
        .is("OCIRepository", "app", pointer, json!("then"))
        .await;
    registry.session.end().await;
}

#[tokio::test]
async fn status_url() {
    let (status, _, registry) = stored().await;
    let path = registry.session.here("/ocirepository/@home/app/latest.tar.gz");
    assert!(status["url"].as_str().unwrap().ends_with(&path), "{status}");
    registry.session.end().await;
}

#[tokio::test]
async fn status_observed_ignore() {
    let (_, _, registry) = stored().await;
    let pointer = "/status/observedIgnore";
    registry.change("app", json!({ "ignore": "*.md" })).await;
    registry
        .session
        .is("OCIRepository", "app", pointer, json!("*.md"))
        .await;
    registry.change("app", json!({ "ignore": null })).await;
    registry
        .session
        .is("OCIRepository", "app", pointer, Value::Null)
        .await;
    registry.session.end().await;
}

/// The media type and the operation.
async fn observed_selector(field: &str, value: Value) {
    let (_, _, registry) = stored().await;
    let selector = json!({ "layerSelector": { field: value.clone() } });
    registry.change("app", selector).await;
    let pointer = format!("/status/observedLayerSelector/{field}");
    registry.session.is("OCIRepository", "app", &pointer, value).await;
    registry.session.end().await;
}

#[tokio::test]
async fn status_observed_layer_selector_media_type() {
    Box::pin(observed_selector("mediaType", json!(CONTENT))).await;
}

#[tokio::test]
async fn status_observed_layer_selector_operation_extract() {
    Box::pin(observed_selector("operation", json!("extract"))).await;
}

#[tokio::test]
async fn status_observed_layer_selector_operation_copy() {
    Box::pin(observed_selector("operation", json!("copy"))).await;
}
