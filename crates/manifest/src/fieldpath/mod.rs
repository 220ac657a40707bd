//! Sets of field paths, for ownership.
//!
//! A [`Set`] names fields of an object; managers' sets are stored in `metadata.managedFields` as `FieldsV1`.
//! List items are named by keys or value, never by position, so a set survives reordering. Equality and order
//! of values in path elements follow structured-merge-diff v6: `1` equals `1.0`.
//!
//! This module knows no schema: [`typed`](crate::typed) derives the elements of a value.

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

/// Metadata that the API server writes itself. It never records an owner of it.
pub const UNOWNED_METADATA: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];
