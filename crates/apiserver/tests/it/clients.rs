//! kube-rs against the embedded API, in-process: the features that controllers rely on.

use crate::eventually;
use axum::body::Body;
use equate_apiserver::{EmbeddedCluster, Identity};
use futures::{StreamExt, TryStreamExt, pin_mut};
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{Controller, WatchStreamExt};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tower::ServiceExt;

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "k": value } })).unwrap()
}

async fn cluster() -> EmbeddedCluster {
    EmbeddedCluster::builder().build().await.unwrap()
}

/// A client whose watches all end on demand, as if a load balancer had dropped them.
fn droppable(cluster: &EmbeddedCluster) -> (Client, watch::Sender<u64>) {
    let (drop_now, dropped) = watch::channel(0_u64);
    let router = cluster.router();
    let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
        let router = router.clone();
        let mut dropped = dropped.clone();
        request.extensions_mut().insert(Identity::admin());
        let watching = request.uri().query().is_some_and(|q| q.contains("watch=true"));
        async move {
            let response = router.oneshot(request).await?;
            if !watching {
                return Ok::<_, Infallible>(response);
            }
            dropped.mark_unchanged();
            let (parts, body) = response.into_parts();
            let frames = body
                .into_data_stream()
                .take_until(async move { dropped.changed().await.is_ok() });
            Ok(Response::from_parts(parts, Body::from_stream(frames)))
        }
    });
    (Client::new(service, "default"), drop_now)
}

fn observe(api: Api<ConfigMap>, config: watcher::Config) -> mpsc::UnboundedReceiver<String> {
    let (send, receive) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let events = watcher::watcher(api, config).default_backoff();
        pin_mut!(events);
        while let Some(event) = events.next().await {
            let text = match event {
                Ok(Event::Init) => "init".to_owned(),
                Ok(Event::InitApply(o)) => format!("initial {}", o.name_any()),
                Ok(Event::InitDone) => "listed".to_owned(),
                Ok(Event::Apply(o)) => format!("apply {}={}", o.name_any(), o.data.unwrap_or_default()["k"]),
                Ok(Event::Delete(o)) => format!("delete {}", o.name_any()),
                Err(error) => format!(
                    "error {}",
                    if error.to_string().contains("410") || format!("{error:?}").contains("410") {
                        "410".to_owned()
                    } else {
                        error.to_string()
                    }
                ),
            };
            if send.send(text).is_err() {
                return;
            }
        }
    });
    receive
}

async fn until(events: &mut mpsc::UnboundedReceiver<String>, wanted: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let found = tokio::time::timeout(crate::DEADLINE, async {
        while let Some(event) = events.recv().await {
            let done = event == wanted;
            seen.push(event);
            if done {
                return;
            }
        }
    });
    assert!(found.await.is_ok(), "waited for {wanted:?}, saw {seen:?}");
    seen
}

fn own(config: watcher::Config) -> watcher::Config {
    config.labels("!nobody").fields("metadata.name!=kube-root-ca.crt")
}

async fn watches(config: watcher::Config) {
    let cluster = cluster().await;
    let (client, drop_now) = droppable(&cluster);
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    api.create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    let mut events = observe(api.clone(), own(config));
    let seen = until(&mut events, "listed").await;
    assert_eq!(seen, ["init", "initial a", "listed"]);

    api.create(&PostParams::default(), &config_map("b", "1"))
        .await
        .unwrap();
    until(&mut events, "apply b=1").await;

    // A dropped watch resumes where it was: nothing is missed, nothing is listed again.
    drop_now.send_modify(|n| *n += 1);
    api.patch(
        "b",
        &PatchParams::default(),
        &Patch::Merge(json!({ "data": { "k": "2" } })),
    )
    .await
    .unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let seen = until(&mut events, "delete a").await;
    assert_eq!(seen, ["apply b=2", "delete a"]);

    // A dropped watch whose revision was compacted: 410, then a new list.
    let paused = api.clone();
    paused
        .create(&PostParams::default(), &config_map("c", "1"))
        .await
        .unwrap();
    until(&mut events, "apply c=1").await;
    drop_now.send_modify(|n| *n += 1);
    cluster.compact(cluster.revision() + 1);
    api.patch(
        "c",
        &PatchParams::default(),
        &Patch::Merge(json!({ "data": { "k": "2" } })),
    )
    .await
    .unwrap();
    cluster.compact(cluster.revision());
    eventually("the watcher sees the newest state", || {
        let mut newest = false;
        while let Ok(event) = events.try_recv() {
            newest |= event == "apply c=2" || event == "initial c";
        }
        newest
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_watch_survives_drops_and_compaction() {
    watches(watcher::Config::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_streaming_list_survives_drops_and_compaction() {
    watches(watcher::Config::default().streaming_lists()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_watch_relists() {
    let cluster = cluster().await;
    let (client, drop_now) = droppable(&cluster);
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let other: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    api.create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    let mut events = observe(api.clone(), own(watcher::Config::default()));
    until(&mut events, "listed").await;
    // Drops the watch and, before it can resume, compacts the history it needs.
    for round in 0..40 {
        other
            .patch(
                "a",
                &PatchParams::default(),
                &Patch::Merge(json!({ "data": { "k": format!("{round}") } })),
            )
            .await
            .unwrap();
        drop_now.send_modify(|n| *n += 1);
        cluster.compact(cluster.revision());
        tokio::task::yield_now().await;
        let mut relisted = false;
        while let Ok(event) = events.try_recv() {
            relisted |= event == "listed";
        }
        if relisted {
            return;
        }
    }
    until(&mut events, "listed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reflector_holds_the_state() {
    let cluster = cluster().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    let (store, writer) = reflector::store();
    let stream = reflector::reflector(
        writer,
        watcher::watcher(api.clone(), own(watcher::Config::default())),
    );
    tokio::spawn(async move {
        stream
            .touched_objects()
            .for_each(|_| std::future::ready(()))
            .await;
    });
    api.create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    let reference = ObjectRef::<ConfigMap>::new("a").within("default");
    eventually("the reflector has the object", || store.get(&reference).is_some()).await;
    api.delete("a", &DeleteParams::default()).await.unwrap();
    eventually("the reflector lost the object", || {
        store.get(&reference).is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_converges() {
    let cluster = cluster().await;
    let client = cluster.client();
    let owners: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let seen = Seen::default();
    let context = Arc::new((client.clone(), Arc::clone(&seen)));
    let running = Controller::new(owners.clone(), watcher::Config::default().labels("role=owner"))
        .owns(owners.clone(), watcher::Config::default().labels("role=child"))
        .run(
            reconcile,
            |_, _: &kube::Error, _| Action::requeue(Duration::from_millis(10)),
            context,
        );
    tokio::spawn(
        running
            .map_err(|e| tracing::debug!(%e))
            .for_each(|_| std::future::ready(())),
    );

    let mut owner = config_map("o", "1");
    owner.metadata.labels = Some(BTreeMap::from([("role".to_owned(), "owner".to_owned())]));
    let owner = owners.create(&PostParams::default(), &owner).await.unwrap();
    let child = || owners.get_opt("o-child");
    wait_for_child(&owners).await;
    // A deleted child comes back: the watch on owned objects wakes the owner.
    let first = child().await.unwrap().unwrap().uid();
    owners.delete("o-child", &DeleteParams::default()).await.unwrap();
    let deadline = tokio::time::Instant::now() + crate::DEADLINE;
    loop {
        if child().await.unwrap().is_some_and(|c| c.uid() != first) {
            break;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "the child did not come back"
        );
        tokio::task::yield_now().await;
    }
    assert!(seen.lock().unwrap()[&owner.name_any()] >= 2);
}

async fn wait_for_child(api: &Api<ConfigMap>) {
    let condition =
        kube::runtime::wait::await_condition(api.clone(), "o-child", |o: Option<&ConfigMap>| o.is_some());
    tokio::time::timeout(crate::DEADLINE, condition)
        .await
        .expect("no child")
        .unwrap();
}

type Seen = Arc<Mutex<BTreeMap<String, u32>>>;

async fn reconcile(owner: Arc<ConfigMap>, cx: Arc<(Client, Seen)>) -> Result<Action, kube::Error> {
    *cx.1.lock().unwrap().entry(owner.name_any()).or_default() += 1;
    let api: Api<ConfigMap> = Api::namespaced(cx.0.clone(), "default");
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("{}-child", owner.name_any()),
            "labels": { "role": "child" },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(),
                "uid": owner.uid(), "controller": true,
            }],
        },
        "data": { "from": owner.name_any() },
    });
    let name = format!("{}-child", owner.name_any());
    api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(child))
        .await?;
    Ok(Action::await_change())
}
