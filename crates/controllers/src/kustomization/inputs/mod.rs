//! The inputs of a build: artifact, variables, keys.

pub mod artifact;
pub mod decryption;
pub mod substitute_from;
pub mod tree;
pub mod vault_transit;
