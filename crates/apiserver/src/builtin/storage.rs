//! Volumes, claims, and the storage.k8s.io group.

use super::SPEC_AND_STATUS;
use super::meta::{immutable, strings};
use super::names;
use super::pod::default_volume_source;
use super::tree::{
    annotation, default, entries, get, has, is_empty, items, remove, restore, set, text, with,
};
use super::volume_checks::validate_one;
use super::{quantity, selector};
use crate::field::FieldError;
use crate::registry::Strategy;
use serde_json::{Value, json};
use std::cmp::Ordering;

const ACCESS_MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
const LEGACY_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) static PERSISTENT_VOLUME: Strategy = Strategy {
    delete_returns_object: true,
    default: |volume| {
        default(volume, "status.phase", "Pending");
        default(volume, "spec.persistentVolumeReclaimPolicy", "Retain");
        default(volume, "spec.volumeMode", "Filesystem");
        with(volume, "spec", default_volume_source);
    },
    prepare_create: |volume| {
        let now = get(volume, "metadata.creationTimestamp").clone();
        set(
            volume,
            "status",
            json!({"phase": "Pending", "lastPhaseTransitionTime": now}),
        );
    },
    validate: validate_volume,
    validate_update: |new, stored| {
        let same = |source: &Value| source_of(source).map(|(k, v)| (k.clone(), v.clone()));
        let mut out = Vec::new();
        if same(get(new, "spec")) != same(get(stored, "spec")) {
            out.push(FieldError::forbidden(
                "spec.persistentvolumesource",
                "spec.persistentvolumesource is immutable after creation",
            ));
        }
        if get(new, "spec.volumeMode") != get(stored, "spec.volumeMode") {
            out.push(FieldError::invalid(
                "volumeMode",
                get(new, "spec.volumeMode"),
                "field is immutable",
            ));
        }
        if has(stored, "spec.nodeAffinity") {
            let (new, old) = (get(new, "spec.nodeAffinity"), get(stored, "spec.nodeAffinity"));
            if new != old {
                out.push(FieldError::invalid(
                    "nodeAffinity",
                    new,
                    "field is immutable, except for updating from beta label to GA",
                ));
            }
        }
        out
    },
    warnings: |volume| {
        let mut out = Vec::new();
        for (key, why) in [
            (
                LEGACY_CLASS,
                "deprecated since v1.8; use \"storageClassName\" attribute instead",
            ),
            (
                "volume.beta.kubernetes.io/mount-options",
                "deprecated since v1.31; use \"mountOptions\" attribute instead",
            ),
        ] {
            if annotation(volume, key).is_some() {
                out.push(format!("metadata.annotations[{key}]: {why}"));
            }
        }
        if text(volume, "spec.persistentVolumeReclaimPolicy") == "Recycle" {
            out.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
        }
        out
    },
    ..SPEC_AND_STATUS
};

pub(super) static PERSISTENT_VOLUME_CLAIM: Strategy = Strategy {
    delete_returns_object: true,
    default: default_claim,
    prepare_create: |claim| {
        set(claim, "status", json!({"phase": "Pending"}));
        // the old field supports two kinds and drops all others
        let (group, kind) = (
            text(claim, "spec.dataSource.apiGroup"),
            text(claim, "spec.dataSource.kind"),
        );
        if !matches!(
            (group, kind),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        ) {
            remove(claim, "spec.dataSource");
        }
        normalize_data_sources(claim);
    },
    prepare_update: |claim, _| normalize_data_sources(claim),
    validate: |claim| validate_claim_spec(get(claim, "spec"), "spec"),
    validate_update: validate_claim_update,
    warnings: |claim| {
        if annotation(claim, LEGACY_CLASS).is_none() {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{LEGACY_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        )]
    },
    ..SPEC_AND_STATUS
};

static STORAGE_CLASS: Strategy = Strategy {
    delete_returns_object: true,
    default: |class| {
        default(class, "reclaimPolicy", "Delete");
        default(class, "volumeBindingMode", "Immediate");
    },
    validate: |class| {
        let mut out = provisioner(class, "provisioner");
        let policy = get(class, "reclaimPolicy");
        if policy != "Delete" && policy != "Retain" {
            out.push(FieldError::not_supported(
                "reclaimPolicy",
                policy,
                &["Delete", "Retain"],
            ));
        }
        let mode = get(class, "volumeBindingMode");
        if mode != "Immediate" && mode != "WaitForFirstConsumer" {
            out.push(FieldError::not_supported(
                "volumeBindingMode",
                mode,
                &["Immediate", "WaitForFirstConsumer"],
            ));
        }
        out
    },
    validate_update: |new, stored| {
        ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"]
            .iter()
            .filter_map(|field| immutable(new, stored, field))
            .collect()
    },
    ..Strategy::GENERIC
};

static CSI_DRIVER: Strategy = Strategy {
    unconditional_update: false,
    delete_returns_object: true,
    default: |driver| {
        default(driver, "spec.attachRequired", true);
        for field in [
            "podInfoOnMount",
            "storageCapacity",
            "requiresRepublish",
            "seLinuxMount",
        ] {
            default(driver, &format!("spec.{field}"), false);
        }
        default(driver, "spec.fsGroupPolicy", "ReadWriteOnceWithFSType");
        if is_empty(get(driver, "spec.volumeLifecycleModes")) {
            set(driver, "spec.volumeLifecycleModes", json!(["Persistent"]));
        }
    },
    validate_update: |new, stored| {
        // upstream misspells the first
        [
            ("spec.attachRequired", "spec.attachedRequired"),
            ("spec.volumeLifecycleModes", "spec.volumeLifecycleModes"),
        ]
        .iter()
        .filter_map(|(field, shown)| {
            let mut error = immutable(new, stored, field)?;
            (*shown).clone_into(&mut error.field);
            Some(error)
        })
        .collect()
    },
    ..Strategy::GENERIC
};

static NODE_OR_CAPACITY: Strategy = Strategy {
    unconditional_update: false,
    delete_returns_object: true,
    ..Strategy::GENERIC
};

static VOLUME_ATTACHMENT: Strategy = Strategy {
    unconditional_update: false,
    delete_returns_object: true,
    status_keeps: &[&["spec"], &["metadata"]],
    status_reset_fields: &[&["metadata"], &["spec"]],
    prepare_create: |attachment| set(attachment, "status", json!({"attached": false})),
    validate_update: |new, stored| immutable(new, stored, "spec").into_iter().collect(),
    ..SPEC_AND_STATUS
};

static VOLUME_ATTRIBUTES_CLASS: Strategy = Strategy {
    delete_returns_object: true,
    validate: |class| provisioner(class, "driverName"),
    validate_update: |new, stored| {
        ["driverName", "parameters"]
            .iter()
            .filter_map(|field| immutable(new, stored, field))
            .collect()
    },
    ..Strategy::GENERIC
};

static OTHER: Strategy = Strategy::GENERIC;

pub(super) fn strategy(kind: &str) -> &'static Strategy {
    match kind {
        "StorageClass" => &STORAGE_CLASS,
        "CSIDriver" => &CSI_DRIVER,
        "CSINode" | "CSIStorageCapacity" => &NODE_OR_CAPACITY,
        "VolumeAttachment" => &VOLUME_ATTACHMENT,
        "VolumeAttributesClass" => &VOLUME_ATTRIBUTES_CLASS,
        _ => &OTHER,
    }
}

pub(super) fn default_claim(claim: &mut Value) {
    default(claim, "status.phase", "Pending");
    default(claim, "spec", json!({}));
    with(claim, "spec", default_claim_spec);
}

pub(super) fn default_claim_spec(spec: &mut Value) {
    default(spec, "volumeMode", "Filesystem");
}

/// `dataSource` and `dataSourceRef` mirror each other where both are allowed.
fn normalize_data_sources(claim: &mut Value) {
    let (source, reference) = (
        get(claim, "spec.dataSource").clone(),
        get(claim, "spec.dataSourceRef").clone(),
    );
    if !source.is_null() && reference.is_null() {
        set(claim, "spec.dataSourceRef", source);
    } else if source.is_null() && !reference.is_null() && text(&reference, "namespace").is_empty() {
        let mut copy = reference;
        remove(&mut copy, "namespace");
        set(claim, "spec.dataSource", copy);
    }
}

fn provisioner(object: &Value, field: &str) -> Vec<FieldError> {
    let name = text(object, field);
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    names::qualified_name(&name.to_lowercase())
        .into_iter()
        .map(|message| FieldError::invalid(field, &name.into(), message))
        .collect()
}

fn access_modes(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    let path = format!("{path}.accessModes");
    for mode in items(spec, "accessModes") {
        if !mode.as_str().is_some_and(|m| ACCESS_MODES.contains(&m)) {
            out.push(FieldError::not_supported(path.clone(), mode, ACCESS_MODES));
        }
    }
    let alone = strings(spec, "accessModes")
        .filter(|m| *m == "ReadWriteOncePod")
        .count();
    if alone > 0 && items(spec, "accessModes").len() > alone {
        out.push(FieldError::forbidden(
            path,
            "may not use ReadWriteOncePod with other access modes",
        ));
    }
    out
}

pub(super) fn validate_claim_spec(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    if items(spec, "accessModes").is_empty() {
        out.push(FieldError::required(
            format!("{path}.accessModes"),
            "at least 1 access mode is required",
        ));
    }
    out.extend(selector::validate(
        get(spec, "selector"),
        &format!("{path}.selector"),
    ));
    out.extend(access_modes(spec, path));
    let storage = format!("{path}.resources[storage]");
    match get(spec, "resources.requests").get("storage") {
        None => out.push(FieldError::required(storage, "")),
        Some(value) => {
            if value.as_str().and_then(quantity::nano).is_some_and(|n| n <= 0) {
                out.push(FieldError::invalid(storage, value, "must be greater than zero"));
            }
        }
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        for message in names::dns_subdomain(class) {
            out.push(FieldError::invalid(
                format!("{path}.storageClassName"),
                &class.into(),
                message,
            ));
        }
    }
    let mode = get(spec, "volumeMode");
    if mode
        .as_str()
        .is_some_and(|m| !matches!(m, "Block" | "Filesystem"))
    {
        out.push(FieldError::not_supported(
            format!("{path}.volumeMode"),
            mode,
            &["Block", "Filesystem"],
        ));
    }
    for field in ["dataSource", "dataSourceRef"] {
        let source = get(spec, field);
        if source.is_null() {
            continue;
        }
        let path = format!("{path}.{field}");
        for part in ["name", "kind"] {
            if text(source, part).is_empty() {
                out.push(FieldError::required(format!("{path}.{part}"), ""));
            }
        }
        if text(source, "apiGroup").is_empty() && text(source, "kind") != "PersistentVolumeClaim" {
            out.push(FieldError::invalid(
                path,
                get(source, "kind"),
                "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            ));
        }
    }
    out
}

fn validate_claim_update(new: &Value, stored: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let mut masked = new.clone();
    if text(stored, "spec.volumeName").is_empty() {
        restore(&mut masked, stored, "spec.volumeName");
    }
    if !has(stored, "spec.storageClassName") {
        restore(&mut masked, stored, "spec.storageClassName");
    }
    if text(new, "status.phase") == "Bound" {
        restore(&mut masked, stored, "spec.resources.requests.storage");
        restore(&mut masked, stored, "spec.volumeAttributesClassName");
    }
    if get(&masked, "spec") != get(stored, "spec") {
        out.push(FieldError::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
    let size = |claim: &Value, path: &str| {
        get(claim, path)
            .get("storage")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let (new_size, old_size) = (
        size(new, "spec.resources.requests"),
        size(stored, "spec.resources.requests"),
    );
    if let (Some(new_size), Some(old_size)) = (new_size, old_size)
        && quantity::compare(&new_size, &old_size) == Some(Ordering::Less)
    {
        let capacity = size(stored, "status.capacity").unwrap_or_else(|| "0".to_owned());
        if quantity::compare(&new_size, &capacity) != Some(Ordering::Greater) {
            out.push(FieldError::forbidden(
                "spec.resources.requests.storage",
                "field can not be less than status.capacity",
            ));
        }
    }
    if get(new, "spec.volumeMode") != get(stored, "spec.volumeMode") {
        out.push(FieldError::invalid(
            "volumeMode",
            get(new, "spec.volumeMode"),
            "field is immutable",
        ));
    }
    out
}

const VOLUME_FIELDS: &[&str] = &[
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

fn source_of(spec: &Value) -> Option<(&String, &Value)> {
    entries(spec, "").find(|(key, _)| !VOLUME_FIELDS.contains(&key.as_str()))
}

fn validate_volume(volume: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = get(volume, "spec");
    if items(spec, "accessModes").is_empty() {
        out.push(FieldError::required("spec.accessModes", ""));
    }
    out.extend(access_modes(spec, "spec"));
    let capacity = get(spec, "capacity");
    if is_empty(capacity) {
        out.push(FieldError::required("spec.capacity", ""));
    }
    if capacity.get("storage").is_none() || capacity.as_object().is_some_and(|m| m.len() > 1) {
        let shown = if capacity.is_null() {
            json!({})
        } else {
            capacity.clone()
        };
        out.push(FieldError::not_supported("spec.capacity", &shown, &["storage"]));
    }
    for (name, value) in entries(capacity, "") {
        if value.as_str().and_then(quantity::nano).is_some_and(|n| n <= 0) {
            out.push(FieldError::invalid(
                format!("spec.capacity[{name}]"),
                value,
                "must be greater than zero",
            ));
        }
    }
    let policy = get(spec, "persistentVolumeReclaimPolicy");
    if policy
        .as_str()
        .is_some_and(|p| !matches!(p, "Delete" | "Recycle" | "Retain"))
    {
        out.push(FieldError::not_supported(
            "spec.persistentVolumeReclaimPolicy",
            policy,
            &["Delete", "Recycle", "Retain"],
        ));
    }
    let sources: Vec<&String> = entries(spec, "")
        .map(|(key, _)| key)
        .filter(|key| !VOLUME_FIELDS.contains(&key.as_str()))
        .collect();
    if let Some((first, more)) = sources.split_first() {
        if matches!(first.as_str(), "nfs" | "hostPath") {
            out.extend(validate_one(first, get(spec, first), &format!("spec.{first}")));
        }
        for key in more {
            out.push(FieldError::forbidden(
                format!("spec.{key}"),
                "may not specify more than 1 volume type",
            ));
        }
    } else {
        out.push(FieldError::required("spec", "must specify a volume type"));
    }
    if has(spec, "hostPath") && text(spec, "hostPath.path") == "/" && policy == "Recycle" {
        out.push(FieldError::forbidden(
            "spec.persistentVolumeReclaimPolicy",
            "may not be 'recycle' for a hostPath mount of '/'",
        ));
    }
    if has(spec, "csi") {
        for field in ["driver", "volumeHandle"] {
            if text(spec, &format!("csi.{field}")).is_empty() {
                out.push(FieldError::required(format!("spec.csi.{field}"), ""));
            }
        }
    }
    if has(spec, "local") && !has(spec, "nodeAffinity") {
        out.push(FieldError::required(
            "spec.nodeAffinity",
            "Local volume requires node affinity",
        ));
    }
    let mode = get(spec, "volumeMode");
    if mode
        .as_str()
        .is_some_and(|m| !matches!(m, "Block" | "Filesystem"))
    {
        out.push(FieldError::not_supported(
            "spec.volumeMode",
            mode,
            &["Block", "Filesystem"],
        ));
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        for message in names::dns_subdomain(class) {
            out.push(FieldError::invalid(
                "spec.storageClassName",
                &class.into(),
                message,
            ));
        }
    }
    out
}
