//! Resources, keys, and the paths that order lists.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::status::GroupResource;

/// A group and a plural: the versions of a kind share one storage.
///
/// Ordered by group, then plural. A clone costs one reference count.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId(Arc<Names>);

#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Names {
    group: Box<str>,
    plural: Box<str>,
}

impl ResourceId {
    /// From the group (empty for the core group) and the plural.
    pub fn new(group: impl Into<Box<str>>, plural: impl Into<Box<str>>) -> Self {
        Self(Arc::new(Names {
            group: group.into(),
            plural: plural.into(),
        }))
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        &self.0.group
    }

    /// The plural, `deployments`.
    pub fn plural(&self) -> &str {
        &self.0.plural
    }
}

impl From<&GroupResource> for ResourceId {
    fn from(names: &GroupResource) -> Self {
        Self::new(names.group.as_str(), names.resource.as_str())
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural())?;
        if !self.group().is_empty() {
            write!(f, ".{}", self.group())?;
        }
        Ok(())
    }
}

impl fmt::Debug for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The identity of an object in the store.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Key {
    /// The resource.
    pub resource: ResourceId,
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// From its parts; the namespace is empty for a cluster-scoped object.
    pub fn new(resource: &ResourceId, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            resource: resource.clone(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Its position in a list of its resource.
    pub fn path(&self) -> ObjectPath {
        ObjectPath::new(&self.namespace, &self.name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.resource)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// `namespace/name`, or only the name of a cluster-scoped object.
///
/// Its byte order is the order of lists. It differs from the order of the pair: `-` sorts before `/`, so
/// `a-b/x` comes before `a/x`, as in etcd.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectPath(Arc<str>);

impl ObjectPath {
    /// From its parts. Neither may contain a `/`: the API refuses such names.
    pub fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            Self(name.into())
        } else {
            Self(format!("{namespace}/{name}").into())
        }
    }

    /// The whole path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }
}

/// `str` and its path sort alike, so maps of paths support lookup by `&str`.
impl Borrow<str> for ObjectPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
