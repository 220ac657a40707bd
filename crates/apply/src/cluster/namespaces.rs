//! Namespaces of objects: decided before planning, because a namespace is part of the id.

use super::Cluster;
use super::error::ResolveError;
use crate::id::ObjectId;
use equate_manifest::object::{GroupVersionKind, Object};
use serde_json::Value;
use std::collections::HashMap;

/// The namespace of an object is unknown.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// Its kind is namespaced, and no namespace is given.
    #[error("{id} namespace not specified")]
    NotSpecified {
        /// The object.
        id: ObjectId,
        /// Its index among the given objects.
        index: usize,
    },
    /// Discovery failed.
    #[error("cannot discover which kinds are namespaced")]
    Resolve(#[source] ResolveError),
}

impl Cluster {
    /// Gives namespaced objects the default namespace, and removes the namespace of cluster-scoped ones.
    ///
    /// Kinds defined by the same objects count as served. An object of an unknown kind is unchanged: its
    /// apply reports it.
    ///
    /// # Errors
    /// An object needs a namespace and there is no default, as in Flux; or discovery failed.
    pub async fn assign_namespaces<'o>(
        &self,
        objects: impl IntoIterator<Item = &'o mut Object>,
        default: Option<&str>,
    ) -> Result<(), NamespaceError> {
        let mut objects: Vec<_> = objects.into_iter().collect();
        let defined = definitions(&objects);
        let mut served: HashMap<GroupVersionKind, Option<bool>> = HashMap::new();
        for (index, object) in objects.iter_mut().enumerate() {
            let Some(gvk) = object.gvk() else {
                continue;
            };
            let namespaced = match (
                defined.get(&(gvk.group.clone(), gvk.kind.clone())),
                served.get(&gvk),
            ) {
                (Some(namespaced), _) => Some(*namespaced),
                (None, Some(known)) => *known,
                (None, None) => {
                    let answer = self.namespaced(&gvk).await?;
                    served.insert(gvk, answer);
                    answer
                }
            };
            let Some(namespaced) = namespaced else {
                continue;
            };
            match (namespaced, object.namespace().is_empty(), default) {
                (true, false, _) | (false, true, _) => {}
                (false, false, _) => set_namespace(object, None),
                (true, true, Some(default)) => set_namespace(object, Some(default)),
                (true, true, None) => {
                    let id = ObjectId::of(object);
                    return Err(NamespaceError::NotSpecified { id, index });
                }
            }
        }
        Ok(())
    }

    async fn namespaced(&self, gvk: &GroupVersionKind) -> Result<Option<bool>, NamespaceError> {
        match self.resolve(gvk).await {
            Ok(kind) => Ok(Some(kind.namespaced)),
            Err(ResolveError::NoSuchKind { .. }) => Ok(None),
            Err(error) => Err(NamespaceError::Resolve(error)),
        }
    }
}

fn set_namespace(object: &mut Object, namespace: Option<&str>) {
    if let Some(Value::Object(metadata)) = object.0.get_mut("metadata") {
        match namespace {
            Some(namespace) => metadata.insert("namespace".to_owned(), Value::String(namespace.to_owned())),
            None => metadata.remove("namespace"),
        };
    }
}

/// Whether the kinds defined by these objects are namespaced, by group and kind.
fn definitions(objects: &[&mut Object]) -> HashMap<(String, String), bool> {
    let definitions = objects
        .iter()
        .filter(|object| object.kind() == "CustomResourceDefinition");
    definitions
        .filter_map(|object| {
            let spec = object.0.get("spec")?;
            let group = spec.get("group")?.as_str()?;
            let kind = spec.get("names")?.get("kind")?.as_str()?;
            let namespaced = spec.get("scope")?.as_str()? == "Namespaced";
            Some(((group.to_owned(), kind.to_owned()), namespaced))
        })
        .collect()
}
