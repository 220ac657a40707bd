//! Pruning of undeclared fields, and defaults.
//!
//! The order per request: prune, drop nulls that are not allowed, default.

use super::node::{AdditionalNode, Node};
use serde_json::Value;

/// Drops undeclared fields and returns their paths, sorted: `spec.unknown`, `spec.items[0].x`.
///
/// At the root and in embedded resources `apiVersion`, `kind` and `metadata` stay.
pub(super) fn prune(object: &mut Value, schema: &Node) -> Vec<String> {
    let mut pruner = Pruner {
        path: String::new(),
        dropped: Vec::new(),
    };
    pruner.visit(object, Some(schema), true);
    pruner.dropped.sort();
    pruner.dropped
}

pub(super) fn is_pruned(value: &Value, schema: &Node, root: bool) -> bool {
    let mut copy = value.clone();
    let mut pruner = Pruner {
        path: String::new(),
        dropped: Vec::new(),
    };
    pruner.visit(&mut copy, Some(schema), root);
    copy == *value
}

struct Pruner {
    path: String,
    dropped: Vec<String>,
}

fn is_meta(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

impl Pruner {
    fn within(&mut self, key: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        visit(self);
        self.path.truncate(length);
    }

    fn at_index(&mut self, index: usize, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(&format!("[{index}]"));
        visit(self);
        self.path.truncate(length);
    }

    fn visit(&mut self, value: &mut Value, schema: Option<&Node>, root: bool) {
        let keep_unknown = schema.is_some_and(|s| s.preserve_unknown);
        match value {
            Value::Object(map) => {
                let keep_meta = root || schema.is_some_and(|s| s.embedded);
                let keys: Vec<String> = map.keys().cloned().collect();
                for key in keys {
                    if keep_meta && is_meta(&key) {
                        continue;
                    }
                    let child = schema.and_then(|s| match (s.properties.get(&key), &s.additional) {
                        (Some(node), _) => Some(Some(node)),
                        (None, Some(AdditionalNode::Schema(node))) => Some(Some(&**node)),
                        (None, Some(AdditionalNode::Allowed(_))) => Some(None),
                        (None, None) => None,
                    });
                    match child {
                        Some(node) => {
                            if let Some(inner) = map.get_mut(&key) {
                                self.within(&key, |p| p.visit(inner, node, false));
                            }
                        }
                        None if keep_unknown => {}
                        None => {
                            if !is_meta(&key) || !self.path.is_empty() {
                                let mut dropped = Vec::new();
                                self.within(&key, |p| dropped.push(p.path.clone()));
                                self.dropped.append(&mut dropped);
                            }
                            map.remove(&key);
                        }
                    }
                }
            }
            Value::Array(list) => {
                let items = schema.and_then(|s| s.items.as_deref());
                // Below preserved fields only declared ones are pruned, and lists pass the permission on.
                if keep_unknown && items.is_none() {
                    return;
                }
                for (index, item) in list.iter_mut().enumerate() {
                    self.at_index(index, |p| {
                        if keep_unknown {
                            p.visit_preserved(item, items);
                        } else {
                            p.visit(item, items, false);
                        }
                    });
                }
            }
            _ => {}
        }
    }

    fn visit_preserved(&mut self, value: &mut Value, schema: Option<&Node>) {
        let Some(schema) = schema else { return };
        match value {
            Value::Object(map) => {
                for (key, inner) in map.iter_mut() {
                    if schema.embedded && is_meta(key) {
                        continue;
                    }
                    let child = match (schema.properties.get(key), &schema.additional) {
                        (Some(node), _) => Some(node),
                        (None, Some(AdditionalNode::Schema(node))) => Some(&**node),
                        (None, Some(AdditionalNode::Allowed(_))) => None,
                        (None, None) => continue,
                    };
                    self.within(key, |p| p.visit(inner, child, false));
                }
            }
            Value::Array(list) => {
                for (index, item) in list.iter_mut().enumerate() {
                    self.at_index(index, |p| p.visit_preserved(item, schema.items.as_deref()));
                }
            }
            _ => {}
        }
    }
}

/// Drops nulls where the schema is neither nullable nor has a default, then fills in defaults.
///
/// Whole floats become integers (`1.0` is stored as `1`), as Go's encoder writes them.
pub(super) fn default(object: &mut Value, schema: &Node) {
    drop_nulls(object, Some(schema));
    whole_floats(object);
    fill(object, schema);
}

fn whole_floats(value: &mut Value) {
    match value {
        Value::Number(n) if n.is_f64() => {
            if let Some(f) = n.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9.0e15) {
                *value = Value::from(f as i64);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(whole_floats),
        Value::Object(map) => map.values_mut().for_each(whole_floats),
        _ => {}
    }
}

fn drop_nulls(value: &mut Value, schema: Option<&Node>) {
    match value {
        Value::Object(map) => map.retain(|key, inner| {
            let child = schema.and_then(|s| s.field(key));
            let drop = inner.is_null() && child.is_some_and(|c| !c.nullable && c.default.is_none());
            if !drop {
                drop_nulls(inner, child);
            }
            !drop
        }),
        Value::Array(list) => {
            let items = schema.and_then(|s| s.items.as_deref());
            for item in list {
                drop_nulls(item, items);
            }
        }
        _ => {}
    }
}

fn fill(value: &mut Value, schema: &Node) {
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                if let Some(default) = &property.default {
                    let absent = map.get(name).is_none_or(|v| v.is_null() && !property.nullable);
                    if absent {
                        map.insert(name.clone(), default.clone());
                    }
                }
            }
            for (key, inner) in map.iter_mut() {
                if let Some(property) = schema.properties.get(key) {
                    fill(inner, property);
                } else if let Some(additional) = schema.additional_schema() {
                    replace_null(inner, additional);
                    fill(inner, additional);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.items.as_deref() {
                for item in list {
                    replace_null(item, items);
                    fill(item, items);
                }
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, schema: &Node) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
}
