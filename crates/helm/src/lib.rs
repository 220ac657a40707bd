//! Helm charts, from the bytes of a chart to the objects and records of a release.
//!
//! The crate is pure: bytes, values and answers in, texts, objects and records out. It has no network, no
//! cluster and no clock. It only reads files of a chart directory that a caller names. Charts are
//! untrusted, so everything has a limit ([`Limits`]) and an error that names it.
//!
//! The reference is Helm 4.2: the same texts, order and errors. `docs/compatibility.d/helm.md` lists the
//! differences.
//!
//! | module | contents |
//! |---|---|
//! | [`capabilities`] | facts about the cluster |
//! | [`engine`] | template execution |
//! | [`cache`] | parsed charts |
//! | [`render`] | a chart and values in; objects, hooks and notes out |
//! | [`manifests`] | objects and hooks of rendered templates |
//! | [`hooks`] | hooks and their events |
//! | [`release`] | release records and state |
//! | [`repository`] | repository indexes and `oci://` references |
//! | [`package`] | packing of charts |
//! | [`listing`] | the output of `helm template` |
//! | [`load`] | loading from archives, directories and files |
//! | [`log`] | lines that Helm logs |
//! | [`dependencies`] | enabled subcharts and their exported values |
//! | [`values`] | reading, overriding and coalescing values |

pub mod cache;
pub mod capabilities;
pub mod chart;
pub mod dependencies;
pub mod engine;
mod file_match;
mod head;
pub mod hooks;
mod json_weight;
pub mod limits;
pub mod listing;
pub mod load;
pub mod log;
pub mod manifests;
pub mod metadata;
mod open;
pub mod order;
pub mod package;
pub mod provenance;
pub mod release;
pub mod render;
pub mod repository;
pub mod schema;
pub mod values;

pub use chart::{Chart, File, Values};
pub use limits::{LimitExceeded, Limits};
pub use load::LoadError;
pub use metadata::Metadata;
