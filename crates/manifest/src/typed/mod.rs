//! Values seen through a merge schema.
//!
//! A [`Type`] answers what structured merge asks of a value: is it valid, which
//! field paths does it have, how does it differ from another, what is it
//! merged with another, what is left of it without a set of paths. The rules
//! are those of structured-merge-diff v6 (`typed/`), including those that look
//! odd: an explicit null is a value, a list item is named by its keys after
//! their defaults, and atomic maps and lists are leaves.
//!
//! It refuses to default, prune or convert: an object's normal form is
//! [`schema`](crate::schema)'s business.

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

/// A type of a merge schema: what values are read as. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Type {
    pub(crate) schema: Arc<Schema>,
    pub(crate) root: AtomId,
}

impl Type {
    /// The type that learns everything from the value: maps merge, lists are atomic.
    pub fn deduced() -> Self {
        let schema = Schema::default();
        Self {
            root: schema.deduced(),
            schema: Arc::new(schema),
        }
    }
}
