//! PersistentVolumes and their claims.

use super::{World, path, seconds, workload};
use equate_apiserver::Simulation;
use serde_json::{Value, json};

async fn world() -> World {
    World::new(Simulation::default()).await
}

fn volume_path(name: &str) -> String {
    format!("/api/v1/persistentvolumes/{name}")
}

async fn volume(world: &World, name: &str, storage: &str, spec: Value) {
    let mut volume = json!({ "metadata": { "name": name }, "spec": {
        "capacity": { "storage": storage }, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "hostPath": { "path": "/data" },
    } });
    super::merge(&mut volume["spec"], spec);
    world.0.done("POST", "/api/v1/persistentvolumes", volume).await;
}

async fn claim(world: &World, name: &str, spec: Value) {
    let mut claim = json!({ "metadata": { "name": name }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
    } });
    super::merge(&mut claim["spec"], spec);
    world.create("persistentvolumeclaims", claim).await;
}

/// `PHASE NAMESPACE/CLAIM`.
async fn shown(world: &World, name: &str) -> String {
    let volume = world.0.done("GET", &volume_path(name), Value::Null).await;
    let claim = &volume["spec"]["claimRef"];
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    format!(
        "{} {}/{}",
        text(&volume["status"]["phase"]),
        text(&claim["namespace"]),
        text(&claim["name"])
    )
}

/// `PHASE VOLUME CAPACITY`.
async fn claimed(world: &World, name: &str) -> String {
    let claim = world.get("persistentvolumeclaims", name).await;
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    format!(
        "{} {} {}",
        text(&claim["status"]["phase"]),
        text(&claim["spec"]["volumeName"]),
        text(&claim["status"]["capacity"]["storage"])
    )
}

#[tokio::test(start_paused = true)]
async fn a_claim_and_its_volume_are_bound() {
    for (volume_spec, claim_spec) in [
        (json!({}), json!({ "volumeName": "disk" })),
        (
            json!({ "storageClassName": "local-path" }),
            json!({ "volumeName": "disk" }),
        ),
        (
            json!({ "claimRef": { "namespace": "wl", "name": "data" }, "storageClassName": "slow" }),
            json!({}),
        ),
        (
            json!({ "storageClassName": "manual" }),
            json!({ "storageClassName": "manual" }),
        ),
    ] {
        for volume_first in [true, false] {
            // Without a reservation, a claim does not wait for a volume of its class.
            if !volume_first && claim_spec.get("storageClassName").is_some() {
                continue;
            }
            let world = world().await;
            if volume_first {
                volume(&world, "disk", "5Gi", volume_spec.clone()).await;
                seconds(1).await;
                assert!(shown(&world, "disk").await.starts_with("Available "));
            }
            claim(&world, "data", claim_spec.clone()).await;
            seconds(1).await;
            if !volume_first {
                volume(&world, "disk", "5Gi", volume_spec.clone()).await;
                seconds(1).await;
            }
            let about = format!("{volume_spec} {claim_spec} {volume_first}");
            assert_eq!(shown(&world, "disk").await, "Bound wl/data", "{about}");
            assert_eq!(claimed(&world, "data").await, "Bound disk 5Gi", "{about}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_serves_one_claim() {
    let world = world().await;
    volume(&world, "disk", "5Gi", json!({ "storageClassName": "manual" })).await;
    volume(&world, "large", "9Gi", json!({ "storageClassName": "manual" })).await;
    seconds(1).await;
    let manual = json!({ "storageClassName": "manual" });
    for name in ["one", "two", "three"] {
        claim(&world, name, manual.clone()).await;
    }
    seconds(1).await;
    claim(&world, "late", json!({ "volumeName": "disk" })).await;
    seconds(1).await;
    let mut volumes = Vec::new();
    for name in ["one", "two", "three"] {
        volumes.push(claimed(&world, name).await);
    }
    volumes.sort();
    assert_eq!(volumes, ["Bound - 1Gi", "Bound disk 5Gi", "Bound large 9Gi"]);
    assert_eq!(claimed(&world, "late").await, "Pending disk -");

    volume(&world, "other", "5Gi", json!({ "storageClassName": "manual" })).await;
    let class = json!({ "volumeName": "other", "storageClassName": "" });
    claim(&world, "wrong", class).await;
    seconds(1).await;
    assert_eq!(claimed(&world, "wrong").await, "Pending other -");
    let events = world.events().await;
    let expected = [
        "PersistentVolumeClaim Warning FailedBinding: volume \"disk\" already bound to a different claim.",
        "PersistentVolumeClaim Warning VolumeMismatch: Cannot bind to requested volume \"other\": storageClassName does not match",
    ];
    assert_eq!(events, expected);
}

#[tokio::test(start_paused = true)]
async fn claims_of_one_moment_get_volumes_of_their_own() {
    let world = world().await;
    let class = json!({ "storageClassName": "manual" });
    for n in 0..30 {
        volume(&world, &format!("disk-{n:02}"), "5Gi", class.clone()).await;
    }
    seconds(1).await;
    let mut template = json!({ "metadata": { "name": "data" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
    } });
    super::merge(&mut template["spec"], class);
    let spec = json!({
        "replicas": 30, "podManagementPolicy": "Parallel", "serviceName": "db",
        "volumeClaimTemplates": [template],
    });
    world
        .create("statefulsets", workload("statefulsets", "db", spec))
        .await;
    seconds(1).await;
    let mut volumes = Vec::new();
    for claim in world.list("persistentvolumeclaims").await {
        let name = claim["metadata"]["name"].as_str().unwrap();
        volumes.push(claimed(&world, name).await);
    }
    volumes.sort();
    let expected: Vec<String> = (0..30).map(|n| format!("Bound disk-{n:02} 5Gi")).collect();
    assert_eq!(volumes, expected);
}

#[tokio::test(start_paused = true)]
async fn a_claimed_volume_waits_with_its_deletion() {
    let world = world().await;
    volume(&world, "disk", "5Gi", json!({})).await;
    claim(&world, "data", json!({ "volumeName": "disk" })).await;
    seconds(1).await;
    world.0.done("DELETE", &volume_path("disk"), Value::Null).await;
    seconds(1).await;
    assert_eq!(shown(&world, "disk").await, "Bound wl/data");
    world.delete("persistentvolumeclaims", "data").await;
    seconds(1).await;
    let (status, _) = world.0.ask("GET", &volume_path("disk"), &Value::Null).await;
    assert_eq!(status, 404);

    volume(&world, "kept", "5Gi", json!({})).await;
    claim(&world, "data", json!({ "volumeName": "kept" })).await;
    seconds(1).await;
    world.delete("persistentvolumeclaims", "data").await;
    seconds(1).await;
    assert_eq!(shown(&world, "kept").await, "Released wl/data");
    world.0.done("DELETE", &volume_path("kept"), Value::Null).await;
    seconds(1).await;
    let (status, _) = world.0.ask("GET", &volume_path("kept"), &Value::Null).await;
    assert_eq!(status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_claim_grows_if_its_class_allows() {
    let world = world().await;
    for (name, expands) in [("fixed", false), ("elastic", true)] {
        let class = json!({
            "metadata": { "name": name }, "provisioner": "x.io/y", "allowVolumeExpansion": expands,
        });
        world
            .0
            .done("POST", "/apis/storage.k8s.io/v1/storageclasses", class)
            .await;
    }
    let refused = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    for (class, why) in [
        ("fixed", Some(refused)),
        ("absent", None),
        ("", Some(refused)),
        ("elastic", None),
    ] {
        let name = format!("of-{class}x");
        claim(&world, &name, json!({ "storageClassName": class })).await;
        seconds(1).await;
        let larger = json!({ "spec": { "resources": { "requests": { "storage": "2Gi" } } } });
        let target = path("persistentvolumeclaims", &name);
        let (status, answer) = world.0.ask("PATCH", &target, &larger).await;
        seconds(1).await;
        let (code, capacity) = if why.is_some() { (403, "1Gi") } else { (200, "2Gi") };
        assert_eq!(status, code, "{class}: {answer}");
        if let Some(why) = why {
            let message = format!("persistentvolumeclaims {name:?} is forbidden: {why}");
            assert_eq!(answer["message"], message);
        }
        assert_eq!(claimed(&world, &name).await, format!("Bound - {capacity}"));
    }
}
