//! One hash for all forms of a value.
//!
//! Nulls in maps count as absent, because the API server drops them; a number has one form. The order of
//! maps does not count, that of lists does.

use serde_json::{Number, Value};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// A SHA-256 over owned fields in canonical form; prints in hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    pub(super) fn of(write: impl FnOnce(&mut Sha256)) -> Self {
        let mut hash = Sha256::new();
        write(&mut hash);
        Self(hash.finalize().into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    /// The first bytes only: enough for a failing test.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "{a:02x}{b:02x}{c:02x}{d:02x}…")
    }
}

/// Every value starts with a tag and its length or an end mark, so that encodings are unambiguous.
pub(super) fn hash(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Null => hash.update(b"n"),
        Value::Bool(true) => hash.update(b"t"),
        Value::Bool(false) => hash.update(b"f"),
        Value::Number(number) => hash_number(hash, number),
        Value::String(text) => hash_text(hash, b"s", text),
        Value::Array(items) => {
            hash.update(b"[");
            items.iter().for_each(|item| self::hash(hash, item));
            hash.update(b"]");
        }
        Value::Object(map) => hash_map(hash, map.iter(), |hash, _, value| self::hash(hash, value)),
    }
}

/// A map of sorted entries; nulls are skipped.
pub(super) fn hash_map<'a>(
    hash: &mut Sha256,
    entries: impl Iterator<Item = (&'a String, &'a Value)>,
    mut inner: impl FnMut(&mut Sha256, &str, &Value),
) {
    hash.update(b"{");
    for (key, value) in entries.filter(|(_, value)| !value.is_null()) {
        hash_key(hash, key);
        inner(hash, key, value);
    }
    hash.update(b"}");
}

pub(super) fn hash_empty(hash: &mut Sha256) {
    hash.update(b"{}");
}

pub(super) fn hash_key(hash: &mut Sha256, key: &str) {
    hash_text(hash, b"k", key);
}

fn hash_text(hash: &mut Sha256, tag: &[u8], text: &str) {
    hash.update(tag);
    hash.update(text.len().to_le_bytes());
    hash.update(text.as_bytes());
}

fn hash_number(hash: &mut Sha256, number: &Number) {
    /// Below this every whole float is exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let whole = match number.as_f64() {
        _ if number.is_i64() || number.is_u64() => Some(number.to_string()),
        // `+ 0.0` makes a negative zero positive
        Some(float) if float.fract() == 0.0 && float.abs() <= EXACT => Some(format!("{:.0}", float + 0.0)),
        _ => None,
    };
    match (whole, number.as_f64()) {
        (Some(text), _) => hash_text(hash, b"i", &text),
        (None, Some(float)) => {
            hash.update(b"d");
            hash.update(float.to_bits().to_le_bytes());
        }
        (None, None) => hash_text(hash, b"?", &number.to_string()),
    }
}
