//! What objects ask for themselves.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::super::{config, manifest};
use crate::session::Session;

const GROUP: &str = "kustomize.toolkit.fluxcd.io";

/// A ConfigMap with an annotation of Flux's.
fn asking(name: &str, annotation: &str, asked: &str, more: Value) -> String {
    let mut object: Value = serde_json::from_str(&manifest("ConfigMap", name, more)).unwrap();
    object["metadata"]["annotations"][format!("{GROUP}/{annotation}")] = json!(asked);
    object.to_string()
}

/// Fields that others wrote stay.
#[tokio::test]
async fn annotation_ssa_merge() {
    let ours = asking("a", "ssa", "Merge", json!({ "data": { "value": "one" } }));
    let session = Session::anywhere(&[("apps/a.yaml", &*ours)]).await;
    let theirs = manifest("ConfigMap", "a", json!({ "data": { "theirs": "two" } }));
    session.create(serde_json::from_str(&theirs).unwrap()).await;
    session.kustomize("apps", "apps", json!({})).await;
    session
        .is(
            "ConfigMap",
            "a",
            "/data",
            json!({ "value": "one", "theirs": "two" }),
        )
        .await;
    session.end().await;
}

/// Created, and then left alone.
#[tokio::test]
async fn annotation_ssa_if_not_present() {
    let at = |value: &str| asking("a", "ssa", "IfNotPresent", json!({ "data": { "value": value } }));
    let session = Session::anywhere(&[("apps/a.yaml", &*at("one"))]).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    let revision = session.commit(&[("apps/a.yaml", Some(&*at("two")))]);
    session.ready("apps", &revision).await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    session.end().await;
}

#[tokio::test]
async fn annotation_ssa_ignore() {
    let ours = asking("a", "ssa", "Ignore", json!({ "data": { "value": "one" } }));
    let files = [("apps/a.yaml", &*ours), ("apps/b.yaml", &*config("b", "one"))];
    let session = Session::anywhere(&files).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.exists("ConfigMap", "b", true).await;
    session.exists("ConfigMap", "a", false).await;
    session.end().await;
}

#[tokio::test]
async fn annotation_prune() {
    let kept = asking("a", "prune", "Disabled", json!({}));
    let files = [("apps/a.yaml", &*kept), ("apps/b.yaml", &*config("b", "one"))];
    let session = Session::anywhere(&files).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.exists("ConfigMap", "a", true).await;
    let revision = session.commit(&[("apps/a.yaml", None)]);
    session.ready("apps", &revision).await;
    session.exists("ConfigMap", "a", true).await;
    session.end().await;
}

/// This object may be made anew, and no other.
#[tokio::test]
async fn annotation_force() {
    let fixed = |name: &str, value: &str, asked: &str| {
        asking(
            name,
            "force",
            asked,
            json!({ "immutable": true, "data": { "value": value } }),
        )
    };
    let files = [
        ("apps/a.yaml", &*fixed("a", "one", "Enabled")),
        ("apps/b.yaml", &*fixed("b", "one", "Disabled")),
    ];
    let session = Session::anywhere(&files).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.is("ConfigMap", "b", "/data/value", json!("one")).await;
    session.commit(&[
        ("apps/a.yaml", Some(&*fixed("a", "two", "Enabled"))),
        ("apps/b.yaml", Some(&*fixed("b", "two", "Disabled"))),
    ]);
    session.is("ConfigMap", "a", "/data/value", json!("two")).await;
    session.fails("apps", "ReconciliationFailed").await;
    session.is("ConfigMap", "b", "/data/value", json!("one")).await;
    session.end().await;
}

#[tokio::test]
async fn annotation_substitute() {
    let raw = asking(
        "a",
        "substitute",
        "disabled",
        json!({ "data": { "value": "${colour}" } }),
    );
    let files = [
        ("apps/a.yaml", &*raw),
        ("apps/b.yaml", &*config("b", "${colour}")),
    ];
    let session = Session::anywhere(&files).await;
    let spec = json!({ "postBuild": { "substitute": { "colour": "red" } } });
    session.kustomize("apps", "apps", spec).await;
    session.is("ConfigMap", "b", "/data/value", json!("red")).await;
    session
        .is("ConfigMap", "a", "/data/value", json!("${colour}"))
        .await;
    session.end().await;
}

/// In the cluster: whoever needs to may stop what is done to an object.
#[tokio::test]
async fn annotation_reconcile() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    let key = format!("{GROUP}/reconcile");
    let stop = json!({ "metadata": { "annotations": { &key: "disabled" } }, "data": { "value": "by hand" } });
    session.merge::<ConfigMap>("@home", "a", stop).await;
    let revision = session.commit(&[("apps/a.yaml", Some(&*config("a", "two")))]);
    session.ready("apps", &revision).await;
    session
        .is("ConfigMap", "a", "/data/value", json!("by hand"))
        .await;
    let go = json!({ "metadata": { "annotations": { &key: null } } });
    session.merge::<ConfigMap>("@home", "a", go).await;
    session.is("ConfigMap", "a", "/data/value", json!("two")).await;
    session.end().await;
}

/// A field changed by hand is put right.
#[tokio::test]
async fn spec_force_is_not_needed_for_drift() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    session
        .merge::<ConfigMap>("@home", "a", json!({ "data": { "value": "by hand" } }))
        .await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    session.end().await;
}

/// On the Kustomization: a run that somebody asks for is answered with their token.
#[tokio::test]
async fn annotation_requested_at() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.exists("ConfigMap", "a", true).await;
    let asked = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "now" } } });
    session.patch("apps", asked).await;
    session
        .is(
            "Kustomization",
            "apps",
            "/status/lastHandledReconcileAt",
            json!("now"),
        )
        .await;
    session.end().await;
}
