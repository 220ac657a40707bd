//! The order in which kinds are installed and uninstalled.
//!
//! Helm 4's two lists. Kinds on neither come last, by name. The sort is stable.

use std::cmp::Ordering;

/// One of the two orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Dependencies first.
    Install,
    /// Dependents first.
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

/// The reverse of installation, except that services go before their pods.
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
    /// Compares two kinds.
    pub fn compare(self, a: &str, b: &str) -> Ordering {
        self.key(a).cmp(&self.key(b))
    }

    /// Sorts by kind, stably.
    pub fn sort<T>(self, items: &mut [T], kind: impl Fn(&T) -> &str) {
        // one list lookup per item, not per comparison
        items.sort_by_cached_key(|item| {
            let (place, name) = self.key(kind(item));
            (place, name.to_owned())
        });
    }

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
