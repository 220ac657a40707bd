//! JSON merge patch, RFC 7386, with the API server library's nulls: a list that replaces a non-object loses
//! null fields of its objects; the RFC keeps them.

use crate::json::type_name;
use serde_json::{Map, Value};

/// Why a document is not a merge patch: status 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// A list or a scalar.
    #[error(
        "error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    )]
    Type {
        /// The JSON type found.
        found: &'static str,
    },
    /// `null`.
    #[error("Invalid JSON Patch")]
    Null,
}

/// Merges `patch` into `original`.
pub fn apply(mut original: Value, patch: &Value) -> Result<Value, MergeError> {
    match patch {
        Value::Object(fields) => match &mut original {
            Value::Object(document) => {
                merge_fields(document, fields);
                Ok(original)
            }
            _ => Ok(without_nulls(patch)),
        },
        Value::Null => Err(MergeError::Null),
        other => Err(MergeError::Type {
            found: type_name(other),
        }),
    }
}

fn merge_fields(document: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match (document.get_mut(key), value) {
            (_, Value::Null) => {
                document.remove(key);
            }
            (Some(Value::Object(current)), Value::Object(fields)) => merge_fields(current, fields),
            (Some(current @ Value::Object(_)), _) => *current = value.clone(),
            (Some(current), _) => *current = without_nulls(value),
            (None, _) => {
                document.insert(key.clone(), without_nulls(value));
            }
        }
    }
}

/// Removes null fields at any depth; null list items stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
