//! ExternalArtifact: of an ArtifactGenerator, and of a third party.

use equate_api::extensions::ArtifactGenerator;
use equate_api::source::ExternalArtifact;
use equate_controllers::Policy;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};

use super::config;
use super::objects::told;
use crate::artifact_server::{ArtifactServer, published};
use crate::session::{Options, Session};

const KIND: &str = "ExternalArtifact";
const REVISION: &str = "latest@sha256:1111111111111111111111111111111111111111111111111111111111111111";

async fn start(selector: Option<&str>) -> Session {
    let options = Options {
        policy: Policy {
            external_artifacts: true,
            ..Policy::default()
        },
        selector: selector.map(str::to_owned),
        kinds: vec![ExternalArtifact::crd(), ArtifactGenerator::crd()],
        ..Options::default()
    };
    Session::anywhere_with(&[("apps/a.yaml", &*config("a", "one"))], options).await
}

/// The ExternalArtifact of a generator names it as its source.
async fn named(field: &str, expected: Value) {
    let session = start(None).await;
    let spec = json!({
        "sources": [{ "alias": "git", "kind": "GitRepository", "name": "fleet" }],
        "artifacts": [{ "name": "app", "copy": [{ "from": "@git/apps", "to": "@artifact/" }] }],
    });
    session.declare("ArtifactGenerator", "split", spec).await;
    session
        .is(KIND, "app", &format!("/spec/sourceRef/{field}"), expected)
        .await;
    // a consumer reads it, and a foreign reference is put right
    session
        .respec(KIND, "app", json!({ "sourceRef": { field: "other" } }))
        .await;
    session.demand("ArtifactGenerator", "split", "now").await;
    session
        .kustomize(
            "apps",
            "apps",
            json!({ "sourceRef": { "kind": KIND, "name": "app" } }),
        )
        .await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    session.end().await;
}

#[tokio::test]
async fn spec_source_ref_api_version() {
    named("apiVersion", json!("source.extensions.fluxcd.io/v1beta1")).await;
}

#[tokio::test]
async fn spec_source_ref_kind() {
    named("kind", json!("ArtifactGenerator")).await;
}

#[tokio::test]
async fn spec_source_ref_name() {
    named("name", json!("split")).await;
}

#[tokio::test]
async fn spec_source_ref_namespace() {
    named("namespace", json!("@home")).await;
}

/// One of a third party: its consumer follows the artifact.
#[tokio::test]
async fn status_artifact() {
    let session = start(Some("!far")).await;
    let theirs = json!({ "apiVersion": "example.org/v1", "kind": "Thing", "name": "app" });
    let object = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": KIND,
        "metadata": { "name": "app", "namespace": "@home", "labels": { "far": "yes" } },
        "spec": { "sourceRef": theirs },
    });
    session.create(object).await;
    session
        .kustomize(
            "apps",
            "apps",
            json!({ "sourceRef": { "kind": KIND, "name": "app" } }),
        )
        .await;
    session.fails("apps", "ArtifactFailed").await;
    let server = ArtifactServer::start().await;
    let text = session.here(&config("a", "one"));
    let artifact = server.publish("first", REVISION, &[("apps/a.yaml", &text)]);
    published::<ExternalArtifact>(&session, "app", &artifact).await;
    session.ready("apps", REVISION).await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    session.end().await;
}

#[tokio::test]
async fn status_conditions() {
    let session = start(None).await;
    let spec = json!({
        "sources": [{ "alias": "git", "kind": "GitRepository", "name": "fleet" }],
        "artifacts": [{ "name": "app", "copy": [{ "from": "@git/apps", "to": "@artifact/" }] }],
    });
    session.declare("ArtifactGenerator", "split", spec).await;
    let status = session
        .reports(KIND, "app", "Succeeded", "Artifact is ready")
        .await;
    assert_eq!(told(&status, "Ready")["status"], json!("True"));
    session.end().await;
}
