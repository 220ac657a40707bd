//! Parameter types and argument checks.
//!
//! Go calls functions by reflection and refuses arguments of another type with messages of its own, so each
//! function declares its types.

use crate::exec::Exec;
use crate::fault::Fault;
use crate::limits::Limit;
use crate::value::{Elements, Entries, Int, Kind, List, Map, Str, Uint, Value};
use smallvec::SmallVec;
use std::borrow::Cow;

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ty {
    /// `interface {}`.
    Any,
    /// `reflect.Value`: anything, absent values included.
    Reflect,
    /// `string`.
    Str,
    /// `int`.
    Int,
    /// `uint32`.
    Uint32,
    /// `float64`.
    Float,
    /// `bool`.
    Bool,
    /// `map[string]interface {}`.
    Map,
    /// `[]interface {}`.
    List,
    /// A struct, by the name of its type.
    Struct(&'static str),
}

impl Ty {
    /// The type's name in Go.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Reflect => "reflect.Value",
            Self::Str => "string",
            Self::Int => "int",
            Self::Uint32 => "uint32",
            Self::Float => "float64",
            Self::Bool => "bool",
            Self::Map => "map[string]interface {}",
            Self::List => "[]interface {}",
            Self::Struct(name) => name,
        }
    }

    /// The value as an argument, or the reason it is refused.
    pub(crate) fn accept(self, value: Value) -> Result<Value, String> {
        match (self, value) {
            (Self::Any, value) => Ok(listed(value).boxed()),
            (Self::Reflect, value) => Ok(listed(value)),
            (Self::Map, Value::Absent) => Ok(Map::nil(Entries::Any).into()),
            (Self::List, Value::Absent) => Ok(List::nil(Elements::Any).into()),
            (_, Value::Absent) => Err(format!("invalid value; expected {}", self.name())),
            (Self::Str, value @ Value::String(_))
            | (Self::Int, value @ Value::Int(_, Int::Int))
            | (Self::Uint32, value @ Value::Uint(_, Uint::Uint32))
            | (Self::Float, value @ Value::Float(_))
            | (Self::Bool, value @ Value::Bool(_)) => Ok(value),
            (Self::Map, Value::Map(map)) if map.entries_type() != Entries::String => {
                Ok(map.as_type(Entries::Any).into())
            }
            (Self::List, Value::List(list)) if list.elements() == Elements::Any => Ok(list.into()),
            (Self::Struct(name), Value::Host(host)) if host.type_name() == name => Ok(Value::Host(host)),
            (_, value) => {
                let got = match &value {
                    Value::Nil => "interface {}",
                    value => value.type_name(),
                };
                Err(format!(
                    "wrong type for value; expected {}; got {got}",
                    self.name()
                ))
            }
        }
    }
}

/// Converts a slice with methods, such as `.Capabilities.APIVersions`, to a plain one: functions know no
/// other.
fn listed(value: Value) -> Value {
    match &value {
        Value::Host(host) if host.kind() == Kind::Slice => match host.entries() {
            Some(entries) => {
                let items: Vec<Value> = entries.into_iter().map(|(_, item)| item).collect();
                let elements = match items.iter().all(|item| matches!(item, Value::String(_))) {
                    true => Elements::Named(host.type_name()),
                    false => Elements::Any,
                };
                List::of(elements, items).into()
            }
            None => value,
        },
        _ => value,
    }
}

/// Most calls have few.
pub(crate) type Args = SmallVec<[Value; 4]>;

pub(crate) struct Call<'c, 's> {
    pub(crate) exec: &'c mut Exec<'s>,
    pub(crate) args: Args,
}

pub(crate) type Outcome = Result<Value, Fault>;

impl Call<'_, '_> {
    pub(crate) fn arg(&self, index: usize) -> &Value {
        self.args.get(index).unwrap_or(&Value::Absent)
    }

    pub(crate) fn count(&self) -> usize {
        self.args.len()
    }

    pub(crate) fn rest(&self, from: usize) -> &[Value] {
        self.args.get(from..).unwrap_or_default()
    }

    pub(crate) fn str(&self, index: usize) -> Str {
        match self.arg(index) {
            Value::String(text) => text.clone(),
            _ => "".into(),
        }
    }

    pub(crate) fn bytes(&self, index: usize) -> &[u8] {
        match self.arg(index) {
            Value::String(text) => text.as_bytes(),
            _ => &[],
        }
    }

    pub(crate) fn text(&self, index: usize) -> Cow<'_, str> {
        crate::value::lossy(self.bytes(index))
    }

    pub(crate) fn int(&self, index: usize) -> i64 {
        match self.arg(index) {
            Value::Int(value, _) => *value,
            _ => 0,
        }
    }

    pub(crate) fn map(&self, index: usize) -> Map {
        match self.arg(index) {
            Value::Map(map) => map.clone(),
            _ => Map::nil(Entries::Any),
        }
    }

    /// Returns a text and charges it.
    pub(crate) fn done(&mut self, text: impl Into<Str>) -> Outcome {
        let text = text.into();
        self.made(text.len())?;
        Ok(Value::String(text))
    }

    /// Returns items and charges them.
    pub(crate) fn list(&mut self, items: Vec<Value>) -> Outcome {
        self.charge_items(items.len())?;
        Ok(List::new(items).into())
    }

    /// Charges bytes that are made.
    pub(crate) fn made(&mut self, bytes: usize) -> Result<(), Limit> {
        let meter = self.exec.meter();
        meter.work(bytes)?;
        meter.make(bytes)
    }

    /// Charges elements that are made.
    pub(crate) fn charge_items(&mut self, count: usize) -> Result<(), Limit> {
        self.exec.meter().make_items(count)
    }

    /// Charges the texts among the arguments, for functions that read them.
    pub(crate) fn read(&mut self) -> Result<(), Limit> {
        self.charge_slow_read(1)
    }

    /// [`Self::read`] for functions that are this many times slower than a copy.
    pub(crate) fn charge_slow_read(&mut self, times: usize) -> Result<(), Limit> {
        let bytes: usize = self
            .args
            .iter()
            .map(|arg| match arg {
                Value::String(text) => text.len(),
                Value::List(list) => list.len().saturating_mul(16),
                _ => 0,
            })
            .sum();
        self.exec.meter().work(bytes.saturating_mul(times))
    }

    pub(crate) fn depth_max(&self) -> usize {
        self.exec.limits().value_depth_max
    }

    pub(crate) fn fail<T>(&self, message: impl Into<String>) -> Result<T, Fault> {
        Err(Fault::message(message))
    }
}
