//! The status.

use equate_api::helm::HelmRelease;
use equate_api::source::OciRepository;
use equate_testkit::registry::RegistryServer;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::{KIND, installed, ready, release, stalls, start};
use crate::fields::objects::{packed, told};
use crate::session::Session;

/// An install that fails.
async fn broken() -> (Session, Value) {
    let session = start().await;
    release(&session, "app", json!({ "values": { "broken": true } })).await;
    let status = stalls(&session, "InstallFailed", "").await;
    (session, status)
}

#[tokio::test]
async fn status_conditions() {
    let session = start().await;
    let status = installed(&session, json!({})).await;
    let message = session.here("Helm install succeeded for release @home/app.v1 with chart app@1.0.0");
    for of in ["Ready", "Released"] {
        let said = told(&status, of);
        assert_eq!(
            (&said["status"], &said["reason"], &said["message"]),
            (&json!("True"), &json!("InstallSucceeded"), &json!(message))
        );
    }
    assert_eq!(status["conditions"].as_array().unwrap().len(), 2, "{status}");
    session.end().await;
}

#[tokio::test]
async fn status_history() {
    let session = start().await;
    let status = installed(&session, json!({})).await;
    let first = &status["history"][0];
    for (field, expected) in [
        ("name", json!("app")),
        ("namespace", json!(session.home)),
        ("version", json!(1)),
        ("status", json!("deployed")),
        ("action", json!("install")),
        ("chartName", json!("app")),
        ("chartVersion", json!("1.0.0")),
        ("appVersion", json!("7")),
        ("apiVersion", json!("v2")),
    ] {
        assert_eq!(first[field], expected, "{field}");
    }
    assert_eq!(first["configDigest"], status["lastAttemptedConfigDigest"]);
    assert!(
        first["digest"].as_str().unwrap().starts_with("sha256:"),
        "{first}"
    );
    session
        .respec(KIND, "app", json!({ "values": { "value": "two" } }))
        .await;
    let status = ready(&session, "UpgradeSucceeded", 2).await;
    let statuses: Vec<&Value> = status["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|revision| &revision["status"])
        .collect();
    assert_eq!(statuses, [&json!("deployed"), &json!("superseded")]);
    assert_eq!(status["history"][1]["firstDeployed"], first["firstDeployed"]);
    session.end().await;
}

#[tokio::test]
async fn status_inventory_entries_id() {
    let session = start().await;
    let status = installed(&session, json!({ "values": { "web": "registry.invalid/web:1" } })).await;
    let mut ids: Vec<&str> = status["inventory"]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["id"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    let expected = [
        session.here("@home_app-map__ConfigMap"),
        session.here("@home_app-web_apps_Deployment"),
    ];
    assert_eq!(ids, expected);
    session.end().await;
}

#[tokio::test]
async fn status_inventory_entries_v() {
    let session = start().await;
    let status = installed(&session, json!({})).await;
    assert_eq!(status["inventory"]["entries"][0]["v"], json!("v1"));
    session.end().await;
}

/// All failures since the last success.
#[tokio::test]
async fn status_failures() {
    let (session, status) = broken().await;
    assert_eq!(status["failures"], json!(1), "{status}");
    session
        .respec(KIND, "app", json!({ "values": { "broken": false } }))
        .await;
    session.is(KIND, "app", "/status/failures", Value::Null).await;
    session.end().await;
}

#[tokio::test]
async fn status_install_failures() {
    let (session, status) = broken().await;
    assert_eq!(status["installFailures"], json!(1), "{status}");
    assert_eq!(status["upgradeFailures"], Value::Null, "{status}");
    session.end().await;
}

#[tokio::test]
async fn status_upgrade_failures() {
    let session = start().await;
    installed(&session, json!({})).await;
    session
        .respec(KIND, "app", json!({ "values": { "broken": true } }))
        .await;
    let status = stalls(&session, "UpgradeFailed", "").await;
    assert_eq!(status["upgradeFailures"], json!(1), "{status}");
    assert_eq!(status["installFailures"], Value::Null, "{status}");
    session.end().await;
}

#[tokio::test]
async fn status_helm_chart() {
    let session = start().await;
    let status = installed(&session, json!({})).await;
    assert_eq!(status["helmChart"], json!(session.here("@home/@home-app")));
    session.end().await;
}

#[tokio::test]
async fn status_storage_namespace() {
    let session = start().await;
    let status = installed(&session, json!({})).await;
    assert_eq!(status["storageNamespace"], json!(session.home));
    session.end().await;
}

#[tokio::test]
async fn status_observed_generation() {
    let session = start().await;
    let status = installed(&session, json!({})).await;
    assert_eq!(status["observedGeneration"], json!(1));
    session.respec(KIND, "app", json!({ "interval": "2h" })).await;
    session
        .is(KIND, "app", "/status/observedGeneration", json!(2))
        .await;
    session.end().await;
}

#[tokio::test]
async fn status_last_attempted_generation() {
    let session = start().await;
    let status = installed(&session, json!({})).await;
    assert_eq!(status["lastAttemptedGeneration"], json!(1));
    session
        .respec(KIND, "app", json!({ "values": { "broken": true } }))
        .await;
    let status = stalls(&session, "UpgradeFailed", "").await;
    assert_eq!(status["lastAttemptedGeneration"], json!(2));
    session.end().await;
}

#[tokio::test]
async fn status_last_attempted_revision() {
    let session = start().await;
    let status = installed(&session, json!({})).await;
    assert_eq!(status["lastAttemptedRevision"], json!("1.0.0"));
    session.end().await;
}

/// The digest of the chart's OCI artifact.
#[tokio::test]
async fn status_last_attempted_revision_digest() {
    let session = start().await;
    session.serves::<OciRepository>().await;
    let server = RegistryServer::open().unwrap();
    let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    let digest = server.artifact(
        "charts/app",
        "1.0.0",
        &[(layer, &packed("app", "1.0.0", &[]))],
        &[],
    );
    let source = json!({
        "url": format!("{}/charts/app", server.url()), "interval": "1h", "ref": { "tag": "1.0.0" },
        "layerSelector": { "mediaType": layer, "operation": "copy" },
    });
    session.declare("OCIRepository", "chart", source).await;
    let reference = json!({ "kind": "OCIRepository", "name": "chart" });
    let status = installed(&session, json!({ "chart": null, "chartRef": reference })).await;
    assert_eq!(status["lastAttemptedRevisionDigest"], json!(digest));
    session.end().await;
}

/// It changes with the values.
#[tokio::test]
async fn status_last_attempted_config_digest() {
    let session = start().await;
    let status = installed(&session, json!({})).await;
    let first = status["lastAttemptedConfigDigest"].clone();
    assert!(first.as_str().unwrap().starts_with("sha256:"), "{status}");
    session
        .respec(KIND, "app", json!({ "values": { "value": "two" } }))
        .await;
    let status = ready(&session, "UpgradeSucceeded", 2).await;
    assert_ne!(status["lastAttemptedConfigDigest"], first);
    session.end().await;
}

#[tokio::test]
async fn status_last_attempted_release_action_install() {
    let session = start().await;
    let status = installed(&session, json!({})).await;
    assert_eq!(status["lastAttemptedReleaseAction"], json!("install"));
    session.end().await;
}

#[tokio::test]
async fn status_last_attempted_release_action_upgrade() {
    let session = start().await;
    installed(&session, json!({})).await;
    session
        .respec(KIND, "app", json!({ "values": { "value": "two" } }))
        .await;
    let status = ready(&session, "UpgradeSucceeded", 2).await;
    assert_eq!(status["lastAttemptedReleaseAction"], json!("upgrade"));
    session.end().await;
}

#[tokio::test]
async fn status_last_attempted_release_action_duration() {
    let session = start().await;
    let status = installed(&session, json!({})).await;
    let taken = status["lastAttemptedReleaseActionDuration"].as_str().unwrap();
    assert!(
        taken.ends_with('s') && taken.starts_with(|first: char| first.is_ascii_digit()),
        "{taken}"
    );
    session.end().await;
}

/// Fields of older controllers go with the next release.
async fn cleared(field: &str, value: Value) {
    let session = start().await;
    installed(&session, json!({})).await;
    let api: Api<HelmRelease> = Api::namespaced(session.client.clone(), &session.home);
    let patch = Patch::Merge(json!({ "status": { field: value } }));
    api.patch_status("app", &PatchParams::default(), &patch)
        .await
        .unwrap();
    session
        .respec(KIND, "app", json!({ "values": { "value": "two" } }))
        .await;
    ready(&session, "UpgradeSucceeded", 2).await;
    session
        .is(KIND, "app", &format!("/status/{field}"), Value::Null)
        .await;
    session.end().await;
}

#[tokio::test]
async fn status_last_attempted_values_checksum() {
    cleared("lastAttemptedValuesChecksum", json!("0123")).await;
}

#[tokio::test]
async fn status_last_release_revision() {
    cleared("lastReleaseRevision", json!(7)).await;
}

#[tokio::test]
async fn status_last_handled_reconcile_at() {
    let session = start().await;
    let status = installed(&session, json!({})).await;
    assert_eq!(status["lastHandledReconcileAt"], Value::Null);
    session.demand(KIND, "app", "then").await;
    session.end().await;
}

/// A request of the same token as the run's is noted.
async fn requested(annotation: &str, field: &str) {
    let session = start().await;
    installed(&session, json!({})).await;
    let annotation = format!("reconcile.fluxcd.io/{annotation}");
    let annotations = json!({ "reconcile.fluxcd.io/requestedAt": "then", annotation: "then" });
    session
        .set(KIND, "app", json!({ "metadata": { "annotations": annotations } }))
        .await;
    session
        .is(KIND, "app", &format!("/status/{field}"), json!("then"))
        .await;
    session.end().await;
}

#[tokio::test]
async fn status_last_handled_force_at() {
    requested("forceAt", "lastHandledForceAt").await;
}

#[tokio::test]
async fn status_last_handled_reset_at() {
    requested("resetAt", "lastHandledResetAt").await;
}

/// A digest of a part of the spec; without that part there is none.
async fn observed(spec: Value, part: &str, field: &str) {
    let session = start().await;
    let status = installed(&session, spec).await;
    assert!(status[field].as_str().unwrap().starts_with("sha256:"), "{status}");
    session.respec(KIND, "app", json!({ part: null })).await;
    session
        .is(KIND, "app", &format!("/status/{field}"), Value::Null)
        .await;
    ready(&session, "UpgradeSucceeded", 2).await;
    session.end().await;
}

#[tokio::test]
async fn status_observed_common_metadata_digest() {
    let spec = json!({ "commonMetadata": { "labels": { "team": "blue" } } });
    observed(spec, "commonMetadata", "observedCommonMetadataDigest").await;
}

#[tokio::test]
async fn status_observed_post_renderers_digest() {
    let patch = "- {op: replace, path: /data/value, value: patched}";
    let patches = json!([{ "target": { "kind": "ConfigMap" }, "patch": patch }]);
    let spec = json!({ "postRenderers": [{ "kustomize": { "patches": patches } }] });
    observed(spec, "postRenderers", "observedPostRenderersDigest").await;
}
