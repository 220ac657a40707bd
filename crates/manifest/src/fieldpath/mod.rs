//! Sets of field paths: who owns what, as data.
//!
//! A [`Set`] says which fields of an object it holds; managers' sets are
//! stored in `metadata.managedFields` as `FieldsV1`. List items are named by
//! their keys or their value, never by their position, so that a set survives
//! reordering. Equality and order of the values inside path elements are
//! those of structured-merge-diff v6: `1` and `1.0` are the same value.
//!
//! This module knows no schema: which elements a value has is
//! [`typed`](crate::typed)'s question.

mod element;
mod order;
mod path;
mod set;
mod wire;

#[cfg(test)]
mod tests;

pub use element::{KeyField, ParseElementError, PathElement};
pub use order::{compare, equal};
pub use path::Path;
pub use set::Set;
