//! Merges one value over another.

use super::error::{Faults, invalid_atom};
use super::item::element_of;
use super::schema::{AtomId, Form, List, Map, Schema};
use super::validate::scalar_fault;
use super::{Errors, Type};
use crate::fieldpath::PathElement;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

impl Type {
    /// Merges `applied` over `live`. Applied values win; values it does not mention stay. Items of
    /// associative lists keep the applied order, with the others in between.
    pub fn merge(&self, live: &Value, applied: &Value) -> Result<Value, Errors> {
        let mut walk = Walk {
            schema: &self.schema,
            faults: Faults::default(),
        };
        let merged = walk.both(self.root, live, applied);
        walk.faults.into_result(merged.unwrap_or(Value::Null))
    }
}

struct Walk<'a> {
    schema: &'a Schema,
    faults: Faults,
}

impl Walk<'_> {
    /// With only one side present, that side is the result.
    fn either(&mut self, atom: AtomId, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
        match (live, applied) {
            (Some(live), Some(applied)) => self.both(atom, live, applied),
            (one, other) => one.or(other).cloned(),
        }
    }

    fn both(&mut self, atom: AtomId, live: &Value, applied: &Value) -> Option<Value> {
        let schema = self.schema;
        let atom = schema.atom(atom);
        match atom.form(Some(applied)) {
            Form::Scalar(scalar) => {
                if let (Some(l), Some(r)) = (scalar_fault(scalar, live), scalar_fault(scalar, applied)) {
                    self.faults.add(format!("lhs: {l}"));
                    self.faults.add(format!("rhs: {r}"));
                    return None;
                }
                Some(applied.clone())
            }
            Form::Map(map) => self.map(map, live, applied),
            Form::List(list) => self.list(list, live, applied),
            Form::None => {
                self.faults.add(invalid_atom(atom));
                None
            }
        }
    }

    fn map(&mut self, map: &Map, live: &Value, applied: &Value) -> Option<Value> {
        let (l, r) = (live.as_object(), applied.as_object());
        if map.atomic || (l.is_none_or(serde_json::Map::is_empty) && r.is_none_or(serde_json::Map::is_empty))
        {
            return Some(applied.clone());
        }
        let mut out = serde_json::Map::new();
        for (name, l) in l.into_iter().flatten() {
            let r = r.and_then(|r| r.get(name));
            let mark = self.faults.mark();
            let merged = self.either(map.atom_of(name), Some(l), r);
            self.faults.prefix(mark, &format_args!(".{name}"));
            if let Some(merged) = merged {
                out.insert(name.clone(), merged);
            }
        }
        for (name, r) in r.into_iter().flatten() {
            if l.is_none_or(|l| !l.contains_key(name)) {
                out.insert(name.clone(), r.clone());
            }
        }
        (!out.is_empty()).then_some(Value::Object(out))
    }

    fn list(&mut self, list: &List, live: &Value, applied: &Value) -> Option<Value> {
        let empty: &[Value] = &[];
        let (l, r) = (
            live.as_array().map_or(empty, Vec::as_slice),
            applied.as_array().map_or(empty, Vec::as_slice),
        );
        if !list.associative || (l.is_empty() && r.is_empty()) {
            return Some(applied.clone());
        }
        let mark = self.faults.mark();
        let right = self.index(list, r, false);
        let left = self.index(list, l, true);
        if self.faults.mark() > mark {
            return None;
        }
        let out = self.interleave(list, l, &left, &right);
        (!out.is_empty()).then_some(Value::Array(out))
    }

    /// Upstream's order (typed/merge.go): unapplied live items keep their place, applied items keep the
    /// applied order, and a shared item moves only if that order demands it.
    fn interleave(&mut self, list: &List, live: &[Value], left: &Named<'_>, right: &Named<'_>) -> Vec<Value> {
        let mut out = Vec::with_capacity(left.order.len().max(right.order.len()));
        let mut shared = right
            .order
            .iter()
            .filter(|element| left.by_element.contains_key(element));
        let mut next_shared = shared.next();
        let mut emitted = BTreeSet::new();
        let (mut i, mut j) = (0, 0);
        while i < left.order.len() || j < right.order.len() {
            if let (Some(l), Some(r)) = (left.order.get(i), right.order.get(j)) {
                if l == r {
                    emitted.insert(l);
                    out.extend(self.item(list, l, left, right));
                    i += 1;
                    j += 1;
                    next_shared = shared.next();
                    continue;
                }
                if right.by_element.contains_key(l) && next_shared.is_some_and(|next| next != l) {
                    i += 1;
                    continue;
                }
            }
            if let Some(l) = left.order.get(i) {
                if !right.by_element.contains_key(l) {
                    out.extend(live.get(i).cloned());
                    i += 1;
                    continue;
                }
                if emitted.contains(l) {
                    i += 1;
                }
            }
            if let Some(r) = right.order.get(j) {
                emitted.insert(r);
                out.extend(self.item(list, r, left, right));
                j += 1;
                if next_shared == Some(r) {
                    next_shared = shared.next();
                }
            }
        }
        out
    }

    fn item(
        &mut self,
        list: &List,
        element: &PathElement,
        left: &Named<'_>,
        right: &Named<'_>,
    ) -> Option<Value> {
        let (l, r) = (
            left.by_element.get(element).copied(),
            right.by_element.get(element).copied(),
        );
        let mark = self.faults.mark();
        // a live duplicate merges as null: it is unknown which of the twins is meant
        let merged = match (l, r) {
            (Some(Item::One(l)), Some(Item::One(r))) => self.both(list.element, l, r),
            (Some(Item::Many), Some(Item::One(r))) => self.both(list.element, &Value::Null, r),
            (_, Some(Item::One(r))) => Some(r.clone()),
            (Some(Item::One(l)), _) => Some(l.clone()),
            _ => Some(Value::Null),
        };
        self.faults.prefix(mark, element);
        merged
    }

    fn index<'v>(&mut self, list: &List, items: &'v [Value], duplicates: bool) -> Named<'v> {
        let mut named = Named {
            order: Vec::with_capacity(items.len()),
            by_element: BTreeMap::new(),
        };
        for (i, item) in items.iter().enumerate() {
            let element = match element_of(self.schema, list, item) {
                Ok(element) => element,
                Err(message) => {
                    self.faults.add(format!("element {i}: {message}"));
                    continue;
                }
            };
            match named.by_element.entry(element.clone()) {
                std::collections::btree_map::Entry::Vacant(slot) => {
                    slot.insert(Item::One(item));
                }
                std::collections::btree_map::Entry::Occupied(mut slot) if duplicates => {
                    slot.insert(Item::Many);
                }
                std::collections::btree_map::Entry::Occupied(_) => {
                    self.faults.add(format!("duplicate entries for key {element}"));
                    continue;
                }
            }
            named.order.push(element);
        }
        named
    }
}

struct Named<'v> {
    order: Vec<PathElement>,
    by_element: BTreeMap<PathElement, Item<'v>>,
}

#[derive(Clone, Copy)]
enum Item<'v> {
    One(&'v Value),
    Many,
}
