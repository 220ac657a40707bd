//! Charts in chart repositories and in the files of a source.

use std::fmt;

use equate_helm::chart::File;
use equate_helm::load::read_metadata;
use equate_helm::package::Package;
use equate_helm::repository::catalog::Offer;
use equate_source::{Entry, Tree};
use reqwest::Url;

use super::build::Step;
use super::declared::clean;
use super::registry::{RegistryChart, Tagged};
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;
use crate::sources::charts::{AccessSpec, HelmSettings};
use crate::sources::failure::Failure;

const CHART_YAML: &str = "Chart.yaml";

/// The place of a chart.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    Repository(Repository, Box<Offer>),
    Registry(Box<RegistryChart>, Tagged),
    Files(LocalChart),
}

/// A chart repository.
#[derive(Clone)]
pub(crate) struct Repository {
    pub(crate) home: Url,
    pub(crate) access: AccessSpec,
    pub(crate) limit: TimeLimit,
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::sources::http::shown(&self.home))
    }
}

/// A chart among the files of a source.
#[derive(Debug, Clone)]
pub(crate) struct LocalChart {
    pub(crate) tree: Tree,
    /// Below the root of the tree.
    pub(crate) path: String,
    /// Otherwise it is packed.
    pub(crate) is_directory: bool,
}

impl LocalChart {
    /// Finds a chart, and returns its name and version. Blocks.
    pub(crate) fn find(
        tree: &Tree,
        reference: &str,
        settings: &HelmSettings,
    ) -> Result<(Self, String, String), Failure> {
        if reference.is_empty() {
            return Err(Step::Reference.failed("no path set for local chart reference"));
        }
        if reference.starts_with('/') {
            return Err(Step::Reference.failed("local chart reference path is expected to be relative"));
        }
        let path = clean(reference);
        let chart = |is_directory| Self {
            tree: tree.clone(),
            path: path.clone(),
            is_directory,
        };
        match tree.entry(&path) {
            None => Err(Step::Reference.failed(format!(
                "no chart found at '{path}': the source's artifact has no such file or directory"
            ))),
            Some(Entry::File { .. }) => {
                let chart = chart(false);
                let package = chart.load(settings).map_err(|why| Step::Reference.failed(why))?;
                let metadata = &package.chart().metadata;
                Ok((chart, metadata.name.clone(), metadata.version.clone()))
            }
            Some(Entry::Directory { .. }) => {
                let chart = chart(true);
                let metadata = chart
                    .metadata(settings)
                    .map_err(|why| Step::Reference.failed(why))?;
                Ok((chart, metadata.name, metadata.version))
            }
        }
    }

    fn metadata(&self, settings: &HelmSettings) -> Result<equate_helm::Metadata, String> {
        let read = |name: &str| {
            let path = below(&self.path, name);
            match self.tree.entry(&path) {
                Some(Entry::File { .. }) => {
                    let bytes = self.tree.read(&path).map_err(|error| chain(&error))?;
                    match bytes.len() as u64 > settings.chart_file_bytes_max {
                        true => Err(format!(
                            "size of '{name}' exceeds '{}' bytes limit (--helm-chart-file-max-size)",
                            settings.chart_file_bytes_max
                        )),
                        false => Ok(Some(bytes)),
                    }
                }
                _ => Ok(None),
            }
        };
        let Some(chart_yaml) = read(CHART_YAML)? else {
            let path = &self.path;
            return Err(format!(
                "no chart found at '{path}': the directory has no {CHART_YAML}"
            ));
        };
        let requirements = read("requirements.yaml")?;
        read_metadata(&chart_yaml, requirements.as_deref(), &settings.chart()).map_err(|error| chain(&error))
    }

    /// The bytes of a packed chart.
    pub(crate) fn bytes(&self, settings: &HelmSettings) -> Result<bytes::Bytes, String> {
        let bytes = self.tree.read(&self.path).map_err(|error| chain(&error))?;
        match bytes.len() as u64 > settings.chart_bytes_max {
            true => Err(too_large(&self.path, settings)),
            false => Ok(bytes),
        }
    }

    /// Loads the chart. Blocks.
    pub(crate) fn load(&self, settings: &HelmSettings) -> Result<Package, String> {
        let limits = settings.chart();
        let loaded = match self.is_directory {
            false => Package::from_archive(&self.bytes(settings)?, &limits),
            true => {
                let (mut files, mut left) = (Vec::new(), limits.total_bytes_max);
                self.collect("", &mut files, &mut left, &limits)?;
                Package::from_tree(files, &limits)
            }
        };
        loaded.map_err(|error| chain(&error))
    }

    fn collect(
        &self,
        directory: &str,
        files: &mut Vec<File>,
        left: &mut u64,
        limits: &equate_helm::Limits,
    ) -> Result<(), String> {
        let path = below(&self.path, directory);
        for (name, entry) in self.tree.list(&path).unwrap_or_default() {
            let relative = below(directory, &name);
            match entry {
                Entry::Directory { .. } => self.collect(&relative, files, left, limits)?,
                Entry::File { .. } => {
                    let bytes = self
                        .tree
                        .read(&below(&path, &name))
                        .map_err(|error| chain(&error))?;
                    let rest = left.checked_sub(bytes.len() as u64);
                    *left = rest.ok_or_else(|| {
                        let limit = equate_helm::LimitExceeded::TotalBytes(limits.total_bytes_max);
                        limit.to_string()
                    })?;
                    if files.len() >= limits.files_max {
                        return Err(equate_helm::LimitExceeded::Files(limits.files_max).to_string());
                    }
                    files.push(File {
                        name: relative.into(),
                        data: bytes[..].into(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// A packed chart exceeds its limit.
pub(crate) fn too_large(name: &str, settings: &HelmSettings) -> String {
    format!(
        "size of chart '{name}' exceeds '{}' bytes limit (--helm-chart-max-size)",
        settings.chart_bytes_max
    )
}

pub(crate) fn below(directory: &str, name: &str) -> String {
    match (directory, name) {
        ("", name) => name.to_owned(),
        (directory, "") => directory.to_owned(),
        (directory, name) => format!("{directory}/{name}"),
    }
}
