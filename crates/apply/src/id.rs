//! Object ids, and their form in an inventory.

use equate_manifest::object::Object;
use std::fmt;
use std::sync::Arc;

/// An object by group, kind, namespace and name, without the version.
///
/// Prints as `Deployment/shop/web`, or `Namespace/shop` without a namespace. Cheap to clone. Sorted by
/// field; [`crate::order`] has the order of apply.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The kind, `Deployment`.
    pub kind: Arc<str>,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectId {
    /// Makes an id from its four parts.
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The id of an object as written; a missing namespace is empty.
    pub fn of(object: &Object) -> Self {
        let group = object
            .api_version()
            .rsplit_once('/')
            .map_or("", |(group, _)| group);
        Self::new(group, object.kind(), object.namespace(), object.name())
    }

    /// The id in Flux's inventory: `<namespace>_<name>_<group>_<kind>`, empty parts included.
    ///
    /// A `:` in the name of an RBAC object becomes `__`, as in cli-utils (`object/objmetadata.go`).
    pub fn to_inventory(&self) -> String {
        let rbac = &*self.group == "rbac.authorization.k8s.io"
            && matches!(
                &*self.kind,
                "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding"
            );
        let name = if rbac {
            self.name.replace(':', "__")
        } else {
            self.name.to_string()
        };
        format!("{}_{name}_{}_{}", self.namespace, self.group, self.kind)
    }

    /// Parses an id of Flux's inventory.
    ///
    /// `__` in a name always becomes `:`, so an RBAC name with two underscores is ambiguous. A single
    /// underscore, which Flux refuses, is itself.
    ///
    /// # Errors
    /// There are not four parts, or name or kind is empty.
    pub fn from_inventory(text: &str) -> Result<Self, ParseIdError> {
        let bad = |why| ParseIdError {
            text: text.to_owned(),
            why,
        };
        let shape = || bad("it is not <namespace>_<name>_<group>_<kind>");
        let (namespace, rest) = text.split_once('_').ok_or_else(shape)?;
        let (rest, kind) = rest.rsplit_once('_').ok_or_else(shape)?;
        let (name, group) = rest.rsplit_once('_').ok_or_else(shape)?;
        if name.is_empty() {
            return Err(bad("the name is empty"));
        }
        if kind.is_empty() {
            return Err(bad("the kind is empty"));
        }
        Ok(Self::new(group, kind, namespace, &name.replace("__", ":")))
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}/{}", self.kind, self.name)
        } else {
            write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// An inventory entry that is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("inventory entry `{text}` is invalid: {why}")]
pub struct ParseIdError {
    text: String,
    why: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inventory_text_both_ways() {
        let check = |id: ObjectId, text: &str, shown: &str| {
            assert_eq!(id.to_inventory(), text);
            assert_eq!(ObjectId::from_inventory(text).unwrap(), id);
            assert_eq!(id.to_string(), shown);
        };
        check(
            ObjectId::new("apps", "Deployment", "shop", "web"),
            "shop_web_apps_Deployment",
            "Deployment/shop/web",
        );
        check(
            ObjectId::new("", "Namespace", "", "default"),
            "_default__Namespace",
            "Namespace/default",
        );
        check(
            ObjectId::new("", "ConfigMap", "a", "b.c"),
            "a_b.c__ConfigMap",
            "ConfigMap/a/b.c",
        );
        check(
            ObjectId::new("rbac.authorization.k8s.io", "ClusterRole", "", "system:a:b"),
            "_system__a__b_rbac.authorization.k8s.io_ClusterRole",
            "ClusterRole/system:a:b",
        );
        check(
            ObjectId::new("rbac.authorization.k8s.io", "Role", "n", "with_underscore"),
            "n_with_underscore_rbac.authorization.k8s.io_Role",
            "Role/n/with_underscore",
        );
    }

    #[test]
    fn entries_that_name_nothing() {
        let check = |text: &str, error: &str| {
            assert_eq!(ObjectId::from_inventory(text).unwrap_err().to_string(), error);
        };
        check(
            "",
            "inventory entry `` is invalid: it is not <namespace>_<name>_<group>_<kind>",
        );
        check(
            "a_b_c",
            "inventory entry `a_b_c` is invalid: it is not <namespace>_<name>_<group>_<kind>",
        );
        check("a__g_K", "inventory entry `a__g_K` is invalid: the name is empty");
        check("a_b_g_", "inventory entry `a_b_g_` is invalid: the kind is empty");
    }

    #[test]
    fn the_id_of_an_object() {
        let object = |api_version: &str| {
            let value = serde_json::json!({
                "apiVersion": api_version, "kind": "K", "metadata": { "name": "n", "namespace": "ns" },
            });
            ObjectId::of(&Object::from_value(value).unwrap())
        };
        assert_eq!(object("v1"), ObjectId::new("", "K", "ns", "n"));
        assert_eq!(object("a.b/v1"), ObjectId::new("a.b", "K", "ns", "n"));
    }
}
