//! Objects as rules see them: JSON with the types of its schema.

use super::escape;
use crate::crd::correlate;
use crate::crd::formats::parse_duration;
use crate::crd::node::Node;
use base64::Engine as _;
use equate_cel::{Evaluated, Fail, Fields, List, ListKind, Map, Schema, Text, Val, parse_time};
use equate_manifest::schema::{ListType, SchemaType};
use jiff::Timestamp;
use serde_json::Value;
use std::sync::LazyLock;

/// The schema of a whole object.
#[derive(Debug)]
pub(super) struct Whole<'n>(pub(super) &'n Node);

static TEXT: LazyLock<Node> = LazyLock::new(|| Node {
    kind: Some(SchemaType::String),
    ..Node::default()
});

static METADATA: LazyLock<Node> = LazyLock::new(|| {
    let mut node = Node {
        kind: Some(SchemaType::Object),
        ..Node::default()
    };
    for name in ["name", "generateName"] {
        let text = Node {
            kind: Some(SchemaType::String),
            ..Node::default()
        };
        node.properties.insert(name.to_owned(), text);
    }
    node
});

/// The schema of a field as rules see it: whole objects always have a type, and a name in their metadata.
pub(super) fn field_schema<'a>(schema: &'a Node, whole: bool, name: &str) -> Option<&'a Node> {
    if whole || schema.embedded {
        match name {
            "apiVersion" | "kind" => return Some(&TEXT),
            "metadata" => return Some(&METADATA),
            _ => {}
        }
    }
    schema.properties.get(name)
}

/// Whether the schema declares its fields one by one, so that their names are escaped.
pub(super) fn is_struct(schema: &Node, whole: bool) -> bool {
    whole || schema.embedded || !schema.properties.is_empty() || schema.additional_schema().is_none()
}

impl Schema for Node {
    fn read<'a>(&'a self, value: &'a Value) -> Evaluated<'a> {
        read(self, self, value)
    }

    fn item<'a>(&'a self, value: &'a Value) -> Evaluated<'a> {
        item(self, value)
    }

    fn field<'a>(&'a self, fields: &'a Fields, name: &str) -> Option<Evaluated<'a>> {
        field(self, false, fields, name)
    }

    fn names<'a>(&'a self, fields: &'a Fields) -> Vec<Val<'a>> {
        names(self, false, fields)
    }

    fn object_name(&self) -> &'static str {
        object_name(self, false)
    }

    fn list_kind(&self) -> ListKind {
        list_kind(self)
    }

    fn is_same_item(&self, one: &Value, other: &Value) -> bool {
        correlate::is_same_item(self, one, other)
    }
}

impl Schema for Whole<'_> {
    fn read<'a>(&'a self, value: &'a Value) -> Evaluated<'a> {
        read(self.0, self, value)
    }

    fn item<'a>(&'a self, value: &'a Value) -> Evaluated<'a> {
        item(self.0, value)
    }

    fn field<'a>(&'a self, fields: &'a Fields, name: &str) -> Option<Evaluated<'a>> {
        field(self.0, true, fields, name)
    }

    fn names<'a>(&'a self, fields: &'a Fields) -> Vec<Val<'a>> {
        names(self.0, true, fields)
    }

    fn object_name(&self) -> &'static str {
        object_name(self.0, true)
    }

    fn list_kind(&self) -> ListKind {
        list_kind(self.0)
    }

    fn is_same_item(&self, one: &Value, other: &Value) -> bool {
        correlate::is_same_item(self.0, one, other)
    }
}

/// Reads a value of a schema; `below` is the schema of its fields or items.
fn read<'a>(schema: &'a Node, below: &'a dyn Schema, value: &'a Value) -> Evaluated<'a> {
    if value.is_null() {
        return match schema.nullable {
            true => Ok(Val::Null),
            false => Err(Fail::new("invalid data, got null for schema with nullable=false")),
        };
    }
    if schema.int_or_string {
        return match value {
            Value::String(text) => Ok(Val::Text(Text::Borrowed(text))),
            other => other.as_i64().map(Val::Int).ok_or_else(|| {
                Fail::new("invalid data, expected XIntOrString value to be either a string or integer")
            }),
        };
    }
    let wrong = |what: &str| Fail::new(format!("invalid data, expected {what}"));
    match schema.kind {
        Some(SchemaType::Object) => match value {
            Value::Object(fields) => Ok(Val::Map(Map::Json(fields, below))),
            _ => Err(wrong("a map for the provided schema with type=object")),
        },
        Some(SchemaType::Array) => match value {
            Value::Array(items) => Ok(Val::List(List::Json(items, below))),
            _ => Err(wrong("an array for the provided schema with type=array")),
        },
        Some(SchemaType::String) => match value {
            Value::String(text) => from_text(text, schema),
            _ => Err(wrong("string")),
        },
        Some(SchemaType::Number) => value.as_f64().map(Val::Double).ok_or_else(|| wrong("float")),
        Some(SchemaType::Integer) => match value.as_i64() {
            Some(n) => Ok(Val::Int(n)),
            None => match value.as_f64() {
                Some(f) if f.fract() == 0.0 && f.abs() < 9.2e18 => Ok(Val::Int(f as i64)),
                _ => Err(wrong("int")),
            },
        },
        Some(SchemaType::Boolean) => value.as_bool().map(Val::Bool).ok_or_else(|| wrong("bool")),
        None if schema.preserve_unknown => Ok(Val::Unknown(value)),
        None => Err(Fail::new(
            "invalid type, expected object, array, number, integer, boolean or string, or no type with \
             x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got ",
        )),
    }
}

fn from_text<'a>(text: &'a str, schema: &Node) -> Evaluated<'a> {
    let format = schema.checks.format.as_ref().map(|format| format.name.as_str());
    let malformed = |what: &str| Fail::new(format!("Invalid {what} {text}"));
    match format {
        Some("duration") => parse_duration(text)
            .map(Val::Duration)
            .ok_or_else(|| malformed("duration")),
        Some("date") => parse_date(text)
            .map(Val::Time)
            .ok_or_else(|| malformed("date formatted string")),
        Some("date-time") => parse_time(text)
            .map(Val::Time)
            .ok_or_else(|| malformed("date-time formatted string")),
        Some("byte") => base64::engine::general_purpose::STANDARD
            .decode(text)
            .or_else(|_| base64::engine::general_purpose::URL_SAFE.decode(text))
            .map(Val::bytes)
            .map_err(|_| malformed("byte formatted string")),
        _ => Ok(Val::Text(Text::Borrowed(text))),
    }
}

fn parse_date(text: &str) -> Option<Timestamp> {
    let date: jiff::civil::Date = text.parse().ok()?;
    Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

fn item<'a>(schema: &'a Node, value: &'a Value) -> Evaluated<'a> {
    match schema.items.as_deref() {
        Some(items) => items.read(value),
        None => Err(Fail::new(
            "invalid array type, expected Items with a non-empty Schema",
        )),
    }
}

fn field<'a>(schema: &'a Node, whole: bool, fields: &'a Fields, name: &str) -> Option<Evaluated<'a>> {
    if is_struct(schema, whole) {
        let name = escape::unescape(name)?;
        // a declared field that is null counts as absent
        let value = fields.get(name.as_ref()).filter(|value| !value.is_null())?;
        return Some(field_schema(schema, whole, &name)?.read(value));
    }
    Some(schema.additional_schema()?.read(fields.get(name)?))
}

fn names<'a>(schema: &'a Node, whole: bool, fields: &'a Fields) -> Vec<Val<'a>> {
    if !is_struct(schema, whole) {
        let names = fields.keys();
        return names.map(|name| Val::Text(Text::Borrowed(name))).collect();
    }
    let declared = fields
        .iter()
        .filter(|(name, value)| !value.is_null() && field_schema(schema, whole, name).is_some());
    let escaped = declared.filter_map(|(name, _)| escape::escape(name));
    escaped
        .map(|name| Val::Text(Text::Shared(name.as_ref().into())))
        .collect()
}

fn object_name(schema: &Node, whole: bool) -> &'static str {
    if is_struct(schema, whole) { "object" } else { "map" }
}

fn list_kind(schema: &Node) -> ListKind {
    match schema.list_type {
        Some(ListType::Set) => ListKind::Set,
        Some(ListType::Map) => ListKind::Keyed,
        _ => ListKind::Atomic,
    }
}
