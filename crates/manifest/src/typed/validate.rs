//! Validates a value against a type.

use super::error::{Faults, go_sharp_v, go_type, go_v, invalid_atom};
use super::item::element_of;
use super::schema::{AtomId, Form, List, Map, NO_TYPE, Scalar, Schema};
use super::{Errors, Type};
use crate::fieldpath::PathElement;
use serde_json::Value;
use std::collections::BTreeSet;

/// Whether two items of an associative list may have the same keys.
///
/// An applied configuration may not have them; stored objects may, because other requests accept them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// Duplicates are an error.
    Refuse,
    /// Duplicates are accepted.
    Allow,
}

impl Type {
    /// Checks that the value is of this type. Null is of every type.
    pub fn validate(&self, value: &Value, duplicates: Duplicates) -> Result<(), Errors> {
        let mut walk = Walk {
            schema: &self.schema,
            duplicates,
            faults: Faults::default(),
        };
        walk.value(self.root, value);
        walk.faults.into_result(())
    }
}

struct Walk<'a> {
    schema: &'a Schema,
    duplicates: Duplicates,
    faults: Faults,
}

impl Walk<'_> {
    fn value(&mut self, atom: AtomId, value: &Value) {
        let schema = self.schema;
        let atom = schema.atom(atom);
        match atom.form(Some(value)) {
            Form::Map(map) => self.map(map, value),
            Form::List(list) => self.list(list, value),
            Form::Scalar(scalar) => {
                if let Some(message) = scalar_fault(scalar, value) {
                    self.faults.add(message);
                }
            }
            Form::None => self.faults.add(invalid_atom(atom)),
        }
    }

    fn map(&mut self, map: &Map, value: &Value) {
        let entries = match value {
            Value::Object(entries) => entries,
            Value::Null => return,
            other => return self.faults.add(format!("expected map, got &{{{}}}", go_v(other))),
        };
        for (name, value) in entries {
            let mark = self.faults.mark();
            let atom = map.atom_of(name);
            if atom == NO_TYPE {
                self.faults.add("field not declared in schema");
                self.faults.prefix(mark, &format_args!(".{name}"));
                // upstream stops at the first one as well
                return;
            }
            self.value(atom, value);
            self.faults.prefix(mark, &format_args!(".{name}"));
        }
    }

    fn list(&mut self, list: &List, value: &Value) {
        let items = match value {
            Value::Array(items) => items,
            Value::Null => return,
            other => {
                return self
                    .faults
                    .add(format!("expected list, got &{{{}}}", go_v(other)));
            }
        };
        let mut seen = BTreeSet::new();
        for (i, item) in items.iter().enumerate() {
            if !list.associative {
                let mark = self.faults.mark();
                self.value(list.element, item);
                self.faults
                    .prefix(mark, &PathElement::Index(i64::try_from(i).unwrap_or(i64::MAX)));
                continue;
            }
            let element = match element_of(self.schema, list, item) {
                Ok(element) => element,
                Err(message) => return self.faults.add(format!("element {i}: {message}")),
            };
            if self.duplicates == Duplicates::Refuse && seen.contains(&element) {
                self.faults.add(format!("duplicate entries for key {element}"));
            }
            let mark = self.faults.mark();
            self.value(list.element, item);
            self.faults.prefix(mark, &element);
            seen.insert(element);
        }
    }
}

/// The error of a value where a scalar is expected. Null is valid.
pub(super) fn scalar_fault(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Numeric, Value::Number(_))
        | (Scalar::String, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Numeric, other) => Some(format!("expected numeric (int or float), got {}", go_type(other))),
        (Scalar::String, other) => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go_sharp_v(other)
        )),
        (Scalar::Boolean, other) => Some(format!("expected boolean, got &{{{}}}", go_v(other))),
        (Scalar::Untyped, other) => Some(format!("expected any scalar, got &{{{}}}", go_v(other))),
    }
}
