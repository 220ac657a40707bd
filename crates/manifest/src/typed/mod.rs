//! Values with a merge schema.
//!
//! A [`Type`] has the operations of structured merge: validate a value, list its field paths, compare it with
//! another, merge another into it, remove a set of paths. The rules are those of structured-merge-diff v6
//! (`typed/`), odd ones included: an explicit null is a value, a list item is named by its keys after
//! defaulting, and atomic maps and lists are leaves.
//!
//! Defaulting, pruning and conversion belong to [`schema`](crate::schema).

mod compare;
mod ensure;
mod error;
mod field_set;
mod from_openapi;
mod item;
mod merge;
mod reconcile;
mod remove;
pub mod schema;
mod schema_json;
mod validate;

#[cfg(test)]
mod tests;

pub use compare::Comparison;
pub use error::{Error, Errors};
pub use from_openapi::{custom_resource, from_openapi};
pub use schema_json::from_json;
pub use validate::Duplicates;

use schema::{AtomId, Schema};
use std::sync::Arc;

/// A type of a merge schema. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Type {
    pub(crate) schema: Arc<Schema>,
    pub(crate) root: AtomId,
}

impl Type {
    /// The type that follows the value: maps merge, lists are atomic.
    pub fn deduced() -> Self {
        let schema = Schema::default();
        Self {
            root: schema.deduced(),
            schema: Arc::new(schema),
        }
    }
}
