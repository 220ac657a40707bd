//! StatefulSets and DaemonSets adopt and release pods; debug containers of pods.

use super::{World, path, seconds, workload};
use equate_apiserver::Simulation;
use serde_json::{Value, json};

async fn world() -> World {
    World::new(Simulation::default()).await
}

/// `NAME OWNER UID`.
async fn pods(world: &World) -> Vec<String> {
    let owner = |pod: &Value| {
        let owner = &pod["metadata"]["ownerReferences"][0]["name"];
        format!(
            "{} {} {}",
            pod["metadata"]["name"].as_str().unwrap(),
            owner.as_str().unwrap_or("-"),
            pod["metadata"]["uid"].as_str().unwrap()
        )
    };
    world.list("pods").await.iter().map(owner).collect()
}

async fn orphan(world: &World, kind: &str, name: &str) {
    let orphaning = format!("{}?propagationPolicy=Orphan", path(kind, name));
    world.0.done("DELETE", &orphaning, Value::Null).await;
    seconds(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_set_adopts_the_pods_of_a_deleted_one() {
    for (kind, count) in [("statefulsets", 2), ("daemonsets", 1)] {
        let world = world().await;
        let spec = match kind {
            "statefulsets" => json!({ "replicas": 2, "serviceName": "db" }),
            _ => json!({}),
        };
        world.create(kind, workload(kind, "db", spec.clone())).await;
        seconds(5).await;
        let before = pods(&world).await;
        assert_eq!(before.len(), count, "{kind}");
        orphan(&world, kind, "db").await;
        assert!(pods(&world).await[0].contains(" - "), "{kind}");
        world.create(kind, workload(kind, "db", spec)).await;
        seconds(5).await;
        assert_eq!(pods(&world).await, before, "{kind}");
        let revisions = world.list("controllerrevisions").await;
        let owners: Vec<&Value> = revisions
            .iter()
            .map(|revision| &revision["metadata"]["ownerReferences"][0]["uid"])
            .collect();
        let set = world.get(kind, "db").await;
        assert_eq!(owners, [&set["metadata"]["uid"]], "{kind}");
        let ready = match kind {
            "statefulsets" => &set["status"]["readyReplicas"],
            _ => &set["status"]["numberReady"],
        };
        assert_eq!(ready, &json!(count), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_adopts_only_pods_with_its_names() {
    let world = world().await;
    let labels = json!({ "app": "db" });
    for name in ["db-0", "other-0"] {
        let pod = json!({
            "metadata": { "name": name, "labels": labels },
            "spec": { "containers": [{ "name": "c", "image": "x" }] },
        });
        world.create("pods", pod).await;
    }
    world
        .create("statefulsets", workload("statefulsets", "db", json!({})))
        .await;
    seconds(5).await;
    let owners: Vec<String> = pods(&world)
        .await
        .iter()
        .map(|line| line.rsplit_once(' ').unwrap().0.to_owned())
        .collect();
    assert_eq!(owners, ["db-0 db", "other-0 -"]);
}

#[tokio::test(start_paused = true)]
async fn a_set_releases_a_pod_of_other_labels() {
    let released = json!({ "metadata": { "labels": { "app": "mine" } } });
    let world = world().await;
    world
        .create("statefulsets", workload("statefulsets", "db", json!({})))
        .await;
    world
        .create("daemonsets", workload("daemonsets", "agent", json!({})))
        .await;
    seconds(3).await;
    let agent = world.names("pods").await.remove(0);
    for pod in [agent.as_str(), "db-0"] {
        world.patch("pods", pod, released.clone()).await;
    }
    seconds(3).await;
    let lines = pods(&world).await;
    let owned = |owner: &str| lines.iter().filter(|l| l.contains(owner)).count();
    // The name of a StatefulSet's pod stays taken.
    assert_eq!(
        (lines.len(), owned(" - "), owned(" agent ")),
        (3, 2, 1),
        "{lines:#?}"
    );
    let events = world.events().await;
    let taken = "StatefulSet Warning FailedCreate: create Pod db-0 in StatefulSet db failed error: pods \"db-0\" already exists";
    assert_eq!(events.iter().filter(|e| *e == taken).count(), 1, "{events:#?}");
    world.delete("pods", "db-0").await;
    seconds(3).await;
    assert!(pods(&world).await.iter().any(|l| l.starts_with("db-0 db ")));
}

#[tokio::test(start_paused = true)]
async fn a_set_takes_over_a_name_that_another_owner_leaves() {
    let world = world().await;
    let holder = world
        .create("configmaps", json!({ "metadata": { "name": "holder" } }))
        .await;
    let owner = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "holder", "uid": holder["metadata"]["uid"],
        "controller": true,
    }]);
    let pod = json!({
        "metadata": { "name": "db-0", "ownerReferences": owner },
        "spec": { "containers": [{ "name": "c", "image": "x" }] },
    });
    world.create("pods", pod).await;
    world
        .create("statefulsets", workload("statefulsets", "db", json!({})))
        .await;
    seconds(3).await;
    assert!(pods(&world).await[0].starts_with("db-0 holder "));
    world.delete("pods", "db-0").await;
    seconds(3).await;
    assert!(pods(&world).await[0].starts_with("db-0 db "));
}

#[tokio::test(start_paused = true)]
async fn debug_containers_run_until_their_pod_ends() {
    let world = world().await;
    for (name, policy) in [("web", "Always"), ("once", "Never")] {
        let pod = json!({ "metadata": { "name": name, "annotations": { "equate.dev/simulate-runs-for": "30s" } },
            "spec": { "restartPolicy": policy, "containers": [{ "name": "c", "image": "x" }] } });
        world.create("pods", pod).await;
    }
    seconds(2).await;
    let debugger = json!({ "spec": { "ephemeralContainers": [{
        "name": "debugger", "image": "busybox", "targetContainerName": "c",
    }] } });
    for name in ["web", "once"] {
        let target = format!("{}/ephemeralcontainers", path("pods", name));
        world.0.done("PATCH", &target, debugger.clone()).await;
    }
    seconds(2).await;
    let status = async |name: &str| {
        let pod = world.get("pods", name).await;
        pod["status"]["ephemeralContainerStatuses"][0].clone()
    };
    let running = status("web").await;
    assert!(running["state"]["running"]["startedAt"].is_string(), "{running}");
    assert_eq!(
        (&running["name"], &running["image"], &running["ready"]),
        (&json!("debugger"), &json!("busybox"), &json!(false))
    );
    let log = format!("{}/log?container=debugger&follow=true", path("pods", "web"));
    let (code, answer) = world.0.ask("GET", &log, &Value::Null).await;
    let why = "debug container \"debugger\" in pod \"web\" has no log: no container runs here";
    assert_eq!((code.as_u16(), answer["message"].as_str()), (400, Some(why)));
    seconds(60).await;
    assert_eq!(status("once").await["state"]["terminated"]["exitCode"], 137);
    let started = "Pod Normal Pulled: Container image \"busybox\" already present on machine and can be accessed by the pod";
    let events = world.events().await;
    assert_eq!(events.iter().filter(|e| *e == started).count(), 2, "{events:#?}");
}
