//! The head of a manifest: what Helm looks at before it knows what the object is.
//!
//! A document has to be sound as a whole, but only its head is kept, so a definition of a megabyte costs
//! one pass over its text. Read as Helm reads it: YAML 1.1, the last of repeated keys counts, numbers and
//! booleans are texts where a text is wanted, the case of keys does not matter, and what comes after an
//! end marker (`...`) is not looked at.

use equate_manifest::json::go_float;
use equate_manifest::yaml::{self, Duplicates, Keep, Options, YamlError};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a manifest says about itself. What it does not say is empty.
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

/// Why a document is no manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// It is not YAML.
    #[error("error converting YAML to JSON: yaml: line {line}, column {column}: {fault}")]
    Yaml {
        /// The line of the file, from 1.
        line: usize,
        /// Its column, from 1.
        column: usize,
        /// What is wrong.
        fault: yaml::Fault,
    },
    /// There are too many of them.
    #[error("the chart has more than {0} documents")]
    Documents(usize),
    /// It, or something in its head, is of another kind than it has to be.
    #[error("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go {place}")]
    Type {
        /// What it is.
        found: &'static str,
        /// Where, and what it should be, in Helm's words.
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
/// The most values in a document that has forms which are not skimmed, so that all of it is kept for a moment.
const NODES_MAX: usize = 200_000;

impl Head {
    /// Reads the head of the document that begins in this line of its file.
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

/// How Go calls the type of metadata that Helm declares without a name.
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

/// The document without what comes after its end marker.
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
