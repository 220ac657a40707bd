//! What becomes of the objects when their Kustomization goes.

use equate_api::kustomize::Kustomization;
use equate_testkit::eventually::eventually;
use serde_json::{Value, json};

use crate::session::{DEADLINE, HOME, Session, config_map};

async fn check(spec: Value, left: Option<&str>) {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    let revision = session.commit(&[]);
    session.kustomize("apps", "apps", spec.clone()).await;
    session.ready("apps", &revision).await;
    session.delete::<Kustomization>(HOME, "apps").await;
    let gone = async || match session.get::<Kustomization>(HOME, "apps").await {
        None => Ok(()),
        Some(object) => Err(format!("{:?}", object.metadata.finalizers)),
    };
    eventually("the Kustomization is gone", DEADLINE, gone).await;
    session.value("default", "a", left).await;
    session.end().await;
}

#[tokio::test]
async fn by_default_they_go_with_it() {
    check(json!({}), None).await;
}

#[tokio::test]
async fn without_pruning_they_stay() {
    check(json!({ "prune": false }), Some("one")).await;
}

#[tokio::test]
async fn the_policy_says_otherwise() {
    check(json!({ "prune": false, "deletionPolicy": "Delete" }), None).await;
    check(json!({ "deletionPolicy": "Orphan" }), Some("one")).await;
    check(json!({ "deletionPolicy": "WaitForTermination" }), None).await;
}
