//! `index.yaml`: the charts and versions of a repository.
//!
//! As in Helm, an invalid entry is skipped and reported. An index is untrusted: its size and its number
//! of values are limited. Helm's own layout and JSON are parsed entry by entry, in little memory. Any other
//! layout is parsed whole, with lower limits. Unknown fields are ignored, where Helm rejects them in a YAML
//! index.

use super::json;
use super::layout::{Layout, Pieces};
use crate::json_weight;
use crate::load::{FileError, index_entry};
use crate::metadata::{Metadata, ValidationError};
use crate::values;
use equate_manifest::go::version::{Constraint, ConstraintError, Version, VersionError};
use equate_manifest::yaml::{self, YamlError};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Cursor, Seek, SeekFrom};

/// Limits of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexLimits {
    /// Bytes of text.
    pub bytes_max: usize,
    /// Values, with expanded aliases.
    pub nodes_max: usize,
    /// Charts and versions together: each is kept.
    pub entries_max: usize,
}

impl Default for IndexLimits {
    /// As many bytes as Flux reads (50 MiB), and a common number of values: 45 in a version of 1,200
    /// bytes. As many versions as there are of 350 bytes: with a digest and a URL they are longer.
    fn default() -> Self {
        Self {
            bytes_max: 50 << 20,
            nodes_max: 2_500_000,
            entries_max: 150_000,
        }
    }
}

/// Values of one entry parsed by itself: each may be a map of 700 bytes.
const ENTRY_NODES_MAX: usize = 20_000;
/// Values of an index parsed whole, for the same reason.
const WHOLE_NODES_MAX: usize = 300_000;
/// JSON that is not as expected, with a field twice for example.
const JSON_MEMORY_MAX: usize = 64 << 20;

/// The charts of a repository, with all that the index says of each version.
pub type Index = Charts<Entry>;

/// The charts of a repository, with the given information about each version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charts<E> {
    pub(super) charts: BTreeMap<String, Vec<E>>,
    skipped: Vec<Skipped>,
}

impl<E> Default for Charts<E> {
    fn default() -> Self {
        Self {
            charts: BTreeMap::new(),
            skipped: Vec::new(),
        }
    }
}

/// A version of a chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its `Chart.yaml`.
    pub metadata: Metadata,
    /// The URLs of its archive: [`resolve_url`] resolves relative ones.
    pub urls: Vec<String>,
    /// Its creation time, verbatim.
    pub created: String,
    /// The SHA-256 of the archive, in hexadecimal digits; may be empty.
    pub digest: String,
    /// Whether it was withdrawn.
    pub removed: bool,
}

/// A skipped entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its chart.
    pub chart: String,
    /// Its version, if it has one.
    pub version: String,
    /// The cause.
    pub reason: SkipReason,
}

/// An entry is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// It is empty.
    #[error("empty entry")]
    Empty,
    /// It is not a chart.
    #[error(transparent)]
    Invalid(#[from] ValidationError),
    /// Its version is invalid.
    #[error(transparent)]
    Version(#[from] VersionError),
}

/// A text is not an index.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// It is empty.
    #[error("empty index.yaml file")]
    Empty,
    /// It is not UTF-8.
    #[error("the index is not UTF-8 at byte {0}")]
    NotUtf8(usize),
    /// It is too large.
    #[error("the index has {bytes} bytes, more than {bytes_max}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// It is neither JSON nor YAML.
    #[error("error converting YAML to JSON: yaml")]
    Yaml(#[source] YamlError),
    /// A field has the wrong type.
    #[error("{place} is not a {wanted}")]
    Type {
        /// The field.
        place: String,
        /// The expected type.
        wanted: &'static str,
    },
    /// A field of an entry has the wrong type.
    #[error("entries.{chart}")]
    Entry {
        /// Its chart.
        chart: String,
        /// The cause, in the words of Go's decoder.
        #[source]
        source: FileError,
    },
    /// It has too many values.
    #[error("the index has more than {0} values")]
    Values(usize),
    /// It is JSON that takes too much memory.
    #[error(
        "the index, or one version of a chart in it, takes more than {0} bytes of memory: write it with `helm repo index`"
    )]
    Memory(usize),
    /// It has too many charts and versions.
    #[error("the index has more than {0} charts and versions")]
    Entries(usize),
    /// It cannot be read.
    #[error("the index cannot be read")]
    Read(#[source] io::Error),
    /// It has no `apiVersion`.
    #[error("no API version specified")]
    NoApiVersion,
}

/// An index has no entry for a name and a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The chart does not exist.
    #[error("no chart name found")]
    NoChart,
    /// The chart has no versions.
    #[error("no chart version found")]
    NoVersions,
    /// The version is neither a version nor a constraint.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// No version matches.
    #[error("no chart version found for {name}-{version}")]
    NoVersion {
        /// The chart.
        name: String,
        /// The requested version.
        version: String,
    },
}

impl<E: From<Entry>> Charts<E> {
    /// Parses an index, YAML or JSON.
    pub fn parse(bytes: &[u8], limits: &IndexLimits) -> Result<Self, IndexError> {
        Self::read(&mut Cursor::new(bytes), limits)
    }

    /// Parses an index, YAML or JSON. Of an index of Helm's layout and of JSON, only one version at a time is in
    /// memory as a whole, also of its text.
    pub fn read(reader: &mut (impl BufRead + Seek), limits: &IndexLimits) -> Result<Self, IndexError> {
        let bytes = reader.seek(SeekFrom::End(0)).map_err(IndexError::Read)?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes == 0 {
            return Err(IndexError::Empty);
        }
        if bytes > limits.bytes_max {
            return Err(IndexError::TooLarge {
                bytes,
                bytes_max: limits.bytes_max,
            });
        }
        if let Some(index) = Self::by_entry(reader, limits)? {
            return Ok(index);
        }
        if let Some(index) = Self::by_json(reader, limits)? {
            return Ok(index);
        }
        reader.rewind().map_err(IndexError::Read)?;
        let mut text = Vec::with_capacity(bytes);
        reader.read_to_end(&mut text).map_err(IndexError::Read)?;
        let text = std::str::from_utf8(&text).map_err(|error| IndexError::NotUtf8(error.valid_up_to()))?;
        Self::whole(text, limits)
    }

    /// Parses an index of Helm's layout entry by entry; `None` for another layout.
    pub(super) fn by_entry(
        reader: &mut (impl BufRead + Seek),
        limits: &IndexLimits,
    ) -> Result<Option<Self>, IndexError> {
        reader.rewind().map_err(IndexError::Read)?;
        let Some(layout) = Layout::of(reader, limits.entries_max)? else {
            return Ok(None);
        };
        let mut left = limits.nodes_max;
        let Some(Value::Object(head)) = piece(&layout.head, &mut left, limits)? else {
            return Ok(None);
        };
        reader.rewind().map_err(IndexError::Read)?;
        let mut pieces = Pieces::new(reader);
        let mut index = Self::default();
        for chart in &layout.charts {
            let Some(Value::Object(name)) = piece(pieces.get(&chart.name)?, &mut left, limits)? else {
                return Ok(None);
            };
            let mut names = name.into_iter();
            let (Some((name, Value::Null)), None) = (names.next(), names.next()) else {
                return Ok(None);
            };
            if index.charts.contains_key(&name) {
                return Ok(None);
            }
            let mut versions = Vec::with_capacity(chart.versions.len());
            for version in &chart.versions {
                let version = piece(pieces.get(version)?, &mut left, limits)?;
                let Some(Value::Array(entries)) = version else {
                    return Ok(None);
                };
                let [entry] = entries.as_slice() else {
                    return Ok(None);
                };
                versions.extend(index.version(&name, entry)?);
            }
            index.insert(name, versions);
        }
        index.checked(&head).map(Some)
    }

    /// Parses an index of JSON entry by entry; `None` if it is none.
    fn by_json(reader: &mut (impl BufRead + Seek), limits: &IndexLimits) -> Result<Option<Self>, IndexError> {
        reader.rewind().map_err(IndexError::Read)?;
        match json::read(reader, limits)? {
            Some((index, head)) => index.checked(&head).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn whole(text: &str, limits: &IndexLimits) -> Result<Self, IndexError> {
        let mut map = match whole(text, limits)? {
            Value::Null => Map::new(),
            Value::Object(map) => map,
            _ => return Err(wrong("the index", "mapping")),
        };
        let (mut index, mut left) = (Self::default(), limits.entries_max);
        let mut count = |entries: usize| -> Result<(), IndexError> {
            let counted = left.checked_sub(entries + 1);
            left = counted.ok_or(IndexError::Entries(limits.entries_max))?;
            Ok(())
        };
        let charts = map.keys().find(|key| key.to_lowercase() == "entries").cloned();
        match charts.and_then(|key| map.remove(&key)) {
            None | Some(Value::Null) => {}
            Some(Value::Object(charts)) => {
                for (name, entries) in charts {
                    let entries = match entries {
                        Value::Null => Vec::new(),
                        Value::Array(entries) => entries,
                        _ => return Err(wrong(&format!("entries.{name}"), "list")),
                    };
                    count(entries.len())?;
                    let mut versions = Vec::new();
                    for entry in entries {
                        versions.extend(index.version(&name, &entry)?);
                    }
                    index.insert(name, versions);
                }
            }
            Some(_) => return Err(wrong("entries", "mapping")),
        }
        index.checked(&map)
    }

    fn checked(self, head: &Map<String, Value>) -> Result<Self, IndexError> {
        let said = head.iter().find(|(key, _)| key.to_lowercase() == "apiversion");
        match said.and_then(|(_, version)| version.as_str()) {
            None | Some("") => Err(IndexError::NoApiVersion),
            Some(_) => Ok(self),
        }
    }

    pub(super) fn version(&mut self, chart: &str, entry: &Value) -> Result<Option<(Version, E)>, IndexError> {
        let read = read_entry(entry).map_err(|source| IndexError::Entry {
            chart: chart.to_owned(),
            source,
        })?;
        match read {
            Ok((version, entry)) => Ok(Some((version, entry.into()))),
            Err(reason) => {
                self.skipped.push(Skipped {
                    chart: chart.to_owned(),
                    version: said(entry, "version"),
                    reason,
                });
                Ok(None)
            }
        }
    }

    pub(super) fn has(&self, chart: &str) -> bool {
        self.charts.contains_key(chart)
    }

    pub(super) fn insert(&mut self, chart: String, mut versions: Vec<(Version, E)>) {
        versions.sort_by(|(a, _), (b, _)| b.order(a));
        // `collect` would keep the memory of the larger pairs
        let mut kept = Vec::with_capacity(versions.len());
        kept.extend(versions.into_iter().map(|(_, entry)| entry));
        self.charts.insert(chart, kept);
    }

    /// The charts and their versions, newest first.
    pub fn charts(&self) -> impl Iterator<Item = (&str, &[E])> {
        self.charts
            .iter()
            .map(|(name, versions)| (name.as_str(), versions.as_slice()))
    }

    /// The skipped entries.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }
}

impl Index {
    /// The requested version of a chart: an exact match, else the newest that meets the constraint. An
    /// empty request selects the newest that is not a prerelease.
    pub fn get(&self, name: &str, version: &str) -> Result<&Entry, LookupError> {
        let versions = self.charts.get(name).ok_or(LookupError::NoChart)?;
        if versions.is_empty() {
            return Err(LookupError::NoVersions);
        }
        let asked = if version.is_empty() { "*" } else { version };
        let constraint = Constraint::parse(asked)?;
        let exact = versions.iter().find(|entry| entry.metadata.version == version);
        let allowed = |entry: &&Entry| {
            Version::parse(&entry.metadata.version).is_ok_and(|version| constraint.matches(&version))
        };
        exact
            .or_else(|| versions.iter().find(allowed))
            .ok_or_else(|| LookupError::NoVersion {
                name: name.to_owned(),
                version: version.to_owned(),
            })
    }
}

fn wrong(place: &str, wanted: &'static str) -> IndexError {
    IndexError::Type {
        place: place.to_owned(),
        wanted,
    }
}

fn piece(text: &str, left: &mut usize, limits: &IndexLimits) -> Result<Option<Value>, IndexError> {
    let options = yaml::Options {
        bytes_max: limits.bytes_max,
        nodes_max: ENTRY_NODES_MAX,
        documents_max: 1,
        ..yaml::Options::default()
    };
    let Ok(documents) = yaml::load(text, &options) else {
        return Ok(None);
    };
    let Some(document) = documents.into_iter().next() else {
        return Ok(None);
    };
    let nodes = match &document.value {
        Value::Array(list) => list.iter().filter_map(Value::as_object).map(values::nodes).sum(),
        Value::Object(map) => values::nodes(map),
        _ => 1,
    };
    *left = left
        .checked_sub(nodes)
        .ok_or(IndexError::Values(limits.nodes_max))?;
    Ok(Some(document.value))
}

fn whole(text: &str, limits: &IndexLimits) -> Result<Value, IndexError> {
    if text.trim_start().starts_with('{') {
        if !json_weight::is_within(text.as_bytes(), JSON_MEMORY_MAX) {
            return Err(IndexError::Memory(JSON_MEMORY_MAX));
        }
        if let Ok(value) = serde_json::from_str(text) {
            return Ok(value);
        }
    }
    let options = yaml::Options {
        bytes_max: limits.bytes_max,
        nodes_max: limits.nodes_max.min(WHOLE_NODES_MAX),
        ..yaml::Options::default()
    };
    let documents = yaml::load(text, &options).map_err(IndexError::Yaml)?;
    let first = documents.into_iter().next();
    Ok(first.map_or(Value::Null, |document| document.value))
}

/// An entry, or the reason to skip it; the error fails the whole index.
fn read_entry(entry: &Value) -> Result<Result<(Version, Entry), SkipReason>, FileError> {
    if entry.is_null() {
        return Ok(Err(SkipReason::Empty));
    }
    let (metadata, offer) = match index_entry(entry)? {
        Ok(read) => read,
        Err(error) => return Ok(Err(error.into())),
    };
    let version = match Version::parse(&metadata.version) {
        Ok(version) => version,
        Err(error) => return Ok(Err(error.into())),
    };
    let entry = Entry {
        urls: offer.urls,
        created: offer.created,
        digest: offer.digest,
        removed: offer.removed,
        metadata,
    };
    Ok(Ok((version, entry)))
}

fn said(entry: &Value, key: &str) -> String {
    let mut fields = entry.as_object().into_iter().flatten();
    let found = fields.find(|(name, _)| name.to_lowercase() == key);
    let text = found.and_then(|(_, value)| value.as_str());
    text.unwrap_or_default().to_owned()
}

/// A reference of an index that is not a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to parse {0} as URL")]
pub struct InvalidUrl(String);

/// Resolves a reference of an index against the repository's URL. The repository's query is kept: it may
/// hold credentials.
pub fn resolve_url(repository: &str, reference: &str) -> Result<String, InvalidUrl> {
    if reference.starts_with(':') || reference.chars().any(char::is_control) {
        return Err(InvalidUrl(reference.to_owned()));
    }
    if has_scheme(reference) {
        return Ok(reference.to_owned());
    }
    let no_url = || InvalidUrl(repository.to_owned());
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
