//! Reading and filling in JSON trees by dotted paths.
//!
//! Defaults and checks of fifty kinds are mostly "the string at this path" and
//! "set that unless present". These few words keep them one line each. Absent
//! and `null` read alike, and so do absent and empty: Go's decoder cannot tell
//! them apart either. Keys that contain dots (labels) are not addressed here.

use serde_json::{Map, Value};

static NULL: Value = Value::Null;

/// The value at a dotted path, `null` where there is none. The empty path is the value itself.
pub(crate) fn get<'a>(value: &'a Value, path: &str) -> &'a Value {
    if path.is_empty() {
        return value;
    }
    path.split('.').fold(value, |v, key| v.get(key).unwrap_or(&NULL))
}

/// Whether something other than `null` is there.
pub(crate) fn has(value: &Value, path: &str) -> bool {
    !get(value, path).is_null()
}

/// The string at a path; empty where there is none.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    get(value, path).as_str().unwrap_or("")
}

/// The integer at a path.
pub(crate) fn int(value: &Value, path: &str) -> Option<i64> {
    get(value, path).as_i64()
}

/// Whether `true` is there.
pub(crate) fn flag(value: &Value, path: &str) -> bool {
    get(value, path).as_bool().unwrap_or(false)
}

/// The items at a path; none where there is no list.
pub(crate) fn items<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    get(value, path).as_array().map_or(&[], Vec::as_slice)
}

/// The entries at a path; none where there is no object.
pub(crate) fn entries<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    get(value, path).as_object().into_iter().flatten()
}

/// The annotation of that name.
pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    get(object, "metadata.annotations").get(name)?.as_str()
}

/// Whether a value is absent as Go's zero value of a string, list or map is.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(m) => m.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The value at a path, to change it; `None` where there is none.
pub(crate) fn at<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.')
        .filter(|key| !key.is_empty())
        .try_fold(value, |v, key| v.get_mut(key))
        .filter(|v| !v.is_null())
}

/// Puts a value at a path, making the objects on the way. What is not an object is left alone.
pub(crate) fn set(value: &mut Value, path: &str, new: impl Into<Value>) {
    if let Some(slot) = slot(value, path) {
        *slot = new.into();
    }
}

/// Puts a value at a path unless something is there; `null` and the empty string are nothing.
pub(crate) fn default(value: &mut Value, path: &str, new: impl Into<Value>) {
    if let Some(slot) = slot(value, path)
        && (slot.is_null() || slot.as_str() == Some(""))
    {
        *slot = new.into();
    }
}

/// Removes what is at a path.
pub(crate) fn remove(value: &mut Value, path: &str) -> Option<Value> {
    let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
    at(value, parent)?.as_object_mut()?.remove(key)
}

/// Puts the stored value at a path, or removes what is there where nothing is stored.
pub(crate) fn restore(value: &mut Value, stored: &Value, path: &str) {
    let old = get(stored, path);
    if old.is_null() {
        remove(value, path);
    } else {
        set(value, path, old.clone());
    }
}

/// Applies `f` to each item of the list, or each value of the object, at a path.
pub(crate) fn each(value: &mut Value, path: &str, f: impl FnMut(&mut Value)) {
    match at(value, path) {
        Some(Value::Array(list)) => list.iter_mut().for_each(f),
        Some(Value::Object(map)) => map.values_mut().for_each(f),
        _ => {}
    }
}

/// Applies `f` to what is at a path, if anything.
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
