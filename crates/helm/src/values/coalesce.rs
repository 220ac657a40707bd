//! Coalescing: a user's values over those of a chart and its subcharts.
//!
//! A user's value replaces the chart's, maps are merged, and a user's null removes the chart's value. A
//! subchart sees the table with its name, with the parent's `global` merged over its own. As in Helm,
//! maps two levels below `global` are shared: a subchart's values there are visible to the parent and all
//! other subcharts.

use super::memory::{MemoryBudget, weight, weight_of_key, weight_of_map, weight_of_nest};
use super::print;
use crate::chart::{Chart, Values};
use crate::log::{Level, LogLine};
use equate_manifest::go::quote;
use serde_json::{Map, Value};

/// A warning of coalescing; displays Helm's text.
#[derive(Debug, Clone, PartialEq)]
pub enum Warning {
    /// A user's map where the chart has another type.
    SkippedValue {
        /// The chart's path and the key.
        key: String,
    },
    /// A user's value where the chart has a map.
    NotTable {
        /// The path.
        key: String,
        /// The chart's value.
        value: Value,
    },
    /// A user's map where the chart has another type, below the first level.
    IsTable {
        /// The path.
        key: String,
        /// The chart's value.
        value: Value,
    },
    /// A subchart's `global` is not a map.
    GlobalDestination,
    /// The parent's `global` is not a map.
    GlobalSource,
    /// A global map of the parent where the subchart has another type.
    GlobalConflict {
        /// The key below `global`.
        key: String,
    },
    /// A global value of the parent where the subchart has a map.
    GlobalTable {
        /// The key below `global`.
        key: String,
    },
    /// The value of a condition is not a boolean.
    Condition {
        /// The path.
        path: String,
        /// The dependency.
        chart: String,
    },
    /// The value of a tag is not a boolean.
    Tag {
        /// The tag.
        tag: String,
        /// The dependency.
        chart: String,
    },
    /// The export does not exist.
    NoExport {
        /// The missing key.
        key: String,
    },
    /// The import path does not exist.
    NoImport {
        /// The dependency.
        chart: String,
        /// The missing key.
        key: String,
    },
}

impl Warning {
    /// The line that Helm logs.
    pub fn log_line(&self) -> LogLine {
        let warn = |message: &str| LogLine::new(Level::Warn, message);
        let no_table = |key: &str| format!("{} is not a table", quote(key));
        let text = match self {
            Self::Condition { path, chart } => {
                return warn("returned non-bool value")
                    .with("path", path)
                    .with("chart", chart);
            }
            Self::Tag { tag, chart } => {
                return warn("returned non-bool value")
                    .with("tag", tag)
                    .with("chart", chart);
            }
            Self::NoExport { key } => {
                return warn("ImportValues missing table").with("error", no_table(key));
            }
            Self::NoImport { chart, key } => {
                return warn("ImportValues missing table from chart")
                    .with("chart", chart)
                    .with("error", no_table(key));
            }
            Self::SkippedValue { key } => format!("warning: skipped value for {key}: Not a table."),
            Self::NotTable { key, value } => format!(
                "warning: cannot overwrite table with non table for {key} ({})",
                print::plain(value)
            ),
            Self::IsTable { key, value } => format!(
                "warning: destination for {key} is a table. Ignoring non-table value ({})",
                print::plain(value)
            ),
            Self::GlobalDestination => {
                "warning: skipping globals because destination global is not a table.".to_owned()
            }
            Self::GlobalSource => {
                "warning: skipping globals because source global is not a table.".to_owned()
            }
            Self::GlobalConflict { key } => {
                format!(
                    "Conflict: cannot merge map onto non-map for {}. Skipping.",
                    quote(key)
                )
            }
            Self::GlobalTable { key } => format!("key {key} is table. Skipping"),
        };
        // from Go's older log package
        LogLine::new(Level::Info, text)
    }
}

/// Values cannot be coalesced.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CoalesceError {
    /// The value under a subchart's name is not a map.
    #[error("type mismatch on {chart}: {}", print::boolean(value))]
    Subchart {
        /// The subchart.
        chart: String,
        /// The value.
        value: Value,
    },
    /// An import path is too long.
    #[error("import-values has a path of more than {0} keys")]
    Depth(usize),
    /// Values take too much memory.
    #[error("the coalesced values take more than {0} bytes")]
    Bytes(usize),
    /// Values are copied too often.
    #[error("coalescing the values copies more than {0} bytes")]
    Copied(usize),
}

/// The values of a chart's templates, and warnings.
///
/// # Errors
/// The value under a subchart's name is not a map.
pub fn coalesce(chart: &Chart, user: &Values) -> Result<(Values, Vec<Warning>), CoalesceError> {
    let mut warnings = Vec::new();
    let values = coalesced(chart, user, Nulls::Drop, &mut warnings, &mut MemoryBudget::new())?;
    Ok((values, warnings))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// Remove the null and the chart's value.
    Drop,
    /// Keep the null for a later pass.
    Keep,
}

pub(crate) fn coalesced(
    chart: &Chart,
    user: &Values,
    nulls: Nulls,
    warnings: &mut Vec<Warning>,
    memory: &mut MemoryBudget,
) -> Result<Values, CoalesceError> {
    memory.take(weight_of_map(user))?;
    let mut values = user.clone();
    let mut coalescing = Coalescing {
        nulls,
        warnings,
        memory,
    };
    coalescing.chart(chart, &mut values, "")?;
    hand_down(chart, &mut values, memory)?;
    Ok(values)
}

const GLOBAL: &str = "global";

struct Coalescing<'w> {
    nulls: Nulls,
    warnings: &'w mut Vec<Warning>,
    memory: &'w mut MemoryBudget,
}

fn below(prefix: &str, key: &str) -> String {
    match prefix {
        "" => key.to_owned(),
        prefix => format!("{prefix}.{key}"),
    }
}

impl Coalescing<'_> {
    fn chart(&mut self, chart: &Chart, values: &mut Values, prefix: &str) -> Result<(), CoalesceError> {
        self.own(chart, values, prefix)?;
        let prefix = below(prefix, chart.name());
        for subchart in &chart.dependencies {
            let name = subchart.name();
            let mut own = match values.get_mut(name) {
                None => {
                    self.memory.take(weight_of_nest(name) + weight_of_nest(GLOBAL))?;
                    Values::new()
                }
                Some(Value::Object(own)) => std::mem::take(own),
                Some(value) => {
                    return Err(CoalesceError::Subchart {
                        chart: name.to_owned(),
                        value: value.clone(),
                    });
                }
            };
            let shared = self.globals(&mut own, values, &prefix)?;
            self.chart(subchart, &mut own, &prefix)?;
            if shared {
                give_back(values, &own, self.memory)?;
            }
            values.insert(name.to_owned(), Value::Object(own));
        }
        Ok(())
    }

    fn own(&mut self, chart: &Chart, values: &mut Values, prefix: &str) -> Result<(), CoalesceError> {
        let prefix = below(prefix, chart.name());
        for (key, default) in chart.values.iter() {
            match values.get_mut(key) {
                Some(Value::Null) if self.nulls == Nulls::Drop => {
                    values.remove(key);
                }
                Some(Value::Object(table)) => match default {
                    Value::Object(default) => {
                        let is_subchart = chart.dependencies.iter().any(|sub| sub.name() == key);
                        self.memory.take(weight_of_map(default))?;
                        let nulls = if is_subchart { Nulls::Keep } else { self.nulls };
                        let default = match nulls {
                            Nulls::Drop => without_nulls(default),
                            Nulls::Keep => default.clone(),
                        };
                        tables(table, default, &below(&prefix, key), nulls, self.warnings);
                    }
                    Value::Null => {}
                    _ => self.warnings.push(Warning::SkippedValue {
                        key: below(&prefix, key),
                    }),
                },
                Some(_) => {}
                None => {
                    self.memory.take(weight_of_key(key) + weight(default))?;
                    let default = match (self.nulls, default) {
                        (Nulls::Drop, Value::Null) => continue,
                        (Nulls::Drop, Value::Object(table)) => Value::Object(without_nulls(table)),
                        (_, default) => default.clone(),
                    };
                    values.insert(key.clone(), default);
                }
            }
        }
        Ok(())
    }

    /// Merges the parent's globals over a subchart's. Returns whether it did.
    fn globals(
        &mut self,
        subchart: &mut Values,
        parent: &Values,
        prefix: &str,
    ) -> Result<bool, CoalesceError> {
        let empty = Map::new();
        let mut into = match subchart.get(GLOBAL) {
            None => Map::new(),
            Some(Value::Object(into)) => into.clone(),
            Some(_) => {
                self.warnings.push(Warning::GlobalDestination);
                return Ok(false);
            }
        };
        let from = match parent.get(GLOBAL) {
            None => &empty,
            Some(Value::Object(from)) => from,
            Some(_) => {
                self.warnings.push(Warning::GlobalSource);
                return Ok(false);
            }
        };
        for (key, value) in from {
            match (value, into.get_mut(key)) {
                (Value::Object(table), Some(Value::Object(over))) => {
                    self.memory.take(weight_of_map(table))?;
                    let under = std::mem::replace(over, table.clone());
                    tables(over, under, &below(prefix, key), Nulls::Keep, self.warnings);
                }
                (Value::Object(_), Some(_)) => {
                    self.warnings.push(Warning::GlobalConflict { key: key.clone() });
                }
                (value, Some(Value::Object(_))) if !value.is_object() => {
                    self.warnings.push(Warning::GlobalTable { key: key.clone() });
                }
                (value, _) => {
                    self.memory.take(weight_of_key(key) + weight(value))?;
                    into.insert(key.clone(), value.clone());
                }
            }
        }
        subchart.insert(GLOBAL.into(), Value::Object(into));
        Ok(true)
    }
}

/// Copies a subchart's values in shared global maps to the parent, so that the next subchart sees them.
fn give_back(parent: &mut Values, subchart: &Values, memory: &mut MemoryBudget) -> Result<(), CoalesceError> {
    if let (Some(Value::Object(own)), Some(Value::Object(seen))) =
        (parent.get_mut(GLOBAL), subchart.get(GLOBAL))
    {
        share(own, seen, memory)?;
    }
    Ok(())
}

/// At the end, copies shared global maps to the earlier subcharts.
fn hand_down(chart: &Chart, values: &mut Values, memory: &mut MemoryBudget) -> Result<(), CoalesceError> {
    for subchart in &chart.dependencies {
        let Some(Value::Object(own)) = values.get_mut(subchart.name()) else {
            continue;
        };
        let mut own = std::mem::take(own);
        if let (Some(Value::Object(into)), Some(Value::Object(from))) =
            (own.get_mut(GLOBAL), values.get(GLOBAL))
        {
            share(into, from, memory)?;
        }
        hand_down(subchart, &mut own, memory)?;
        values.insert(subchart.name().to_owned(), Value::Object(own));
    }
    Ok(())
}

/// Merges maps that both have, from the second level on.
fn share(into: &mut Values, from: &Values, memory: &mut MemoryBudget) -> Result<(), CoalesceError> {
    for (key, table) in into {
        let (Value::Object(table), Some(Value::Object(from))) = (table, from.get(key)) else {
            continue;
        };
        for (key, inner) in table {
            if let (true, Some(from @ Value::Object(_))) = (inner.is_object(), from.get(key))
                && inner != from
            {
                memory.take(weight(from))?;
                inner.clone_from(from);
            }
        }
    }
    Ok(())
}

pub(crate) fn tables(
    over: &mut Values,
    under: Values,
    prefix: &str,
    nulls: Nulls,
    warnings: &mut Vec<Warning>,
) {
    for (key, value) in under {
        let full = || below(prefix, &key);
        match (over.get_mut(&key), value) {
            (None, value) => {
                over.insert(key, value);
            }
            (Some(Value::Null), value) => {
                if nulls == Nulls::Drop && !value.is_null() {
                    over.remove(&key);
                }
            }
            (Some(Value::Object(over)), Value::Object(under)) => {
                tables(over, under, &full(), nulls, warnings);
            }
            (Some(Value::Object(_)), Value::Null) => {}
            (Some(Value::Object(_)), value) => warnings.push(Warning::IsTable { key: full(), value }),
            (Some(_), value @ Value::Object(_)) => warnings.push(Warning::NotTable { key: full(), value }),
            (Some(_), _) => {}
        }
    }
}

fn without_nulls(table: &Values) -> Values {
    table
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| {
            let value = match value {
                Value::Object(table) => Value::Object(without_nulls(table)),
                other => other.clone(),
            };
            (key.clone(), value)
        })
        .collect()
}
