//! The times of applying, and the objects after it.

use equate_api::kustomize::{Kustomization, KustomizationStatus};
use equate_api::meta::{ConditionType, condition};
use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::super::{config, manifest, manifest_in, workload};
use crate::session::{DEADLINE, Options, Session};

async fn deletes(prune: bool) {
    let files = [
        ("apps/a.yaml", &*config("a", "one")),
        ("apps/b.yaml", &*config("b", "one")),
    ];
    let session = Session::anywhere(&files).await;
    session.kustomize("apps", "apps", json!({ "prune": prune })).await;
    session.exists("ConfigMap", "b", true).await;
    let revision = session.commit(&[("apps/b.yaml", None)]);
    session.ready("apps", &revision).await;
    session.exists("ConfigMap", "b", !prune).await;
    session.exists("ConfigMap", "a", true).await;
    session.end().await;
}

#[tokio::test]
async fn spec_prune() {
    deletes(true).await;
}

#[tokio::test]
async fn spec_prune_false() {
    deletes(false).await;
}

/// The objects of a deleted Kustomization.
async fn deleted(policy: &str, prune: bool, stays: bool) {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    let spec = json!({ "prune": prune, "deletionPolicy": policy });
    session.kustomize("apps", "apps", spec).await;
    session.exists("ConfigMap", "a", true).await;
    session.exists("Kustomization", "apps", true).await;
    session
        .until("apps", "applied", |status| status.last_applied_revision.is_some())
        .await;
    session.delete::<Kustomization>("@home", "apps").await;
    session.exists("Kustomization", "apps", false).await;
    session.exists("ConfigMap", "a", stays).await;
    session.end().await;
}

#[tokio::test]
async fn spec_deletion_policy_mirror_prune() {
    deleted("MirrorPrune", true, false).await;
    deleted("MirrorPrune", false, true).await;
}

#[tokio::test]
async fn spec_deletion_policy_delete() {
    deleted("Delete", false, false).await;
}

#[tokio::test]
async fn spec_deletion_policy_orphan() {
    deleted("Orphan", true, true).await;
}

/// The Kustomization stays until its objects are gone.
#[tokio::test]
async fn spec_deletion_policy_wait_for_termination() {
    let held = manifest(
        "ConfigMap",
        "a",
        json!({ "metadata": { "finalizers": ["equate.test/held"] } }),
    );
    let session = Session::anywhere(&[("apps/a.yaml", &*held)]).await;
    session
        .kustomize("apps", "apps", json!({ "deletionPolicy": "WaitForTermination" }))
        .await;
    session
        .until("apps", "applied", |status| status.last_applied_revision.is_some())
        .await;
    session.delete::<Kustomization>("@home", "apps").await;
    eventually("the object is asked to go", DEADLINE, async || {
        match session.look("ConfigMap", "@home", "a").await["metadata"]["deletionTimestamp"].is_string() {
            true => Ok(()),
            false => Err("it is not"),
        }
    })
    .await;
    session.exists("Kustomization", "apps", true).await;
    session
        .merge::<ConfigMap>("@home", "a", json!({ "metadata": { "finalizers": null } }))
        .await;
    session.exists("ConfigMap", "a", false).await;
    session.exists("Kustomization", "apps", false).await;
    session.end().await;
}

#[tokio::test]
async fn spec_suspend() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    session
        .kustomize("apps", "apps", json!({ "suspend": true }))
        .await;
    session
        .kustomize("also", "apps", json!({ "nameSuffix": "-also" }))
        .await;
    session
        .is("ConfigMap", "a-also", "/data/value", json!("one"))
        .await;
    session.exists("ConfigMap", "a", false).await;
    session
        .patch("apps", json!({ "spec": { "suspend": false } }))
        .await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    session.end().await;
}

/// An immutable field: the object is recreated.
#[tokio::test]
async fn spec_force() {
    let fixed = |value: &str| {
        manifest(
            "ConfigMap",
            "a",
            json!({ "immutable": true, "data": { "value": value } }),
        )
    };
    let session = Session::anywhere(&[("apps/a.yaml", &*fixed("one"))]).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    session.commit(&[("apps/a.yaml", Some(&*fixed("two")))]);
    let message = session.fails("apps", "ReconciliationFailed").await;
    assert!(
        message.contains("ConfigMap/@home/a".replace("@home", &session.home).as_str()),
        "{message}"
    );
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    session.patch("apps", json!({ "spec": { "force": true } })).await;
    session.is("ConfigMap", "a", "/data/value", json!("two")).await;
    session.end().await;
}

/// Objects without a watch are read each time.
#[tokio::test]
async fn spec_interval() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "${colour}"))]).await;
    let colours = |value: &str| manifest("ConfigMap", "colours", json!({ "data": { "colour": value } }));
    session
        .create(serde_json::from_str(&colours("blue")).unwrap())
        .await;
    let from = json!([{ "kind": "ConfigMap", "name": "colours" }]);
    let spec = json!({ "interval": "1s", "postBuild": { "substituteFrom": from } });
    session.kustomize("apps", "apps", spec).await;
    session.is("ConfigMap", "a", "/data/value", json!("blue")).await;
    session
        .merge::<ConfigMap>("@home", "colours", json!({ "data": { "colour": "red" } }))
        .await;
    session.is("ConfigMap", "a", "/data/value", json!("red")).await;
    session.end().await;
}

/// A failure is retried sooner than the interval.
#[tokio::test]
async fn spec_retry_interval() {
    let far = manifest_in("@home-later", "ConfigMap", "a", json!({}));
    let session = Session::anywhere(&[("apps/a.yaml", &*far)]).await;
    let spec = json!({ "interval": "1h", "retryInterval": "1s" });
    session.kustomize("apps", "apps", spec).await;
    let message = session.fails("apps", "ReconciliationFailed").await;
    assert!(message.contains(&session.here("@home-later")), "{message}");
    let tries = |status: &KustomizationStatus| {
        condition(&status.conditions, ConditionType::Reconciling)
            .is_some_and(|found| found.status == "True" && found.reason == "ProgressingWithRetry")
    };
    session.until("apps", "tries again", tries).await;
    session.namespace("@home-later").await;
    session.exists_in("@home-later", "ConfigMap", "a", true).await;
    session.end().await;
}

/// Health checks have this much time.
#[tokio::test]
async fn spec_timeout() {
    let session = Session::anywhere(&[("apps/web.yaml", &*never_available())]).await;
    session
        .kustomize(
            "apps",
            "apps",
            json!({ "wait": true, "timeout": "1s", "retryInterval": "1s" }),
        )
        .await;
    let message = session.fails("apps", "HealthCheckFailed").await;
    assert!(message.contains("Deployment"), "{message}");
    session.end().await;
}

/// A Deployment that waits for a missing node; where there are no nodes, for its image.
pub(super) fn never_available() -> String {
    let mut object: Value = serde_json::from_str(&workload("web", "registry.invalid/web:1")).unwrap();
    object["spec"]["replicas"] = json!(1);
    object["spec"]["template"]["spec"]["nodeSelector"] = json!({ "equate.test/nowhere": "true" });
    object["spec"]["template"]["metadata"]["annotations"] =
        json!({ "equate.dev/simulate": "ImagePullBackOff" });
    object.to_string()
}

#[tokio::test]
async fn spec_source_ref_kind_git_repository() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    let source =
        json!({ "apiVersion": "source.toolkit.fluxcd.io/v1beta2", "kind": "GitRepository", "name": "fleet" });
    session
        .kustomize("apps", "apps", json!({ "sourceRef": source }))
        .await;
    session.exists("ConfigMap", "a", true).await;
    session.end().await;
}

/// The kind counts, as with Flux: an older version of it is the same source.
#[tokio::test]
async fn spec_source_ref_api_version() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    let source =
        json!({ "apiVersion": "source.toolkit.fluxcd.io/v1beta2", "kind": "GitRepository", "name": "fleet" });
    session
        .kustomize("apps", "apps", json!({ "sourceRef": source }))
        .await;
    session.exists("ConfigMap", "a", true).await;
    session.end().await;
}

/// A missing source is awaited.
#[tokio::test]
async fn spec_source_ref_name() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    let source = |name: &str| json!({ "sourceRef": { "kind": "GitRepository", "name": name } });
    session.kustomize("apps", "apps", source("absent")).await;
    let message = session.fails("apps", "ArtifactFailed").await;
    assert!(message.contains("absent"), "{message}");
    session.patch("apps", json!({ "spec": source("fleet") })).await;
    session.exists("ConfigMap", "a", true).await;
    session.end().await;
}

#[tokio::test]
async fn spec_source_ref_namespace() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    session.namespace("@home-team").await;
    let mut object = serde_json::to_value(crate::session::kustomization("apps", "apps", json!({}))).unwrap();
    object["metadata"] = json!({ "name": "apps", "namespace": "@home-team", "labels": session.labels() });
    object["spec"]["sourceRef"]["namespace"] = json!("@home");
    session.create(object).await;
    session.exists("ConfigMap", "a", true).await;
    session.end().await;
}

/// An object with a shard's key belongs to another process, unless this one has that shard.
#[tokio::test]
async fn label_sharding_key() {
    let options = Options {
        selector: Some("!sharding.fluxcd.io/key".to_owned()),
        ..Options::default()
    };
    let session = Session::anywhere_with(&[("apps/a.yaml", &*config("a", "one"))], options).await;
    let mut object = serde_json::to_value(crate::session::kustomization("apps", "apps", json!({}))).unwrap();
    object["metadata"]["namespace"] = json!("@home");
    object["metadata"]["labels"] = session.labels();
    object["metadata"]["labels"]["sharding.fluxcd.io/key"] = json!("one");
    session.create(object).await;
    session
        .kustomize("also", "apps", json!({ "nameSuffix": "-also" }))
        .await;
    session.exists("ConfigMap", "a-also", true).await;
    session.exists("ConfigMap", "a", false).await;
    let status = session.look("Kustomization", "@home", "apps").await["status"].clone();
    assert_eq!(status["observedGeneration"], json!(-1));
    session
        .patch(
            "apps",
            json!({ "metadata": { "labels": { "sharding.fluxcd.io/key": null } } }),
        )
        .await;
    session.exists("ConfigMap", "a", true).await;
    session.end().await;
}
