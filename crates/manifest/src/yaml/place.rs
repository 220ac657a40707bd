//! Places of values in a text.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A range of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The byte range.
    pub bytes: Range<usize>,
    /// The line of the first byte, from 1.
    pub line: usize,
    /// Its column in characters, from 1.
    pub column: usize,
}

/// The places of a document's values, by JSON pointer.
///
/// A block scalar's place is the text below its header; a block list's begins at its first item. Values from
/// an alias or merge key have no place; the alias has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans {
    pub(super) places: BTreeMap<String, Place>,
    /// The scalars in flow collections.
    pub(super) in_flow: BTreeSet<String>,
}

impl Spans {
    /// The place of the value at a JSON pointer.
    pub fn get(&self, pointer: &str) -> Option<&Place> {
        self.places.get(pointer)
    }

    /// Whether the value at a JSON pointer is in a flow collection, as in `{a: 1}`.
    pub fn is_in_flow(&self, pointer: &str) -> bool {
        self.in_flow.contains(pointer)
    }

    /// All pointers and places, sorted by pointer.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Place)> {
        self.places
            .iter()
            .map(|(pointer, place)| (pointer.as_str(), place))
    }
}
