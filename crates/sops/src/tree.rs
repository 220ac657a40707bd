//! A document in SOPS's view: ordered values with their comments.
//!
//! The MAC depends on the order. Comments can decide which values are encrypted, and can be encrypted
//! themselves. Texts are bytes, because decrypted content need not be UTF-8.

use std::fmt;

use zeroize::Zeroizing;

/// A text that may be secret: zeroed on drop, masked in `Debug`.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Text(Zeroizing<Vec<u8>>);

impl Text {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }
}

impl From<Zeroizing<Vec<u8>>> for Text {
    fn from(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "*** ({} bytes)", self.0.len())
    }
}

/// One comment line, without its `#`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Comment {
    pub(crate) text: Text,
    /// Whether it follows a value on its line.
    pub(crate) inline: bool,
}

#[derive(Clone, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A date in RFC 3339.
    Time(String),
    Text(Text),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Only in lists.
    Comment(Comment),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    Pair { key: String, value: Node },
    Comment(Comment),
}

impl Node {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Time(_) => "a date",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
            Self::Comment(_) => "a comment",
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => text.as_str(),
            _ => None,
        }
    }
}

impl fmt::Debug for Node {
    /// Numbers and flags can be secret, too.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(items) => formatter.debug_list().entries(items).finish(),
            Self::Map(entries) => formatter.debug_list().entries(entries).finish(),
            _ => write!(formatter, "*** ({})", self.kind()),
        }
    }
}

/// The first value of a key.
pub(crate) fn get<'e>(entries: &'e [Entry], wanted: &str) -> Option<&'e Node> {
    entries.iter().find_map(|entry| match entry {
        Entry::Pair { key, value } if key == wanted => Some(value),
        _ => None,
    })
}

/// Go's `FormatFloat(f, 'f', -1, 64)`: the shortest digits, never an exponent.
pub(crate) fn fixed(float: f64) -> String {
    format!("{float}")
}
