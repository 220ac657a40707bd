//! `FieldsV1`: a set as JSON.
//!
//! An object's key is a path element; `{}` ends a path there; `".": {}` inside
//! a longer object says that the element itself is in the set as well.
//! Elements of unknown kinds are skipped, as a newer writer may have left them.

use super::element::{ParseElementError, PathElement};
use super::set::Set;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

impl Set {
    /// Reads `fieldsV1`.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(fields)
    }

    /// Writes `fieldsV1`.
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
    /// Reads the JSON of `FieldsV1`; a repeated key adds to what the earlier one said.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Level::deserialize(deserializer)?.set)
    }
}

/// One object of the wire form: what lies below an element, and whether the element is a member itself.
#[derive(Default)]
struct Level {
    set: Set,
    itself: bool,
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
                    let element = match PathElement::parse(&key) {
                        Ok(element) => element,
                        Err(ParseElementError::UnknownKind(_)) => {
                            map.next_value::<serde::de::IgnoredAny>()?;
                            continue;
                        }
                        Err(error) => {
                            return Err(A::Error::custom(format_args!(
                                "parsing key as path element: {error}"
                            )));
                        }
                    };
                    let below = map.next_value::<Level>()?;
                    if below.itself || below.set.is_empty() {
                        out.set.insert_member(element.clone());
                    }
                    out.set.insert_child(element, below.set);
                }
                Ok(out)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}
