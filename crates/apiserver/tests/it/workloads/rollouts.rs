//! Deployments: creation, updates and deletion.

use super::{World, condition, path, seconds, workload};
use equate_apiserver::Simulation;
use serde_json::{Value, json};

async fn world() -> World {
    World::new(Simulation::default()).await
}

fn counts(object: &Value) -> [u64; 4] {
    let status = |name: &str| object["status"][name].as_u64().unwrap_or(0);
    let wanted = object["spec"]["replicas"].as_u64().unwrap();
    [
        wanted,
        status("replicas"),
        status("updatedReplicas"),
        status("availableReplicas"),
    ]
}

/// By revision: revision, image, pods.
async fn history(world: &World) -> Vec<String> {
    let mut sets = world.list("replicasets").await;
    let revision = |set: &Value| {
        let text = &set["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
        text.as_str().unwrap().parse::<u64>().unwrap()
    };
    sets.sort_by_key(revision);
    let line = |set: &Value| {
        let image = &set["spec"]["template"]["spec"]["containers"][0]["image"];
        let replicas = set["status"]["replicas"].as_u64().unwrap_or(0);
        format!("{} {} {replicas}", revision(set), image.as_str().unwrap())
    };
    sets.iter().map(line).collect()
}

fn image(name: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": name }] } } } })
}

#[tokio::test(start_paused = true)]
async fn deployment_rolls_out_scales_and_rolls_back() {
    let world = world().await;
    let spec = json!({ "replicas": 3, "revisionHistoryLimit": 1 });
    world
        .create("deployments", workload("deployments", "web", spec))
        .await;
    seconds(2).await;
    let web = world.get("deployments", "web").await;
    assert_eq!(counts(&web), [3, 3, 3, 3]);
    assert_eq!(condition(&web, "Progressing"), "True NewReplicaSetAvailable");
    assert_eq!(web["metadata"]["generation"], 1);
    let pods = world.list("pods").await;
    let nodes: Vec<&Value> = pods.iter().map(|p| &p["spec"]["nodeName"]).collect();
    assert_eq!(nodes, ["equate-0"; 3]);

    world.patch("deployments", "web", image("nginx:2")).await;
    seconds(5).await;
    assert_eq!(counts(&world.get("deployments", "web").await), [3, 3, 3, 3]);
    assert_eq!(history(&world).await, ["1 nginx 0", "2 nginx:2 3"]);

    // A third template: of the old ones one is kept.
    world.patch("deployments", "web", image("nginx:3")).await;
    seconds(5).await;
    assert_eq!(history(&world).await, ["2 nginx:2 0", "3 nginx:3 3"]);

    // Back to the second: its ReplicaSet is used again under a new number.
    world.patch("deployments", "web", image("nginx:2")).await;
    seconds(5).await;
    assert_eq!(history(&world).await, ["3 nginx:3 0", "4 nginx:2 3"]);
    let web = world.get("deployments", "web").await;
    assert_eq!(
        web["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "4"
    );

    for replicas in [5, 1, 0, 2] {
        world
            .patch("deployments", "web", json!({ "spec": { "replicas": replicas } }))
            .await;
        seconds(2).await;
        let web = world.get("deployments", "web").await;
        assert_eq!(counts(&web), [replicas; 4]);
        assert_eq!(world.names("pods").await.len() as u64, replicas);
        assert_eq!(condition(&web, "Available"), "True MinimumReplicasAvailable");
    }

    world.delete("deployments", "web").await;
    seconds(2).await;
    assert!(world.names("replicasets").await.is_empty());
    assert!(world.names("pods").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_is_replaced() {
    let world = world().await;
    world
        .create(
            "deployments",
            workload("deployments", "web", json!({ "replicas": 2 })),
        )
        .await;
    seconds(2).await;
    let before = world.list("pods").await;
    world
        .delete("pods", before[0]["metadata"]["name"].as_str().unwrap())
        .await;
    seconds(2).await;
    let after = world.list("pods").await;
    assert_eq!(after.len(), 2);
    let uids = |pods: &[Value]| {
        pods.iter()
            .map(|p| p["metadata"]["uid"].to_string())
            .collect::<Vec<_>>()
    };
    let kept = uids(&after)
        .iter()
        .filter(|uid| uids(&before).contains(uid))
        .count();
    assert_eq!(kept, 1);
    assert_eq!(counts(&world.get("deployments", "web").await), [2; 4]);
}

#[tokio::test(start_paused = true)]
async fn recreate_deletes_old_pods_first() {
    let world = world().await;
    let spec = json!({ "replicas": 2, "strategy": { "type": "Recreate" } });
    world
        .create("deployments", workload("deployments", "web", spec))
        .await;
    seconds(2).await;
    world.patch("deployments", "web", image("nginx:2")).await;
    seconds(2).await;
    assert_eq!(history(&world).await, ["1 nginx 0", "2 nginx:2 2"]);
    let events = world.events().await;
    let of = |needle: &str| events.iter().position(|e| e.contains(needle));
    let (down, up) = (
        of("Scaled down"),
        events.iter().rposition(|e| e.contains("Scaled up")),
    );
    assert!(down.is_some() && down < up, "{events:#?}");
    assert!(of("from 1 to").is_none(), "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_scales_but_does_not_roll() {
    let world = world().await;
    world
        .create(
            "deployments",
            workload("deployments", "web", json!({ "replicas": 1 })),
        )
        .await;
    seconds(2).await;
    world
        .patch("deployments", "web", json!({ "spec": { "paused": true } }))
        .await;
    world.patch("deployments", "web", image("nginx:2")).await;
    world
        .patch("deployments", "web", json!({ "spec": { "replicas": 3 } }))
        .await;
    seconds(2).await;
    assert_eq!(history(&world).await, ["1 nginx 3"]);
    let web = world.get("deployments", "web").await;
    assert_eq!(condition(&web, "Progressing"), "Unknown DeploymentPaused");
    world
        .patch("deployments", "web", json!({ "spec": { "paused": false } }))
        .await;
    seconds(5).await;
    assert_eq!(history(&world).await, ["1 nginx 0", "2 nginx:2 3"]);
    let web = world.get("deployments", "web").await;
    assert_eq!(condition(&web, "Progressing"), "True NewReplicaSetAvailable");
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_available_after_its_minimum_time() {
    let world = world().await;
    let spec = json!({ "replicas": 2, "minReadySeconds": 30 });
    world
        .create("deployments", workload("deployments", "web", spec))
        .await;
    seconds(20).await;
    let web = world.get("deployments", "web").await;
    assert_eq!((counts(&web)[3], &web["status"]["readyReplicas"]), (0, &json!(2)));
    seconds(20).await;
    assert_eq!(counts(&world.get("deployments", "web").await), [2; 4]);
}

#[tokio::test(start_paused = true)]
async fn refused_pods_are_reported() {
    for kind in ["deployments", "statefulsets", "daemonsets", "jobs"] {
        let world = world().await;
        let spec = json!({ "template": { "spec": { "serviceAccountName": "robot" } } });
        world.create(kind, workload(kind, "web", spec)).await;
        seconds(30).await;
        let web = world.get(kind, "web").await;
        if kind == "deployments" {
            assert_eq!(condition(&web, "ReplicaFailure"), "True FailedCreate");
            assert_eq!(condition(&web, "Available"), "False MinimumReplicasUnavailable");
        }
        let failed = |e: &&String| e.contains("Warning FailedCreate") && e.contains("\"robot\" not found");
        let events = world.events().await;
        assert_eq!(events.iter().filter(failed).count(), 1, "{kind}: {events:#?}");

        let robot = json!({ "metadata": { "name": "robot" } });
        world.0.done("POST", &path("serviceaccounts", ""), robot).await;
        seconds(30).await;
        assert_eq!(world.names("pods").await.len(), 1, "{kind}");
        if kind == "deployments" {
            let web = world.get(kind, "web").await;
            assert_eq!(condition(&web, "ReplicaFailure"), "absent");
            assert_eq!(counts(&web), [1; 4]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pods_that_violate_the_namespaces_level_are_refused() {
    let world = world().await;
    let level =
        |level: Value| json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": level } } });
    let namespace = "/api/v1/namespaces/wl";
    world.0.done("PATCH", namespace, level(json!("baseline"))).await;
    let spec = json!({ "template": { "spec": { "hostPID": true } } });
    world
        .create("deployments", workload("deployments", "web", spec))
        .await;
    seconds(30).await;
    let web = world.get("deployments", "web").await;
    assert_eq!(condition(&web, "ReplicaFailure"), "True FailedCreate");
    let refusal = "is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
    let events = world.events().await;
    assert!(events.iter().any(|event| event.contains(refusal)), "{events:#?}");

    world.0.done("PATCH", namespace, level(Value::Null)).await;
    // the controller tries again with a growing interval
    seconds(60).await;
    assert_eq!(counts(&world.get("deployments", "web").await), [1; 4]);
}

#[tokio::test(start_paused = true)]
async fn orphaned_replica_set_is_adopted() {
    let world = world().await;
    world
        .create(
            "deployments",
            workload("deployments", "web", json!({ "replicas": 2 })),
        )
        .await;
    seconds(2).await;
    let before = world.names("replicasets").await;
    let url = format!("{}?propagationPolicy=Orphan", path("deployments", "web"));
    world.0.done("DELETE", &url, Value::Null).await;
    seconds(2).await;
    assert_eq!(world.names("pods").await.len(), 2);
    world
        .create(
            "deployments",
            workload("deployments", "web", json!({ "replicas": 2 })),
        )
        .await;
    seconds(2).await;
    assert_eq!(world.names("replicasets").await, before);
    assert_eq!(counts(&world.get("deployments", "web").await), [2; 4]);
}

#[tokio::test(start_paused = true)]
async fn replica_sets_are_adopted_and_released_by_their_labels() {
    let world = world().await;
    let mut older = workload("replicasets", "older", json!({ "replicas": 2 }));
    let older_labels = json!({ "app": "web", "track": "a" });
    older["metadata"]["labels"] = older_labels.clone();
    older["metadata"]["annotations"] = json!({ "deployment.kubernetes.io/revision": "41" });
    older["spec"]["selector"]["matchLabels"] = older_labels.clone();
    older["spec"]["template"]["metadata"]["labels"] = older_labels;
    world.create("replicasets", older).await;
    seconds(2).await;
    let web = workload("deployments", "web", json!({ "replicas": 2 }));
    world.create("deployments", web).await;
    seconds(10).await;
    let older = world.get("replicasets", "older").await;
    assert_eq!(older["metadata"]["ownerReferences"][0]["name"], "web");
    assert_eq!(older["spec"]["replicas"], 0);
    let annotations = world.get("deployments", "web").await["metadata"]["annotations"].clone();
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "42");

    let other = json!({ "metadata": { "labels": { "app": "other" } } });
    world.patch("replicasets", "older", other).await;
    seconds(2).await;
    let older = world.get("replicasets", "older").await;
    assert_eq!(older["metadata"]["ownerReferences"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn many_deployments_at_once_all_complete() {
    const COUNT: usize = 60;
    let world = world().await;
    for n in 0..COUNT {
        let name = format!("web-{n}");
        let object = workload("deployments", &name, json!({ "replicas": 3 }));
        world.create("deployments", object).await;
    }
    seconds(60).await;
    let all = world.list("deployments").await;
    let short: Vec<String> = all
        .iter()
        .filter(|d| d["status"]["availableReplicas"] != 3)
        .map(|d| format!("{} {}", d["metadata"]["name"], d["status"]))
        .collect();
    assert!(short.is_empty(), "{} of {}: {short:#?}", short.len(), all.len());
}
