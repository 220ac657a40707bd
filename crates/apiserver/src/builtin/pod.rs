//! Pods and pod templates: defaults, derived fields, deletion grace.
//!
//! As in `core/v1/defaults.go`, some defaults apply to every pod *spec*, templates included, and some to a
//! *Pod* only (`enableServiceLinks`, requests from limits). [`super::pod_checks`] validates.

use super::apps::name_warning;
use super::tree::{at, default, each, entries, flag, get, has, int, items, set, text, with};
use super::{pod_checks, pod_update};
use crate::registry::{Generation, Strategy};
use serde_json::{Value, json};

const CONTAINER_LISTS: &[&str] = &["initContainers", "containers", "ephemeralContainers"];

pub(super) static POD: Strategy = Strategy {
    generation: Generation::Spec,
    has_status: true,
    status_keeps: &[
        &["spec"],
        &["metadata", "ownerReferences"],
        &["metadata", "deletionTimestamp"],
    ],
    reset_fields: &[&["status"]],
    status_reset_fields: &[
        &["spec"],
        &["metadata", "deletionTimestamp"],
        &["metadata", "ownerReferences"],
    ],
    delete_returns_object: true,
    default: default_pod,
    prepare_create: |pod| {
        let status = json!({"phase": "Pending", "qosClass": qos_class(pod)});
        set(pod, "status", status);
        if !items(pod, "spec.schedulingGates").is_empty() {
            let now = get(pod, "metadata.creationTimestamp").clone();
            set(
                pod,
                "status.conditions",
                json!([{"type": "PodScheduled", "status": "False", "lastProbeTime": null,
                    "lastTransitionTime": now, "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates"}]),
            );
        }
    },
    prepare_status: |pod, stored| {
        default(pod, "status.qosClass", get(stored, "status.qosClass").clone());
    },
    validate: pod_checks::validate_pod,
    validate_create: pod_checks::validate_pod_create,
    validate_update: pod_update::validate_pod_update,
    warnings: |pod| {
        let mut out = name_warning(pod, "used in the Pod's hostname");
        out.extend(pod_checks::pod_warnings(pod, "spec"));
        out
    },
    selectable: &[
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ],
    ..Strategy::GENERIC
};

pub(super) static POD_TEMPLATE: Strategy = Strategy {
    generation: Generation::AllButMetadata,
    delete_returns_object: true,
    default: |object| default_template(object, "template"),
    validate: |object| pod_checks::validate_template(get(object, "template"), "template"),
    ..Strategy::GENERIC
};

/// The grace period in seconds of a DELETE of a pod. A pod that has no node or has finished needs none.
pub(crate) fn deletion_grace(pod: &Value, requested: Option<i64>) -> i64 {
    let phase = text(pod, "status.phase");
    if text(pod, "spec.nodeName").is_empty() || phase == "Succeeded" || phase == "Failed" {
        return 0;
    }
    let wanted = requested
        .or_else(|| int(pod, "spec.terminationGracePeriodSeconds"))
        .unwrap_or(30);
    if wanted < 0 { 1 } else { wanted }
}

pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    let containers = items(pod, "spec.containers")
        .iter()
        .chain(items(pod, "spec.initContainers"));
    let pod_level = has(pod, "spec.resources").then(|| get(pod, "spec.resources"));
    let resources: Vec<&Value> = match pod_level {
        Some(r) => vec![r],
        None => containers.map(|c| get(c, "resources")).collect(),
    };
    for r in resources {
        for name in ["cpu", "memory"] {
            let limit = set_quantity(get(get(r, "limits"), name));
            let request = set_quantity(get(get(r, "requests"), name));
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn set_quantity(value: &Value) -> Option<&str> {
    value.as_str().filter(|q| *q != "0")
}

fn default_pod(pod: &mut Value) {
    with(pod, "spec", default_spec);
    if int(pod, "spec.terminationGracePeriodSeconds").is_some_and(|n| n < 0) {
        set(pod, "spec.terminationGracePeriodSeconds", 1);
    }
    for list in ["containers", "initContainers"] {
        each(pod, &format!("spec.{list}"), requests_from_limits);
    }
    default(pod, "spec.enableServiceLinks", true);
    if flag(pod, "spec.hostNetwork") {
        for list in ["containers", "initContainers"] {
            each(pod, &format!("spec.{list}"), |container| {
                each(container, "ports", |port| {
                    if int(port, "hostPort").unwrap_or(0) == 0 {
                        let same = get(port, "containerPort").clone();
                        set(port, "hostPort", same);
                    }
                });
            });
        }
    }
    if let Some(limits) = get(pod, "spec.resources.limits").as_object().cloned() {
        for (name, quantity) in limits {
            default_entry(pod, "spec.resources.requests", &name, quantity);
        }
    }
}

fn requests_from_limits(container: &mut Value) {
    let limits: Vec<(String, Value)> = entries(container, "resources.limits")
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    for (name, quantity) in limits {
        default_entry(container, "resources.requests", &name, quantity);
    }
}

pub(super) fn default_entry(value: &mut Value, path: &str, key: &str, new: Value) {
    default(value, path, json!({}));
    if let Some(map) = at(value, path).and_then(Value::as_object_mut) {
        map.entry(key).or_insert(new);
    }
}

pub(super) fn default_template(object: &mut Value, path: &str) {
    with(object, &format!("{path}.spec"), default_spec);
}

pub(super) fn default_spec(spec: &mut Value) {
    each(spec, "volumes", default_volume);
    for list in CONTAINER_LISTS {
        each(spec, list, default_container);
    }
    default(spec, "restartPolicy", "Always");
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "securityContext", json!({}));
    default(spec, "schedulerName", "default-scheduler");
    // the internal type has one field for both: the deprecated alias always mirrors it
    if text(spec, "serviceAccountName").is_empty() {
        let alias = get(spec, "serviceAccount").clone();
        if !alias.is_null() {
            set(spec, "serviceAccountName", alias);
        }
    } else {
        let name = get(spec, "serviceAccountName").clone();
        set(spec, "serviceAccount", name);
    }
}

fn default_container(container: &mut Value) {
    let policy = pull_policy(text(container, "image"));
    default(container, "imagePullPolicy", policy);
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    each(container, "ports", |port| default(port, "protocol", "TCP"));
    each(container, "env", |env| {
        with(env, "valueFrom.fieldRef", default_field_ref);
    });
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        with(container, probe, default_probe);
    }
    for hook in ["lifecycle.postStart.httpGet", "lifecycle.preStop.httpGet"] {
        with(container, hook, default_http_get);
    }
}

fn default_field_ref(reference: &mut Value) {
    default(reference, "apiVersion", "v1");
}

fn default_probe(probe: &mut Value) {
    for (field, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        if int(probe, field).unwrap_or(0) == 0 {
            set(probe, field, value);
        }
    }
    with(probe, "httpGet", default_http_get);
    with(probe, "grpc", |grpc| {
        if get(grpc, "service").is_null() {
            set(grpc, "service", "");
        }
    });
}

fn default_http_get(action: &mut Value) {
    default(action, "path", "/");
    default(action, "scheme", "HTTP");
}

fn pull_policy(image: &str) -> &'static str {
    if image_tag(image) == "latest" {
        "Always"
    } else {
        "IfNotPresent"
    }
}

fn image_tag(image: &str) -> &str {
    let legible = |c: char| c.is_ascii_alphanumeric() || "._-/:@[]".contains(c);
    let repository = image.split_once('/').map_or(image, |(_, rest)| rest);
    let repository = repository.split([':', '@']).next().unwrap_or(repository);
    // an invalid image name has no tag, not even the default one
    if image.is_empty()
        || !image.chars().all(legible)
        || repository.contains(|c: char| c.is_ascii_uppercase())
    {
        return "";
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    let digest = name.contains('@');
    let name = name.split('@').next().unwrap_or(name);
    match name.split_once(':') {
        Some((_, tag)) => tag,
        None if digest => "",
        None => "latest",
    }
}

pub(super) fn default_volume(volume: &mut Value) {
    let sourceless = volume
        .as_object()
        .is_some_and(|v| v.iter().all(|(k, v)| k == "name" || v.is_null()));
    if sourceless {
        set(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        with(volume, source, |s| default(s, "defaultMode", 420));
    }
    each(volume, "downwardAPI.items", |item| {
        with(item, "fieldRef", default_field_ref);
    });
    each(volume, "projected.sources", |source| {
        with(source, "serviceAccountToken", |token| {
            default(token, "expirationSeconds", 3600);
        });
        each(source, "downwardAPI.items", |item| {
            with(item, "fieldRef", default_field_ref);
        });
    });
    with(volume, "image", |image| {
        let policy = pull_policy(text(image, "reference"));
        default(image, "pullPolicy", policy);
    });
    with(
        volume,
        "ephemeral.volumeClaimTemplate.spec",
        super::storage::default_claim_spec,
    );
    default_volume_source(volume);
}

pub(super) fn default_volume_source(volume: &mut Value) {
    with(volume, "hostPath", |path| {
        if get(path, "type").is_null() {
            set(path, "type", "");
        }
    });
    with(volume, "iscsi", |iscsi| {
        default(iscsi, "iscsiInterface", "default");
    });
    with(volume, "rbd", |rbd| {
        default(rbd, "pool", "rbd");
        default(rbd, "user", "admin");
        default(rbd, "keyring", "/etc/ceph/keyring");
    });
    with(volume, "azureDisk", |disk| {
        default(disk, "cachingMode", "ReadWrite");
        default(disk, "fsType", "ext4");
        default(disk, "readOnly", false);
        default(disk, "kind", "Shared");
    });
    with(volume, "scaleIO", |io| {
        default(io, "storageMode", "ThinProvisioned");
        default(io, "fsType", "xfs");
    });
}
