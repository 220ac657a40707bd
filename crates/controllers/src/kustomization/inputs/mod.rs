//! What a build reads: the artifact of the source, variables, keys.

pub mod artifact;
pub mod decryption;
pub mod masks;
pub mod substitute_from;
pub mod tree;
pub mod vault_transit;
