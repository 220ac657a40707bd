use super::*;
use std::sync::Mutex;
use std::time::Duration;

use equate_testkit::cluster::EmbeddedCluster;
use equate_testkit::eventually::eventually;
use equate_testkit::faults::{Fault, Faults, Rule, Verb};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::kit::backoff::Jitter;

const SOON: Duration = Duration::from_secs(900);

fn stateful_set() -> StatefulSet {
    serde_json::from_value(json!({
        "metadata": {
            "name": "d", "namespace": "default", "uid": "u", "generation": 1, "resourceVersion": "1",
        },
        "spec": {
            "serviceName": "d",
            "selector": { "matchLabels": { "app": "d" } },
            "template": {
                "metadata": { "labels": { "app": "d" } },
                "spec": { "containers": [{ "name": "c", "image": "i" }] },
            },
        },
    }))
    .unwrap()
}

#[test]
fn changes_are_classified() {
    let check = |change: Value, what: What| {
        let before = stateful_set();
        let mut after = serde_json::to_value(&before).unwrap();
        for (key, value) in change.as_object().unwrap() {
            after["metadata"][key] = value.clone();
        }
        let after: StatefulSet = serde_json::from_value(after).unwrap();
        assert_eq!(compare(Some(&before), Some(&after)), what, "{change}");
    };
    check(json!({ "resourceVersion": "2" }), What::Status);
    check(
        json!({ "resourceVersion": "2", "finalizers": ["f"] }),
        What::Status,
    );
    check(
        json!({ "resourceVersion": "2", "managedFields": [] }),
        What::Status,
    );
    check(json!({ "generation": 2 }), What::Changed);
    check(json!({ "labels": { "a": "b" } }), What::Changed);
    check(json!({ "annotations": { "a": "b" } }), What::Changed);
    check(
        json!({ "annotations": { "reconcile.fluxcd.io/requestedAt": "now" } }),
        What::Requested,
    );
    check(
        json!({ "generation": 2, "annotations": { "reconcile.fluxcd.io/requestedAt": "now" } }),
        What::Changed,
    );
    check(
        json!({ "generation": 2, "deletionTimestamp": "2026-11-21T00:00:00Z" }),
        What::Deleting,
    );
    check(json!({ "uid": "other" }), What::Appeared);
    let some = stateful_set();
    assert_eq!(compare::<StatefulSet>(None, Some(&some)), What::Appeared);
    assert_eq!(compare::<StatefulSet>(Some(&some), None), What::Gone);
}

type Changes = Arc<Mutex<Vec<String>>>;

async fn start(faults: &Faults) -> (EmbeddedCluster, Api<StatefulSet>, Mirror<StatefulSet>, Changes) {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let api: Api<StatefulSet> = Api::namespaced(cluster.client(), "default");
    let changes = Changes::default();
    let seen = Arc::clone(&changes);
    let pace = Pace {
        jitter: Jitter::seeded(5),
        ..Pace::default()
    };
    let mirror = Mirror::start(
        faults.wrap(&cluster.client()),
        pace,
        move |change: &Change<StatefulSet>| {
            seen.lock()
                .unwrap()
                .push(format!("{} {:?}", change.key, change.what));
        },
    );
    (cluster, api, mirror, changes)
}

async fn until(changes: &Changes, expected: &[&str]) {
    eventually("the changes", SOON, || {
        let seen = changes.lock().unwrap().clone();
        async move {
            if seen == expected {
                Ok(())
            } else {
                Err(format!("{seen:?}"))
            }
        }
    })
    .await;
    changes.lock().unwrap().clear();
}

#[tokio::test(start_paused = true)]
async fn an_object_is_followed_from_creation_to_deletion() {
    let faults = Faults::default();
    let (_cluster, api, mirror, changes) = start(&faults).await;
    mirror.ready().await;
    let key = Key::new("default", "d");
    assert!(mirror.get(&key).is_none() && mirror.all().is_empty());

    let mut object = stateful_set();
    object.metadata = serde_json::from_value(json!({ "name": "d", "finalizers": ["e.org/f"] })).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
    until(&changes, &["default/d Appeared"]).await;
    let patch = |patch: Value| {
        let api = api.clone();
        async move {
            api.patch("d", &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .unwrap()
        }
    };
    patch(json!({ "spec": { "replicas": 3 } })).await;
    until(&changes, &["default/d Changed"]).await;
    let requested = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "t" } } });
    patch(requested).await;
    until(&changes, &["default/d Requested"]).await;
    let status = Patch::Merge(json!({ "status": { "replicas": 3 } }));
    api.patch_status("d", &PatchParams::default(), &status)
        .await
        .unwrap();
    until(&changes, &["default/d Status"]).await;
    assert_eq!(mirror.get(&key).unwrap().status.as_ref().unwrap().replicas, 3);
    assert_eq!(mirror.all().len(), 1);
    api.delete("d", &DeleteParams::default()).await.unwrap();
    until(&changes, &["default/d Deleting"]).await;
    patch(json!({ "metadata": { "finalizers": null } })).await;
    until(&changes, &["default/d Gone"]).await;
    assert!(mirror.get(&key).is_none());
}

#[tokio::test(start_paused = true)]
async fn an_own_write_is_visible_at_once_and_delivered_once() {
    let faults = Faults::default();
    let (_cluster, api, mirror, changes) = start(&faults).await;
    mirror.ready().await;
    let mut object = stateful_set();
    object.metadata = serde_json::from_value(json!({ "name": "d" })).unwrap();
    let made = api.create(&PostParams::default(), &object).await.unwrap();
    mirror.note(made.clone());
    let status = Patch::Merge(json!({ "status": { "replicas": 7 } }));
    let written = api
        .patch_status("d", &PatchParams::default(), &status)
        .await
        .unwrap();
    mirror.note(written);
    mirror.note(made);
    let key = Key::new("default", "d");
    assert_eq!(mirror.get(&key).unwrap().status.as_ref().unwrap().replicas, 7);
    object.metadata = serde_json::from_value(json!({ "name": "e" })).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
    // events come in order: with e's, those of d were delivered
    until(
        &changes,
        &["default/d Appeared", "default/d Status", "default/e Appeared"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_watch_state_shows_errors_and_recovers() {
    let faults = Faults::default();
    let on = |fault| Rule::new(Verb::Any, "/statefulsets", fault).times(3);
    faults.add(on(Fault::status(403)));
    faults.add(on(Fault::status(404)));
    let (_cluster, _api, mirror, _) = start(&faults).await;
    let mut watch_state = mirror.watch_state();
    assert!(!mirror.is_ready());
    let mut seen = Vec::new();
    while !mirror.is_ready() {
        watch_state.changed().await.unwrap();
        let now = match &*watch_state.borrow_and_update() {
            WatchState::Troubled(error) => error.to_string(),
            other => format!("{other:?}"),
        };
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    mirror.ready().await;
    assert_eq!(
        seen,
        ["cannot list /apis/apps/v1/statefulsets", "Unserved", "Following"]
    );
}

/// A subscriber panics on one object: the others are delivered all the same.
#[tokio::test(start_paused = true)]
async fn a_feed_survives_a_panic_of_its_subscriber() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let api: Api<StatefulSet> = Api::namespaced(cluster.client(), "default");
    let (seen, falls) = (Changes::default(), Arc::new(Mutex::new(2)));
    let changes = Arc::clone(&seen);
    let pace = Pace {
        jitter: Jitter::seeded(5),
        ..Pace::default()
    };
    let mirror = Mirror::start(cluster.client(), pace, move |change: &Change<StatefulSet>| {
        let mut left = falls.lock().unwrap();
        if change.key.name == "bad" && *left > 0 {
            *left -= 1;
            drop(left);
            panic!("this one is too much");
        }
        let change = format!("{} {:?}", change.key, change.what);
        seen.lock().unwrap().push(change);
    });
    mirror.ready().await;
    for name in ["bad", "good"] {
        let mut object = stateful_set();
        object.metadata = serde_json::from_value(json!({ "name": name })).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    until(&changes, &["default/good Appeared"]).await;
    assert_eq!(mirror.all().len(), 2);
}
