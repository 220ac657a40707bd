//! Path elements and their wire form.

use super::order::{compare, write_json, write_json_string, write_text};
use serde_json::Value;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// One step from a value to a value inside it. Cheap to clone.
///
/// Sorted by variant (fields, keys, values, indices), then by content.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A field of a struct or an entry of a map.
    Field(Arc<str>),
    /// The item of a keyed list with these key fields, sorted by name.
    Key(Arc<[KeyField]>),
    /// The item of a set with this value.
    Value(Arc<Value>),
    /// The item at this position. Kubernetes never writes these.
    Index(i64),
}

/// A key field's name and value.
pub type KeyField = (Arc<str>, Value);

impl PathElement {
    /// A field by name.
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// An item of a keyed list by its key fields, in any order.
    pub fn key(mut fields: Vec<KeyField>) -> Self {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(fields.into())
    }

    /// Parses the wire form: `f:name`, `k:{"name":"a"}`, `v:1`, `i:0`.
    pub fn parse(text: &str) -> Result<Self, ParseElementError> {
        if text.len() < 2 {
            return Err(ParseElementError::TooShort);
        }
        let (Some(kind), Some(":"), Some(rest)) = (text.as_bytes().first(), text.get(1..2), text.get(2..))
        else {
            return Err(ParseElementError::NoColon(text.to_owned()));
        };
        match kind {
            b'f' => Ok(Self::field(rest)),
            b'v' => Ok(Self::Value(Arc::new(json(text, rest)?))),
            b'k' => match json(text, rest)? {
                Value::Object(map) => Ok(Self::Key(
                    map.into_iter()
                        .map(|(name, value)| (name.into(), value))
                        .collect(),
                )),
                _ => Err(ParseElementError::NotKeys(text.to_owned())),
            },
            b'i' => match rest.parse() {
                Ok(index) => Ok(Self::Index(index)),
                Err(source) => Err(ParseElementError::Index {
                    text: text.to_owned(),
                    source,
                }),
            },
            _ => Err(ParseElementError::UnknownKind(text.to_owned())),
        }
    }

    /// Formats the wire form.
    pub fn to_wire(&self) -> String {
        let mut out = String::new();
        match self {
            Self::Field(name) => {
                out.reserve(name.len() + 2);
                out.push_str("f:");
                out.push_str(name);
            }
            Self::Key(fields) => {
                out.push_str("k:{");
                for (i, (name, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write_json_string(&mut out, name);
                    out.push(':');
                    write_json(&mut out, value);
                }
                out.push('}');
            }
            Self::Value(value) => {
                out.push_str("v:");
                write_json(&mut out, value);
            }
            Self::Index(index) => {
                out.push_str("i:");
                out.push_str(&index.to_string());
            }
        }
        out
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

fn json(text: &str, rest: &str) -> Result<Value, ParseElementError> {
    serde_json::from_str(rest).map_err(|source| ParseElementError::Json {
        text: text.to_owned(),
        source,
    })
}

impl fmt::Display for PathElement {
    /// The form used in messages: `.name`, `[name="a"]`, `[="x"]`, `[0]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        match self {
            Self::Field(name) => return write!(f, ".{name}"),
            Self::Key(fields) => {
                for (i, (name, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    out.push_str(name);
                    out.push('=');
                    write_text(&mut out, value);
                }
            }
            Self::Value(value) => {
                out.push('=');
                write_text(&mut out, value);
            }
            Self::Index(index) => return write!(f, "[{index}]"),
        }
        write!(f, "[{out}]")
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => a
                .iter()
                .zip(b.iter())
                .map(|((ka, va), (kb, vb))| ka.cmp(kb).then_with(|| compare(va, vb)))
                .find(|o| o.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len())),
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// A text that is not a path element.
#[derive(Debug, thiserror::Error)]
pub enum ParseElementError {
    /// Less than two bytes.
    #[error("key must be 2 characters long:")]
    TooShort,
    /// No colon after the first byte.
    #[error("missing colon: {0}")]
    NoColon(String),
    /// A kind of element from a later version; readers skip it.
    #[error("unknown path element type: {0}")]
    UnknownKind(String),
    /// The value behind `v:` or `k:` is not JSON.
    #[error("path element {text} is not JSON")]
    Json {
        /// The element.
        text: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// The value behind `k:` is not an object.
    #[error("path element {0} is not an object of keys")]
    NotKeys(String),
    /// The value behind `i:` is not a number.
    #[error("path element {text} is not an index")]
    Index {
        /// The element.
        text: String,
        /// The cause.
        source: std::num::ParseIntError,
    },
}
