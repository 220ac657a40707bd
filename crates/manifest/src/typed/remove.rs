//! Removes a set of fields from a value, or keeps only those.

use super::Type;
use super::item::element_of;
use super::schema::{AtomId, Form, List, Map, Schema};
use crate::fieldpath::{PathElement, Set};
use serde_json::Value;
use std::sync::Arc;

impl Type {
    /// Removes these fields. A map or list that becomes empty turns into null.
    pub fn remove(&self, value: &Value, fields: &Set) -> Value {
        Walk {
            schema: &self.schema,
            extract: false,
        }
        .value(self.root, value, fields)
    }

    /// Keeps only these fields; atomic values are kept whole.
    pub fn extract(&self, value: &Value, fields: &Set) -> Value {
        Walk {
            schema: &self.schema,
            extract: true,
        }
        .value(self.root, value, fields)
    }
}

struct Walk<'a> {
    schema: &'a Schema,
    extract: bool,
}

impl Walk<'_> {
    fn value(&self, atom: AtomId, value: &Value, fields: &Set) -> Value {
        match self.schema.atom(atom).form(Some(value)) {
            Form::Scalar(_) => value.clone(),
            Form::Map(map) => match value {
                Value::Object(entries) if entries.is_empty() || map.atomic => self.whole(value),
                Value::Object(entries) => self.map(map, entries, fields),
                _ => Value::Null,
            },
            Form::List(list) => match value {
                Value::Array(items) if items.is_empty() || !list.associative => self.whole(value),
                Value::Array(items) => self.list(list, items, fields),
                _ => Value::Null,
            },
            Form::None => Value::Null,
        }
    }

    fn whole(&self, value: &Value) -> Value {
        if self.extract { value.clone() } else { Value::Null }
    }

    fn map(&self, map: &Map, entries: &serde_json::Map<String, Value>, fields: &Set) -> Value {
        let mut out = serde_json::Map::new();
        for (name, value) in entries {
            let element = match map.field(name) {
                Some(field) => PathElement::Field(Arc::clone(&field.name)),
                None => PathElement::field(name),
            };
            let kept = if fields.has_member(&element) {
                // upstream extracts with the parent's set here, not with the element's subset
                self.extract.then(|| self.value(map.atom_of(name), value, fields))
            } else {
                match fields.child(&element) {
                    Some(below) => Some(self.value(map.atom_of(name), value, below)),
                    None => (!self.extract).then(|| value.clone()),
                }
            };
            if let Some(kept) = kept {
                out.insert(name.clone(), kept);
            }
        }
        if out.is_empty() {
            Value::Null
        } else {
            Value::Object(out)
        }
    }

    fn list(&self, list: &List, items: &[Value], fields: &Set) -> Value {
        let mut out = Vec::new();
        for item in items {
            // an item without a name is in no set
            let element = element_of(self.schema, list, item).ok();
            let exact = element.as_ref().is_some_and(|e| fields.has_member(e));
            let below = element.as_ref().and_then(|e| fields.child(e));
            let dropped = if self.extract {
                !exact && below.is_none()
            } else {
                exact
            };
            if dropped {
                continue;
            }
            out.push(match below {
                Some(below) => self.value(list.element, item, below),
                None => item.clone(),
            });
        }
        if out.is_empty() {
            Value::Null
        } else {
            Value::Array(out)
        }
    }
}
