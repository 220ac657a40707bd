//! Lists the field paths of a value.

use super::error::{Faults, invalid_atom};
use super::item::element_of;
use super::schema::{AtomId, Form, List, Map, Schema};
use super::{Errors, Type};
use crate::fieldpath::{PathElement, Set};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Type {
    /// The value's field paths: leaves, list items and map entries, but not the structs around them.
    pub fn field_set(&self, value: &Value) -> Result<Set, Errors> {
        let mut walk = Walk {
            schema: &self.schema,
            faults: Faults::default(),
        };
        let node = walk.value(self.root, value);
        walk.faults.into_result(node.below)
    }
}

#[derive(Default)]
struct Node {
    itself: bool,
    below: Set,
}

const LEAF: fn() -> Node = || Node {
    itself: true,
    below: Set::default(),
};

struct Walk<'a> {
    schema: &'a Schema,
    faults: Faults,
}

impl Walk<'_> {
    fn value(&mut self, atom: AtomId, value: &Value) -> Node {
        let schema = self.schema;
        let atom = schema.atom(atom);
        match atom.form(Some(value)) {
            Form::Scalar(_) => LEAF(),
            Form::Map(map) if map.atomic => LEAF(),
            Form::List(list) if !list.associative => LEAF(),
            Form::Map(map) => self.map(map, value),
            Form::List(list) => self.list(list, value),
            Form::None => {
                self.faults.add(invalid_atom(atom));
                Node::default()
            }
        }
    }

    fn map(&mut self, map: &Map, value: &Value) -> Node {
        let mut node = Node::default();
        let Value::Object(entries) = value else {
            return node;
        };
        for (name, value) in entries {
            let (element, atom, declared) = match map.field(name) {
                Some(field) => (PathElement::Field(Arc::clone(&field.name)), field.atom, true),
                None => (PathElement::field(name), map.element, false),
            };
            let mark = self.faults.mark();
            let inner = self.value(atom, value);
            self.faults.prefix(mark, &element);
            let bare = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
            if inner.itself || bare || !declared {
                node.below.insert_member(element.clone());
            }
            node.below.insert_child(element, inner.below);
        }
        node
    }

    fn list(&mut self, list: &List, value: &Value) -> Node {
        let mut node = Node::default();
        let Value::Array(items) = value else {
            return node;
        };
        let mut named: BTreeMap<PathElement, Option<&Value>> = BTreeMap::new();
        for (i, item) in items.iter().enumerate() {
            match element_of(self.schema, list, item) {
                Ok(element) => {
                    // a duplicate is owned as a whole: its fields are indistinguishable from its twin's
                    named
                        .entry(element)
                        .and_modify(|first| *first = None)
                        .or_insert(Some(item));
                }
                Err(message) => self.faults.add(format!("element {i}: {message}")),
            }
        }
        for (element, item) in named {
            if let Some(item) = item {
                let mark = self.faults.mark();
                let inner = self.value(list.element, item);
                self.faults.prefix(mark, &element);
                node.below.insert_child(element.clone(), inner.below);
            }
            node.below.insert_member(element);
        }
        node
    }
}
