//! A removed file prunes its object.

use serde_json::json;

use crate::session::{Session, config_map, inventory};

#[tokio::test]
async fn removed_objects_are_pruned() {
    let files = [
        ("apps/a.yaml", &*config_map("a", "one")),
        ("apps/b.yaml", &*config_map("b", "one")),
    ];
    let session = Session::start(&files).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.value("default", "b", Some("one")).await;
    let revision = session.commit(&[("apps/b.yaml", None)]);
    session.value("default", "b", None).await;
    let status = session.ready("apps", &revision).await;
    assert_eq!(inventory(&status), ["default_a__ConfigMap"]);
    session
        .event("apps", "Normal Progressing ConfigMap/default/b deleted")
        .await;
    session.end().await;
}

#[tokio::test]
async fn nothing_is_pruned_without_spec_prune() {
    let files = [
        ("apps/a.yaml", &*config_map("a", "one")),
        ("apps/b.yaml", &*config_map("b", "one")),
    ];
    let session = Session::start(&files).await;
    session.kustomize("apps", "apps", json!({ "prune": false })).await;
    session.value("default", "b", Some("one")).await;
    let revision = session.commit(&[("apps/b.yaml", None)]);
    session.ready("apps", &revision).await;
    session.value("default", "b", Some("one")).await;
    session.end().await;
}
