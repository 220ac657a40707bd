//! Objects that contain others: deleting a Namespace deletes its objects, deleting a
//! CustomResourceDefinition deletes the objects of its kind.
//!
//! Containers are often declared elsewhere than their contents, and often leave git in another commit.

use crate::id::ObjectId;
use crate::plan::Presence;

/// The objects that are deleted with another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Container {
    /// Every object in this namespace.
    Namespace(String),
    /// Every object of this kind.
    Kind {
        /// The kind's group.
        group: String,
        /// The kind; `None` if unknown, which means any kind of the group.
        kind: Option<String>,
    },
}

impl Container {
    /// The container that an object is, if any.
    pub fn of(id: &ObjectId, presence: &Presence) -> Option<Self> {
        match (&*id.group, &*id.kind) {
            ("", "Namespace") => Some(Self::Namespace(id.name.to_string())),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                // its name is `<plural>.<group>`, without the kind
                let (_, group) = id.name.split_once('.')?;
                let kind = match presence {
                    Presence::Present(observed) => observed.defines.clone(),
                    Presence::Absent | Presence::Unknown => None,
                };
                Some(Self::Kind {
                    group: group.to_owned(),
                    kind,
                })
            }
            _ => None,
        }
    }

    /// Whether an object is inside.
    pub fn contains(&self, id: &ObjectId) -> bool {
        match self {
            Self::Namespace(name) => *id.namespace == **name,
            Self::Kind { group, kind } => {
                *id.group == **group && kind.as_ref().is_none_or(|kind| *id.kind == **kind)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use equate_manifest::object::Object;
    use serde_json::json;

    use super::*;
    use crate::observed::Observed;

    #[test]
    fn containers_contain_their_objects() {
        let widgets = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "widgets.example.org", "uid": "u" },
            "spec": { "group": "example.org", "names": { "kind": "Widget", "plural": "widgets" } },
        });
        let widgets = Observed::of(
            &Object::from_value(widgets).unwrap(),
            &crate::owner::tests::KUSTOMIZATION,
        );
        let seen = Presence::Present(Arc::new(widgets));
        let check = |container: &str, presence: &Presence, object: &str, expected: Option<bool>| {
            let id = |text: &str| ObjectId::from_inventory(text).unwrap();
            let container = Container::of(&id(container), presence);
            let contains = container.map(|container| container.contains(&id(object)));
            assert_eq!(contains, expected, "{object}");
        };
        let unknown = &Presence::Unknown;
        let web = "_web__Namespace";
        check(web, unknown, "web_x__ConfigMap", Some(true));
        check(web, unknown, "shop_web__ConfigMap", Some(false));
        check(web, unknown, "_web__Namespace", Some(false));
        check(
            web,
            unknown,
            "_x_rbac.authorization.k8s.io_ClusterRole",
            Some(false),
        );
        let definition = "_widgets.example.org_apiextensions.k8s.io_CustomResourceDefinition";
        check(definition, &seen, "web_x_example.org_Widget", Some(true));
        check(definition, &seen, "web_x_example.org_Gadget", Some(false));
        check(definition, &seen, "web_x_example.com_Widget", Some(false));
        // unobserved, it may define any kind of the group
        check(definition, unknown, "web_x_example.org_Gadget", Some(true));
        check("web_x_apps_Deployment", unknown, "web_x_apps_Deployment", None);
        check("web_x_example.org_Namespace", unknown, "x_y__ConfigMap", None);
    }
}
