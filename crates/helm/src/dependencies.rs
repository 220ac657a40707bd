//! Selection of a chart's subcharts, their names, and the values they export.
//!
//! Runs for each set of values, before they are coalesced: [`process`] returns a new chart. Conditions
//! override tags. A chart in `charts/` that `Chart.yaml` does not list is always enabled.
//!
//! Where two imports meet in one map, Helm also changes the values of the first subchart; we do not.

use crate::chart::{Chart, Values};
use crate::metadata::{Dependency, Metadata};
use crate::values::coalesce::{CoalesceError, Nulls, Warning, coalesced, tables};
use crate::values::memory::{MemoryBudget, weight_of_map, weight_of_metadata, weight_of_nest};
use equate_manifest::go::version::{Constraint, Version};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

const PARENT_DEPTH_MAX: usize = 100;

/// The chart with its enabled subcharts, and warnings.
///
/// # Errors
/// The value under a subchart's name is not a map.
pub fn process(chart: &Chart, user: &Values) -> Result<(Chart, Vec<Warning>), CoalesceError> {
    let mut warnings = Vec::new();
    let mut chart = chart.clone();
    let mut memory = MemoryBudget::new();
    enable(&mut chart, user, "", &mut warnings, &mut memory)?;
    import(&mut chart, &mut warnings, &mut memory)?;
    Ok((chart, warnings))
}

/// Subcharts listed in `Chart.yaml` and missing from `charts/`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found in Chart.yaml, but missing in charts/ directory: {}", names.join(", "))]
pub struct MissingDependencies {
    /// Their names.
    pub names: Vec<String>,
}

/// Checks that all listed subcharts are present. Call it before anything else.
///
/// # Errors
/// The names of the missing subcharts.
pub fn check_present(chart: &Chart) -> Result<(), MissingDependencies> {
    let present: BTreeSet<&str> = chart.dependencies.iter().map(|chart| chart.name()).collect();
    let listed = chart.metadata.dependencies.iter().map(|listed| &listed.name);
    let names: Vec<String> = listed
        .filter(|name| !present.contains(name.as_str()))
        .cloned()
        .collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(MissingDependencies { names }),
    }
}

/// The chart does not support this Kubernetes version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {found}")]
pub struct IncompatibleKubernetes {
    /// The chart's constraint.
    pub wanted: String,
    /// The cluster's version.
    pub found: String,
}

/// Checks that a chart supports a Kubernetes version, written `v1.36.0`.
///
/// # Errors
/// The version does not meet the chart's constraint, or the constraint does not parse.
pub fn check_kubernetes(chart: &Chart, version: &str) -> Result<(), IncompatibleKubernetes> {
    let wanted = &chart.metadata.kube_version;
    if wanted.is_empty() || is_compatible(wanted, version) {
        return Ok(());
    }
    Err(IncompatibleKubernetes {
        wanted: wanted.clone(),
        found: version.to_owned(),
    })
}

/// The chart is a library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} charts are not installable")]
pub struct NotInstallable {
    /// The chart's type.
    pub kind: String,
}

/// Checks that a chart can be installed by itself.
///
/// # Errors
/// The chart is a library.
pub fn check_installable(chart: &Chart) -> Result<(), NotInstallable> {
    match chart.metadata.kind.as_str() {
        "" | "application" => Ok(()),
        kind => Err(NotInstallable {
            kind: kind.to_owned(),
        }),
    }
}

/// Whether a version meets a constraint; false if either does not parse.
pub fn is_compatible(constraint: &str, version: &str) -> bool {
    match (Constraint::parse(constraint), Version::parse(version)) {
        (Ok(constraint), Ok(version)) => constraint.matches(&version),
        _ => false,
    }
}

fn is_listed_as(chart: &Chart, listed: &Dependency) -> bool {
    chart.name() == listed.name && is_compatible(&listed.version, &chart.metadata.version)
}

/// `values` are the parent's coalesced values; `path` leads to this chart in them and ends with a dot.
fn enable(
    chart: &mut Chart,
    values: &Values,
    path: &str,
    warnings: &mut Vec<Warning>,
    memory: &mut MemoryBudget,
) -> Result<(), CoalesceError> {
    if chart.metadata.dependencies.is_empty() {
        return Ok(());
    }
    memory.take(weight_of_metadata(&chart.metadata))?;
    let mut metadata = Metadata::clone(&chart.metadata);
    chart.dependencies = named(&chart.dependencies, &metadata.dependencies, memory)?;
    for listed in &mut metadata.dependencies {
        if !listed.alias.is_empty() {
            listed.name.clone_from(&listed.alias);
        }
    }
    let before = memory.left();
    let values = coalesced(chart, values, Nulls::Drop, warnings, memory)?;
    let taken = before - memory.left();
    for listed in &mut metadata.dependencies {
        listed.enabled = true;
        by_tags(listed, &values, warnings);
    }
    for listed in &mut metadata.dependencies {
        by_conditions(listed, &values, path, warnings);
    }
    let (enabled, disabled): (Vec<_>, Vec<_>) = metadata
        .dependencies
        .into_iter()
        .partition(|listed| listed.enabled);
    let disabled: BTreeSet<String> = disabled.into_iter().map(|listed| listed.name).collect();
    chart
        .dependencies
        .retain(|subchart| !disabled.contains(subchart.name()));
    for subchart in &mut chart.dependencies {
        let path = format!("{path}{}.", subchart.name());
        enable(Arc::make_mut(subchart), &values, &path, warnings, memory)?;
    }
    memory.free(taken);
    metadata.dependencies = enabled;
    chart.metadata = Arc::new(metadata);
    Ok(())
}

/// The unlisted subcharts, then the listed ones under their names or aliases.
fn named(
    present: &[Arc<Chart>],
    listed: &[Dependency],
    memory: &mut MemoryBudget,
) -> Result<Vec<Arc<Chart>>, CoalesceError> {
    let is_listed = |chart: &Chart| listed.iter().any(|listed| is_listed_as(chart, listed));
    let mut charts: Vec<Arc<Chart>> = present
        .iter()
        .filter(|chart| !is_listed(chart))
        .cloned()
        .collect();
    for listed in listed {
        let Some(found) = present.iter().find(|chart| is_listed_as(chart, listed)) else {
            continue;
        };
        let mut chart = Arc::clone(found);
        if !listed.alias.is_empty() {
            memory.take(weight_of_metadata(&found.metadata) + size_of_val(found.dependencies.as_slice()))?;
            let renamed = Arc::make_mut(&mut Arc::make_mut(&mut chart).metadata);
            renamed.name.clone_from(&listed.alias);
        }
        charts.push(chart);
    }
    Ok(charts)
}

/// One true tag enables; otherwise one false tag disables.
fn by_tags(listed: &mut Dependency, values: &Values, warnings: &mut Vec<Warning>) {
    let Some(Value::Object(tags)) = values.get("tags") else {
        return;
    };
    let (mut on, mut off) = (false, false);
    for tag in &listed.tags {
        match tags.get(tag) {
            None => {}
            Some(Value::Bool(true)) => on = true,
            Some(Value::Bool(false)) => off = true,
            Some(_) => warnings.push(Warning::Tag {
                tag: tag.clone(),
                chart: listed.name.clone(),
            }),
        }
    }
    listed.enabled = on || !off;
}

/// The first path to a boolean decides.
fn by_conditions(listed: &mut Dependency, values: &Values, path: &str, warnings: &mut Vec<Warning>) {
    let conditions = listed.condition.trim().to_owned();
    for condition in conditions.split(',').filter(|condition| !condition.is_empty()) {
        match at_path(values, &format!("{path}{condition}")) {
            None | Some(Value::Object(_)) => {}
            Some(Value::Bool(flag)) => {
                listed.enabled = *flag;
                return;
            }
            Some(_) => warnings.push(Warning::Condition {
                path: condition.to_owned(),
                chart: listed.name.clone(),
            }),
        }
    }
}

fn at_path<'v>(values: &'v Values, path: &str) -> Option<&'v Value> {
    let (tables, key) = match path.rsplit_once('.') {
        Some((tables, key)) => (table(values, tables).ok()?, key),
        None => (values, path),
    };
    tables.get(key)
}

/// The map at a path, or the key that is not a map.
fn table<'v>(values: &'v Values, path: &str) -> Result<&'v Values, String> {
    path.split('.')
        .try_fold(values, |table, key| match table.get(key) {
            Some(Value::Object(table)) => Ok(table),
            _ => Err(key.to_owned()),
        })
}

/// Subcharts first, so that a parent can import their imports.
fn import(
    chart: &mut Chart,
    warnings: &mut Vec<Warning>,
    memory: &mut MemoryBudget,
) -> Result<(), CoalesceError> {
    for subchart in &mut chart.dependencies {
        if has_imports(subchart) {
            import(Arc::make_mut(subchart), warnings, memory)?;
        }
    }
    if chart.metadata.dependencies.is_empty() {
        return Ok(());
    }
    let mut values = coalesced(chart, &Values::new(), Nulls::Keep, warnings, memory)?;
    memory.take(weight_of_metadata(&chart.metadata))?;
    let mut metadata = Metadata::clone(&chart.metadata);
    let mut imported = Values::new();
    for listed in &mut metadata.dependencies {
        import_from(listed, &values, &mut imported, warnings, memory)?;
    }
    tables(&mut values, imported, "", Nulls::Keep, warnings);
    chart.values = Arc::new(values);
    chart.metadata = Arc::new(metadata);
    Ok(())
}

fn has_imports(chart: &Chart) -> bool {
    !chart.metadata.dependencies.is_empty() || chart.dependencies.iter().any(|chart| has_imports(chart))
}

/// The exports of one dependency, under those of others. Writes the full form back to `import-values`.
fn import_from(
    listed: &mut Dependency,
    values: &Values,
    imported: &mut Values,
    warnings: &mut Vec<Warning>,
    memory: &mut MemoryBudget,
) -> Result<(), CoalesceError> {
    let mut asked = Vec::new();
    for one in &listed.import_values {
        let (child, parent, short) = match one {
            Value::String(name) => (format!("exports.{name}"), ".".to_owned(), true),
            Value::Object(map) => (text(map.get("child")), text(map.get("parent")), false),
            _ => continue,
        };
        if parent.split('.').count() > PARENT_DEPTH_MAX {
            return Err(CoalesceError::Depth(PARENT_DEPTH_MAX));
        }
        match table(values, &format!("{}.{child}", listed.name)) {
            Ok(found) => {
                let around: usize = parent.split('.').map(weight_of_nest).sum();
                memory.take(around + weight_of_map(found))?;
                let found = nested(&parent, found.clone());
                tables(imported, found, "", Nulls::Keep, warnings);
            }
            Err(key) if short => warnings.push(Warning::NoExport { key }),
            Err(key) => warnings.push(Warning::NoImport {
                chart: listed.name.clone(),
                key,
            }),
        }
        let mut full = Map::new();
        full.insert("child".into(), child.into());
        full.insert("parent".into(), parent.into());
        asked.push(Value::Object(full));
    }
    listed.import_values = asked;
    Ok(())
}

fn text(value: Option<&Value>) -> String {
    crate::values::plain_text(value.unwrap_or(&Value::Null))
}

fn nested(path: &str, map: Values) -> Values {
    if path == "." {
        return map;
    }
    path.rsplit('.').fold(map, |below, key| {
        let mut map = Map::new();
        map.insert(key.to_owned(), Value::Object(below));
        map
    })
}
