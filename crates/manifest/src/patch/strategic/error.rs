//! Errors of a strategic merge patch, with upstream's texts.

use serde_json::Value;
use std::fmt::Write as _;

/// Why a strategic merge patch does not apply. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts describe the variants")]
pub enum StrategicError {
    #[error("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")]
    NotAnObject { found: &'static str },
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    #[error("invalid patch format of setElementOrder list")]
    ElementOrder,
    #[error("lists of lists are not supported")]
    ListOfLists,
    #[error("unknown patch type: {directive} in map: {map}")]
    Directive { directive: String, map: String },
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirective,
    #[error("map: {map} does not contain declared merge key: {key}")]
    NoMergeKey { map: String, key: String },
    #[error("cannot merge lists without merge key for struct")]
    NoDeclaredKey,
    #[error("expected a {expected}, but received a {actual}")]
    Type {
        expected: &'static str,
        actual: &'static str,
    },
    #[error("value for key {index} is not a map")]
    ItemNotMap { index: usize },
    #[error("list element types are not identical: {lists}")]
    MixedList { lists: String },
    #[error("no elements in any of the given slices")]
    NoElements,
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    OrderMismatch { patch: String, order: String },
    #[error("unable to find api field in struct {structure} for the json field {field:?}")]
    UnknownField { structure: String, field: String },
    #[error("merging an object in json but data type is not struct, instead is: {found}")]
    NotAStruct { found: &'static str },
    #[error("expected slice or array type, but got: struct")]
    NotAList,
    #[error("unexpected patch strategy: [{strategies}]")]
    Strategy { strategies: String },
    #[error("unable to resolve {reference} in the schema")]
    Reference { reference: String },
}

/// The API server's response to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// 400 BadRequest with the error's text.
    BadRequest,
    /// 422 with the generic text.
    Unprocessable,
    /// 500 with the error's text.
    Internal,
}

impl StrategicError {
    /// The response for this error.
    pub fn fault(&self) -> Fault {
        match self {
            Self::NotAnObject { .. } | Self::PrimitiveList | Self::RetainKeys | Self::ElementOrder => {
                Fault::BadRequest
            }
            Self::ListOfLists => Fault::Unprocessable,
            Self::Directive { .. }
            | Self::MergeDirective
            | Self::NoMergeKey { .. }
            | Self::NoDeclaredKey
            | Self::Type { .. }
            | Self::ItemNotMap { .. }
            | Self::MixedList { .. }
            | Self::NoElements
            | Self::OrderMismatch { .. }
            | Self::UnknownField { .. }
            | Self::NotAStruct { .. }
            | Self::NotAList
            | Self::Strategy { .. }
            | Self::Reference { .. } => Fault::Internal,
        }
    }

    pub(super) fn expected_list(actual: &Value) -> Self {
        Self::Type {
            expected: "[]interface {}",
            actual: go_type(actual),
        }
    }

    pub(super) fn expected_map(actual: &Value) -> Self {
        Self::Type {
            expected: "map[string]interface {}",
            actual: go_type(actual),
        }
    }

    pub(super) fn no_merge_key(map: &Value, key: &str) -> Self {
        Self::NoMergeKey {
            map: display(map),
            key: key.to_owned(),
        }
    }
}

/// The Go type of a decoded value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Go's `%v`.
pub(super) fn display(value: &Value) -> String {
    let mut out = String::new();
    write_display(&mut out, value);
    out
}

/// Go's `%v` of a list.
pub(super) fn display_list(items: &[Value]) -> String {
    let mut out = String::from("[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        write_display(&mut out, item);
    }
    out.push(']');
    out
}

fn write_display(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(flag) => {
            let _ = write!(out, "{flag}");
        }
        Value::Number(number) => {
            let _ = match number.as_f64() {
                Some(float) if number.is_f64() => write!(out, "{}", crate::json::go_float(float)),
                _ => write!(out, "{number}"),
            };
        }
        Value::String(text) => out.push_str(text),
        Value::Array(items) => out.push_str(&display_list(items)),
        Value::Object(map) => {
            out.push_str("map[");
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_display(out, item);
            }
            out.push(']');
        }
    }
}
