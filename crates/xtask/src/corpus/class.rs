//! Error classes, recognised by words that both engines use.
//!
//! The texts have different prefixes, and Go's change between releases; the class does not.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A remote resource is not available.
    Remote,
    /// A file outside of the allowed root.
    Restriction,
    /// A chart, or a plugin that is a program.
    Plugin,
    /// An empty kustomization file.
    Empty,
    /// An invalid kustomization file.
    Kustomization,
    /// A directory without a kustomization file.
    NoKustomization,
    /// A missing file or directory.
    Absent,
    /// A patch for a missing object.
    NoTarget,
    /// A replacement from a missing object.
    NoSource,
    /// A generator that merges into a missing object.
    NothingToMerge,
    /// An empty patch.
    EmptyPatch,
    /// A duplicate object.
    Twice,
    /// Invalid YAML, or not an object.
    Manifest,
    /// Any other.
    Other,
}

/// In matching order: an error text quotes the attempts before it.
const WORDS: [(Class, &[&str]); 13] = [
    (
        Class::Remote,
        &[
            "is remote, and remote",
            "git fetch",
            "dial tcp",
            "no such host",
            "URL is a git repository",
            "exit status 128",
        ],
    ),
    (
        Class::Restriction,
        &["is not in or below", "leads out of the source"],
    ),
    (
        Class::Plugin,
        &["external plugins disabled", "must specify --enable-helm"],
    ),
    (Class::Empty, &["kustomization.yaml is empty"]),
    (
        Class::Kustomization,
        &["invalid Kustomization", "kind should be", "apiVersion for"],
    ),
    (Class::NoTarget, &["no matches for Id"]),
    (Class::NoSource, &["nothing selected by"]),
    (Class::NothingToMerge, &["cannot merge or replace"]),
    (Class::EmptyPatch, &["patch appears to be empty"]),
    (Class::Twice, &["already registered id"]),
    (Class::NoKustomization, &["unable to find one of"]),
    (
        Class::Manifest,
        &[
            "MalformedYAMLError",
            "missing Resource metadata",
            "missing metadata.name",
        ],
    ),
    (Class::Absent, &["no such file or directory"]),
];

impl Class {
    pub(super) fn of(text: &str) -> Self {
        let found = WORDS
            .iter()
            .find(|(_, words)| words.iter().any(|word| text.contains(word)));
        found.map_or(Self::Other, |(class, _)| *class)
    }
}
