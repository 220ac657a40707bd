//! The custom resource types and their definitions.
//!
//! Flux's fifteen kinds, group by group, as Rust types: what Equate reads from a
//! cluster and writes to its status. The CRDs are generated from the types (`cargo
//! xtask gen`), committed in `crds/`, and held against Flux's own field by field.
//!
//! No behaviour lives here, no client and no clock: what a field means is for the
//! controllers, which read these types at their edge and turn them into their own.

#[macro_use]
mod enumeration;
pub mod definitions;
pub mod extensions;
pub mod helm;
pub mod image;
pub mod kustomize;
pub mod meta;
pub mod notification;
mod schema;
pub mod source;

pub use definitions::{Definition, definitions};
