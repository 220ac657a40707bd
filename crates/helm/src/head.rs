//! The head of a manifest: the fields Helm reads before it knows the kind.
//!
//! The whole document must parse, but only its head is kept, so a large definition costs one pass over
//! its text. Reading follows Helm: YAML 1.1, the last of repeated keys wins, numbers and booleans become
//! strings where a string is expected, keys ignore case, and text after an end marker (`...`) is ignored.

use equate_manifest::json::go_float;
use equate_manifest::yaml::{self, Duplicates, Keep, Options, YamlError};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The identifying fields of a manifest; missing ones are empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
}

/// A document that is not a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Invalid YAML.
    #[error("error converting YAML to JSON: yaml: line {line}, column {column}: {fault}")]
    Yaml {
        /// The line of the file, from 1.
        line: usize,
        /// Its column, from 1.
        column: usize,
        /// The cause.
        fault: yaml::Fault,
    },
    /// Too many documents.
    #[error("the chart has more than {0} documents")]
    Documents(usize),
    /// A field has the wrong type.
    #[error("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go {place}")]
    Type {
        /// The actual type.
        found: &'static str,
        /// The field and the expected type, in Helm's words.
        place: String,
    },
}

const WANTED: Keep = Keep::Keys(&[
    ("apiVersion", Keep::All),
    ("kind", Keep::All),
    (
        "metadata",
        Keep::Keys(&[("name", Keep::All), ("annotations", Keep::All)]),
    ),
]);

/// The longest document, in bytes.
const BYTES_MAX: usize = 64 << 20;
/// The most values in a document with forms that cannot be skimmed, which is parsed whole.
const NODES_MAX: usize = 200_000;

impl Head {
    pub(crate) fn read(document: &str, line: usize) -> Result<Self, HeadError> {
        let options = Options {
            duplicates: Duplicates::Collect,
            bytes_max: BYTES_MAX,
            nodes_max: NODES_MAX,
            ..Options::default()
        };
        let text = up_to_end_marker(document);
        let value = match yaml::skim(text, &options, WANTED) {
            Some(value) => value,
            None => {
                let documents = yaml::load(text, &options).map_err(|error| misplaced(error, line))?;
                let first = documents.into_iter().next();
                first.map_or(Value::Null, |document| document.value)
            }
        };
        let mut head = Self::default();
        match value {
            Value::Null => {}
            Value::Object(map) => head.take(map)?,
            other => return Err(wrong(&other, "value of type util.SimpleHead".to_owned())),
        }
        Ok(head)
    }

    fn take(&mut self, map: Map<String, Value>) -> Result<(), HeadError> {
        for (key, value) in map {
            match key.to_ascii_lowercase().as_str() {
                "apiversion" => text_into(&mut self.api_version, value, ".apiVersion")?,
                "kind" => text_into(&mut self.kind, value, ".kind")?,
                "metadata" => match value {
                    Value::Null => {}
                    Value::Object(map) => self.take_metadata(map)?,
                    other => {
                        return Err(wrong(
                            &other,
                            format!("struct field .metadata of type {METADATA}"),
                        ));
                    }
                },
                _ => {}
            }
        }
        Ok(())
    }

    fn take_metadata(&mut self, map: Map<String, Value>) -> Result<(), HeadError> {
        for (key, value) in map {
            match key.to_ascii_lowercase().as_str() {
                "name" => text_into(&mut self.name, value, ".metadata.name")?,
                "annotations" => match value {
                    Value::Null => {}
                    Value::Object(map) => self.take_annotations(map)?,
                    other => {
                        let place = "struct field .metadata.annotations of type map[string]string";
                        return Err(wrong(&other, place.to_owned()));
                    }
                },
                _ => {}
            }
        }
        Ok(())
    }

    fn take_annotations(&mut self, map: Map<String, Value>) -> Result<(), HeadError> {
        for (key, value) in map {
            let mut text = String::new();
            text_into(&mut text, value, &format!(".metadata.annotations.{key}"))?;
            self.annotations.insert(key, text);
        }
        Ok(())
    }
}

/// Go's name of the anonymous type of metadata.
const METADATA: &str =
    r#"struct { Name string "json:\"name\""; Annotations map[string]string "json:\"annotations\"" }"#;

fn text_into(place: &mut String, value: Value, field: &str) -> Result<(), HeadError> {
    *place = match value {
        Value::Null => return Ok(()),
        Value::String(text) => text,
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => go_float(float),
            _ => number.to_string(),
        },
        other => return Err(wrong(&other, format!("struct field {field} of type string"))),
    };
    Ok(())
}

fn wrong(value: &Value, place: String) -> HeadError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    HeadError::Type { found, place }
}

fn up_to_end_marker(document: &str) -> &str {
    let is_marker = |at: &usize| {
        let rest = &document.as_bytes()[at + 4..];
        rest.first().is_none_or(u8::is_ascii_whitespace)
    };
    let marker = document.match_indices("\n...").map(|(at, _)| at).find(is_marker);
    marker.map_or(document, |at| &document[..=at])
}

fn misplaced(error: YamlError, line: usize) -> HeadError {
    HeadError::Yaml {
        line: line - 1 + error.line,
        column: error.column,
        fault: error.fault,
    }
}
