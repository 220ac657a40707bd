//! Helm charts, from the bytes of a chart to the objects and records of a release.
//!
//! What is here is pure: bytes, values and answers in, texts, objects and records out. There is no
//! network, no cluster and no clock; the only files that are read are those of a chart directory a caller
//! names. Charts come from strangers, so everything has a limit ([`Limits`]) and ends in an error that names it.
//!
//! The judge is Helm 4.2: the same texts, the same order, the same refusals. What differs is listed in
//! `docs/compatibility.d/helm.md`.
//!
//! | module | what it answers |
//! |---|---|
//! | [`chart`] | what a chart is in memory |
//! | [`metadata`] | what `Chart.yaml` says |
//! | [`capabilities`] | what a chart may know of the cluster |
//! | [`engine`] | the texts of its templates |
//! | [`cache`] | templates that were read, kept |
//! | [`render`] | all of it: a chart and values in, objects, hooks and notes out |
//! | [`manifests`] | which objects and hooks rendered templates hold |
//! | [`order`] | in which order kinds are installed and uninstalled |
//! | [`hooks`] | what a hook is, and when it runs |
//! | [`release`] | what is on record of a release, and where it stands |
//! | [`provenance`] | whether a packed chart is what somebody signed |
//! | [`repository`] | what a repository's index offers, and what an `oci://` reference names |
//! | [`listing`] | what `helm template` prints and writes |
//! | [`limits`] | how much a stranger's chart may be |
//! | [`load`] | a chart out of an archive, a directory, files |
//! | [`dependencies`] | which subcharts take part, and what values they hand up |
//! | [`schema`] | whether values are what a chart wants |
//! | [`values`] | values read, overridden and put together with a chart's own |

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
pub mod manifests;
pub mod metadata;
mod open;
pub mod order;
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
