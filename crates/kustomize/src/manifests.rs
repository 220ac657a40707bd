//! Resources from text: documents, `List` expansion, what a manifest must have.

use crate::Origin;
use crate::error::{BuildError, Fault, Place};
use crate::loader::at;
use crate::resource::{Former, Resource};
use crate::spelling::{self, Spelling};
use equate_manifest::json::type_name;
use equate_manifest::yaml::{Dialect, Folded, Options};
use serde_json::{Map, Value};
use std::collections::VecDeque;

/// Where upstream keeps a resource's history during a build, and where its own output may be read from.
const INTERNAL: &str = "internal.config.kubernetes.io/";

/// Reads all resources of a text. `path` is the file they stand in.
///
/// `kind: XxxList` with `items` is replaced by its items, which come after
/// everything else of the text.
pub(crate) fn parse(text: &str, path: &str) -> Result<Vec<Resource>, BuildError> {
    let options = Options {
        dialect: Dialect::Yaml12,
        // annotations are set anew when upstream takes its own out of them
        folded: Folded::Rewritten {
            but_in: &["metadata", "annotations"],
        },
        ..Options::default()
    };
    let documents = spelling::load(text, path, &options)?;
    let mut queue = VecDeque::with_capacity(documents.len());
    for (document, spelling) in documents {
        let place = Place {
            path: path.to_owned(),
            line: document.place.line,
            column: document.place.column,
        };
        if let Some(object) = manifest(document.value, &place)? {
            queue.push_back((object, place, spelling));
        }
    }
    let mut resources = Vec::with_capacity(queue.len());
    while let Some((mut object, place, spelling)) = queue.pop_front() {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        if !kind.ends_with("List") || !object.contains_key("items") {
            let Place { line, column, .. } = place;
            let mut resource = Resource::new(
                object,
                Origin {
                    path: place.path,
                    line,
                },
            );
            resource.column = column;
            resource.history = history(&resource);
            resource.spelling = spelling;
            resources.push(resource);
            continue;
        }
        match object.remove("items") {
            Some(Value::Array(items)) => {
                for item in items {
                    if let Some(item) = manifest(item, &place)? {
                        queue.push_back((item, place.clone(), Spelling::default()));
                    }
                }
            }
            None | Some(Value::Null) => {}
            Some(other) => {
                let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
                return Err(at(place)(Fault::ListItems {
                    kind: kind.to_owned(),
                    found: type_name(&other),
                }));
            }
        }
    }
    Ok(resources)
}

/// What upstream's own annotations say a resource was called.
fn history(resource: &Resource) -> Vec<Former> {
    let Some(annotations) = resource.texts("annotations") else {
        return Vec::new();
    };
    let list = |field: &str| -> Vec<&str> {
        let text = annotations
            .get(&format!("{INTERNAL}{field}"))
            .and_then(Value::as_str);
        text.map(|text| text.split(',').collect()).unwrap_or_default()
    };
    if !annotations.keys().any(|key| key.starts_with(INTERNAL)) {
        return Vec::new();
    }
    let (names, kinds, namespaces) = (
        list("previousNames"),
        list("previousKinds"),
        list("previousNamespaces"),
    );
    names
        .into_iter()
        .zip(kinds)
        .zip(namespaces)
        .map(|((name, kind), namespace)| Former {
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        })
        .collect()
}

/// A document that is a manifest; `None` if it is empty.
fn manifest(value: Value, place: &Place) -> Result<Option<Map<String, Value>>, BuildError> {
    let object = match value {
        Value::Null => return Ok(None),
        Value::Object(object) if object.is_empty() => return Ok(None),
        Value::Object(object) => object,
        other => {
            return Err(at(place.clone())(Fault::NotMap {
                found: type_name(&other),
            }));
        }
    };
    check(&object).map_err(at(place.clone()))?;
    Ok(Some(object))
}

fn check(object: &Map<String, Value>) -> Result<(), Fault> {
    let text = |map: &Map<String, Value>, key: &str, field: &'static str| match map.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other @ (Value::Array(_) | Value::Object(_))) => Err(Fault::FieldType {
            field,
            wanted: "string",
            found: type_name(other),
        }),
        Some(other) => Ok(other.to_string()),
    };
    let api_version = text(object, "apiVersion", "apiVersion")?;
    let kind = text(object, "kind", "kind")?;
    let name = match object.get("metadata") {
        None | Some(Value::Null) => String::new(),
        Some(Value::Object(metadata)) => {
            for (field, shown) in [
                ("labels", "metadata.labels"),
                ("annotations", "metadata.annotations"),
            ] {
                if let Some(other) = metadata
                    .get(field)
                    .filter(|value| !value.is_object() && !value.is_null())
                {
                    return Err(Fault::FieldType {
                        field: shown,
                        wanted: "map",
                        found: type_name(other),
                    });
                }
            }
            text(metadata, "namespace", "metadata.namespace")?;
            text(metadata, "name", "metadata.name")?
        }
        Some(other) => {
            return Err(Fault::FieldType {
                field: "metadata",
                wanted: "map",
                found: type_name(other),
            });
        }
    };
    if kind.is_empty() {
        return Err(Fault::NoMetadata);
    }
    if name.is_empty() && !kind.ends_with("List") {
        return Err(Fault::NoName { api_version, kind });
    }
    Ok(())
}
