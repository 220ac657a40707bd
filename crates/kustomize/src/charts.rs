//! `helmCharts`: what is asked of whoever renders charts. Nothing here knows what a chart is.
//!
//! Files are read here, by the rules that hold for all files of a build; [`Charts`] gets them with
//! what the kustomization says. What it renders is read like any file of manifests.

use crate::error::{BuildError, Fault, Place};
use crate::kustomization::shapes::{HELM_CHART, HELM_GLOBALS};
use crate::kustomization::{Kustomization, Unknown, decode};
use crate::loader::{Loader, at};
use crate::manifests;
use crate::notes::Note;
use crate::path;
use crate::pipeline::{Accumulated, Build};
use crate::tree::EntryKind;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt;

/// What renders charts for a build.
pub trait Charts {
    /// The manifests of a chart, as `helm template` prints them.
    ///
    /// # Errors
    /// When it cannot be had or rendered; the text must not tell values.
    fn render(&self, chart: &Chart) -> Result<String, ChartError>;
}

/// Why a chart is not rendered: the caller's own error.
pub type ChartError = Box<dyn Error + Send + Sync>;

/// A chart, as a kustomization asks for it. `Debug` leaves out values: they may be secrets.
#[derive(Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Chart {
    /// Its name.
    pub name: String,
    /// The version to pull where it is not at hand; empty for the newest.
    pub version: String,
    /// The repository to pull it from, `https://...` or `oci://...`.
    pub repo: String,
    /// The release's name; empty for one that is made up.
    pub release_name: String,
    /// The release's namespace: the field, else that of the nearest kustomization that has one.
    pub namespace: String,
    /// The template of the release's name.
    pub name_template: String,
    /// Whether the definitions in `crds/` are among the manifests.
    #[serde(rename = "includeCRDs")]
    pub include_crds: bool,
    /// Whether hooks are left out.
    pub skip_hooks: bool,
    /// Whether tests are left out.
    pub skip_tests: bool,
    /// `Capabilities.APIVersions`.
    pub api_versions: Vec<String>,
    /// `Capabilities.KubeVersion`.
    pub kube_version: String,
    /// Whether helm is to say more.
    pub debug: bool,
    /// Whether versions in development count.
    pub devel: bool,
    /// Values that the kustomization holds itself.
    pub values_inline: Map<String, Value>,
    /// How these and those of the file go together.
    pub values_merge: ValuesMerge,
    values_file: String,
    additional_values_files: Vec<String>,
    /// The text of `valuesFile`, or of the chart's own `values.yaml` where it is at hand.
    #[serde(skip)]
    pub values: Option<String>,
    /// The texts of `additionalValuesFiles`, in their order.
    #[serde(skip)]
    pub additional_values: Vec<String>,
    /// The chart's files by their path in it, where it is at hand.
    #[serde(skip)]
    pub files: Option<BTreeMap<String, Bytes>>,
}

/// How values of a kustomization and of a file go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ValuesMerge {
    /// Both; the kustomization's win.
    #[default]
    Override,
    /// Both; the file's win.
    Merge,
    /// The kustomization's alone.
    Replace,
}

impl fmt::Debug for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chart")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("repo", &self.repo)
            .field("release_name", &self.release_name)
            .field("namespace", &self.namespace)
            .field("at_hand", &self.files.is_some())
            .finish_non_exhaustive()
    }
}

/// Where charts are, unless `helmGlobals.chartHome` says.
const HOME: &str = "charts";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Globals {
    chart_home: String,
}

impl Build<'_, '_> {
    /// Renders the charts of a kustomization; without anything that renders they were refused before.
    pub(crate) fn charts(
        &mut self,
        kustomization: &Kustomization,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        let Some(renderer) = self.loader.charts else {
            return Ok(());
        };
        let own = &kustomization.fields.namespace;
        let mut above = self.visited.iter().rev().map(|visited| &visited.namespace);
        let namespace = Some(own).filter(|own| !own.is_empty());
        let namespace = namespace.or_else(|| above.find(|namespace| !namespace.is_empty()));
        let namespace = namespace.cloned().unwrap_or_default();
        for (chart, place) in of(kustomization, &namespace, self.loader)? {
            let text = renderer.render(&chart).map_err(|source| {
                at(place.clone())(Fault::Chart {
                    name: chart.name.clone(),
                    source,
                })
            })?;
            for mut made in manifests::parse(&text, &kustomization.path)? {
                made.origin.line = place.line;
                if self.tracks {
                    let note = Note::builtin(&self.root, kustomization, "HelmChartInflationGenerator");
                    made.note = Some(note);
                }
                so_far
                    .resources
                    .absorb(made, self.schema.get())
                    .map_err(at(place.clone()))?;
            }
        }
        Ok(())
    }
}

/// The charts of a kustomization, with their files. `namespace` is what they get that name none.
fn of(
    kustomization: &Kustomization,
    namespace: &str,
    loader: &mut Loader<'_>,
) -> Result<Vec<(Chart, Place)>, BuildError> {
    let fields = &kustomization.fields;
    let mut none = HashMap::new();
    let globals = fields.helm_globals.clone().unwrap_or(Value::Null);
    let globals: Globals = match globals {
        Value::Null => Globals::default(),
        value => decode(value, &HELM_GLOBALS, Unknown::Refused, &mut none)
            .map_err(|(_, fault)| at(kustomization.place(&["helmGlobals"]))(fault))?,
    };
    let home = match globals.chart_home.as_str() {
        "" => HOME,
        home => home,
    };
    let mut charts = Vec::with_capacity(fields.helm_charts.len());
    for (index, value) in fields.helm_charts.iter().enumerate() {
        let place = kustomization.item("helmCharts", index);
        let chart = read(value.clone(), home, namespace, &kustomization.root, loader);
        charts.push((chart.map_err(at(place.clone()))?, place));
    }
    Ok(charts)
}

fn read(
    mut value: Value,
    home: &str,
    namespace: &str,
    root: &str,
    loader: &mut Loader<'_>,
) -> Result<Chart, Fault> {
    let refuse = |text: String| Err(Fault::ChartField(text));
    if let Some(inline) = value
        .get("valuesInline")
        .filter(|inline| !inline.is_object() && !inline.is_null())
    {
        let found = equate_manifest::json::type_name(inline);
        return refuse(format!("valuesInline must be a map, not a {found}"));
    }
    let merge = value
        .get("valuesMerge")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match merge {
        "" => {
            // no value is the default
            if let Some(map) = value.as_object_mut() {
                map.remove("valuesMerge");
            }
        }
        "merge" | "override" | "replace" => {}
        _ => return refuse("valuesMerge must be one of [merge override replace]".to_owned()),
    }
    let mut none = HashMap::new();
    let mut chart: Chart =
        decode(value, &HELM_CHART, Unknown::Refused, &mut none).map_err(|(_, fault)| fault)?;
    if chart.name.is_empty() {
        return refuse("chart name cannot be empty".to_owned());
    }
    for (field, text) in [("releaseName", &chart.release_name), ("chart name", &chart.name)] {
        if text.starts_with('-') {
            return refuse(format!("{field} must not start with '-', got {text:?}"));
        }
    }
    if chart.namespace.is_empty() {
        namespace.clone_into(&mut chart.namespace);
    }
    let home = match chart.version.is_empty() || chart.repo.is_empty() {
        true => home.to_owned(),
        false => format!("{home}/{}-{}", chart.name, chart.version),
    };
    let directory = format!("{home}/{}", chart.name);
    if let Ok(real) = loader.resolve_directory(root, &directory) {
        let mut files = BTreeMap::new();
        collect(loader, &real, &real, 0, &mut files)?;
        chart.files = Some(files);
    }
    for file in &chart.additional_values_files {
        let (_, text) = loader.read_text(root, file)?;
        chart.additional_values.push(text);
    }
    chart.values = match (chart.values_file.as_str(), &chart.files) {
        ("", None) => None,
        ("", Some(files)) => files
            .get("values.yaml")
            .map(|text| String::from_utf8_lossy(text).into_owned()),
        (file, _) => Some(loader.read_text(root, file)?.1),
    };
    Ok(chart)
}

/// All files below a directory.
fn collect(
    loader: &mut Loader<'_>,
    chart: &str,
    dir: &str,
    depth: usize,
    files: &mut BTreeMap<String, Bytes>,
) -> Result<(), Fault> {
    if depth > loader.limits.depth_max {
        return Err(Fault::Depth(loader.limits.depth_max));
    }
    for (name, kind) in loader.walk(dir) {
        let path = path::join(dir, &name).map_err(|_| Fault::OutsideTree { path: name.clone() })?;
        match kind {
            EntryKind::Directory => collect(loader, chart, &path, depth + 1, files)?,
            // a link may lead to a directory, which a chart does not have
            EntryKind::Symlink => {}
            EntryKind::File => {
                let (_, content) = loader.read(dir, &name)?;
                files.insert(path::relative(chart, &path), content);
            }
        }
    }
    Ok(())
}
