//! The scheduler and the kubelet: the node and the status of pods.
//!
//! A pod waits, then runs and is ready, or behaves as it declares. One that does not restart ends after a
//! while. A deleted one goes at once.

use super::behaviour::{self, Behaviour, Exit, KILLED, Outcome, Own};
use super::context::{Context, EventSource, KUBELET, condition, digest};
use super::{Kind, NODE};
use crate::builtin::tree::{flag, get, int, items, text};
use crate::controllers::Action;
use crate::controllers::object::{deleting, finalizers, meta, uid};
use crate::store::{Key, Snapshot};
use equate_manifest::go::duration;
use serde_json::{Value, json};
use tokio::time::Duration;

pub(super) const HOST_IP: &str = "10.0.0.1";
const SCHEDULER: &str = "default-scheduler";

/// The kubelet's back-off between restarts: doubled from the first to the last.
const BACK_OFF_FIRST: Duration = Duration::from_secs(10);
const BACK_OFF_MAX: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    NotReady,
    Ended(Exit),
    /// Waits for its next restart, after that many.
    Crashed(i64, Exit),
    /// The reason.
    Waiting(&'static str),
}

/// The stage of a pod; that of one container if it has an outcome of its own.
#[derive(Debug, Clone, Copy)]
struct Course<'a> {
    stage: Stage,
    own: Option<Own<'a>>,
}

impl Course<'_> {
    /// Whether an init container keeps the others from starting.
    fn is_initializing(&self) -> bool {
        self.own.is_some_and(|own| own.is_initial)
    }

    fn is_about(&self, container: &str) -> bool {
        self.own.is_some_and(|own| own.container == container)
    }

    /// The stage of the container at a place of its list; `waits`: after the failing init container.
    fn of(&self, list: &str, container: &Value, waits: bool) -> Stage {
        let is_initial = list == "initContainers" && !is_sidecar(container);
        match (self.own, self.stage) {
            (Some(own), stage) if own.container == text(container, "name") => stage,
            (Some(own), _) if own.is_initial && waits => Stage::Waiting(INITIALIZING),
            // Init containers end before the others start; sidecars go on.
            _ if is_initial => Stage::Ended(Exit::with(0)),
            (Some(own), Stage::Ended(_)) if !own.is_initial => Stage::Ended(Exit::with(0)),
            (Some(_), _) => Stage::Running,
            (None, Stage::Ended(Exit { code: 0, .. })) => self.stage,
            (None, _) if list == "initContainers" => Stage::Running,
            (None, stage) => stage,
        }
    }
}

const IMAGE: &str = "ImagePullBackOff";
const CONFIG: &str = "CreateContainerConfigError";
/// Containers wait for the init containers.
const INITIALIZING: &str = "PodInitializing";

/// The name of the simulated failure in messages that name a cause in a real cluster.
const SIMULATED: &str = "simulated failure";

/// Whether the simulated scheduler finds a node for the pod; else its message.
pub(crate) fn schedule(snapshot: &Snapshot, pod: &Value) -> Result<(), String> {
    let refuse = |why: &str| {
        Err(format!(
            "0/1 nodes are available: 1 {why}. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        ))
    };
    if behaviour::of(snapshot, pod).outcome == Some(Outcome::Unschedulable) {
        return refuse(SIMULATED);
    }
    let node = snapshot.get(&Key::new(&Kind::Node.resource(), "", NODE));
    if node.is_some_and(|node| flag(node.object(), "spec.unschedulable")) && !tolerates_cordon(pod) {
        return refuse("node(s) were unschedulable");
    }
    Ok(())
}

fn tolerates_cordon(pod: &Value) -> bool {
    items(pod, "spec.tolerations").iter().any(|toleration| {
        matches!(text(toleration, "key"), "" | "node.kubernetes.io/unschedulable")
            && matches!(text(toleration, "effect"), "" | "NoSchedule")
            && (text(toleration, "operator") == "Exists" || !text(toleration, "key").is_empty())
    })
}

pub(super) fn reconcile(cx: &mut Context<'_>, pod: &Value) {
    if deleting(pod) {
        // Without a grace period only finalizers keep it.
        let winding_down = int(pod, "metadata.deletionGracePeriodSeconds") != Some(0);
        if winding_down || finalizers(pod).next().is_none() {
            let actions = remove(cx, cx.key, pod);
            cx.step(actions);
        }
        return;
    }
    if has_ended(pod) || !items(pod, "spec.schedulingGates").is_empty() {
        return;
    }
    if text(pod, "spec.nodeName").is_empty() {
        return place(cx, pod);
    }
    if is_elsewhere(cx, pod) {
        return;
    }
    let wait = cx.simulation.ready_after;
    if !cx.has_lasted(("start", uid(pod)), wait) {
        return;
    }
    let own = behaviour::own(cx.seen.snapshot, pod);
    let stage = stage(cx, pod, own);
    let course = Course { stage, own };
    let status = status(cx, pod, course);
    let Some(update) = cx.status(pod, &status) else {
        return;
    };
    let mut actions = vec![update];
    actions.extend(events(cx, pod, course));
    cx.step(actions);
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "status.phase"), "Succeeded" | "Failed")
}

/// Whether the pod is on a Node that another program made, and so has another kubelet.
fn is_elsewhere(cx: &Context<'_>, pod: &Value) -> bool {
    let node = text(pod, "spec.nodeName");
    node != NODE && cx.get(Kind::Node, "", node).is_some()
}

/// Binds the pod, or reports that no node takes it.
fn place(cx: &mut Context<'_>, pod: &Value) {
    let Err(message) = schedule(cx.seen.snapshot, pod) else {
        let bind = Action::Bind {
            key: cx.key.clone(),
            uid: uid(pod).to_owned(),
            node: NODE,
        };
        return cx.step(vec![bind]);
    };
    let now = cx.now();
    let mut status = get(pod, "status").clone();
    let why = Err(("Unschedulable", message.clone()));
    let others = items(pod, "status.conditions").iter();
    let mut conditions: Vec<Value> = others.filter(|c| c["type"] != "PodScheduled").cloned().collect();
    conditions.push(entry(pod, "PodScheduled", false, &why, &now));
    status["conditions"] = json!(conditions);
    if let Some(update) = cx.status(pod, &status) {
        let by = EventSource {
            component: SCHEDULER,
            about: pod,
        };
        let event = cx.event(by, "Warning", "FailedScheduling", &message);
        cx.step(vec![update, event]);
    }
}

/// Deletes a pod at once, with the kubelet's Events.
pub(super) fn remove(cx: &mut Context<'_>, key: &Key, pod: &Value) -> Vec<Action> {
    let running: Vec<&str> = items(pod, "status.containerStatuses")
        .iter()
        .filter(|status| !get(status, "state.running").is_null())
        .map(|status| text(status, "name"))
        .collect();
    let mut actions = Vec::new();
    if !running.is_empty() && cx.allows_pod_events(running.len()) {
        for name in running {
            let message = format!("Stopping container {name}");
            actions.push(container_event(cx, pod, name, ("Normal", "Killing", &message)));
        }
    }
    actions.push(cx.kill(key, pod));
    actions
}

fn stage(cx: &mut Context<'_>, pod: &Value, own: Option<Own<'_>>) -> Stage {
    let behaviour = behaviour::of(cx.seen.snapshot, pod);
    let behaviour = own.map_or(behaviour, |own| behaviour.with(own));
    match behaviour.outcome {
        Some(Outcome::ImagePullBackOff) => return Stage::Waiting(IMAGE),
        Some(Outcome::CreateContainerConfigError) => return Stage::Waiting(CONFIG),
        Some(Outcome::NotReady) => return Stage::NotReady,
        Some(Outcome::Running) => return Stage::Running,
        _ => {}
    }
    let policy = text(pod, "spec.restartPolicy");
    let Some(exit) = behaviour.exit() else {
        let wait = behaviour.runs_for.unwrap_or(cx.simulation.runs_for);
        let running = text(pod, "status.phase") == "Running";
        if policy != "Always" && running && cx.has_lasted(("run", uid(pod)), wait) {
            return Stage::Ended(Exit::with(0));
        }
        return Stage::Running;
    };
    let restarts = restart_count(pod);
    let state = format!("{}/{restarts}", uid(pod));
    if is_backing_off(pod) && !cx.has_lasted(("crash", &state), back_off(restarts)) {
        return Stage::Crashed(restarts, exit);
    }
    if !has_run(cx, &state, behaviour) {
        return Stage::Running;
    }
    match policy {
        "Never" => Stage::Ended(exit),
        "OnFailure" if exit.code == 0 => Stage::Ended(exit),
        _ => Stage::Crashed(restarts + 1, exit),
    }
}

fn has_run(cx: &mut Context<'_>, state: &str, behaviour: Behaviour) -> bool {
    match behaviour.runs_for {
        None => true,
        Some(wait) => cx.has_lasted(("run", state), wait),
    }
}

/// The statuses of containers that restart.
fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    ["status.initContainerStatuses", "status.containerStatuses"]
        .into_iter()
        .flat_map(|list| items(pod, list))
}

fn is_backing_off(pod: &Value) -> bool {
    statuses(pod).any(|status| text(status, "state.waiting.reason") == "CrashLoopBackOff")
}

pub(super) fn restart_count(pod: &Value) -> i64 {
    statuses(pod)
        .filter_map(|s| int(s, "restartCount"))
        .max()
        .unwrap_or(0)
}

fn back_off(restarts: i64) -> Duration {
    let doublings = u32::try_from(restarts - 1).unwrap_or(0).min(8);
    (BACK_OFF_FIRST * 2_u32.pow(doublings)).min(BACK_OFF_MAX)
}

fn container_event(
    cx: &mut Context<'_>,
    pod: &Value,
    container: &str,
    (kind, reason, message): (&str, &str, &str),
) -> Action {
    let by = EventSource {
        component: KUBELET,
        about: pod,
    };
    let mut action = cx.event(by, kind, reason, message);
    if let Action::Create { object, .. } = &mut action {
        let lists = ["initContainers", "ephemeralContainers"];
        let is_in = |list: &&str| {
            let mut containers = items(get(pod, "spec"), list).iter();
            containers.any(|c| text(c, "name") == container)
        };
        let list = lists.into_iter().find(is_in).unwrap_or("containers");
        object["involvedObject"]["fieldPath"] = json!(format!("spec.{list}{{{container}}}"));
    }
    action
}

/// Whether an init container goes on beside the others.
fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

fn is_container_running(pod: &Value, name: &str) -> bool {
    statuses(pod).any(|s| text(s, "name") == name && !get(s, "state.running").is_null())
}

/// The Events of a new status, in a real cluster's order.
fn events(cx: &mut Context<'_>, pod: &Value, course: Course<'_>) -> Vec<Action> {
    let stage = course.stage;
    let is_new = items(pod, "status.containerStatuses").is_empty();
    let mut actions = Vec::new();
    let started = started(pod, course, is_new);
    let starts = match stage {
        Stage::Waiting(_) => false,
        // A crash without a declared running time follows its start at once.
        Stage::Crashed(restarts, _) if restarts > restart_count(pod) => true,
        Stage::Running | Stage::NotReady => is_new || is_backing_off(pod),
        Stage::Crashed(..) | Stage::Ended(_) => is_new,
    };
    if is_new && cx.allows_pod_events(1) {
        let by = EventSource {
            component: SCHEDULER,
            about: pod,
        };
        let message = format!(
            "Successfully assigned {}/{} to {}",
            meta(pod, "namespace"),
            meta(pod, "name"),
            text(pod, "spec.nodeName")
        );
        actions.push(cx.event(by, "Normal", "Scheduled", &message));
    }
    if starts && cx.allows_pod_events(3 * started.len()) {
        for container in started {
            actions.extend(start_events(cx, pod, container));
        }
    }
    let debuggers = items(pod, "spec.ephemeralContainers").iter();
    for container in debuggers.filter(|container| ephemeral_status(pod, container).is_none()) {
        if !matches!(stage, Stage::Ended(_)) && cx.allows_pod_events(3) {
            actions.extend(start_events(cx, pod, container));
        }
    }
    let lists = ["spec.containers", "spec.initContainers"];
    let mut containers = lists.into_iter().flat_map(|list| items(pod, list));
    let fails = |container: &&Value| course.own.is_none() || course.is_about(text(container, "name"));
    if let Some(container) = containers.find(fails) {
        actions.extend(failure_events(cx, pod, container, stage));
    }
    actions
}

/// The containers that a new status starts.
fn started<'a>(pod: &'a Value, course: Course<'_>, is_new: bool) -> Vec<&'a Value> {
    let initial = items(pod, "spec.initContainers");
    if course.is_initializing() {
        let own = initial
            .iter()
            .position(|container| course.is_about(text(container, "name")));
        let own = own.unwrap_or(0);
        let first = if is_new { 0 } else { own };
        return initial.iter().skip(first).take(own + 1 - first).collect();
    }
    let starts = |container: &&Value| is_new || is_sidecar(container);
    let initial = initial.iter().filter(starts);
    initial
        .chain(items(pod, "spec.containers"))
        .filter(|container| !is_container_running(pod, text(container, "name")))
        .collect()
}

fn start_events(cx: &mut Context<'_>, pod: &Value, container: &Value) -> Vec<Action> {
    let name = text(container, "name");
    let pulled = format!(
        "Container image {:?} already present on machine and can be accessed by the pod",
        text(container, "image")
    );
    [
        ("Pulled", pulled.as_str()),
        ("Created", "Container created"),
        ("Started", "Container started"),
    ]
    .into_iter()
    .map(|(reason, message)| container_event(cx, pod, name, ("Normal", reason, message)))
    .collect()
}

fn failure_events(cx: &mut Context<'_>, pod: &Value, container: &Value, stage: Stage) -> Vec<Action> {
    let (name, image) = (text(container, "name"), text(container, "image"));
    let lines: Vec<(&str, &str, String)> = match stage {
        Stage::Running | Stage::Ended(_) => Vec::new(),
        Stage::NotReady => vec![(
            "Warning",
            "Unhealthy",
            format!("Readiness probe failed: {SIMULATED}"),
        )],
        Stage::Crashed(..) => vec![(
            "Warning",
            "BackOff",
            format!(
                "Back-off restarting failed container {name} in pod {}",
                full_name(pod)
            ),
        )],
        Stage::Waiting(CONFIG) => vec![("Warning", "Failed", format!("Error: {SIMULATED}"))],
        Stage::Waiting(_) => vec![
            ("Normal", "Pulling", format!("Pulling image {image:?}")),
            (
                "Warning",
                "Failed",
                format!("Failed to pull image {image:?}: {SIMULATED}"),
            ),
            ("Warning", "Failed", "Error: ErrImagePull".to_owned()),
            ("Normal", "BackOff", format!("Back-off pulling image {image:?}")),
            ("Warning", "Failed", "Error: ImagePullBackOff".to_owned()),
        ],
    };
    lines
        .into_iter()
        .map(|(kind, reason, message)| container_event(cx, pod, name, (kind, reason, &message)))
        .collect()
}

fn full_name(pod: &Value) -> String {
    format!("{}_{}({})", meta(pod, "name"), meta(pod, "namespace"), uid(pod))
}

fn status(cx: &Context<'_>, pod: &Value, course: Course<'_>) -> Value {
    let now = cx.now();
    let stage = course.stage;
    let phase = match stage {
        Stage::Running | Stage::NotReady | Stage::Crashed(..) if course.is_initializing() => "Pending",
        Stage::Running | Stage::NotReady | Stage::Crashed(..) => "Running",
        Stage::Ended(Exit { code: 0, .. }) => "Succeeded",
        Stage::Ended(_) => "Failed",
        Stage::Waiting(_) => "Pending",
    };
    let (host, ip) = (HOST_IP, address(pod));
    let mut status = json!({
        "observedGeneration": get(pod, "metadata.generation"),
        "phase": phase,
        "conditions": conditions(pod, course, &now),
        "hostIP": host, "hostIPs": [{ "ip": host }],
        "podIP": ip, "podIPs": [{ "ip": ip }],
        "startTime": existing_or(pod, "status.startTime", &now),
        "containerStatuses": containers(pod, "containers", "containerStatuses", course, &now),
        "qosClass": get(pod, "status.qosClass"),
    });
    if !items(pod, "spec.initContainers").is_empty() {
        let init = containers(pod, "initContainers", "initContainerStatuses", course, &now);
        status["initContainerStatuses"] = init;
    }
    if !items(pod, "spec.ephemeralContainers").is_empty() {
        status["ephemeralContainerStatuses"] = ephemeral(pod, stage, &now);
    }
    // Written by `kubectl patch --subresource resize`.
    for field in ["resize", "resources"] {
        if !get(pod, "status")[field].is_null() {
            status[field] = get(pod, "status")[field].clone();
        }
    }
    status
}

fn existing_or(object: &Value, path: &str, otherwise: &Value) -> Value {
    match get(object, path) {
        Value::Null => otherwise.clone(),
        known => known.clone(),
    }
}

/// Unlikely to be another pod's; nothing answers there.
fn address(pod: &Value) -> String {
    if flag(pod, "spec.hostNetwork") {
        return HOST_IP.to_owned();
    }
    let digest = digest(&["address", uid(pod)], 4);
    let number = digest
        .bytes()
        .fold(0_u32, |n, byte| n.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("10.1.{}.{}", (number >> 8) & 0xff, 1 + number % 254)
}

fn conditions(pod: &Value, course: Course<'_>, now: &Value) -> Value {
    let stage = course.stage;
    let is_unready = |name: &str| course.own.is_none() || course.is_initializing() || course.is_about(name);
    let names = items(pod, "spec.containers").iter().map(|c| text(c, "name"));
    let names: Vec<&str> = names.filter(|name| is_unready(name)).collect();
    let unready = format!("containers with unready status: [{}]", names.join(" "));
    let gates: Vec<&str> = items(pod, "spec.readinessGates")
        .iter()
        .map(|g| text(g, "conditionType"))
        .collect();
    let closed = gates
        .iter()
        .find(|gate| condition(pod, gate).is_none_or(|c| c["status"] != "True"));
    let completed = matches!(stage, Stage::Ended(Exit { code: 0, .. }));
    let containers = match stage {
        Stage::Running if course.is_initializing() => Err(("ContainersNotReady", unready)),
        Stage::Running => Ok(()),
        Stage::Ended(_) if completed => Err(("PodCompleted", String::new())),
        Stage::Ended(_) => Err(("PodFailed", String::new())),
        Stage::NotReady | Stage::Crashed(..) | Stage::Waiting(_) => Err(("ContainersNotReady", unready)),
    };
    let ready = match (&containers, closed) {
        (Ok(()), Some(gate)) => {
            let message = match condition(pod, gate) {
                None => format!("corresponding condition of pod readiness gate {gate:?} does not exist."),
                Some(_) => format!("the status of pod readiness gate {gate:?} is not \"True\", but False"),
            };
            Err(("ReadinessGatesNotReady", message))
        }
        _ => containers.clone(),
    };
    let initialized = match completed {
        true => Err(("PodCompleted", String::new())),
        false if course.is_initializing() => {
            let names = items(pod, "spec.initContainers").iter().map(|c| text(c, "name"));
            let names: Vec<&str> = names.skip_while(|name| !course.is_about(name)).collect();
            let incomplete = format!("containers with incomplete status: [{}]", names.join(" "));
            Err(("ContainersNotInitialized", incomplete))
        }
        false => Ok(()),
    };
    // An ended pod's status is True; only the reason says that it completed.
    let has_sandbox = !matches!(stage, Stage::Ended(_));
    let mut out = vec![
        entry(pod, "PodReadyToStartContainers", has_sandbox, &Ok(()), now),
        entry(pod, "Initialized", !course.is_initializing(), &initialized, now),
        entry(pod, "Ready", ready.is_ok(), &ready, now),
        entry(pod, "ContainersReady", containers.is_ok(), &containers, now),
        entry(pod, "PodScheduled", true, &Ok(()), now),
    ];
    let ours: Vec<Value> = out.iter().map(|c| c["type"].clone()).collect();
    let others = items(pod, "status.conditions").iter();
    out.extend(others.filter(|c| !ours.contains(&c["type"])).cloned());
    json!(out)
}

fn entry(pod: &Value, kind: &str, holds: bool, why: &Result<(), (&str, String)>, now: &Value) -> Value {
    let status = if holds { "True" } else { "False" };
    let known = condition(pod, kind).filter(|c| c["status"] == status);
    let since = known.map_or(now, |c| &c["lastTransitionTime"]);
    let mut out = json!({
        "type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since,
        "observedGeneration": get(pod, "metadata.generation"),
    });
    if let Err((reason, message)) = why {
        out["reason"] = json!(reason);
        if !message.is_empty() {
            out["message"] = json!(message);
        }
    }
    out
}

fn containers(pod: &Value, list: &str, statuses: &str, course: Course<'_>, now: &Value) -> Value {
    let known = items(pod, &format!("status.{statuses}"));
    let mut waits = list == "containers";
    let mut out: Vec<Value> = items(get(pod, "spec"), list)
        .iter()
        .map(|container| {
            let before = known.iter().find(|s| s["name"] == container["name"]);
            let stage = course.of(list, container, waits);
            waits |= course.is_about(text(container, "name"));
            let mut out = container_status(pod, container, before.unwrap_or(&Value::Null), stage, now);
            if list == "initContainers" && !is_sidecar(container) {
                out["ready"] = json!(stage == Stage::Ended(Exit::with(0)));
            }
            out
        })
        .collect();
    out.sort_by(|a, b| text(a, "name").cmp(text(b, "name")));
    json!(out)
}

/// Ephemeral containers run as soon as their pod has a node, and are killed with it.
fn ephemeral(pod: &Value, stage: Stage, now: &Value) -> Value {
    let stage = match stage {
        Stage::Ended(_) => Stage::Ended(Exit {
            code: KILLED,
            ..Exit::with(1)
        }),
        _ => Stage::Running,
    };
    let statuses = items(pod, "spec.ephemeralContainers").iter().map(|container| {
        let before = ephemeral_status(pod, container).unwrap_or(&Value::Null);
        let mut status = container_status(pod, container, before, stage, now);
        status["ready"] = json!(false);
        if let Some(status) = status.as_object_mut() {
            status.remove("started");
        }
        status
    });
    statuses.collect()
}

fn ephemeral_status<'a>(pod: &'a Value, container: &Value) -> Option<&'a Value> {
    let mut known = items(pod, "status.ephemeralContainerStatuses").iter();
    known.find(|status| status["name"] == container["name"])
}

fn container_status(pod: &Value, container: &Value, before: &Value, stage: Stage, now: &Value) -> Value {
    let name = text(container, "name");
    let started = match get(before, "state.running.startedAt") {
        Value::Null => existing_or(before, "state.terminated.startedAt", now),
        known => known.clone(),
    };
    let ended = |exit: Exit| {
        json!({
            "exitCode": exit.code, "reason": exit.reason, "startedAt": started,
            "finishedAt": existing_or(before, "state.terminated.finishedAt", now),
        })
    };
    let mut restarts = int(before, "restartCount").unwrap_or(0);
    let mut last = get(before, "lastState").clone();
    let state = match stage {
        Stage::Running | Stage::NotReady => json!({ "running": { "startedAt": started } }),
        Stage::Ended(exit) => json!({ "terminated": ended(exit) }),
        Stage::Waiting(IMAGE) => {
            let message = format!("Back-off pulling image {:?}", text(container, "image"));
            json!({ "waiting": { "reason": IMAGE, "message": message } })
        }
        Stage::Waiting(INITIALIZING) => json!({ "waiting": { "reason": INITIALIZING } }),
        Stage::Waiting(reason) => json!({ "waiting": { "reason": reason, "message": SIMULATED } }),
        Stage::Crashed(count, exit) => {
            if restarts != count {
                last = json!({ "terminated": {
                    "exitCode": exit.code, "reason": exit.reason, "startedAt": started, "finishedAt": now,
                } });
                restarts = count;
            }
            let message = format!(
                "back-off {} restarting failed container={name} pod={}",
                duration::format_std(back_off(count)),
                full_name(pod)
            );
            json!({ "waiting": { "reason": "CrashLoopBackOff", "message": message } })
        }
    };
    let running = matches!(stage, Stage::Running | Stage::NotReady);
    json!({
        "name": name,
        "state": state,
        "lastState": if last.is_null() { json!({}) } else { last },
        "ready": stage == Stage::Running,
        "restartCount": restarts,
        "image": text(container, "image"),
        "imageID": "",
        "started": running,
    })
}
