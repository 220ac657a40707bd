//! The output order of objects.

use crate::budget::Budget;
use crate::error::Fault;
use crate::kustomization::SortOptions;
use crate::resource::Resource;
use crate::spec::Order;
use std::collections::HashMap;

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
    budget: &Budget,
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
    let places = first.iter().copied().enumerate();
    let after = last.iter().copied().enumerate();
    let after = after.map(|(at, kind)| (first.len() + 1 + at, kind));
    // from the end: the last list counts, and in each the first of repeated kinds
    let mut ranks: HashMap<String, usize> = HashMap::new();
    ranks.extend(places.rev().map(|(rank, kind)| (kind.to_owned(), rank)));
    ranks.extend(after.rev().map(|(rank, kind)| (kind.to_owned(), rank)));
    budget.spend(KEY_STEPS * (ranks.len() + resources.len()))?;
    resources.sort_by_cached_key(|resource| key(resource, &ranks, first.len()));
    Ok(())
}

/// The steps to make and sort a key.
const KEY_STEPS: usize = 100;

/// Rank of the kind, then kind, namespace and name, with kustomize's placeholders for empty ones.
fn key(resource: &Resource, ranks: &HashMap<String, usize>, otherwise: usize) -> (usize, String, String) {
    let (group, version) = resource.group_version();
    let rank = ranks.get(resource.kind()).copied().unwrap_or(otherwise);
    let gvk = gvk(group, version, resource.kind());
    let name = format!(
        "{}|{}",
        or(resource.object.namespace(), "~X"),
        or(resource.name(), "~N")
    );
    (rank, gvk, name)
}

pub(crate) fn kind_key(group: &str, version: &str, kind: &str) -> (usize, String) {
    let place = |kinds: &[&str]| kinds.iter().position(|other| *other == kind);
    let rank = match (place(&FIRST), place(&LAST)) {
        (_, Some(at)) => FIRST.len() + 1 + at,
        (Some(at), None) => at,
        (None, None) => FIRST.len(),
    };
    (rank, gvk(group, version, kind))
}

fn gvk(group: &str, version: &str, kind: &str) -> String {
    format!("{}_{}_{}", or(group, "~G"), or(version, "~V"), or(kind, "~K"))
}

fn or<'t>(text: &'t str, other: &'static str) -> &'t str {
    if text.is_empty() { other } else { text }
}
