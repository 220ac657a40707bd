//! A deleted object is created again, and an edited one is corrected.

use std::sync::atomic::{AtomicU32, Ordering};

use equate_api::meta::ConditionType;
use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::session::{DEADLINE, Session, config_map, said};

/// The number of corrections, once no run is active: it is updated after the write.
async fn corrections(session: &Session) -> u64 {
    let rests = async || match session.stats() {
        stats if stats.queue == 0 => Ok(stats.corrections),
        stats => Err(format!("{stats:?}")),
    };
    eventually("nothing runs", DEADLINE, rests).await
}

#[tokio::test]
async fn a_deleted_object_is_created_again() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    let revision = session.commit(&[]);
    session.kustomize("apps", "apps", json!({})).await;
    session.ready("apps", &revision).await;
    session.delete::<ConfigMap>("default", "a").await;
    session.value("default", "a", Some("one")).await;
    session
        .event("apps", "ConfigMap/default/a created: corrected, it was deleted")
        .await;
    session.end().await;
}

#[tokio::test]
async fn an_edited_object_is_corrected() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    let revision = session.commit(&[]);
    session.kustomize("apps", "apps", json!({})).await;
    session.ready("apps", &revision).await;
    session
        .merge::<ConfigMap>(
            "default",
            "a",
            json!({ "data": { "value": "edited", "more": "kept" } }),
        )
        .await;
    session.value("default", "a", Some("one")).await;
    // a field that git does not declare belongs to others
    let a: ConfigMap = session.get("default", "a").await.unwrap();
    assert_eq!(a.data.unwrap_or_default()["more"], "kept");
    let said = "corrected .data.value \"edited\" -> \"one\", written by somebody";
    session.event("apps", said).await;
    assert!(corrections(&session).await >= 1);
    session.end().await;
}

#[tokio::test]
async fn a_fight_ends_and_is_reported() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    let revision = session.commit(&[]);
    session.kustomize("apps", "apps", json!({})).await;
    session.ready("apps", &revision).await;
    let fights = AtomicU32::new(0);
    let fight = async || {
        let edit = format!("edit {}", fights.fetch_add(1, Ordering::Relaxed));
        let edit = json!({ "data": { "value": edit } });
        session.merge::<ConfigMap>("default", "a", edit).await;
        let status = session
            .kustomizations()
            .get("apps")
            .await
            .unwrap()
            .status
            .unwrap_or_default();
        let said = said(&status, ConditionType::Drifted);
        if said.is_empty() {
            Err(format!("{:?}", session.stats()))
        } else {
            Ok(said)
        }
    };
    let said = eventually("the fight is said", DEADLINE, fight).await;
    assert!(
        said.starts_with("ConfigMap/default/a is changed again and again by field manager \"somebody\""),
        "{said}"
    );
    // the other writer is not stopped, and Equate does not fight it
    session.value("default", "a", Some("one")).await;
    let before = corrections(&session).await;
    let edit = json!({ "data": { "value": "last" } });
    session.merge::<ConfigMap>("default", "a", edit).await;
    session.value("default", "a", Some("one")).await;
    assert_eq!(
        corrections(&session).await,
        before + 1,
        "one correction, after its wait"
    );
    session.end().await;
}

#[tokio::test]
async fn an_existing_excluded_object_is_left_alone() {
    let mut map: serde_json::Value = serde_json::from_str(&config_map("a", "git")).unwrap();
    map["metadata"]["annotations"] = json!({ "kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent" });
    let session = Session::start(&[("apps/a.yaml", &*map.to_string())]).await;
    let revision = session.commit(&[]);
    let maps = kube::Api::<ConfigMap>::namespaced(session.client.clone(), "default");
    let before: ConfigMap = serde_json::from_str(&config_map("a", "before")).unwrap();
    maps.create(&kube::api::PostParams::default(), &before)
        .await
        .unwrap();
    session.kustomize("apps", "apps", json!({ "wait": true })).await;
    session.ready("apps", &revision).await;
    session.value("default", "a", Some("before")).await;
    // it carries no label of ours, so no watch covers it: that must not cause endless runs
    let next = session.commit(&[("elsewhere/b.yaml", Some(&*config_map("b", "one")))]);
    session.ready("apps", &next).await;
    assert_eq!(session.stats().builds, 1, "{:?}", session.stats());
    session.end().await;
}
