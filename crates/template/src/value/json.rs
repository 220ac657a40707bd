//! Converts values from and to JSON.

use super::{Entries, List, Map, Str, Value};
use crate::fault::Fault;
use crate::limits::{Limit, Limits};
use serde_json::{Number, Value as Json};
use std::rc::Rc;

impl Value {
    /// The value Go decodes from JSON: every number is a `float64`.
    pub fn from_json(json: &Json) -> Self {
        match json {
            Json::Null => Self::Nil,
            Json::Bool(flag) => Self::Bool(*flag),
            Json::Number(number) => Self::Float(number.as_f64().unwrap_or_default()),
            Json::String(text) => Self::string(text.as_str()),
            Json::Array(items) => Self::List(List::new(items.iter().map(Self::from_json).collect())),
            Json::Object(map) => Self::Map(Map::of(
                Entries::Any,
                map.iter()
                    .map(|(key, value)| (Str::from(key.as_str()), Self::from_json(value)))
                    .collect(),
            )),
        }
    }

    /// Encodes as Go does. Fails for infinities, and for values nested deeper than `depth`.
    pub fn to_json(&self, depth: usize) -> Result<Json, Fault> {
        self.json_below(depth, depth, true)
    }

    /// [`Self::to_json`], but a whole `float64` stays a float.
    pub(crate) fn to_json_with_floats(&self, depth: usize) -> Result<Json, Fault> {
        self.json_below(depth, depth, false)
    }

    /// An estimate of its written size with this indentation, shared values counted repeatedly. Fails at an
    /// exceeded limit.
    pub(crate) fn written(&self, indent: usize, limits: &Limits) -> Result<Written, Limit> {
        let mut measure = Measure {
            written: Written { text: 0, maps: 0 },
            indent,
            bytes_max: limits.made_bytes_max,
            depth_max: limits.value_depth_max,
        };
        measure.value(self, 0)?;
        Ok(measure.written)
    }

    fn json_below(&self, left: usize, depth: usize, whole: bool) -> Result<Json, Fault> {
        stacker::maybe_grow(64 << 10, 1 << 20, || self.json_here(left, depth, whole))
    }

    fn json_here(&self, left: usize, depth: usize, whole: bool) -> Result<Json, Fault> {
        let Some(below) = left.checked_sub(1) else {
            return Err(Limit::Depth(depth).into());
        };
        Ok(match self {
            Self::Absent | Self::Nil => Json::Null,
            Self::Bool(flag) => Json::Bool(*flag),
            Self::Int(value, _) => Json::Number((*value).into()),
            Self::Uint(value, _) => Json::Number((*value).into()),
            Self::Float(value) => Json::Number(float(*value, whole)?),
            Self::String(text) => Json::String(text.lossy().into_owned()),
            Self::Bytes(bytes) => {
                use base64::Engine as _;
                Json::String(base64::engine::general_purpose::STANDARD.encode(bytes.as_bytes()))
            }
            Self::List(list) if list.is_nil() => Json::Null,
            Self::List(list) => Json::Array(
                list.items()
                    .iter()
                    .map(|item| item.json_below(below, depth, whole))
                    .collect::<Result<_, _>>()?,
            ),
            Self::Map(map) => match map.read() {
                None => Json::Null,
                Some(entries) => Json::Object(
                    entries
                        .iter()
                        .map(|(key, value)| {
                            Ok((key.lossy().into_owned(), value.json_below(below, depth, whole)?))
                        })
                        .collect::<Result<_, Fault>>()?,
                ),
            },
            Self::Host(host) => Rc::clone(host).to_json()?,
        })
    }
}

/// The size of a written value, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) text: usize,
    pub(crate) maps: usize,
}

struct Measure {
    written: Written,
    indent: usize,
    bytes_max: usize,
    depth_max: usize,
}

impl Measure {
    const LEAST: usize = 16;

    /// The size of the smallest map, which has room for eleven entries, and of each further entry.
    const MAP: usize = 640;
    const ENTRY: usize = 64;

    fn count(&mut self, bytes: usize, maps: usize) -> Result<(), Limit> {
        self.written.text = self.written.text.saturating_add(Self::LEAST + bytes);
        self.written.maps += maps;
        if self.written.text.saturating_add(self.written.maps) > self.bytes_max {
            return Err(Limit::Made(self.bytes_max));
        }
        Ok(())
    }

    /// Charges a text at a depth: an escape takes six bytes, and in block style each line is indented.
    fn text(&mut self, text: &[u8], depth: usize) -> Result<(), Limit> {
        let special = text
            .iter()
            .filter(|byte| matches!(byte, 0..=31 | 127 | b'<' | b'>' | b'&'));
        let more = special.count().saturating_mul(5.max(self.indent * depth));
        self.count(text.len().saturating_add(more), 0)
    }

    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Limit> {
        if depth >= self.depth_max {
            return Err(Limit::Depth(self.depth_max));
        }
        match value {
            Value::String(text) | Value::Bytes(text) => self.text(text.as_bytes(), depth),
            Value::List(list) => {
                self.count((list.len() + 1).saturating_mul(self.indent * (depth + 1)), 0)?;
                stacker::maybe_grow(64 << 10, 1 << 20, || {
                    list.items()
                        .iter()
                        .try_for_each(|item| self.value(item, depth + 1))
                })
            }
            Value::Map(map) => {
                let Some(entries) = map.read().filter(|entries| !entries.is_empty()) else {
                    return self.count(0, 0);
                };
                let maps = Self::MAP + entries.len().saturating_sub(11) * Self::ENTRY;
                self.count((entries.len() + 1) * self.indent * (depth + 1), maps)?;
                stacker::maybe_grow(64 << 10, 1 << 20, || {
                    entries.iter().try_for_each(|(key, value)| {
                        self.text(key.as_bytes(), 0)?;
                        self.value(value, depth + 1)
                    })
                })
            }
            _ => self.count(0, 0),
        }
    }
}

/// A float as JSON; Go writes a whole one as an integer.
fn float(value: f64, whole: bool) -> Result<Number, Fault> {
    // Go uses no exponent below this
    const PLAIN: f64 = 1e21;
    if whole && value.fract() == 0.0 && value.abs() < PLAIN && !(value == 0.0 && value.is_sign_negative()) {
        let digits = value.to_string();
        if let Ok(whole) = digits.parse::<i64>() {
            return Ok(whole.into());
        }
        if let Ok(whole) = digits.parse::<u64>() {
            return Ok(whole.into());
        }
    }
    Number::from_f64(value).ok_or_else(|| {
        let name = if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "+Inf"
        } else {
            "-Inf"
        };
        Fault::message(format!("json: unsupported value: {name}"))
    })
}
