//! The simulated controllers against recordings of the real ones (1.36.2).
//!
//! The recordings are not part of the repository; without them the test is skipped. They hold no requests:
//! the inputs follow their README. `KNOWN` lists the known differences with reasons.

use super::{World, merge, seconds, workload};
use equate_apiserver::Simulation;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Scenario, path below the recorded entry, reason.
const KNOWN: &[(&str, &str, &str)] = &[
    ("pod", "/status/conditions", KUBELET),
    ("pod", "/status/hostIP", KUBELET),
    ("pod", "/status/hostIPs", KUBELET),
    ("pod", "/status/observedGeneration", KUBELET),
    ("sts pod", "/status/conditions", KUBELET),
    ("sts pod", "/status/hostIP", KUBELET),
    ("sts pod", "/status/hostIPs", KUBELET),
    ("sts pod", "/status/observedGeneration", KUBELET),
    ("job pod", "/status/conditions", KUBELET),
    ("job pod", "/status/hostIP", KUBELET),
    ("job pod", "/status/hostIPs", KUBELET),
    ("job pod", "/status/observedGeneration", KUBELET),
    (
        "endpointslice",
        "/object",
        "this scenario has no Service; `services.rs` compares a slice",
    ),
];
const KUBELET: &str = "the recording's kubelet was a script; a real one of 1.36 writes this as well";

#[derive(Default)]
struct Judge {
    recorded: Vec<Value>,
    differences: Vec<String>,
    seen: BTreeSet<String>,
}

impl Judge {
    fn open() -> Option<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../shared/conformance/kube-apiserver-1.36/k8s-1.36.2-workload-status.json");
        let Ok(text) = std::fs::read_to_string(path) else {
            println!("skipped: the recordings are not beside the checkout");
            return None;
        };
        Some(Self {
            recorded: serde_json::from_str(&text).unwrap(),
            ..Self::default()
        })
    }

    fn object(&mut self, title: &str, object: &Value) {
        let meta = &object["metadata"];
        let owners = meta["ownerReferences"].as_array().map(|owners| {
            let mut owners = owners.clone();
            owners
                .iter_mut()
                .for_each(|o| drop(o.as_object_mut().unwrap().remove("uid")));
            owners
        });
        let shown = json!({
            "desc": title, "kind": object["kind"], "generation": meta["generation"], "name": meta["name"],
            "annotations": meta["annotations"], "labels": meta["labels"], "ownerReferences": owners,
            "status": object["status"],
        });
        self.compare(title, shown);
    }

    fn compare(&mut self, title: &str, shown: Value) {
        let mut recorded = self
            .recorded
            .iter()
            .find(|entry| entry["desc"] == title)
            .unwrap_or_else(|| panic!("nothing is recorded as {title}"))
            .clone();
        let mut shown = shown;
        mask("", &mut recorded);
        mask("", &mut shown);
        self.seen.insert(title.to_owned());
        differ(title, "", &recorded, &shown, &mut self.differences);
    }

    fn verdict(self) {
        let known = |line: &&String| {
            let mut all = KNOWN.iter();
            !all.any(|(title, path, _)| line.starts_with(&format!("{title}|{path}|")))
        };
        let unknown: Vec<&String> = self.differences.iter().filter(known).collect();
        assert!(unknown.is_empty(), "differ and are not listed:\n{unknown:#?}");
        for (title, path, _) in KNOWN {
            let prefix = format!("{title}|{path}|");
            let still = self.differences.iter().any(|line| line.starts_with(&prefix));
            assert!(still, "listed, but equal: {title} {path}");
        }
        for entry in &self.recorded {
            let title = entry["desc"].as_str().unwrap();
            assert!(self.seen.contains(title), "never compared: {title}");
        }
    }
}

/// Times, addresses, uids and hashes differ from run to run.
fn mask(name: &str, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                mask(name, value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(name, item)),
        Value::String(text) => {
            let is_time = name.ends_with("Time") || name.ends_with("At");
            if is_time {
                "<ts>".clone_into(text);
            } else if name.ends_with("IP") || name == "ip" {
                "<ip>".clone_into(text);
            } else if name.ends_with("controller-uid") {
                "<uid>".clone_into(text);
            } else {
                *text = without_hashes(text);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// `web-64586f5df-<rand>` as `web-<h>`.
fn without_hashes(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-<>".contains(c);
    let mut out = String::new();
    for part in text.split_inclusive(|c| !is_word(c)) {
        let word = part.trim_end_matches(|c| !is_word(c));
        let rest = &part[word.len()..];
        let is_hash = word.len() >= 9
            && word.chars().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase())
            && !word.contains(['a', 'e', 'i', 'o', 'u']);
        let shown = match word.split_once('-') {
            Some(("web", _)) => "web-<h>",
            Some(("jok" | "jbad" | "ds", _)) => "<n>",
            // `ss-0` has no hash.
            Some(("ss", hash)) if hash.len() > 2 => "ss-<h>",
            None if is_hash => "<h>",
            _ => word,
        };
        out.push_str(shown);
        out.push_str(rest);
    }
    out
}

/// One line for each leaf that differs: `title|path|recorded|actual`.
fn differ(title: &str, path: &str, recorded: &Value, actual: &Value, out: &mut Vec<String>) {
    match (recorded, actual) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let of = |fields: &serde_json::Map<String, Value>| {
                    fields.get(name).cloned().unwrap_or(Value::Null)
                };
                differ(title, &format!("{path}/{name}"), &of(a), &of(b), out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differ(title, &format!("{path}/{index}"), a, b, out);
            }
        }
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{title}|{path}|{a}|{b}")),
    }
}

#[tokio::test(start_paused = true)]
async fn statuses_and_events_are_those_of_the_real_controllers() {
    let Some(mut judge) = Judge::open() else {
        return;
    };
    let world = World::new(Simulation {
        ready_after: Duration::from_secs(20),
        runs_for: Duration::from_secs(20),
    })
    .await;
    deployment(&world, &mut judge).await;
    stateful_set(&world, &mut judge).await;
    others(&world, &mut judge).await;

    let events: BTreeSet<String> = world
        .list("events")
        .await
        .iter()
        // The recording had no kubelet and no scheduler.
        .filter(|e| !["kubelet", "default-scheduler"].contains(&e["source"]["component"].as_str().unwrap()))
        .map(|e| {
            let about = &e["involvedObject"];
            let mut line = json!([
                about["kind"],
                e["type"],
                e["reason"],
                e["message"],
                e["source"]["component"]
            ]);
            mask("", &mut line);
            line.to_string()
        })
        .collect();
    let mut recorded: BTreeSet<String> = BTreeSet::new();
    let entry = judge.recorded.iter().find(|e| e["desc"] == "events").unwrap();
    for event in entry["events"].as_array().unwrap() {
        let mut event = event.clone();
        mask("", &mut event);
        recorded.insert(event.to_string());
    }
    for line in recorded.symmetric_difference(&events) {
        let side = if events.contains(line) {
            "actual"
        } else {
            "recorded"
        };
        judge.differences.push(format!("events|{line}|{side}"));
    }
    judge.seen.insert("events".to_owned());
    let slices = world.0.done(
        "GET",
        "/apis/discovery.k8s.io/v1/namespaces/wl/endpointslices",
        Value::Null,
    );
    judge.compare(
        "endpointslice",
        json!({ "desc": "endpointslice", "object": slices.await["items"] }),
    );
    judge.verdict();
}

async fn deployment(world: &World, judge: &mut Judge) {
    let spec = json!({ "replicas": 2, "progressDeadlineSeconds": 5 });
    world
        .create("deployments", workload("deployments", "web", spec))
        .await;
    seconds(1).await;
    judge.object(
        "deploy: created, pods pending",
        &world.get("deployments", "web").await,
    );
    seconds(8).await;
    judge.object(
        "deploy: progress deadline exceeded",
        &world.get("deployments", "web").await,
    );
    seconds(30).await;
    judge.object("deploy: all ready", &world.get("deployments", "web").await);
    let set = &world.names("replicasets").await[0];
    judge.object("replicaset", &world.get("replicasets", set).await);
    let pod = &world.names("pods").await[0];
    judge.object("pod", &world.get("pods", pod).await);
    let second = json!({ "spec": { "progressDeadlineSeconds": 600, "template": {
        "metadata": { "annotations": { "round": "2" } },
    } } });
    world.patch("deployments", "web", second).await;
    seconds(1).await;
    judge.object(
        "deploy: rolling update started",
        &world.get("deployments", "web").await,
    );
    seconds(60).await;
    judge.object("deploy: rolled out", &world.get("deployments", "web").await);
}

async fn stateful_set(world: &World, judge: &mut Judge) {
    let spec = json!({ "replicas": 2, "serviceName": "ss" });
    world
        .create("statefulsets", workload("statefulsets", "ss", spec))
        .await;
    seconds(1).await;
    judge.object("sts: created", &world.get("statefulsets", "ss").await);
    seconds(20).await;
    judge.object("sts: first ready", &world.get("statefulsets", "ss").await);
    seconds(20).await;
    judge.object("sts: all ready", &world.get("statefulsets", "ss").await);
    judge.object("sts pod", &world.get("pods", "ss-0").await);
}

async fn others(world: &World, judge: &mut Judge) {
    world
        .create("daemonsets", workload("daemonsets", "ds", json!({})))
        .await;
    seconds(1).await;
    judge.object("ds: created", &world.get("daemonsets", "ds").await);
    seconds(20).await;
    judge.object("ds: ready", &world.get("daemonsets", "ds").await);

    world
        .create("jobs", workload("jobs", "jok", json!({ "backoffLimit": 0 })))
        .await;
    let mut bad = workload("jobs", "jbad", json!({ "backoffLimit": 0 }));
    let failing = json!({ "metadata": { "annotations": { "equate.dev/simulate": "CrashLoopBackOff" } } });
    merge(&mut bad["spec"]["template"], failing);
    world.create("jobs", bad).await;
    seconds(1).await;
    judge.object("job jok: active", &world.get("jobs", "jok").await);
    judge.object("job jbad: active", &world.get("jobs", "jbad").await);
    seconds(60).await;
    judge.object("job jok: done", &world.get("jobs", "jok").await);
    judge.object("job jbad: done", &world.get("jobs", "jbad").await);
    let pods = world.names("pods").await;
    let pod = pods.iter().find(|name| name.starts_with("jok-")).unwrap();
    judge.object("job pod", &world.get("pods", pod).await);
}
