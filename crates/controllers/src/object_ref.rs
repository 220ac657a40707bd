//! The name of an object among several kinds: watches, wakes, readers of artifacts, ownership. Within
//! one kind a [`Key`] is enough.

use std::fmt;

use equate_apply::owner::{Owner, OwnerKind};

use crate::Key;

/// An object that a controller reconciles; prints as `Kind/namespace/name`.
///
/// Without API group: no two reconciled kinds share a name. Ordered by kind, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectRef {
    /// The kind, as in its manifest.
    pub kind: &'static str,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectRef {
    /// From its parts.
    pub fn new(kind: &'static str, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// An object of a kind by its key.
    pub fn of(kind: &'static str, key: &Key) -> Self {
        Self::new(kind, &*key.namespace, &*key.name)
    }

    /// Its key within its kind.
    pub fn key(&self) -> Key {
        Key::new(&*self.namespace, &*self.name)
    }

    /// The same as an owner; `None` if it is of another kind.
    pub fn owner(&self, kind: &'static OwnerKind) -> Option<Owner> {
        (self.kind == kind.kind).then(|| Owner::new(kind, &*self.namespace, &*self.name))
    }
}

impl From<&Owner> for ObjectRef {
    fn from(owner: &Owner) -> Self {
        Self::new(owner.kind.kind, &*owner.namespace, &*owner.name)
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) static KUSTOMIZATION: OwnerKind = OwnerKind {
        kind: "Kustomization",
        field_manager: "kustomize-controller",
        name_label: "kustomize.toolkit.fluxcd.io/name",
        namespace_label: "kustomize.toolkit.fluxcd.io/namespace",
    };
    pub(crate) static HELM_RELEASE: OwnerKind = OwnerKind {
        kind: "HelmRelease",
        field_manager: "helm-controller",
        name_label: "helm.toolkit.fluxcd.io/name",
        namespace_label: "helm.toolkit.fluxcd.io/namespace",
    };

    #[test]
    fn equal_names_of_two_kinds_are_different_objects() {
        let key = Key::new("a", "b");
        let kustomization = ObjectRef::of("Kustomization", &key);
        let release = ObjectRef::of("HelmRelease", &key);
        assert_ne!(kustomization, release);
        assert_eq!((kustomization.key(), release.key()), (key.clone(), key));
        assert_eq!(kustomization.to_string(), "Kustomization/a/b");
    }

    #[test]
    fn objects_of_a_kind_are_ordered_by_namespace_and_name() {
        let names = ["b/a", "a/z", "a/b", "ab/a"];
        let key = |name: &&str| name.split_once('/').map(|(ns, name)| Key::new(ns, name));
        let mut keys: Vec<Key> = names.iter().filter_map(key).collect();
        let mut objects: Vec<ObjectRef> = keys
            .iter()
            .map(|key| ObjectRef::of("Kustomization", key))
            .collect();
        keys.sort();
        objects.sort();
        assert_eq!(objects.iter().map(ObjectRef::key).collect::<Vec<_>>(), keys);
    }

    #[test]
    fn an_owner_has_the_kind_of_its_object() {
        let release = ObjectRef::new("HelmRelease", "a", "b");
        let owner = release.owner(&HELM_RELEASE).unwrap();
        assert_eq!(ObjectRef::from(&owner), release);
        assert_eq!(release.owner(&KUSTOMIZATION), None);
    }
}
