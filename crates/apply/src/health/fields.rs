//! Typed access to fields for the health rules.
//!
//! As upstream, fields that decide for every kind must have their type, else the object is [`Malformed`].
//! A counter of the wrong type counts as absent. `null` is absent in both cases.

use equate_manifest::object::Object;
use serde_json::Value;

#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Malformed {
    /// A field has the wrong type.
    #[error("{field} is not {expected}")]
    Type { field: String, expected: &'static str },
    /// A pod phase unknown to Kubernetes.
    #[error("unknown phase {0}")]
    Phase(String),
}

fn malformed(field: impl Into<String>, expected: &'static str) -> Malformed {
    Malformed::Type {
        field: field.into(),
        expected,
    }
}

/// One entry of `status.conditions`; absent texts are empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition<'a> {
    pub(super) kind: &'a str,
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

/// The value at a path of keys; `None` for absent and `null`.
pub(super) fn at<'a>(object: &'a Object, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let start = object.0.get(*first)?;
    let found = rest.iter().try_fold(start, |value, key| value.get(key))?;
    (!found.is_null()).then_some(found)
}

pub(super) fn count(object: &Object, path: &[&str], default: i64) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(default)
}

pub(super) fn text<'a>(object: &'a Object, path: &[&str], default: &'a str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or(default)
}

pub(super) fn generation(object: &Object) -> Result<Option<i64>, Malformed> {
    integer(object, &["metadata", "generation"])
}

pub(super) fn observed_generation(object: &Object) -> Result<Option<i64>, Malformed> {
    integer(object, &["status", "observedGeneration"])
}

fn integer(object: &Object, path: &[&str]) -> Result<Option<i64>, Malformed> {
    match at(object, path) {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(number) => Ok(Some(number)),
            None => Err(malformed(path.join("."), "an integer")),
        },
    }
}

pub(super) fn deleting(object: &Object) -> Result<bool, Malformed> {
    match at(object, &["metadata", "deletionTimestamp"]) {
        None => Ok(false),
        Some(Value::String(time)) => Ok(!time.is_empty()),
        Some(_) => Err(malformed("metadata.deletionTimestamp", "a string")),
    }
}

pub(super) fn conditions(object: &Object) -> Result<Vec<Condition<'_>>, Malformed> {
    match at(object, &["status"]) {
        None | Some(Value::Object(_)) => {}
        Some(_) => return Err(malformed("status", "an object")),
    }
    let list = match at(object, &["status", "conditions"]) {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(malformed("status.conditions", "a list")),
    };
    list.iter()
        .enumerate()
        .map(|(index, entry)| condition(index, entry))
        .collect()
}

fn condition(index: usize, entry: &Value) -> Result<Condition<'_>, Malformed> {
    let place = || format!("status.conditions[{index}]");
    let entry = entry.as_object().ok_or_else(|| malformed(place(), "an object"))?;
    let field = |key: &str| match entry.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(malformed(format!("{}.{key}", place()), "a string")),
    };
    Ok(Condition {
        kind: field("type")?,
        status: field("status")?,
        reason: field("reason")?,
        message: field("message")?,
    })
}
