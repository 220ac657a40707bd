//! Sources of other controllers, as those leave them in the cluster.

use std::fmt::Debug;

use equate_api::source::{Bucket, ExternalArtifact, OciRepository};
use equate_controllers::Policy;
use equate_testkit::eventually::eventually;
use kube::api::{Api, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{CustomResourceExt, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::config;
use crate::artifact_server::{ArtifactServer, published};
use crate::session::{DEADLINE, Options, Session};

const REVISION: &str = "latest@sha256:1111111111111111111111111111111111111111111111111111111111111111";
const ORIGIN: &str = "main@sha1:2222222222222222222222222222222222222222";

/// A source of a kind with an artifact, and a Kustomization of it; returns the Kustomization's status.
async fn reads<K>(spec: Value) -> Value
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + CustomResourceExt
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let options = Options {
        policy: Policy {
            external_artifacts: true,
            ..Policy::default()
        },
        // another process reconciles the source
        selector: Some("!far".to_owned()),
        ..Options::default()
    };
    let session = Session::anywhere_with(&[], options).await;
    session.define(K::crd()).await;
    let kind = K::kind(&());
    let object = json!({
        "apiVersion": K::api_version(&()),
        "kind": kind,
        "metadata": { "name": "app", "namespace": session.home, "labels": { "far": "yes" } },
        "spec": spec,
    });
    let sources: Api<K> = Api::namespaced(session.client.clone(), &session.home);
    let create = async || {
        let object: K = serde_json::from_value(object.clone()).unwrap();
        sources.create(&PostParams::default(), &object).await
    };
    eventually("the kind is served", DEADLINE, create).await;
    let source = json!({ "sourceRef": { "kind": kind, "name": "app" } });
    session.kustomize("apps", "apps", source).await;
    session.fails("apps", "ArtifactFailed").await;

    let server = ArtifactServer::start().await;
    let text = session.here(&config("a", "one"));
    let mut artifact = server.publish("first", REVISION, &[("apps/a.yaml", &text)]);
    artifact["metadata"] = json!({ "org.opencontainers.image.revision": ORIGIN });
    published::<K>(&session, "app", &artifact).await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    session.ready("apps", REVISION).await;
    let object = session.look("Kustomization", "@home", "apps").await;
    session.end().await;
    object["status"].clone()
}

#[tokio::test]
async fn spec_source_ref_kind_ocirepository() {
    let spec = json!({ "url": "oci://registry.invalid/app", "interval": "10m" });
    reads::<OciRepository>(spec).await;
}

#[tokio::test]
async fn spec_source_ref_kind_bucket() {
    let spec = json!({ "bucketName": "app", "endpoint": "bucket.invalid", "interval": "10m" });
    reads::<Bucket>(spec).await;
}

#[tokio::test]
async fn spec_source_ref_kind_external_artifact() {
    let theirs = json!({ "apiVersion": "example.org/v1", "kind": "Thing", "name": "app" });
    reads::<ExternalArtifact>(json!({ "sourceRef": theirs })).await;
}

/// Where the artifact names its original revision.
#[tokio::test]
async fn status_last_applied_origin_revision() {
    let spec = json!({ "url": "oci://registry.invalid/app", "interval": "10m" });
    let status = reads::<OciRepository>(spec).await;
    assert_eq!(status["lastAppliedOriginRevision"], json!(ORIGIN));
    assert_eq!(status["history"][0]["metadata"]["originRevision"], json!(ORIGIN));
}
