//! Output of commands as JSON or YAML.

use equate_manifest::yaml;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    Json,
    Yaml,
}

pub(crate) fn document(value: &Value, form: Form) -> String {
    match form {
        Form::Yaml => yaml::to_string(value),
        // indented as serde_json does it
        Form::Json => format!("{value:#}\n"),
    }
}
