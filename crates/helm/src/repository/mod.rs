//! Where charts are offered: the index of a repository, and references to registries.
//!
//! Bytes and texts in, answers out: fetching is done elsewhere.

pub mod index;
mod layout;
pub mod oci;
#[cfg(test)]
mod tests;
