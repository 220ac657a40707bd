//! Ids and accessors of Kubernetes objects.
//!
//! [`Object`] is a JSON object with the fields all Kubernetes objects share; accessors borrow and never
//! allocate.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// An API group and version. Prints as `apps/v1`, or `v1` for the core group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersion {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, `v1`.
    pub version: String,
}

impl GroupVersion {
    /// Combines group and version.
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
        }
    }

    /// Parses an `apiVersion`: `v1` or `apps/v1`. `None` with more than one slash.
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            None => Some(Self::new("", api_version)),
            Some((group, version)) if !version.contains('/') => Some(Self::new(group, version)),
            Some(_) => None,
        }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// A group, version and kind. Prints in Go's form, `apps/v1, Kind=Deployment`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersionKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind, `Deployment`.
    pub kind: String,
}

impl GroupVersionKind {
    /// Combines group, version and kind.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// The group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            write!(f, "/{}, Kind={}", self.version, self.kind)
        } else {
            write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
        }
    }
}

/// A Kubernetes object: a JSON object with `apiVersion`, `kind` and `metadata`.
///
/// Construction does not validate; absent fields read as empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Object(pub Map<String, Value>);

impl Object {
    /// `None` if the value is not a JSON object.
    pub fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self(map)),
            _ => None,
        }
    }

    /// The object as a JSON value.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    /// `apiVersion`, or empty.
    pub fn api_version(&self) -> &str {
        self.text("apiVersion")
    }

    /// `kind`, or empty.
    pub fn kind(&self) -> &str {
        self.text("kind")
    }

    /// Group, version and kind; `None` if `apiVersion` is malformed.
    pub fn gvk(&self) -> Option<GroupVersionKind> {
        let gv = GroupVersion::parse(self.api_version())?;
        Some(GroupVersionKind::new(gv.group, gv.version, self.kind()))
    }

    /// `metadata.name`, or empty.
    pub fn name(&self) -> &str {
        self.metadata_text("name")
    }

    /// `metadata.namespace`, or empty.
    pub fn namespace(&self) -> &str {
        self.metadata_text("namespace")
    }

    /// `metadata`, if it is an object.
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        field(&self.0, "metadata").and_then(Value::as_object)
    }

    fn text(&self, key: &str) -> &str {
        field(&self.0, key).and_then(Value::as_str).unwrap_or_default()
    }

    fn metadata_text(&self, key: &str) -> &str {
        self.metadata()
            .and_then(|metadata| field(metadata, key))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

/// The entries in one B-tree node of a map.
const NODE_ENTRIES: usize = 11;

/// Looks up a key. For small maps, which most are, comparing key lengths first avoids reading the keys; this
/// dominates the cost for thousands of objects.
pub fn field<'m>(map: &'m Map<String, Value>, key: &str) -> Option<&'m Value> {
    if map.len() > NODE_ENTRIES {
        return map.get(key);
    }
    map.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// [`field`], mutable.
pub fn field_mut<'m>(map: &'m mut Map<String, Value>, key: &str) -> Option<&'m mut Value> {
    if map.len() > NODE_ENTRIES {
        return map.get_mut(key);
    }
    map.iter_mut()
        .find(|(name, _)| *name == key)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_small_and_large_maps() {
        for entries in [0, 1, NODE_ENTRIES, NODE_ENTRIES + 1, 100] {
            let mut map: Map<String, Value> =
                (0..entries).map(|at| (format!("key-{at}"), at.into())).collect();
            for key in ["key-0", "key-10", "key-99", "kex-0", "", "key"] {
                let expected = map.get(key).cloned();
                assert_eq!(field(&map, key), expected.as_ref(), "{key} of {entries}");
                assert_eq!(field_mut(&mut map, key).cloned(), expected, "{key} of {entries}");
            }
        }
    }
}
