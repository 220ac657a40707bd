//! Declared behaviour: running, ends, restarts, logs, and the Events of pods.

use super::{World, merge, path, seconds, workload};
use axum::body::Body;
use equate_apiserver::{Identity, Simulation};
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::time::Duration;

async fn world() -> World {
    World::new(Simulation::default()).await
}

fn declared(entries: &[(&str, &str)]) -> Value {
    let annotations: serde_json::Map<String, Value> = entries
        .iter()
        .map(|(name, value)| (format!("equate.dev/{name}"), json!(value)))
        .collect();
    json!({ "metadata": { "annotations": annotations } })
}

fn pod(name: &str, policy: &str, entries: &[(&str, &str)]) -> Value {
    let mut pod = json!({ "metadata": { "name": name }, "spec": {
        "restartPolicy": policy, "containers": [{ "name": "c", "image": "nginx" }],
    } });
    merge(&mut pod, declared(entries));
    pod
}

/// Phase, state, code, reason and restarts of the first container.
fn shown(pod: &Value) -> String {
    let status = &pod["status"]["containerStatuses"][0];
    let Some((state, details)) = status["state"].as_object().and_then(|state| state.iter().next()) else {
        return format!("{} -", pod["status"]["phase"].as_str().unwrap());
    };
    format!(
        "{} {state} {} {} {}",
        pod["status"]["phase"].as_str().unwrap(),
        details["exitCode"],
        details["reason"].as_str().unwrap_or("-"),
        status["restartCount"]
    )
}

#[tokio::test(start_paused = true)]
async fn containers_end_as_declared() {
    let check = async |policy: &str, entries: &[(&str, &str)], after: u64, expected: &str| {
        let world = world().await;
        world.create("pods", pod("p", policy, entries)).await;
        seconds(after).await;
        let found = shown(&world.get("pods", "p").await);
        assert_eq!(found, expected, "{policy} {entries:?}");
    };
    let code = |code| ("simulate-exit-code", code);
    check("Never", &[code("3")], 1, "Failed terminated 3 Error 0").await;
    check("Never", &[code("0")], 1, "Succeeded terminated 0 Completed 0").await;
    check("OnFailure", &[code("0")], 1, "Succeeded terminated 0 Completed 0").await;
    check(
        "OnFailure",
        &[code("3")],
        1,
        "Running waiting null CrashLoopBackOff 1",
    )
    .await;
    check(
        "Always",
        &[code("0")],
        1,
        "Running waiting null CrashLoopBackOff 1",
    )
    .await;
    check(
        "Never",
        &[("simulate", "Running")],
        600,
        "Running running null - 0",
    )
    .await;
    let oom = ("simulate", "OOMKilled");
    check("Never", &[oom], 1, "Failed terminated 137 OOMKilled 0").await;
    let config = ("simulate", "CreateContainerConfigError");
    check(
        "Never",
        &[config],
        1,
        "Pending waiting null CreateContainerConfigError 0",
    )
    .await;
    // For a declared time it runs first, and again after each back-off.
    let slow = [("simulate", "Error"), ("simulate-runs-for", "30s")];
    check("Always", &slow, 20, "Running running null - 0").await;
    check("Always", &slow, 35, "Running waiting null CrashLoopBackOff 1").await;
    check("Always", &slow, 50, "Running running null - 1").await;
    check("Always", &slow, 75, "Running waiting null CrashLoopBackOff 2").await;
    check(
        "Never",
        &[("simulate-runs-for", "30s")],
        20,
        "Running running null - 0",
    )
    .await;
    check(
        "Never",
        &[("simulate-runs-for", "30s")],
        40,
        "Succeeded terminated 0 Completed 0",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_runs_can_be_ended() {
    let world = world().await;
    let mut job = workload("jobs", "job", json!({}));
    merge(&mut job, declared(&[("simulate", "Running")]));
    world.create("jobs", job).await;
    seconds(600).await;
    assert_eq!(world.get("jobs", "job").await["status"]["active"], 1);
    let ended = json!({ "metadata": { "annotations": { "equate.dev/simulate": null } } });
    world.patch("jobs", "job", ended).await;
    seconds(2).await;
    assert_eq!(world.get("jobs", "job").await["status"]["succeeded"], 1);
}

#[tokio::test(start_paused = true)]
async fn an_unready_pod_is_never_available() {
    let world = world().await;
    let mut web = workload("deployments", "web", json!({}));
    merge(
        &mut web["spec"]["template"],
        declared(&[("simulate", "NotReady")]),
    );
    world.create("deployments", web).await;
    seconds(5).await;
    let web = world.get("deployments", "web").await;
    assert_eq!(web["status"]["unavailableReplicas"], 1);
    let events = world.events().await;
    let unhealthy = "Pod Warning Unhealthy: Readiness probe failed: simulated failure";
    assert!(events.iter().any(|e| e == unhealthy), "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn misdeclared_details_are_reported() {
    let check = async |name: &str, value: &str, expected: &str| {
        let world = world().await;
        world.create("pods", pod("p", "Always", &[(name, value)])).await;
        seconds(1).await;
        let events = world.events().await;
        let found = events
            .iter()
            .find_map(|e| e.strip_prefix("Pod Warning UnknownSimulation: "));
        assert_eq!(found, Some(expected), "{name}={value}");
    };
    check(
        "simulate-exit-code",
        "many",
        "equate.dev/simulate-exit-code: unknown value \"many\" has no effect; use a number from 0 to 255",
    )
    .await;
    check(
        "simulate-runs-for",
        "long",
        "equate.dev/simulate-runs-for: unknown value \"long\" has no effect; use a duration such as \"30s\"",
    )
    .await;
    check(
        "simulate-logs",
        "x",
        "unknown annotation equate.dev/simulate-logs has no effect; use equate.dev/simulate, equate.dev/simulate.CONTAINER, equate.dev/simulate-exit-code, equate.dev/simulate-runs-for, equate.dev/simulate-log or equate.dev/simulate-log.CONTAINER",
    )
    .await;
}

/// Reasons of the Events about one pod.
async fn reasons(world: &World, name: &str) -> Vec<String> {
    let mut events = world.list("events").await;
    events.retain(|e| e["involvedObject"]["name"] == name);
    let revision = |e: &Value| {
        let text = e["metadata"]["resourceVersion"].as_str().unwrap();
        text.parse::<u64>().unwrap()
    };
    events.sort_by_key(revision);
    let reason = |e: &Value| e["reason"].as_str().unwrap().to_owned();
    events.iter().map(reason).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_have_the_events_of_a_kubelet() {
    let world = world().await;
    world.create("pods", pod("good", "Always", &[])).await;
    let crashing = [("simulate", "CrashLoopBackOff")];
    world.create("pods", pod("crash", "Always", &crashing)).await;
    let image = [("simulate", "ImagePullBackOff")];
    world.create("pods", pod("image", "Always", &image)).await;
    seconds(1).await;
    world.delete("pods", "good").await;
    seconds(1).await;
    let start = ["Scheduled", "Pulled", "Created", "Started"];
    assert_eq!(reasons(&world, "good").await, [&start[..], &["Killing"]].concat());
    assert_eq!(
        reasons(&world, "crash").await,
        [&start[..], &["BackOff"]].concat()
    );
    assert_eq!(
        reasons(&world, "image").await,
        ["Scheduled", "Pulling", "Failed", "Failed", "BackOff", "Failed"]
    );
    seconds(10).await;
    let again = ["Pulled", "Created", "Started", "BackOff"];
    assert_eq!(
        reasons(&world, "crash").await,
        [&start[..], &["BackOff"], &again].concat()
    );
    let events = world.list("events").await;
    let started = events.iter().find(|e| e["reason"] == "Started").unwrap();
    assert_eq!(started["involvedObject"]["fieldPath"], "spec.containers{c}");
    assert_eq!(started["message"], "Container started");
    let scheduled = events.iter().find(|e| e["reason"] == "Scheduled").unwrap();
    assert_eq!(scheduled["source"], json!({ "component": "default-scheduler" }));
}

#[tokio::test(start_paused = true)]
async fn a_mass_start_has_a_bounded_number_of_events() {
    let world = world().await;
    let web = workload("deployments", "web", json!({ "replicas": 200 }));
    world.create("deployments", web).await;
    seconds(5).await;
    let web = world.get("deployments", "web").await;
    assert_eq!(web["status"]["availableReplicas"], 200);
    let events = world.list("events").await;
    let of_kubelet = |e: &&Value| e["source"]["component"] == "kubelet";
    let count = events.iter().filter(of_kubelet).count();
    assert!((3..=350).contains(&count), "{count}");
}

async fn log(world: &World, name: &str, query: &str) -> (u16, String) {
    let url = format!("{}/log?{query}", path("pods", name));
    let (status, answer) = world.0.ask("GET", &url, &Value::Null).await;
    let text = match &answer {
        Value::String(text) => text.clone(),
        other => other["message"].as_str().unwrap_or_default().to_owned(),
    };
    (status.as_u16(), text)
}

#[tokio::test(start_paused = true)]
async fn declared_logs_are_read() {
    let world = world().await;
    let entries = [
        ("simulate-log", "one\ntwo\nthree"),
        ("simulate-log.side", "beside\n"),
    ];
    let mut two = pod("two", "Always", &entries);
    two["spec"]["containers"] = json!([{ "name": "c", "image": "x" }, { "name": "side", "image": "x" }]);
    world.create("pods", two).await;
    let check = async |name: &str, query: &str, status: u16, expected: &str| {
        let found = log(&world, name, query).await;
        assert_eq!(found, (status, expected.to_owned()), "{name} {query}");
    };
    let early = "container \"c\" in pod \"two\" is not available";
    check("two", "container=c", 400, early).await;
    seconds(10).await;
    let choose = "a container name must be specified for pod two, choose one of: [c side]";
    check("two", "", 400, choose).await;
    let unknown = "container d is not valid for pod two";
    check("two", "container=d", 400, unknown).await;
    check("two", "container=c", 200, "one\ntwo\nthree\n").await;
    check("two", "container=side", 200, "beside\n").await;
    check("two", "container=c&tailLines=1", 200, "three\n").await;
    check("two", "container=c&tailLines=0", 200, "").await;
    check("two", "container=c&limitBytes=5", 200, "one\nt").await;
    check("two", "container=c&sinceSeconds=5", 200, "").await;
    check("two", "container=c&sinceSeconds=60&tailLines=1", 200, "three\n").await;
    check("two", "container=c&sinceTime=2030-01-01T00:00:00Z", 200, "").await;
    let (_, stamped) = log(&world, "two", "container=c&timestamps=true&tailLines=1").await;
    assert!(stamped.ends_with(".000000000Z three\n"), "{stamped}");
    let missing = "previous terminated container \"c\" in pod \"two\" not found";
    check("two", "container=c&previous=true", 400, missing).await;
    let negative =
        "PodLogOptions \"\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0";
    check("two", "container=c&tailLines=-1", 422, negative).await;

    let entries = [
        ("simulate", "CrashLoopBackOff"),
        ("simulate-log", "panic: no database"),
    ];
    world.create("pods", pod("crash", "Always", &entries)).await;
    world
        .create(
            "pods",
            pod("image", "Always", &[("simulate", "ImagePullBackOff")]),
        )
        .await;
    seconds(5).await;
    check("crash", "", 200, "panic: no database\n").await;
    check("crash", "previous=true", 200, "panic: no database\n").await;
    let waits = "container \"c\" in pod \"image\" is waiting to start: trying and failing to pull image";
    check("image", "", 400, waits).await;
    check("absent", "", 404, "pods \"absent\" not found").await;
}

#[tokio::test(start_paused = true)]
async fn an_undeclared_log_is_empty_with_a_warning() {
    let world = world().await;
    world.create("pods", pod("p", "Always", &[])).await;
    seconds(1).await;
    let request = Request::get(format!("{}/log", path("pods", "p")))
        .extension(Identity::admin())
        .body(Body::empty())
        .unwrap();
    let response = world.0.respond(request).await;
    let warning = response.headers()["warning"].to_str().unwrap();
    assert!(warning.contains("equate.dev/simulate-log"), "{warning}");
}

#[tokio::test(start_paused = true)]
async fn logs_of_a_deployment_come_from_its_annotation() {
    let world = world().await;
    let mut web = workload("deployments", "web", json!({}));
    merge(&mut web, declared(&[("simulate-log", "served")]));
    world.create("deployments", web).await;
    seconds(2).await;
    let name = &world.names("pods").await[0];
    assert_eq!(log(&world, name, "").await, (200, "served\n".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_followed_log_grows_and_ends_with_its_pod() {
    let world = world().await;
    world
        .create("pods", pod("p", "Always", &[("simulate-log", "one")]))
        .await;
    seconds(1).await;
    let request = Request::get(format!("{}/log?follow=true", path("pods", "p")))
        .extension(Identity::admin())
        .body(Body::empty())
        .unwrap();
    let mut body = world.0.respond(request).await.into_body();
    let next = async |body: &mut Body| {
        let frame = tokio::time::timeout(Duration::from_secs(60), body.frame());
        let frame = frame.await.expect("nothing came")?;
        let bytes = frame.unwrap().into_data().unwrap();
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    };
    assert_eq!(next(&mut body).await.as_deref(), Some("one\n"));
    let grown = json!({ "metadata": { "annotations": { "equate.dev/simulate-log": "one\ntwo" } } });
    world.patch("pods", "p", grown).await;
    assert_eq!(next(&mut body).await.as_deref(), Some("two\n"));
    world.delete("pods", "p").await;
    assert_eq!(next(&mut body).await, None);
}

#[tokio::test(start_paused = true)]
async fn requests_to_containers_are_refused_with_a_reason() {
    let world = world().await;
    world.create("pods", pod("p", "Always", &[])).await;
    seconds(1).await;
    for (request, action) in [
        ("exec", "run a command in"),
        ("attach", "attach to"),
        ("portforward", "forward ports of"),
    ] {
        let url = format!("{}/{request}?command=sh", path("pods", "p"));
        let (status, answer) = world.0.ask("POST", &url, &Value::Null).await;
        assert_eq!(status.as_u16(), 501, "{answer}");
        let expected = format!(
            "cannot {action} pod \"p\": no container runs here, the workloads are simulated; `kubectl logs` shows declared logs"
        );
        assert_eq!(answer["message"], expected);
    }
}
