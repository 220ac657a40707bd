//! JSON the way the API server reads and writes it.
//!
//! `serde_json` would do for values, but clients see three things it does not
//! give: which keys a body repeats (`fieldValidation`), the texts of Go's
//! `encoding/json` errors, and Go's spelling of numbers and strings. The rules
//! are those of `sigs.k8s.io/json` and Go 1.26's `encoding/json`.
//!
//! Refused: more than one value, nesting deeper than [`DEPTH_MAX`] (Go stops at
//! 10,000; the walkers here recurse, so the limit is lower), numbers outside
//! float64.

mod read;
mod write;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use read::{Decoded, JsonError, decode};
pub use write::go_float;
pub(crate) use write::go_float32;
pub use write::{to_go_string, write_go};

/// The deepest nesting [`decode`] accepts.
pub const DEPTH_MAX: usize = 512;

/// What Go's JSON errors call a value's type.
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
