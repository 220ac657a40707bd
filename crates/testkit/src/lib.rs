//! Clusters and fixtures for tests: the embedded API and a real Kubernetes control plane, by name.
//!
//! The judge of the embedded API is the real one, so this crate owns how the real one is
//! obtained ([`peers`]), started and ended ([`real`]). It is a dev-dependency: nothing of
//! the product may use it, and it refuses to fetch anything but through the package
//! registries' own clients (`go`, `pip`).

pub mod cluster;
pub mod eventually;
pub mod faults;
pub mod git;
pub mod peers;
pub mod real;
pub mod replay;
pub mod wire;

/// The embedded API itself, for clusters of another make than those by name.
pub use equate_apiserver as apiserver;
