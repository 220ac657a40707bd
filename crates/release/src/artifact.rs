//! Artifacts: immutable sets of versions of one service.

use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// The thing that a version is a version of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A container image, by its repository.
    Image(String),
    /// A Helm chart, by its name.
    Chart(String),
    /// An OCI repository, by its URL.
    Oci(String),
    /// A value at a declared path, by its declared name.
    Value(String),
}

impl Subject {
    /// The kind of the subject, as records spell it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Image(_) => "image",
            Self::Chart(_) => "chart",
            Self::Oci(_) => "oci",
            Self::Value(_) => "value",
        }
    }

    /// The name alone.
    pub fn name(&self) -> &str {
        match self {
            Self::Image(name) | Self::Chart(name) | Self::Oci(name) | Self::Value(name) => name,
        }
    }

    /// The last segment of the name: `checkout` for `registry.example/shop/checkout`.
    pub fn short(&self) -> &str {
        let name = self.name();
        name.rsplit('/').next().unwrap_or(name)
    }

    /// Reads the form of [`fmt::Display`].
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(' ')?;
        let name = name.to_owned();
        Some(match kind {
            "image" => Self::Image(name),
            "chart" => Self::Chart(name),
            "oci" => Self::Oci(name),
            "value" => Self::Value(name),
            _ => return None,
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.name())
    }
}

/// A version as files spell it. One of the parts is not empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version {
    /// A tag, a chart version or a range.
    pub tag: String,
    /// A digest with its algorithm, `sha256:...`.
    pub digest: String,
}

impl Version {
    /// A version with a tag and without a digest.
    pub fn tag(tag: impl Into<String>) -> Self {
        Self {
            tag: tag.into(),
            digest: String::new(),
        }
    }

    /// Reads `TAG`, `TAG@DIGEST` or `@DIGEST`.
    pub fn parse(text: &str) -> Option<Self> {
        let (tag, digest) = text.split_once('@').unwrap_or((text, ""));
        let version = Self {
            tag: tag.to_owned(),
            digest: digest.to_owned(),
        };
        (!version.is_empty()).then_some(version)
    }

    /// Whether neither part is set.
    pub fn is_empty(&self) -> bool {
        self.tag.is_empty() && self.digest.is_empty()
    }

    /// Whether the tag is a range of versions, such as `>=1.0.0` or `6.x`.
    pub fn is_range(&self) -> bool {
        let tag = self.tag.as_str();
        let wild = |part: &str| matches!(part, "x" | "X" | "*");
        self.digest.is_empty()
            && (tag.starts_with(['>', '<', '=', '~', '^', '!'])
                || tag.contains([' ', ','])
                || tag.contains("||")
                || tag.split('.').any(wild))
    }
}

impl fmt::Display for Version {
    /// A tag if there is one, else the first twelve digits of the digest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.tag.is_empty() {
            return f.write_str(&self.tag);
        }
        let (algorithm, hex) = self.digest.split_once(':').unwrap_or(("", &self.digest));
        let short = hex.get(..12).unwrap_or(hex);
        match algorithm {
            "" => f.write_str(short),
            algorithm => write!(f, "{algorithm}:{short}"),
        }
    }
}

/// The digest of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactId(String);

impl ArtifactId {
    /// The first twelve digits.
    pub fn short(&self) -> &str {
        let hex = self.0.strip_prefix("sha256:").unwrap_or(&self.0);
        hex.get(..12).unwrap_or(hex)
    }
}

impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An immutable set of versions of one service.
///
/// A subject may have several versions at once, when one environment runs the same image twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Artifact {
    /// Shared, since most artifacts are read in many places and changed in none.
    versions: Arc<BTreeMap<Subject, Vec<Version>>>,
}

impl Artifact {
    /// Adds a version of a subject.
    pub fn add(&mut self, subject: Subject, version: Version) {
        let versions = Arc::make_mut(&mut self.versions).entry(subject).or_default();
        if let Err(at) = versions.binary_search(&version) {
            versions.insert(at, version);
        }
    }

    /// Sets the only version of a subject.
    pub fn set(&mut self, subject: Subject, version: Version) {
        Arc::make_mut(&mut self.versions).insert(subject, vec![version]);
    }

    /// Whether it has no version.
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    /// The versions, sorted by subject.
    pub fn iter(&self) -> impl Iterator<Item = (&Subject, &Version)> {
        self.versions
            .iter()
            .flat_map(|(subject, versions)| versions.iter().map(move |version| (subject, version)))
    }

    /// The subjects in order.
    pub fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.versions.keys()
    }

    /// The versions of one subject.
    pub fn of(&self, subject: &Subject) -> &[Version] {
        self.versions.get(subject).map(Vec::as_slice).unwrap_or_default()
    }

    /// The subject that means the same here: the same one, or the only one of its kind with the same last
    /// segment. An environment with its own registry has other repositories for the same image.
    pub fn counterpart<'a>(&'a self, subject: &'a Subject) -> Option<&'a Subject> {
        if let Some((found, _)) = self.versions.get_key_value(subject) {
            return Some(found);
        }
        let mut alike = self
            .versions
            .keys()
            .filter(|other| other.kind() == subject.kind() && other.short() == subject.short());
        alike.next().filter(|_| alike.next().is_none())
    }

    /// Whether its versions are those of another artifact, for the subjects that both have.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let mut common = 0;
        let same = other.subjects().all(|subject| match self.counterpart(subject) {
            None => true,
            Some(found) => {
                common += 1;
                self.of(found) == other.of(subject)
            }
        });
        same && common > 0
    }

    /// Whether a person means it by a text: its label, its id, or the first digits of the id.
    pub fn is_named(&self, service: &str, text: &str) -> bool {
        let id = self.id();
        self.label(service) == text || id.short() == text || id.to_string() == text
    }

    /// The digest over the sorted set.
    pub fn id(&self) -> ArtifactId {
        let mut hash = Sha256::new();
        for (subject, version) in self.iter() {
            for part in [subject.kind(), subject.name(), &version.tag, &version.digest] {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
        }
        let mut id = String::with_capacity("sha256:".len() + 64);
        id.push_str("sha256:");
        for byte in hash.finalize() {
            let _infallible = write!(id, "{byte:02x}");
        }
        ArtifactId(id)
    }

    /// The version that stands for the artifact in a table: that of the image or chart named like the
    /// service, else the first image's, else the first.
    pub fn label(&self, service: &str) -> String {
        let named = self.iter().find(|(subject, _)| subject.short() == service);
        let image = || {
            self.iter()
                .find(|(subject, _)| matches!(subject, Subject::Image(_)))
        };
        match named.or_else(image).or_else(|| self.iter().next()) {
            Some((_, version)) => version.to_string(),
            None => "-".to_owned(),
        }
    }

    /// A text that tells two artifacts of a service apart: the label, and the subjects that differ if the
    /// labels are equal.
    pub fn label_beside(&self, service: &str, other: &Self) -> String {
        let label = self.label(service);
        if label != other.label(service) || self == other {
            return label;
        }
        let differing = self
            .subjects()
            .find(|subject| self.of(subject) != other.of(subject));
        match differing {
            Some(subject) => {
                let versions: Vec<String> = self.of(subject).iter().map(full).collect();
                format!("{label} ({} {})", subject.short(), versions.join(", "))
            }
            None => label,
        }
    }
}

fn full(version: &Version) -> String {
    match version.digest.as_str() {
        "" => version.to_string(),
        digest if version.tag.is_empty() => digest.to_owned(),
        digest => format!("{}@{digest}", version.tag),
    }
}

#[cfg(test)]
mod tests {
    use super::{Artifact, Subject, Version};

    fn image(name: &str) -> Subject {
        Subject::Image(name.to_owned())
    }

    #[test]
    fn id_depends_on_the_set_alone() {
        let (mut one, mut other) = (Artifact::default(), Artifact::default());
        one.add(image("a"), Version::tag("1"));
        one.add(image("b"), Version::tag("2"));
        other.add(image("b"), Version::tag("2"));
        other.add(image("a"), Version::tag("1"));
        other.add(image("a"), Version::tag("1"));
        assert_eq!(one.id(), other.id());
        other.add(image("a"), Version::tag("2"));
        assert_ne!(one.id(), other.id());
        // parts cannot be shifted between fields
        let (mut left, mut right) = (Artifact::default(), Artifact::default());
        left.add(image("ab"), Version::tag("c"));
        right.add(image("a"), Version::tag("bc"));
        assert_ne!(left.id(), right.id());
    }

    #[test]
    fn ranges_are_told_from_versions() {
        for range in [">=1.0.0", "6.x", "1.2.*", "^1", "~1.2", ">1 <2", "1 || 2", "*"] {
            assert!(Version::tag(range).is_range(), "{range}");
        }
        for version in ["1.2.3", "v1", "latest", "main-3f9c2ab", "2.4.1-rc.1"] {
            assert!(!Version::tag(version).is_range(), "{version}");
        }
    }

    #[test]
    fn counterpart_needs_one_candidate() {
        let mut artifact = Artifact::default();
        artifact.add(image("eu.example/shop/cart"), Version::tag("1"));
        artifact.add(image("eu.example/proxy"), Version::tag("1"));
        artifact.add(image("us.example/proxy"), Version::tag("1"));
        let found = image("example/cart");
        assert_eq!(artifact.counterpart(&found), Some(&image("eu.example/shop/cart")));
        assert_eq!(artifact.counterpart(&image("example/proxy")), None);
        let exact = image("us.example/proxy");
        assert_eq!(artifact.counterpart(&exact), Some(&exact));
    }
}
