//! Cells of custom resources.

use super::duration::since;
use super::jsonpath::JsonPath;
use crate::crd::PrinterColumn;
use equate_manifest::json::{go_float, to_go_string};
use jiff::Timestamp;
use serde_json::Value;

pub(super) fn cells(columns: &[PrinterColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    let metadata = |field: &str| {
        object
            .pointer(&format!("/metadata/{field}"))
            .and_then(Value::as_str)
    };
    let mut cells = vec![Value::from(metadata("name").unwrap_or_default())];
    if columns.is_empty() {
        cells.push(since(metadata("creationTimestamp"), now).into());
    }
    cells.extend(
        columns
            .iter()
            .map(|column| cell(&column.json_path, &column.kind, object, now)),
    );
    cells
}

/// The value at a path as a column of the type shows it; null if absent or of another type.
pub(super) fn cell(path: &str, kind: &str, object: &Value, now: Timestamp) -> Value {
    let found = JsonPath::parse(path).ok().and_then(|path| path.first(object));
    let Some(value) = found else {
        return Value::Null;
    };
    match (kind, value) {
        ("string", value) => text(&value).into(),
        ("integer" | "number", Value::Number(number)) => match number.as_f64() {
            // an integer column cuts the fraction; whole numbers are written without one anyway
            Some(float) if number.is_f64() && (kind == "integer" || float.fract() == 0.0) => {
                Value::from(float as i64)
            }
            _ => Value::Number(number),
        },
        ("boolean", Value::Bool(flag)) => flag.into(),
        ("date", Value::String(time)) => since(Some(&time), now).into(),
        _ => Value::Null,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => go_float(float),
            _ => number.to_string(),
        },
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => to_go_string(value),
    }
}
