//! `values.schema.json`: whether values are what a chart and its subcharts want.
//!
//! | file | what it does |
//! |---|---|
//! | `compile.rs` | reads a schema, follows its references |
//! | `address.rs` | addresses of schemas, relative to one another |
//! | `check.rs` | holds values against it |
//! | `failure.rs` | what is wrong, in the words of Helm's validator |
//! | `number.rs` | numbers, which are exact however they are written |
//! | `format.rs` | texts with a form: dates, addresses, … |
//!
//! Drafts 4, 6, 7, 2019-09 and 2020-12, which one `$schema` says; where it says nothing, 2020-12. Formats
//! are looked at before 2019-09 only. Where a map has several faults Helm lists them in no order; here they
//! are in the order of the keys.
//!
//! Refused: references to the network and to files, by name (Helm would read them); a `$schema` that is
//! none of the drafts. A reference to a `urn:` holds whatever the value is, as in Helm. The schema itself is
//! held against the types of its keywords only, not against the whole of its draft's own schema.

mod address;
mod check;
mod compile;
mod failure;
mod format;
mod number;

use crate::chart::{Chart, Values};
use crate::json_weight;
use check::FAULTS_BYTES_MAX;
use compile::Compiled;
use serde_json::Value;

pub use compile::SchemaFault;

/// The most memory that a schema may take once it is read; large ones take a few megabytes.
const SCHEMA_BYTES_MAX: usize = 64 << 20;

/// Values that are not what a chart or its subcharts want. Prints as Helm says it, over several lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("values don't meet the specifications of the schema(s) in the following chart(s):\n{details}")]
pub struct SchemaError {
    /// The charts, each with what is wrong.
    pub details: String,
}

/// Holds coalesced values against the schemas of a chart and all charts in it.
///
/// # Errors
/// All that is wrong, chart by chart; also schemas that cannot be read.
pub fn validate(chart: &Chart, values: &Values) -> Result<(), SchemaError> {
    let mut details = String::new();
    of_chart(chart, values, &mut details);
    match details.is_empty() {
        true => Ok(()),
        false => Err(SchemaError { details }),
    }
}

fn of_chart(chart: &Chart, values: &Values, details: &mut String) {
    if let Some(schema) = &chart.schema
        && let Err(wrong) = of_schema(schema, values, FAULTS_BYTES_MAX.saturating_sub(details.len()))
    {
        details.push_str(chart.name());
        details.push_str(":\n");
        details.push_str(&wrong);
    }
    for subchart in &chart.dependencies {
        match values.get(subchart.name()) {
            None | Some(Value::Null) => {}
            Some(Value::Object(values)) => of_chart(subchart, values, details),
            Some(other) => {
                let found = match other {
                    Value::Bool(_) => "bool",
                    Value::Number(number) if number.is_f64() => "float64",
                    Value::Number(_) => "int64",
                    Value::String(_) => "string",
                    _ => "[]interface {}",
                };
                let name = subchart.name();
                details.push_str(&format!(
                    "{name}:\ninvalid type for values: expected object (map), got {found}\n"
                ));
            }
        }
    }
}

/// Holds values against one schema; what is wrong is a text of lines.
fn of_schema(schema: &[u8], values: &Values, bytes_max: usize) -> Result<(), String> {
    if !json_weight::is_within(schema, SCHEMA_BYTES_MAX) {
        return Err(format!(
            "the schema takes more than {SCHEMA_BYTES_MAX} bytes of memory\n"
        ));
    }
    let document: Value = serde_json::from_slice(schema).map_err(|error| error.to_string())?;
    let compiled = Compiled::new(&document).map_err(|fault| fault.to_string())?;
    check::check(&compiled, values, bytes_max).map_err(|failure| format!("{}\n", failure.listed()))
}

#[cfg(test)]
mod tests {
    use super::{FAULTS_BYTES_MAX, of_schema};
    use serde_json::json;

    fn check(schema: &serde_json::Value, values: &serde_json::Value) -> String {
        let values = values.as_object().unwrap();
        of_schema(schema.to_string().as_bytes(), values, FAULTS_BYTES_MAX)
            .err()
            .unwrap_or_default()
    }

    #[test]
    fn nothing_is_read_from_elsewhere() {
        let told = check(&json!({"$schema": "https://example.invalid/s"}), &json!({}));
        assert_eq!(
            told,
            "failing loading \"https://example.invalid/s\": no schema is read from the network"
        );
        let told = check(&json!({"$ref": "https://example.invalid/s#/a"}), &json!({}));
        assert_eq!(
            told,
            "failing loading \"https://example.invalid/s\": no schema is read from the network or from files"
        );
    }

    #[test]
    fn formats_of_texts_that_end_within_a_character() {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"a": {"format": "email"}},
        });
        for (text, told) in [
            ("\"é@x.y", ""),
            (
                "\"\\é@x.y",
                "backslash and quote are not allowed within quoted local part",
            ),
        ] {
            let found = check(&schema, &json!({ "a": text }));
            assert!(
                found.is_empty() == told.is_empty() && found.contains(told),
                "{text}: {found}"
            );
        }
    }

    /// Each level asks the next one twice.
    #[test]
    fn schemas_that_multiply_end() {
        let mut definitions = serde_json::Map::new();
        for level in 0..40 {
            let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
            definitions.insert(level.to_string(), json!({"anyOf": [next, next]}));
        }
        definitions.insert("40".into(), json!(false));
        let told = check(&json!({"$ref": "#/$defs/0", "$defs": definitions}), &json!({}));
        assert_eq!(
            told,
            "- at '': the schema was held against values more than 500000 times\n"
        );
    }

    #[test]
    fn what_is_said_and_kept_is_limited() {
        let key = "k".repeat(100_000);
        let branches = vec![json!({"items": false}); 1_000];
        let deep = |last: serde_json::Value| {
            let mut branches = branches.clone();
            branches.push(last);
            json!({"properties": {key.as_str(): {"anyOf": branches}}})
        };
        let values = json!({key.as_str(): [1, 2, 3]});
        assert_eq!(check(&deep(json!(true)), &values), "");
        let texts = "v".repeat(4_000_000);
        for (schema, values, told) in [
            (
                deep(json!(false)),
                values,
                "- at '': what is wrong takes more than 1048576 bytes to say\n",
            ),
            (
                json!({"properties": {"a": {"items": {"enum": [texts]}}}}),
                json!({"a": vec![0; 1_000]}),
                "- at '': what is wrong takes more than 1048576 bytes to say\n",
            ),
            (
                json!({"examples": vec![json!({}); 200_000]}),
                json!({}),
                "the schema takes more than 67108864 bytes of memory\n",
            ),
            (
                json!({"allOf": (0..301).map(|n| json!({"pattern": n.to_string()})).collect::<Vec<_>>()}),
                json!({}),
                "the schema has more than 300 different regular expressions in it",
            ),
            (
                json!({"allOf": (0..200).map(|n| json!({"pattern": format!("(ab){{900}}{n}")})).collect::<Vec<_>>()}),
                json!({}),
                "the regular expressions of the schema take more than 16777216 bytes",
            ),
            (
                json!({"allOf": vec![json!({"pattern": "a{900}"}); 3_000]}),
                json!({}),
                "",
            ),
        ] {
            assert_eq!(check(&schema, &values), told);
        }
    }

    #[test]
    fn schemas_that_refer_to_themselves_go_as_deep_as_values() {
        let mut values = json!(1);
        for _ in 0..120 {
            values = json!({ "a": values });
        }
        let told = check(
            &json!({"additionalProperties": {"$ref": "#"}, "type": "object"}),
            &values,
        );
        assert!(told.ends_with("': got number, want object\n"), "{told}");
    }
}
