//! YAML as Kubernetes reads and writes it.
//!
//! [`load`] works on granit-parser's events, with a fast path for most manifests; [`to_string`] equals
//! `sigs.k8s.io/yaml` byte for byte. There are two dialects: the API server, kubectl, Helm and Flux resolve
//! plain scalars like go-yaml v2 ([`Dialect::Yaml11`]: `yes` is a boolean, `0644` is 420), kustomize like v3
//! ([`Dialect::Yaml12`]: `yes` is a string).
//!
//! Refused: repeated keys (unless collected), tabs as indentation, infinities and NaN, keys that are
//! collections or null, recursive anchors, and input beyond the limits in [`Options`]. Comments are dropped.

mod copies;
mod edit;
mod emit;
mod error;
mod fold;
mod libyaml;
mod load;
mod place;
mod plain;
mod resolve;
mod rewrite;

#[cfg(test)]
mod tests;

pub use edit::{EditError, Splice, append_item, apply, insert_after, remove, remove_item, set};
pub use emit::{natural_order, to_string, to_string_by_key};
pub use error::{Fault, YamlError};
pub use load::{Document, Duplicate, Duplicates, Folded, Options, Watch, load, load_first, load_watched};
pub use place::{Place, Spans};
pub use plain::{Keep, Part, parts, skim};
pub use resolve::{Dialect, scalar};
pub use rewrite::rewrite;
