//! A document as SOPS sees it: values in the order they stand in, with their comments.
//!
//! The order matters, for the MAC is over the values one after the other, and so do comments,
//! which can say what is sealed and can be sealed themselves. Texts are bytes: what was sealed
//! need not be UTF-8.

use std::fmt;

use zeroize::Zeroizing;

/// A text that may be secret: zeroed when dropped, masked in `Debug`.
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
    /// Whether it stands behind a value, on its line.
    pub(crate) inline: bool,
}

/// A value.
#[derive(Clone, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A date, spelled as RFC 3339 has it.
    Time(String),
    Text(Text),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Only in lists.
    Comment(Comment),
}

/// What stands in a mapping.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    Pair { key: String, value: Node },
    Comment(Comment),
}

impl Node {
    /// What kind of value it is, for messages.
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

    /// A text that is UTF-8.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => text.as_str(),
            _ => None,
        }
    }
}

impl fmt::Debug for Node {
    /// Numbers and flags can be secret as well.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(items) => formatter.debug_list().entries(items).finish(),
            Self::Map(entries) => formatter.debug_list().entries(entries).finish(),
            _ => write!(formatter, "*** ({})", self.kind()),
        }
    }
}

/// The value of a key, the first one.
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
