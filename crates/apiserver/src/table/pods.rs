//! Cells of pods, above all the Status column.

use super::cells::{View, cells, condition};
use super::duration::since;
use crate::registry::Resource;
use jiff::Timestamp;
use serde_json::{Value, json};

/// The row condition of an ended pod, by which kubectl greys it out.
pub(super) fn row_condition(resource: &Resource, object: &Value) -> Option<Value> {
    if !resource.group.is_empty() || resource.kind != "Pod" {
        return None;
    }
    let phase = object.pointer("/status/phase").and_then(Value::as_str)?;
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": phase, "message": message}))
}

#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &View<'_>) {
        self.count += container.number("/restartCount");
        let ended = container.optional("/lastState/terminated/finishedAt");
        self.last = self.last.max(ended.and_then(|time| time.parse().ok()));
    }

    fn text(&self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count != 0 => {
                format!("{} ({} ago)", self.count, since(Some(&last.to_string()), now))
            }
            _ => self.count.to_string(),
        }
    }
}

pub(super) fn pod(view: &View<'_>) -> Vec<Value> {
    let conditions = view.list("/status/conditions");
    let phase = view.text("/status/phase");
    let mut status = view.text_or("/status/reason", phase).to_owned();
    let gated = conditions.iter().any(|condition| {
        let is = |field: &str, value: &str| condition.get(field).is_some_and(|of| of == value);
        is("type", "PodScheduled") && is("reason", "SchedulingGated")
    });
    if gated {
        "SchedulingGated".clone_into(&mut status);
    }

    let within = |object| View {
        object,
        now: view.now,
    };
    let init = view.list("/spec/initContainers");
    let restartable = |name: &str| {
        let container = init
            .iter()
            .map(within)
            .find(|container| container.text("/name") == name);
        container.is_some_and(|container| container.text("/restartPolicy") == "Always")
    };
    let sidecars = init
        .iter()
        .filter(|one| within(one).text("/restartPolicy") == "Always")
        .count();
    let total = view.list("/spec/containers").len() + sidecars;
    let mut ready = 0;
    let (mut restarts, mut sidecar_restarts) = (Restarts::default(), Restarts::default());

    let mut initializing = false;
    for (index, container) in view
        .list("/status/initContainerStatuses")
        .iter()
        .map(within)
        .enumerate()
    {
        restarts.add(&container);
        let sidecar = restartable(container.text("/name"));
        if sidecar {
            sidecar_restarts.add(&container);
        }
        let terminated = container.get("/state/terminated").is_some();
        if terminated && container.number("/state/terminated/exitCode") == 0 {
            continue;
        }
        if sidecar && container.flag("/started") == Some(true) {
            ready += usize::from(container.flag("/ready") == Some(true));
            continue;
        }
        status = match container.text("/state/waiting/reason") {
            _ if terminated => format!("Init:{}", ended(&container)),
            "" | "PodInitializing" => format!("Init:{index}/{}", init.len()),
            reason => format!("Init:{reason}"),
        };
        initializing = true;
        break;
    }

    if !initializing || condition(conditions, "Initialized") == Some("True") {
        restarts = sidecar_restarts;
        let mut running = false;
        let mut failure = None;
        for container in view.list("/status/containerStatuses").iter().rev().map(within) {
            restarts.add(&container);
            let waiting = container.text("/state/waiting/reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut status);
            } else if container.get("/state/terminated").is_some() {
                status = ended(&container);
                if container.number("/state/terminated/exitCode") != 0 {
                    failure = Some(status.clone());
                }
            } else if container.flag("/ready") == Some(true) && container.get("/state/running").is_some() {
                running = true;
                ready += 1;
            }
        }
        // a pod with a running container has not completed
        if status == "Completed" {
            if running && condition(conditions, "Ready") == Some("True") {
                "Running".clone_into(&mut status);
            } else if let Some(failure) = failure {
                status = failure;
            } else if running {
                "NotReady".clone_into(&mut status);
            }
        }
    }

    if view.deleting() {
        if view.text("/status/reason") == "NodeLost" {
            "Unknown".clone_into(&mut status);
        } else if !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut status);
        }
    }

    let gates = view.list("/spec/readinessGates");
    let open = gates
        .iter()
        .filter(|gate| condition(conditions, within(gate).text("/conditionType")) == Some("True"));
    let gates = match gates.len() {
        0 => "<none>".to_owned(),
        count => format!("{}/{count}", open.count()),
    };
    cells![
        view.name(),
        format!("{ready}/{total}"),
        status,
        restarts.text(view.now),
        view.age(),
        view.text_or("/status/podIPs/0/ip", "<none>"),
        view.text_or("/spec/nodeName", "<none>"),
        view.text_or("/status/nominatedNodeName", "<none>"),
        gates,
    ]
}

/// A container's reason, else its signal, else its exit code.
fn ended(container: &View<'_>) -> String {
    match (
        container.text("/state/terminated/reason"),
        container.number("/state/terminated/signal"),
    ) {
        ("", 0) => format!("ExitCode:{}", container.number("/state/terminated/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
