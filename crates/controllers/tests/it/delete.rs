//! The objects of a deleted Kustomization.

use equate_api::kustomize::Kustomization;
use equate_testkit::eventually::eventually;
use equate_testkit::faults::{Fault, Rule, Verb};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::session::{DEADLINE, HOME, Session, config_map};

async fn check(spec: Value, left: Option<&str>) {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    let revision = session.commit(&[]);
    session.kustomize("apps", "apps", spec.clone()).await;
    session.ready("apps", &revision).await;
    session.delete::<Kustomization>(HOME, "apps").await;
    gone(&session).await;
    session.value("default", "a", left).await;
    session.end().await;
}

async fn gone(session: &Session) {
    let gone = async || match session.get::<Kustomization>(HOME, "apps").await {
        None => Ok(()),
        Some(object) => Err(format!("{:?}", object.metadata.finalizers)),
    };
    eventually("the Kustomization is gone", DEADLINE, gone).await;
}

/// Objects of a kind that may not be listed are polled; their state is not guessed.
#[tokio::test]
async fn unwatchable_objects_are_awaited_too() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    let maps = "/api/v1/configmaps";
    session
        .faults
        .add(Rule::new(Verb::Read, maps, Fault::status(403)));
    session
        .faults
        .add(Rule::new(Verb::Watch, maps, Fault::status(403)));
    let revision = session.commit(&[]);
    session
        .kustomize("apps", "apps", json!({ "deletionPolicy": "WaitForTermination" }))
        .await;
    session.ready("apps", &revision).await;
    session.value("default", "a", Some("one")).await;

    let kept = json!({ "metadata": { "finalizers": ["example.org/slow"] } });
    session.merge::<ConfigMap>("default", "a", kept).await;
    session.delete::<Kustomization>(HOME, "apps").await;
    let asked = async || {
        let log = session.faults.log();
        let deleted = log
            .iter()
            .position(|call| call.to_string().starts_with("DELETE ") && call.path.ends_with("/a"));
        let deleted = deleted.ok_or_else(|| "not deleted yet".to_owned())?;
        let asked = log[deleted..]
            .iter()
            .filter(|call| call.to_string().starts_with("GET ") && call.path.ends_with("/a"));
        if asked.count() >= 2 {
            Ok(())
        } else {
            Err(format!(
                "{:?}",
                log[deleted..].iter().map(ToString::to_string).collect::<Vec<_>>()
            ))
        }
    };
    eventually("the object is asked for", DEADLINE, asked).await;
    assert!(
        session.get::<Kustomization>(HOME, "apps").await.is_some(),
        "it waits"
    );

    let free = json!({ "metadata": { "finalizers": null } });
    session.merge::<ConfigMap>("default", "a", free).await;
    gone(&session).await;
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
