//! Access to `metadata`, and its fields that only the server writes.

use serde_json::{Map, Value, json};

/// `metadata`, replaced by an object if it is none.
pub(crate) fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let meta = &mut object["metadata"];
    if !meta.is_object() {
        *meta = json!({});
    }
    match meta {
        Value::Object(map) => map,
        _ => unreachable!("metadata was just made an object"),
    }
}

pub(crate) fn meta_text<'a>(object: &'a Value, key: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|m| m.get(key))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(crate) fn meta<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.get("metadata").and_then(|m| m.get(key))
}

pub(crate) fn set_text(object: &mut Value, key: &str, value: &str) {
    let map = meta_mut(object);
    if value.is_empty() {
        map.remove(key);
    } else {
        map.insert(key.to_owned(), Value::String(value.to_owned()));
    }
}

pub(crate) fn copy(to: &mut Value, from: &Value, key: &str) {
    let value = meta(from, key).cloned();
    let map = meta_mut(to);
    match value {
        Some(value) => map.insert(key.to_owned(), value),
        None => map.remove(key),
    };
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    meta(object, "finalizers")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

pub(crate) fn deleting(object: &Value) -> bool {
    meta(object, "deletionTimestamp").is_some_and(|t| !t.is_null())
}

pub(crate) fn generation(object: &Value) -> i64 {
    meta(object, "generation")
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

pub(crate) fn set_generation(object: &mut Value, generation: i64) {
    let map = meta_mut(object);
    if generation == 0 {
        map.remove("generation");
    } else {
        map.insert("generation".to_owned(), json!(generation));
    }
}

pub(crate) fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

pub(crate) fn put(object: &mut Value, path: &[&str], value: Option<Value>) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let mut here = object;
    for key in parents {
        if here.get(key).is_none_or(|v| !v.is_object()) {
            if value.is_none() || !here.is_object() {
                return;
            }
            here[*key] = json!({});
        }
        here = &mut here[*key];
    }
    if let Value::Object(map) = here {
        match value {
            Some(value) => map.insert((*last).to_owned(), value),
            None => map.remove(*last),
        };
    }
}
