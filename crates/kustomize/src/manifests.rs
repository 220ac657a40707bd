//! Parses resources from text: splits documents, expands lists, checks required fields.

use crate::Origin;
use crate::budget::Budget;
use crate::error::{BuildError, Fault, Place};
use crate::loader::at;
use crate::resource::{Former, Resource};
use crate::spelling::{self, Spelling};
use crate::workers::Workers;
use equate_manifest::json::type_name;
use equate_manifest::yaml::{self, Dialect, Document, Folded, Options, Part};
use serde_json::{Map, Value};
use std::collections::VecDeque;

/// The annotation prefix where kustomize keeps a resource's history during a build.
const INTERNAL: &str = "internal.config.kubernetes.io/";

const FROM_CHART: &str = "internal.config.kubernetes.io/helm-generated";

/// Long texts are parsed in parts of this size, so that the values of a part fit the processor's cache.
const PART_BYTES: usize = 16 << 10;
/// The steps to check one object.
const OBJECT_STEPS: usize = 50;

type Manifest = (Map<String, Value>, Place, Spelling);

pub(crate) fn parse(text: &str, path: &str, budget: &Budget) -> Result<Vec<Resource>, BuildError> {
    parse_by(Workers(1), text, path, budget)
}

/// [`parse`] on several threads.
///
/// `kind: XxxList` with `items` is replaced by its items, which come after all other documents.
pub(crate) fn parse_by(
    workers: Workers,
    text: &str,
    path: &str,
    budget: &Budget,
) -> Result<Vec<Resource>, BuildError> {
    let options = Options {
        dialect: Dialect::Yaml12,
        // kustomize rewrites annotations when it removes its own
        folded: Folded::Rewritten {
            but_in: &["metadata", "annotations"],
        },
        ..Options::default()
    };
    let mut queue = match in_parts(workers, text, path, &options, budget) {
        Some(manifests) => manifests,
        None => at_once(text, path, &options, budget)?,
    };
    let mut resources = Vec::with_capacity(queue.len());
    while let Some((mut object, place, spelling)) = queue.pop_front() {
        budget.owe(OBJECT_STEPS);
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
            resource.from_chart = is_from_chart(&resource);
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

fn at_once(
    text: &str,
    path: &str,
    options: &Options,
    budget: &Budget,
) -> Result<VecDeque<Manifest>, BuildError> {
    let documents = spelling::load(text, path, options, budget)?;
    let mut manifests = VecDeque::with_capacity(documents.len());
    for (document, spelling) in documents {
        let place = place(path, &document);
        if let Some(object) = manifest(document.value, &place)? {
            manifests.push_back((object, place, spelling));
        }
    }
    Ok(manifests)
}

/// Parses a long text part by part. Returns `None` for any error, any spelling that matters, and any syntax
/// beyond the fast path; the caller then parses it in one go.
fn in_parts(
    workers: Workers,
    text: &str,
    path: &str,
    options: &Options,
    budget: &Budget,
) -> Option<VecDeque<Manifest>> {
    if text.len() < 2 * PART_BYTES {
        return None;
    }
    let read = |part: &mut Part<'_>| {
        let (documents, nodes) = part.read(options, &mut budget.watch()).ok_or(())?;
        budget.hold_values(nodes);
        let count = documents.len();
        let mut manifests = Vec::with_capacity(count);
        for document in documents {
            if spelling::depends(&document.value) {
                return Err(());
            }
            let place = place(path, &document);
            if let Some(object) = manifest(document.value, &place).map_err(drop)? {
                manifests.push((object, place, Spelling::default()));
            }
        }
        Ok((manifests, count, nodes))
    };
    let read = workers.map_large(&mut yaml::parts(text, PART_BYTES), read);
    if read.failed.is_some() {
        return None;
    }
    let documents: usize = read.done.iter().map(|(_, documents, _)| documents).sum();
    let nodes: usize = read.done.iter().map(|(_, _, nodes)| nodes).sum();
    if documents > options.documents_max || nodes > options.nodes_max {
        return None;
    }
    let mut all = VecDeque::with_capacity(documents);
    read.done
        .into_iter()
        .for_each(|(manifests, _, _)| all.extend(manifests));
    Some(all)
}

fn place(path: &str, document: &Document) -> Place {
    Place {
        path: path.to_owned(),
        line: document.place.line,
        column: document.place.column,
    }
}

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

fn is_from_chart(resource: &Resource) -> bool {
    let annotation = || resource.texts("annotations")?.get(FROM_CHART)?.as_str();
    annotation() == Some("true")
}

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
