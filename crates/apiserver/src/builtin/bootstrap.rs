//! The objects of a new cluster, except the RBAC objects (in `auth`). The caller adds revisions, uids and
//! times.

use serde_json::{Value, json};

pub(super) const SYSTEM_PRIORITIES: &[(&str, i64)] = &[
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

/// The address of the `kubernetes` Service: the first of the range.
const KUBERNETES_IP: &str = "10.96.0.1";

pub(crate) fn bootstrap() -> Vec<Value> {
    let mut out: Vec<Value> = ["default", "kube-node-lease", "kube-public", "kube-system"]
        .iter()
        .map(|name| {
            json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            })
        })
        .collect();
    out.push(kubernetes_service());
    for (name, value) in SYSTEM_PRIORITIES {
        let description = if name.contains("node") {
            "Used for system critical pods that must not be moved from their current node."
        } else {
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
        };
        out.push(json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        }));
    }
    out
}

/// The Service of the API server itself.
pub(crate) fn kubernetes_service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": KUBERNETES_IP,
            "internalTrafficPolicy": "Cluster",
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    })
}
