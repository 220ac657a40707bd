//! Values of rules, borrowed from the objects.
//!
//! A schema types JSON only where a rule reads it: a list or an object stays a reference until then.

use crate::crd::correlate;
use crate::crd::formats::parse_duration;
use crate::crd::node::Node;
use base64::Engine as _;
use equate_manifest::schema::{ListType, SchemaType};
use jiff::Timestamp;
use kube_cel::cel::objects::Opaque;
use serde_json::Value;
use std::cmp::Ordering;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fail {
    Limit,
    /// Any other error, with cel-go's text.
    Error(Rc<str>),
}

impl Fail {
    pub(super) fn new(text: impl AsRef<str>) -> Self {
        Self::Error(Rc::from(text.as_ref()))
    }

    pub(super) fn no_overload() -> Self {
        Self::new("no such overload")
    }

    pub(super) fn no_key(key: &str) -> Self {
        Self::new(format!("no such key: {key}"))
    }
}

pub(super) type Evaluated<'a> = Result<Val<'a>, Fail>;

#[derive(Debug, Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Rc<[u8]>),
    Duration(i64),
    Time(Timestamp),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Rc<Val<'a>>>),
    Type(Rc<str>),
    Opaque(Library),
    /// Data without a schema: supports comparison only.
    Unknown(&'a Value),
}

/// A value opaque to everything but its library.
#[derive(Clone)]
pub(super) struct Library(pub(super) Arc<dyn Opaque>);

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.runtime_type_name())
    }
}

#[derive(Debug, Clone)]
pub(super) enum Text<'a> {
    Borrowed(&'a str),
    Shared(Rc<str>),
}

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Text::Borrowed(s) => s,
            Text::Shared(s) => s,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum List<'a> {
    Json(&'a [Value], &'a Node),
    Own(Rc<Vec<Val<'a>>>),
}

#[derive(Debug, Clone)]
pub(super) enum Map<'a> {
    /// Fields, their schema, and whether it is a whole object.
    Json(&'a serde_json::Map<String, Value>, &'a Node, bool),
    Own(Rc<Vec<(Val<'a>, Val<'a>)>>),
}

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

impl<'a> Val<'a> {
    pub(super) fn from_json(value: &'a Value, schema: &'a Node, whole: bool) -> Evaluated<'a> {
        if value.is_null() {
            return if schema.nullable {
                Ok(Val::Null)
            } else {
                Err(Fail::new("invalid data, got null for schema with nullable=false"))
            };
        }
        if schema.int_or_string {
            return match value {
                Value::String(s) => Ok(Val::Text(Text::Borrowed(s))),
                other => other.as_i64().map(Val::Int).ok_or_else(|| {
                    Fail::new("invalid data, expected XIntOrString value to be either a string or integer")
                }),
            };
        }
        let wrong = |what: &str| Fail::new(format!("invalid data, expected {what}"));
        match schema.kind {
            Some(SchemaType::Object) => match value {
                Value::Object(map) => Ok(Val::Map(Map::Json(map, schema, whole))),
                _ => Err(wrong("a map for the provided schema with type=object")),
            },
            Some(SchemaType::Array) => match value {
                Value::Array(list) => Ok(Val::List(List::Json(list, schema))),
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

    pub(super) fn text(text: impl Into<Rc<str>>) -> Self {
        Val::Text(Text::Shared(text.into()))
    }

    pub(super) fn list(items: Vec<Val<'a>>) -> Self {
        Val::List(List::Own(Rc::new(items)))
    }

    pub(super) fn some(value: Val<'a>) -> Self {
        Val::Optional(Some(Rc::new(value)))
    }

    /// The name `type()` gives.
    pub(super) fn type_name(&self) -> String {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::UInt(_) => "uint",
            Val::Double(_) => "double",
            Val::Text(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::Time(_) => "google.protobuf.Timestamp",
            Val::List(_) => "list",
            Val::Map(Map::Json(_, schema, whole)) if is_struct(schema, *whole) => "object",
            Val::Map(_) => "map",
            Val::Optional(_) => "optional_type",
            Val::Type(_) => "type",
            Val::Opaque(value) => value.0.runtime_type_name(),
            Val::Unknown(_) => "unknown",
        }
        .to_owned()
    }

    /// CEL's `==`: numbers compare across their types, sets and keyed lists regardless of order.
    pub(super) fn equals(&self, other: &Val<'_>) -> bool {
        match (self, other) {
            (Val::Null, Val::Null) => true,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::Int(_) | Val::UInt(_) | Val::Double(_), Val::Int(_) | Val::UInt(_) | Val::Double(_)) => {
                self.compare(other) == Some(Ordering::Equal)
            }
            (Val::Text(a), Val::Text(b)) => a.as_str() == b.as_str(),
            (Val::Bytes(a), Val::Bytes(b)) => a == b,
            (Val::Duration(a), Val::Duration(b)) => a == b,
            (Val::Time(a), Val::Time(b)) => a == b,
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Opaque(a), Val::Opaque(b)) => a.0.opaque_eq(&*b.0),
            (Val::Unknown(a), Val::Unknown(b)) => a == b,
            (Val::Optional(a), Val::Optional(b)) => match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => a.equals(b),
                _ => false,
            },
            (Val::List(a), Val::List(b)) => a.equals(b),
            (Val::Map(a), Val::Map(b)) => a.equals(b),
            _ => false,
        }
    }

    pub(super) fn compare(&self, other: &Val<'_>) -> Option<Ordering> {
        let int_double = |i: i128, f: f64| {
            if f.is_nan() {
                None
            } else if f >= 1.8e19 {
                Some(Ordering::Less)
            } else if f <= -9.3e18 {
                Some(Ordering::Greater)
            } else {
                let whole = f.trunc() as i128;
                Some(i.cmp(&whole).then(if f.fract() > 0.0 {
                    Ordering::Less
                } else if f.fract() < 0.0 {
                    Ordering::Greater
                } else {
                    Ordering::Equal
                }))
            }
        };
        match (self, other) {
            (Val::Int(a), Val::Int(b)) => Some(a.cmp(b)),
            (Val::UInt(a), Val::UInt(b)) => Some(a.cmp(b)),
            (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
            (Val::Int(a), Val::UInt(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Val::UInt(a), Val::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Val::Int(a), Val::Double(b)) => int_double(i128::from(*a), *b),
            (Val::UInt(a), Val::Double(b)) => int_double(i128::from(*a), *b),
            (Val::Double(a), Val::Int(b)) => int_double(i128::from(*b), *a).map(Ordering::reverse),
            (Val::Double(a), Val::UInt(b)) => int_double(i128::from(*b), *a).map(Ordering::reverse),
            (Val::Text(a), Val::Text(b)) => Some(a.as_str().cmp(b.as_str())),
            (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
            (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
            (Val::Duration(a), Val::Duration(b)) => Some(a.cmp(b)),
            (Val::Time(a), Val::Time(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

fn from_text<'a>(text: &'a str, schema: &Node) -> Evaluated<'a> {
    let format = schema.checks.format.as_ref().map(|f| f.name.as_str());
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
            .map(|bytes| Val::Bytes(Rc::from(bytes)))
            .map_err(|_| malformed("byte formatted string")),
        _ => Ok(Val::Text(Text::Borrowed(text))),
    }
}

fn parse_date(text: &str) -> Option<Timestamp> {
    let date: jiff::civil::Date = text.parse().ok()?;
    Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

/// RFC 3339; without an offset it is UTC.
pub(super) fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse::<Timestamp>().ok().or_else(|| {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    })
}

impl<'a> List<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            List::Json(items, _) => items.len(),
            List::Own(items) => items.len(),
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<Evaluated<'a>> {
        match self {
            List::Json(items, schema) => {
                let item = items.get(index)?;
                Some(match schema.items.as_deref() {
                    Some(inner) => Val::from_json(item, inner, inner.embedded),
                    None => Err(Fail::new(
                        "invalid array type, expected Items with a non-empty Schema",
                    )),
                })
            }
            List::Own(items) => items.get(index).cloned().map(Ok),
        }
    }

    pub(super) fn contains(&self, value: &Val<'_>) -> Result<bool, Fail> {
        for index in 0..self.len() {
            if let Some(item) = self.get(index)
                && item?.equals(value)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn kind(&self) -> Option<ListType> {
        match self {
            List::Json(_, schema) => schema.list_type,
            List::Own(_) => None,
        }
    }

    fn equals(&self, other: &List<'_>) -> bool {
        if self.len() != other.len() {
            return false;
        }
        let at = |list: &List<'_>, i: usize, with: &Val<'_>| match list.get(i) {
            Some(Ok(item)) => item.equals(with),
            _ => false,
        };
        if matches!(self.kind(), Some(ListType::Set | ListType::Map)) {
            return (0..self.len()).all(|i| match self.get(i) {
                Some(Ok(item)) => (0..other.len()).any(|j| at(other, j, &item)),
                _ => false,
            });
        }
        (0..self.len()).all(|i| match self.get(i) {
            Some(Ok(item)) => at(other, i, &item),
            _ => false,
        })
    }

    /// `a + b`: sets and keyed lists are merged, other lists joined.
    pub(super) fn join(&self, other: &List<'a>) -> Evaluated<'a> {
        let mut out = Vec::with_capacity(self.len() + other.len());
        for index in 0..self.len() {
            out.extend(self.get(index).transpose()?);
        }
        if let (List::Json(left, schema), List::Json(right, _), Some(ListType::Map)) =
            (self, other, self.kind())
        {
            for (index, item) in right.iter().enumerate() {
                let Some(value) = other.get(index).transpose()? else {
                    continue;
                };
                match correlate::counterpart(schema, left, item)
                    .and_then(|same| left.iter().position(|l| std::ptr::eq(l, same)))
                {
                    Some(at) => out[at] = value,
                    None => out.push(value),
                }
            }
            return Ok(Val::list(out));
        }
        let is_set = self.kind() == Some(ListType::Set);
        for index in 0..other.len() {
            let Some(value) = other.get(index).transpose()? else {
                continue;
            };
            if !(is_set && out.iter().any(|v| v.equals(&value))) {
                out.push(value);
            }
        }
        Ok(Val::list(out))
    }
}

impl<'a> Map<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Map::Json(map, ..) => map.len(),
            Map::Own(entries) => entries.len(),
        }
    }

    pub(super) fn get(&self, key: &Val<'_>) -> Option<Evaluated<'a>> {
        match self {
            Map::Json(map, schema, whole) => {
                let Val::Text(key) = key else { return None };
                if is_struct(schema, *whole) {
                    let name = super::escape::unescape(key.as_str())?;
                    // A declared field that is null counts as absent.
                    let value = map.get(name.as_ref()).filter(|v| !v.is_null())?;
                    let inner = field_schema(schema, *whole, &name)?;
                    return Some(Val::from_json(value, inner, inner.embedded));
                }
                let inner = schema.additional_schema()?;
                Some(Val::from_json(map.get(key.as_str())?, inner, inner.embedded))
            }
            Map::Own(entries) => entries
                .iter()
                .find(|(k, _)| k.equals(key))
                .map(|(_, v)| Ok(v.clone())),
        }
    }

    pub(super) fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Map::Json(map, schema, whole) => {
                let escaped = is_struct(schema, *whole);
                map.keys()
                    .filter(|k| {
                        !escaped || (!map[k.as_str()].is_null() && field_schema(schema, *whole, k).is_some())
                    })
                    .filter_map(|k| {
                        if escaped {
                            super::escape::escape(k).map(|e| Val::text(e.as_ref()))
                        } else {
                            Some(Val::Text(Text::Borrowed(k)))
                        }
                    })
                    .collect()
            }
            Map::Own(entries) => entries.iter().map(|(k, _)| k.clone()).collect(),
        }
    }

    fn equals(&self, other: &Map<'_>) -> bool {
        self.len() == other.len()
            && self
                .keys()
                .iter()
                .all(|key| match (self.get(key), other.get(key)) {
                    (Some(Ok(a)), Some(Ok(b))) => a.equals(&b),
                    _ => false,
                })
    }
}
