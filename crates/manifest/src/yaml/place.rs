//! Where things stand in a text.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A stretch of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The bytes.
    pub bytes: Range<usize>,
    /// The line of the first one, from 1.
    pub line: usize,
    /// Its column in characters, from 1.
    pub column: usize,
}

/// Where the values of a document stand, by JSON pointer.
///
/// A block scalar's place is the text below its header, a block list's begins at
/// its first item. What an alias or a merge key brings in has no place of its
/// own; the alias has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans {
    pub(super) places: BTreeMap<String, Place>,
    /// The scalars in brackets or braces.
    pub(super) in_flow: BTreeSet<String>,
}

impl Spans {
    /// The place of the value a JSON pointer names.
    pub fn get(&self, pointer: &str) -> Option<&Place> {
        self.places.get(pointer)
    }

    /// Whether the value a JSON pointer names stands in brackets or braces, as in `{a: 1}`.
    pub fn is_in_flow(&self, pointer: &str) -> bool {
        self.in_flow.contains(pointer)
    }

    /// All pointers and places, in byte order of the pointers.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Place)> {
        self.places
            .iter()
            .map(|(pointer, place)| (pointer.as_str(), place))
    }
}
