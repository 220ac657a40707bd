//! Go's `encoding/json`, unknown fields refused, for the shapes a kustomization has.
//!
//! The value is first brought into canonical form (names in their own case,
//! nulls gone, types checked), then deserialized, which cannot fail any more.

use crate::error::Fault;
use equate_manifest::json::type_name;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// What a value may look like.
#[derive(Debug)]
pub(crate) enum Shape {
    Text,
    Flag,
    Integer,
    /// A map of texts.
    Texts,
    List(&'static Shape),
    Struct {
        /// The Go type's name, for messages.
        name: &'static str,
        fields: &'static [(&'static str, Shape)],
    },
    /// Another shape, by reference, so that shapes can be shared.
    Same(&'static Shape),
    /// Anything.
    Any,
}

impl Shape {
    fn go_type(&self) -> String {
        match self {
            Self::Text => "string".to_owned(),
            Self::Flag => "bool".to_owned(),
            Self::Integer => "int64".to_owned(),
            Self::Texts => "map[string]string".to_owned(),
            Self::List(item) => format!("[]{}", item.go_type()),
            Self::Struct { name, .. } => format!("types.{name}"),
            Self::Same(shape) => shape.go_type(),
            Self::Any => "interface {}".to_owned(),
        }
    }
}

/// What is wrong, and the pointer segments of where.
pub(crate) type Misfit = (Vec<String>, Fault);

/// Decodes a value. `spellings` learns how the file spells top-level fields.
pub(crate) fn decode<T: DeserializeOwned + Default>(
    value: Value,
    shape: &'static Shape,
    spellings: &mut HashMap<String, String>,
) -> Result<T, Misfit> {
    let mut pointer = Vec::new();
    let value = canonical(value, shape, "", &mut pointer, spellings)?;
    match value {
        None => Ok(T::default()),
        Some(value) => {
            serde_json::from_value(value).map_err(|source| (Vec::new(), Fault::Decode(source.to_string())))
        }
    }
}

fn canonical(
    value: Value,
    shape: &'static Shape,
    field: &str,
    pointer: &mut Vec<String>,
    spellings: &mut HashMap<String, String>,
) -> Result<Option<Value>, Misfit> {
    let wrong = |value: &Value, pointer: &[String]| {
        let found = type_name(value);
        let wanted = shape.go_type();
        let text = if field.is_empty() {
            format!("json: cannot unmarshal {found} into Go value of type {wanted}")
        } else {
            format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")
        };
        Err((pointer.to_vec(), Fault::Decode(text)))
    };
    if value.is_null() {
        return Ok(None);
    }
    Ok(Some(match (shape, value) {
        (Shape::Same(shape), value) => return canonical(value, shape, field, pointer, spellings),
        (Shape::Any, value)
        | (Shape::Text, value @ Value::String(_))
        | (Shape::Flag, value @ Value::Bool(_)) => value,
        (Shape::Integer, value) if value.is_i64() => value,
        (Shape::Texts, Value::Object(map)) => {
            let mut texts = Map::new();
            for (key, value) in map {
                pointer.push(escape(&key));
                let text = canonical(value, &Shape::Text, field, pointer, spellings)?;
                texts.insert(key, text.unwrap_or_else(|| "".into()));
                pointer.pop();
            }
            texts.into()
        }
        (Shape::List(item), Value::Array(values)) => {
            let mut items = Vec::with_capacity(values.len());
            for (index, value) in values.into_iter().enumerate() {
                pointer.push(index.to_string());
                items.extend(canonical(value, item, field, pointer, spellings)?.or_else(|| zero(item)));
                pointer.pop();
            }
            items.into()
        }
        (Shape::Struct { name, fields }, Value::Object(map)) => {
            canonical_struct(map, name, fields, pointer, spellings)?
        }
        (_, value) => return wrong(&value, pointer),
    }))
}

fn canonical_struct(
    map: Map<String, Value>,
    name: &str,
    fields: &'static [(&'static str, Shape)],
    pointer: &mut Vec<String>,
    spellings: &mut HashMap<String, String>,
) -> Result<Value, Misfit> {
    let mut known = Map::new();
    for (key, value) in map {
        let exact = fields.iter().find(|(name, _)| *name == key);
        let found = exact.or_else(|| fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key)));
        pointer.push(escape(&key));
        let Some((canonical_name, shape)) = found else {
            return Err((pointer.clone(), Fault::UnknownField { field: key }));
        };
        let place = format!("{name}.{canonical_name}");
        if pointer.len() == 1 && key != *canonical_name {
            spellings.insert((*canonical_name).to_owned(), escape(&key));
        }
        if let Some(value) = canonical(value, shape, &place, pointer, spellings)? {
            known.insert((*canonical_name).to_owned(), value);
        }
        pointer.pop();
    }
    Ok(known.into())
}

/// What null means as an item of a list.
fn zero(shape: &Shape) -> Option<Value> {
    match shape {
        Shape::Text => Some("".into()),
        Shape::Flag => Some(false.into()),
        Shape::Integer => Some(0.into()),
        Shape::Texts | Shape::Struct { .. } => Some(Map::new().into()),
        Shape::List(_) => Some(Value::Array(Vec::new())),
        Shape::Same(shape) => zero(shape),
        Shape::Any => None,
    }
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
