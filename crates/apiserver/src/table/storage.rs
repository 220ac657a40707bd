//! Cells of volumes, claims, classes and drivers.

use super::cells::{View, cells};
use serde_json::Value;

/// `RWO,ROX,RWX,RWOP`: each mode once, in this order.
fn access_modes(modes: &[&str]) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let present = known
        .into_iter()
        .filter(|(mode, _)| modes.contains(mode))
        .map(|(_, short)| short);
    present.collect::<Vec<_>>().join(",")
}

fn phase<'v>(view: &View<'v>) -> &'v str {
    if view.deleting() {
        "Terminating"
    } else {
        view.text("/status/phase")
    }
}

/// The class; the old annotation overrides the field.
fn storage_class<'v>(view: &View<'v>) -> &'v str {
    view.annotation("volume.beta.kubernetes.io/storage-class")
        .unwrap_or(view.text("/spec/storageClassName"))
}

pub(super) fn volume(view: &View<'_>) -> Vec<Value> {
    let claim = if view.get("/spec/claimRef").is_some() {
        format!(
            "{}/{}",
            view.text("/spec/claimRef/namespace"),
            view.text("/spec/claimRef/name")
        )
    } else {
        String::new()
    };
    cells![
        view.name(),
        view.text_or("/spec/capacity/storage", "0"),
        access_modes(&view.texts("/spec/accessModes")),
        view.text("/spec/persistentVolumeReclaimPolicy"),
        phase(view),
        claim,
        storage_class(view),
        view.optional("/spec/volumeAttributesClassName")
            .unwrap_or("<unset>"),
        view.text("/status/reason"),
        view.age(),
        view.optional("/spec/volumeMode").unwrap_or("<unset>"),
    ]
}

pub(super) fn claim(view: &View<'_>) -> Vec<Value> {
    let volume = view.text("/spec/volumeName");
    let (capacity, modes) = if volume.is_empty() {
        ("", String::new())
    } else {
        (
            view.text_or("/status/capacity/storage", "0"),
            access_modes(&view.texts("/status/accessModes")),
        )
    };
    cells![
        view.name(),
        phase(view),
        volume,
        capacity,
        modes,
        storage_class(view),
        view.optional("/spec/volumeAttributesClassName")
            .unwrap_or("<unset>"),
        view.age(),
        view.optional("/spec/volumeMode").unwrap_or("<unset>"),
    ]
}

pub(super) fn class(view: &View<'_>) -> Vec<Value> {
    let default = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ]
    .into_iter()
    .any(|name| view.annotation(name) == Some("true"));
    let name = if default {
        format!("{} (default)", view.name())
    } else {
        view.name().to_owned()
    };
    cells![
        name,
        view.text("/provisioner"),
        view.optional("/reclaimPolicy").unwrap_or("Delete"),
        view.optional("/volumeBindingMode").unwrap_or("Immediate"),
        view.flag("/allowVolumeExpansion").unwrap_or(false),
        view.age(),
    ]
}

pub(super) fn attachment(view: &View<'_>) -> Vec<Value> {
    cells![
        view.name(),
        view.text("/spec/attacher"),
        view.text("/spec/source/persistentVolumeName"),
        view.text("/spec/nodeName"),
        view.flag("/status/attached").unwrap_or(false),
        view.age(),
    ]
}

pub(super) fn csi_driver(view: &View<'_>) -> Vec<Value> {
    let modes = match view.texts("/spec/volumeLifecycleModes").join(",") {
        modes if modes.is_empty() => "<none>".to_owned(),
        modes => modes,
    };
    let audiences = view
        .get("/spec/tokenRequests")
        .and_then(Value::as_array)
        .map_or_else(
            || "<unset>".to_owned(),
            |requests| {
                let audiences = requests
                    .iter()
                    .filter_map(|request| request.get("audience").and_then(Value::as_str));
                audiences.collect::<Vec<_>>().join(",")
            },
        );
    let flag = |name: &str, default: bool| view.flag(&format!("/spec/{name}")).unwrap_or(default);
    cells![
        view.name(),
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        audiences,
        flag("requiresRepublish", false),
        modes,
        view.age(),
    ]
}
