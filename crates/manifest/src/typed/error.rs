//! Validation errors, with upstream's texts.

use super::schema::Atom;
use serde_json::Value;
use std::fmt;

/// One error. Texts are upstream's, as clients see them in Status messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The path; empty at the root.
    pub path: String,
    /// The message.
    pub message: String,
}

/// All errors found; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors(pub Vec<Error>);

impl std::error::Error for Errors {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return one.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

/// Collects errors. Paths are added when the walk returns, so valid values cost nothing.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Error>);

impl Faults {
    pub(super) fn add(&mut self, message: impl Into<String>) {
        self.0.push(Error {
            path: String::new(),
            message: message.into(),
        });
    }

    pub(super) fn mark(&self) -> usize {
        self.0.len()
    }

    /// Prepends a step to the paths of all errors since `mark`.
    pub(super) fn prefix(&mut self, mark: usize, step: &impl fmt::Display) {
        if mark < self.0.len() {
            let step = step.to_string();
            for error in &mut self.0[mark..] {
                error.path.insert_str(0, &step);
            }
        }
    }

    pub(super) fn into_result<T>(self, value: T) -> Result<T, Errors> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(Errors(self.0))
        }
    }
}

pub(super) fn invalid_atom(atom: &Atom) -> String {
    match &atom.name {
        Some(name) if atom.undefined => format!("schema error: no type found matching: {name}"),
        None if atom.undefined => "schema error: no type found matching: inlined type".to_owned(),
        Some(name) => format!("schema error: invalid atom: named type: {name}"),
        None => "schema error: invalid atom: inlined".to_owned(),
    }
}

/// Go's `%v` of a value decoded into an interface, as messages show it.
pub(super) fn go_v(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => go_number(number),
        Value::Bool(flag) => flag.to_string(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(go_v).collect::<Vec<_>>().join(" "))
        }
        Value::Object(map) => {
            let entries: Vec<_> = map.iter().map(|(k, v)| format!("{k}:{}", go_v(v))).collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

/// Go's `%#v` of such a value.
pub(super) fn go_sharp_v(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => format!("{text:?}"),
        Value::Number(_) | Value::Bool(_) => go_v(value),
        Value::Array(items) => {
            format!(
                "[]interface {{}}{{{}}}",
                items.iter().map(go_sharp_v).collect::<Vec<_>>().join(", ")
            )
        }
        Value::Object(map) => {
            let entries: Vec<_> = map
                .iter()
                .map(|(k, v)| format!("{k:?}:{}", go_sharp_v(v)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
    }
}

/// Go's `%T` of such a value.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Numbers print as floats: upstream decodes an apply's body with every number as `float64`.
fn go_number(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if float != 0.0 && !(1e-4..1e6).contains(&float.abs()) => {
            let text = format!("{float:e}");
            // Go writes a sign and at least two digits of exponent
            match text.split_once('e') {
                Some((digits, exponent)) => match exponent.strip_prefix('-') {
                    Some(exponent) => format!("{digits}e-{exponent:0>2}"),
                    None => format!("{digits}e+{exponent:0>2}"),
                },
                None => text,
            }
        }
        Some(float) => float.to_string(),
        None => number.to_string(),
    }
}
