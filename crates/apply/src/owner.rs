//! Whose an object is: the labels and the field manager that say so.

use equate_manifest::object::Object;
use serde_json::{Map, Value};
use std::fmt;

/// The field manager of all that a Kustomization applies; Flux's, so that ownership carries over.
pub const FIELD_MANAGER: &str = "kustomize-controller";
/// The label that holds the owning Kustomization's name.
pub const NAME_LABEL: &str = "kustomize.toolkit.fluxcd.io/name";
/// The label that holds the owning Kustomization's namespace.
pub const NAMESPACE_LABEL: &str = "kustomize.toolkit.fluxcd.io/namespace";

/// The Kustomization an object belongs to; prints as `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Owner {
    /// From namespace and name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Reads the owner labels; none unless both are there.
    pub fn of(object: &Object) -> Option<Owner> {
        let labels = object.metadata()?.get("labels")?;
        Some(Self::new(
            labels.get(NAMESPACE_LABEL)?.as_str()?,
            labels.get(NAME_LABEL)?.as_str()?,
        ))
    }

    /// Writes the owner labels. Metadata or labels that are no maps give way.
    pub fn label(&self, object: &mut Object) {
        let mut metadata = take_map(&mut object.0, "metadata");
        let mut labels = take_map(&mut metadata, "labels");
        labels.insert(NAME_LABEL.to_owned(), Value::String(self.name.clone()));
        labels.insert(NAMESPACE_LABEL.to_owned(), Value::String(self.namespace.clone()));
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
