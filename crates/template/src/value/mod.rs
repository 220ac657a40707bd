//! Values of a template.
//!
//! Numbers keep their Go type, because printing and comparison depend on it. Maps are shared and change in
//! place, as `set` and `merge` expect. Texts are bytes, because `trunc` cuts anywhere and files need not be
//! UTF-8.
//!
//! Values belong to one thread; a render's input and output (text, JSON) do not.

mod collection;
mod host;
mod json;
mod text;

pub use collection::{Elements, Entries, List, Map};
pub use host::{Host, Method};
pub use text::Str;
pub(crate) use text::lossy;

use std::fmt;
use std::rc::Rc;

/// A value. An absent value and a nil print differently.
#[derive(Clone, Default)]
pub enum Value {
    /// No value: prints as `<no value>`.
    #[default]
    Absent,
    /// A nil interface, such as a JSON null in a map.
    Nil,
    /// `bool`.
    Bool(bool),
    /// A signed integer.
    Int(i64, Int),
    /// An unsigned integer.
    Uint(u64, Uint),
    /// `float64`.
    Float(f64),
    /// `string`.
    String(Str),
    /// `[]byte`.
    Bytes(Str),
    /// A slice.
    List(List),
    /// A map with string keys.
    Map(Map),
    /// Any other type.
    Host(Rc<dyn Host>),
}

/// The type of a signed integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Int {
    /// `int`.
    Int,
    /// `int32`, also a character.
    Int32,
    /// `int64`.
    Int64,
    /// `time.Duration`, in nanoseconds.
    Duration,
    /// `time.Month`.
    Month,
    /// `time.Weekday`.
    Weekday,
}

/// The type of an unsigned integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uint {
    /// `uint8`.
    Uint8,
    /// `uint32`.
    Uint32,
    /// `uint64`.
    Uint64,
}

/// The kind of a value in Go's reflection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An absent value.
    Invalid,
    /// `bool`.
    Bool,
    /// `int`, and types based on it.
    Int,
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// `uint8`.
    Uint8,
    /// `uint32`.
    Uint32,
    /// `uint64`.
    Uint64,
    /// `float64`.
    Float64,
    /// `string`.
    String,
    /// A slice.
    Slice,
    /// A map.
    Map,
    /// A struct.
    Struct,
    /// A pointer to a struct.
    Ptr,
}

impl Kind {
    /// Its name, as `kindOf` returns.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint8 => "uint8",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Float64 => "float64",
            Self::String => "string",
            Self::Slice => "slice",
            Self::Map => "map",
            Self::Struct => "struct",
            Self::Ptr => "ptr",
        }
    }
}

impl Value {
    /// An `int`.
    pub const fn int(value: i64) -> Self {
        Self::Int(value, Int::Int)
    }

    /// An `int64`.
    pub const fn int64(value: i64) -> Self {
        Self::Int(value, Int::Int64)
    }

    /// A `string`.
    pub fn string(text: impl Into<Str>) -> Self {
        Self::String(text.into())
    }

    /// Whether it is absent or nil.
    pub fn is_nil(&self) -> bool {
        match self {
            Self::Absent | Self::Nil => true,
            Self::List(list) => list.is_nil(),
            Self::Map(map) => map.is_nil(),
            _ => false,
        }
    }

    pub(crate) fn opened(self) -> Self {
        match self {
            Self::Nil => Self::Absent,
            other => other,
        }
    }

    pub(crate) fn boxed(self) -> Self {
        match self {
            Self::Absent => Self::Nil,
            other => other,
        }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Absent | Self::Nil => Kind::Invalid,
            Self::Bool(_) => Kind::Bool,
            Self::Int(_, Int::Int | Int::Month | Int::Weekday) => Kind::Int,
            Self::Int(_, Int::Int32) => Kind::Int32,
            Self::Int(_, Int::Int64 | Int::Duration) => Kind::Int64,
            Self::Uint(_, Uint::Uint8) => Kind::Uint8,
            Self::Uint(_, Uint::Uint32) => Kind::Uint32,
            Self::Uint(_, Uint::Uint64) => Kind::Uint64,
            Self::Float(_) => Kind::Float64,
            Self::String(_) => Kind::String,
            Self::Bytes(_) | Self::List(_) => Kind::Slice,
            Self::Map(_) => Kind::Map,
            Self::Host(host) => host.kind(),
        }
    }

    /// The name of its type, as `%T` prints it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Absent | Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_, kind) => match kind {
                Int::Int => "int",
                Int::Int32 => "int32",
                Int::Int64 => "int64",
                Int::Duration => "time.Duration",
                Int::Month => "time.Month",
                Int::Weekday => "time.Weekday",
            },
            Self::Uint(_, kind) => match kind {
                Uint::Uint8 => "uint8",
                Uint::Uint32 => "uint32",
                Uint::Uint64 => "uint64",
            },
            Self::Float(_) => "float64",
            Self::String(_) => "string",
            Self::Bytes(_) => "[]uint8",
            Self::List(list) => list.elements().slice_name(),
            Self::Map(map) => map.entries_type().map_name(),
            Self::Host(host) => host.type_name(),
        }
    }

    /// Its truth value as a condition.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Absent | Self::Nil => false,
            Self::Bool(flag) => *flag,
            Self::Int(value, _) => *value != 0,
            Self::Uint(value, _) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::String(text) | Self::Bytes(text) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Host(host) => match host.kind() {
                Kind::Map | Kind::Slice => host.count().is_some_and(|count| count > 0),
                _ => true,
            },
        }
    }
}

impl fmt::Debug for Value {
    /// `%#v` with limited depth.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("<no value>"),
            Self::Nil => f.write_str("<nil>"),
            Self::Bool(flag) => write!(f, "{flag}"),
            Self::Int(value, _) => write!(f, "{value}"),
            Self::Uint(value, _) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::String(text) | Self::Bytes(text) => write!(f, "{:?}", text.lossy()),
            Self::List(list) => write!(f, "{}({})", list.elements().slice_name(), list.len()),
            Self::Map(map) => write!(f, "{}({})", map.entries_type().map_name(), map.len()),
            Self::Host(host) => f.write_str(host.type_name()),
        }
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<Str> for Value {
    fn from(text: Str) -> Self {
        Self::String(text)
    }
}

impl From<List> for Value {
    fn from(list: List) -> Self {
        Self::List(list)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}
