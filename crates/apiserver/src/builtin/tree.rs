//! Reading and filling in JSON trees by dotted paths.
//!
//! Keeps the defaults and checks of fifty kinds at one line each. Absent, `null` and empty are the same, as
//! for Go's decoder. Keys that contain dots (labels) cannot be addressed.

use serde_json::{Map, Value};

static NULL: Value = Value::Null;

/// The value at a path, or `null`. The empty path is the value itself.
pub(crate) fn get<'a>(value: &'a Value, path: &str) -> &'a Value {
    if path.is_empty() {
        return value;
    }
    path.split('.').fold(value, |v, key| v.get(key).unwrap_or(&NULL))
}

pub(crate) fn has(value: &Value, path: &str) -> bool {
    !get(value, path).is_null()
}

pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    get(value, path).as_str().unwrap_or("")
}

pub(crate) fn int(value: &Value, path: &str) -> Option<i64> {
    get(value, path).as_i64()
}

pub(crate) fn flag(value: &Value, path: &str) -> bool {
    get(value, path).as_bool().unwrap_or(false)
}

pub(crate) fn items<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    get(value, path).as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn entries<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    get(value, path).as_object().into_iter().flatten()
}

pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    get(object, "metadata.annotations").get(name)?.as_str()
}

/// Whether a value is absent or Go's zero value of a string, list or map.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(m) => m.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

pub(crate) fn at<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.')
        .filter(|key| !key.is_empty())
        .try_fold(value, |v, key| v.get_mut(key))
        .filter(|v| !v.is_null())
}

pub(crate) fn set(value: &mut Value, path: &str, new: impl Into<Value>) {
    if let Some(slot) = slot(value, path) {
        *slot = new.into();
    }
}

/// Sets the value at a path if it is absent, `null` or an empty string.
pub(crate) fn default(value: &mut Value, path: &str, new: impl Into<Value>) {
    if let Some(slot) = slot(value, path)
        && (slot.is_null() || slot.as_str() == Some(""))
    {
        *slot = new.into();
    }
}

pub(crate) fn remove(value: &mut Value, path: &str) -> Option<Value> {
    let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
    at(value, parent)?.as_object_mut()?.remove(key)
}

pub(crate) fn restore(value: &mut Value, stored: &Value, path: &str) {
    let old = get(stored, path);
    if old.is_null() {
        remove(value, path);
    } else {
        set(value, path, old.clone());
    }
}

pub(crate) fn each(value: &mut Value, path: &str, f: impl FnMut(&mut Value)) {
    match at(value, path) {
        Some(Value::Array(list)) => list.iter_mut().for_each(f),
        Some(Value::Object(map)) => map.values_mut().for_each(f),
        _ => {}
    }
}

pub(crate) fn with(value: &mut Value, path: &str, f: impl FnOnce(&mut Value)) {
    if let Some(inner) = at(value, path) {
        f(inner);
    }
}

fn slot<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut here = value;
    for key in path.split('.') {
        if here.is_null() {
            *here = Value::Object(Map::new());
        }
        here = here.as_object_mut()?.entry(key).or_insert(Value::Null);
    }
    Some(here)
}
