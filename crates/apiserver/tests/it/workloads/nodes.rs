//! The node: its Lease, cordon, and pods that wait for a node.

use super::{World, condition, merge, seconds, workload};
use equate_apiserver::Simulation;
use serde_json::{Value, json};

const NODE: &str = "/api/v1/nodes/equate-0";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/equate-0";

async fn world() -> World {
    World::new(Simulation::default()).await
}

async fn cordon(world: &World, on: bool) {
    let patch = json!({ "spec": { "unschedulable": on } });
    world.0.done("PATCH", NODE, patch).await;
    seconds(1).await;
}

fn placement(pod: &Value) -> String {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or("-");
    let phase = pod["status"]["phase"].as_str().unwrap();
    format!("{node} {phase} {}", condition(pod, "PodScheduled"))
}

#[tokio::test(start_paused = true)]
async fn the_node_renews_its_lease_rarely() {
    let world = world().await;
    let times = async || {
        let lease = world.0.done("GET", LEASE, Value::Null).await;
        assert_eq!(lease["spec"]["holderIdentity"], "equate-0");
        lease["spec"]["renewTime"].as_str().unwrap().to_owned()
    };
    let first = times().await;
    seconds(240).await;
    assert_eq!(times().await, first);
    seconds(120).await;
    let second = times().await;
    assert_ne!(second, first);
    seconds(3600).await;
    assert_ne!(times().await, second);
    let node = world.0.done("GET", NODE, Value::Null).await;
    for kind in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
        assert!(condition(&node, kind).starts_with("False "), "{kind}");
    }
    assert_eq!(condition(&node, "Ready"), "True KubeletReady");
}

#[tokio::test(start_paused = true)]
async fn pods_wait_while_the_node_is_cordoned() {
    let world = world().await;
    cordon(&world, true).await;
    let node = world.0.done("GET", NODE, Value::Null).await;
    assert_eq!(
        node["spec"]["taints"][0]["key"],
        "node.kubernetes.io/unschedulable"
    );
    for kind in ["deployments", "daemonsets"] {
        world.create(kind, workload(kind, kind, json!({}))).await;
    }
    seconds(2).await;
    let shown = async || -> Vec<String> {
        let pods = world.list("pods").await;
        let owner = |p: &Value| p["metadata"]["labels"]["app"].as_str().unwrap().to_owned();
        let mut shown: Vec<String> = pods
            .iter()
            .map(|p| format!("{} {}", owner(p), placement(p)))
            .collect();
        shown.sort();
        shown
    };
    assert_eq!(
        shown().await,
        [
            "daemonsets equate-0 Running True ",
            "deployments - Pending False Unschedulable"
        ]
    );
    let events = world.events().await;
    let waits = "Pod Warning FailedScheduling: 0/1 nodes are available: 1 node(s) were unschedulable. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(events.iter().filter(|e| *e == waits).count(), 1, "{events:#?}");
    cordon(&world, false).await;
    seconds(1).await;
    assert_eq!(
        shown().await,
        [
            "daemonsets equate-0 Running True ",
            "deployments equate-0 Running True "
        ]
    );
    let node = world.0.done("GET", NODE, Value::Null).await;
    assert_eq!(node["spec"].get("taints"), None);
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_is_placed_when_it_is_mended() {
    let world = world().await;
    let mut web = workload("deployments", "web", json!({}));
    let asked =
        |value: Option<&str>| json!({ "metadata": { "annotations": { "equate.dev/simulate": value } } });
    merge(&mut web, asked(Some("Unschedulable")));
    world.create("deployments", web).await;
    seconds(2).await;
    let pod = &world.list("pods").await[0];
    assert_eq!(placement(pod), "- Pending False Unschedulable");
    world.patch("deployments", "web", asked(None)).await;
    seconds(2).await;
    let pod = &world.list("pods").await[0];
    assert_eq!(placement(pod), "equate-0 Running True ");
}

#[tokio::test(start_paused = true)]
async fn a_scheduling_gate_holds_a_pod_until_it_is_removed() {
    let world = world().await;
    let gated = json!({ "metadata": { "name": "p" }, "spec": {
        "schedulingGates": [{ "name": "example.org/wait" }],
        "containers": [{ "name": "c", "image": "x" }],
    } });
    world.create("pods", gated).await;
    seconds(2).await;
    assert_eq!(
        placement(&world.get("pods", "p").await),
        "- Pending False SchedulingGated"
    );
    world
        .patch("pods", "p", json!({ "spec": { "schedulingGates": null } }))
        .await;
    seconds(2).await;
    assert_eq!(placement(&world.get("pods", "p").await), "equate-0 Running True ");
}

#[tokio::test(start_paused = true)]
async fn pods_on_a_foreign_node_are_left_to_its_kubelet() {
    let world = world().await;
    let node = json!({ "metadata": { "name": "other" } });
    world.0.done("POST", "/api/v1/nodes", node).await;
    let pod = json!({ "metadata": { "name": "p" }, "spec": {
        "nodeName": "other", "containers": [{ "name": "c", "image": "x" }],
    } });
    world.create("pods", pod).await;
    seconds(5).await;
    assert_eq!(world.get("pods", "p").await["status"]["phase"], "Pending");
}
