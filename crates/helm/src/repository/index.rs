//! `index.yaml`: which charts a repository offers, in which versions.
//!
//! An index is read whole; an entry that is not valid is left out and told, as Helm leaves it out.
//! Whoever runs a repository writes it: its size has a limit, and so has the number of its values. Fields
//! that are not known are passed over, where Helm refuses a YAML index that has one.

use crate::load::index_entry;
use crate::metadata::Metadata;
use equate_manifest::yaml::{self, YamlError};
use equate_template::{Constraint, Version};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The most of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexLimits {
    /// Bytes of text.
    pub bytes_max: usize,
    /// Values in it, those that aliases repeat included.
    pub nodes_max: usize,
}

impl Default for IndexLimits {
    /// As many bytes as Flux reads (50 MiB), and the values that many hold.
    fn default() -> Self {
        Self {
            bytes_max: 50 << 20,
            nodes_max: 5_000_000,
        }
    }
}

/// The charts of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Index {
    charts: BTreeMap<String, Vec<Entry>>,
    skipped: Vec<Skipped>,
}

/// A version of a chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What its `Chart.yaml` says.
    pub metadata: Metadata,
    /// Where its archive is: [`resolve_url`] tells what a relative one means.
    pub urls: Vec<String>,
    /// When it was made, as the index says it.
    pub created: String,
    /// The SHA-256 of the archive, in hexadecimal digits; empty if the index does not tell.
    pub digest: String,
    /// Whether it was withdrawn.
    pub removed: bool,
}

/// An entry that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The chart it stands under.
    pub chart: String,
    /// Its version, if it has one.
    pub version: String,
    /// Why.
    pub reason: String,
}

/// Why a text is no index.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// There is nothing in it.
    #[error("empty index.yaml file")]
    Empty,
    /// It is no text.
    #[error("the index is not UTF-8 at byte {0}")]
    NotUtf8(usize),
    /// It is larger than is read.
    #[error("the index has {bytes} bytes, and at most {bytes_max} are read")]
    TooLarge {
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        bytes_max: usize,
    },
    /// It is neither JSON nor YAML.
    #[error("error converting YAML to JSON: yaml")]
    Yaml(#[source] YamlError),
    /// Something in it is of another kind than it has to be.
    #[error("{0}")]
    Type(String),
    /// It does not say which version of the format it is.
    #[error("no API version specified")]
    NoApiVersion,
}

/// Why an index offers nothing for a name and a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// There is no such chart.
    #[error("no chart name found")]
    NoChart,
    /// There is no version of it at all.
    #[error("no chart version found")]
    NoVersions,
    /// The version is neither one nor a constraint.
    #[error("{0}")]
    Constraint(String),
    /// No version of it will do.
    #[error("no chart version found for {name}-{version}")]
    NoVersion {
        /// The chart.
        name: String,
        /// What was asked for.
        version: String,
    },
}

impl Index {
    /// Reads an index, as YAML or JSON.
    pub fn parse(bytes: &[u8], limits: &IndexLimits) -> Result<Self, IndexError> {
        if bytes.is_empty() {
            return Err(IndexError::Empty);
        }
        if bytes.len() > limits.bytes_max {
            return Err(IndexError::TooLarge {
                bytes: bytes.len(),
                bytes_max: limits.bytes_max,
            });
        }
        let text = std::str::from_utf8(bytes).map_err(|error| IndexError::NotUtf8(error.valid_up_to()))?;
        let options = yaml::Options {
            bytes_max: limits.bytes_max,
            nodes_max: limits.nodes_max,
            ..yaml::Options::default()
        };
        let documents = yaml::load(text, &options).map_err(IndexError::Yaml)?;
        let value = documents
            .into_iter()
            .next()
            .map_or(Value::Null, |document| document.value);
        let mut map = match value {
            Value::Null => Map::new(),
            Value::Object(map) => map,
            _ => return Err(IndexError::Type("the index is not a mapping".to_owned())),
        };
        let mut index = Self::default();
        match map.remove("entries") {
            None | Some(Value::Null) => {}
            Some(Value::Object(charts)) => {
                for (name, entries) in charts {
                    index.add(name, entries)?;
                }
            }
            Some(_) => return Err(IndexError::Type("entries is not a mapping".to_owned())),
        }
        match map.get("apiVersion").and_then(Value::as_str) {
            None | Some("") => Err(IndexError::NoApiVersion),
            Some(_) => Ok(index),
        }
    }

    fn add(&mut self, chart: String, entries: Value) -> Result<(), IndexError> {
        let entries = match entries {
            Value::Null => Vec::new(),
            Value::Array(entries) => entries,
            _ => return Err(IndexError::Type(format!("entries.{chart} is not a list"))),
        };
        let mut versions: Vec<(Version, Entry)> = Vec::new();
        for entry in &entries {
            match read_entry(entry).map_err(|what| IndexError::Type(format!("entries.{chart}: {what}")))? {
                Ok(entry) => versions.push(entry),
                Err(reason) => self.skipped.push(Skipped {
                    chart: chart.clone(),
                    version: said(entry, "version"),
                    reason,
                }),
            }
        }
        versions.sort_by(|(a, _), (b, _)| b.order(a));
        let versions = versions.into_iter().map(|(_, entry)| entry).collect();
        self.charts.insert(chart, versions);
        Ok(())
    }

    /// The charts and their versions, the newest first.
    pub fn charts(&self) -> impl Iterator<Item = (&str, &[Entry])> {
        self.charts
            .iter()
            .map(|(name, versions)| (name.as_str(), versions.as_slice()))
    }

    /// What was left out.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The version of a chart that a text asks for: that very version if it is there, else the newest that
    /// it allows as a constraint. Nothing asks for the newest that is no prerelease.
    pub fn get(&self, name: &str, version: &str) -> Result<&Entry, LookupError> {
        let versions = self.charts.get(name).ok_or(LookupError::NoChart)?;
        if versions.is_empty() {
            return Err(LookupError::NoVersions);
        }
        let asked = if version.is_empty() { "*" } else { version };
        let constraint = Constraint::parse(asked).map_err(LookupError::Constraint)?;
        let exact = versions.iter().find(|entry| entry.metadata.version == version);
        let allowed = |entry: &&Entry| {
            Version::parse(&entry.metadata.version).is_ok_and(|version| constraint.allows(&version))
        };
        exact
            .or_else(|| versions.iter().find(allowed))
            .ok_or_else(|| LookupError::NoVersion {
                name: name.to_owned(),
                version: version.to_owned(),
            })
    }
}

/// An entry, or why it is left out; the error is what makes the whole index none.
fn read_entry(entry: &Value) -> Result<Result<(Version, Entry), String>, String> {
    if entry.is_null() {
        return Ok(Err("empty entry".to_owned()));
    }
    let metadata = match index_entry(entry).map_err(|error| error.to_string())? {
        Ok(metadata) => metadata,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let version = match Version::parse(&metadata.version) {
        Ok(version) => version,
        Err(error) => return Ok(Err(error)),
    };
    let urls = match entry.get("urls") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(urls)) => urls
            .iter()
            .map(|url| url.as_str().map(str::to_owned).ok_or("a URL is not a text"))
            .collect::<Result<_, _>>()?,
        Some(_) => return Err("urls is not a list".to_owned()),
    };
    let entry = Entry {
        urls,
        created: said(entry, "created"),
        digest: said(entry, "digest"),
        removed: entry.get("removed").and_then(Value::as_bool).unwrap_or(false),
        metadata,
    };
    Ok(Ok((version, entry)))
}

fn said(entry: &Value, key: &str) -> String {
    entry
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// A reference of an index that is no URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to parse {0} as URL")]
pub struct NoUrl(String);

/// The URL that a reference of an index stands for, below the repository's own. The repository's query is
/// kept: it may be what lets one in.
pub fn resolve_url(repository: &str, reference: &str) -> Result<String, NoUrl> {
    if reference.starts_with(':') || reference.chars().any(char::is_control) {
        return Err(NoUrl(reference.to_owned()));
    }
    if has_scheme(reference) {
        return Ok(reference.to_owned());
    }
    let no_url = || NoUrl(repository.to_owned());
    let (scheme, rest) = repository.split_once("://").ok_or_else(no_url)?;
    let (rest, _) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest
        .split_once('?')
        .map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (mut authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (reference, fragment) = match reference.split_once('#') {
        Some((reference, fragment)) => (reference, Some(fragment)),
        None => (reference, None),
    };
    let mut reference = reference.split('?').next().unwrap_or_default();
    let mut base = format!("{}/", path.strip_suffix('/').unwrap_or(path));
    if let Some(rest) = reference.strip_prefix("//") {
        (authority, reference) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        base.clear();
    } else if reference.starts_with('/') {
        base.clear();
    }
    let mut url = format!(
        "{scheme}://{authority}{}",
        without_dots(&format!("{base}{reference}"))
    );
    for (mark, part) in [('?', query), ('#', fragment)] {
        if let Some(part) = part {
            url.push(mark);
            url.push_str(part);
        }
    }
    Ok(url)
}

fn has_scheme(reference: &str) -> bool {
    reference.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|character| character.is_ascii_alphanumeric() || "+-.".contains(character))
    })
}

/// A path without `.` and `..`, with its spaces escaped.
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let names: Vec<&str> = path.split('/').skip(1).collect();
    for (at, name) in names.iter().enumerate() {
        let is_last = at + 1 == names.len();
        match *name {
            "." | ".." => {
                if *name == ".." {
                    parts.pop();
                }
                if is_last {
                    parts.push("");
                }
            }
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/")).replace(' ', "%20")
}
