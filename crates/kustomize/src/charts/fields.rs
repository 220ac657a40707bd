//! Reads the chart fields of a kustomization.

use super::Chart;
use crate::error::{BuildError, Fault, Place};
use crate::kustomization::shapes::{HELM_CHART, HELM_GLOBALS};
use crate::kustomization::{Kustomization, UnknownFields, decode};
use crate::loader::{Loader, at};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashMap;

const HOME: &str = "charts";

/// The fields of `helmChartInflationGenerator[]` and their names in `helmCharts[]`. kustomize ignores the
/// others.
const SUCCESSORS: [(&str, &str); 7] = [
    ("chartName", "name"),
    ("chartVersion", "version"),
    ("chartRepoUrl", "repo"),
    ("values", "valuesFile"),
    ("valuesLocal", "valuesInline"),
    ("valuesMerge", "valuesMerge"),
    ("releaseName", "releaseName"),
];

pub(crate) struct ChartRequest {
    pub(super) chart: Chart,
    pub(super) home: String,
}

/// `helmGlobals`. Its `configHome` is for the Helm binary and unused here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Globals {
    chart_home: String,
}

impl Globals {
    fn home(&self) -> &str {
        match self.chart_home.as_str() {
            "" => HOME,
            home => home,
        }
    }
}

/// The charts of a kustomization; `namespace` is for charts that set none.
pub(super) fn of(
    kustomization: &Kustomization,
    namespace: &str,
) -> Result<Vec<(ChartRequest, Place)>, BuildError> {
    let fields = &kustomization.fields;
    let old = &fields.helm_chart_inflation_generator;
    let globals = match &fields.helm_globals {
        Some(value) => read_globals(value.clone(), UnknownFields::Refused)
            .map_err(at(kustomization.place(&["helmGlobals"])))?,
        None => old_globals(old),
    };
    let now = fields.helm_charts.iter().cloned().enumerate();
    let now = now.map(|(index, value)| (value, kustomization.item("helmCharts", index)));
    let old = old.iter().enumerate().map(|(index, value)| {
        let place = kustomization.item("helmChartInflationGenerator", index);
        (in_todays_words(value), place)
    });
    let mut charts = Vec::new();
    for (value, place) in now.chain(old) {
        let chart = read(value, UnknownFields::Refused);
        let mut chart = chart.map_err(at(place.clone()))?;
        if chart.namespace.is_empty() {
            namespace.clone_into(&mut chart.namespace);
        }
        let home = globals.home().to_owned();
        charts.push((ChartRequest { chart, home }, place));
    }
    Ok(charts)
}

/// The chart of an entry of `generators`, which describes it completely.
pub(crate) fn of_generator(value: Value) -> Result<ChartRequest, Fault> {
    let globals = read_globals(value.clone(), UnknownFields::Ignored)?;
    Ok(ChartRequest {
        chart: read(value, UnknownFields::Ignored)?,
        home: globals.home().to_owned(),
    })
}

pub(crate) fn check_files(request: &ChartRequest, root: &str, loader: &mut Loader<'_>) -> Result<(), Fault> {
    for file in &request.chart.additional_values_files {
        let read = loader.read(root, file);
        read.map_err(|fault| Fault::AdditionalValues(Box::new(fault)))?;
    }
    Ok(())
}

fn read_globals(value: Value, unknown: UnknownFields) -> Result<Globals, Fault> {
    decode(value, &HELM_GLOBALS, unknown, &mut HashMap::new()).map_err(|(_, fault)| fault)
}

/// The last of several entries counts.
fn old_globals(old: &[Value]) -> Globals {
    let mut homes = old.iter().filter_map(|old| old.get("chartHome")?.as_str());
    let home = homes.rfind(|home| !home.is_empty());
    Globals {
        chart_home: home.unwrap_or_default().to_owned(),
    }
}

fn in_todays_words(old: &Value) -> Value {
    let words = SUCCESSORS.iter().filter_map(|(before, now)| {
        let value = old.get(before)?;
        Some(((*now).to_owned(), value.clone()))
    });
    words.collect::<Map<_, _>>().into()
}

fn read(mut value: Value, unknown: UnknownFields) -> Result<Chart, Fault> {
    let refuse = |text: String| Err(Fault::ChartField(text));
    if let Some(inline) = value
        .get("valuesInline")
        .filter(|inline| !inline.is_object() && !inline.is_null())
    {
        let found = equate_manifest::json::type_name(inline);
        return refuse(format!("valuesInline must be a map: found {found}"));
    }
    let merge = value
        .get("valuesMerge")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match merge {
        "" => {
            // null means the default
            if let Some(map) = value.as_object_mut() {
                map.remove("valuesMerge");
            }
        }
        "merge" | "override" | "replace" => {}
        _ => return refuse("valuesMerge must be one of [merge override replace]".to_owned()),
    }
    let mut none = HashMap::new();
    let chart: Chart = decode(value, &HELM_CHART, unknown, &mut none).map_err(|(_, fault)| fault)?;
    if chart.name.is_empty() {
        return refuse("chart name cannot be empty".to_owned());
    }
    for (field, text) in [("releaseName", &chart.release_name), ("chart name", &chart.name)] {
        if text.starts_with('-') {
            return refuse(format!("{field} must not start with '-', got {text:?}"));
        }
    }
    Ok(chart)
}
