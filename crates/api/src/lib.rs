//! The custom resource types and their definitions.
//!
//! Flux's fifteen kinds, group by group, as Rust types. The CRDs are generated from the types (`cargo xtask
//! gen`), committed in `crds/`, and compared with Flux's field by field.
//!
//! There is no behaviour here, no client and no clock. Controllers parse these types at their edge into
//! types of their own.

#[macro_use]
mod enumeration;
pub mod definitions;
pub mod extensions;
pub mod helm;
pub mod image;
pub mod kustomize;
pub mod meta;
pub mod notification;
pub mod schema;
pub mod source;

pub use definitions::{Definition, definitions};
