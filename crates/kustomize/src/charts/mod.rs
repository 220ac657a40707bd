//! `helmCharts`: collects charts and passes them to the caller's renderer.
//!
//! Files are read here, under the rules for all files of a build. [`Charts`] gets them with the fields of the
//! kustomization. Its output is parsed like any manifest file.
//!
//! | file | answers |
//! |---|---|
//! | `fields.rs` | the chart fields of a kustomization, current and old |
//! | `files.rs` | the files of a chart |
//! | `values.rs` | how values files and inline values combine |
//!
//! Refused: charts without a renderer, links that leave the chart, and more charts than
//! [`Limits::charts_max`](crate::Limits::charts_max).

mod fields;
mod files;
mod values;

pub(crate) use fields::of_generator;

use crate::budget::Budget;
use crate::collection::Collection;
use crate::error::{BuildError, Fault, Place};
use crate::kustomization::Kustomization;
use crate::loader::{Loader, at};
use crate::manifests;
use crate::notes::Note;
use crate::pipeline::{Accumulated, Build};
use crate::resource::Resource;
use crate::schema::Schema;
use bytes::Bytes;
use fields::ChartRequest;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// Pulls and renders charts for a build.
pub trait Charts {
    /// Pulls a chart that is not in the tree and returns its files by path. `chart.repo` is set.
    fn fetch(&self, chart: &Chart) -> Result<BTreeMap<String, Bytes>, ChartError>;

    /// Renders a chart to manifests, as `helm template` prints them.
    fn render(&self, chart: &Chart) -> Result<String, ChartError>;
}

/// The caller's own error for a chart.
pub type ChartError = Box<dyn Error + Send + Sync>;

/// A chart as a kustomization declares it. `Debug` omits values: they may be secrets.
#[derive(Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Chart {
    /// The chart's name.
    pub name: String,
    /// The version to pull if the chart is not in the tree; empty for the newest.
    pub version: String,
    /// The repository to pull from, `https://...` or `oci://...`.
    pub repo: String,
    /// The release's name; empty for none.
    pub release_name: String,
    /// The release's namespace: the field, else that of the nearest kustomization that sets one.
    pub namespace: String,
    /// The template for the release name.
    pub name_template: String,
    /// Whether to include the definitions in `crds/`.
    #[serde(rename = "includeCRDs")]
    pub include_crds: bool,
    /// Whether to leave out hooks.
    pub skip_hooks: bool,
    /// Whether to leave out tests.
    pub skip_tests: bool,
    /// Additions to `Capabilities.APIVersions`.
    pub api_versions: Vec<String>,
    /// `Capabilities.KubeVersion`.
    pub kube_version: String,
    /// Whether errors include details.
    pub debug: bool,
    /// Whether prerelease versions count.
    pub devel: bool,
    values_inline: Map<String, Value>,
    values_merge: ValuesMerge,
    values_file: String,
    additional_values_files: Vec<String>,
    /// The chart's directory, relative to the kustomization: `charts/web`.
    #[serde(skip)]
    pub directory: String,
    /// The chart's files by their paths in it.
    #[serde(skip)]
    pub files: BTreeMap<String, Bytes>,
    /// The chart's values; later entries win.
    #[serde(skip)]
    pub values: Vec<ValuesFile>,
}

/// One file of values.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ValuesFile {
    /// The file as the kustomization names it, or a description of inline values.
    pub name: String,
    /// The values as YAML.
    pub text: String,
}

/// How inline values combine with a file's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ValuesMerge {
    /// Merge; the kustomization's win.
    #[default]
    Override,
    /// Merge; the file's win.
    Merge,
    /// Use the kustomization's only.
    Replace,
}

impl Chart {
    /// The repository without credentials, for messages.
    pub fn repo_shown(&self) -> String {
        crate::remote::shown(&self.repo)
    }
}

impl fmt::Debug for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chart")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("repo", &self.repo_shown())
            .field("release_name", &self.release_name)
            .field("namespace", &self.namespace)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ValuesFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.text.len())
    }
}

impl Build<'_, '_> {
    pub(crate) fn charts(
        &mut self,
        kustomization: &Kustomization,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        let own = &kustomization.fields.namespace;
        let mut above = self.visited.iter().rev().map(|visited| &visited.namespace);
        let namespace = Some(own).filter(|own| !own.is_empty());
        let namespace = namespace.or_else(|| above.find(|namespace| !namespace.is_empty()));
        let namespace = namespace.cloned().unwrap_or_default();
        let asked = fields::of(kustomization, &namespace)?;
        for (asked, place) in &asked {
            fields::check_files(asked, &kustomization.root, self.loader).map_err(at(place.clone()))?;
        }
        for (asked, place) in asked {
            let note = Note::builtin(&self.root, kustomization, "HelmChartInflationGenerator");
            self.chart(kustomization, asked, &place, &note, so_far)?;
        }
        Ok(())
    }

    pub(crate) fn chart(
        &mut self,
        kustomization: &Kustomization,
        asked: ChartRequest,
        place: &Place,
        note: &Note,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        let Some(renderer) = self.loader.charts else {
            return Err(at(place.clone())(Fault::Helm));
        };
        let limit = self.loader.limits.charts_max;
        self.loader.charts_rendered += 1;
        if self.loader.charts_rendered > limit {
            return Err(at(place.clone())(Fault::Charts(limit)));
        }
        let schema = self.schema.get();
        let chart = complete(asked, renderer, &kustomization.root, self.loader, schema);
        let chart = chart.map_err(at(place.clone()))?;
        let text = renderer.render(&chart).map_err(|source| {
            at(place.clone())(Fault::Chart {
                name: chart.name.clone(),
                source,
            })
        })?;
        let made = self.loader.budget.charge(text.len()).map_err(Fault::from);
        made.map_err(at(place.clone()))?;
        let mut rendered = Collection::within(&self.loader.budget);
        let resources = read(&text, &chart, place, &self.loader.budget)?;
        let added = rendered.append_all(resources, schema);
        added.map_err(at(place.clone()))?;
        for mut resource in rendered.into_items() {
            resource.origin.path.clone_from(&place.path);
            resource.origin.line = place.line;
            resource.column = place.column;
            resource.from_chart = true;
            resource.note = self.tracks.then(|| note.clone());
            let absorbed = so_far.resources.absorb(resource, schema);
            absorbed.map_err(at(place.clone()))?;
        }
        Ok(())
    }
}

fn complete(
    asked: ChartRequest,
    renderer: &dyn Charts,
    root: &str,
    loader: &mut Loader<'_>,
    schema: &Schema,
) -> Result<Chart, Fault> {
    let ChartRequest { mut chart, home } = asked;
    let home = match chart.version.is_empty() || chart.repo.is_empty() {
        true => home,
        false => format!("{home}/{}-{}", chart.name, chart.version),
    };
    chart.directory = format!("{home}/{}", chart.name);
    let at_hand = loader.find_directory(root, &chart.directory)?;
    match &at_hand {
        Some(real) => chart.files = files::read(loader, root, real)?,
        None if chart.repo.is_empty() => {
            let directory = chart.directory;
            return Err(Fault::ChartField(format!(
                "no repo specified for pull, no chart found at '{directory}'"
            )));
        }
        None => {
            chart.files = renderer.fetch(&chart).map_err(|source| Fault::ChartAbsent {
                name: chart.name.clone(),
                source,
            })?;
        }
    }
    let budget = loader.budget.clone();
    let values = values::first(&chart, schema, &budget, || {
        let own = format!("{}/values.yaml", chart.directory);
        let file = match chart.values_file.as_str() {
            "" if at_hand.is_none() => return fetched_values(&chart, own),
            "" => &own,
            file => file,
        };
        values_file(loader, root, file)
    })?;
    chart.values.push(values);
    for file in &chart.additional_values_files {
        chart.values.push(values_file(loader, root, file)?);
    }
    Ok(chart)
}

fn values_file(loader: &mut Loader<'_>, root: &str, file: &str) -> Result<ValuesFile, Fault> {
    let (_, text) = loader.read_text(root, file)?;
    Ok(ValuesFile {
        name: file.to_owned(),
        text,
    })
}

fn fetched_values(chart: &Chart, name: String) -> Result<ValuesFile, Fault> {
    let Some(text) = chart.files.get("values.yaml") else {
        return Err(Fault::NoFile { path: name });
    };
    match std::str::from_utf8(text) {
        Ok(text) => Ok(ValuesFile {
            text: text.to_owned(),
            name,
        }),
        Err(_) => Err(Fault::NotText { path: name }),
    }
}

fn read(text: &str, chart: &Chart, place: &Place, budget: &Budget) -> Result<Vec<Resource>, BuildError> {
    manifests::parse(text, &place.path, budget).map_err(|error| {
        let before = text.lines().take(error.place.line.max(1));
        let template = before.filter_map(|line| line.strip_prefix("# Source: ")).last();
        at(place.clone())(Fault::ChartOutput {
            name: chart.name.clone(),
            template: template.unwrap_or("a template").to_owned(),
            fault: error.fault,
        })
    })
}
