//! Charts in registries: what a reference names, and which tag will do.
//!
//! A version's `+` cannot stand in a tag and is a `_` there. Only tags that are whole versions count as
//! versions of a chart (`1.2.0`, not `v1.2.0` or `1.2`); others can be named by who knows them.

use equate_template::{Constraint, ConstraintError, Version};

/// The media type of a chart's metadata, the config of its manifest.
pub const CONFIG_MEDIA_TYPE: &str = "application/vnd.cncf.helm.config.v1+json";
/// The media type of the layer that is the chart's archive.
pub const CHART_MEDIA_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// What that was before Helm 3.7.
pub const LEGACY_CHART_MEDIA_TYPE: &str = "application/tar+gzip";
/// The media type of the layer that is the chart's provenance.
pub const PROVENANCE_MEDIA_TYPE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";

/// `oci://host/path`, perhaps with a tag or a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The registry: a host, perhaps with a port.
    pub registry: String,
    /// The repository in it; its last name is the chart's.
    pub repository: String,
    /// A tag, as the registry has it.
    pub tag: Option<String>,
    /// A digest: `sha256:…`.
    pub digest: Option<String>,
}

/// What is to be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// What has this digest. If a tag is given too, it has to point there, should it exist.
    Digest(String, Option<String>),
    /// What this tag points at.
    Tag(String),
    /// The newest that this constraint allows: [`choose`] tells from the tags.
    Newest(String),
}

/// Why a text names no chart of a registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// It does not begin with `oci://`.
    #[error("invalid reference: {0} does not begin with oci://")]
    Scheme(String),
    /// One of the two is not there.
    #[error("invalid reference: missing registry or repository")]
    Incomplete,
    /// It is no host.
    #[error("invalid reference: invalid registry {0:?}")]
    Registry(String),
    /// It is no name of a repository.
    #[error("invalid reference: invalid repository {0:?}")]
    Repository(String),
    /// It is no tag.
    #[error("invalid reference: invalid tag {0:?}")]
    Tag(String),
    /// It is no digest.
    #[error("invalid reference: invalid digest {0:?}")]
    Digest(String),
    /// It has a tag, and another version is asked for.
    #[error("chart reference and version mismatch: {version} is not {tag}")]
    Mismatch {
        /// What is asked for.
        version: String,
        /// What the reference says.
        tag: String,
    },
}

/// No tag is a version that will do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// The version is neither one nor a constraint.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// There is none.
    #[error("could not locate a version matching provided version string {0}")]
    None(String),
}

const REFERENCE_BYTES_MAX: usize = 1_024;
const TAG_BYTES_MAX: usize = 128;

impl Reference {
    /// Reads a reference. A `+` in its tag is a `_`.
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

    /// What a version asks for here; an empty one asks for what the reference says, or for the newest.
    pub fn wanted(&self, version: &str) -> Result<Wanted, ReferenceError> {
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
            (Some(digest), tag) => Wanted::Digest(digest.clone(), tag),
            (None, Some(tag)) => Wanted::Tag(tag),
            (None, None) => Wanted::Newest(version.to_owned()),
        })
    }
}

/// The tag of a version.
pub fn tag_of(version: &str) -> String {
    version.replace('+', "_")
}

/// The versions among the tags of a chart, the newest first.
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

/// The first of the versions that a text asks for: that very one, else one that it allows as a constraint.
pub fn choose<'v>(versions: &'v [String], asked: &str) -> Result<&'v str, ChooseError> {
    if let Some(exact) = versions.iter().find(|version| *version == asked) {
        return Ok(exact);
    }
    let constraint = if asked.is_empty() { "*" } else { asked };
    let constraint = Constraint::parse(constraint)?;
    let allowed = |text: &&String| Version::parse(text).is_ok_and(|version| constraint.allows(&version));
    let found = versions.iter().find(allowed);
    found
        .map(String::as_str)
        .ok_or_else(|| ChooseError::None(asked.to_owned()))
}

/// Whether a version has its three numbers, without a `v` and without zeros before them.
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
