//! Subresources that write a part of their object: `ephemeralcontainers`, `resize`, `binding`, `approval`.

use super::names;
use super::tree::{each, get, int, items, remove, restore, set, text};
use crate::auth::Identity;
use crate::field::FieldError;
use serde_json::{Value, json};

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
        }
        "resize" => {
            for list in ["spec.containers", "spec.initContainers"] {
                let wanted = items(new, list);
                each(&mut out, list, |container| {
                    let named = wanted
                        .iter()
                        .find(|one| text(one, "name") == text(container, "name"));
                    for field in ["resources", "resizePolicy"] {
                        restore(container, named.unwrap_or(&Value::Null), field);
                    }
                });
            }
            restore(&mut out, new, "spec.resources");
        }
        _ => return new.clone(),
    }
    out
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
        for message in names::dns_label(name) {
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

/// Only processors and memory, and never a change of the quality of service.
fn resized(new: &Value, stored: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    for (i, (now, before)) in items(new, "spec.containers")
        .iter()
        .zip(items(stored, "spec.containers"))
        .enumerate()
    {
        let others = |container: &Value, list: &str| {
            let mut amounts = get(get(container, "resources"), list).clone();
            if let Some(amounts) = amounts.as_object_mut() {
                amounts.retain(|name, _| name != "cpu" && name != "memory");
            }
            match amounts {
                Value::Null => json!({}),
                amounts => amounts,
            }
        };
        if ["requests", "limits"]
            .iter()
            .any(|list| others(now, list) != others(before, list))
        {
            out.push(FieldError::forbidden(
                format!("spec.containers[{i}].resources"),
                "only cpu and memory resources are mutable",
            ));
        }
    }
    if super::qos_class(new) != super::qos_class(stored) {
        let class = text(stored, "status.qosClass");
        out.push(FieldError::invalid(
            "metadata",
            &super::qos_class(new).into(),
            format!("Pod QOS Class may not change as a result of resizing (was {class})"),
        ));
    }
    out
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
    fn resize_keeps_the_quality_of_service() {
        let mut best_effort = pod();
        best_effort["spec"]["containers"][0]["resources"] = json!({});
        assert_eq!(validate("resize", &best_effort, &pod()).len(), 1);
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
