//! Pairs new values with old ones: ratcheting tolerates errors in unchanged values.
//!
//! Fields are paired by name, items of `map` lists by their keys; items of other lists have no counterpart.

use super::node::Node;
use equate_manifest::schema::ListType;
use serde_json::Value;

#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) new: &'a Value,
    pub(super) old: &'a Value,
    pub(super) schema: &'a Node,
}

impl<'a> Pair<'a> {
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        Some(Self {
            new: self.new.get(name)?,
            old: self.old.get(name)?,
            schema: self.schema.field(name)?,
        })
    }

    pub(super) fn item(&self, index: usize) -> Option<Self> {
        let new = self.new.as_array()?.get(index)?;
        let old = counterpart(self.schema, self.old.as_array()?, new)?;
        Some(Self {
            new,
            old,
            schema: self.schema.items.as_deref()?,
        })
    }

    /// Compares `map` lists regardless of order. Undeclared fields count as changed.
    pub(super) fn unchanged(&self) -> bool {
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                if self.schema.list_type != Some(ListType::Map) {
                    return new == old;
                }
                (0..new.len()).all(|i| self.item(i).is_some_and(|pair| pair.unchanged()))
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new
                        .keys()
                        .all(|k| self.field(k).is_some_and(|pair| pair.unchanged()))
            }
            (new, old) => new == old,
        }
    }
}

/// Whether two items of a keyed list have the same keys.
pub(super) fn is_same_item(list: &Node, one: &Value, other: &Value) -> bool {
    let keys = &list.list_map_keys;
    list.list_type == Some(ListType::Map)
        && !keys.is_empty()
        && other.is_object()
        && keys.iter().all(|key| one.get(key) == other.get(key))
}

pub(super) fn counterpart<'a>(list: &Node, old: &'a [Value], new: &Value) -> Option<&'a Value> {
    old.iter()
        .rev()
        .find(|candidate| is_same_item(list, candidate, new))
}
