//! Drift.

use equate_testkit::eventually::eventually;
use serde_json::{Value, json};

use super::render::{MARKED, OBJECTS};
use super::{KIND, event, installed, records, start, start_with, value};
use crate::fields::objects::told;
use crate::session::{DEADLINE, Options};

fn by_hand() -> Value {
    json!({ "data": { "value": "by hand" } })
}

/// Corrected, without a revision.
#[tokio::test]
async fn spec_drift_detection_mode_enabled() {
    let session = start().await;
    installed(&session, json!({ "driftDetection": { "mode": "enabled" } })).await;
    session.set("ConfigMap", "app-map", by_hand()).await;
    value(&session, "one").await;
    event(&session, "DriftCorrected Cluster state of release").await;
    records(&session, &["v1 deployed"]).await;
    session.end().await;
}

/// Reported, and not corrected.
#[tokio::test]
async fn spec_drift_detection_mode_warn() {
    let session = start().await;
    installed(&session, json!({ "driftDetection": { "mode": "warn" } })).await;
    session.set("ConfigMap", "app-map", by_hand()).await;
    session
        .condition(KIND, "app", "Drifted", "DriftDetected", "app-map")
        .await;
    value(&session, "by hand").await;
    session.end().await;
}

/// Neither.
#[tokio::test]
async fn spec_drift_detection_mode_disabled() {
    let session = start().await;
    installed(&session, json!({ "driftDetection": { "mode": "disabled" } })).await;
    session.set("ConfigMap", "app-map", by_hand()).await;
    session.demand(KIND, "app", "now").await;
    let status = session.look(KIND, "@home", "app").await["status"].clone();
    assert_eq!(told(&status, "Drifted"), Value::Null, "{status}");
    value(&session, "by hand").await;
    session.end().await;
}

#[tokio::test]
async fn spec_drift_detection_ignore_paths() {
    let session = start().await;
    let ignore = json!([{ "paths": ["/data/revision"] }]);
    installed(
        &session,
        json!({ "driftDetection": { "mode": "enabled", "ignore": ignore } }),
    )
    .await;
    let patch = json!({ "data": { "value": "by hand", "revision": "9" } });
    session.set("ConfigMap", "app-map", patch).await;
    value(&session, "one").await;
    session
        .is("ConfigMap", "app-map", "/data/revision", json!("9"))
        .await;
    session.end().await;
}

/// The rule spares these objects and no others.
async fn spares(target: Value, expected: &[&str]) {
    let session = start_with(
        &[("charts/app/templates/marked.yaml", MARKED)],
        Options::default(),
    )
    .await;
    session.namespace("@home-far").await;
    let ignore = json!([{ "paths": ["/metadata/annotations/drift"], "target": target }]);
    installed(
        &session,
        json!({ "driftDetection": { "mode": "enabled", "ignore": ignore } }),
    )
    .await;
    let drift = json!({ "metadata": { "annotations": { "drift": "yes" } } });
    for (namespace, kind, name) in OBJECTS {
        let params = kube::api::PatchParams {
            field_manager: Some("somebody".to_owned()),
            ..kube::api::PatchParams::default()
        };
        let patch = kube::api::Patch::Merge(drift.clone());
        session
            .anything(kind, namespace)
            .patch(name, &params, &patch)
            .await
            .unwrap();
    }
    let all = OBJECTS.map(|(namespace, kind, name)| (namespace, kind, name, expected.contains(&name)));
    eventually("the others are corrected", DEADLINE, async || {
        for (namespace, kind, name, spared) in all {
            let object = session.look(kind, namespace, name).await;
            let is_corrected = object["metadata"]["annotations"]["drift"] == "no";
            if is_corrected == spared {
                return Err(format!("{kind} {name} is corrected: {is_corrected}"));
            }
        }
        Ok(())
    })
    .await;
    session.demand(KIND, "app", "again").await;
    for (namespace, kind, name, spared) in all {
        let left = if spared { "yes" } else { "no" };
        session
            .is_in(namespace, kind, name, "/metadata/annotations/drift", json!(left))
            .await;
    }
    session.end().await;
}

#[tokio::test]
async fn spec_drift_detection_ignore_target_name() {
    spares(json!({ "name": "[ac]" }), &["a", "c"]).await;
}

#[tokio::test]
async fn spec_drift_detection_ignore_target_kind() {
    spares(json!({ "kind": "Role" }), &["c"]).await;
}

#[tokio::test]
async fn spec_drift_detection_ignore_target_group() {
    spares(json!({ "group": "rbac.authorization.k8s.io" }), &["c"]).await;
}

#[tokio::test]
async fn spec_drift_detection_ignore_target_version() {
    spares(json!({ "kind": "Role", "version": "v1" }), &["c"]).await;
    spares(json!({ "kind": "Role", "version": "v2" }), &[]).await;
}

#[tokio::test]
async fn spec_drift_detection_ignore_target_namespace() {
    spares(json!({ "namespace": "@home-far" }), &["d"]).await;
}

#[tokio::test]
async fn spec_drift_detection_ignore_target_label_selector() {
    spares(json!({ "labelSelector": "tier in (front)" }), &["a"]).await;
}

#[tokio::test]
async fn spec_drift_detection_ignore_target_annotation_selector() {
    spares(json!({ "annotationSelector": "tier=back" }), &["b"]).await;
}

/// An object that opts out.
#[tokio::test]
async fn annotation_drift_detection() {
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: free\n  annotations: \
                  {helm.toolkit.fluxcd.io/driftDetection: disabled}\ndata: {value: one}\n";
    let session = start_with(&[("charts/app/templates/free.yaml", object)], Options::default()).await;
    installed(&session, json!({ "driftDetection": { "mode": "enabled" } })).await;
    session.set("ConfigMap", "free", by_hand()).await;
    session.set("ConfigMap", "app-map", by_hand()).await;
    value(&session, "one").await;
    session.demand(KIND, "app", "again").await;
    session
        .is("ConfigMap", "free", "/data/value", json!("by hand"))
        .await;
    session.end().await;
}
