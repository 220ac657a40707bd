//! Template values, with the maps that charts share.
//!
//! Helm copies `global` into each subchart two levels deep: `.Values.global` and the maps in it belong to
//! each chart. Deeper maps and lists are shared by a chart and its subcharts, so a change by one template
//! is visible to the others. Coalesced values hold equal copies; this module shares them again.

use super::Part;
use crate::chart::Values;
use equate_template::{Entries, List, Map, Str, Value};
use serde_json::Value as Json;
use std::collections::BTreeMap;

const GLOBAL: &str = "global";

pub(super) fn values(part: &Part, values: &Values) -> Map {
    of_chart(part, values, None)
}

fn of_chart(part: &Part, values: &Values, outer: Option<&Map>) -> Map {
    let global = match (values.get(GLOBAL), outer) {
        (Some(Json::Object(own)), Some(outer)) => Some(globals(own, outer)),
        (Some(Json::Object(own)), None) => Some(map(own)),
        _ => None,
    };
    let below: BTreeMap<&str, &Part> = part.below.iter().map(|below| (&*below.name, below)).collect();
    let mut entries = BTreeMap::new();
    for (key, json) in values {
        let converted = match (json, &global) {
            (Json::Object(_), Some(global)) if key == GLOBAL => global.clone().into(),
            (Json::Object(own), _) => match below.get(key.as_str()) {
                Some(below) => of_chart(below, own, global.as_ref()).into(),
                None => map(own).into(),
            },
            (json, _) => value(json),
        };
        entries.insert(Str::from(key.as_str()), converted);
    }
    Map::of(Entries::Any, entries)
}

/// The globals of a chart: its own maps, with the parent's values inside.
fn globals(own: &Values, outer: &Map) -> Map {
    let entry = |(key, json): (&String, &Json)| {
        let converted = match (json, outer.get(key.as_bytes())) {
            (Json::Object(own), Some(Value::Map(outer))) => {
                let entries = own.iter().map(|(key, json)| {
                    let shared = outer.get(key.as_bytes());
                    (Str::from(key.as_str()), one(json, shared))
                });
                Map::of(Entries::Any, entries.collect()).into()
            }
            (Json::Object(own), _) => map(own).into(),
            (json, outer) => one(json, outer),
        };
        (Str::from(key.as_str()), converted)
    };
    Map::of(Entries::Any, own.iter().map(entry).collect())
}

/// The parent's value, if it has the same type.
fn one(json: &Json, shared: Option<Value>) -> Value {
    match (json, shared) {
        (Json::Object(_), Some(shared @ Value::Map(_))) | (Json::Array(_), Some(shared @ Value::List(_))) => {
            shared
        }
        (json, _) => value(json),
    }
}

fn map(json: &Values) -> Map {
    let entries = json
        .iter()
        .map(|(key, item)| (Str::from(key.as_str()), value(item)));
    Map::of(Entries::Any, entries.collect())
}

/// A value for templates: integers are `int64`, as from `--set` and cluster objects. A chart's own
/// numbers were read as `float64`.
pub fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => match number.as_i64() {
            Some(whole) if !number.is_f64() => Value::int64(whole),
            _ => Value::Float(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::List(List::new(items.iter().map(value).collect())),
        Json::Object(entries) => Value::Map(map(entries)),
    }
}
