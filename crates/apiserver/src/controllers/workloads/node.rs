//! The one node: it exists and is ready.

use super::context::Context;
use super::pod::HOST_IP;
use super::{Kind, NODE};
use crate::builtin::tree::items;
use crate::controllers::object::deleting;
use serde_json::{Value, json};

pub(super) fn make(cx: &mut Context<'_>) {
    if cx.key.name != NODE {
        return;
    }
    let labels = json!({
        "kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
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
    // A new node is tainted until it is found ready.
    if !items(node, "spec.taints").is_empty() && node.get("status").is_none_or(|s| s["conditions"].is_null())
    {
        actions.push(cx.change(cx.key, node, json!({ "spec": { "taints": null } })));
    }
    let now = cx.now();
    let since = items(node, "status.conditions")
        .first()
        .map_or(now, |c| c["lastTransitionTime"].clone());
    let room = json!({ "cpu": "1k", "memory": "1Ti", "pods": "1M" });
    let status = json!({
        "addresses": [
            { "type": "InternalIP", "address": HOST_IP }, { "type": "Hostname", "address": NODE },
        ],
        "allocatable": room, "capacity": room,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated",
            "lastHeartbeatTime": since, "lastTransitionTime": since,
        }],
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.36.2",
            "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
            "machineID": "", "osImage": "", "systemUUID": "",
        },
    });
    let mut whole = node.get("status").cloned().unwrap_or_else(|| json!({}));
    if let (Some(whole), Some(ours)) = (whole.as_object_mut(), status.as_object()) {
        whole.extend(ours.clone());
    }
    actions.extend(cx.status(node, &whole));
    cx.step(actions);
}
