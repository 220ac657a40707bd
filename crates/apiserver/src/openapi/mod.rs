//! OpenAPI v3, one document per group and version, and v2, one document made from those.
//!
//! Pure functions of the list of resources; the caller caches the results until the list changes. A
//! document has only paths that are served: not upstream's deprecated `/watch/` paths, nor `exec`,
//! `attach`, `portforward` and `proxy`, nor content types other than JSON and YAML.

mod components;
mod paths;
#[cfg(test)]
mod tests;
mod v2;
mod v2_protobuf;

use crate::registry::{Resource, SchemaSource};
pub(crate) use components::Shared;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha512};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// The cache key for clients: the SHA-512 of a document's bytes in capital hexadecimal.
pub(crate) fn hash(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(128);
    for byte in Sha512::digest(bytes) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02X}");
    }
    text
}

/// The names of all documents: `api/v1`, `apis/apps/v1`, and those of `api`, `apis` and groups.
pub(crate) fn group_versions(resources: &[Arc<Resource>]) -> Vec<String> {
    let mut names: BTreeSet<String> = ["api", "apis", "version"].map(str::to_owned).into();
    for resource in resources {
        match resource.group.as_str() {
            "" => {
                names.insert(format!("api/{}", resource.version));
            }
            group => {
                // Groups of custom resources have no document of their own.
                if matches!(resource.schema, SchemaSource::Builtin(_)) {
                    names.insert(format!("apis/{group}"));
                }
                names.insert(format!("apis/{group}/{}", resource.version));
            }
        }
    }
    names.into_iter().collect()
}

pub(crate) fn index(documents: &[(String, String)]) -> Value {
    let paths: Map<String, Value> = documents
        .iter()
        .map(|(name, hash)| {
            let url = format!("/openapi/v3/{name}?hash={hash}");
            (name.clone(), json!({ "serverRelativeURL": url }))
        })
        .collect();
    json!({ "paths": paths })
}

/// The document of a name as in [`group_versions`], as JSON.
pub(crate) fn document(resources: &[Arc<Resource>], name: &str, shared: &mut Shared) -> Option<Vec<u8>> {
    let Parts { paths, schemas } = parts(resources, name, shared)?;
    let schemas = schemas.iter();
    let document = Document {
        components: Components {
            schemas: schemas.map(|(name, schema)| (&**name, &*schema.json)).collect(),
            security_schemes: json!({ "BearerToken": bearer_token() }),
        },
        info: json!({"title": "Kubernetes", "version": "1.36"}),
        openapi: "3.0.0",
        paths,
    };
    serde_json::to_vec(&document).ok()
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    components: Components<'a>,
    info: Value,
    openapi: &'static str,
    paths: Map<String, Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Components<'a> {
    schemas: BTreeMap<&'a str, &'a RawValue>,
    security_schemes: Value,
}

/// One document of OpenAPI v2 for all groups and versions, as JSON.
pub(crate) fn document_v2(resources: &[Arc<Resource>]) -> Option<Vec<u8>> {
    serde_json::to_vec(&value_v2(resources)?).ok()
}

/// The same in protobuf.
pub(crate) fn document_v2_protobuf(resources: &[Arc<Resource>]) -> Option<Vec<u8>> {
    Some(v2_protobuf::encode(&value_v2(resources)?))
}

fn value_v2(resources: &[Arc<Resource>]) -> Option<Value> {
    let mut all = v2::Document::default();
    let mut shared = Shared::default();
    for name in group_versions(resources) {
        all.add(parts(resources, &name, &mut shared)?);
    }
    Some(json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": all.paths,
        "definitions": all.definitions,
        "securityDefinitions": { "BearerToken": bearer_token() },
        "security": [{ "BearerToken": [] }],
    }))
}

fn bearer_token() -> Value {
    json!({
        "description": "Bearer Token authentication",
        "in": "header",
        "name": "authorization",
        "type": "apiKey",
    })
}

struct Parts {
    paths: Map<String, Value>,
    schemas: BTreeMap<String, Rc<components::Published>>,
}

fn parts(resources: &[Arc<Resource>], name: &str, shared: &mut Shared) -> Option<Parts> {
    let parts: Vec<&str> = name.split('/').collect();
    let (paths, used): (Map<String, Value>, Vec<&Arc<Resource>>) = match parts.as_slice() {
        ["version"] => {
            let definition = "io.k8s.apimachinery.pkg.version.Info";
            (
                paths::single("/version/", "getCodeVersion", "version", definition),
                Vec::new(),
            )
        }
        ["api"] => {
            let definition = format!("{META}APIVersions");
            (
                paths::single("/api/", "getCoreAPIVersions", "core", &definition),
                Vec::new(),
            )
        }
        ["apis"] => {
            let definition = format!("{META}APIGroupList");
            (
                paths::single("/apis/", "getAPIVersions", "apis", &definition),
                Vec::new(),
            )
        }
        ["apis", group] if group_versions(resources).iter().any(|served| served == name) => {
            let name = paths::group_name(group);
            let operation = format!("get{name}APIGroup");
            let definition = format!("{META}APIGroup");
            let path = format!("/apis/{group}/");
            (
                paths::single(&path, &operation, &paths::lower_first(&name), &definition),
                Vec::new(),
            )
        }
        ["api", version] => group_version(resources, "", version)?,
        ["apis", group, version] => group_version(resources, group, version)?,
        _ => return None,
    };
    let group_version = match parts.as_slice() {
        ["apis", group, version] => Some((*group, *version)),
        _ => None,
    };
    let schemas = components::reachable(&paths, &used, group_version, shared);
    Some(Parts { paths, schemas })
}

type GroupVersionPaths<'a> = (Map<String, Value>, Vec<&'a Arc<Resource>>);

fn group_version<'a>(
    resources: &'a [Arc<Resource>],
    group: &str,
    version: &str,
) -> Option<GroupVersionPaths<'a>> {
    let used: Vec<&Arc<Resource>> = resources
        .iter()
        .filter(|resource| resource.group == group && resource.version == version)
        .collect();
    let first = used.first()?;
    let mut paths = match first.schema {
        SchemaSource::Builtin(_) => paths::resource_list(first),
        SchemaSource::Custom(_) => Map::new(),
    };
    for resource in &used {
        paths::resource(resource, &mut paths);
    }
    Some((paths, used))
}
