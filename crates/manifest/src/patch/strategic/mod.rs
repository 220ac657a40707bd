//! Strategic merge patch.
//!
//! A merge patch whose list handling follows the schema: a list with patch strategy `merge` is merged item by
//! item (by `patch-merge-key`, or as a set of scalars); any other is replaced. Directives override that:
//! `$patch: replace|delete` in a map or list item, `$deleteFromPrimitiveList/f`, `$setElementOrder/f`,
//! `$retainKeys`. The rules are those of `k8s.io/apimachinery` 0.36 `pkg/util/strategicpatch`, quirks
//! included: a new item of a merging list is taken verbatim, directives and all.
//!
//! Custom resources have no patch strategies; the API server refuses this content type for them earlier.

mod error;
mod lists;

#[cfg(test)]
mod tests;

pub use error::{Fault, StrategicError};

use crate::json::type_name;
use crate::schema::{Additional, Schema, SchemaType};
use lists::{Identity, arrange, check_order, delete, find, items_are_maps, same_type};
use serde_json::{Map, Value};

const MARKER: &str = "$patch";
const DELETE: &str = "delete";
const REPLACE: &str = "replace";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// Applies `patch` to `original`, an object of the schema `root`.
///
/// `resolve` finds a definition by its full name.
pub fn apply<'s>(
    original: Value,
    patch: &Value,
    root: &'s Schema,
    resolve: impl Fn(&str) -> Option<&'s Schema>,
) -> Result<Value, StrategicError> {
    let Value::Object(patch) = patch else {
        return Err(StrategicError::NotAnObject {
            found: type_name(patch),
        });
    };
    let original = match original {
        Value::Object(map) => map,
        Value::Null => Map::new(),
        other => {
            return Err(StrategicError::NotAnObject {
                found: type_name(&other),
            });
        }
    };
    let merger = Merger { resolve: &resolve };
    let root = merger.node(root)?;
    Ok(Value::Object(merger.map(original, patch.clone(), root)?))
}

struct Merger<'f, 's> {
    resolve: &'f dyn Fn(&str) -> Option<&'s Schema>,
}

#[derive(Clone, Copy)]
struct Node<'s> {
    schema: &'s Schema,
    name: &'s str,
}

struct Field<'s> {
    node: Node<'s>,
    merges: bool,
    replaces: bool,
    key: &'s str,
}

impl<'s> Merger<'_, 's> {
    fn node(&self, schema: &'s Schema) -> Result<Node<'s>, StrategicError> {
        let mut node = Node {
            schema,
            name: schema
                .group_version_kinds
                .first()
                .map_or("Object", |kind| kind.kind.as_str()),
        };
        loop {
            let schema = node.schema;
            let reference = match (&schema.reference, schema.all_of.first()) {
                (Some(reference), _) => reference,
                (
                    None,
                    Some(Schema {
                        reference: Some(reference),
                        ..
                    }),
                ) => reference,
                _ => return Ok(node),
            };
            let full = reference.rsplit('/').next().unwrap_or(reference);
            node = Node {
                schema: (self.resolve)(full).ok_or_else(|| StrategicError::Reference {
                    reference: reference.clone(),
                })?,
                name: full.rsplit('.').next().unwrap_or(full),
            };
        }
    }

    fn field(&self, node: Node<'s>, name: &str, list: bool) -> Result<Field<'s>, StrategicError> {
        let Some(property) = node.schema.properties.get(name) else {
            let found = match node.schema.kind {
                _ if matches!(
                    node.schema.additional_properties,
                    Some(Additional::Schema(_) | Additional::Allowed(true))
                ) =>
                {
                    "map"
                }
                Some(SchemaType::Array) => "slice",
                Some(SchemaType::String) => "string",
                _ => {
                    return Err(StrategicError::UnknownField {
                        structure: node.name.to_owned(),
                        field: name.to_owned(),
                    });
                }
            };
            return Err(StrategicError::NotAStruct { found });
        };
        let mut field = Field {
            node: self.node(property)?,
            merges: false,
            replaces: false,
            key: property.patch_merge_key.as_deref().unwrap_or(""),
        };
        let strategies: Vec<&str> = property
            .patch_strategy
            .as_deref()
            .unwrap_or("")
            .split(',')
            .collect();
        let strategy = match strategies[..] {
            ["retainKeys"] => "",
            [only] => only,
            ["retainKeys", other] | [other, "retainKeys"] => other,
            _ => {
                return Err(StrategicError::Strategy {
                    strategies: strategies.join(" "),
                });
            }
        };
        field.merges = strategy == "merge";
        field.replaces = strategy == REPLACE;
        if list {
            let items = field
                .node
                .schema
                .items
                .as_deref()
                .ok_or(StrategicError::NotAList)?;
            field.node = self.node(items)?;
        }
        Ok(field)
    }

    fn map(
        &self,
        mut original: Map<String, Value>,
        mut patch: Map<String, Value>,
        node: Node<'s>,
    ) -> Result<Map<String, Value>, StrategicError> {
        if let Some(directive) = patch.get(MARKER) {
            return match directive.as_str() {
                Some(REPLACE) => {
                    patch.remove(MARKER);
                    Ok(patch)
                }
                Some(DELETE) => Ok(Map::new()),
                _ => Err(unknown_directive(directive, &patch)),
            };
        }
        retain_keys(&mut original, &mut patch)?;
        self.ordered_lists(&mut original, &mut patch, node)?;
        for (key, value) in patch {
            match key.strip_prefix(DELETE_FROM) {
                Some(rest) => {
                    let name = rest.strip_prefix('/').ok_or(StrategicError::PrimitiveList)?;
                    self.delete_from(&mut original, name, value, node)?;
                }
                None => self.entry(&mut original, key, value, node)?,
            }
        }
        Ok(original)
    }

    /// Applies one entry of a patch that is not a directive.
    fn entry(
        &self,
        original: &mut Map<String, Value>,
        key: String,
        value: Value,
        node: Node<'s>,
    ) -> Result<(), StrategicError> {
        let merged = match (original.remove(&key), value) {
            (_, Value::Null) => return Ok(()),
            (Some(Value::Object(current)), Value::Object(patch)) => {
                let field = self.field(node, &key, false)?;
                if field.replaces {
                    patch
                } else {
                    self.map(current, patch, field.node)?
                }
                .into()
            }
            (Some(Value::Array(current)), Value::Array(patch)) => {
                let field = self.field(node, &key, true)?;
                self.list(current, patch, &field, false)?.into()
            }
            (Some(current), mut value) if same_type(&current, &value) => {
                strip_directives(&mut value);
                value
            }
            (_, mut value) => {
                discard_nulls(&mut value);
                if !strip_directives(&mut value) {
                    return Ok(());
                }
                value
            }
        };
        original.insert(key, merged);
        Ok(())
    }

    fn delete_from(
        &self,
        original: &mut Map<String, Value>,
        name: &str,
        value: Value,
        node: Node<'s>,
    ) -> Result<(), StrategicError> {
        match (original.get_mut(name), value) {
            (Some(_), Value::Null) => {
                original.remove(name);
            }
            (Some(Value::Array(current)), Value::Array(doomed)) => {
                let field = self.field(node, name, true)?;
                *current = self.list(std::mem::take(current), doomed, &field, true)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn list(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        field: &Field<'s>,
        deletes: bool,
    ) -> Result<Vec<Value>, StrategicError> {
        if !field.merges && !deletes {
            return Ok(patch);
        }
        if original.is_empty() && patch.is_empty() {
            return Ok(original);
        }
        let maps = items_are_maps(&[&original, &patch])?;
        if !maps {
            if deletes {
                return Ok(original
                    .into_iter()
                    .filter(|item| !patch.contains(item))
                    .collect());
            }
            let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
            for item in original.iter().chain(&patch) {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
            return arrange(merged, &patch, &original, Identity { key: field.key, maps });
        }
        if field.key.is_empty() {
            return Err(StrategicError::NoDeclaredKey);
        }
        let (original, patch) = split_special(original, patch, field.key)?;
        let mut merged = original.clone();
        for item in &patch {
            let Some(value) = item.get(field.key) else {
                return Err(StrategicError::no_merge_key(item, field.key));
            };
            match find(&merged, field.key, value)? {
                Some(index) => {
                    if let (Value::Object(current), Value::Object(fields)) = (merged[index].take(), item) {
                        merged[index] = self.map(current, fields.clone(), field.node)?.into();
                    }
                }
                None => merged.push(item.clone()),
            }
        }
        arrange(merged, &patch, &original, Identity { key: field.key, maps })
    }

    /// Merges and orders every list that has a `$setElementOrder`; removes both from the patch.
    fn ordered_lists(
        &self,
        original: &mut Map<String, Value>,
        patch: &mut Map<String, Value>,
        node: Node<'s>,
    ) -> Result<(), StrategicError> {
        let directives: Vec<String> = patch
            .keys()
            .filter(|key| key.starts_with(ELEMENT_ORDER))
            .cloned()
            .collect();
        for directive in directives {
            let order = match patch.remove(&directive) {
                Some(Value::Array(order)) => order,
                Some(other) => return Err(StrategicError::expected_list(&other)),
                None => continue,
            };
            let name = directive[ELEMENT_ORDER.len()..]
                .strip_prefix('/')
                .ok_or(StrategicError::ElementOrder)?;
            let as_list = |value: Option<&Value>| match value {
                None => Ok(None),
                Some(Value::Array(items)) => Ok(Some(items.clone())),
                Some(other) => Err(StrategicError::expected_list(other)),
            };
            let server = as_list(original.get(name))?;
            let items = as_list(patch.get(name))?;
            let field = self.field(node, name, true)?;
            check_order(items.as_deref().unwrap_or_default(), &order, field.key)?;
            let merged = match (&server, &items) {
                (None, None) => continue,
                (Some(server), None) => server.clone(),
                (None, Some(items)) => {
                    let mut items = Value::Array(items.clone());
                    strip_directives(&mut items);
                    match items {
                        Value::Array(items) => items,
                        _ => continue,
                    }
                }
                (Some(server), Some(items)) => self.list(server.clone(), items.clone(), &field, false)?,
            };
            let (server, items) = (server.unwrap_or_default(), items.unwrap_or_default());
            let maps = items_are_maps(&[&server, &items])?;
            let server = if maps {
                places(server, &items, field.key)?
            } else {
                server
            };
            let merged = arrange(merged, &order, &server, Identity { key: field.key, maps })?;
            original.insert(name.to_owned(), Value::Array(merged));
            patch.remove(name);
        }
        Ok(())
    }
}

fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> StrategicError {
    StrategicError::Directive {
        directive: error::display(directive),
        map: error::display(&Value::Object(map.clone())),
    }
}

/// `$retainKeys`: drops keys that the patch does not list; the patch may only set listed keys.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), StrategicError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(keys) = directive else {
        return Err(StrategicError::RetainKeys);
    };
    let retained = |key: &str| keys.iter().any(|entry| entry == key);
    for (key, value) in &*patch {
        if !value.is_null()
            && !key.starts_with(DELETE_FROM)
            && !key.starts_with(ELEMENT_ORDER)
            && !retained(key)
        {
            return Err(StrategicError::RetainKeys);
        }
    }
    original.retain(|key, _| retained(key));
    Ok(())
}

/// Applies the directives among a list patch's items and returns the rest of both lists.
fn split_special(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        let Some(directive) = item.get(MARKER) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some(DELETE) => {
                let value = item
                    .get(key)
                    .ok_or_else(|| StrategicError::no_merge_key(&item, key))?;
                delete(&mut original, key, value)?;
            }
            Some(REPLACE) => replace = true,
            Some("merge") => return Err(StrategicError::MergeDirective),
            _ => {
                return Err(StrategicError::Directive {
                    directive: error::display(directive),
                    map: error::display(&item),
                });
            }
        }
    }
    Ok(if replace {
        (plain, Vec::new())
    } else {
        (original, plain)
    })
}

/// The order of the stored list after the patch's deletions.
///
/// Upstream deletes and appends in one array, so new items take the places freed at its end: a replaced
/// container comes after the existing ones. Clients see this order.
fn places(server: Vec<Value>, items: &[Value], key: &str) -> Result<Vec<Value>, StrategicError> {
    let length = server.len();
    let mut remaining = server;
    for item in items
        .iter()
        .filter(|item| item.get(MARKER).is_some_and(|directive| directive == DELETE))
    {
        if let Some(value) = item.get(key) {
            delete(&mut remaining, key, value)?;
        }
    }
    for item in items.iter().filter(|item| item.get(MARKER).is_none()) {
        if remaining.len() == length {
            break;
        }
        if let Some(value) = item.get(key)
            && find(&remaining, key, value)?.is_none()
        {
            remaining.push(item.clone());
        }
    }
    Ok(remaining)
}

/// Removes null fields at every depth; null list items stay.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Removes every map with a `$patch` directive; false if the value itself is one.
fn strip_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(map) => {
            if map.contains_key(MARKER) {
                return false;
            }
            map.retain(|_, value| strip_directives(value));
        }
        Value::Array(items) => items.retain_mut(strip_directives),
        _ => {}
    }
    true
}
