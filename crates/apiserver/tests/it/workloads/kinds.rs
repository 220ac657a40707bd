//! StatefulSets, DaemonSets, Jobs and others.

use super::{World, condition, merge, path, seconds, workload};
use equate_apiserver::Simulation;
use serde_json::{Value, json};

async fn world() -> World {
    World::new(Simulation::default()).await
}

#[tokio::test(start_paused = true)]
async fn the_node_is_ready_and_stays() {
    let world = world().await;
    let node = |_| world.0.done("GET", "/api/v1/nodes/equate-0", Value::Null);
    let first = node(()).await;
    assert_eq!(condition(&first, "Ready"), "True KubeletReady");
    assert_eq!(first["spec"].get("taints"), None);
    world
        .0
        .done("DELETE", "/api/v1/nodes/equate-0", Value::Null)
        .await;
    seconds(1).await;
    assert_eq!(condition(&node(()).await, "Ready"), "True KubeletReady");
}

#[tokio::test(start_paused = true)]
async fn stateful_set_is_ordered() {
    let world = world().await;
    let claim = json!({
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    let spec = json!({ "replicas": 3, "serviceName": "db", "volumeClaimTemplates": [claim] });
    world
        .create("statefulsets", workload("statefulsets", "db", spec))
        .await;
    seconds(5).await;
    assert_eq!(world.names("pods").await, ["db-0", "db-1", "db-2"]);
    assert_eq!(
        world.names("persistentvolumeclaims").await,
        ["data-db-0", "data-db-1", "data-db-2"]
    );
    let claim = world.get("persistentvolumeclaims", "data-db-0").await;
    assert_eq!(claim["status"]["phase"], "Bound");
    let pod = world.get("pods", "db-1").await;
    assert_eq!(
        pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
        "data-db-1"
    );

    // From the last to the first, down to the partition.
    let next = json!({ "spec": {
        "updateStrategy": { "rollingUpdate": { "partition": 1 } },
        "template": { "metadata": { "annotations": { "round": "2" } } },
    } });
    world.patch("statefulsets", "db", next).await;
    seconds(5).await;
    let db = world.get("statefulsets", "db").await;
    assert_eq!(
        (&db["status"]["updatedReplicas"], &db["status"]["readyReplicas"]),
        (&json!(2), &json!(3))
    );
    assert_ne!(db["status"]["currentRevision"], db["status"]["updateRevision"]);
    assert_eq!(world.names("controllerrevisions").await.len(), 2);
    // A pod below the partition comes back unchanged.
    world.delete("pods", "db-0").await;
    seconds(5).await;
    let pod = world.get("pods", "db-0").await;
    assert_eq!(
        pod["metadata"]["labels"]["controller-revision-hash"],
        db["status"]["currentRevision"]
    );
    assert_eq!(pod["metadata"]["annotations"], Value::Null);

    let rest = json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 0 } } } });
    world.patch("statefulsets", "db", rest).await;
    seconds(5).await;
    let db = world.get("statefulsets", "db").await;
    assert_eq!(db["status"]["currentRevision"], db["status"]["updateRevision"]);

    world
        .patch("statefulsets", "db", json!({ "spec": { "replicas": 1 } }))
        .await;
    seconds(5).await;
    assert_eq!(world.names("pods").await, ["db-0"]);
    let deleted: Vec<String> = world
        .events()
        .await
        .into_iter()
        .filter(|e| e.contains("SuccessfulDelete"))
        .collect();
    let last = &deleted[deleted.len() - 2..];
    assert_eq!(
        last,
        [
            "StatefulSet Normal SuccessfulDelete: Delete Pod db-2 in StatefulSet db successful",
            "StatefulSet Normal SuccessfulDelete: Delete Pod db-1 in StatefulSet db successful",
        ]
    );

    // Claims outlive their set; a claim in use waits for its pod.
    world.delete("persistentvolumeclaims", "data-db-0").await;
    seconds(1).await;
    assert!(
        world
            .names("persistentvolumeclaims")
            .await
            .contains(&"data-db-0".to_owned())
    );
    world.delete("statefulsets", "db").await;
    seconds(2).await;
    assert!(world.names("pods").await.is_empty());
    assert_eq!(
        world.names("persistentvolumeclaims").await,
        ["data-db-1", "data-db-2"]
    );
}

#[tokio::test(start_paused = true)]
async fn claims_are_deleted_as_the_retention_policy_says() {
    let check = async |scaled: &str, deleted: &str, after_scale: &[&str], after_delete: &[&str]| {
        let world = world().await;
        let claim = json!({ "metadata": { "name": "data" }, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        } });
        let policy = json!({ "whenScaled": scaled, "whenDeleted": deleted });
        let spec = json!({
            "replicas": 2, "volumeClaimTemplates": [claim], "persistentVolumeClaimRetentionPolicy": policy,
        });
        world
            .create("statefulsets", workload("statefulsets", "db", spec))
            .await;
        seconds(3).await;
        world
            .patch("statefulsets", "db", json!({ "spec": { "replicas": 1 } }))
            .await;
        seconds(3).await;
        let claims = world.names("persistentvolumeclaims").await;
        assert_eq!(claims, after_scale, "{scaled} {deleted}");
        world.delete("statefulsets", "db").await;
        seconds(3).await;
        let claims = world.names("persistentvolumeclaims").await;
        assert_eq!(claims, after_delete, "{scaled} {deleted}");
    };
    let both = ["data-db-0", "data-db-1"];
    check("Retain", "Retain", &both, &both).await;
    check("Delete", "Retain", &["data-db-0"], &["data-db-0"]).await;
    check("Retain", "Delete", &both, &[]).await;
    check("Delete", "Delete", &["data-db-0"], &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_stateful_set_waits_at_its_first_pod() {
    let world = world().await;
    let mut db = workload("statefulsets", "db", json!({ "replicas": 3 }));
    merge(
        &mut db,
        json!({ "metadata": { "annotations": { "equate.dev/simulate": "ImagePullBackOff" } } }),
    );
    world.create("statefulsets", db).await;
    seconds(60).await;
    assert_eq!(world.names("pods").await, ["db-0"]);
    let parallel = workload(
        "statefulsets",
        "par",
        json!({ "replicas": 3, "podManagementPolicy": "Parallel" }),
    );
    world.create("statefulsets", parallel).await;
    seconds(2).await;
    assert_eq!(world.names("pods").await, ["db-0", "par-0", "par-1", "par-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_has_one_pod_and_rolls_it() {
    let world = world().await;
    world
        .create("daemonsets", workload("daemonsets", "log", json!({})))
        .await;
    seconds(2).await;
    let before = world.list("pods").await;
    assert_eq!(before.len(), 1);
    let next = json!({ "spec": { "template": { "metadata": { "annotations": { "round": "2" } } } } });
    world.patch("daemonsets", "log", next).await;
    seconds(2).await;
    let after = world.list("pods").await;
    assert_eq!(after.len(), 1);
    assert_ne!(before[0]["metadata"]["uid"], after[0]["metadata"]["uid"]);
    let log = world.get("daemonsets", "log").await;
    assert_eq!(
        (
            &log["status"]["updatedNumberScheduled"],
            &log["status"]["numberReady"]
        ),
        (&json!(1), &json!(1))
    );
    assert_eq!(log["status"]["observedGeneration"], 2);
}

#[tokio::test(start_paused = true)]
async fn jobs_complete() {
    let world = world().await;
    let spec = json!({ "completions": 5, "parallelism": 2, "completionMode": "Indexed", "ttlSecondsAfterFinished": 60 });
    world.create("jobs", workload("jobs", "five", spec)).await;
    seconds(10).await;
    let five = world.get("jobs", "five").await;
    assert_eq!(condition(&five, "Complete"), "True CompletionsReached");
    assert_eq!(
        (&five["status"]["succeeded"], &five["status"]["completedIndexes"]),
        (&json!(5), &json!("0-4"))
    );
    seconds(60).await;
    assert!(world.names("jobs").await.is_empty());
    assert!(world.names("pods").await.is_empty());

    // Failed pods are retried with growing back-off.
    let mut bad = workload("jobs", "bad", json!({ "backoffLimit": 2 }));
    merge(
        &mut bad,
        json!({ "metadata": { "annotations": { "equate.dev/simulate": "CrashLoopBackOff" } } }),
    );
    world.create("jobs", bad).await;
    seconds(5).await;
    assert_eq!(world.get("jobs", "bad").await["status"]["failed"], 1);
    seconds(60).await;
    let bad = world.get("jobs", "bad").await;
    assert_eq!(condition(&bad, "Failed"), "True BackoffLimitExceeded");
    assert_eq!(bad["status"]["failed"], 3);

    // A Job that waits for its image reaches its deadline.
    let mut stuck = workload("jobs", "stuck", json!({ "activeDeadlineSeconds": 30 }));
    merge(
        &mut stuck,
        json!({ "metadata": { "annotations": { "equate.dev/simulate": "ImagePullBackOff" } } }),
    );
    world.create("jobs", stuck).await;
    seconds(20).await;
    assert_eq!(world.get("jobs", "stuck").await["status"]["active"], 1);
    seconds(20).await;
    assert_eq!(
        condition(&world.get("jobs", "stuck").await, "Failed"),
        "True DeadlineExceeded"
    );

    let held = workload("jobs", "held", json!({ "suspend": true }));
    world.create("jobs", held).await;
    seconds(2).await;
    assert_eq!(
        condition(&world.get("jobs", "held").await, "Suspended"),
        "True JobSuspended"
    );
    world
        .patch("jobs", "held", json!({ "spec": { "suspend": false } }))
        .await;
    seconds(5).await;
    assert_eq!(
        condition(&world.get("jobs", "held").await, "Complete"),
        "True CompletionsReached"
    );
}

#[tokio::test(start_paused = true)]
async fn bare_pods_run_and_end_by_their_restart_policy() {
    let world = world().await;
    let pod = |name: &str, policy: &str| {
        json!({ "metadata": { "name": name }, "spec": {
            "restartPolicy": policy,
            "initContainers": [{ "name": "first", "image": "x" }],
            "containers": [{ "name": "c", "image": "x" }],
        } })
    };
    for policy in ["Always", "OnFailure", "Never"] {
        world.create("pods", pod(&policy.to_lowercase(), policy)).await;
    }
    let mut gated = pod("gated", "Always");
    gated["spec"]["readinessGates"] = json!([{ "conditionType": "example.org/open" }]);
    world.create("pods", gated).await;
    seconds(2).await;
    let shown: Vec<String> = world
        .list("pods")
        .await
        .iter()
        .map(|p| {
            let init = &p["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"];
            format!(
                "{} {} {} {}",
                p["metadata"]["name"],
                p["status"]["phase"],
                condition(p, "Ready"),
                init
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "\"always\" \"Running\" True  \"Completed\"",
            "\"gated\" \"Running\" False ReadinessGatesNotReady \"Completed\"",
            "\"never\" \"Succeeded\" False PodCompleted \"Completed\"",
            "\"onfailure\" \"Succeeded\" False PodCompleted \"Completed\"",
        ]
    );
    world.delete("pods", "always").await;
    seconds(1).await;
    assert!(!world.names("pods").await.contains(&"always".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn load_balancers_and_ingresses_get_addresses() {
    let world = world().await;
    let ports = json!([{ "port": 80 }]);
    let service =
        json!({ "metadata": { "name": "web" }, "spec": { "type": "LoadBalancer", "ports": ports } });
    world.create("services", service).await;
    let ingress = json!({ "metadata": { "name": "web" }, "spec": { "defaultBackend": {
        "service": { "name": "web", "port": { "number": 80 } },
    } } });
    world.create("ingresses", ingress).await;
    seconds(1).await;
    for kind in ["services", "ingresses"] {
        let object = world.get(kind, "web").await;
        let ip = object["status"]["loadBalancer"]["ingress"][0]["ip"]
            .as_str()
            .unwrap();
        assert!(ip.starts_with("192.0.2."), "{kind}: {ip}");
    }
    world
        .patch("services", "web", json!({ "spec": { "type": "ClusterIP" } }))
        .await;
    seconds(1).await;
    let service = world.get("services", "web").await;
    assert_eq!(service["status"]["loadBalancer"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn namespace_with_workloads_is_deleted() {
    let world = world().await;
    for kind in ["deployments", "statefulsets", "daemonsets", "jobs"] {
        world.create(kind, workload(kind, "web", json!({}))).await;
    }
    let claim = json!({ "metadata": { "name": "data" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
    } });
    world.create("persistentvolumeclaims", claim).await;
    seconds(2).await;
    world.0.done("DELETE", "/api/v1/namespaces/wl", Value::Null).await;
    seconds(60).await;
    let (status, answer) = world.0.ask("GET", "/api/v1/namespaces/wl", &Value::Null).await;
    assert_eq!(status, 404, "{answer}");
    let (_, pods) = world.0.ask("GET", &path("pods", ""), &Value::Null).await;
    assert_eq!(pods["items"], json!([]));
}
