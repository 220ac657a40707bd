//! Definitions that `equate up` makes for kinds without one.
//!
//! An annotation marks them, so that commands can say that nothing validates or reconciles their objects.

use equate_api::meta::MADE_DEFINITION;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const SCHEMALESS: &str = "schemaless";
const CATALOGUE: &str = "catalogue";
/// The API server wants it on kinds of Kubernetes' own domains.
const APPROVAL: &str = "api-approved.kubernetes.io";

/// An API group and a kind.
pub(crate) type GroupKind = (String, String);

/// The kinds whose definitions have no schema.
pub(crate) async fn kinds(client: &Client) -> Result<BTreeSet<GroupKind>, kube::Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let all = api.list(&ListParams::default()).await?;
    let without = all.items.iter().filter(|definition| is_schemaless(definition));
    let kinds = without.map(|definition| {
        let spec = &definition.spec;
        (spec.group.clone(), spec.names.kind.clone())
    });
    Ok(kinds.collect())
}

/// Whether Equate made a definition.
pub(crate) fn is_made(definition: &CustomResourceDefinition) -> bool {
    let annotations = definition.metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(MADE_DEFINITION))
}

/// Whether Equate made it without a schema, and nobody gave it one since.
fn is_schemaless(definition: &CustomResourceDefinition) -> bool {
    let annotations = definition.metadata.annotations.as_ref();
    let origin = annotations.and_then(|annotations| annotations.get(MADE_DEFINITION));
    let has_schema = |schema: &Value| !schema["openAPIV3Schema"]["properties"].is_null();
    origin.is_some_and(|origin| origin == SCHEMALESS)
        && !definition.spec.versions.iter().any(|version| {
            let schema = serde_json::to_value(&version.schema).unwrap_or_default();
            has_schema(&schema)
        })
}

/// A definition to make: a schema for each version, where one is known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    pub(crate) versions: BTreeMap<String, Option<Value>>,
}

impl Definition {
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", plural(&self.kind), self.group)
    }

    /// The object; `storage` is the stored version of an existing definition.
    pub(crate) fn object(&self, storage: Option<&str>) -> Value {
        let plural = plural(&self.kind);
        let first = self.versions.keys().next().map(String::as_str);
        let storage = storage.or(first);
        let versions: Vec<Value> = self
            .versions
            .iter()
            .map(|(name, schema)| {
                let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
                json!({
                    "name": name,
                    "served": true,
                    "storage": Some(name.as_str()) == storage,
                    "schema": { "openAPIV3Schema": schema.clone().unwrap_or(open) },
                    "subresources": { "status": {} },
                })
            })
            .collect();
        let open = self.versions.values().any(Option::is_none);
        let mut annotations = json!({ MADE_DEFINITION: if open { SCHEMALESS } else { CATALOGUE } });
        if self.group.ends_with(".k8s.io") || self.group.ends_with(".kubernetes.io") {
            annotations[APPROVAL] = "unapproved, made by equate up".into();
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": self.name(), "annotations": annotations },
            "spec": {
                "group": self.group,
                "names": {
                    "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                    "plural": plural,
                    "singular": self.kind.to_lowercase(),
                },
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "versions": versions,
            },
        })
    }
}

/// The usual plural of a kind, in lower case.
fn plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| singular.ends_with(ending));
    if ends(&["s", "x", "z", "ch", "sh"]) {
        return format!("{singular}es");
    }
    match singular.strip_suffix('y') {
        Some(stem) if !ends(&["ay", "ey", "oy", "uy"]) => format!("{stem}ies"),
        _ => format!("{singular}s"),
    }
}

/// A JSON schema of a catalogue as a structural schema: without the fields that the catalogue adds.
pub(crate) fn structural(schema: &Value) -> Value {
    let mut root = subschema(schema);
    root["type"] = "object".into();
    if let Some(metadata) = root["properties"].get_mut("metadata") {
        *metadata = json!({ "type": "object" });
    }
    root
}

/// The fields of a schema whose value is not a schema.
const PLAIN: [&str; 21] = [
    "default",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "pattern",
    "required",
    "title",
    "type",
    "uniqueItems",
];

fn subschema(schema: &Value) -> Value {
    let mut made = json!({});
    for (field, value) in schema.as_object().into_iter().flatten() {
        match (field.as_str(), value) {
            ("type", Value::Array(types)) => {
                let is_null = |kind: &&Value| *kind == "null";
                made["type"] = types
                    .iter()
                    .find(|kind| !is_null(kind))
                    .cloned()
                    .unwrap_or_default();
                made["nullable"] = types.iter().any(|kind| is_null(&kind)).into();
            }
            ("format", value) if value == "int-or-string" => made["x-kubernetes-int-or-string"] = true.into(),
            ("properties", Value::Object(properties)) => {
                let each = properties.iter();
                made[field] = each
                    .map(|(name, schema)| (name.clone(), subschema(schema)))
                    .collect();
            }
            ("items" | "not", schema) => made[field] = subschema(schema),
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) if is_int_or_string(schemas) => {
                made["x-kubernetes-int-or-string"] = true.into();
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                made[field] = schemas.iter().map(subschema).collect();
            }
            // a structural schema has either this or properties
            ("additionalProperties", Value::Object(_)) if schema.get("properties").is_none() => {
                made[field] = subschema(value);
            }
            ("additionalProperties", Value::Bool(true)) if schema.get("properties").is_none() => {
                made["x-kubernetes-preserve-unknown-fields"] = true.into();
            }
            (plain, value) if PLAIN.contains(&plain) || plain.starts_with("x-kubernetes-") => {
                made[field] = value.clone();
            }
            _ => {}
        }
    }
    if made["x-kubernetes-int-or-string"] == true
        && let Some(fields) = made.as_object_mut()
    {
        fields.remove("type");
        fields.remove("format");
    }
    without_nulls(made)
}

/// Indexing a missing field of a value adds it as null.
fn without_nulls(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|field, value| !value.is_null() || field == "default");
    }
    value
}

fn is_int_or_string(schemas: &[Value]) -> bool {
    let mut types: Vec<&str> = schemas
        .iter()
        .filter_map(|schema| schema["type"].as_str())
        .collect();
    types.sort_unstable();
    let bare = schemas
        .iter()
        .all(|schema| schema.as_object().is_some_and(|fields| fields.len() == 1));
    bare && types == ["integer", "string"]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_those_of_controller_tools() {
        for (kind, expected) in [
            ("ExternalSecret", "externalsecrets"),
            ("ClusterPolicy", "clusterpolicies"),
            ("Gateway", "gateways"),
            ("Prometheus", "prometheuses"),
            ("ProxyClass", "proxyclasses"),
            ("BackupBox", "backupboxes"),
            ("Branch", "branches"),
        ] {
            assert_eq!(plural(kind), expected);
        }
    }

    #[test]
    fn each_version_is_served_and_one_is_stored() {
        let definition = Definition {
            group: "gateway.networking.k8s.io".into(),
            kind: "Gateway".into(),
            namespaced: true,
            versions: [
                ("v1".into(), None),
                ("v1beta1".into(), Some(json!({ "type": "object" }))),
            ]
            .into(),
        };
        let object = definition.object(Some("v1beta1"));
        let stored = |object: &Value| -> Vec<String> {
            let versions = object["spec"]["versions"].as_array().unwrap();
            let stored = versions.iter().filter(|version| version["storage"] == true);
            stored
                .map(|version| version["name"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(stored(&object), ["v1beta1"]);
        assert_eq!(stored(&definition.object(None)), ["v1"]);
        assert_eq!(object["metadata"]["name"], "gateways.gateway.networking.k8s.io");
        assert_eq!(object["metadata"]["annotations"][MADE_DEFINITION], SCHEMALESS);
        assert!(
            object["metadata"]["annotations"][APPROVAL]
                .as_str()
                .unwrap()
                .starts_with("unapproved")
        );
        assert_eq!(object["spec"]["scope"], "Namespaced");
        let definition: CustomResourceDefinition = serde_json::from_value(object).unwrap();
        assert!(is_made(&definition) && is_schemaless(&definition));
    }

    #[test]
    fn schemas_of_a_catalogue_become_structural() {
        let given = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "metadata": { "type": "object", "additionalProperties": false, "properties": { "name": {} } },
                "spec": {
                    "type": ["object", "null"],
                    "additionalProperties": false,
                    "properties": {
                        "port": { "oneOf": [{ "type": "string" }, { "type": "integer" }] },
                        "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                        "const": { "type": "string", "const": "a", "default": "a" },
                    },
                },
            },
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "metadata": { "type": "object" },
                "spec": {
                    "type": "object",
                    "nullable": true,
                    "properties": {
                        "port": { "x-kubernetes-int-or-string": true },
                        "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                        "const": { "type": "string", "default": "a" },
                    },
                },
            },
        });
        assert_eq!(structural(&given), expected);
    }
}
