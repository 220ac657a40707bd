//! Annotations of objects.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::super::{config, manifest};
use crate::session::Session;

const GROUP: &str = "kustomize.toolkit.fluxcd.io";

/// A ConfigMap with an annotation of Flux.
fn asking(name: &str, annotation: &str, asked: &str, more: Value) -> String {
    let mut object: Value = serde_json::from_str(&manifest("ConfigMap", name, more)).unwrap();
    object["metadata"]["annotations"][format!("{GROUP}/{annotation}")] = json!(asked);
    object.to_string()
}

/// The value of a field that `kubectl edit` added, for an object with an annotation.
async fn edited(asked: &str, left: Value) {
    let at = |value: &str| asking("a", "ssa", asked, json!({ "data": { "value": value } }));
    let session = Session::anywhere(&[("apps/a.yaml", &*at("one"))]).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    let theirs = json!({ "data": { "theirs": "kept" } });
    session.edit("ConfigMap", "a", "kubectl-edit", theirs).await;
    let revision = session.commit(&[("apps/a.yaml", Some(&*at("two")))]);
    session.ready("apps", &revision).await;
    session.is("ConfigMap", "a", "/data", left).await;
    session.end().await;
}

/// kubectl's field is removed.
#[tokio::test]
async fn annotation_ssa_override() {
    edited("Override", json!({ "value": "two" })).await;
}

/// kubectl's field stays.
#[tokio::test]
async fn annotation_ssa_merge() {
    edited("Merge", json!({ "value": "two", "theirs": "kept" })).await;
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

/// Only this object may be recreated.
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

/// Set in the cluster: it stops all changes of an object.
#[tokio::test]
async fn annotation_reconcile() {
    let files = [
        ("apps/a.yaml", &*config("a", "one")),
        ("apps/b.yaml", &*config("b", "one")),
    ];
    let session = Session::anywhere(&files).await;
    session.kustomize("apps", "apps", json!({})).await;
    for name in ["a", "b"] {
        session.is("ConfigMap", name, "/data/value", json!("one")).await;
    }
    let key = format!("{GROUP}/reconcile");
    let stop = json!({ "metadata": { "annotations": { &key: "disabled" } }, "data": { "value": "by hand" } });
    session.merge::<ConfigMap>("@home", "a", stop).await;
    // a later object is corrected, so the change was noticed
    let drift = json!({ "data": { "value": "by hand" } });
    session.merge::<ConfigMap>("@home", "b", drift).await;
    session.is("ConfigMap", "b", "/data/value", json!("one")).await;
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

/// A field changed by hand is corrected.
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

/// On the Kustomization: a requested run is answered with the request's token.
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

/// On the Kustomization: annotations of its events.
#[tokio::test]
async fn annotation_event() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    session
        .kustomize("apps", "apps", json!({ "suspend": true }))
        .await;
    let team = json!({ "metadata": { "annotations": { "event.toolkit.fluxcd.io/team": "blue" } } });
    session.patch("apps", team).await;
    session
        .patch("apps", json!({ "spec": { "suspend": false } }))
        .await;
    session
        .carries("Kustomization", "apps", "event.toolkit.fluxcd.io/team", "blue")
        .await;
    session.end().await;
}

fn ours(name: &str, value: &str) -> Value {
    json!({ "metadata": { "annotations": { format!("equate.dev/{name}"): value } } })
}

/// Sets an annotation of Equate and requests a run in one write; waits until that run has ended.
async fn runs_with(session: &Session, name: &str, value: &str) {
    let mut patch = ours(name, value);
    patch["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"] = json!(value);
    session.patch("apps", patch).await;
    let answered = "/status/lastHandledReconcileAt";
    session.is("Kustomization", "apps", answered, json!(value)).await;
}

/// A Kustomization of four ConfigMaps, and its first revision.
async fn of_four() -> Session {
    let files: Vec<(String, String)> = ["a", "b", "c", "d"]
        .map(|name| (format!("apps/{name}.yaml"), config(name, "one")))
        .into();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let session = Session::anywhere(&files).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.ready("apps", &session.commit(&[])).await;
    session
}

/// The number of objects that a revision may delete.
#[tokio::test]
async fn annotation_prune_budget() {
    let session = of_four().await;
    session.patch("apps", ours("prune-budget", "1")).await;
    let one = session.commit(&[("apps/a.yaml", None)]);
    session.ready("apps", &one).await;
    session.exists("ConfigMap", "a", false).await;
    session.commit(&[("apps/b.yaml", None), ("apps/c.yaml", None)]);
    let message = session.fails("apps", "PruneBudgetExceeded").await;
    assert!(
        message.contains("2 of 3 objects would be deleted, and the prune budget is 1 object "),
        "{message}"
    );
    session.exists("ConfigMap", "b", true).await;
    session.exists("ConfigMap", "c", true).await;
    session.patch("apps", ours("prune-budget", "100%")).await;
    session.exists("ConfigMap", "b", false).await;
    session.exists("ConfigMap", "c", false).await;
    session.exists("ConfigMap", "d", true).await;
    session.end().await;
}

/// This revision may delete its undeclared objects, and no other may.
#[tokio::test]
async fn annotation_prune_confirm() {
    let session = of_four().await;
    session.patch("apps", ours("prune-budget", "0")).await;
    let revision = session.commit(&[("apps/a.yaml", None), ("apps/b.yaml", None)]);
    let message = session.fails("apps", "PruneBudgetExceeded").await;
    assert!(
        message.ends_with(&format!("equate.dev/prune-confirm={revision}")),
        "{message}"
    );
    runs_with(&session, "prune-confirm", "main@sha1:0").await;
    session.fails("apps", "PruneBudgetExceeded").await;
    session.exists("ConfigMap", "a", true).await;
    session.patch("apps", ours("prune-confirm", &revision)).await;
    session.ready("apps", &revision).await;
    session.exists("ConfigMap", "a", false).await;
    session.exists("ConfigMap", "b", false).await;
    session.commit(&[("apps/c.yaml", None)]);
    session.fails("apps", "PruneBudgetExceeded").await;
    session.exists("ConfigMap", "c", true).await;
    session.end().await;
}

/// This revision may be empty.
#[tokio::test]
async fn annotation_allow_empty() {
    let session = of_four().await;
    let names = ["a", "b", "c", "d"];
    let paths = names.map(|name| format!("apps/{name}.yaml"));
    let mut files: Vec<(&str, Option<&str>)> = paths.iter().map(|path| (&**path, None)).collect();
    files.push(("apps/none.yaml", Some("# nothing\n")));
    let revision = session.commit(&files);
    session.fails("apps", "EmptyRender").await;
    runs_with(&session, "allow-empty", "main@sha1:0").await;
    session.fails("apps", "EmptyRender").await;
    session.exists("ConfigMap", "a", true).await;
    session.patch("apps", ours("allow-empty", &revision)).await;
    session.ready("apps", &revision).await;
    for name in names {
        session.exists("ConfigMap", name, false).await;
    }
    session.end().await;
}
