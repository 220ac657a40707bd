//! Endpoints of Services, disruption budgets, autoscalers.

use super::{World, condition, merge, path, seconds, workload};
use equate_apiserver::Simulation;
use serde_json::{Value, json};

async fn world() -> World {
    World::new(Simulation::default()).await
}

async fn service(world: &World, spec: Value) {
    let mut object = json!({ "metadata": { "name": "web", "labels": { "team": "a" } }, "spec": {
        "selector": { "app": "web" },
        "ports": [{ "name": "http", "port": 80, "targetPort": "named" }, { "name": "admin", "port": 81 }],
    } });
    merge(&mut object["spec"], spec);
    world.create("services", object).await;
}

async fn deployment(world: &World, replicas: u64) {
    let ports = json!([{ "name": "named", "containerPort": 8080 }]);
    let containers = json!([{ "name": "c", "image": "nginx", "ports": ports }]);
    let spec = json!({ "replicas": replicas, "template": { "spec": { "containers": containers } } });
    world
        .create("deployments", workload("deployments", "web", spec))
        .await;
}

fn ready(slice: &Value) -> Vec<bool> {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints.map(|e| e["conditions"]["ready"] == true).collect()
}

#[tokio::test(start_paused = true)]
async fn services_have_the_endpoints_of_their_ready_pods() {
    let world = world().await;
    service(&world, json!({})).await;
    seconds(1).await;
    let slices = world.list("endpointslices").await;
    assert_eq!((slices.len(), ready(&slices[0]).len()), (1, 0));
    deployment(&world, 2).await;
    seconds(2).await;
    let slices = world.list("endpointslices").await;
    assert_eq!(slices.len(), 1);
    let slice = &slices[0];
    assert_eq!(ready(slice), [true, true]);
    assert_eq!(
        slice["metadata"]["labels"],
        json!({
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            "kubernetes.io/service-name": "web", "team": "a",
        })
    );
    assert_eq!(slice["metadata"]["ownerReferences"][0]["kind"], "Service");
    assert_eq!(
        slice["ports"],
        json!([
            { "name": "http", "port": 8080, "protocol": "TCP" },
            { "name": "admin", "port": 81, "protocol": "TCP" },
        ])
    );
    let pod = &world.list("pods").await[0];
    assert_eq!(
        slice["endpoints"][0],
        json!({
            "addresses": [pod["status"]["podIP"]],
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "nodeName": "equate-0",
            "targetRef": {
                "kind": "Pod", "namespace": "wl", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"],
            },
        })
    );
    let endpoints = world.get("endpoints", "web").await;
    assert_eq!(endpoints["subsets"][0]["addresses"].as_array().unwrap().len(), 2);

    // A pod that is not ready stays, and a pod without the label leaves; its owner replaces it.
    let broken = json!({ "metadata": { "annotations": { "equate.dev/simulate": "NotReady" } } });
    let names = world.names("pods").await;
    world.patch("pods", &names[0], broken).await;
    world
        .patch(
            "pods",
            &names[1],
            json!({ "metadata": { "labels": { "app": "other" } } }),
        )
        .await;
    seconds(1).await;
    let slices = world.list("endpointslices").await;
    let mut states = ready(&slices[0]);
    states.sort_unstable();
    assert_eq!(states, [false, true]);
    let endpoints = world.get("endpoints", "web").await;
    for list in ["addresses", "notReadyAddresses"] {
        let addresses = &endpoints["subsets"][0][list];
        assert_eq!(addresses.as_array().map(Vec::len), Some(1), "{list}");
    }

    world.delete("services", "web").await;
    seconds(1).await;
    assert!(world.names("endpointslices").await.is_empty());
    assert!(world.names("endpoints").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn large_and_headless_services_have_their_forms() {
    let world = world().await;
    deployment(&world, 120).await;
    seconds(3).await;
    service(&world, json!({ "clusterIP": "None" })).await;
    seconds(1).await;
    let slices = world.list("endpointslices").await;
    let mut counts: Vec<usize> = slices.iter().map(|slice| ready(slice).len()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [20, 100]);
    let labels = &slices[0]["metadata"]["labels"];
    assert_eq!(labels["service.kubernetes.io/headless"], "");
    world
        .patch("deployments", "web", json!({ "spec": { "replicas": 3 } }))
        .await;
    seconds(3).await;
    let slices = world.list("endpointslices").await;
    assert_eq!((slices.len(), ready(&slices[0])), (1, vec![true; 3]));

    let plain = json!({ "metadata": { "name": "plain" }, "spec": { "ports": [{ "port": 80 }] } });
    world.create("services", plain).await;
    seconds(1).await;
    assert_eq!(world.names("endpoints").await, ["web"]);
}

fn budget(spec: Value) -> Value {
    let mut object = json!({ "metadata": { "name": "web" }, "spec": {
        "selector": { "matchLabels": { "app": "web" } },
    } });
    merge(&mut object["spec"], spec);
    object
}

/// Expected, desired and healthy pods, allowed disruptions.
fn counts(budget: &Value) -> [u64; 4] {
    [
        "expectedPods",
        "desiredHealthy",
        "currentHealthy",
        "disruptionsAllowed",
    ]
    .map(|name| budget["status"][name].as_u64().unwrap_or(0))
}

#[tokio::test(start_paused = true)]
async fn budgets_count_pods() {
    let check = async |spec: Value, expected: [u64; 4], reason: &str| {
        let world = world().await;
        let shown = spec.to_string();
        world.create("poddisruptionbudgets", budget(spec)).await;
        seconds(1).await;
        let web = world.get("poddisruptionbudgets", "web").await;
        assert_eq!(web["status"]["observedGeneration"], 1, "{shown}");
        assert_eq!(
            condition(&web, "DisruptionAllowed"),
            "False InsufficientPods",
            "{shown}"
        );
        deployment(&world, 3).await;
        seconds(3).await;
        let web = world.get("poddisruptionbudgets", "web").await;
        assert_eq!(counts(&web), expected, "{shown}");
        assert_eq!(condition(&web, "DisruptionAllowed"), reason, "{shown}");
    };
    check(json!({ "minAvailable": 2 }), [3, 2, 3, 1], "True SufficientPods").await;
    check(
        json!({ "minAvailable": "50%" }),
        [3, 2, 3, 1],
        "True SufficientPods",
    )
    .await;
    check(
        json!({ "minAvailable": 3 }),
        [3, 3, 3, 0],
        "False InsufficientPods",
    )
    .await;
    check(
        json!({ "maxUnavailable": 2 }),
        [3, 1, 3, 2],
        "True SufficientPods",
    )
    .await;
    check(
        json!({ "maxUnavailable": "10%" }),
        [3, 2, 3, 1],
        "True SufficientPods",
    )
    .await;
    check(
        json!({ "maxUnavailable": 0 }),
        [3, 3, 3, 0],
        "False InsufficientPods",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn budgets_of_pods_without_scale_fail() {
    let world = world().await;
    world
        .create("daemonsets", workload("daemonsets", "web", json!({})))
        .await;
    let spec = json!({ "maxUnavailable": 1 });
    world.create("poddisruptionbudgets", budget(spec)).await;
    seconds(2).await;
    let web = world.get("poddisruptionbudgets", "web").await;
    assert_eq!(condition(&web, "DisruptionAllowed"), "False SyncFailed");
    let message = &web["status"]["conditions"][0]["message"];
    assert_eq!(
        message,
        "daemonsets.apps does not implement the scale subresource"
    );
}

async fn evict(world: &World, pod: &str) -> (u16, Value) {
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod } });
    let url = format!("{}/eviction", path("pods", pod));
    let (status, answer) = world.0.ask("POST", &url, &eviction).await;
    (status.as_u16(), answer)
}

#[tokio::test(start_paused = true)]
async fn evictions_use_up_a_budget_at_once() {
    let world = world().await;
    deployment(&world, 3).await;
    let spec = json!({ "minAvailable": 2 });
    world.create("poddisruptionbudgets", budget(spec)).await;
    seconds(3).await;
    let pods = world.names("pods").await;
    assert_eq!(evict(&world, &pods[0]).await.0, 201);
    // No time has passed: the second eviction must see the first.
    let (status, answer) = evict(&world, &pods[1]).await;
    assert_eq!(status, 429, "{answer}");
    assert_eq!(
        answer["message"],
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    let cause = &answer["details"]["causes"][0];
    assert_eq!(cause["reason"], "DisruptionBudget");
    // Its pod is replaced, and the budget recovers.
    seconds(3).await;
    let web = world.get("poddisruptionbudgets", "web").await;
    assert_eq!(counts(&web), [3, 2, 3, 1]);
    assert_eq!(web["status"].get("disruptedPods"), None);
    assert_eq!(evict(&world, &pods[1]).await.0, 201);

    seconds(3).await;
    let strict = json!({ "spec": { "minAvailable": 3 } });
    world.patch("poddisruptionbudgets", "web", strict).await;
    seconds(1).await;
    let (_, answer) = evict(&world, &pods[2]).await;
    assert_eq!(
        answer["details"]["causes"][0]["message"],
        "The disruption budget web needs 3 healthy pods and has 3 currently"
    );
    // A pod that is not ready may go if the budget says so.
    let unready = json!({ "metadata": { "annotations": { "equate.dev/simulate": "NotReady" } } });
    world.patch("pods", &pods[2], unready).await;
    seconds(1).await;
    assert_eq!(evict(&world, &pods[2]).await.0, 429);
    let always = json!({ "spec": { "unhealthyPodEvictionPolicy": "AlwaysAllow" } });
    world.patch("poddisruptionbudgets", "web", always).await;
    seconds(1).await;
    assert_eq!(evict(&world, &pods[2]).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn two_budgets_for_one_pod_are_an_error() {
    let world = world().await;
    deployment(&world, 1).await;
    for name in ["one", "two"] {
        let mut object = budget(json!({ "minAvailable": 0 }));
        object["metadata"]["name"] = json!(name);
        world.create("poddisruptionbudgets", object).await;
    }
    seconds(2).await;
    let (status, answer) = evict(&world, &world.names("pods").await[0]).await;
    assert_eq!(status, 500);
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.starts_with("This pod has more than one PodDisruptionBudget"),
        "{message}"
    );
}

fn autoscaler(least: u64, most: u64) -> Value {
    json!({ "metadata": { "name": "web" }, "spec": {
        "minReplicas": least, "maxReplicas": most,
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
    } })
}

#[tokio::test(start_paused = true)]
async fn autoscalers_keep_their_bounds() {
    let world = world().await;
    world.create("horizontalpodautoscalers", autoscaler(2, 4)).await;
    seconds(1).await;
    let web = world.get("horizontalpodautoscalers", "web").await;
    assert_eq!(condition(&web, "AbleToScale"), "False FailedGetScale");
    deployment(&world, 1).await;
    seconds(3).await;
    let replicas = async || world.get("deployments", "web").await["spec"]["replicas"].clone();
    assert_eq!(replicas().await, 2);
    let web = world.get("horizontalpodautoscalers", "web").await;
    assert_eq!(condition(&web, "AbleToScale"), "True ReadyForNewScale");
    assert_eq!(condition(&web, "ScalingActive"), "True ValidMetricFound");
    assert_eq!(condition(&web, "ScalingLimited"), "False DesiredWithinRange");
    assert_eq!(
        (
            &web["status"]["currentReplicas"],
            &web["status"]["desiredReplicas"]
        ),
        (&json!(2), &json!(2))
    );
    let current = &web["status"]["currentMetrics"][0]["resource"]["current"];
    assert_eq!(current["averageUtilization"], 80);

    // The next decision waits for the period of 15 s.
    world
        .patch("deployments", "web", json!({ "spec": { "replicas": 9 } }))
        .await;
    seconds(3).await;
    assert_eq!(replicas().await, 9);
    seconds(15).await;
    assert_eq!(replicas().await, 4);
    let events = world.events().await;
    let of: Vec<&String> = events
        .iter()
        .filter(|e| e.contains("SuccessfulRescale"))
        .collect();
    assert_eq!(
        of,
        [
            "HorizontalPodAutoscaler Normal SuccessfulRescale: New size: 2; reason: Current number of replicas below Spec.MinReplicas",
            "HorizontalPodAutoscaler Normal SuccessfulRescale: New size: 4; reason: Current number of replicas above Spec.MaxReplicas",
        ]
    );
    world
        .patch("deployments", "web", json!({ "spec": { "replicas": 0 } }))
        .await;
    seconds(1).await;
    let web = world.get("horizontalpodautoscalers", "web").await;
    assert_eq!(condition(&web, "ScalingActive"), "False ScalingDisabled");
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_of_the_first_version_settles() {
    let world = world().await;
    deployment(&world, 1).await;
    let url = "/apis/autoscaling/v1/namespaces/wl/horizontalpodautoscalers";
    let object = json!({ "metadata": { "name": "web" }, "spec": {
        "maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
    } });
    world.0.done("POST", url, object).await;
    seconds(3).await;
    let first = world.get("horizontalpodautoscalers", "web").await;
    assert_eq!(condition(&first, "ScalingActive"), "True ValidMetricFound");
    seconds(60).await;
    let second = world.get("horizontalpodautoscalers", "web").await;
    assert_eq!(
        first["metadata"]["resourceVersion"],
        second["metadata"]["resourceVersion"]
    );
    let v1 = world.0.done("GET", &format!("{url}/web"), Value::Null).await;
    assert_eq!(v1["status"]["currentCPUUtilizationPercentage"], 50);
}
