//! `values.schema.json`: validation of a chart's and its subcharts' values.
//!
//! `$schema` selects one of the drafts 4, 6, 7, 2019-09 and 2020-12; the default is 2020-12. Formats are
//! checked before 2019-09 only. Helm lists several errors of a map in random order; ours are in key
//! order.
//!
//! Errors: references to the network and to files (Helm would read them), and an unknown `$schema`. As in
//! Helm, a reference to a `urn:` accepts everything. The schema itself is checked for the types of its
//! keywords only, not against its draft's meta-schema.

mod address;
mod check;
mod compile;
mod equal;
mod failure;
mod format;
mod number;

use crate::chart::{Chart, Values};
use crate::json_weight;
use check::FAULTS_BYTES_MAX;
use compile::Compiled;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

pub use compile::SchemaFault;

/// The most memory of a parsed schema; large ones take a few megabytes.
const SCHEMA_BYTES_MAX: usize = 32 << 20;

/// Invalid values of a chart or its subcharts. Prints Helm's text, several lines.
#[derive(Debug, Clone, thiserror::Error)]
#[error("values don't meet the specifications of the schema(s) in the following chart(s):\n{}", told(.charts))]
pub struct SchemaError {
    /// The errors, chart by chart.
    pub charts: Vec<(String, InvalidChart)>,
}

fn told(charts: &[(String, InvalidChart)]) -> String {
    let told = charts.iter().map(|(chart, wrong)| format!("{chart}:\n{wrong}"));
    told.collect()
}

/// The values or the schema of a chart are invalid.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InvalidChart {
    /// The schema is unusable.
    #[error(transparent)]
    Schema(#[from] UnusableSchema),
    /// The values are invalid: a list of errors, in lines.
    #[error("{0}\n")]
    Values(String),
    /// The values of a subchart are not a map.
    #[error("invalid type for values: expected object (map), got {0}\n")]
    NoMap(&'static str),
}

/// A schema is unusable.
#[derive(Debug, Clone, thiserror::Error)]
pub enum UnusableSchema {
    /// It is too large.
    #[error("the schema takes more than {0} bytes of memory\n")]
    Memory(usize),
    /// It is not JSON.
    #[error(transparent)]
    Json(Arc<serde_json::Error>),
    /// It is not a schema, or has a dangling reference.
    #[error(transparent)]
    Fault(#[from] SchemaFault),
}

/// Validates coalesced values against the schemas of a chart and its subcharts.
///
/// # Errors
/// All errors, chart by chart; unusable schemas included.
pub fn validate(chart: &Chart, values: &Values) -> Result<(), SchemaError> {
    let schemas = Schemas::read(chart);
    match schemas.is_empty() {
        true => Ok(()),
        false => schemas.check(&mut values.clone()),
    }
}

pub(crate) struct Schemas {
    chart: String,
    own: Option<Result<Compiled, UnusableSchema>>,
    below: Vec<Self>,
    weight: usize,
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schemas")
            .field("chart", &self.chart)
            .field("below", &self.below)
            .finish_non_exhaustive()
    }
}

impl Schemas {
    pub(crate) fn read(chart: &Chart) -> Self {
        let own = chart.schema.as_deref().map(read);
        let below: Vec<Self> = chart.dependencies.iter().map(|chart| Self::read(chart)).collect();
        let weight = match &own {
            // a compiled schema keeps several times its text
            Some(Ok(compiled)) => compiled.weight() + 4 * chart.schema.as_ref().map_or(0, |text| text.len()),
            Some(Err(_)) | None => 0,
        };
        Self {
            chart: chart.name().to_owned(),
            own,
            weight: weight + below.iter().map(|below| below.weight).sum::<usize>(),
            below,
        }
    }

    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// Whether all values are valid, provided those of subcharts are maps, as coalescing ensures.
    fn is_empty(&self) -> bool {
        self.own.is_none() && self.below.iter().all(Self::is_empty)
    }

    /// Validates coalesced values and leaves them unchanged.
    pub(crate) fn check(&self, values: &mut Values) -> Result<(), SchemaError> {
        let mut charts = Vec::new();
        let mut left = FAULTS_BYTES_MAX;
        let whole = Value::Object(std::mem::take(values));
        self.check_below(&whole, &mut left, &mut charts);
        if let Value::Object(whole) = whole {
            *values = whole;
        }
        match charts.is_empty() {
            true => Ok(()),
            false => Err(SchemaError { charts }),
        }
    }

    fn check_below(&self, values: &Value, left: &mut usize, charts: &mut Vec<(String, InvalidChart)>) {
        let wrong = match &self.own {
            None => None,
            Some(Err(fault)) => Some(InvalidChart::Schema(fault.clone())),
            Some(Ok(compiled)) => check::check(compiled, values, *left)
                .err()
                .map(|failure| InvalidChart::Values(failure.listed())),
        };
        if let Some(wrong) = wrong {
            if let InvalidChart::Values(told) = &wrong {
                *left = left.saturating_sub(told.len());
            }
            charts.push((self.chart.clone(), wrong));
        }
        for below in &self.below {
            let found = match values.get(&below.chart) {
                None | Some(Value::Null) => continue,
                Some(values @ Value::Object(_)) => {
                    below.check_below(values, left, charts);
                    continue;
                }
                Some(Value::Bool(_)) => "bool",
                Some(Value::Number(number)) if number.is_f64() => "float64",
                Some(Value::Number(_)) => "int64",
                Some(Value::String(_)) => "string",
                Some(Value::Array(_)) => "[]interface {}",
            };
            charts.push((below.chart.clone(), InvalidChart::NoMap(found)));
        }
    }
}

fn read(schema: &[u8]) -> Result<Compiled, UnusableSchema> {
    if !json_weight::is_within(schema, SCHEMA_BYTES_MAX) {
        return Err(UnusableSchema::Memory(SCHEMA_BYTES_MAX));
    }
    let document: Value =
        serde_json::from_slice(schema).map_err(|error| UnusableSchema::Json(Arc::new(error)))?;
    Ok(Compiled::new(&document)?)
}

#[cfg(test)]
mod tests {
    use super::Schemas;
    use crate::chart::Chart;
    use serde_json::json;

    fn check(schema: &serde_json::Value, values: &serde_json::Value) -> String {
        let chart = Chart {
            schema: Some(schema.to_string().into_bytes().into()),
            ..Chart::default()
        };
        let error = Schemas::read(&chart)
            .check(&mut values.as_object().unwrap().clone())
            .err();
        error.map_or_else(String::new, |error| error.charts[0].1.to_string())
    }

    #[test]
    fn schemas_are_not_read_from_network_or_files() {
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

    /// Each level evaluates the next one twice.
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
    fn errors_and_memory_are_limited() {
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
                "the schema takes more than 33554432 bytes of memory\n",
            ),
            (
                json!({"allOf": (0..301).map(|n| json!({"pattern": n.to_string()})).collect::<Vec<_>>()}),
                json!({}),
                "the schema has more than 300 different regular expressions",
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
    fn comparisons_are_counted() {
        let many: Vec<_> = (0..20_000).map(|n| json!({ "a": n })).collect();
        let limit = "- at '': holding the schema against values takes more than 10000000 comparisons\n";
        for (schema, told) in [
            (json!({"uniqueItems": true}), ""),
            (json!({"items": {"enum": many}}), limit),
            (
                json!({"contains": {"required": (0..20_000).map(|n| n.to_string()).collect::<Vec<_>>()}}),
                limit,
            ),
        ] {
            let schema = json!({"properties": {"a": schema}});
            assert_eq!(check(&schema, &json!({ "a": many })), told, "{told}");
        }
        let texts = vec!["a".repeat(1_500_000); 2];
        let schema = json!({"properties": {"a": {"items": {"pattern": "a"}}}});
        assert_eq!(check(&schema, &json!({ "a": texts })), limit);
    }

    #[test]
    fn references_that_lead_on_and_on_end() {
        let next = |n: usize| json!({"$ref": format!("#/$defs/{}", n + 1)});
        let mut definitions: serde_json::Map<_, _> = (0..5_000).map(|n| (n.to_string(), next(n))).collect();
        definitions.insert("5000".into(), json!(true));
        let told = check(&json!({"$ref": "#/$defs/0", "$defs": definitions}), &json!({}));
        assert_eq!(
            told,
            "- at '': schemas lead to one another more than 2000 times\n"
        );
    }

    #[test]
    fn recursive_schemas_end_with_the_values() {
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
