//! Ownership marks of an object: labels and field manager.

use equate_manifest::object::Object;
use serde_json::{Map, Value};
use std::fmt;

/// The marks of one kind of owner. A controller declares it once, as a constant.
///
/// An object may carry the labels of several kinds; each kind reads only its own.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerKind {
    /// The kind, as in the owner's manifest.
    pub kind: &'static str,
    /// The field manager of its applies; used in query strings unescaped.
    pub field_manager: &'static str,
    /// The label that holds the owner's name.
    pub name_label: &'static str,
    /// The label that holds the owner's namespace.
    pub namespace_label: &'static str,
}

/// The owner of an object; prints as `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Its kind.
    pub kind: &'static OwnerKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Owner {
    /// Makes an owner from kind, namespace and name.
    pub fn new(kind: &'static OwnerKind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Reads the owner labels of a kind; `None` unless both are present.
    pub fn of(object: &Object, kind: &'static OwnerKind) -> Option<Owner> {
        let labels = object.metadata()?.get("labels")?;
        Some(Self::new(
            kind,
            labels.get(kind.namespace_label)?.as_str()?,
            labels.get(kind.name_label)?.as_str()?,
        ))
    }

    /// Writes the owner labels. Replaces metadata or labels that are not maps.
    pub fn label(&self, object: &mut Object) {
        let mut metadata = take_map(&mut object.0, "metadata");
        let mut labels = take_map(&mut metadata, "labels");
        for (label, value) in [
            (self.kind.name_label, &self.name),
            (self.kind.namespace_label, &self.namespace),
        ] {
            labels.insert(label.to_owned(), Value::String(value.clone()));
        }
        metadata.insert("labels".to_owned(), Value::Object(labels));
        object.0.insert("metadata".to_owned(), Value::Object(metadata));
    }
}

fn take_map(map: &mut Map<String, Value>, key: &str) -> Map<String, Value> {
    match map.remove(key) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    pub(crate) const KUSTOMIZATION: OwnerKind = OwnerKind {
        kind: "Kustomization",
        field_manager: "kustomize-controller",
        name_label: "kustomize.toolkit.fluxcd.io/name",
        namespace_label: "kustomize.toolkit.fluxcd.io/namespace",
    };
    pub(crate) const HELM_RELEASE: OwnerKind = OwnerKind {
        kind: "HelmRelease",
        field_manager: "helm-controller",
        name_label: "helm.toolkit.fluxcd.io/name",
        namespace_label: "helm.toolkit.fluxcd.io/namespace",
    };

    #[test]
    fn each_kind_sees_its_own_labels() {
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" } });
        let mut object = Object::from_value(object).unwrap();
        let kustomization = Owner::new(&KUSTOMIZATION, "a", "b");
        kustomization.label(&mut object);
        assert_eq!(Owner::of(&object, &KUSTOMIZATION), Some(kustomization.clone()));
        assert_eq!(Owner::of(&object, &HELM_RELEASE), None);
        let release = Owner::new(&HELM_RELEASE, "a", "b");
        release.label(&mut object);
        assert_eq!(Owner::of(&object, &KUSTOMIZATION), Some(kustomization.clone()));
        assert_eq!(Owner::of(&object, &HELM_RELEASE), Some(release.clone()));
        assert_ne!(kustomization, release);
    }
}
