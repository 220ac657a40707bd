//! The memory of values that anchors and aliases copy: a short text can name a long value many times.

use super::error::Fault;
use serde_json::Value;

/// A value counts as 24 bytes and its text.
const BYTES_MAX: usize = 64 << 20;
const VALUE_BYTES: usize = 24;

#[derive(Default)]
pub(super) struct Copies {
    bytes: usize,
}

impl Copies {
    /// Counts a copy before it is made.
    pub(super) fn add(&mut self, value: &Value) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(bytes_of(value));
        if self.bytes > BYTES_MAX {
            return Err(Fault::Aliases(BYTES_MAX));
        }
        Ok(())
    }
}

fn bytes_of(value: &Value) -> usize {
    let below = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes_of).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + bytes_of(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    below + VALUE_BYTES
}
