//! The schemas of a document: those that its paths reach.

use super::META;
use crate::registry::{Resource, SchemaSource};
use equate_manifest::schema::{Schema, kubernetes, kubernetes_descriptions, kubernetes_resources};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

const REFERENCE: &str = "#/components/schemas/";
const OF_EACH_GROUP: [&str; 2] = ["DeleteOptions", "WatchEvent"];

/// The built-in schemas that documents share: each is published once.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    by_name: HashMap<String, Rc<Published>>,
}

#[derive(Debug)]
pub(super) struct Published {
    pub(super) json: Box<RawValue>,
    references: Vec<String>,
}

impl Published {
    fn new(schema: &Value) -> Option<Rc<Published>> {
        let mut found = Vec::new();
        references(schema, &mut found);
        let json = to_raw_value(schema).ok()?;
        Some(Rc::new(Published {
            json,
            references: found,
        }))
    }
}

pub(super) fn builtin_name(resource: &Resource) -> Option<&str> {
    match &resource.schema {
        SchemaSource::Builtin(name) => Some(name),
        SchemaSource::Custom(_) => None,
    }
}

/// The name of a resource's schema. A custom one's is its reversed group, its version and its kind.
pub(super) fn definition_name(resource: &Resource) -> String {
    match builtin_name(resource) {
        Some(name) => name.to_owned(),
        None => format!("{}.{}", custom_prefix(resource), resource.kind),
    }
}

pub(super) fn list_definition_name(resource: &Resource) -> String {
    match builtin_name(resource) {
        Some(name) => format!("{name}List"),
        None => format!("{}.{}", custom_prefix(resource), resource.list_kind),
    }
}

fn custom_prefix(resource: &Resource) -> String {
    let mut parts: Vec<&str> = resource.group.split('.').collect();
    parts.reverse();
    format!("{}.{}", parts.join("."), resource.version)
}

pub(super) fn definition_of_kind(parent: &Resource, group: &str, version: &str, kind: &str) -> String {
    if kind == parent.kind && group == parent.group && version == parent.version {
        return definition_name(parent);
    }
    // Bodies of other kinds are built in: take a built-in resource of their group and version.
    let beside = kubernetes_resources()
        .iter()
        .find(|resource| resource.group == group && resource.version == version);
    let package = beside.and_then(|resource| resource.definition.rsplit_once('.'));
    package.map_or_else(|| kind.to_owned(), |(package, _)| format!("{package}.{kind}"))
}

pub(super) fn reachable(
    paths: &Map<String, Value>,
    used: &[&Arc<Resource>],
    group_version: Option<(&str, &str)>,
    shared: &mut Shared,
) -> BTreeMap<String, Rc<Published>> {
    let mut wanted = Vec::new();
    for path in paths.values() {
        references(path, &mut wanted);
    }
    // A watch answers with a stream of events, which its operation cannot describe.
    let watched = |resource: &&Arc<Resource>| {
        builtin_name(resource).is_some() && resource.verbs.iter().any(|verb| verb == "watch")
    };
    if used.iter().any(watched) {
        wanted.push(format!("{META}WatchEvent"));
    }
    let mut schemas = BTreeMap::new();
    while let Some(name) = wanted.pop() {
        if schemas.contains_key(&name) {
            continue;
        }
        let schema = match OF_EACH_GROUP.contains(&name.strip_prefix(META).unwrap_or_default()) {
            true => of_group(&name, group_version),
            false => shared
                .get(&name)
                .or_else(|| Published::new(&custom(&name, used)?)),
        };
        if let Some(schema) = schema {
            wanted.extend(schema.references.iter().cloned());
            schemas.insert(name, schema);
        }
    }
    schemas
}

impl Shared {
    fn get(&mut self, name: &str) -> Option<Rc<Published>> {
        if let Some(published) = self.by_name.get(name) {
            return Some(Rc::clone(published));
        }
        let published = Published::new(&publish(kubernetes().get(name)?, Some(name)))?;
        self.by_name.insert(name.to_owned(), Rc::clone(&published));
        Some(published)
    }
}

fn of_group(name: &str, group_version: Option<(&str, &str)>) -> Option<Rc<Published>> {
    let mut schema = publish(kubernetes().get(name)?, Some(name));
    if let Some((group, version)) = group_version
        && let Some(Value::Array(kinds)) = schema.get_mut("x-kubernetes-group-version-kind")
    {
        let kind = &name[META.len()..];
        kinds.push(json!({"group": group, "version": version, "kind": kind}));
    }
    Published::new(&schema)
}

fn custom(name: &str, used: &[&Arc<Resource>]) -> Option<Value> {
    used.iter().find_map(|resource| {
        let SchemaSource::Custom(custom) = &resource.schema else {
            return None;
        };
        if definition_name(resource) == name {
            return Some(publish(custom.schema(), None));
        }
        (list_definition_name(resource) == name).then(|| list(resource))
    })
}

fn list(resource: &Resource) -> Value {
    let reference = |name: String| json!({ "$ref": format!("{REFERENCE}{name}") });
    json!({
        "type": "object",
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": reference(definition_name(resource))},
            "kind": {"type": "string"},
            "metadata": reference(format!("{META}ListMeta")),
        },
        "x-kubernetes-group-version-kind": [{
            "group": resource.group, "version": resource.version, "kind": resource.list_kind,
        }],
    })
}

/// A schema as upstream publishes it: without our own extensions, a reference with siblings under `allOf`.
fn publish(schema: &Schema, builtin: Option<&str>) -> Value {
    let mut value = serde_json::to_value(schema).unwrap_or_default();
    for (property, text) in builtin.map(kubernetes_descriptions).into_iter().flatten() {
        let node = match property.as_str() {
            "" => Some(&mut value),
            property => value.get_mut("properties").and_then(|all| all.get_mut(property)),
        };
        if let Some(Value::Object(node)) = node {
            node.insert("description".to_owned(), text.into());
        }
    }
    publish_node(&mut value);
    value
}

fn publish_node(node: &mut Value) {
    let Value::Object(node) = node else { return };
    for mark in ["x-omit", "x-zero", "x-go", "x-inline", "x-pb", "x-pointer"] {
        node.remove(mark);
    }
    if let Some(Value::String(name)) = node.remove("$ref") {
        let reference = json!({ "$ref": format!("{REFERENCE}{name}") });
        if node.is_empty() {
            *node = Map::from_iter([("$ref".to_owned(), reference["$ref"].clone())]);
        } else {
            node.insert("allOf".to_owned(), json!([reference]));
        }
        return;
    }
    // Clients that do not know the extension understand the choice.
    let chooses =
        node.contains_key("anyOf") || node.get("allOf").is_some_and(|all| !all[0]["anyOf"].is_null());
    if node.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) && !chooses {
        node.insert(
            "anyOf".to_owned(),
            json!([{"type": "integer"}, {"type": "string"}]),
        );
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.values_mut().for_each(publish_node);
    }
    for key in ["items", "additionalProperties", "not"] {
        if let Some(child) = node.get_mut(key) {
            publish_node(child);
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(children)) = node.get_mut(key) {
            children.iter_mut().for_each(publish_node);
        }
    }
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get("$ref")
                && let Some(name) = target.strip_prefix(REFERENCE)
            {
                found.push(name.to_owned());
            }
            map.values().for_each(|child| references(child, found));
        }
        Value::Array(items) => items.iter().for_each(|child| references(child, found)),
        _ => {}
    }
}
