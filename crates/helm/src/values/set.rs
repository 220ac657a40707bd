//! `--set` and its variants: `a.b[0].c=v,d={x,y}`.
//!
//! A name is a path of keys and indices; `\` escapes the next character, except in literals. Incomplete
//! paths such as `a[0].b=` have Helm's result, and errors have its text.
//!
//! As in Helm, an index above 65,536 and names nested deeper than 30 are errors. Ours alone: the limits
//! on nesting and on the total number of list elements.

use super::floats;
use crate::chart::Values;
use crate::limits::Limits;
use equate_manifest::go::quote;
use serde_json::{Map, Value};
use std::{fmt, io};

const INDEX_MAX: i64 = 65_536;
const NAMES_MAX: usize = 30;

/// The type of a value.
pub enum SetKind<'r> {
    /// `--set`: numbers, booleans, null or text.
    Typed,
    /// `--set-string`: a text.
    Text,
    /// `--set-literal`: everything after the `=`, as a text.
    Literal,
    /// `--set-json`: JSON.
    Json,
    /// `--set-file`: a file name for the function.
    File(&'r mut dyn FnMut(&str) -> io::Result<String>),
}

impl fmt::Debug for SetKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Typed => "Typed",
            Self::Text => "Text",
            Self::Literal => "Literal",
            Self::Json => "Json",
            Self::File(_) => "File",
        })
    }
}

/// A value cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// A name without `=`.
    #[error("key {} has no value", quote(.0))]
    NoValue(String),
    /// A comma inside of a name.
    #[error("key {} has no value (cannot end with ,)", quote(.0))]
    EndsWithComma(String),
    /// A name that ends with a dot.
    #[error("key map {} has no value", quote(.0))]
    NothingBelow(String),
    /// Too many dots.
    #[error("value name nested level is greater than maximum supported nested level of {NAMES_MAX}")]
    Nested,
    /// An index that is not a number.
    #[error("error parsing index: strconv.Atoi: parsing {}: {why}", quote(text))]
    NoIndex {
        /// The index.
        text: String,
        /// The cause.
        why: &'static str,
    },
    /// A negative index.
    #[error("negative {0} index not allowed")]
    Negative(i64),
    /// An index that is too large.
    #[error("index of {0} is greater than maximum supported index of {INDEX_MAX}")]
    Large(i64),
    /// Text after `]`.
    #[error("unexpected data at end of array index: {}", characters(.0))]
    AfterIndex(String),
    /// An unterminated list.
    #[error("list must terminate with '}}'")]
    NoEnd,
    /// A path through a value that is not a list or map.
    #[error("unable to parse key: interface conversion: interface {{}} is {found}, not {wanted}")]
    NoWay {
        /// Its type, in Go's words.
        found: &'static str,
        /// The expected type.
        wanted: &'static str,
    },
    /// Invalid JSON.
    #[error("the value is not JSON")]
    Json(#[source] serde_json::Error),
    /// An unreadable file.
    #[error("open {path}")]
    File {
        /// Its path.
        path: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Too deep nesting.
    #[error("lists and maps are nested more than {0} deep")]
    Depth(usize),
    /// Too many elements.
    #[error("lists have more than {0} elements together")]
    Elements(usize),
}

/// Characters one by one, as Go's `%q`.
fn characters(text: &str) -> String {
    let one = |c: char| {
        let quoted = quote(&c.to_string());
        let inner = &quoted[1..quoted.len() - 1];
        match c {
            '\'' => r"'\''".to_owned(),
            '"' => "'\"'".to_owned(),
            _ => format!("'{inner}'"),
        }
    };
    let all: Vec<String> = text.chars().map(one).collect();
    format!("[{}]", all.join(" "))
}

/// Sets `name=value,…` over existing values. After an error the values are undefined.
///
/// # Errors
/// Invalid text, a path through a value that is not a list or map, and limits.
pub fn set(values: &mut Values, text: &str, how: SetKind<'_>, limits: &Limits) -> Result<(), SetError> {
    let mut parser = Parser {
        rest: text,
        how,
        depth_max: limits.values_depth_max,
        elements_max: limits.values_nodes_max,
        elements_left: limits.values_nodes_max,
    };
    loop {
        match parser.key(values, 0, 0) {
            Ok(()) => {}
            Err(Stop::End) => return Ok(()),
            Err(Stop::Error(error)) => return Err(error),
        }
    }
}

/// The reason to stop parsing. The end of the text is not an error.
enum Stop {
    End,
    Error(SetError),
}

impl From<SetError> for Stop {
    fn from(error: SetError) -> Self {
        Self::Error(error)
    }
}

type Step<T = ()> = Result<T, Stop>;

struct Parser<'t, 'r> {
    rest: &'t str,
    how: SetKind<'r>,
    depth_max: usize,
    elements_max: usize,
    elements_left: usize,
}

impl Parser<'_, '_> {
    /// The characters up to a stop character, and that one; `None` at the end.
    fn until(&mut self, stops: &[char]) -> (String, Option<char>) {
        let escapes = !matches!(self.how, SetKind::Literal);
        let mut found = String::new();
        let mut characters = self.rest.chars();
        let mut stop = None;
        while let Some(c) = characters.next() {
            if stops.contains(&c) {
                stop = Some(c);
                break;
            }
            if c == '\\' && escapes {
                found.extend(characters.next());
            } else {
                found.push(c);
            }
        }
        self.rest = characters.as_str();
        (found, stop)
    }

    /// `nested` counts names, as Helm does; `depth` counts all enclosing lists and maps.
    fn key(&mut self, data: &mut Values, nested: usize, depth: usize) -> Step {
        let stops: &[char] = match self.how {
            SetKind::Literal => &['=', '[', '.'],
            _ => &['=', '[', ',', '.'],
        };
        let (key, stop) = self.until(stops);
        match stop {
            None if key.is_empty() => Err(Stop::End),
            None => Err(SetError::NoValue(key).into()),
            Some('[') => self.list(data, key, nested, depth + 1),
            Some('=') => self.assignment(data, key),
            Some(',') => Err(SetError::EndsWithComma(key).into()),
            Some(_) => self.map(data, key, nested + 1, depth + 1),
        }
    }

    fn map(&mut self, data: &mut Values, key: String, nested: usize, depth: usize) -> Step {
        if nested > NAMES_MAX {
            return Err(SetError::Nested.into());
        }
        self.within(depth)?;
        if let Some(inner) = data.get_mut(&key) {
            let Value::Object(inner) = inner else {
                return Err(no_way(inner, MAP));
            };
            self.key(inner, nested, depth)?;
            return match inner.is_empty() {
                true => Err(SetError::NothingBelow(key).into()),
                false => Ok(()),
            };
        }
        let mut inner = Map::new();
        let step = self.key(&mut inner, nested, depth);
        if step.is_ok() && inner.is_empty() {
            return Err(SetError::NothingBelow(key).into());
        }
        if !inner.is_empty() {
            put(data, key, Value::Object(inner));
        }
        step
    }

    fn list(&mut self, data: &mut Values, key: String, nested: usize, depth: usize) -> Step {
        let index = self.index()?;
        if let Some(list) = data.get_mut(&key) {
            let Value::Array(list) = list else {
                return Err(no_way(list, LIST));
            };
            return self.item(list, index, nested, depth);
        }
        let mut list = Vec::new();
        let step = self.item(&mut list, index, nested, depth);
        put(data, key, Value::Array(list));
        step
    }

    fn index(&mut self) -> Step<i64> {
        let (text, stop) = self.until(&[']']);
        if stop.is_none() {
            return Err(Stop::End);
        }
        let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
        let why = match digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.is_empty() {
            true => "value out of range",
            false => "invalid syntax",
        };
        Ok(text.parse().map_err(|_| SetError::NoIndex { text, why })?)
    }

    fn item(&mut self, list: &mut Vec<Value>, index: i64, nested: usize, depth: usize) -> Step {
        let Ok(at) = usize::try_from(index) else {
            return Err(SetError::Negative(index).into());
        };
        self.within(depth)?;
        let (between, stop) = self.until(&['[', '.', '=']);
        if !between.is_empty() {
            return Err(SetError::AfterIndex(between).into());
        }
        match stop {
            None => Err(Stop::End),
            Some('=') => {
                let value = self.value()?;
                self.put_at(list, index, value.unwrap_or_else(|| Value::String(String::new())))
            }
            Some('[') => {
                let next = self.index()?;
                match list.get_mut(at) {
                    Some(Value::Array(inner)) => self.item(inner, next, nested, depth + 1),
                    Some(Value::Null) | None => {
                        let mut inner = Vec::new();
                        self.item(&mut inner, next, nested, depth + 1)?;
                        self.put_at(list, index, Value::Array(inner))
                    }
                    Some(other) => Err(no_way(other, LIST)),
                }
            }
            Some(_) => {
                if let Some(inner) = list.get_mut(at) {
                    if !inner.is_object() {
                        *inner = Value::Object(Map::new());
                    }
                    return match inner {
                        Value::Object(inner) => self.key(inner, nested, depth + 1),
                        _ => Ok(()),
                    };
                }
                let mut inner = Map::new();
                self.key(&mut inner, nested, depth + 1)?;
                self.put_at(list, index, Value::Object(inner))
            }
        }
    }

    fn within(&self, depth: usize) -> Step {
        match depth > self.depth_max {
            true => Err(SetError::Depth(self.depth_max).into()),
            false => Ok(()),
        }
    }

    fn put_at(&mut self, list: &mut Vec<Value>, index: i64, value: Value) -> Step {
        if index > INDEX_MAX {
            return Err(SetError::Large(index).into());
        }
        let at = usize::try_from(index).map_err(|_| SetError::Negative(index))?;
        if let Some(missing) = (at + 1).checked_sub(list.len()) {
            self.elements_left = self
                .elements_left
                .checked_sub(missing)
                .ok_or(SetError::Elements(self.elements_max))?;
            list.resize(at + 1, Value::Null);
        }
        list[at] = value;
        Ok(())
    }

    fn assignment(&mut self, data: &mut Values, key: String) -> Step {
        match self.value()? {
            Some(value) => {
                put(data, key, value);
                Ok(())
            }
            None => {
                put(data, key, Value::String(String::new()));
                Err(Stop::End)
            }
        }
    }

    /// Parses the text after `=`; `None` at the end.
    fn value(&mut self) -> Step<Option<Value>> {
        match self.how {
            SetKind::Literal => Ok(Some(Value::String(std::mem::take(&mut self.rest).to_owned()))),
            SetKind::Json => self.json().map(Some),
            _ if self.rest.is_empty() => Ok(None),
            _ => match self.rest.strip_prefix('{') {
                Some(rest) => {
                    self.rest = rest;
                    self.braces().map(Some)
                }
                None => {
                    let (text, _) = self.until(&[',']);
                    Ok(Some(self.scalar(text)?))
                }
            },
        }
    }

    fn json(&mut self) -> Step<Value> {
        if self.skip_blanks() {
            return Ok(Value::Null);
        }
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter::<Value>();
        let value = match values.next() {
            Some(Ok(value)) => value,
            Some(Err(error)) => return Err(SetError::Json(error).into()),
            None => Value::Null,
        };
        self.rest = self.rest.get(values.byte_offset()..).unwrap_or_default();
        self.skip_blanks();
        Ok(floats(value))
    }

    /// Skips spaces and a comma after them. Returns whether there was nothing else.
    fn skip_blanks(&mut self) -> bool {
        let rest = self.rest.trim_start();
        self.rest = rest.strip_prefix(',').unwrap_or(rest);
        rest.is_empty() || rest.starts_with(',')
    }

    fn braces(&mut self) -> Step<Value> {
        let mut items = Vec::new();
        loop {
            let (text, stop) = self.until(&[',', '}']);
            if stop.is_none() {
                return Err(SetError::NoEnd.into());
            }
            items.push(self.scalar(text)?);
            if stop == Some('}') {
                self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
                return Ok(Value::Array(items));
            }
        }
    }

    fn scalar(&mut self, text: String) -> Result<Value, SetError> {
        match &mut self.how {
            SetKind::Typed => Ok(typed(text)),
            SetKind::File(read) => match read(&text) {
                Ok(content) => Ok(Value::String(content)),
                Err(source) => Err(SetError::File { path: text, source }),
            },
            _ => Ok(Value::String(text)),
        }
    }
}

/// As in Helm, an empty name sets nothing.
fn put(data: &mut Values, key: String, value: Value) {
    if !key.is_empty() {
        data.insert(key, value);
    }
}

fn typed(text: String) -> Value {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("true") || is("false") {
        return Value::Bool(is("true"));
    }
    if is("null") {
        return Value::Null;
    }
    match text.parse::<i64>() {
        Ok(number) if text == "0" || !text.starts_with('0') => number.into(),
        _ => Value::String(text),
    }
}

const MAP: &str = "map[string]interface {}";
const LIST: &str = "[]interface {}";

fn no_way(found: &Value, wanted: &'static str) -> Stop {
    let found = match found {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => LIST,
        Value::Object(_) => MAP,
    };
    SetError::NoWay { found, wanted }.into()
}
