//! Reads a document's values with their places.

use super::error::{ConfigError, nearest};
use equate_manifest::yaml::{Document, Options, load_first};
use serde_json::{Map, Value};

/// Loads the first document of a file; an empty file is an empty mapping.
pub(crate) fn document(path: &str, text: &str) -> Result<Document, ConfigError> {
    let options = Options {
        spans: true,
        bytes_max: super::BYTES_MAX,
        depth_max: 16,
        nodes_max: 100_000,
        ..Options::default()
    };
    let fault = |line, column, problem: String| ConfigError {
        path: path.to_owned(),
        line,
        column,
        problem,
        hint: "correct the YAML".to_owned(),
    };
    match load_first(text, &options) {
        Ok(Some(document)) => Ok(document),
        Ok(None) => Err(fault(1, 1, "the file is empty".to_owned())),
        Err(error) => Err(fault(error.line, error.column, error.fault.to_string())),
    }
}

/// A document and the name of its file.
pub(crate) struct Reader<'d> {
    path: &'d str,
    document: &'d Document,
}

impl<'d> Reader<'d> {
    pub(crate) fn new(path: &'d str, document: &'d Document) -> Self {
        Self { path, document }
    }

    /// The line of the value at a pointer, or of the nearest value above it.
    pub(crate) fn line(&self, pointer: &str) -> usize {
        self.place(pointer).0
    }

    fn place(&self, pointer: &str) -> (usize, usize) {
        let mut pointer = pointer;
        loop {
            if let Some(place) = self.document.spans.get(pointer) {
                return (place.line, place.column);
            }
            match pointer.rfind('/') {
                Some(at) => pointer = &pointer[..at],
                None => return (self.document.place.line, self.document.place.column),
            }
        }
    }

    pub(crate) fn error(&self, pointer: &str, problem: String, hint: impl Into<String>) -> ConfigError {
        let (line, column) = self.place(pointer);
        ConfigError {
            path: self.path.to_owned(),
            line,
            column,
            problem,
            hint: hint.into(),
        }
    }

    pub(crate) fn missing(&self, pointer: &str, field: &str, hint: &str) -> ConfigError {
        self.error(pointer, format!("the field {field:?} is missing"), hint)
    }

    pub(crate) fn object<'v>(
        &self,
        pointer: &str,
        value: &'v Value,
    ) -> Result<&'v Map<String, Value>, ConfigError> {
        match value {
            Value::Object(map) => Ok(map),
            other => Err(self.wrong(pointer, other, "a mapping")),
        }
    }

    /// A mapping with these fields and no others.
    pub(crate) fn map<'v>(
        &self,
        pointer: &str,
        value: &'v Value,
        fields: &[&str],
    ) -> Result<&'v Map<String, Value>, ConfigError> {
        let map = self.object(pointer, value)?;
        for key in map.keys() {
            if fields.contains(&key.as_str()) {
                continue;
            }
            let hint = match nearest(key, fields.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the fields are {}", fields.join(", ")),
            };
            let at = format!("{pointer}/{}", crate::field::escaped(key));
            return Err(self.error(&at, format!("unknown field {key:?}"), hint));
        }
        Ok(map)
    }

    pub(crate) fn list<'v>(&self, pointer: &str, value: &'v Value) -> Result<&'v [Value], ConfigError> {
        match value {
            Value::Array(items) => Ok(items),
            other => Err(self.wrong(pointer, other, "a list")),
        }
    }

    /// One text, or a list of texts.
    pub(crate) fn texts(&self, pointer: &str, value: &Value) -> Result<Vec<String>, ConfigError> {
        let Value::Array(items) = value else {
            return Ok(vec![self.text(pointer, value)?]);
        };
        let texts = items.iter().enumerate();
        texts
            .map(|(at, item)| self.text(&format!("{pointer}/{at}"), item))
            .collect()
    }

    pub(crate) fn text(&self, pointer: &str, value: &Value) -> Result<String, ConfigError> {
        match value {
            Value::String(text) => Ok(text.clone()),
            other => Err(self.wrong(pointer, other, "a text")),
        }
    }

    pub(crate) fn boolean(&self, pointer: &str, value: &Value) -> Result<bool, ConfigError> {
        match value {
            Value::Bool(value) => Ok(*value),
            other => Err(self.wrong(pointer, other, "true or false")),
        }
    }

    fn wrong(&self, pointer: &str, value: &Value, wanted: &str) -> ConfigError {
        let found = match value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::Array(_) => "a list",
            Value::Object(_) => "a mapping",
        };
        let field = pointer.rsplit('/').next().unwrap_or_default();
        let hint = match value {
            Value::Bool(_) | Value::Number(_) if wanted == "a text" => "put it in quotes".to_owned(),
            _ => format!("write {wanted}"),
        };
        self.error(pointer, format!("{field:?} is {found}, not {wanted}"), hint)
    }
}
