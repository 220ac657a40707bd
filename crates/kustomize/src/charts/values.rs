//! Combines a chart's values files with inline values.

use super::{Chart, ValuesFile, ValuesMerge};
use crate::budget::Budget;
use crate::error::Fault;
use crate::patch;
use crate::schema::Schema;
use crate::spelling::{self, Spelling};
use equate_manifest::json::type_name;
use equate_manifest::yaml::{self, Dialect, Options};
use serde_json::{Map, Value};

/// Combines the kustomization's values with a file's. The file is read only if it counts.
pub(super) fn first(
    chart: &Chart,
    schema: &Schema,
    budget: &Budget,
    file: impl FnOnce() -> Result<ValuesFile, Fault>,
) -> Result<ValuesFile, Fault> {
    let inline = &chart.values_inline;
    if inline.is_empty() {
        return file();
    }
    let merged = match chart.values_merge {
        ValuesMerge::Replace => inline.clone(),
        ValuesMerge::Override => {
            let (values, spelling) = read(&file()?, budget)?;
            merge(values, &spelling, inline.clone(), schema, budget)?
        }
        ValuesMerge::Merge => {
            let (values, _) = read(&file()?, budget)?;
            merge(inline.clone(), &Spelling::default(), values, schema, budget)?
        }
    };
    Ok(ValuesFile {
        name: "valuesInline".to_owned(),
        text: yaml::to_string(&Value::Object(merged)),
    })
}

/// Reads the first document by the rules for manifests: `no` is a string and a date a time. For Helm, which
/// reads an unmerged file itself, `no` is a boolean and a date a string.
fn read(file: &ValuesFile, budget: &Budget) -> Result<(Map<String, Value>, Spelling), Fault> {
    let options = Options {
        dialect: Dialect::Yaml12,
        ..Options::default()
    };
    let name = || file.name.clone();
    let documents =
        spelling::load(&file.text, &file.name, &options, budget).map_err(|error| Fault::ValuesYaml {
            file: name(),
            line: error.place.line,
            column: error.place.column,
            fault: error.fault,
        })?;
    let first = documents.into_iter().next();
    match first.map(|(document, spelling)| (document.value, spelling)) {
        None => Err(Fault::NoValues { file: name() }),
        Some((Value::Null, _)) => Ok((Map::new(), Spelling::default())),
        Some((Value::Object(map), spelling)) => Ok((map, spelling)),
        Some((other, _)) => Err(Fault::ValuesKind {
            file: name(),
            found: type_name(&other),
        }),
    }
}

fn merge(
    under: Map<String, Value>,
    spelling: &Spelling,
    over: Map<String, Value>,
    schema: &Schema,
    budget: &Budget,
) -> Result<Map<String, Value>, Fault> {
    match patch::merge_values(under, spelling, over, schema, budget)? {
        Some(Value::Object(map)) => Ok(map),
        _ => Ok(Map::new()),
    }
}
