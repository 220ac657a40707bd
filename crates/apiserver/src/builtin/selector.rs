//! Label selectors in objects: `matchLabels` and `matchExpressions`.

use super::meta::{strings, validate_labels};
use super::names;
use super::tree::{entries, get, items, text};
use crate::field::FieldError;
use serde_json::Value;

pub(crate) fn validate(selector: &Value, path: &str) -> Vec<FieldError> {
    let mut out = validate_labels(get(selector, "matchLabels"), &format!("{path}.matchLabels"));
    for (i, expression) in items(selector, "matchExpressions").iter().enumerate() {
        let path = format!("{path}.matchExpressions[{i}]");
        let values = items(expression, "values");
        let operator = text(expression, "operator");
        match operator {
            "In" | "NotIn" if values.is_empty() => out.push(FieldError::required(
                format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => out.push(FieldError::forbidden(
                format!("{path}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => out.push(FieldError::invalid(
                format!("{path}.operator"),
                &operator.into(),
                "not a valid selector operator",
            )),
        }
        let key = text(expression, "key");
        for message in names::qualified_name(key) {
            out.push(FieldError::invalid(format!("{path}.key"), &key.into(), message));
        }
        for (j, value) in values.iter().enumerate() {
            for message in names::label_value(value.as_str().unwrap_or("")) {
                out.push(FieldError::invalid(format!("{path}.values[{j}]"), value, message));
            }
        }
    }
    out
}

pub(crate) fn is_legible(selector: &Value) -> bool {
    validate(selector, "").is_empty()
}

pub(crate) fn is_empty(selector: &Value) -> bool {
    entries(selector, "matchLabels").next().is_none() && items(selector, "matchExpressions").is_empty()
}

/// Whether labels match a legible selector. A missing selector matches nothing, an empty one everything.
pub(crate) fn matches(selector: &Value, labels: &Value) -> bool {
    !selector.is_null()
        && entries(selector, "matchLabels").all(|(key, value)| labels.get(key) == Some(value))
        && items(selector, "matchExpressions").iter().all(|expression| {
            let label = labels.get(text(expression, "key")).and_then(Value::as_str);
            let listed = label.is_some_and(|l| strings(expression, "values").any(|v| v == l));
            match text(expression, "operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => label.is_some(),
                "DoesNotExist" => label.is_none(),
                _ => false,
            }
        })
}
