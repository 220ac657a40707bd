//! The use of a pod: what its containers request, while it is not at its end.

use super::{Amounts, Scope, add, amounts, units};
use crate::builtin::{qos_class, tree};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tree::{entries, get, has, int, items, text};

const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const REQUESTS: &str = "requests.";
const LIMITS: &str = "limits.";

/// Whether a name of `spec.hard` limits pods, besides `count/pods`.
pub(super) fn tracks(name: &str) -> bool {
    let plain = name
        .strip_prefix(REQUESTS)
        .or_else(|| name.strip_prefix(LIMITS))
        .unwrap_or(name);
    name == "pods"
        || COMPUTE.contains(&plain)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
        || name.strip_prefix(REQUESTS).is_some_and(is_extended)
}

/// An extended resource, such as `nvidia.com/gpu`.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with(REQUESTS)
}

pub(super) fn usage(pod: &Value, now: Timestamp) -> Amounts {
    if is_over(pod, now) {
        return Amounts::new();
    }
    by_quota_name(&requests(pod), &limits(pod))
}

/// Ended, or deleted and not gone after its grace period.
fn is_over(pod: &Value, now: Timestamp) -> bool {
    if matches!(text(pod, "status.phase"), "Failed" | "Succeeded") {
        return true;
    }
    let Ok(deleted) = text(pod, "metadata.deletionTimestamp").parse::<Timestamp>() else {
        return false;
    };
    let grace = int(pod, "metadata.deletionGracePeriodSeconds").unwrap_or_default();
    deleted
        .checked_add(SignedDuration::from_secs(grace))
        .is_ok_and(|end| now > end)
}

fn by_quota_name(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::from([("pods".to_owned(), units(1))]);
    for (name, amount) in requests {
        let plain = COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-");
        if plain {
            used.insert(name.clone(), amount.clone());
        }
        if plain || is_extended(name) {
            used.insert(format!("{REQUESTS}{name}"), amount.clone());
        }
    }
    for name in COMPUTE {
        if let Some(amount) = limits.get(name) {
            used.insert(format!("{LIMITS}{name}"), amount.clone());
        }
    }
    used
}

/// The quota names among cpu and memory that some containers do not set.
///
/// Upstream asks only for these: a quota of cpu or memory obliges each container to state it.
pub(super) fn unset<'a>(pod: &'a Value, names: &[&'a String]) -> Vec<(&'a str, Vec<&'a str>)> {
    if pod_level_is_set(pod) {
        return Vec::new();
    }
    let obliged = [
        "cpu",
        "memory",
        "requests.cpu",
        "requests.memory",
        "limits.cpu",
        "limits.memory",
    ];
    let containers: Vec<(&str, Amounts)> = ["spec.containers", "spec.initContainers"]
        .iter()
        .flat_map(|list| items(pod, list))
        .map(|container| {
            let requests = amounts(get(container, "resources.requests"));
            let limits = amounts(get(container, "resources.limits"));
            (text(container, "name"), by_quota_name(&requests, &limits))
        })
        .collect();
    let mut missing = Vec::new();
    for name in names
        .iter()
        .map(|name| name.as_str())
        .filter(|name| obliged.contains(name))
    {
        let mut without: Vec<&str> = containers
            .iter()
            .filter(|(_, set)| !set.contains_key(name))
            .map(|(container, _)| *container)
            .collect();
        without.sort_unstable();
        if !without.is_empty() {
            missing.push((name, without));
        }
    }
    missing
}

fn pod_level_is_set(pod: &Value) -> bool {
    ["requests", "limits"]
        .iter()
        .any(|list| entries(pod, &format!("spec.resources.{list}")).any(|(name, _)| is_pod_level(name)))
}

fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

pub(super) fn requests(pod: &Value) -> Amounts {
    let mut sum = without_overhead(pod, "requests");
    add(&mut sum, &amounts(get(pod, "spec.overhead")));
    sum
}

pub(super) fn limits(pod: &Value) -> Amounts {
    let mut sum = without_overhead(pod, "limits");
    let mut overhead = amounts(get(pod, "spec.overhead"));
    overhead.retain(|name, _| sum.get(name).is_some_and(|limit| limit.nanos() != 0));
    add(&mut sum, &overhead);
    sum
}

/// Init containers run one after the other, beside the sidecars that started before them.
pub(super) fn without_overhead(pod: &Value, list: &str) -> Amounts {
    let of = |container: &Value| amounts(get(get(container, "resources"), list));
    let mut sum = Amounts::new();
    for container in items(pod, "spec.containers") {
        add(&mut sum, &of(container));
    }
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for container in items(pod, "spec.initContainers") {
        let own = of(container);
        let at_once = if text(container, "restartPolicy") == "Always" {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            sidecars.clone()
        } else {
            let mut both = own;
            add(&mut both, &sidecars);
            both
        };
        raise(&mut peak, at_once);
    }
    raise(&mut sum, peak);
    for (name, amount) in amounts(get(get(pod, "spec.resources"), list)) {
        if is_pod_level(&name) {
            sum.insert(name, amount);
        }
    }
    sum
}

fn raise(to: &mut Amounts, at_least: Amounts) {
    for (name, amount) in at_least {
        match to.get_mut(&name) {
            Some(present) if *present >= amount => {}
            Some(present) => *present = amount,
            None => drop(to.insert(name, amount)),
        }
    }
}

pub(super) fn in_scope(scope: &Scope<'_>, pod: &Value) -> bool {
    let is_terminating = int(pod, "spec.activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0);
    match scope.name {
        "Terminating" => is_terminating,
        "NotTerminating" => !is_terminating,
        "BestEffort" => qos_class(pod) == "BestEffort",
        "NotBestEffort" => qos_class(pod) != "BestEffort",
        "PriorityClass" => scope.admits(text(pod, "spec.priorityClassName")),
        "CrossNamespacePodAffinity" => ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
            let affinity = get(get(pod, "spec.affinity"), kind);
            let required = items(affinity, "requiredDuringSchedulingIgnoredDuringExecution").iter();
            let preferred = items(affinity, "preferredDuringSchedulingIgnoredDuringExecution").iter();
            required
                .chain(preferred.map(|weighted| get(weighted, "podAffinityTerm")))
                .any(|term| !items(term, "namespaces").is_empty() || has(term, "namespaceSelector"))
        }),
        _ => false,
    }
}
