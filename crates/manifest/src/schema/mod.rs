//! OpenAPI schemas as Kubernetes uses them.
//!
//! One node type, [`Schema`], serves the built-in definitions (from the
//! generated table) and custom resources (from a CRD's `openAPIV3Schema`), so
//! that decoding, strategic merge, structured merge, validation and the
//! published documents all walk the same tree.
//!
//! | item | what it answers |
//! |---|---|
//! | [`kubernetes`], [`kubernetes_resources`] | the built-in definitions and which resources have them |
//! | [`decode`] | an object in the form Go's decoder and encoder would give it |
//! | [`quantity`], [`time`] | the scalar types with a canonical form of their own |

mod decode;
mod definitions;
mod node;
pub mod quantity;
pub mod time;

#[cfg(test)]
mod tests;

pub use decode::{DecodeError, Decoded, decode};
pub use definitions::{ApiResource, ApiSubresource, Definitions, kubernetes, kubernetes_resources};
pub use node::{Additional, ListType, MapType, Omit, Schema, SchemaType, ValidationRule};
