//! The output order of objects.

use crate::error::Fault;
use crate::kustomization::SortOptions;
use crate::resource::Resource;
use crate::spec::Order;

/// Kinds that others depend on come first.
const FIRST: [&str; 22] = [
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];

/// Kinds that may reject other objects come last.
const LAST: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

pub(crate) fn sort(
    resources: &mut [Resource],
    options: Option<&SortOptions>,
    default: Order,
) -> Result<(), Fault> {
    let (order, lists) = match options {
        None => (default, None),
        Some(options) => {
            let order = match options.order.as_str() {
                "fifo" => Order::Input,
                "legacy" => Order::Legacy,
                other => {
                    return Err(Fault::SortOrder {
                        order: other.to_owned(),
                    });
                }
            };
            if order == Order::Input && options.legacy_sort_options.is_some() {
                return Err(Fault::SortOptions {
                    order: "fifo".to_owned(),
                });
            }
            (order, options.legacy_sort_options.as_ref())
        }
    };
    if order == Order::Input {
        return Ok(());
    }
    let (first, last): (Vec<&str>, Vec<&str>) = match lists {
        None => (FIRST.to_vec(), LAST.to_vec()),
        Some(lists) => (
            lists.order_first.iter().map(String::as_str).collect(),
            lists.order_last.iter().map(String::as_str).collect(),
        ),
    };
    resources.sort_by_cached_key(|resource| key(resource, &first, &last));
    Ok(())
}

/// Rank of the kind, then kind, namespace and name, with kustomize's placeholders for empty ones.
fn key(resource: &Resource, first: &[&str], last: &[&str]) -> (usize, String, String) {
    let (group, version) = resource.group_version();
    let (rank, gvk) = ranked(group, version, resource.kind(), first, last);
    let name = format!(
        "{}|{}",
        or(resource.object.namespace(), "~X"),
        or(resource.name(), "~N")
    );
    (rank, gvk, name)
}

pub(crate) fn kind_key(group: &str, version: &str, kind: &str) -> (usize, String) {
    ranked(group, version, kind, &FIRST, &LAST)
}

fn ranked(group: &str, version: &str, kind: &str, first: &[&str], last: &[&str]) -> (usize, String) {
    let rank = match (
        first.iter().position(|other| *other == kind),
        last.iter().position(|other| *other == kind),
    ) {
        (_, Some(at)) => first.len() + 1 + at,
        (Some(at), None) => at,
        (None, None) => first.len(),
    };
    let gvk = format!("{}_{}_{}", or(group, "~G"), or(version, "~V"), or(kind, "~K"));
    (rank, gvk)
}

fn or<'t>(text: &'t str, other: &'static str) -> &'t str {
    if text.is_empty() { other } else { text }
}
