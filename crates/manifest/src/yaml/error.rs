//! YAML errors and their places.

/// A YAML error with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {fault}")]
pub struct YamlError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The fault.
    pub fault: Fault,
}

/// The faults of a YAML text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The text is not YAML.
    #[error("{0}")]
    Syntax(String),
    /// A tab where indentation is expected.
    #[error("found character that cannot start any token")]
    Tab,
    /// A key a mapping already has.
    #[error("key {0:?} already set in map")]
    DuplicateKey(String),
    /// A null, list or map as key.
    #[error("{0} cannot be a key")]
    Key(&'static str),
    /// `.inf` or `.nan`.
    #[error("{0} is not a JSON value")]
    NotFinite(String),
    /// A tag that does not fit its scalar.
    #[error("cannot decode {found} `{text}` as a {tag}")]
    Tag {
        /// The type of the scalar.
        found: &'static str,
        /// The scalar.
        text: String,
        /// The type of the tag.
        tag: String,
    },
    /// `<<` with a value other than mappings.
    #[error("map merge requires map or sequence of maps as the value")]
    Merge,
    /// An alias inside its own anchor.
    #[error("anchor value contains itself")]
    Cycle,
    /// Beyond [`super::Options::bytes_max`].
    #[error("more than {0} bytes")]
    Bytes(usize),
    /// Beyond [`super::Options::depth_max`].
    #[error("nested deeper than {0} levels")]
    Depth(usize),
    /// Beyond [`super::Options::nodes_max`].
    #[error("more than {0} values, aliases expanded")]
    Nodes(usize),
    /// Beyond [`super::Options::documents_max`].
    #[error("more than {0} documents")]
    Documents(usize),
    /// Limit on the memory of anchors and aliases.
    #[error("anchors and aliases copy more than {0} bytes")]
    Aliases(usize),
    /// The caller ended the work.
    #[error("it was stopped")]
    Stopped,
    /// Limit on the memory of [`super::Options::spans`], which stores the path of every value.
    #[error("more than {0} bytes of key paths")]
    Pointers(usize),
}
