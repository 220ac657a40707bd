//! `crds`: OpenAPI definitions whose extensions tell transformers of more fields.

use crate::error::BuildError;
use crate::kustomization::{Configuration, FieldSpecField, ReferenceField};
use equate_manifest::yaml::{self, Options};
use serde_json::{Map, Value};

const ANNOTATION: &str = "x-kubernetes-annotation";
const LABEL_SELECTOR: &str = "x-kubernetes-label-selector";
const IDENTITY: &str = "x-kubernetes-identity";
const VERSION: &str = "x-kubernetes-object-ref-api-version";
const KIND: &str = "x-kubernetes-object-ref-kind";
const NAME_KEY: &str = "x-kubernetes-object-ref-name-key";

/// The deepest definition.
const DEPTH_MAX: usize = 64;

/// What a file of definitions says.
pub(crate) fn configuration(text: &str, path: &str) -> Result<Configuration, BuildError> {
    let documents = yaml::load(text, &Options::default()).map_err(|error| BuildError::yaml(path, error))?;
    let value = documents
        .into_iter()
        .next()
        .map_or(Value::Null, |document| document.value);
    let mut configuration = Configuration::default();
    let Value::Object(definitions) = value else {
        return Ok(configuration);
    };
    for (name, definition) in &definitions {
        let schema = definition.get("Schema").unwrap_or(definition);
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            continue;
        };
        if !properties.contains_key("kind")
            || !properties.contains_key("metadata")
            || !properties.contains_key("apiVersion")
        {
            continue;
        }
        let kind = name.rsplit('.').next().unwrap_or(name);
        let mut reader = Reader {
            definitions: &definitions,
            kind,
            found: &mut configuration,
        };
        reader.properties(properties, &mut Vec::new());
    }
    Ok(configuration)
}

struct Reader<'d> {
    definitions: &'d Map<String, Value>,
    kind: &'d str,
    found: &'d mut Configuration,
}

impl Reader<'_> {
    fn properties(&mut self, properties: &Map<String, Value>, path: &mut Vec<String>) {
        if path.len() > DEPTH_MAX {
            return;
        }
        for (name, property) in properties {
            path.push(name.clone());
            self.property(property, path);
            let reference = property
                .get("$ref")
                .or_else(|| property.get("items").and_then(|items| items.get("$ref")))
                .and_then(Value::as_str);
            let inner = match reference {
                Some(reference) => {
                    let name = reference.strip_prefix("#/definitions/").unwrap_or(reference);
                    self.definitions
                        .get(name)
                        .map(|definition| definition.get("Schema").unwrap_or(definition))
                }
                None => Some(property),
            };
            if let Some(inner) = inner
                .and_then(|inner| inner.get("properties"))
                .and_then(Value::as_object)
            {
                let inner = inner.clone();
                self.properties(&inner, path);
            }
            path.pop();
        }
    }

    fn property(&mut self, property: &Value, path: &[String]) {
        let spec = |path: &[String], create: bool| FieldSpecField {
            kind: self.kind.to_owned(),
            path: path.join("/"),
            create,
            ..FieldSpecField::default()
        };
        if property.get(ANNOTATION).is_some() {
            self.found.common_annotations.push(spec(path, false));
        }
        if property.get(LABEL_SELECTOR).is_some() {
            self.found.common_labels.push(spec(path, false));
        }
        if property.get(IDENTITY).is_some() {
            self.found.name_prefix.push(spec(path, false));
        }
        let text = |field: &str| property.get(field).and_then(Value::as_str);
        if let (Some(version), Some(kind)) = (text(VERSION), text(KIND)) {
            let mut path = path.to_vec();
            path.push(text(NAME_KEY).unwrap_or("name").to_owned());
            let field = spec(&path, false);
            self.found.name_reference.push(ReferenceField {
                group: String::new(),
                version: version.to_owned(),
                kind: kind.to_owned(),
                field_specs: vec![field],
            });
        }
    }
}
