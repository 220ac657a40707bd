//! The kubelet: the status of pods.
//!
//! A pod waits, then runs and is ready, or fails on request. One that does not restart ends after a while.
//! A deleted one goes at once.

use super::context::{Context, EventSource, condition, digest};
use super::fault::{self, Fault};
use crate::builtin::tree::{flag, get, int, items, text};
use crate::controllers::object::{deleting, finalizers, meta, uid};
use equate_manifest::go::duration;
use serde_json::{Value, json};
use tokio::time::Duration;

pub(super) const HOST_IP: &str = "10.0.0.1";

/// The kubelet's back-off between restarts: doubled from the first to the last.
const BACK_OFF_FIRST: Duration = Duration::from_secs(10);
const BACK_OFF_MAX: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    Succeeded,
    Failed,
    Crashed(i64),
    ImagePull,
}

pub(super) fn reconcile(cx: &mut Context<'_>, pod: &Value) {
    if deleting(pod) {
        // Without a grace period only finalizers keep it.
        let winding_down = int(pod, "metadata.deletionGracePeriodSeconds") != Some(0);
        if winding_down || finalizers(pod).next().is_none() {
            let kill = cx.kill(cx.key, pod);
            cx.step(vec![kill]);
        }
        return;
    }
    let ended = matches!(text(pod, "status.phase"), "Succeeded" | "Failed");
    if ended || !items(pod, "spec.schedulingGates").is_empty() {
        return;
    }
    let wait = cx.simulation.ready_after;
    if !cx.has_lasted(("start", uid(pod)), wait) {
        return;
    }
    let stage = stage(cx, pod);
    let status = status(cx, pod, stage);
    let mut actions: Vec<_> = cx.status(pod, &status).into_iter().collect();
    if !actions.is_empty() {
        actions.extend(failure_event(cx, pod, stage));
    }
    cx.step(actions);
}

fn stage(cx: &mut Context<'_>, pod: &Value) -> Stage {
    let restarts = text(pod, "spec.restartPolicy");
    match fault::of(cx, pod) {
        Some(Fault::ImagePullBackOff) => Stage::ImagePull,
        Some(Fault::CrashLoopBackOff) if restarts == "Never" => Stage::Failed,
        Some(Fault::CrashLoopBackOff) => {
            let before = restart_count(pod);
            let state = format!("{}/{before}", uid(pod));
            let crashed = before > 0 && !cx.has_lasted(("crash", &state), back_off(before));
            Stage::Crashed(if crashed { before } else { before + 1 })
        }
        None if restarts == "Always" => Stage::Running,
        None => {
            let runs_for = cx.simulation.runs_for;
            let running = text(pod, "status.phase") == "Running";
            if running && cx.has_lasted(("run", uid(pod)), runs_for) {
                Stage::Succeeded
            } else {
                Stage::Running
            }
        }
    }
}

pub(super) fn restart_count(pod: &Value) -> i64 {
    let statuses = items(pod, "status.containerStatuses");
    statuses
        .iter()
        .filter_map(|s| int(s, "restartCount"))
        .max()
        .unwrap_or(0)
}

fn back_off(restarts: i64) -> Duration {
    let doublings = u32::try_from(restarts - 1).unwrap_or(0).min(8);
    (BACK_OFF_FIRST * 2_u32.pow(doublings)).min(BACK_OFF_MAX)
}

fn failure_event(cx: &mut Context<'_>, pod: &Value, stage: Stage) -> Option<crate::controllers::Action> {
    let container = items(pod, "spec.containers").first()?;
    let (kind, reason, message) = match stage {
        Stage::Running | Stage::Succeeded | Stage::Failed => return None,
        Stage::Crashed(_) => (
            "Warning",
            "BackOff",
            format!(
                "Back-off restarting failed container {} in pod {}",
                text(container, "name"),
                full_name(pod)
            ),
        ),
        Stage::ImagePull => (
            "Normal",
            "BackOff",
            format!("Back-off pulling image {:?}", text(container, "image")),
        ),
    };
    let event_source = EventSource {
        component: "kubelet",
        about: pod,
    };
    Some(cx.event(event_source, kind, reason, &message))
}

fn full_name(pod: &Value) -> String {
    format!("{}_{}({})", meta(pod, "name"), meta(pod, "namespace"), uid(pod))
}

fn status(cx: &Context<'_>, pod: &Value, stage: Stage) -> Value {
    let now = cx.now();
    let phase = match stage {
        Stage::Running | Stage::Crashed(_) => "Running",
        Stage::Succeeded => "Succeeded",
        Stage::Failed => "Failed",
        Stage::ImagePull => "Pending",
    };
    let (host, ip) = (HOST_IP, address(pod));
    let mut status = json!({
        "observedGeneration": get(pod, "metadata.generation"),
        "phase": phase,
        "conditions": conditions(pod, stage, &now),
        "hostIP": host, "hostIPs": [{ "ip": host }],
        "podIP": ip, "podIPs": [{ "ip": ip }],
        "startTime": existing_or(pod, "status.startTime", &now),
        "containerStatuses": containers(pod, "containers", "containerStatuses", stage, &now),
        "qosClass": get(pod, "status.qosClass"),
    });
    if !items(pod, "spec.initContainers").is_empty() {
        let init = containers(pod, "initContainers", "initContainerStatuses", stage, &now);
        status["initContainerStatuses"] = init;
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

fn conditions(pod: &Value, stage: Stage, now: &Value) -> Value {
    let names: Vec<&str> = items(pod, "spec.containers")
        .iter()
        .map(|c| text(c, "name"))
        .collect();
    let unready = format!("containers with unready status: [{}]", names.join(" "));
    let gates: Vec<&str> = items(pod, "spec.readinessGates")
        .iter()
        .map(|g| text(g, "conditionType"))
        .collect();
    let closed = gates
        .iter()
        .find(|gate| condition(pod, gate).is_none_or(|c| c["status"] != "True"));
    let containers = match stage {
        Stage::Running => Ok(()),
        Stage::Succeeded => Err(("PodCompleted", String::new())),
        Stage::Failed => Err(("PodFailed", String::new())),
        Stage::Crashed(_) | Stage::ImagePull => Err(("ContainersNotReady", unready)),
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
    let initialized = match stage {
        Stage::Succeeded => Err(("PodCompleted", String::new())),
        _ => Ok(()),
    };
    // An ended pod's status is True; only the reason says that it completed.
    let has_sandbox = !matches!(stage, Stage::Succeeded | Stage::Failed);
    let mut out = vec![
        entry(pod, "PodReadyToStartContainers", has_sandbox, &Ok(()), now),
        entry(pod, "Initialized", true, &initialized, now),
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

fn containers(pod: &Value, list: &str, statuses: &str, stage: Stage, now: &Value) -> Value {
    let known = items(pod, &format!("status.{statuses}"));
    let mut out: Vec<Value> = items(get(pod, "spec"), list)
        .iter()
        .map(|container| {
            let before = known.iter().find(|s| s["name"] == container["name"]);
            let sidecar = text(container, "restartPolicy") == "Always";
            let stage = match (list, stage) {
                // Init containers end before the others start; sidecars go on.
                ("initContainers", Stage::Failed | Stage::Crashed(_) | Stage::ImagePull | Stage::Running)
                    if sidecar =>
                {
                    Stage::Running
                }
                ("initContainers", _) => Stage::Succeeded,
                (_, stage) => stage,
            };
            let mut out = container_status(pod, container, before.unwrap_or(&Value::Null), stage, now);
            if list == "initContainers" && stage == Stage::Succeeded {
                out["ready"] = json!(true);
            }
            out
        })
        .collect();
    out.sort_by(|a, b| text(a, "name").cmp(text(b, "name")));
    json!(out)
}

fn container_status(pod: &Value, container: &Value, before: &Value, stage: Stage, now: &Value) -> Value {
    let name = text(container, "name");
    let started = match get(before, "state.running.startedAt") {
        Value::Null => existing_or(before, "state.terminated.startedAt", now),
        known => known.clone(),
    };
    let ended = |exit_code: i64, reason: &str| {
        json!({
            "exitCode": exit_code, "reason": reason, "startedAt": started,
            "finishedAt": existing_or(before, "state.terminated.finishedAt", now),
        })
    };
    let mut restarts = int(before, "restartCount").unwrap_or(0);
    let mut last = get(before, "lastState").clone();
    let state = match stage {
        Stage::Running => json!({ "running": { "startedAt": started } }),
        Stage::Succeeded => json!({ "terminated": ended(0, "Completed") }),
        Stage::Failed => json!({ "terminated": ended(1, "Error") }),
        Stage::ImagePull => {
            let message = format!("Back-off pulling image {:?}", text(container, "image"));
            json!({ "waiting": { "reason": "ImagePullBackOff", "message": message } })
        }
        Stage::Crashed(count) => {
            if restarts != count {
                last = json!({ "terminated": {
                    "exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now,
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
    json!({
        "name": name,
        "state": state,
        "lastState": if last.is_null() { json!({}) } else { last },
        "ready": stage == Stage::Running,
        "restartCount": restarts,
        "image": text(container, "image"),
        "imageID": "",
        "started": stage == Stage::Running,
    })
}
