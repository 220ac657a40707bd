//! Simulated failures.

use super::{World, condition, merge, seconds, workload};
use equate_apiserver::Simulation;
use serde_json::{Value, json};

fn asked(fault: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": { "equate.dev/simulate": fault } } })
}

async fn world() -> World {
    World::new(Simulation::default()).await
}

fn pod(object: &Value) -> String {
    let container = &object["status"]["containerStatuses"][0];
    format!(
        "{} {} {}",
        object["status"]["phase"].as_str().unwrap(),
        container["state"]["waiting"]["reason"].as_str().unwrap_or("-"),
        container["restartCount"]
    )
}

fn unknown(value: &str) -> String {
    let known = "\"CrashLoopBackOff\", \"CreateContainerConfigError\", \"Error\", \"ImagePullBackOff\", \"NotReady\", \"OOMKilled\", \"Running\", \"Unschedulable\"";
    format!(
        "Warning UnknownSimulation: equate.dev/simulate: unknown value {value:?} has no effect; use one of {known}"
    )
}

async fn pods(world: &World) -> Vec<String> {
    world.list("pods").await.iter().map(pod).collect()
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_backs_off_and_times_out() {
    let world = world().await;
    let mut web = workload("deployments", "web", json!({ "progressDeadlineSeconds": 60 }));
    merge(&mut web["spec"]["template"], asked(Some("CrashLoopBackOff")));
    world.create("deployments", web).await;
    seconds(2).await;
    assert_eq!(pods(&world).await, ["Running CrashLoopBackOff 1"]);
    seconds(15).await;
    assert_eq!(pods(&world).await, ["Running CrashLoopBackOff 2"]);
    let web = world.get("deployments", "web").await;
    assert_eq!(condition(&web, "Progressing"), "True ReplicaSetUpdated");
    seconds(60).await;
    let web = world.get("deployments", "web").await;
    assert_eq!(condition(&web, "Progressing"), "False ProgressDeadlineExceeded");
    let one = &world.list("pods").await[0];
    let waiting = &one["status"]["containerStatuses"][0]["state"]["waiting"]["message"];
    assert!(
        waiting
            .as_str()
            .unwrap()
            .starts_with("back-off 1m20s restarting failed container=c pod=web-")
    );
    assert_eq!(
        one["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"],
        1
    );
    let events = world.events().await;
    let backed = |e: &&String| {
        e.starts_with("Pod Warning BackOff: Back-off restarting failed container c in pod web-")
    };
    assert!(events.iter().any(|e| backed(&e)), "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_pulled_keeps_the_old_pods() {
    let world = world().await;
    let web = workload("deployments", "web", json!({ "replicas": 4 }));
    world.create("deployments", web).await;
    seconds(2).await;
    let broken = json!({ "spec": { "template": asked(Some("ImagePullBackOff")) } });
    world.patch("deployments", "web", broken).await;
    seconds(5).await;
    let web = world.get("deployments", "web").await;
    assert_eq!(web["status"]["availableReplicas"], 3);
    assert_eq!(web["status"]["updatedReplicas"], 2);
    assert_eq!(condition(&web, "Available"), "True MinimumReplicasAvailable");
    let waiting = pods(&world)
        .await
        .iter()
        .filter(|p| *p == "Pending ImagePullBackOff 0")
        .count();
    assert_eq!(waiting, 2);
    let mended = json!({ "spec": { "template": asked(None) } });
    world.patch("deployments", "web", mended).await;
    seconds(5).await;
    let web = world.get("deployments", "web").await;
    assert_eq!(condition(&web, "Progressing"), "True NewReplicaSetAvailable");
    assert_eq!(web["status"]["availableReplicas"], 4);
}

#[tokio::test(start_paused = true)]
async fn workload_annotation_applies_to_running_pods() {
    for kind in ["deployments", "statefulsets", "daemonsets"] {
        let world = world().await;
        world.create(kind, workload(kind, "web", json!({}))).await;
        seconds(2).await;
        assert_eq!(pods(&world).await, ["Running - 0"], "{kind}");
        world.patch(kind, "web", asked(Some("CrashLoopBackOff"))).await;
        seconds(2).await;
        assert_eq!(pods(&world).await, ["Running CrashLoopBackOff 1"], "{kind}");
        world.patch(kind, "web", asked(None)).await;
        seconds(2).await;
        assert_eq!(pods(&world).await, ["Running - 1"], "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_fault_is_reported_and_ignored() {
    let world = world().await;
    let mut web = workload("deployments", "web", json!({}));
    merge(&mut web["spec"]["template"], asked(Some("CrashLoop")));
    world.create("deployments", web).await;
    let mut bare =
        json!({ "metadata": { "name": "bare" }, "spec": { "containers": [{ "name": "c", "image": "x" }] } });
    merge(&mut bare, asked(Some("OOM")));
    world.create("pods", bare).await;
    seconds(2).await;
    assert_eq!(pods(&world).await, ["Running - 0"; 2]);
    let events = world.events().await;
    let mut said: Vec<&String> = events
        .iter()
        .filter(|e| e.contains("UnknownSimulation"))
        .collect();
    said.sort();
    assert_eq!(
        said,
        [
            &format!("Deployment {}", unknown("CrashLoop")),
            &format!("Pod {}", unknown("OOM")),
        ]
    );
}

/// A pod with two init containers `first` and `second`, and two others `c` and `d`.
fn crowd(name: &str, policy: &str, container: &str, fault: &str) -> Value {
    let container = format!("equate.dev/simulate.{container}");
    let of = |names: [&str; 2]| names.map(|name| json!({ "name": name, "image": "x" }));
    json!({
        "metadata": { "name": name, "annotations": { container: fault } },
        "spec": {
            "restartPolicy": policy,
            "initContainers": of(["first", "second"]), "containers": of(["c", "d"]),
        },
    })
}

/// Phase, then the state and restarts of every container.
fn parts(pod: &Value) -> String {
    let mut out = pod["status"]["phase"].as_str().unwrap().to_owned();
    for list in ["initContainerStatuses", "containerStatuses"] {
        for status in pod["status"][list].as_array().unwrap() {
            let (state, details) = status["state"].as_object().unwrap().iter().next().unwrap();
            let reason = details["reason"].as_str().unwrap_or(state);
            out.push_str(&format!(
                " {}={reason}/{}",
                status["name"].as_str().unwrap(),
                status["restartCount"]
            ));
        }
    }
    out
}

#[tokio::test(start_paused = true)]
async fn one_container_fails() {
    let check = async |policy: &str, container: &str, fault: &str, expected: &str| {
        let world = world().await;
        world.create("pods", crowd("p", policy, container, fault)).await;
        seconds(15).await;
        let found = parts(&world.get("pods", "p").await);
        assert_eq!(found, expected, "{policy} {container} {fault}");
    };
    let crashed = "first=Completed/0 second=CrashLoopBackOff/2 c=PodInitializing/0 d=PodInitializing/0";
    check("Always", "second", "Error", &format!("Pending {crashed}")).await;
    check("OnFailure", "second", "OOMKilled", &format!("Pending {crashed}")).await;
    let failed = "first=Error/0 second=PodInitializing/0 c=PodInitializing/0 d=PodInitializing/0";
    check("Never", "first", "Error", &format!("Failed {failed}")).await;
    let pulls = "first=ImagePullBackOff/0 second=PodInitializing/0 c=PodInitializing/0 d=PodInitializing/0";
    check("Always", "first", "ImagePullBackOff", &format!("Pending {pulls}")).await;
    let runs = "first=running/0 second=PodInitializing/0 c=PodInitializing/0 d=PodInitializing/0";
    check("Never", "first", "Running", &format!("Pending {runs}")).await;
    let ready = "first=Completed/0 second=Completed/0";
    let half = format!("Running {ready} c=running/0 d=CrashLoopBackOff/2");
    check("Always", "d", "CrashLoopBackOff", &half).await;
    let half = format!("Failed {ready} c=Completed/0 d=Error/0");
    check("Never", "d", "Error", &half).await;
}

fn annotate(object: &mut Value, entries: &[(&str, &str)]) {
    for (name, value) in entries {
        let annotation = json!({ format!("equate.dev/{name}"): value });
        merge(object, json!({ "metadata": { "annotations": annotation } }));
    }
}

/// The containers' last exit codes.
fn codes(pod: &Value) -> Vec<Option<i64>> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = lists
        .iter()
        .flat_map(|list| pod["status"][list].as_array().unwrap());
    let code = |status: &Value| {
        let ended = [&status["state"], &status["lastState"]];
        ended
            .iter()
            .find_map(|state| state["terminated"]["exitCode"].as_i64())
    };
    statuses.map(code).collect()
}

#[tokio::test(start_paused = true)]
async fn one_container_ends_as_declared_beside_its_outcome() {
    let check = async |container: &str, code: &str, expected: [Option<i64>; 4]| {
        let world = world().await;
        let mut pod = crowd("p", "Always", container, "Error");
        annotate(
            &mut pod,
            &[("simulate-exit-code", code), ("simulate-runs-for", "5s")],
        );
        world.create("pods", pod).await;
        seconds(4).await;
        let early = parts(&world.get("pods", "p").await);
        assert!(early.contains(&format!("{container}=running/0")), "{early}");
        seconds(3).await;
        let pod = world.get("pods", "p").await;
        assert_eq!(codes(&pod), expected, "{container} {code}");
    };
    check("first", "3", [Some(3), None, None, None]).await;
    check("d", "3", [Some(0), Some(0), None, Some(3)]).await;
    check("d", "0", [Some(0), Some(0), None, Some(0)]).await;
    // One that succeeds would not keep the others from starting.
    check("second", "0", [Some(0), Some(1), None, None]).await;
}

#[tokio::test(start_paused = true)]
async fn nearest_declaration_counts_for_one_container_too() {
    let check = async |near: (&str, &str), far: (&str, &str), expected: &str| {
        let world = world().await;
        let mut web = workload("deployments", "web", json!({}));
        annotate(&mut web["spec"]["template"], &[near]);
        annotate(&mut web, &[far]);
        world.create("deployments", web).await;
        seconds(3).await;
        assert_eq!(pods(&world).await, [expected], "{near:?} {far:?}");
    };
    let (all, one) = (("simulate", "Running"), ("simulate.c", "Error"));
    check(all, one, "Running - 0").await;
    check(one, all, "Running CrashLoopBackOff 1").await;
    // A container that does not exist declares nothing.
    check(("simulate.x", "Running"), one, "Running CrashLoopBackOff 1").await;
}

/// A pod with a sidecar `proxy` and a container `c`.
fn with_sidecar(fault: &str) -> Value {
    json!({
        "metadata": { "name": "p", "annotations": { "equate.dev/simulate.proxy": fault } },
        "spec": {
            "initContainers": [{ "name": "proxy", "image": "x", "restartPolicy": "Always" }],
            "containers": [{ "name": "c", "image": "x" }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn each_restart_of_a_sidecar_is_reported() {
    let world = world().await;
    world.create("pods", with_sidecar("Error")).await;
    seconds(15).await;
    let pod = world.get("pods", "p").await;
    assert_eq!(parts(&pod), "Running proxy=CrashLoopBackOff/2 c=running/0");
    let mut counts = [0, 0];
    for event in world.list("events").await {
        if event["reason"] == "Started" {
            let place = event["involvedObject"]["fieldPath"].as_str().unwrap();
            counts[usize::from(place == "spec.containers{c}")] += 1;
        }
    }
    assert_eq!(counts, [2, 1]);
}

#[tokio::test(start_paused = true)]
async fn only_containers_that_go_on_can_be_unready() {
    let world = world().await;
    world.create("pods", with_sidecar("NotReady")).await;
    world
        .create("pods", crowd("q", "Always", "first", "NotReady"))
        .await;
    seconds(2).await;
    let sidecar = world.get("pods", "p").await;
    assert_eq!(condition(&sidecar, "Ready"), "False ContainersNotReady");
    let initial = world.get("pods", "q").await;
    assert_eq!(
        parts(&initial),
        "Running first=Completed/0 second=Completed/0 c=running/0 d=running/0"
    );
    let events = world.events().await;
    let said = events.iter().filter(|e| e.contains("UnknownSimulation"));
    let said: Vec<&String> = said.collect();
    assert_eq!(said.len(), 1, "{said:#?}");
    let prefix = "Pod Warning UnknownSimulation: equate.dev/simulate.first: unknown value \"NotReady\" has no effect; use one of ";
    assert!(said[0].starts_with(prefix), "{said:#?}");
}

#[tokio::test(start_paused = true)]
async fn pod_starts_once_its_init_container_is_repaired() {
    let world = world().await;
    let mut web = workload("deployments", "web", json!({}));
    let initial = json!([{ "name": "migrate", "image": "x" }]);
    web["spec"]["template"]["spec"]["initContainers"] = initial;
    web["metadata"]["annotations"] = json!({ "equate.dev/simulate.migrate": "Error" });
    world.create("deployments", web).await;
    seconds(2).await;
    let pod = world.list("pods").await.remove(0);
    assert_eq!(
        parts(&pod),
        "Pending migrate=CrashLoopBackOff/1 c=PodInitializing/0"
    );
    assert_eq!(condition(&pod, "Initialized"), "False ContainersNotInitialized");
    assert_eq!(condition(&pod, "Ready"), "False ContainersNotReady");
    let unset = json!({ "metadata": { "annotations": { "equate.dev/simulate.migrate": null } } });
    world.patch("deployments", "web", unset).await;
    seconds(2).await;
    let pod = world.list("pods").await.remove(0);
    assert_eq!(parts(&pod), "Running migrate=Completed/1 c=running/0");
    assert_eq!(condition(&pod, "Initialized"), "True ");
    assert_eq!(condition(&pod, "Ready"), "True ");
    let events = world.events().await;
    let started = events.iter().filter(|e| e.starts_with("Pod Normal Started"));
    assert_eq!(started.count(), 2, "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn misspelt_outcome_of_a_container_is_reported() {
    let world = world().await;
    world.create("pods", crowd("a", "Always", "e", "Error")).await;
    world
        .create("pods", crowd("b", "Always", "c", "Unschedulable"))
        .await;
    seconds(2).await;
    let events = world.events().await;
    let said: Vec<&String> = events
        .iter()
        .filter(|e| e.contains("UnknownSimulation"))
        .collect();
    let absent =
        "Pod Warning UnknownSimulation: equate.dev/simulate.e has no effect: the pods have no such container";
    assert_eq!(said[0], absent);
    let prefix = "Pod Warning UnknownSimulation: equate.dev/simulate.c: unknown value \"Unschedulable\" has no effect; use one of ";
    assert!(said[1].starts_with(prefix), "{said:#?}");
    assert_eq!(said.len(), 2);
}
