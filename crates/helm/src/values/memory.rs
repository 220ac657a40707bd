//! Memory limits of coalescing.
//!
//! Globals are copied into each subchart, imports into each parent, and each chart with dependencies
//! processes all values again: small files may multiply level by level. So each copy is weighed before it
//! is made, in bytes of memory.

use super::coalesce::CoalesceError;
use crate::chart::Values;
use crate::metadata::Metadata;
use serde_json::Value;
use std::io;

/// The most bytes at one time: hundreds of times the values of large charts.
const BYTES_MAX: usize = 128 << 20;
/// The most copied bytes in total, which bounds the time.
const COPIED_MAX: usize = 2 << 30;

pub(crate) struct MemoryBudget {
    left: usize,
    copies_left: usize,
}

impl MemoryBudget {
    pub(crate) fn new() -> Self {
        Self {
            left: BYTES_MAX,
            copies_left: COPIED_MAX,
        }
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), CoalesceError> {
        self.left = self
            .left
            .checked_sub(bytes)
            .ok_or(CoalesceError::Bytes(BYTES_MAX))?;
        self.copies_left = self
            .copies_left
            .checked_sub(bytes)
            .ok_or(CoalesceError::Copied(COPIED_MAX))?;
        Ok(())
    }

    pub(crate) fn left(&self) -> usize {
        self.left
    }

    pub(crate) fn free(&mut self, bytes: usize) {
        self.left += bytes;
    }
}

/// The bytes of a value besides its own slot.
pub(crate) fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| size_of::<Value>() + weight(item)).sum(),
        Value::Object(map) => weight_of_map(map),
    }
}

/// The bytes of a map entry besides its value.
pub(crate) fn weight_of_key(key: &str) -> usize {
    const ENTRY: usize = 100;
    ENTRY + key.len()
}

/// A map allocates slots for eleven entries.
const FIRST: usize = 560;

/// The bytes of a map with one entry.
pub(crate) fn weight_of_nest(key: &str) -> usize {
    FIRST + weight_of_key(key)
}

pub(crate) fn weight_of_map(map: &Values) -> usize {
    let entries = map
        .iter()
        .map(|(key, value)| weight_of_key(key) + weight(value))
        .sum::<usize>();
    match map.is_empty() {
        true => 0,
        false => FIRST + entries,
    }
}

/// The bytes of a chart's metadata, which is copied with each alias: about ten times its text.
pub(crate) fn weight_of_metadata(metadata: &Metadata) -> usize {
    struct Counted(usize);
    impl io::Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counted = Counted(size_of::<Metadata>());
    match serde_json::to_writer(&mut counted, metadata) {
        Ok(()) => counted.0.saturating_mul(10),
        Err(_) => usize::MAX,
    }
}
