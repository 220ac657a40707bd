//! One folder per controller, and the kit they share.
//!
//! A controller is four verbs over plain values (`observe`, `decide`, `act`, `report`);
//! everything that waits, watches or retries is in [`kit`].

pub mod artifact_generator;
mod artifact_servers;
pub mod bucket;
pub mod cel;
pub mod chart_fetch;
pub mod corrections;
pub mod dependencies;
pub mod engine;
pub mod git_repository;
pub mod helm_chart;
pub mod helm_release;
pub mod helm_repository;
mod key;
pub mod kit;
pub mod kustomization;
pub(crate) mod masks;
mod object_ref;
pub(crate) mod object_rules;
pub mod oci_repository;
mod own_loop;
mod owner_kinds;
pub mod ownership;
pub mod policy;
pub mod set;
pub mod shards;
pub(crate) mod sources;
pub(crate) mod targets;

pub use engine::{Engine, Stats};
pub use equate_bucket::AwsEnvironment;
pub use key::Key;
pub use kit::services::CommitWait;
pub use kustomization::inputs::vault_transit::TransitSettings;
pub use object_ref::ObjectRef;
pub use own_loop::OwnLoop;
pub use policy::Policy;
pub use set::{ControllerSet, all};
pub use shards::Shards;
pub use sources::charts::HelmSettings;
pub use targets::client::{AnswerError, AnswerLimits, LimitLayer, Limited, LimitedBody};
pub use targets::kubeconfig::{KubeConfigError, open_kubeconfig};
