//! Subresources that write a part of their object: `ephemeralcontainers`, `resize`, `binding`, `approval`.

use super::names as name_rules;
use super::tree::{each, entries, get, int, items, remove, restore, set, text};
use crate::auth::Identity;
use crate::field::FieldError;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// `stored` with the part of `new` that the subresource writes.
pub(crate) fn only(subresource: &str, new: &Value, stored: &Value) -> Value {
    let mut out = stored.clone();
    // labels and owners stay; the entries of managers are the write's own
    for field in ["managedFields", "resourceVersion"] {
        restore(&mut out, new, &format!("metadata.{field}"));
    }
    match subresource {
        "ephemeralcontainers" => restore(&mut out, new, "spec.ephemeralContainers"),
        "binding" => {
            restore(&mut out, new, "spec.nodeName");
            restore(&mut out, new, "status.conditions");
        }
        "approval" => {
            restore(&mut out, new, "status.conditions");
            for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
                restore(&mut out, new, &format!("metadata.{field}"));
            }
        }
        "resize" => {
            for list in ["spec.containers", "spec.initContainers"] {
                let wanted = items(new, list);
                if !names(wanted).eq(names(items(stored, list))) {
                    // the validation refuses it
                    restore(&mut out, new, list);
                    continue;
                }
                let mut wanted = wanted.iter();
                each(&mut out, list, |container| {
                    let named = wanted.next().unwrap_or(&Value::Null);
                    for field in ["resources", "resizePolicy"] {
                        restore(container, named, field);
                    }
                });
            }
            restore(&mut out, new, "spec.resources");
        }
        _ => return new.clone(),
    }
    out
}

fn names(containers: &[Value]) -> impl Iterator<Item = &str> {
    containers.iter().map(|container| text(container, "name"))
}

/// Records who asks for a certificate.
pub(crate) fn stamp_requester(request: &mut Value, who: &Identity) {
    set(request, "spec.username", who.name.as_str());
    set(request, "spec.groups", json!(who.groups));
    for field in ["spec.uid", "spec.extra"] {
        remove(request, field);
    }
    if !who.uid.is_empty() {
        set(request, "spec.uid", who.uid.as_str());
    }
    if !who.extra.is_empty() {
        set(request, "spec.extra", json!(who.extra));
    }
}

pub(crate) fn validate(subresource: &str, new: &Value, stored: &Value) -> Vec<FieldError> {
    match subresource {
        "ephemeralcontainers" => ephemeral(new, stored),
        "resize" => resized(new, stored),
        _ => Vec::new(),
    }
}

/// They may be added, never changed or removed.
fn ephemeral(new: &Value, stored: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.ephemeralContainers";
    let mut out = Vec::new();
    let (now, before) = (items(new, PATH), items(stored, PATH));
    for old in before {
        let name = text(old, "name");
        match now.iter().find(|one| text(one, "name") == name) {
            None => out.push(FieldError::forbidden(
                PATH,
                format!("existing ephemeral containers {name:?} may not be removed\n"),
            )),
            Some(one) if one != old => out.push(FieldError::forbidden(
                PATH,
                format!("existing ephemeral containers {name:?} may not be changed\n"),
            )),
            Some(_) => {}
        }
    }
    let others = ["spec.containers", "spec.initContainers"];
    let mut taken: Vec<&str> = others
        .iter()
        .flat_map(|list| items(new, list))
        .map(|container| text(container, "name"))
        .collect();
    for (i, container) in now.iter().enumerate() {
        let name = text(container, "name");
        let path = format!("{PATH}[{i}].name");
        if name.is_empty() {
            out.push(FieldError::required(path, ""));
            continue;
        }
        for message in name_rules::dns_label(name) {
            out.push(FieldError::invalid(path.clone(), &name.into(), message));
        }
        if taken.contains(&name) {
            out.push(FieldError::duplicate(path, &name.into()));
        }
        taken.push(name);
        if text(container, "image").is_empty() {
            out.push(FieldError::required(format!("{PATH}[{i}].image"), ""));
        }
    }
    out
}

/// Only processors and memory, and never a change of the quality of service; `ValidatePodResize` of 1.36.
fn resized(new: &Value, stored: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    if super::qos_class(new) != super::qos_class(stored) {
        out.push(FieldError::invalid(
            "spec",
            get(stored, "status.qosClass"),
            "Pod QOS Class may not change as a result of resizing",
        ));
    }
    let others = other_containers(new, stored);
    if !others.is_empty() {
        out.extend(others);
        return out;
    }
    for list in ["initContainers", "containers"] {
        let path = format!("spec.{list}");
        for (i, (now, before)) in items(new, &path).iter().zip(items(stored, &path)).enumerate() {
            for (amounts, word) in [("requests", "request"), ("limits", "limit")] {
                let amounts_path = format!("resources.{amounts}");
                let (now, before) = (get(now, &amounts_path), get(before, &amounts_path));
                if entries(before, "").any(|(name, _)| now.get(name).is_none()) {
                    out.push(FieldError::forbidden(
                        format!("{path}[{i}].{amounts_path}"),
                        format!("resource {word}s cannot be removed"),
                    ));
                }
            }
            let same = |field: &str| fixed(now, field) == fixed(before, field);
            if !(same("requests") && same("limits")) {
                out.push(if list == "containers" {
                    FieldError::forbidden("spec", "only cpu and memory resources are mutable")
                } else {
                    FieldError::forbidden(
                        format!("{path}[{i}]"),
                        "only cpu and memory resources for init or sidecar containers are mutable",
                    )
                });
            }
        }
    }
    out
}

fn other_containers(new: &Value, stored: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    for list in ["containers", "initContainers"] {
        let path = format!("spec.{list}");
        let (now, before) = (items(new, &path), items(stored, &path));
        if now.len() != before.len() {
            let why = format!("{list} may not be added or removed on resize");
            out.push(FieldError::forbidden(path, why));
            continue;
        }
        for (i, _) in names(now)
            .zip(names(before))
            .enumerate()
            .filter(|(_, (now, before))| now != before)
        {
            out.push(FieldError::forbidden(
                format!("{path}[{i}].name"),
                format!("{list} may not be renamed or reordered on resize"),
            ));
        }
    }
    out
}

/// The amounts of a container that a resize must not change.
fn fixed<'a>(container: &'a Value, list: &str) -> BTreeMap<&'a String, &'a Value> {
    entries(get(container, "resources"), list)
        .filter(|(name, _)| *name != "cpu" && *name != "memory")
        .collect()
}

/// Completes the times of the conditions of an approval.
pub(crate) fn stamp_approval(request: &mut Value, now: &str) {
    each(request, "status.conditions", |condition| {
        for field in ["lastUpdateTime", "lastTransitionTime"] {
            if int(condition, field).is_none() && text(condition, field).is_empty() {
                set(condition, field, now);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": {"name": "p", "labels": {"app": "web"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"qosClass": "Burstable"},
        })
    }

    #[test]
    fn a_subresource_writes_its_part_alone() {
        let stored = pod();
        let mut new = pod();
        new["metadata"]["labels"]["app"] = json!("other");
        new["spec"]["containers"][0]["image"] = json!("other");
        new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
        new["spec"]["ephemeralContainers"] = json!([{"name": "debug", "image": "busybox"}]);
        let mut expected = pod();
        expected["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
        assert_eq!(only("resize", &new, &stored), expected);
        let mut expected = pod();
        expected["spec"]["ephemeralContainers"] = new["spec"]["ephemeralContainers"].clone();
        assert_eq!(only("ephemeralcontainers", &new, &stored), expected);
        assert_eq!(validate("ephemeralcontainers", &expected, &stored), Vec::new());
        assert_eq!(validate("ephemeralcontainers", &stored, &expected).len(), 1);
    }

    #[test]
    fn approval_changes_annotations_and_conditions() {
        let stored = json!({ "metadata": { "uid": "u" }, "spec": { "username": "a" } });
        let new = json!({
            "metadata": { "uid": "v", "annotations": { "a": "b" } }, "spec": { "username": "b" },
            "status": { "conditions": [{ "type": "Approved" }], "certificate": "x" },
        });
        let expected = json!({
            "metadata": { "uid": "u", "annotations": { "a": "b" } }, "spec": { "username": "a" },
            "status": { "conditions": [{ "type": "Approved" }] },
        });
        assert_eq!(only("approval", &new, &stored), expected);
    }

    #[test]
    fn approval_has_times() {
        let mut request = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
        stamp_approval(&mut request, "2026-01-01T00:00:00Z");
        assert_eq!(
            request["status"]["conditions"][0]["lastUpdateTime"],
            json!("2026-01-01T00:00:00Z")
        );
    }
}
