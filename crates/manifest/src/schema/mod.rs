//! OpenAPI schemas as Kubernetes uses them.
//!
//! One node type, [`Schema`], serves the built-in definitions (from the
//! generated table) and custom resources (from a CRD's `openAPIV3Schema`), so
//! that decoding, strategic merge, structured merge, validation and the
//! published documents all walk the same tree.

mod node;

pub use node::{Additional, ListType, MapType, Omit, Schema, SchemaType, ValidationRule};
