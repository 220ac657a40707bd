//! The status.

use serde_json::{Value, json};

use super::{KIND, MADE, copies, generate, holds, start, succeeded};
use crate::fields::objects::told;
use crate::session::Session;

/// The status of a generator with one artifact, and the ExternalArtifact.
async fn generated() -> (Session, Value, Value) {
    let session = start().await;
    generate(
        &session,
        copies(json!([{ "from": "@git/apps/db/**", "to": "@artifact/" }])),
    )
    .await;
    let status = succeeded(&session, 1).await;
    let made = holds(&session, "app", &[("a.yaml", "a: db\n")]).await;
    (session, status, made)
}

/// Its generation is that of the spec.
#[tokio::test]
async fn status_conditions() {
    let (session, status, _) = generated().await;
    let ready = told(&status, "Ready");
    assert_eq!(
        (&ready["status"], &ready["observedGeneration"]),
        (&json!("True"), &json!(1))
    );
    session
        .respec(
            KIND,
            "split",
            json!({ "commonMetadata": { "labels": { "a": "b" } } }),
        )
        .await;
    session.is(MADE, "app", "/metadata/labels/a", json!("b")).await;
    session
        .is(KIND, "split", "/status/conditions/0/observedGeneration", json!(2))
        .await;
    session.end().await;
}

/// An entry names the ExternalArtifact and its archive.
async fn entry(field: &str, expected: impl Fn(&Session, &Value) -> Value) {
    let (session, status, made) = generated().await;
    assert_eq!(
        status["inventory"][0][field],
        expected(&session, &made),
        "{status}"
    );
    assert_eq!(status["inventory"].as_array().unwrap().len(), 1);
    session.end().await;
}

#[tokio::test]
async fn status_inventory_name() {
    entry("name", |_, made| made["metadata"]["name"].clone()).await;
}

#[tokio::test]
async fn status_inventory_namespace() {
    entry("namespace", |session, _| json!(session.home)).await;
}

#[tokio::test]
async fn status_inventory_digest() {
    entry("digest", |_, made| made["status"]["artifact"]["digest"].clone()).await;
}

#[tokio::test]
async fn status_inventory_filename() {
    entry("filename", |_, made| {
        let path = made["status"]["artifact"]["path"].as_str().unwrap();
        json!(path.rsplit('/').next().unwrap())
    })
    .await;
}

#[tokio::test]
async fn status_last_handled_reconcile_at() {
    let (session, status, _) = generated().await;
    assert_eq!(status["lastHandledReconcileAt"], Value::Null);
    session.demand(KIND, "split", "then").await;
    session.end().await;
}

/// It changes with the revision of a source, also where no artifact does.
#[tokio::test]
async fn status_observed_sources_digest() {
    let (session, status, made) = generated().await;
    let digest = status["observedSourcesDigest"].clone();
    assert!(digest.as_str().unwrap().starts_with("sha256:"), "{status}");
    session.commit(&[("other", Some("1"))]);
    let what = "the digest changes";
    equate_testkit::eventually::eventually(what, crate::session::DEADLINE, async || {
        let status = session.look(KIND, "@home", "split").await["status"].clone();
        match status["observedSourcesDigest"] == digest {
            false => Ok(()),
            true => Err(status.to_string()),
        }
    })
    .await;
    let kept = session.look(MADE, "@home", "app").await;
    assert_eq!(kept["status"], made["status"]);
    session.end().await;
}
