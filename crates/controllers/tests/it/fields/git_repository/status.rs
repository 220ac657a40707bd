//! The status.

use serde_json::{Value, json};

use crate::session::Session;

async fn stored() -> (Value, String, Session) {
    let session = Session::anywhere(&[("a.yaml", "a: 1\n")]).await;
    let commit = session.repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    session.source("app", json!({})).await;
    let status = session.stored("app", &commit).await;
    (status, commit, session)
}

#[tokio::test]
async fn status_artifact() {
    let (status, commit, session) = stored().await;
    let artifact = &status["artifact"];
    assert_eq!(artifact["revision"], json!(format!("main@sha1:{commit}")));
    let path = session.here(&format!("gitrepository/@home/app/{commit}.tar.gz"));
    assert_eq!(artifact["path"], json!(path));
    assert!(artifact["url"].as_str().unwrap().ends_with(&path), "{artifact}");
    assert!(
        artifact["digest"].as_str().unwrap().starts_with("sha256:"),
        "{artifact}"
    );
    assert!(artifact["lastUpdateTime"].is_string(), "{artifact}");
    let archive = session.folder().join("artifacts").join(&path);
    assert_eq!(artifact["size"], json!(std::fs::metadata(archive).unwrap().len()));
    session.end().await;
}

#[tokio::test]
async fn status_conditions() {
    let (status, commit, session) = stored().await;
    let message = format!("stored artifact for revision 'main@sha1:{commit}'");
    let conditions = status["conditions"].as_array().unwrap();
    for of in ["Ready", "ArtifactInStorage"] {
        let said = conditions
            .iter()
            .find(|condition| condition["type"] == *of)
            .unwrap();
        assert_eq!(said["status"], json!("True"));
        assert_eq!(said["reason"], json!("Succeeded"));
        assert_eq!(said["message"], json!(message));
    }
    assert_eq!(conditions.len(), 2, "{conditions:?}");
    session.end().await;
}

#[tokio::test]
async fn status_observed_generation() {
    let (status, _, session) = stored().await;
    assert_eq!(status["observedGeneration"], json!(1));
    session.change("app", json!({ "interval": "2h" })).await;
    session
        .is("GitRepository", "app", "/status/observedGeneration", json!(2))
        .await;
    session.end().await;
}

#[tokio::test]
async fn status_last_handled_reconcile_at() {
    let (_, _, session) = stored().await;
    let asked = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "then" } } });
    session
        .merge::<equate_api::source::GitRepository>("@home", "app", asked)
        .await;
    session
        .is(
            "GitRepository",
            "app",
            "/status/lastHandledReconcileAt",
            json!("then"),
        )
        .await;
    session.end().await;
}

/// The settings that the artifact was made with.
async fn observed(spec: Value, field: &str, expected: Value) {
    let session = Session::anywhere(&[("lib/a.yaml", "a: 1\n")]).await;
    session
        .repository
        .commit_to("other", "other", &[("c.yaml", Some("c: 1\n"))])
        .unwrap();
    session
        .source("other", json!({ "ref": { "branch": "other" } }))
        .await;
    session.source("app", spec.clone()).await;
    session
        .is("GitRepository", "app", &format!("/status/{field}"), expected)
        .await;
    let none: serde_json::Map<String, Value> = spec
        .as_object()
        .unwrap()
        .keys()
        .map(|field| (field.clone(), Value::Null))
        .collect();
    session.change("app", Value::Object(none)).await;
    session
        .is("GitRepository", "app", &format!("/status/{field}"), Value::Null)
        .await;
    session.end().await;
}

#[tokio::test]
async fn status_observed_ignore() {
    observed(json!({ "ignore": "*.md" }), "observedIgnore", json!("*.md")).await;
}

#[tokio::test]
async fn status_observed_sparse_checkout() {
    let spec = json!({ "sparseCheckout": ["lib"] });
    observed(spec, "observedSparseCheckout", json!(["lib"])).await;
}

#[tokio::test]
async fn status_observed_recurse_submodules() {
    observed(
        json!({ "recurseSubmodules": true }),
        "observedRecurseSubmodules",
        json!(true),
    )
    .await;
}

#[tokio::test]
async fn status_observed_include() {
    let include = json!([{ "repository": { "name": "other" }, "toPath": "vendor" }]);
    observed(json!({ "include": include }), "observedInclude", include).await;
}

#[tokio::test]
async fn status_included_artifacts() {
    let include = json!({ "include": [{ "repository": { "name": "other" } }] });
    let session = Session::anywhere(&[("lib/a.yaml", "a: 1\n")]).await;
    let other = session
        .repository
        .commit_to("other", "other", &[("c.yaml", Some("c: 1\n"))])
        .unwrap();
    session
        .source("other", json!({ "ref": { "branch": "other" } }))
        .await;
    session.source("app", include).await;
    let status = session.holds("app", &["lib/a.yaml", "other/c.yaml"]).await;
    let theirs = session.stored("other", &other).await;
    assert_eq!(status["includedArtifacts"], json!([theirs["artifact"]]));
    session.end().await;
}
