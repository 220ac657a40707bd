//! `FieldsV1`: a set as JSON.
//!
//! A key is a path element; `{}` ends a path there; `".": {}` means that the element itself is in the set as
//! well. Unknown kinds of elements are skipped: a newer writer may have added them.

use super::element::{ParseElementError, PathElement};
use super::set::Set;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

impl Set {
    /// Parses `fieldsV1`.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, serde_json::Error> {
        // parsed by hand, because it runs for each manager of each write and serde would copy every key twice
        Ok(Level::of(fields)?.set)
    }

    /// Formats `fieldsV1`.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(self.to_map())
    }

    fn to_map(&self) -> Map<String, Value> {
        let mut out = Map::new();
        for member in self.members() {
            out.insert(member.to_wire(), Value::Object(Map::new()));
        }
        for (element, child) in self.children() {
            let mut inner = child.to_map();
            if self.has_member(element) {
                inner.insert(".".to_owned(), Value::Object(Map::new()));
            }
            out.insert(element.to_wire(), Value::Object(inner));
        }
        out
    }
}

impl<'de> Deserialize<'de> for Set {
    /// Reads the JSON of `FieldsV1`; repeated keys are merged.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Level::deserialize(deserializer)?.set)
    }
}

/// One object of the wire form: the subset below an element, and whether the element is a member.
#[derive(Default)]
struct Level {
    set: Set,
    itself: bool,
}

impl Level {
    fn of(fields: &Value) -> Result<Self, serde_json::Error> {
        let mut out = Self::default();
        let entries = match fields {
            Value::Object(entries) => entries,
            Value::Null => return Ok(out),
            _ => return Err(serde_json::Error::custom("expected an object of path elements")),
        };
        for (key, value) in entries {
            if key == "." {
                out.itself = true;
            } else if let Some(element) = element(key)? {
                out.insert(element, Self::of(value)?);
            }
        }
        Ok(out)
    }

    fn insert(&mut self, element: PathElement, below: Self) {
        if below.itself || below.set.is_empty() {
            self.set.insert_member(element.clone());
        }
        self.set.insert_child(element, below.set);
    }
}

/// Parses a key; `None` if its kind is unknown.
fn element<E: serde::de::Error>(key: &str) -> Result<Option<PathElement>, E> {
    match PathElement::parse(key) {
        Ok(element) => Ok(Some(element)),
        Err(ParseElementError::UnknownKind(_)) => Ok(None),
        Err(error) => Err(E::custom(format_args!("parsing key as path element: {error}"))),
    }
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Level;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of path elements")
            }

            fn visit_unit<E>(self) -> Result<Level, E> {
                Ok(Level::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Level, A::Error> {
                let mut out = Level::default();
                while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                    if key == "." {
                        map.next_value::<serde::de::IgnoredAny>()?;
                        out.itself = true;
                        continue;
                    }
                    match element(&key)? {
                        Some(element) => out.insert(element, map.next_value()?),
                        None => {
                            map.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(out)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}
