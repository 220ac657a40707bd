//! Simulated workloads through the whole API, with a paused clock.

mod behaviour;
mod faults;
mod jobs;
mod kinds;
mod nodes;
mod ownership;
mod recorded;
mod rollouts;
mod services;
mod times;
mod volumes;

use crate::lifecycle::{Bench, pass};
use equate_apiserver::{EmbeddedCluster, Profile, Simulation};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

struct World(Bench);

fn path(kind: &str, name: &str) -> String {
    let group = match kind {
        "deployments" | "replicasets" | "statefulsets" | "daemonsets" | "controllerrevisions" => {
            "apis/apps/v1"
        }
        "jobs" | "cronjobs" => "apis/batch/v1",
        "ingresses" => "apis/networking.k8s.io/v1",
        "poddisruptionbudgets" => "apis/policy/v1",
        "horizontalpodautoscalers" => "apis/autoscaling/v2",
        "endpointslices" => "apis/discovery.k8s.io/v1",
        _ => "api/v1",
    };
    let slash = if name.is_empty() { "" } else { "/" };
    format!("/{group}/namespaces/wl/{kind}{slash}{name}")
}

/// A workload of one container, named after its object; `spec` is merged into its own.
fn workload(kind: &str, name: &str, spec: Value) -> Value {
    let container = json!({ "name": "c", "image": "nginx" });
    let mut object = json!({
        "metadata": { "name": name },
        "spec": {
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [container] },
            },
        },
    });
    if kind == "jobs" {
        object["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
        object["spec"]["template"]["metadata"] = json!({});
    } else {
        object["spec"]["selector"] = json!({ "matchLabels": { "app": name } });
    }
    merge(&mut object["spec"], spec);
    object
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

impl World {
    async fn new(simulation: Simulation) -> Self {
        let start = Instant::now();
        let profile = Profile {
            workloads: Some(simulation),
            ..Profile::default()
        };
        let builder = EmbeddedCluster::builder().controllers(profile).clock(move || {
            let passed = jiff::SignedDuration::try_from(start.elapsed()).unwrap();
            jiff::Timestamp::from_second(1_800_000_000).unwrap() + passed
        });
        let world = Self(Bench::with(builder).await);
        let namespace = json!({ "metadata": { "name": "wl" } });
        world.0.done("POST", "/api/v1/namespaces", namespace).await;
        // A controller creates the ServiceAccount a moment later.
        pass(Duration::from_millis(100)).await;
        world
    }

    async fn create(&self, kind: &str, object: Value) -> Value {
        self.0.done("POST", &path(kind, ""), object).await
    }

    async fn get(&self, kind: &str, name: &str) -> Value {
        self.0.done("GET", &path(kind, name), Value::Null).await
    }

    async fn list(&self, kind: &str) -> Vec<Value> {
        let list = self.0.done("GET", &path(kind, ""), Value::Null).await;
        list["items"].as_array().unwrap().clone()
    }

    async fn patch(&self, kind: &str, name: &str, patch: Value) -> Value {
        self.0.done("PATCH", &path(kind, name), patch).await
    }

    async fn delete(&self, kind: &str, name: &str) {
        self.0.done("DELETE", &path(kind, name), Value::Null).await;
    }

    async fn names(&self, kind: &str) -> Vec<String> {
        let list = self.list(kind).await;
        list.iter()
            .map(|o| o["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// `KIND REASON message` of all Events, in write order.
    async fn events(&self) -> Vec<String> {
        let mut list = self.list("events").await;
        let revision = |e: &Value| {
            e["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        list.sort_by_key(revision);
        let line = |e: &Value| {
            format!(
                "{} {} {}: {}",
                e["involvedObject"]["kind"].as_str().unwrap(),
                e["type"].as_str().unwrap(),
                e["reason"].as_str().unwrap(),
                e["message"].as_str().unwrap()
            )
        };
        list.iter().map(line).collect()
    }
}

fn condition(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|c| c["type"] == kind);
    match found {
        None => "absent".to_owned(),
        Some(c) => format!(
            "{} {}",
            c["status"].as_str().unwrap(),
            c["reason"].as_str().unwrap_or_default()
        ),
    }
}

async fn seconds(count: u64) {
    pass(Duration::from_secs(count)).await;
}
