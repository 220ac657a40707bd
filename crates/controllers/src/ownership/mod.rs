//! Which Kustomization has which objects: what all of them want and hold, as values.

pub mod access_reviews;
pub mod claims;
pub mod desired;
pub mod graph;
pub(crate) mod other_shards;
pub(crate) mod retained;
pub(crate) mod survey;
