//! Charts and content in directories of this machine that stand for hosts (`--instead-of`).
//!
//! A directory of charts has a directory or an archive (`*.tgz`) for each of them, and may have an
//! `index.yaml`. The version of a chart in a directory gets its digest as build metadata, so that a change of
//! its files is a new version. A directory is the operator's own: links are followed as Helm does.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use equate_egress::Substitute;
use equate_helm::load::{LoadError, read_metadata};
use equate_helm::package::Package;
use equate_manifest::go::version::Version;
use equate_manifest::yaml;
use equate_registry::tags::CHART_LAYER;
use equate_registry::{LocalImage, STAND_IN_LAYER};
use equate_source::{ArchiveError, Ignore, Limits, Tree, TreeError};
use percent_encoding::percent_decode_str;
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::charts::HelmSettings;
use super::http::{HttpError, address, shown};

const CHART_YAML: &str = "Chart.yaml";
const INDEX: &str = "index.yaml";
const PACKED: &str = ".tgz";
/// The length of a digest in a version, as that of a revision.
const DIGEST_CHARACTERS: usize = 12;
/// Entries of a directory of charts.
const ENTRIES_MAX: usize = 10_000;

/// Why the content of a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocalError {
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot load the chart in {}", path.display())]
    Chart {
        path: PathBuf,
        #[source]
        source: LoadError,
    },
    #[error("cannot pack the files in {}", path.display())]
    Tree {
        path: PathBuf,
        #[source]
        source: TreeError,
    },
    #[error("cannot pack the files in {}", path.display())]
    Archive {
        path: PathBuf,
        #[source]
        source: ArchiveError,
    },
    #[error("{} is larger than {bytes_max} bytes", path.display())]
    TooLarge { path: PathBuf, bytes_max: u64 },
    #[error("{} has more than {ENTRIES_MAX} files and directories", .0.display())]
    Entries(PathBuf),
    #[error("{} has no {name}; {hint}", directory.display())]
    Absent {
        directory: PathBuf,
        name: String,
        hint: &'static str,
    },
}

fn unreadable(path: &Path, source: std::io::Error) -> LocalError {
    LocalError::Read {
        path: path.to_owned(),
        source,
    }
}

/// A chart as its repository would serve it.
struct Packed {
    /// Its `Chart.yaml`.
    metadata: Value,
    name: String,
    version: String,
    bytes: Bytes,
    /// Its version and bytes without the digest of a directory.
    unmarked: Option<(String, Bytes)>,
}

impl Packed {
    fn file_name(&self) -> String {
        format!("{}-{}{PACKED}", self.name, self.version)
    }

    fn read(path: &Path, settings: &HelmSettings) -> Result<Self, LocalError> {
        let failed = |source| LocalError::Chart {
            path: path.to_owned(),
            source,
        };
        let mut package = Package::from_path(path, &settings.chart()).map_err(failed)?;
        let (bytes, unmarked) = match path.is_dir() {
            // it is served byte for byte
            false => (contents(path, settings.chart_bytes_max)?, None),
            true => {
                let pack = |package: &Package| package.write().map_err(|error| unreadable(path, error));
                let plain = Bytes::from(pack(&package)?);
                let digest = format!("{:x}", Sha256::digest(&plain));
                let digest: String = digest.chars().take(DIGEST_CHARACTERS).collect();
                let version = package.chart().metadata.version.clone();
                let mark = if version.contains('+') { '.' } else { '+' };
                package.set_version(&format!("{version}{mark}{digest}"));
                (pack(&package)?, Some((version, plain)))
            }
        };
        if bytes.len() as u64 > settings.chart_bytes_max {
            return Err(too_large(path, settings.chart_bytes_max));
        }
        let metadata = &package.chart().metadata;
        Ok(Self {
            metadata: serde_json::to_value(&**metadata).unwrap_or_default(),
            name: metadata.name.clone(),
            version: metadata.version.clone(),
            bytes: bytes.into(),
            unmarked,
        })
    }
}

fn too_large(path: &Path, bytes_max: u64) -> LocalError {
    LocalError::TooLarge {
        path: path.to_owned(),
        bytes_max,
    }
}

fn contents(path: &Path, bytes_max: u64) -> Result<Vec<u8>, LocalError> {
    let failed = |source| unreadable(path, source);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let mut file = file.take(bytes_max.saturating_add(1));
    file.read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(too_large(path, bytes_max)),
        false => Ok(bytes),
    }
}

/// The charts at a path, which is one itself or has some, the newest last; only those of a name, if one is
/// given.
fn charts(path: &Path, name: Option<&str>, settings: &HelmSettings) -> Result<Vec<Packed>, LocalError> {
    if path.is_file() || path.join(CHART_YAML).is_file() {
        return Ok(vec![Packed::read(path, settings)?]);
    }
    let failed = |source| unreadable(path, source);
    let mut found = Vec::new();
    for (count, entry) in fs::read_dir(path).map_err(failed)?.enumerate() {
        if count == ENTRIES_MAX {
            return Err(LocalError::Entries(path.to_owned()));
        }
        let entry = entry.map_err(failed)?.path();
        let file = entry
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_chart = match entry.is_dir() {
            true => is_named(&entry, name, settings),
            false => {
                let own = name.is_none_or(|name| file.starts_with(&format!("{name}-")));
                own && file.ends_with(PACKED)
            }
        };
        if is_chart {
            let chart = Packed::read(&entry, settings)?;
            let is_wanted = name.is_none_or(|name| chart.name == name);
            found.extend(is_wanted.then_some(chart));
        }
    }
    let version = |chart: &Packed| Version::parse(&chart.version).ok();
    found.sort_by(|one, other| match (version(one), version(other)) {
        (Some(own), Some(others)) => own.order_with_metadata(&others),
        (own, others) => own.is_some().cmp(&others.is_some()),
    });
    Ok(found)
}

/// Whether a directory has a chart of this name, or any.
fn is_named(directory: &Path, name: Option<&str>, settings: &HelmSettings) -> bool {
    let path = directory.join(CHART_YAML);
    let Some(name) = name else {
        return path.is_file();
    };
    let text = contents(&path, settings.chart_file_bytes_max);
    // one that cannot be read is not the one that is asked for
    let metadata = text.map(|text| read_metadata(&text, None, &settings.chart()));
    metadata.is_ok_and(|metadata| metadata.is_ok_and(|metadata| metadata.name == name))
}

/// A file at a URL of the repository at `home`, from the directory that stands for it. Blocks.
pub(crate) fn get(
    place: &Substitute,
    home: &Url,
    url: &str,
    bytes_max: u64,
    settings: &HelmSettings,
) -> Result<Vec<u8>, HttpError> {
    let url = address(url)?;
    let read = repository_file(place, home, &url, bytes_max, settings);
    read.map_err(|source| HttpError::Directory {
        url: shown(&url),
        directory: place.path(),
        source: Box::new(source),
    })
}

/// A file of a chart repository: the index, or a chart that it names.
fn repository_file(
    place: &Substitute,
    home: &Url,
    url: &Url,
    bytes_max: u64,
    settings: &HelmSettings,
) -> Result<Vec<u8>, LocalError> {
    let directory = place.path();
    let base = format!("{}/", home.path().trim_end_matches('/'));
    // an index may name another host; its charts are here, too
    let below = match url.path().strip_prefix(&base) {
        Some(below) if url.origin() == home.origin() => below,
        _ => url.path().rsplit('/').next().unwrap_or_default(),
    };
    let below = percent_decode_str(below).decode_utf8_lossy();
    let path = directory.join(&*below);
    let leaves = below
        .split(['/', '\\'])
        .any(|segment| matches!(segment, "" | "." | ".."));
    if !leaves && path.is_file() {
        return contents(&path, bytes_max);
    }
    if below == INDEX {
        return Ok(index(&charts(&directory, None, settings)?).into_bytes());
    }
    let charts = charts(&directory, None, settings)?;
    let found = charts.into_iter().find(|chart| chart.file_name() == below);
    found
        .map(|chart| chart.bytes.to_vec())
        .ok_or_else(|| LocalError::Absent {
            directory,
            name: below.into_owned(),
            hint: "put the packed chart there, or reconcile the HelmRepository if it changed",
        })
}

fn index(charts: &[Packed]) -> String {
    let mut entries = json!({});
    for chart in charts.iter().rev() {
        let mut entry = chart.metadata.clone();
        entry["digest"] = format!("{:x}", Sha256::digest(&chart.bytes)).into();
        entry["urls"] = json!([chart.file_name()]);
        match entries[&chart.name].as_array_mut() {
            Some(versions) => versions.push(entry),
            None => entries[&chart.name] = json!([entry]),
        }
    }
    yaml::to_string(&json!({ "apiVersion": "v1", "entries": entries }))
}

/// The images at the place of a repository of a registry: charts, or content that stands for every tag.
/// Blocks.
pub(crate) fn images(place: &Substitute, settings: &HelmSettings) -> Result<Vec<LocalImage>, LocalError> {
    let path = place.path();
    let (directory, exists) = match (path.exists(), path.parent()) {
        // the charts of a directory are below its URL
        (false, Some(parent)) if !place.below.is_empty() => (parent.to_owned(), false),
        (exists, _) => (path.clone(), exists),
    };
    if path.is_file() {
        return Ok(vec![match Packed::read(&path, settings) {
            Ok(chart) => chart_image(&chart.version, chart.bytes),
            Err(_) => stand_in(contents(&path, Limits::default().archive_bytes_max)?),
        }]);
    }
    let mut charts = charts(&directory, Some(&place.name), settings)?;
    charts.retain(|chart| exists || chart.name == place.name);
    if !charts.is_empty() {
        // who asks for the exact tag gets the chart of that version
        let versions = charts.into_iter().flat_map(|chart| {
            let marked = Some((chart.version, chart.bytes));
            chart.unmarked.into_iter().chain(marked)
        });
        return Ok(versions
            .map(|(version, bytes)| chart_image(&version, bytes))
            .collect());
    }
    if !exists {
        return Err(LocalError::Absent {
            directory,
            name: place.name.clone(),
            hint: "put a directory or a packed chart of this name there",
        });
    }
    let limits = Limits::default();
    let tree = Tree::from_directory(&directory, &Ignore::new(None), &limits);
    let tree = tree.map_err(|source| LocalError::Tree {
        path: directory.clone(),
        source,
    })?;
    let mut content = Vec::new();
    let written = tree.write_archive(&mut content, &limits);
    written.map_err(|source| LocalError::Archive {
        path: directory,
        source,
    })?;
    Ok(vec![stand_in(content)])
}

fn chart_image(version: &str, content: Bytes) -> LocalImage {
    LocalImage {
        tag: Some(version.replace('+', "_")),
        media_type: CHART_LAYER,
        content,
    }
}

fn stand_in(content: Vec<u8>) -> LocalImage {
    LocalImage {
        tag: None,
        media_type: STAND_IN_LAYER,
        content: content.into(),
    }
}
