//! Validation of a pod's volumes and of its containers' mounts.

use super::names;
use super::storage::validate_claim_spec;
use super::tree::{entries, get, has, int, items, text};
use crate::field::FieldError;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

pub(super) fn validate<'a>(volumes: &'a [Value], path: &str) -> (Volumes<'a>, Vec<FieldError>) {
    let mut sound = Volumes::new();
    let mut out = Vec::new();
    for (i, volume) in volumes.iter().enumerate() {
        let path = format!("{path}[{i}]");
        let mut problems = validate_source(volume, &path);
        let name = text(volume, "name");
        if name.is_empty() {
            problems.push(FieldError::required(format!("{path}.name"), ""));
        } else {
            for message in names::dns_label(name) {
                problems.push(FieldError::invalid(format!("{path}.name"), &name.into(), message));
            }
        }
        if sound.contains_key(name) {
            problems.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
        }
        if problems.is_empty() {
            sound.insert(name, volume);
        }
        out.extend(problems);
    }
    (sound, out)
}

/// The order in which several sources of a volume are counted.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

fn validate_source(volume: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    let mut count = 0;
    for source in SOURCES {
        let value = get(volume, source);
        if value.is_null() {
            continue;
        }
        let path = format!("{path}.{source}");
        count += 1;
        if count > 1 {
            out.push(FieldError::forbidden(
                path,
                "may not specify more than 1 volume type",
            ));
            continue;
        }
        out.extend(validate_one(source, value, &path));
    }
    if count == 0 {
        out.push(FieldError::required(path, "must specify a volume type"));
    }
    out
}

fn required(out: &mut Vec<FieldError>, value: &Value, field: &str, path: &str) {
    if text(value, field).is_empty() {
        out.push(FieldError::required(format!("{path}.{field}"), ""));
    }
}

fn file_mode(value: &Value, field: &str, path: &str) -> Option<FieldError> {
    let mode = int(value, field).filter(|m| !(0..=0o777).contains(m))?;
    Some(FieldError::invalid(
        format!("{path}.{field}"),
        &mode.into(),
        FILE_MODE,
    ))
}

pub(super) fn validate_one(source: &str, value: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    match source {
        "hostPath" => {
            required(&mut out, value, "path", path);
            let host = text(value, "path");
            out.extend(no_backsteps(host, &format!("{path}.path")));
            const TYPES: &[&str] = &[
                "",
                "BlockDevice",
                "CharDevice",
                "Directory",
                "DirectoryOrCreate",
                "File",
                "FileOrCreate",
                "Socket",
            ];
            let kind = get(value, "type");
            if kind.as_str().is_some_and(|k| !TYPES.contains(&k)) {
                out.push(FieldError::not_supported(format!("{path}.type"), kind, TYPES));
            }
        }
        "secret" => {
            required(&mut out, value, "secretName", path);
            out.extend(file_mode(value, "defaultMode", path));
            out.extend(key_paths(items(value, "items"), &format!("{path}.items")));
        }
        "configMap" => {
            required(&mut out, value, "name", path);
            out.extend(file_mode(value, "defaultMode", path));
            out.extend(key_paths(items(value, "items"), &format!("{path}.items")));
        }
        "persistentVolumeClaim" => required(&mut out, value, "claimName", path),
        "nfs" => {
            required(&mut out, value, "server", path);
            required(&mut out, value, "path", path);
            let export = text(value, "path");
            if !export.is_empty() && !export.starts_with('/') {
                out.push(FieldError::invalid(
                    format!("{path}.path"),
                    &export.into(),
                    "must be an absolute path",
                ));
            }
        }
        "emptyDir" if text(value, "sizeLimit").starts_with('-') => out.push(FieldError::forbidden(
            format!("{path}.sizeLimit"),
            "SizeLimit field must be a valid resource quantity",
        )),
        "image" => required(&mut out, value, "reference", path),
        "csi" => required(&mut out, value, "driver", path),
        "downwardAPI" => {
            out.extend(file_mode(value, "defaultMode", path));
            for (i, item) in items(value, "items").iter().enumerate() {
                let at = format!("{path}[{i}]");
                required(&mut out, item, "path", &at);
                if !has(item, "fieldRef") && !has(item, "resourceFieldRef") {
                    out.push(FieldError::required(
                        path,
                        "one of fieldRef and resourceFieldRef is required",
                    ));
                }
            }
        }
        "projected" => {
            out.extend(file_mode(value, "defaultMode", path));
            out.extend(projections(value, path));
        }
        "ephemeral" => {
            let template = get(value, "volumeClaimTemplate");
            if template.is_null() {
                out.push(FieldError::required(format!("{path}.volumeClaimTemplate"), ""));
            } else {
                out.extend(validate_claim_spec(
                    get(template, "spec"),
                    &format!("{path}.volumeClaimTemplate.spec"),
                ));
            }
        }
        _ => {}
    }
    out
}

fn projections(projected: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    for (i, source) in items(projected, "sources").iter().enumerate() {
        let path = format!("{path}.sources[{i}]");
        let mut count = 0;
        for kind in [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ] {
            let value = get(source, kind);
            if value.is_null() {
                continue;
            }
            count += 1;
            let path = format!("{path}.{kind}");
            match kind {
                "secret" | "configMap" => {
                    required(&mut out, value, "name", &path);
                    out.extend(key_paths(items(value, "items"), &format!("{path}.items")));
                }
                "serviceAccountToken" => {
                    let seconds = int(value, "expirationSeconds").unwrap_or(3600);
                    if seconds < 600 {
                        out.push(FieldError::invalid(
                            format!("{path}.expirationSeconds"),
                            &seconds.into(),
                            "may not specify a duration less than 10 minutes",
                        ));
                    }
                    required(&mut out, value, "path", &path);
                }
                _ => {}
            }
        }
        if count > 1 {
            out.push(FieldError::forbidden(
                path,
                "may not specify more than 1 volume type per source",
            ));
        }
    }
    out
}

fn key_paths(list: &[Value], path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    for (i, item) in list.iter().enumerate() {
        let path = format!("{path}[{i}]");
        required(&mut out, item, "key", &path);
        required(&mut out, item, "path", &path);
        let target = text(item, "path");
        out.extend(descending(target, &format!("{path}.path")));
        if target.starts_with("..") && !target.starts_with("../") && target != ".." {
            out.push(FieldError::invalid(
                format!("{path}.path"),
                &target.into(),
                "must not start with '..'",
            ));
        }
        out.extend(file_mode(item, "mode", &path));
    }
    out
}

fn no_backsteps(target: &str, path: &str) -> Option<FieldError> {
    target
        .split('/')
        .any(|part| part == "..")
        .then(|| FieldError::invalid(path, &target.into(), "must not contain '..'"))
}

fn descending(target: &str, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    if target.starts_with('/') {
        out.push(FieldError::invalid(
            path,
            &target.into(),
            "must be a relative path",
        ));
    }
    out.extend(no_backsteps(target, path));
    out
}

pub(super) fn validate_mounts(container: &Value, volumes: &Volumes<'_>, path: &str) -> Vec<FieldError> {
    let list = format!("{path}.volumeMounts");
    let devices = items(container, "volumeDevices");
    let mut out = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (i, mount) in items(container, "volumeMounts").iter().enumerate() {
        let at = |field: &str| format!("{list}[{i}].{field}");
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            out.push(FieldError::required(at("name"), ""));
        }
        if !volumes.contains_key(name) {
            out.push(FieldError::not_found(at("name"), &name.into()));
        }
        if target.is_empty() {
            out.push(FieldError::required(at("mountPath"), ""));
        }
        if seen.contains(&target) {
            out.push(FieldError::invalid(
                at("mountPath"),
                &target.into(),
                "must be unique",
            ));
        }
        seen.push(target);
        if devices.iter().any(|d| text(d, "name") == name) {
            out.push(FieldError::invalid(
                at("name"),
                &name.into(),
                "must not already exist in volumeDevices",
            ));
        }
        // upstream names the list here, not the item
        out.extend(descending(text(mount, "subPath"), &format!("{list}.subPath")));
        let expression = text(mount, "subPathExpr");
        if !expression.is_empty() && !text(mount, "subPath").is_empty() {
            out.push(FieldError::invalid(
                at("subPathExpr"),
                &expression.into(),
                "subPathExpr and subPath are mutually exclusive",
            ));
        }
        out.extend(descending(expression, &format!("{list}.subPathExpr")));
        let propagation = get(mount, "mountPropagation");
        const MODES: &[&str] = &["Bidirectional", "HostToContainer", "None"];
        if propagation.as_str().is_some_and(|p| !MODES.contains(&p)) {
            out.push(FieldError::not_supported(
                format!("{list}.mountPropagation"),
                propagation,
                MODES,
            ));
        }
    }
    for (i, device) in devices.iter().enumerate() {
        let at = |field: &str| format!("{path}.volumeDevices[{i}].{field}");
        let name = text(device, "name");
        if name.is_empty() {
            out.push(FieldError::required(at("name"), ""));
        }
        match volumes.get(name) {
            None => out.push(FieldError::not_found(at("name"), &name.into())),
            Some(volume) if !has(volume, "persistentVolumeClaim") && !has(volume, "ephemeral") => {
                out.push(FieldError::invalid(
                    at("name"),
                    &name.into(),
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                ));
            }
            Some(_) => {}
        }
        if text(device, "devicePath").is_empty() {
            out.push(FieldError::required(at("devicePath"), ""));
        }
    }
    out
}

/// Sources that a real server accepts but no longer mounts.
pub(super) fn warnings(volumes: &[Value], spec: &str) -> Vec<String> {
    const OLD: &[(&str, &str)] = &[
        (
            "photonPersistentDisk",
            "deprecated in v1.11, non-functional in v1.16+",
        ),
        (
            "gitRepo",
            "deprecated in v1.11, and disabled by default in v1.33+",
        ),
        ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
        ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
        ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    let mut out = Vec::new();
    for (i, volume) in volumes.iter().enumerate() {
        for (source, _) in entries(volume, "").filter(|(_, v)| !v.is_null()) {
            let old = OLD.iter().find(|(name, _)| name == source);
            out.extend(old.map(|(_, why)| {
                let shown = if source == "storageos" {
                    "storageOS"
                } else {
                    source
                };
                format!("{spec}.volumes[{i}].{shown}: {why}")
            }));
        }
    }
    out
}
