//! Go's `encoding/json` with unknown fields refused, for the types of a kustomization.
//!
//! The value is first normalized (canonical field names, no nulls, checked types), then deserialized, which
//! cannot fail after that.

use crate::error::Fault;
use equate_manifest::json::type_name;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::HashMap;

#[derive(Debug)]
pub(crate) enum Shape {
    Text,
    Flag,
    Integer,
    /// A map of strings.
    Texts,
    List(&'static Shape),
    Struct {
        name: &'static str,
        fields: &'static [(&'static str, Shape)],
    },
    Any,
}

impl Shape {
    fn wanted(&self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Flag => "true or false",
            Self::Integer => "a whole number",
            Self::Texts => "a map of strings",
            Self::List(_) => "a list",
            Self::Struct { .. } | Self::Any => "a map",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownFields {
    Refused,
    Ignored,
}

/// A fault and the pointer segments of its place.
pub(crate) type DecodeFault = (Vec<String>, Fault);

/// Decodes a value. `spellings` records how the file spells top-level fields.
pub(crate) fn decode<T: DeserializeOwned + Default>(
    value: Value,
    shape: &'static Shape,
    unknown: UnknownFields,
    spellings: &mut HashMap<String, String>,
) -> Result<T, DecodeFault> {
    let mut decoder = Decoder {
        unknown,
        root: match shape {
            Shape::Struct { name, .. } => name,
            _ => "",
        },
        pointer: Vec::new(),
        spellings,
    };
    let value = decoder.canonical(value, shape, "")?;
    match value {
        None => Ok(T::default()),
        Some(value) => {
            serde_json::from_value(value).map_err(|source| (Vec::new(), Fault::Decode(source.to_string())))
        }
    }
}

struct Decoder<'s> {
    unknown: UnknownFields,
    root: &'static str,
    pointer: Vec<String>,
    spellings: &'s mut HashMap<String, String>,
}

impl Decoder<'_> {
    fn canonical(
        &mut self,
        value: Value,
        shape: &'static Shape,
        field: &str,
    ) -> Result<Option<Value>, DecodeFault> {
        if value.is_null() {
            return Ok(None);
        }
        Ok(Some(match (shape, value) {
            (Shape::Any, value)
            | (Shape::Text, value @ Value::String(_))
            | (Shape::Flag, value @ Value::Bool(_)) => value,
            (Shape::Integer, value) if value.is_i64() => value,
            // sigs.k8s.io/yaml decodes any scalar into a Go string field
            (Shape::Text, value @ (Value::Bool(_) | Value::Number(_)))
                if self.unknown == UnknownFields::Ignored =>
            {
                crate::resource::scalar_text(&value).unwrap_or_default().into()
            }
            (Shape::Texts, Value::Object(map)) => {
                let mut texts = Map::new();
                for (key, value) in map {
                    self.pointer.push(escape(&key));
                    let text = self.canonical(value, &Shape::Text, field)?;
                    texts.insert(key, text.unwrap_or_else(|| "".into()));
                    self.pointer.pop();
                }
                texts.into()
            }
            (Shape::List(item), Value::Array(values)) => {
                let mut items = Vec::with_capacity(values.len());
                for (index, value) in values.into_iter().enumerate() {
                    self.pointer.push(index.to_string());
                    items.extend(self.canonical(value, item, field)?.or_else(|| zero(item)));
                    self.pointer.pop();
                }
                items.into()
            }
            (Shape::Struct { name, fields }, Value::Object(map)) => self.fields(map, name, fields)?,
            (_, value) => return Err(self.decode_fault(&value, shape, field)),
        }))
    }

    fn decode_fault(&self, value: &Value, shape: &Shape, field: &str) -> DecodeFault {
        let (found, wanted) = (type_name(value), shape.wanted());
        let text = match field.is_empty() {
            true => format!(
                "the content of a {} must be {wanted}, but is of type {found}",
                self.root
            ),
            false => {
                let path = self.pointer.join(".").replace("~1", "/");
                format!("{path} must be {wanted}, but is of type {found}")
            }
        };
        (self.pointer.clone(), Fault::Decode(text))
    }

    fn fields(
        &mut self,
        map: Map<String, Value>,
        name: &str,
        fields: &'static [(&'static str, Shape)],
    ) -> Result<Value, DecodeFault> {
        let mut known = Map::new();
        for (key, value) in map {
            let exact = fields.iter().find(|(name, _)| *name == key);
            let found = exact.or_else(|| fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key)));
            let Some((canonical_name, shape)) = found else {
                if self.unknown == UnknownFields::Ignored {
                    continue;
                }
                self.pointer.push(escape(&key));
                return Err((self.pointer.clone(), Fault::UnknownField { field: key }));
            };
            let place = format!("{name}.{canonical_name}");
            if self.pointer.is_empty() && key != *canonical_name {
                self.spellings.insert((*canonical_name).to_owned(), escape(&key));
            }
            self.pointer.push(escape(&key));
            if let Some(value) = self.canonical(value, shape, &place)? {
                known.insert((*canonical_name).to_owned(), value);
            }
            self.pointer.pop();
        }
        Ok(known.into())
    }
}

/// The meaning of null as a list item.
fn zero(shape: &Shape) -> Option<Value> {
    match shape {
        Shape::Text => Some("".into()),
        Shape::Flag => Some(false.into()),
        Shape::Integer => Some(0.into()),
        Shape::Texts | Shape::Struct { .. } => Some(Map::new().into()),
        Shape::List(_) => Some(Value::Array(Vec::new())),
        Shape::Any => None,
    }
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
