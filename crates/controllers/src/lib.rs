//! One module per controller, and the runtime they share.
//!
//! A controller is four verbs over plain values (`observe`, `decide`, `act`, `report`);
//! everything that waits, watches or retries is in [`runtime`].

mod artifacts;
pub mod engine;
pub mod expression;
pub mod git_repository;
mod key;
pub mod kustomization;
pub mod policy;
mod published;
pub mod runtime;
pub mod shards;

pub use engine::{Engine, OwnLoop, Stats};
pub use key::Key;
pub use kustomization::inputs::vault_transit::TransitSettings;
pub use policy::Policy;
pub use shards::Shards;
