//! Compares two values field by field.

use super::error::{Faults, invalid_atom};
use super::item::element_of;
use super::schema::{AtomId, Form, List, Map, Schema};
use super::validate::scalar_fault;
use super::{Errors, Type};
use crate::fieldpath::{PathElement, Set, equal};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The fields in which two values differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields only in the old value.
    pub removed: Set,
    /// Fields in both, with different values.
    pub modified: Set,
    /// Fields only in the new value.
    pub added: Set,
}

impl Comparison {
    /// Whether the values are equal.
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Removes these fields and everything below them.
    #[must_use]
    pub fn without(self, fields: &Set) -> Self {
        if fields.is_empty() {
            return self;
        }
        Self {
            removed: self.removed.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            added: self.added.recursive_difference(fields),
        }
    }
}

impl Type {
    /// Compares two values.
    pub fn compare(&self, old: &Value, new: &Value) -> Result<Comparison, Errors> {
        let mut walk = Walk {
            schema: &self.schema,
            faults: Faults::default(),
        };
        let mut node = Node::default();
        walk.compare(self.root, Some(old), Some(new), &mut node);
        walk.faults.into_result(node.below)
    }
}

#[derive(Default)]
struct Node {
    removed: bool,
    modified: bool,
    added: bool,
    below: Comparison,
}

impl Node {
    fn adopt(&mut self, element: &PathElement, inner: Node) {
        for (itself, from, into) in [
            (inner.removed, inner.below.removed, &mut self.below.removed),
            (inner.modified, inner.below.modified, &mut self.below.modified),
            (inner.added, inner.below.added, &mut self.below.added),
        ] {
            if itself {
                into.insert_member(element.clone());
            }
            if !from.is_empty() {
                into.insert_child(element.clone(), from);
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (Some(old), Some(new)) => self.modified |= !equal(old, new),
            (None, _) => self.added = true,
            (Some(_), None) => self.removed = true,
        }
    }
}

struct Walk<'a> {
    schema: &'a Schema,
    faults: Faults,
}

impl Walk<'_> {
    fn compare(&mut self, atom: AtomId, old: Option<&Value>, new: Option<&Value>, node: &mut Node) {
        let schema = self.schema;
        let atom = schema.atom(atom);
        match (old, new) {
            (Some(old), Some(new)) if old == new => return,
            // when a map becomes a scalar, the field is modified and its entries are removed
            (Some(_), Some(_)) if !atom.form(old).same(atom.form(new)) => {
                self.form(atom.form(old), old, new, node);
                self.form(atom.form(new), old, new, node);
            }
            (Some(_), None) => self.form(atom.form(old), old, new, node),
            _ => self.form(atom.form(new), old, new, node),
        }
        if matches!(atom.form(new.or(old)), Form::None) {
            self.faults.add(invalid_atom(atom));
        }
        node.removed |= new.is_none();
        node.added |= old.is_none();
    }

    fn form(&mut self, form: Form<'_>, old: Option<&Value>, new: Option<&Value>, node: &mut Node) {
        match form {
            Form::Scalar(scalar) => {
                let fault = |v: Option<&Value>| v.and_then(|v| scalar_fault(scalar, v));
                if let (Some(l), Some(r)) = (fault(old), fault(new)) {
                    self.faults.add(format!("lhs: {l}"));
                    self.faults.add(format!("rhs: {r}"));
                } else {
                    node.leaf(old, new);
                }
            }
            Form::Map(map) => self.map(map, old, new, node),
            Form::List(list) => self.list(list, old, new, node),
            Form::None => {}
        }
    }

    fn map(&mut self, map: &Map, old: Option<&Value>, new: Option<&Value>, node: &mut Node) {
        let (l, r) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
        if map.atomic || (l.is_none_or(serde_json::Map::is_empty) && r.is_none_or(serde_json::Map::is_empty))
        {
            return node.leaf(old, new);
        }
        let mut l = l.into_iter().flatten().peekable();
        let mut r = r.into_iter().flatten().peekable();
        loop {
            let order = match (l.peek(), r.peek()) {
                (Some((a, _)), Some((b, _))) => a.cmp(b),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => return,
            };
            let left = if order.is_le() { l.next() } else { None };
            let right = if order.is_ge() { r.next() } else { None };
            let Some((name, _)) = left.or(right) else { return };
            let (old, new) = (left.map(|(_, v)| v), right.map(|(_, v)| v));
            if old == new {
                continue;
            }
            let (element, atom) = match map.field(name) {
                Some(field) => (PathElement::Field(Arc::clone(&field.name)), field.atom),
                None => (PathElement::field(name), map.element),
            };
            self.descend(&element, atom, old, new, node);
        }
    }

    fn list(&mut self, list: &List, old: Option<&Value>, new: Option<&Value>, node: &mut Node) {
        let empty: &[Value] = &[];
        let l = old.and_then(Value::as_array).map_or(empty, Vec::as_slice);
        let r = new.and_then(Value::as_array).map_or(empty, Vec::as_slice);
        if !list.associative || (l.is_empty() && r.is_empty()) {
            return node.leaf(old, new);
        }
        let mut named: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (side, items) in [l, r].into_iter().enumerate() {
            for (i, item) in items.iter().enumerate() {
                match element_of(self.schema, list, item) {
                    Ok(element) => {
                        let slot = named.entry(element).or_default();
                        if side == 0 {
                            slot.0.push(item);
                        } else {
                            slot.1.push(item);
                        }
                    }
                    Err(message) => self.faults.add(format!("element {i}: {message}")),
                }
            }
        }
        for (element, (l, r)) in named {
            match (l.as_slice(), r.as_slice()) {
                ([] | [_], [] | [_]) => {
                    self.descend(
                        &element,
                        list.element,
                        l.first().copied(),
                        r.first().copied(),
                        node,
                    );
                }
                ([_, _, ..], [_, _, ..]) => {
                    if l.len() != r.len() || l.iter().zip(&r).any(|(l, r)| !equal(l, r)) {
                        node.below.modified.insert_member(element);
                    }
                }
                (_, [] | [_]) => {
                    if let [one] = r.as_slice() {
                        self.descend(&element, list.element, None, Some(one), node);
                    }
                    node.below.removed.insert_member(element);
                }
                (_, _) => {
                    if let [one] = l.as_slice() {
                        self.descend(&element, list.element, Some(one), None, node);
                    }
                    node.below.added.insert_member(element);
                }
            }
        }
    }

    fn descend(
        &mut self,
        element: &PathElement,
        atom: AtomId,
        old: Option<&Value>,
        new: Option<&Value>,
        node: &mut Node,
    ) {
        let mark = self.faults.mark();
        let mut inner = Node::default();
        self.compare(atom, old, new, &mut inner);
        self.faults.prefix(mark, element);
        node.adopt(element, inner);
    }
}
