//! OpenAPI schemas as Kubernetes uses them.
//!
//! One node type, [`Schema`], serves the built-in definitions (from the generated table) and custom
//! resources (from a CRD's `openAPIV3Schema`). Decoding, merging, validation and the published documents
//! all walk the same tree.
//!
//! | item | purpose |
//! |---|---|
//! | [`kubernetes`], [`kubernetes_resources`] | the built-in definitions and resources |
//! | [`decode`] | the normal form: an object after Go's decoder and encoder |
//! | [`protobuf`] | the binary form of built-in objects |
//! | [`quantity`], [`time`] | scalar types with a canonical form of their own |

mod decode;
mod definitions;
mod node;
pub mod protobuf;
pub mod quantity;
pub mod time;

#[cfg(test)]
mod tests;

pub use decode::{DecodeError, Decoded, decode};
pub use definitions::{
    ApiResource, ApiSubresource, Definitions, kubernetes, kubernetes_descriptions, kubernetes_resources,
};
pub use node::{Additional, ListType, MapType, Omit, Schema, SchemaType, ValidationRule};
