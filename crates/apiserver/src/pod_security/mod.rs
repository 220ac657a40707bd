//! Pod Security Standards: the admission plugin `PodSecurity` of 1.36, with its defaults (privileged).
//!
//! Labels of a namespace name a level and a version for each of three modes. `enforce` refuses a pod, `warn`
//! answers with a warning, also for objects with a pod template; `audit` has no visible effect here, because
//! there is no audit log. Behaviour: `k8s.io/pod-security-admission`.

mod checks;
mod policy;
#[cfg(test)]
mod tests;

use crate::builtin::tree::{get, items, text};
use crate::field::FieldError;
use checks::{Pod, findings};
use policy::{Level, LevelVersion, Policy};
use serde_json::Value;
use std::collections::BTreeMap;

/// The pods that a change of a namespace's level is checked against.
const PODS_MAX: usize = 3_000;

/// The errors of a namespace's labels. Labels that were as wrong before are accepted.
pub(crate) fn check_labels(namespace: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let errors = Policy::of(namespace).1;
    match old.map(|old| Policy::of(old).1) {
        Some(known) if known == errors => Vec::new(),
        _ => errors,
    }
}

/// The warnings about existing pods after a namespace's level became stricter.
pub(crate) fn check_existing<'a>(
    namespace: &Value,
    old: &Value,
    pods: impl Iterator<Item = &'a Value>,
) -> Vec<String> {
    let (new, old) = (Policy::of(namespace).0.enforce, Policy::of(old).0.enforce);
    if new == old || new.level == Level::Privileged || new.version == old.version && new.level <= old.level {
        return Vec::new();
    }
    let pods = first_of_each_controller(pods);
    let mut warnings = Vec::new();
    let checked = pods.len().min(PODS_MAX);
    if checked < pods.len() {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {} existing pods",
            pods.len()
        ));
    }
    // the names of the pods by their reasons
    let mut violations: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for pod in &pods[..checked] {
        let found = findings(new, &Pod::of(pod));
        if !found.is_empty() {
            let reasons: Vec<_> = found.iter().map(|finding| finding.reason).collect();
            let names = violations.entry(reasons.join(", ")).or_default();
            names.push(text(pod, "metadata.name"));
        }
    }
    if violations.is_empty() {
        return warnings;
    }
    warnings.push(format!(
        "existing pods in namespace {:?} violate the new PodSecurity enforce level \"{new}\"",
        text(namespace, "metadata.name")
    ));
    let mut by_pod: Vec<String> = violations
        .into_iter()
        .map(|(reasons, names)| {
            let first = names.iter().min().copied().unwrap_or_default();
            match names.len() - 1 {
                0 => format!("{first}: {reasons}"),
                1 => format!("{first} (and 1 other pod): {reasons}"),
                others => format!("{first} (and {others} other pods): {reasons}"),
            }
        })
        .collect();
    by_pod.sort_unstable();
    warnings.extend(by_pod);
    warnings
}

/// One pod of each controller before the others.
fn first_of_each_controller<'a>(pods: impl Iterator<Item = &'a Value>) -> Vec<&'a Value> {
    let mut seen = std::collections::HashSet::new();
    let (mut first, others): (Vec<_>, Vec<_>) = pods.partition(|pod| {
        let owners = items(pod, "metadata.ownerReferences");
        let controller = owners.iter().find(|owner| get(owner, "controller") == true);
        controller.is_none_or(|owner| seen.insert(text(owner, "uid")))
    });
    first.extend(others);
    first
}

/// Checks a written pod. Refused: the end of the message `pods "p" is forbidden: `. Accepted: warnings.
pub(crate) fn check_pod(namespace: &Value, pod: &Value, old: Option<&Value>) -> Result<Vec<String>, String> {
    let policy = Policy::of(namespace).0;
    if policy.is_privileged() || old.is_some_and(|old| !changes_images(pod, old)) {
        return Ok(Vec::new());
    }
    let pod = Pod::of(pod);
    match violation(policy.enforce, &pod) {
        Some(detail) => Err(format!("violates PodSecurity \"{}\": {detail}", policy.enforce)),
        None => Ok(warning(policy.warn, &pod)),
    }
}

/// The warnings about a pod template; `path` leads to it.
pub(crate) fn check_template(namespace: &Value, object: &Value, path: &str) -> Vec<String> {
    let policy = Policy::of(namespace).0;
    let template = get(object, path);
    if policy.warn.level == Level::Privileged || template.is_null() {
        return Vec::new();
    }
    warning(policy.warn, &Pod::of(template))
}

/// The path of the pod template in objects of a resource.
pub(crate) fn template_path(group: &str, plural: &str) -> Option<&'static str> {
    match (group, plural) {
        ("", "podtemplates") => Some("template"),
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => Some("spec.template"),
        ("batch", "cronjobs") => Some("spec.jobTemplate.spec.template"),
        _ => None,
    }
}

fn warning(level: LevelVersion, pod: &Pod<'_>) -> Vec<String> {
    let detail = violation(level, pod);
    let text = detail.map(|detail| format!("would violate PodSecurity \"{level}\": {detail}"));
    text.into_iter().collect()
}

fn violation(level: LevelVersion, pod: &Pod<'_>) -> Option<String> {
    let found = findings(level, pod);
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// Whether an update concerns the standards: other fields that they read cannot change.
fn changes_images(pod: &Value, old: &Value) -> bool {
    let differs = |list: &str| {
        let (new, old) = (items(pod, list), items(old, list));
        new.len() != old.len()
            || new
                .iter()
                .zip(old)
                .any(|(new, old)| get(new, "image") != get(old, "image"))
    };
    if differs("spec.containers") || differs("spec.initContainers") {
        return true;
    }
    let known = items(old, "spec.ephemeralContainers");
    items(pod, "spec.ephemeralContainers").iter().any(|container| {
        let name = text(container, "name");
        let old = known.iter().find(|old| text(old, "name") == name);
        old.is_none_or(|old| get(old, "image") != get(container, "image"))
    })
}
