//! The layer, and its files.

use serde_json::json;

use super::{CONTENT, Registry, archive};
use crate::session::document;

const OTHER: &str = "application/vnd.example.tar+gzip";

#[tokio::test]
async fn spec_ignore() {
    let registry = Registry::open().await;
    let files = [("a.yaml", "a: 1\n"), ("b.md", "b"), ("logo.png", "c")];
    registry.push("v1", &files);
    registry.source("app", json!({})).await;
    registry.holds("app", &["a.yaml", "b.md"]).await;
    registry.change("app", json!({ "ignore": "*.md" })).await;
    registry.holds("app", &["a.yaml", "logo.png"]).await;
    registry.session.end().await;
}

#[tokio::test]
async fn spec_layer_selector_media_type() {
    let registry = Registry::open().await;
    let (one, two) = (archive(&[("one.yaml", "")]), archive(&[("two.yaml", "")]));
    let layers: [(&str, &[u8]); 2] = [(CONTENT, &one), (OTHER, &two)];
    registry.server.artifact("org/app", "v1", &layers, &[]);
    registry.source("app", json!({})).await;
    registry.holds("app", &["one.yaml"]).await;
    let select = |media_type: &str| json!({ "layerSelector": { "mediaType": media_type } });
    registry.change("app", select(OTHER)).await;
    registry.holds("app", &["two.yaml"]).await;
    registry.change("app", select("text/plain")).await;
    let text = "failed to find layer with media type 'text/plain' in artifact";
    registry
        .says("app", "OCIArtifactLayerOperationFailed", text)
        .await;
    registry.session.end().await;
}

#[tokio::test]
async fn spec_layer_selector_operation_extract() {
    let registry = Registry::open().await;
    registry.push("v1", &[("a.yaml", "a: 1\n"), ("b.png", "")]);
    registry
        .source("app", json!({ "layerSelector": { "operation": "extract" } }))
        .await;
    registry.holds("app", &["a.yaml"]).await;
    registry
        .server
        .artifact("org/app", "v2", &[(CONTENT, b"this is no archive")], &[]);
    registry.change("app", json!({ "ref": { "tag": "v2" } })).await;
    let text = "failed to extract layer contents from artifact";
    registry
        .says("app", "OCIArtifactLayerOperationFailed", text)
        .await;
    registry.session.end().await;
}

/// Byte for byte, and ignore rules do not count.
#[tokio::test]
async fn spec_layer_selector_operation_copy() {
    let registry = Registry::open().await;
    let layer = archive(&[("a.yaml", "a: 1\n"), ("b.png", "")]);
    let digest = registry
        .server
        .artifact("org/app", "v1", &[(CONTENT, &layer)], &[]);
    let spec = json!({ "layerSelector": { "operation": "copy" }, "ignore": "*.yaml" });
    registry.source("app", spec).await;
    let status = registry.stored("app", &digest).await;
    assert_eq!(registry.bytes(&status["artifact"]), Some(layer));
    registry.change("app", json!({ "layerSelector": null })).await;
    registry.holds("app", &["b.png"]).await;
    registry.session.end().await;
}

/// A Kustomization applies the files of an artifact.
#[tokio::test]
async fn status_artifact_of_a_kustomization() {
    let registry = Registry::open().await;
    let config = document(&json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "from-oci", "namespace": registry.session.here("@home") },
        "data": { "value": "1" },
    }));
    registry.push("v1", &[("config.yaml", &config)]);
    registry.source("app", json!({})).await;
    let source = json!({ "sourceRef": { "kind": "OCIRepository", "name": "app" } });
    registry.session.kustomize("apps", "./", source).await;
    registry.session.exists("ConfigMap", "from-oci", true).await;
    registry.session.end().await;
}
