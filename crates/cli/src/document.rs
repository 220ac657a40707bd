//! What a command found, as data: for programs, not for people.

use equate_manifest::yaml;
use serde_json::Value;

/// Of which form. Commands that print tables or text have it as `-o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    Json,
    Yaml,
}

/// One value, with a line's end.
pub(crate) fn document(value: &Value, form: Form) -> String {
    match form {
        Form::Yaml => yaml::to_string(value),
        // as indented as serde_json does it, and a value in memory is always JSON
        Form::Json => format!("{value:#}\n"),
    }
}
