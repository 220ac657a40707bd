//! A user's values, in Helm's order of precedence.

use super::read::{ReadError, floats, merge, read};
use super::set::{SetError, SetKind, set};
use crate::chart::Values;
use crate::limits::Limits;
use serde_json::{Map, Value};
use std::io;

/// All of a user's values. Later fields override earlier ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserValues {
    /// Files, `-f`: a name for errors, and the text.
    pub files: Vec<(String, String)>,
    /// `--set-json`: an object, or names with JSON.
    pub set_json: Vec<String>,
    /// `--set`.
    pub set: Vec<String>,
    /// `--set-string`.
    pub set_string: Vec<String>,
    /// `--set-file`.
    pub set_file: Vec<String>,
    /// `--set-literal`.
    pub set_literal: Vec<String>,
}

/// A user's values are invalid.
#[derive(Debug, thiserror::Error)]
pub enum UserValuesError {
    /// A file is invalid.
    #[error("failed to parse {name}")]
    File {
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: ReadError,
    },
    /// `--set-json` with an invalid object. As in Helm, without a cause.
    #[error("failed parsing --set-json data JSON: {0}")]
    JsonObject(String),
    /// `--set-json` is invalid. As in Helm, without a cause.
    #[error("failed parsing --set-json data {0}")]
    Json(String),
    /// Another flag is invalid.
    #[error("failed parsing {flag} data")]
    Set {
        /// The flag.
        flag: &'static str,
        /// The cause.
        #[source]
        source: SetError,
    },
}

impl UserValues {
    /// Merges the values. The function reads the files of `--set-file`.
    ///
    /// # Errors
    /// The first error.
    pub fn values(
        &self,
        limits: &Limits,
        read_file: &mut dyn FnMut(&str) -> io::Result<String>,
    ) -> Result<Values, UserValuesError> {
        let mut values = Values::new();
        for (name, text) in &self.files {
            let file = read(text, limits).map_err(|source| UserValuesError::File {
                name: name.clone(),
                source,
            })?;
            values = merge(values, file);
        }
        for text in &self.set_json {
            if text.trim().starts_with('{') {
                let object: Map<String, Value> =
                    serde_json::from_str(text).map_err(|_| UserValuesError::JsonObject(text.clone()))?;
                let object = object.into_iter().map(|(key, value)| (key, floats(value)));
                values = merge(values, object.collect());
            } else {
                set(&mut values, text, SetKind::Json, limits)
                    .map_err(|_| UserValuesError::Json(text.clone()))?;
            }
        }
        let failed = |flag| move |source| UserValuesError::Set { flag, source };
        for text in &self.set {
            set(&mut values, text, SetKind::Typed, limits).map_err(failed("--set"))?;
        }
        for text in &self.set_string {
            set(&mut values, text, SetKind::Text, limits).map_err(failed("--set-string"))?;
        }
        for text in &self.set_file {
            set(&mut values, text, SetKind::File(read_file), limits).map_err(failed("--set-file"))?;
        }
        for text in &self.set_literal {
            set(&mut values, text, SetKind::Literal, limits).map_err(failed("--set-literal"))?;
        }
        Ok(values)
    }
}
