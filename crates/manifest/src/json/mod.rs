//! JSON as the API server reads and writes it.
//!
//! Clients see three things `serde_json` lacks: repeated keys (`fieldValidation`), error texts of Go's
//! `encoding/json`, and Go's spelling of numbers and strings. The rules are those of `sigs.k8s.io/json` and
//! Go 1.26's `encoding/json`.
//!
//! Refused: more than one value, numbers outside float64, and nesting deeper than [`DEPTH_MAX`] (Go allows
//! 10,000; the walkers here recurse).

mod read;
mod write;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use read::{Decoded, JsonError, decode};
pub use write::go_float;
pub(crate) use write::go_float32;
pub use write::{go_quote, to_go_string, write_go};

/// The deepest nesting [`decode`] accepts.
pub const DEPTH_MAX: usize = 512;

/// The name of a value's type in Go's JSON errors.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
