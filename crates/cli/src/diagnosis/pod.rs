//! Judges a pod by its containers, conditions and warnings: pure.

use super::{Node, NodeHealth};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodCondition};
use std::collections::BTreeMap;

use super::read::EventLine;

/// The beginning of a container's name in a node.
pub(super) const CONTAINER: &str = "container ";

/// Warnings that tell why no container starts.
const BLOCKING: [&str; 6] = [
    "FailedMount",
    "FailedAttachVolume",
    "FailedCreatePodSandBox",
    "FailedScheduling",
    "NetworkNotReady",
    "Evicted",
];

/// Reasons to wait that end by themselves.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// A container whose log tells more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogRequest {
    pub(super) container: String,
    /// The run before this one: the present one has not failed yet.
    pub(super) previous: bool,
}

/// The last lines of the requested logs.
pub(super) type Logs = BTreeMap<LogRequest, String>;

struct Judged {
    node: Node,
    log: Option<LogRequest>,
}

/// The containers whose logs are worth reading.
pub(super) fn log_requests(pod: &Pod) -> Vec<LogRequest> {
    judged(pod, &[])
        .into_iter()
        .filter_map(|judged| judged.log)
        .collect()
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

pub(super) fn node(object: &str, pod: &Pod, warnings: &[EventLine], logs: &Logs) -> Node {
    let status = pod.status.as_ref();
    let phase = status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default();
    let containers: Vec<Node> = judged(pod, warnings)
        .into_iter()
        .map(|Judged { mut node, log }| {
            if let Some(line) = log.and_then(|log| logs.get(&log)) {
                node.message = format!("{}; last log line: {line}", node.message);
            }
            node
        })
        .collect();
    let mut own = own_cause(object, pod, phase, warnings);
    // a waiting container says less than the pod's own obstacle
    let tells = containers.iter().any(|node| node.health == NodeHealth::Failed);
    if own.health == NodeHealth::Failed && !own.reason.is_empty() && !tells {
        return own;
    }
    if tells && own.health == NodeHealth::Waiting {
        own.message.clear();
    }
    own.judged_by(containers)
}

fn own_cause(object: &str, pod: &Pod, phase: &str, warnings: &[EventLine]) -> Node {
    let status = pod.status.as_ref();
    let node = |health| Node::new(object.to_owned(), health);
    if pod.metadata.deletion_timestamp.is_some() {
        let finalizers = pod.metadata.finalizers.as_deref().unwrap_or_default().join(", ");
        let message = match finalizers.is_empty() {
            true => "is being deleted".to_owned(),
            false => format!("is being deleted, and waits for its finalizers {finalizers}"),
        };
        return node(NodeHealth::Waiting).because("Terminating", message);
    }
    match phase {
        "Succeeded" => return node(NodeHealth::Healthy),
        "Failed" => {
            let text = |field: Option<&String>| field.cloned().unwrap_or_default();
            let reason = text(status.and_then(|status| status.reason.as_ref()));
            let message = text(status.and_then(|status| status.message.as_ref()));
            return node(NodeHealth::Failed).because(reason, message);
        }
        "Running" if is_ready(pod) => return node(NodeHealth::Healthy),
        _ => {}
    }
    if let Some(scheduled) = condition(pod, "PodScheduled").filter(|one| one.status == "False") {
        let reason = scheduled.reason.clone().unwrap_or_default();
        let message = scheduled.message.clone().unwrap_or_default();
        let since = scheduled.last_transition_time.as_ref().map(|time| time.0);
        return node(NodeHealth::Failed).because(reason, message).since(since);
    }
    let blocked = warnings
        .iter()
        .rev()
        .find(|(_, reason, _)| BLOCKING.contains(&reason.as_str()));
    if let Some((when, reason, message)) = blocked.filter(|_| phase != "Running") {
        return node(NodeHealth::Failed)
            .because(reason.clone(), message.clone())
            .since(*when);
    }
    let on = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let started = status.is_some_and(|status| status.container_statuses.is_some());
    let message = match (phase, on) {
        ("Running", _) => "is running but not ready".to_owned(),
        (_, None) => "is assigned to no node".to_owned(),
        (_, Some(on)) if !started => format!("node {on} has not started it"),
        _ => String::new(),
    };
    node(NodeHealth::Waiting).because("", message)
}

fn judged(pod: &Pod, warnings: &[EventLine]) -> Vec<Judged> {
    let Some(status) = &pod.status else {
        return Vec::new();
    };
    let lists = [
        (&status.init_container_statuses, true),
        (&status.container_statuses, false),
    ];
    let all = lists
        .into_iter()
        .flat_map(|(list, init)| list.iter().flatten().map(move |one| (one, init)));
    let succeeded = status.phase.as_deref() == Some("Succeeded");
    let failed = status.phase.as_deref() == Some("Failed");
    all.filter_map(|(one, init)| container(one, init, warnings, failed))
        .filter(|_| !succeeded)
        .collect()
}

/// A container that keeps the pod from being ready; none for the others.
fn container(one: &ContainerStatus, init: bool, warnings: &[EventLine], failed: bool) -> Option<Judged> {
    let name = format!("{CONTAINER}{}", one.name);
    let log = |previous| {
        Some(LogRequest {
            container: one.name.clone(),
            previous,
        })
    };
    let state = one.state.as_ref()?;
    let last = one.last_state.as_ref().and_then(exit);
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.clone().unwrap_or_default();
        let said = waiting.message.clone().unwrap_or_default();
        if STARTING.contains(&reason.as_str()) {
            let node = Node::new(name, NodeHealth::Waiting).because(reason, said);
            return Some(Judged { node, log: None });
        }
        let previous = last.is_some();
        let message = match last {
            Some(last) => format!("{last}{}", restarts(one)),
            None => said,
        };
        return Some(Judged {
            node: Node::new(name, NodeHealth::Failed).because(reason, message),
            log: if previous { log(true) } else { None },
        });
    }
    if let Some(terminated) = &state.terminated {
        if terminated.exit_code == 0 {
            let waits = !init && !failed;
            let node = Node::new(name, NodeHealth::Waiting).because("Completed", "exited with code 0");
            return waits.then_some(Judged { node, log: None });
        }
        let reason = terminated.reason.clone().unwrap_or_else(|| "Error".to_owned());
        let message = match terminated.message.as_deref().and_then(last_line) {
            Some(said) => format!(
                "exited with code {}{}: {said}",
                terminated.exit_code,
                restarts(one)
            ),
            None => format!("exited with code {}{}", terminated.exit_code, restarts(one)),
        };
        return Some(Judged {
            node: Node::new(name, NodeHealth::Failed)
                .because(reason, message)
                .since(terminated.finished_at.as_ref().map(|time| time.0)),
            log: log(false),
        });
    }
    // an init container runs until it ends, a sidecar until it has started
    let runs = match init {
        true => one.started == Some(true),
        false => one.ready,
    };
    if runs {
        return None;
    }
    let probe = warnings.iter().rev().find(|(_, reason, _)| reason == "Unhealthy");
    let message = match (probe, &last) {
        (Some((_, _, probe)), _) => probe.clone(),
        (None, Some(last)) => format!("is not ready; before, it {last}{}", restarts(one)),
        (None, None) if init => "runs".to_owned(),
        (None, None) => "is not ready".to_owned(),
    };
    Some(Judged {
        node: Node::new(name, NodeHealth::Waiting).because("NotReady", message),
        log: if last.is_some() { log(true) } else { None },
    })
}

fn exit(state: &ContainerState) -> Option<String> {
    let terminated = state.terminated.as_ref()?;
    let code = terminated.exit_code;
    Some(match terminated.reason.as_deref() {
        None | Some("" | "Error") => format!("exited with code {code}"),
        Some(reason) => format!("exited with code {code} ({reason})"),
    })
}

fn restarts(one: &ContainerStatus) -> String {
    match one.restart_count {
        0 => String::new(),
        1 => ", 1 restart".to_owned(),
        times => format!(", {times} restarts"),
    }
}

fn condition<'p>(pod: &'p Pod, kind: &str) -> Option<&'p PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// The last line with text, without control characters: a terminal would obey them.
pub(super) fn last_line(text: &str) -> Option<String> {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).collect())
}
