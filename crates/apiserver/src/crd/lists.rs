//! Lists with unique items: `x-kubernetes-list-type: set` by value, `map` by their keys.

use super::node::Node;
use crate::field::FieldError;
use equate_manifest::schema::ListType;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

pub(super) fn validate(object: &Value, schema: &Node, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(object, schema, path, &mut errors);
    errors
}

fn visit(value: &Value, schema: &Node, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if let Some(additional) = schema.additional_schema() {
                for (key, inner) in map {
                    visit(inner, additional, &format!("{path}[{key}]"), errors);
                }
            }
            for (name, property) in &schema.properties {
                if let Some(inner) = map.get(name) {
                    let inner_path = if path.is_empty() {
                        name.clone()
                    } else {
                        format!("{path}.{name}")
                    };
                    visit(inner, property, &inner_path, errors);
                }
            }
        }
        Value::Array(list) => {
            match schema.list_type {
                Some(ListType::Set) => {
                    for index in repeated(list.iter().map(ToString::to_string)) {
                        errors.push(duplicate(path, index, &list[index]));
                    }
                }
                Some(ListType::Map) => keyed(list, schema, path, errors),
                _ => {}
            }
            if let Some(items) = schema.items.as_deref() {
                for (index, item) in list.iter().enumerate() {
                    visit(item, items, &format!("{path}[{index}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn keyed(list: &[Value], schema: &Node, path: &str, errors: &mut Vec<FieldError>) {
    if let Some((index, other)) = list
        .iter()
        .enumerate()
        .find(|(_, v)| !v.is_null() && !v.is_object())
    {
        errors.push(FieldError::invalid(
            format!("{path}[{index}]"),
            other,
            "must be an object for an array of list-type map",
        ));
        return;
    }
    let keys: Vec<Value> = list
        .iter()
        .map(|item| {
            let mut key = Map::new();
            for field in &schema.list_map_keys {
                if let Some(value) = item.get(field) {
                    key.insert(field.clone(), value.clone());
                }
            }
            Value::Object(key)
        })
        .collect();
    for index in repeated(keys.iter().map(Value::to_string)) {
        errors.push(duplicate(path, index, &keys[index]));
    }
}

fn duplicate(path: &str, index: usize, value: &Value) -> FieldError {
    let mut error = FieldError::duplicate(format!("{path}[{index}]"), &json!(null));
    error.value = Some(super::go::shown(value));
    error
}

fn repeated(items: impl Iterator<Item = String>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut out = Vec::new();
    for (index, item) in items.enumerate() {
        let times = seen.entry(item).or_insert(0);
        *times += 1;
        if *times == 2 {
            out.push(index);
        }
    }
    out
}
