//! Which of a chart's subcharts take part, under which names, and what values they hand up.
//!
//! Decided for each set of values anew, before values are coalesced: [`process`] leaves the chart that it
//! is given as it is and answers another. Conditions go over tags; a chart in `charts/` that `Chart.yaml`
//! does not list always takes part.
//!
//! Where two imports meet in one map, Helm changes the values of the subchart that came first as well;
//! here they stay what they are.

use crate::chart::{Chart, Values};
use crate::metadata::{Dependency, Metadata};
use crate::values::coalesce::{CoalesceError, Nulls, Warning, coalesced, tables};
use crate::values::room::{Room, weight_of_map, weight_of_metadata, weight_of_nest};
use equate_template::{Constraint, Version};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The longest path to which values are imported.
const PARENT_DEPTH_MAX: usize = 100;

/// A chart with the subcharts that take part, and what was passed over on the way.
///
/// # Errors
/// Something that is no map under a subchart's name.
pub fn process(chart: &Chart, user: &Values) -> Result<(Chart, Vec<Warning>), CoalesceError> {
    let mut warnings = Vec::new();
    let mut chart = chart.clone();
    let mut room = Room::new();
    enable(&mut chart, user, "", &mut warnings, &mut room)?;
    import(&mut chart, &mut warnings, &mut room)?;
    Ok((chart, warnings))
}

/// Subcharts that `Chart.yaml` lists and that are not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found in Chart.yaml, but missing in charts/ directory: {}", names.join(", "))]
pub struct MissingDependencies {
    /// Their names.
    pub names: Vec<String>,
}

/// That all subcharts that `Chart.yaml` lists are there. Asked before anything else is done with the chart.
///
/// # Errors
/// The names of those that are not.
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

/// A chart that is not for this version of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {found}")]
pub struct IncompatibleKubernetes {
    /// What the chart wants, a constraint.
    pub wanted: String,
    /// The version there is.
    pub found: String,
}

/// That a chart is for a version of Kubernetes, written `v1.36.0`.
///
/// # Errors
/// The version is not what the chart wants, or the chart wants something that is no constraint.
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

/// A chart that is only for other charts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} charts are not installable")]
pub struct NotInstallable {
    /// Its type.
    pub kind: String,
}

/// That a chart can be installed by itself.
///
/// # Errors
/// It is a library.
pub fn check_installable(chart: &Chart) -> Result<(), NotInstallable> {
    match chart.metadata.kind.as_str() {
        "" | "application" => Ok(()),
        kind => Err(NotInstallable {
            kind: kind.to_owned(),
        }),
    }
}

/// Whether a version meets a constraint. What is no version or no constraint does not.
pub fn is_compatible(constraint: &str, version: &str) -> bool {
    match (Constraint::parse(constraint), Version::parse(version)) {
        (Ok(constraint), Ok(version)) => constraint.allows(&version),
        _ => false,
    }
}

fn is_listed_as(chart: &Chart, listed: &Dependency) -> bool {
    chart.name() == listed.name && is_compatible(&listed.version, &chart.metadata.version)
}

/// `values` are those of the chart above, put together; `path` leads to the chart in them, with a dot at its end.
fn enable(
    chart: &mut Chart,
    values: &Values,
    path: &str,
    warnings: &mut Vec<Warning>,
    room: &mut Room,
) -> Result<(), CoalesceError> {
    if chart.metadata.dependencies.is_empty() {
        return Ok(());
    }
    room.take(weight_of_metadata(&chart.metadata))?;
    let mut metadata = Metadata::clone(&chart.metadata);
    chart.dependencies = named(&chart.dependencies, &metadata.dependencies, room)?;
    for listed in &mut metadata.dependencies {
        if !listed.alias.is_empty() {
            listed.name.clone_from(&listed.alias);
        }
    }
    let before = room.left();
    let values = coalesced(chart, values, Nulls::Drop, warnings, room)?;
    let taken = before - room.left();
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
        enable(Arc::make_mut(subchart), &values, &path, warnings, room)?;
    }
    room.free(taken);
    metadata.dependencies = enabled;
    chart.metadata = Arc::new(metadata);
    Ok(())
}

/// The subcharts that are not listed, then those that are, each under the name it is to have.
fn named(
    present: &[Arc<Chart>],
    listed: &[Dependency],
    room: &mut Room,
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
            room.take(weight_of_metadata(&found.metadata) + size_of_val(found.dependencies.as_slice()))?;
            let renamed = Arc::make_mut(&mut Arc::make_mut(&mut chart).metadata);
            renamed.name.clone_from(&listed.alias);
        }
        charts.push(chart);
    }
    Ok(charts)
}

/// Any tag that is on enables; else any that is off disables.
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

/// The first path that leads to a boolean decides.
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

/// The map that a path leads to, or the key that leads to none.
fn table<'v>(values: &'v Values, path: &str) -> Result<&'v Values, String> {
    path.split('.')
        .try_fold(values, |table, key| match table.get(key) {
            Some(Value::Object(table)) => Ok(table),
            _ => Err(key.to_owned()),
        })
}

/// Subcharts first, so that what one imports can be imported from it.
fn import(chart: &mut Chart, warnings: &mut Vec<Warning>, room: &mut Room) -> Result<(), CoalesceError> {
    for subchart in &mut chart.dependencies {
        if has_imports(subchart) {
            import(Arc::make_mut(subchart), warnings, room)?;
        }
    }
    if chart.metadata.dependencies.is_empty() {
        return Ok(());
    }
    let mut values = coalesced(chart, &Values::new(), Nulls::Keep, warnings, room)?;
    room.take(weight_of_metadata(&chart.metadata))?;
    let mut metadata = Metadata::clone(&chart.metadata);
    let mut imported = Values::new();
    for listed in &mut metadata.dependencies {
        import_from(listed, &values, &mut imported, warnings, room)?;
    }
    tables(&mut values, imported, "", Nulls::Keep, warnings);
    chart.values = Arc::new(values);
    chart.metadata = Arc::new(metadata);
    Ok(())
}

/// Whether there is anything to do for a chart and those in it.
fn has_imports(chart: &Chart) -> bool {
    !chart.metadata.dependencies.is_empty() || chart.dependencies.iter().any(|chart| has_imports(chart))
}

/// What one dependency hands up, under what others did. What is asked for is written out in full.
fn import_from(
    listed: &mut Dependency,
    values: &Values,
    imported: &mut Values,
    warnings: &mut Vec<Warning>,
    room: &mut Room,
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
                room.take(around + weight_of_map(found))?;
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

/// A map below a path.
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
