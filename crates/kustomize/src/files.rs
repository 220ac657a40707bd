//! File names for `kustomize build -o DIRECTORY`: one file per object.

use crate::Resource;
use crate::resource::{self, CLUSTER};
use crate::schema::Schema;
use std::collections::HashSet;

/// The file name of each object, in order: `group_version_kind_name.yaml`, prefixed by the namespace if there
/// is more than one. Names that differ only in case are disambiguated.
pub fn file_names(objects: &[Resource]) -> Vec<String> {
    let schema = Schema::built_in();
    let namespaces: Vec<String> = objects
        .iter()
        .map(|object| {
            let resource = resource::Resource::new(object.object.0.clone(), object.origin.clone());
            resource.effective_namespace(schema).to_owned()
        })
        .collect();
    let distinct: HashSet<&str> = namespaces.iter().map(String::as_str).collect();
    let several = distinct.iter().filter(|namespace| **namespace != CLUSTER).count() > 1;
    objects
        .iter()
        .zip(&namespaces)
        .map(|(object, namespace)| {
            let object = &object.object;
            let (group, version) = match object.api_version().split_once('/') {
                Some((group, version)) => (group, version),
                None => ("", object.api_version()),
            };
            let parts = [group, version, object.kind()];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            let name = format!("{}_{}.yaml", parts.join("_"), object.name()).to_lowercase();
            match several && namespace != CLUSTER {
                true => format!("{}_{name}", namespace.to_lowercase()),
                false => name,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;
    use equate_manifest::object::Object;
    use serde_json::json;

    fn check(objects: &[(&str, &str, &str, &str)], expected: &[&str]) {
        let objects: Vec<Resource> = objects
            .iter()
            .map(|(api_version, kind, name, namespace)| {
                let mut value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
                if !namespace.is_empty() {
                    value["metadata"]["namespace"] = (*namespace).into();
                }
                Resource {
                    object: Object::from_value(value).unwrap(),
                    origin: Origin::default(),
                }
            })
            .collect();
        assert_eq!(file_names(&objects), expected);
    }

    #[test]
    fn file_names_equal_kustomize() {
        check(
            &[
                ("v1", "Namespace", "web", ""),
                ("apps/v1", "Deployment", "Web", "web"),
                ("example.org/v1", "Thing", "x", "web"),
            ],
            &[
                "v1_namespace_web.yaml",
                "apps_v1_deployment_web.yaml",
                "example.org_v1_thing_x.yaml",
            ],
        );
        check(
            &[
                ("v1", "Namespace", "web", ""),
                ("v1", "ConfigMap", "c", ""),
                ("v1", "ConfigMap", "c", "web"),
            ],
            &[
                "v1_namespace_web.yaml",
                "default_v1_configmap_c.yaml",
                "web_v1_configmap_c.yaml",
            ],
        );
    }
}
