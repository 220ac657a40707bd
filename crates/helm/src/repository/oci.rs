//! Charts in registries: references and tags.
//!
//! A `+` in a version is a `_` in its tag. Only tags with complete versions (`1.2.0`, not `v1.2.0` or
//! `1.2`) are versions of a chart. Others can be requested by name.

use equate_manifest::go::version::{Constraint, ConstraintError, Version};

/// The media type of a chart's metadata, the config of its manifest.
pub const CONFIG_MEDIA_TYPE: &str = "application/vnd.cncf.helm.config.v1+json";
/// The media type of the layer that is the chart's archive.
pub const CHART_MEDIA_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// The media type of a chart before Helm 3.7.
pub const LEGACY_CHART_MEDIA_TYPE: &str = "application/tar+gzip";
/// The media type of the layer that is the chart's provenance.
pub const PROVENANCE_MEDIA_TYPE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";

/// `oci://host/path`, with an optional tag or digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The registry: a host and an optional port.
    pub registry: String,
    /// The repository; its last element is the chart's name.
    pub repository: String,
    /// The tag, as the registry has it.
    pub tag: Option<String>,
    /// The digest: `sha256:…`.
    pub digest: Option<String>,
}

/// The artifact to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// This digest. An existing tag, if given, must point to it.
    Digest(String, Option<String>),
    /// This tag.
    Tag(String),
    /// The newest version that meets this constraint; see [`choose`].
    Newest(String),
}

/// A text is not a reference to a chart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// It does not start with `oci://`.
    #[error("invalid reference: {0} does not begin with oci://")]
    Scheme(String),
    /// The registry or the repository is missing.
    #[error("invalid reference: missing registry or repository")]
    Incomplete,
    /// The registry is not a host.
    #[error("invalid reference: invalid registry {0:?}")]
    Registry(String),
    /// The repository name is invalid.
    #[error("invalid reference: invalid repository {0:?}")]
    Repository(String),
    /// The tag is invalid.
    #[error("invalid reference: invalid tag {0:?}")]
    Tag(String),
    /// The digest is invalid.
    #[error("invalid reference: invalid digest {0:?}")]
    Digest(String),
    /// Its tag differs from the requested version.
    #[error("chart reference and version mismatch: {version} is not {tag}")]
    Mismatch {
        /// The requested version.
        version: String,
        /// The reference's tag.
        tag: String,
    },
}

/// No tag matches.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// The version is neither a version nor a constraint.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// No tag meets it.
    #[error("could not locate a version matching provided version string {0}")]
    None(String),
}

const REFERENCE_BYTES_MAX: usize = 1_024;
const TAG_BYTES_MAX: usize = 128;

impl Reference {
    /// Parses a reference. A `+` in its tag becomes a `_`.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        let rest = text.strip_prefix("oci://");
        let rest = rest.filter(|rest| rest.len() <= REFERENCE_BYTES_MAX);
        let rest = rest.ok_or_else(|| ReferenceError::Scheme(text.chars().take(100).collect()))?;
        let (rest, digest) = match rest.rsplit_once('@') {
            Some((rest, digest)) => (rest, Some(digest.to_owned())),
            None => (rest, None),
        };
        let (registry, path) = rest.split_once('/').ok_or(ReferenceError::Incomplete)?;
        let (repository, tag) = match path.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag_of(tag))),
            None => (path, None),
        };
        let is_host = |character: char| character.is_ascii_alphanumeric() || ".-:[]_".contains(character);
        if registry.is_empty() || !registry.chars().all(is_host) {
            return Err(ReferenceError::Registry(registry.to_owned()));
        }
        if !repository.split('/').all(is_repository_name) {
            return Err(ReferenceError::Repository(repository.to_owned()));
        }
        if let Some(tag) = tag.as_ref().filter(|tag| !is_tag(tag)) {
            return Err(ReferenceError::Tag(tag.clone()));
        }
        if let Some(digest) = digest.as_ref().filter(|digest| !is_digest(digest)) {
            return Err(ReferenceError::Digest(digest.clone()));
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            tag,
            digest,
        })
    }

    /// Resolves a requested version; an empty one selects the reference's tag or digest, or the newest.
    pub fn wanted(&self, version: &str) -> Result<Selection, ReferenceError> {
        let asked = tag_of(version);
        if let Some(tag) = self
            .tag
            .as_ref()
            .filter(|tag| !version.is_empty() && **tag != asked)
        {
            return Err(ReferenceError::Mismatch {
                version: version.to_owned(),
                tag: tag.clone(),
            });
        }
        let tag = match (&self.tag, version) {
            (Some(tag), _) => Some(tag.clone()),
            (None, version) if Version::parse(version).is_ok() => Some(asked),
            (None, _) => None,
        };
        Ok(match (&self.digest, tag) {
            (Some(digest), tag) => Selection::Digest(digest.clone(), tag),
            (None, Some(tag)) => Selection::Tag(tag),
            (None, None) => Selection::Newest(version.to_owned()),
        })
    }
}

/// The tag of a version.
pub fn tag_of(version: &str) -> String {
    version.replace('+', "_")
}

/// The versions among the tags of a chart, newest first.
pub fn versions<'t>(tags: impl IntoIterator<Item = &'t str>) -> Vec<String> {
    let mut versions: Vec<(Version, String)> = tags
        .into_iter()
        .map(|tag| tag.replace('_', "+"))
        .filter(|text| is_whole(text))
        .filter_map(|text| Some((Version::parse(&text).ok()?, text)))
        .collect();
    versions.sort_by(|(a, _), (b, _)| b.order(a));
    versions.into_iter().map(|(_, text)| text).collect()
}

/// Selects a version: an exact match, else the first that meets the constraint.
pub fn choose<'v>(versions: &'v [String], asked: &str) -> Result<&'v str, ChooseError> {
    if let Some(exact) = versions.iter().find(|version| *version == asked) {
        return Ok(exact);
    }
    let constraint = if asked.is_empty() { "*" } else { asked };
    let constraint = Constraint::parse(constraint)?;
    let allowed = |text: &&String| Version::parse(text).is_ok_and(|version| constraint.matches(&version));
    let found = versions.iter().find(allowed);
    found
        .map(String::as_str)
        .ok_or_else(|| ChooseError::None(asked.to_owned()))
}

/// Whether a version has three numbers, without a `v` and leading zeros.
fn is_whole(version: &str) -> bool {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part.len() == 1 || !part.starts_with('0'))
    };
    core.split('.').count() == 3 && core.split('.').all(is_number)
}

/// Lower-case letters and digits, with `.`, `_`, `__` or dashes between them.
fn is_repository_name(name: &str) -> bool {
    let mut separator = String::new();
    let mut is_begun = false;
    for character in name.chars() {
        if character.is_ascii_lowercase() || character.is_ascii_digit() {
            let is_sound = match separator.as_str() {
                "" | "." | "_" | "__" => true,
                other => other.chars().all(|one| one == '-'),
            };
            if !is_sound || !is_begun && !separator.is_empty() {
                return false;
            }
            is_begun = true;
            separator.clear();
        } else if "._-".contains(character) {
            separator.push(character);
        } else {
            return false;
        }
    }
    is_begun && separator.is_empty()
}

fn is_tag(tag: &str) -> bool {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    tag.len() <= TAG_BYTES_MAX
        && tag.starts_with(is_word)
        && tag
            .chars()
            .all(|character| is_word(character) || ".-".contains(character))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        let length = match algorithm {
            "sha256" => 64,
            "sha512" => 128,
            _ => return false,
        };
        hex.len() == length && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}
