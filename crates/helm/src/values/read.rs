//! Values from YAML.
//!
//! As in Helm, lines that start with `---` split the text. Each part follows YAML 1.1, only its first
//! document counts, and the parts are merged. Every number is a `f64`, dates and keys are strings, and
//! the last of repeated keys wins.
//!
//! Errors: parts that are not mappings, infinities, NaN, null keys, and exceeded [`Limits`].

use crate::chart::Values;
use crate::limits::Limits;
use equate_manifest::json::type_name;
use equate_manifest::yaml::{self, Fault, YamlError};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;

/// A text cannot be read as values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is not UTF-8.
    #[error("cannot unmarshal yaml document: the text is not UTF-8 from byte {0}")]
    NotUtf8(usize),
    /// A `---` line with other text.
    #[error("error reading yaml document: invalid Yaml document separator: {0}")]
    Separator(String),
    /// It is not YAML.
    #[error("cannot unmarshal yaml document: error converting YAML to JSON: {0}")]
    Yaml(YamlError),
    /// It is not a mapping.
    #[error(
        "cannot unmarshal yaml document: error unmarshaling JSON: while decoding JSON: json: cannot \
         unmarshal {0} into Go value of type map[string]interface {{}}"
    )]
    NoMap(&'static str),
}

/// Reads values; the documents of the text are merged.
///
/// # Errors
/// The text is not YAML, is not a mapping, or exceeds a limit.
pub fn read(text: &str, limits: &Limits) -> Result<Values, ReadError> {
    let mut values = Values::new();
    let mut options = limits.yaml();
    for part in parts(text) {
        let (lines_before, part) = part?;
        let failed = |error: YamlError| {
            ReadError::Yaml(YamlError {
                line: error.line + lines_before,
                fault: match error.fault {
                    // the limit covers the whole text
                    Fault::Nodes(_) => Fault::Nodes(limits.values_nodes_max),
                    fault => fault,
                },
                ..error
            })
        };
        // Helm reads line by line and terminates the last one
        let ended = match part.is_empty() || part.ends_with('\n') {
            true => Cow::Borrowed(part),
            false => Cow::Owned(format!("{part}\n")),
        };
        let document = yaml::load_first(&ended, &options).map_err(failed)?;
        match document.map(|document| document.value) {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                options.nodes_max = options.nodes_max.saturating_sub(nodes(&map));
                values = merge(values, floats_in(map));
            }
            Some(other) => return Err(ReadError::NoMap(type_name(&other))),
        }
    }
    Ok(values)
}

pub(crate) fn read_bytes(data: &[u8], limits: &Limits) -> Result<Values, ReadError> {
    let text = std::str::from_utf8(data).map_err(|error| ReadError::NotUtf8(error.valid_up_to()))?;
    read(text, limits)
}

/// The parts between separators, each with the number of lines before it.
fn parts(text: &str) -> impl Iterator<Item = Result<(usize, &str), ReadError>> {
    let mut rest = Some((0, text));
    std::iter::from_fn(move || {
        let (lines_before, text) = rest.take()?;
        let mut at = 0;
        for (index, line) in text.split_inclusive('\n').enumerate() {
            if let Some(after) = line.strip_prefix("---") {
                let after = after.trim();
                if !after.is_empty() && !after.starts_with('#') {
                    return Some(Err(ReadError::Separator(after.to_owned())));
                }
                rest = Some((lines_before + index + 1, &text[at + line.len()..]));
                return Some(Ok((lines_before, &text[..at])));
            }
            at += line.len();
        }
        Some(Ok((lines_before, text)))
    })
}

pub(crate) fn nodes(map: &Values) -> usize {
    map.values().map(|value| 1 + below(value)).sum()
}

fn below(value: &Value) -> usize {
    match value {
        Value::Object(map) => nodes(map),
        Value::Array(items) => items.iter().map(|item| 1 + below(item)).sum(),
        _ => 0,
    }
}

fn floats_in(map: Map<String, Value>) -> Values {
    map.into_iter().map(|(key, value)| (key, floats(value))).collect()
}

pub(crate) fn floats(value: Value) -> Value {
    match value {
        Value::Number(number) => number
            .as_f64()
            .and_then(Number::from_f64)
            .map_or(Value::Null, Value::Number),
        Value::Array(items) => Value::Array(items.into_iter().map(floats).collect()),
        Value::Object(map) => Value::Object(floats_in(map)),
        other => other,
    }
}

/// Merges the second values over the first: maps are merged, everything else is replaced, also by null.
pub fn merge(mut under: Values, over: Values) -> Values {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => {
                *below = merge(std::mem::take(below), above);
            }
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
    under
}
