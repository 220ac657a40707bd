//! Chart repositories and OCI registries.
//!
//! Pure: callers fetch.

pub mod catalog;
pub mod index;
mod json;
mod layout;
pub mod oci;
#[cfg(test)]
mod tests;
