//! Kinds of errors, told by the words both engines use.
//!
//! The wordings differ in their prefixes, and Go's change from release to release; the kind of
//! an error does not.

/// A kind of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Something that lies elsewhere cannot be had.
    Remote,
    /// A file outside of what may be read.
    Restriction,
    /// A chart, or a plugin that is a program.
    Plugin,
    /// A kustomization file that says nothing.
    Empty,
    /// A kustomization file that cannot be understood.
    Kustomization,
    /// A directory without one.
    NoKustomization,
    /// A file or directory that is not there.
    Absent,
    /// A patch for an object that is not there.
    NoTarget,
    /// A replacement from an object that is not there.
    NoSource,
    /// A generator that adds to what is not there.
    NothingToMerge,
    /// A patch that holds nothing.
    EmptyPatch,
    /// The same object twice.
    Twice,
    /// A text that is no YAML, or no object.
    Manifest,
    /// Any other.
    Other,
}

/// In the order they are looked for: an error's text quotes those of the attempts before it.
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
    /// The kind of error a text tells of.
    pub(super) fn of(text: &str) -> Self {
        let found = WORDS
            .iter()
            .find(|(_, words)| words.iter().any(|word| text.contains(word)));
        found.map_or(Self::Other, |(class, _)| *class)
    }
}
