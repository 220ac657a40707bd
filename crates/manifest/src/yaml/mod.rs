//! YAML in and out, as Kubernetes reads and writes it.
//!
//! [`load`] is a loader over granit-parser's events (with a short cut for what
//! most manifests are), [`to_string`] an emitter
//! whose output equals `sigs.k8s.io/yaml`'s byte for byte. Two dialects exist
//! because the tools disagree: the API server, kubectl, Helm and Flux resolve
//! plain scalars by go-yaml v2's rules ([`Dialect::Yaml11`]: `yes` is a boolean,
//! `0644` is 420), kustomize by v3's ([`Dialect::Yaml12`]: `yes` is a string).
//!
//! Refused: repeated keys (unless asked to collect them), tabs as indentation,
//! infinities and NaN, keys that are collections or null, anchors that contain
//! themselves, and input beyond the limits in [`Options`]. Comments are not kept.

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

pub use emit::{natural_order, to_string};
pub use error::{Fault, YamlError};
pub use load::{Document, Duplicate, Duplicates, Folded, Options, load, load_first};
pub use place::{Place, Spans};
pub use plain::{Keep, Part, parts, skim};
pub use resolve::{Dialect, scalar};
pub use rewrite::rewrite;
