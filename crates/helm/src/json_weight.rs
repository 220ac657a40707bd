//! The memory of a JSON text, computed before it is parsed.
//!
//! A map with one entry takes a hundred times the memory of its text. This pass keeps nothing. Use it
//! before parsing untrusted JSON into memory.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

const PLACE: usize = size_of::<serde_json::Value>();
/// The bytes of a map or struct, and of each entry.
const MAP: usize = 560;
const ENTRY: usize = 100;

/// Whether a text takes at most this many bytes once parsed. The parser reports invalid JSON.
pub(crate) fn is_within(json: &[u8], bytes_max: usize) -> bool {
    let mut left = Some(bytes_max);
    let mut reader = serde_json::Deserializer::from_slice(json);
    // the only error that counts is exhaustion, which leaves `None`
    let _ = Weigher { left: &mut left }.deserialize(&mut reader);
    left.is_some()
}

struct Weigher<'l> {
    left: &'l mut Option<usize>,
}

impl Weigher<'_> {
    fn take<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        *self.left = self.left.and_then(|left| left.checked_sub(bytes));
        self.left
            .map(|_| ())
            .ok_or_else(|| E::custom("the text takes too much memory"))
    }

    fn again(&mut self) -> Weigher<'_> {
        Weigher { left: self.left }
    }
}

impl<'de> DeserializeSeed<'de> for Weigher<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Weigher<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.take(text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self.again())?.is_some() {
            self.take(PLACE)?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        self.take(MAP)?;
        while entries.next_key_seed(self.again())?.is_some() {
            self.take(ENTRY)?;
            entries.next_value_seed(self.again())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::is_within;

    #[test]
    fn weights() {
        for (json, bytes_max, is) in [
            (r#""abc""#, 3, true),
            (r#""abc""#, 2, false),
            ("[1, true, null, 1.5]", 128, true),
            ("[1, true, null, 1.5]", 127, false),
            ("{}", 560, true),
            (r#"{"a": "b"}"#, 662, true),
            (r#"{"a": "b"}"#, 661, false),
            ("?", 0, true),
        ] {
            assert_eq!(is_within(json.as_bytes(), bytes_max), is, "{json} {bytes_max}");
        }
    }
}
