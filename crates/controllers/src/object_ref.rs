//! An object of a kind that Equate reconciles, named across controllers.
//!
//! A HelmRelease `a/b` and a Kustomization `a/b` are two objects: wherever keys of several kinds meet (the
//! watcher, the ownership graph, readers of artifacts, wakes), they are [`ObjectRef`]s. Within one kind, in
//! its queue and its mirror, a [`Key`] is enough.

use std::fmt;

use crate::Key;

/// An object by kind, namespace and name; prints as `Kustomization/flux-system/apps`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectRef {
    /// The kind, `Kustomization`.
    pub kind: &'static str,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectRef {
    /// From its three parts.
    pub fn new(kind: &'static str, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The object of a kind that has this key.
    pub fn of(kind: &'static str, key: &Key) -> Self {
        Self::new(kind, &*key.namespace, &*key.name)
    }

    /// Its key among the objects of its kind.
    pub fn key(&self) -> Key {
        Key::new(&*self.namespace, &*self.name)
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}
