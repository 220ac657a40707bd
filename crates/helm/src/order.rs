//! In which order kinds are installed and uninstalled.
//!
//! Helm 4's two lists. Kinds that are on neither come last, by name. Within a kind what came first
//! stays first: the sort is stable.

use std::cmp::Ordering;

/// Which of the two orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// What others need comes first.
    Install,
    /// What needs others goes first.
    Uninstall,
}

const INSTALL: [&str; 38] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// The reverse, but for services: they go before what serves them.
const UNINSTALL: [&str; 38] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "APIService",
    "Ingress",
    "IngressClass",
    "Service",
    "CronJob",
    "Job",
    "StatefulSet",
    "HorizontalPodAutoscaler",
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "Pod",
    "DaemonSet",
    "RoleBindingList",
    "RoleBinding",
    "RoleList",
    "Role",
    "ClusterRoleBindingList",
    "ClusterRoleBinding",
    "ClusterRoleList",
    "ClusterRole",
    "CustomResourceDefinition",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "ConfigMap",
    "SecretList",
    "Secret",
    "ServiceAccount",
    "PodDisruptionBudget",
    "PodSecurityPolicy",
    "LimitRange",
    "ResourceQuota",
    "NetworkPolicy",
    "Namespace",
    "PriorityClass",
];

impl Order {
    /// How two kinds stand to each other.
    pub fn compare(self, a: &str, b: &str) -> Ordering {
        self.key(a).cmp(&self.key(b))
    }

    /// Sorts by kind and leaves the order within a kind.
    pub fn sort<T>(self, items: &mut [T], kind: impl Fn(&T) -> &str) {
        // the lists are walked once for each item, not once for each comparison
        items.sort_by_cached_key(|item| {
            let (place, name) = self.key(kind(item));
            (place, name.to_owned())
        });
    }

    /// The place in the list; for others the end of it and the name.
    fn key(self, kind: &str) -> (usize, &str) {
        let list = match self {
            Self::Install => &INSTALL,
            Self::Uninstall => &UNINSTALL,
        };
        match list.iter().position(|known| *known == kind) {
            Some(place) => (place, ""),
            None => (list.len(), kind),
        }
    }
}
