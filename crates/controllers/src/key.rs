//! The name of an object where its kind is known: in a queue, a store, an index.

use std::fmt;

use crate::kit::queue::Namespaced;

/// A namespaced object of a known kind; prints as `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// The key of an object by namespace and name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of an object; the namespace may be empty.
    pub fn of(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Self {
        Self::new(
            meta.namespace.clone().unwrap_or_default(),
            meta.name.clone().unwrap_or_default(),
        )
    }
}

impl Namespaced for Key {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// Whether a ConfigMap, Secret or ServiceAccount can have this name (RFC 1123, as in Kubernetes).
///
/// A name that a user wrote becomes part of a request's path as it is. An invalid one would address
/// another object, perhaps in another namespace, so no request is sent for it.
pub(crate) fn is_name(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let all = bytes
        .iter()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(byte));
    all && bytes.len() <= 253 && edge(bytes.first()) && edge(bytes.last())
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_are_rejected() {
        let check = |name: &str, expected: bool| assert_eq!(is_name(name), expected, "{name:?}");
        check("deployer", true);
        check("team-a.deployer-2", true);
        for name in [
            "",
            "-a",
            "a-",
            "A",
            ".",
            "..",
            "../../other/secrets/a",
            "a/status",
            "a%2fb",
            "a?watch=true",
            "a#b",
            "a:b",
            "a b",
            "a\r\nimpersonate-group: system:masters",
            "ä",
        ] {
            check(name, false);
        }
        check(&"a".repeat(253), true);
        check(&"a".repeat(254), false);
    }
}
