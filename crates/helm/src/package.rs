//! Packs charts: the same files always give the same bytes.
//!
//! The layout is that of `helm package` (Helm 4.2, `util/save.go`), with `Chart.yaml` written anew. Unlike
//! Helm, times are zero, and files of subcharts are packed unchanged.

use crate::chart::{Chart, File, Values};
use crate::limits::Limits;
use crate::load::{LoadError, archive_parts, path_parts, tree_parts};
use crate::metadata::{Dependency, Metadata};
use crate::values;
use equate_manifest::yaml;
use flate2::{Compression, GzBuilder};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tar::{EntryType, Header};

const CHART_YAML: &str = "Chart.yaml";
const VALUES_YAML: &str = "values.yaml";
/// A file that anyone may read.
const MODE: u32 = 0o644;

/// A chart that is to be packed.
#[derive(Debug, Clone)]
pub struct Package {
    chart: Chart,
    files: Vec<File>,
}

/// The chart has no `values.yaml` that could be replaced; in Flux's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("failed to locate values file: values.yaml")]
pub struct NoValuesFile;

impl Package {
    /// Unpacks a chart.
    ///
    /// # Errors
    /// Those of [`Chart::from_archive`].
    pub fn from_archive(bytes: &[u8], limits: &Limits) -> Result<Self, LoadError> {
        let (chart, files) = archive_parts(bytes, limits)?;
        Ok(Self { chart, files })
    }

    /// A chart's directory or archive on this machine. Links are followed: the files are the caller's own.
    ///
    /// # Errors
    /// Those of [`Chart::from_path`].
    pub fn from_path(path: &Path, limits: &Limits) -> Result<Self, LoadError> {
        let (chart, files) = path_parts(path, limits)?;
        Ok(Self { chart, files })
    }

    /// A chart of an untrusted tree's files, without those that its `.helmignore` names.
    ///
    /// # Errors
    /// Those of [`Chart::from_tree`].
    pub fn from_tree(files: impl IntoIterator<Item = File>, limits: &Limits) -> Result<Self, LoadError> {
        let (chart, files) = tree_parts(files, limits)?;
        Ok(Self { chart, files })
    }

    /// The chart as it was loaded.
    pub fn chart(&self) -> &Chart {
        &self.chart
    }

    /// The content of a file that templates see in `.Files`.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        let mut files = self.chart.files.iter();
        let file = files.find(|file| &*file.name == name)?;
        Some(&file.data)
    }

    /// All files as they were loaded.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Replaces the chart's version.
    pub fn set_version(&mut self, version: &str) {
        let metadata = Arc::make_mut(&mut self.chart.metadata);
        version.clone_into(&mut metadata.version);
    }

    /// Replaces the chart's values. Returns whether its file changes.
    ///
    /// # Errors
    /// There is no file to replace.
    pub fn set_values(&mut self, values: &Values) -> Result<bool, NoValuesFile> {
        let mut files = self.files.iter_mut();
        let file = files
            .find(|file| &*file.name == VALUES_YAML)
            .ok_or(NoValuesFile)?;
        let text = match values.is_empty() {
            true => String::new(),
            false => yaml::to_string(&Value::Object(values.clone())),
        };
        if *file.data == *text.as_bytes() {
            return Ok(false);
        }
        file.data = text.as_bytes().into();
        self.chart.values = Arc::new(values.clone());
        Ok(true)
    }

    /// The required charts that are not in `charts/`, as the lock names them, if there is one.
    pub fn missing(&self) -> Vec<Dependency> {
        let required = match &self.chart.lock {
            Some(lock) => &lock.dependencies,
            None => &self.chart.metadata.dependencies,
        };
        let present = &self.chart.dependencies;
        if present.len() == required.len() {
            return Vec::new();
        }
        let mut names: BTreeSet<&str> = present.iter().map(|chart| chart.name()).collect();
        let missing = required.iter().filter(|dependency| {
            // two aliases of a chart are one chart in `charts/`
            !names.contains(dependency.known_as()) && names.insert(&dependency.name)
        });
        missing.cloned().collect()
    }

    /// Adds a chart to `charts/`.
    pub fn add(&mut self, dependency: Package) {
        let directory = format!("charts/{}", dependency.chart.name());
        self.files.extend(dependency.files.into_iter().map(|file| File {
            name: format!("{directory}/{}", file.name).into(),
            data: file.data,
        }));
        self.chart.dependencies.push(Arc::new(dependency.chart));
    }

    /// Packs the chart.
    ///
    /// # Errors
    /// Only if memory cannot be written.
    pub fn write(&self) -> io::Result<Vec<u8>> {
        let zip = GzBuilder::new()
            .mtime(0)
            .comment("Helm")
            .write(Vec::new(), Compression::default());
        let mut archive = tar::Builder::new(zip);
        let root = self.chart.name();
        let chart_yaml = chart_yaml(&self.chart.metadata);
        append(&mut archive, root, CHART_YAML, chart_yaml.as_bytes())?;
        let mut files: Vec<&File> = self
            .files
            .iter()
            .filter(|file| &*file.name != CHART_YAML)
            .collect();
        files.sort_by(|a, b| (place(&a.name), &a.name).cmp(&(place(&b.name), &b.name)));
        for file in files {
            append(&mut archive, root, &file.name, &file.data)?;
        }
        archive.into_inner()?.finish()
    }
}

/// Merges texts of values in order: maps are merged, everything else is replaced.
///
/// # Errors
/// A text is not a mapping in YAML.
pub fn merge_values<'t>(
    texts: impl IntoIterator<Item = &'t str>,
    limits: &Limits,
) -> Result<Values, values::ReadError> {
    let mut merged = Values::new();
    for text in texts {
        merged = values::merge(merged, values::read(text, limits)?);
    }
    Ok(merged)
}

/// The order of Helm's files in an archive.
fn place(name: &str) -> u8 {
    match name {
        "Chart.lock" => 0,
        VALUES_YAML => 1,
        "values.schema.json" => 2,
        name if name.starts_with("templates/") => 3,
        name if name.starts_with("charts/") => 5,
        _ => 4,
    }
}

/// `Chart.yaml`. Charts of version 1 have their dependencies in `requirements.yaml`.
fn chart_yaml(metadata: &Metadata) -> String {
    let mut metadata = metadata.clone();
    if metadata.api_version == "v1" {
        metadata.dependencies.clear();
    }
    let value = serde_json::to_value(&metadata).unwrap_or_default();
    yaml::to_string(&value)
}

fn append(archive: &mut tar::Builder<impl io::Write>, root: &str, name: &str, data: &[u8]) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(MODE);
    header.set_mtime(0);
    header.set_size(data.len() as u64);
    archive.append_data(&mut header, format!("{root}/{name}"), data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> Vec<File> {
        let file = |(name, data): &(&str, &str)| File {
            name: (*name).into(),
            data: data.as_bytes().into(),
        };
        files.iter().map(file).collect()
    }

    const CHART: &str = "apiVersion: v2\nname: app # the name\nversion: 1.0.0\nunknown: 1\ndependencies:\n\
                         - {name: db, version: 1.x, repository: https://example.com, alias: first}\n\
                         - {name: db, version: 1.x, repository: https://example.com, alias: second}\n\
                         - {name: web, version: 1.x, repository: file://../web}\n";

    fn app() -> Package {
        let files = files(&[
            ("values.yaml", "a: 1\n"),
            ("templates/a.yaml", "{{ .Values.a }}"),
            (".helmignore", "*.md\n"),
            ("README.md", "no"),
            (
                "charts/web/Chart.yaml",
                "{apiVersion: v2, name: web, version: 1.2.0}",
            ),
            ("Chart.yaml", CHART),
            ("ci/values.yaml", "a: 2\nb: {c: true}\n"),
        ]);
        Package::from_tree(files, &Limits::default()).unwrap()
    }

    fn named(packed: &[u8]) -> Vec<String> {
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed));
        let entries = archive.entries().unwrap();
        let name = |entry: tar::Entry<'_, _>| entry.path().unwrap().display().to_string();
        entries.map(|entry| name(entry.unwrap())).collect()
    }

    #[test]
    fn a_package_is_the_chart_in_helms_layout() {
        let mut package = app();
        package.set_version("1.0.0+5");
        let packed = package.write().unwrap();
        assert_eq!(packed, package.clone().write().unwrap(), "byte for byte");
        assert_eq!(
            named(&packed),
            [
                "app/Chart.yaml",
                "app/values.yaml",
                "app/templates/a.yaml",
                "app/.helmignore",
                "app/ci/values.yaml",
                "app/charts/web/Chart.yaml",
            ]
        );
        let read = Package::from_archive(&packed, &Limits::default()).unwrap();
        assert_eq!(read.chart().metadata.version, "1.0.0+5");
        assert_eq!(read.chart().metadata.dependencies.len(), 3);
        assert_eq!(read.chart().dependencies.len(), 1);
        let again = read.write().unwrap();
        assert_eq!(again, packed, "packing what was packed changes nothing");
    }

    #[test]
    fn values_replace_the_file_and_missing_charts_are_added() {
        let mut package = app();
        let (own, other) = ("a: 1\n", package.file("ci/values.yaml").unwrap().to_vec());
        let other = String::from_utf8(other).unwrap();
        let merged = merge_values([own, &other], &Limits::default()).unwrap();
        assert!(package.set_values(&merged).unwrap());
        assert!(
            !package.set_values(&merged).unwrap(),
            "the second time nothing changes"
        );
        let missing = package.missing();
        assert_eq!(missing.iter().map(|of| &*of.name).collect::<Vec<_>>(), ["db"]);
        let db = files(&[("Chart.yaml", "{apiVersion: v2, name: db, version: 1.1.0}")]);
        package.add(Package::from_tree(db, &Limits::default()).unwrap());
        assert!(package.missing().is_empty());
        let packed = package.write().unwrap();
        assert!(named(&packed).contains(&"app/charts/db/Chart.yaml".to_owned()));
        let read = Chart::from_archive(&packed, &Limits::default()).unwrap();
        assert_eq!(
            Value::Object((*read.values).clone()),
            serde_json::json!({ "a": 2.0, "b": { "c": true } })
        );
        assert_eq!(read.dependencies.len(), 2);
        let bare = files(&[("Chart.yaml", "{apiVersion: v2, name: bare, version: 1.0.0}")]);
        let mut bare = Package::from_tree(bare, &Limits::default()).unwrap();
        assert_eq!(bare.set_values(&merged), Err(NoValuesFile));
    }

    #[test]
    fn written_values_have_helms_numbers() {
        let merged = merge_values(["a: 1\nb: 1.5\nc: 1000000\n"], &Limits::default()).unwrap();
        let mut package = app();
        package.set_values(&merged).unwrap();
        let written = package
            .files
            .iter()
            .find(|file| &*file.name == VALUES_YAML)
            .unwrap();
        assert_eq!(
            std::str::from_utf8(&written.data).unwrap(),
            "a: 1\nb: 1.5\nc: 1000000\n"
        );
    }
}
