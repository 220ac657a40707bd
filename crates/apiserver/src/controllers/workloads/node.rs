//! The one node: it exists and is ready.

use super::context::{Context, KUBELET};
use super::pod::HOST_IP;
use super::{Kind, NODE};
use crate::builtin::tree::{flag, items, text};
use crate::controllers::Action;
use crate::controllers::object::{deleting, uid};
use crate::store::{Key, ResourceId};
use serde_json::{Value, json};
use tokio::time::Duration;

const LEASES: &str = "kube-node-lease";
/// A kubelet renews every 10 s. Here it is rare, so that an idle server stays idle.
const RENEW_EVERY: Duration = Duration::from_mins(5);
const CORDONED: &str = "node.kubernetes.io/unschedulable";

pub(super) fn make(cx: &mut Context<'_>) {
    if cx.key.name != NODE {
        return;
    }
    let labels = json!({
        "kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
    });
    let object =
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE, "labels": labels } });
    let create = cx.create(Kind::Node, object);
    cx.step(vec![create]);
}

pub(super) fn reconcile(cx: &mut Context<'_>, node: &Value) {
    if cx.key.name != NODE || deleting(node) {
        return;
    }
    let mut actions = Vec::new();
    let known = items(node, "spec.taints");
    let taints = taints(node, &cx.now());
    if known != taints {
        let taints = match taints.is_empty() {
            true => Value::Null,
            false => json!(taints),
        };
        actions.push(cx.change(cx.key, node, json!({ "spec": { "taints": taints } })));
    }
    actions.extend(renew(cx, node));
    let room = json!({ "cpu": "1k", "ephemeral-storage": "1Ti", "memory": "1Ti", "pods": "1M" });
    let status = json!({
        "addresses": [
            { "type": "InternalIP", "address": HOST_IP }, { "type": "Hostname", "address": NODE },
        ],
        "allocatable": room, "capacity": room,
        "conditions": conditions(node, &cx.now()),
        "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.36.2",
            "osImage": "simulated by Equate", "containerRuntimeVersion": "equate://simulated",
            "kernelVersion": "simulated", "kubeProxyVersion": "",
            "bootID": uid(node), "machineID": uid(node), "systemUUID": uid(node),
        },
    });
    let mut whole = node.get("status").cloned().unwrap_or_else(|| json!({}));
    if let (Some(whole), Some(ours)) = (whole.as_object_mut(), status.as_object()) {
        whole.extend(ours.clone());
    }
    actions.extend(cx.status(node, &whole));
    cx.step(actions);
}

/// Without the taint of a new node, and with that of a cordoned one, as the node lifecycle controller
/// keeps them.
fn taints(node: &Value, now: &Value) -> Vec<Value> {
    let cordoned = flag(node, "spec.unschedulable");
    let is_ours = |taint: &&Value| match text(taint, "key") {
        "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable" => true,
        CORDONED => !cordoned,
        _ => false,
    };
    let kept = items(node, "spec.taints").iter().filter(|taint| !is_ours(taint));
    let mut taints: Vec<Value> = kept.cloned().collect();
    if cordoned && !taints.iter().any(|taint| text(taint, "key") == CORDONED) {
        taints.push(json!({ "key": CORDONED, "effect": "NoSchedule", "timeAdded": now }));
    }
    taints
}

fn conditions(node: &Value, now: &Value) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        let mut known = items(node, "status.conditions").iter();
        let known = known.find(|c| c["type"] == kind && c["status"] == status);
        let since = known.map_or(now, |c| &c["lastTransitionTime"]);
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": since, "lastTransitionTime": since,
        })
    };
    json!([
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available"
        ),
        condition(
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure"
        ),
        condition(
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available"
        ),
        condition("Ready", "True", "KubeletReady", "simulated"),
    ])
}

/// Creates the node's Lease, or renews it when it is due.
fn renew(cx: &mut Context<'_>, node: &Value) -> Option<Action> {
    let key = Key::new(&ResourceId::new("coordination.k8s.io", "leases"), LEASES, NODE);
    let now = cx.seen.now;
    let stamp = now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let Some(lease) = cx.seen.snapshot.get(&key) else {
        cx.wake_at("renew", now + RENEW_EVERY);
        let object = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": NODE, "namespace": LEASES, "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": NODE, "uid": uid(node),
            }] },
            "spec": {
                "holderIdentity": NODE, "renewTime": stamp,
                "leaseDurationSeconds": 2 * RENEW_EVERY.as_secs(),
            },
        });
        return Some(Action::Create {
            key,
            object,
            manager: KUBELET,
        });
    };
    let lease = lease.object();
    let renewed: Option<jiff::Timestamp> = text(lease, "spec.renewTime").parse().ok();
    let due = renewed.map_or(now, |renewed| renewed + RENEW_EVERY);
    if due > now {
        cx.wake_at("renew", due);
        return None;
    }
    cx.wake_at("renew", now + RENEW_EVERY);
    let mut change = cx.change(&key, lease, json!({ "spec": { "renewTime": stamp } }));
    if let Action::Merge { manager, .. } = &mut change {
        *manager = KUBELET;
    }
    Some(change)
}
