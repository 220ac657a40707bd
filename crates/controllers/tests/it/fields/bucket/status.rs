//! The status.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Store;

async fn stored() -> (Value, String, Store) {
    let store = Store::open().await;
    let etag = store.server.put("a.yaml", "a: 1\n");
    store.source("app", json!({})).await;
    let status = store.holds("app", &[("a.yaml", "a: 1\n")]).await;
    let digest = Sha256::digest(format!("a.yaml {etag}\n"));
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    (status, digest, store)
}

/// The revision is over keys and etags.
#[tokio::test]
async fn status_artifact() {
    let (status, digest, store) = stored().await;
    let artifact = &status["artifact"];
    assert_eq!(artifact["revision"], json!(format!("sha256:{digest}")));
    let path = store.session.here(&format!("bucket/@home/app/{digest}.tar.gz"));
    assert_eq!(artifact["path"], json!(path));
    assert!(artifact["url"].as_str().unwrap().ends_with(&path), "{artifact}");
    assert_eq!(artifact["size"], json!(store.bytes(artifact).unwrap().len()));
    store.session.end().await;
}

#[tokio::test]
async fn status_conditions() {
    let (_, digest, store) = stored().await;
    let message = format!("stored artifact: revision 'sha256:{digest}'");
    let status = store.says("app", "Succeeded", &message).await;
    let conditions = status["conditions"].as_array().unwrap();
    for of in ["Ready", "ArtifactInStorage"] {
        let mut all = conditions.iter();
        let said = all.find(|condition| condition["type"] == *of).unwrap();
        assert_eq!(
            (&said["status"], &said["reason"], &said["message"]),
            (&json!("True"), &json!("Succeeded"), &json!(message))
        );
    }
    assert_eq!(conditions.len(), 2, "{conditions:?}");
    store.session.end().await;
}

#[tokio::test]
async fn status_observed_generation() {
    let (status, _, store) = stored().await;
    assert_eq!(status["observedGeneration"], json!(1));
    store.change("app", json!({ "interval": "2h" })).await;
    store
        .session
        .is("Bucket", "app", "/status/observedGeneration", json!(2))
        .await;
    store.session.end().await;
}

#[tokio::test]
async fn status_last_handled_reconcile_at() {
    let (_, _, store) = stored().await;
    store.ask("app", "then").await;
    store
        .session
        .is("Bucket", "app", "/status/lastHandledReconcileAt", json!("then"))
        .await;
    store.session.end().await;
}

#[tokio::test]
async fn status_url() {
    let (status, _, store) = stored().await;
    let path = store.session.here("/bucket/@home/app/latest.tar.gz");
    assert!(status["url"].as_str().unwrap().ends_with(&path), "{status}");
    store.session.end().await;
}

/// As in Flux, that of the artifact: rules that change no object are not shown.
#[tokio::test]
async fn status_observed_ignore() {
    let (_, _, store) = stored().await;
    store.server.put("b.md", "b");
    store.change("app", json!({ "ignore": "*.txt" })).await;
    store
        .session
        .is("Bucket", "app", "/status/observedIgnore", json!("*.txt"))
        .await;
    store.session.end().await;
}
