//! `crds`: OpenAPI definitions whose extensions add field specifications.
//!
//! Follows kustomize: it reads the properties of a definition's `Schema`, follows a property's `$ref` to the
//! definition of exactly that name, and accepts extensions that are strings. kustomize does not terminate on
//! recursive definitions; here recursion stops. Definitions can still be reached in very many ways, so visits
//! are counted.

use crate::budget::Budget;
use crate::error::{BuildError, Exhausted, Fault, Place};
use crate::kustomization::{Configuration, FieldSpecField, ReferenceField};
use crate::loader::{Loader, at};
use equate_manifest::yaml::Options;
use serde_json::{Map, Value};

const ANNOTATION: &str = "x-kubernetes-annotation";
const LABEL_SELECTOR: &str = "x-kubernetes-label-selector";
const IDENTITY: &str = "x-kubernetes-identity";
const VERSION: &str = "x-kubernetes-object-ref-api-version";
const KIND: &str = "x-kubernetes-object-ref-kind";
const NAME_KEY: &str = "x-kubernetes-object-ref-name-key";

const DEPTH_MAX: usize = 64;
/// The steps to look at one property.
const PROPERTY_STEPS: usize = 20;

pub(crate) fn configuration(
    text: &str,
    path: &str,
    loader: &Loader<'_>,
) -> Result<Configuration, BuildError> {
    let documents = loader.budget.load(text, &Options::default());
    let documents = documents.map_err(|error| BuildError::yaml(path, error))?;
    let value = documents
        .into_iter()
        .next()
        .map_or(Value::Null, |document| document.value);
    read(&value, loader.limits.crd_properties_max, &loader.budget).map_err(at(Place::file(path)))
}

fn read(value: &Value, properties_max: usize, budget: &Budget) -> Result<Configuration, Fault> {
    let none = Map::new();
    let definitions = map_or_nothing(value)?.unwrap_or(&none);
    let mut found = Configuration::default();
    let mut left = properties_max;
    for definition in definitions.values() {
        for property in properties_of(definition)?.into_iter().flat_map(Map::values) {
            map_or_nothing(property)?;
        }
    }
    for (name, definition) in definitions {
        let Some(properties) = properties_of(definition)? else {
            continue;
        };
        if !["kind", "metadata", "apiVersion"]
            .iter()
            .all(|field| properties.contains_key(*field))
        {
            continue;
        }
        let mut reader = Reader {
            definitions,
            kind: name.rsplit('.').next().unwrap_or(name),
            left: &mut left,
            limit: properties_max,
            budget,
            within: vec![name],
            found: &mut found,
        };
        reader.properties(properties, &mut Vec::new())?;
    }
    Ok(found)
}

fn map_or_nothing(value: &Value) -> Result<Option<&Map<String, Value>>, Fault> {
    match value {
        Value::Object(map) => Ok(Some(map)),
        Value::Null => Ok(None),
        other => Err(Fault::Definitions {
            found: crate::error::node_kind(other),
        }),
    }
}

fn properties_of(definition: &Value) -> Result<Option<&Map<String, Value>>, Fault> {
    let fields = map_or_nothing(definition)?.into_iter().flatten();
    // the one name kustomize reads case-insensitively
    let mut schemas = fields.filter(|(field, _)| field.eq_ignore_ascii_case("schema"));
    let Some((_, schema)) = schemas.next() else {
        return Ok(None);
    };
    match map_or_nothing(schema)?.and_then(|schema| schema.get("properties")) {
        Some(properties) => map_or_nothing(properties),
        None => Ok(None),
    }
}

struct Reader<'d, 'r> {
    definitions: &'d Map<String, Value>,
    kind: &'d str,
    /// How many more properties may be visited.
    left: &'r mut usize,
    limit: usize,
    budget: &'r Budget,
    /// The definitions on the current path.
    within: Vec<&'d str>,
    found: &'r mut Configuration,
}

impl<'d> Reader<'d, '_> {
    fn properties(
        &mut self,
        properties: &'d Map<String, Value>,
        path: &mut Vec<&'d str>,
    ) -> Result<(), Fault> {
        for (name, property) in properties {
            self.budget.spend(PROPERTY_STEPS + self.within.len())?;
            *self.left = self.left.checked_sub(1).ok_or(Fault::Properties(self.limit))?;
            path.push(name);
            if let Some(property) = map_or_nothing(property)? {
                self.property(property, path)?;
                if let Some(reference) = property.get("$ref").and_then(Value::as_str) {
                    self.definition(reference, path)?;
                }
            }
            path.pop();
        }
        Ok(())
    }

    /// Follows a property's reference, unless it is recursive.
    fn definition(&mut self, name: &'d str, path: &mut Vec<&'d str>) -> Result<(), Fault> {
        if self.within.contains(&name) {
            return Ok(());
        }
        if self.within.len() >= DEPTH_MAX {
            return Err(Fault::DefinitionDepth(DEPTH_MAX));
        }
        let Some(definition) = self.definitions.get(name) else {
            return Ok(());
        };
        if let Some(properties) = properties_of(definition)? {
            self.within.push(name);
            self.properties(properties, path)?;
            self.within.pop();
        }
        Ok(())
    }

    fn property(&mut self, property: &Map<String, Value>, path: &[&str]) -> Result<(), Exhausted> {
        let text = |field: &str| property.get(field).and_then(Value::as_str);
        for (extension, list) in [
            (ANNOTATION, &mut self.found.common_annotations),
            (LABEL_SELECTOR, &mut self.found.common_labels),
            (IDENTITY, &mut self.found.name_prefix),
        ] {
            if text(extension).is_some() {
                list.push(field(self.kind, path.join("/"), self.budget)?);
            }
        }
        if let (Some(version), Some(kind)) = (text(VERSION), text(KIND)) {
            let path = format!("{}/{}", path.join("/"), text(NAME_KEY).unwrap_or("name"));
            self.budget.charge(version.len() + kind.len())?;
            self.found.name_reference.push(ReferenceField {
                group: String::new(),
                version: version.to_owned(),
                kind: kind.to_owned(),
                field_specs: vec![field(self.kind, path, self.budget)?],
            });
        }
        Ok(())
    }
}

fn field(kind: &str, path: String, budget: &Budget) -> Result<FieldSpecField, Exhausted> {
    budget.charge(kind.len() + path.len())?;
    Ok(FieldSpecField {
        kind: kind.to_owned(),
        path,
        create: false,
        ..FieldSpecField::default()
    })
}
