//! The smallest merge patch between two states of a status.

use serde::Serialize;
use serde_json::{Map, Value};

/// The JSON merge patch from `before` to `after`; `None` if they are equal.
///
/// Removed fields become null, so that the API server removes them: `after` alone would keep them.
///
/// # Errors
///
/// When a state cannot be encoded as JSON.
pub fn merge_patch<T: Serialize>(before: &T, after: &T) -> Result<Option<Value>, serde_json::Error> {
    let (before, after) = (serde_json::to_value(before)?, serde_json::to_value(after)?);
    Ok(difference(&before, &after))
}

fn difference(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch: Map<String, Value> = old
        .keys()
        .filter(|key| !new.contains_key(*key))
        .map(|key| (key.clone(), Value::Null))
        .collect();
    for (key, value) in new {
        match old.get(key) {
            Some(was) => {
                if let Some(changed) = difference(was, value) {
                    patch.insert(key.clone(), changed);
                }
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Some(Value::Object(patch))
}
