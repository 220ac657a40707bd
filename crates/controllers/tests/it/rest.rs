//! A suspended Kustomization changes nothing; if it is deleted while suspended, all objects stay.

use equate_api::kustomize::Kustomization;
use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::session::{DEADLINE, HOME, Session, config_map};

#[tokio::test]
async fn suspension_stops_and_resumes_reconciliation() {
    let session = Session::start(&[
        ("apps/a.yaml", &*config_map("a", "one")),
        ("b/b.yaml", &*config_map("b", "one")),
    ])
    .await;
    let revision = session.commit(&[]);
    session.kustomize("apps", "apps", json!({})).await;
    session.kustomize("b", "b", json!({})).await;
    session.ready("apps", &revision).await;
    session
        .patch("apps", json!({ "spec": { "suspend": true } }))
        .await;
    let files = [
        ("apps/a.yaml", config_map("a", "two")),
        ("b/b.yaml", config_map("b", "two")),
    ];
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, Some(&**text))).collect();
    let revision = session.commit(&files);
    // the other one has seen the commit, and so would this one
    session.ready("b", &revision).await;
    session
        .merge::<ConfigMap>("default", "a", json!({ "data": { "value": "edited" } }))
        .await;
    session.value("default", "a", Some("edited")).await;
    session
        .patch("apps", json!({ "spec": { "suspend": false } }))
        .await;
    session.value("default", "a", Some("two")).await;
    session.ready("apps", &revision).await;

    // nothing happened meanwhile: the status says so of the new generation
    for suspend in [true, false] {
        session
            .patch("apps", json!({ "spec": { "suspend": suspend } }))
            .await;
    }
    let judged = async || {
        let object = session.get::<Kustomization>(HOME, "apps").await;
        let object = object.ok_or("it is gone")?;
        let judged = object.status.and_then(|status| status.observed_generation);
        match judged == object.metadata.generation {
            true => Ok(()),
            false => Err(format!("{judged:?} of {:?}", object.metadata.generation)),
        }
    };
    eventually("the last generation is judged", DEADLINE, judged).await;

    session
        .patch("apps", json!({ "spec": { "suspend": true } }))
        .await;
    session.delete::<Kustomization>(HOME, "apps").await;
    let gone = async || match session.get::<Kustomization>(HOME, "apps").await {
        None => Ok(()),
        Some(object) => Err(format!("{:?}", object.metadata.finalizers)),
    };
    eventually("the Kustomization is gone", DEADLINE, gone).await;
    session.value("default", "a", Some("two")).await;
    session.end().await;
}
