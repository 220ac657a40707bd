//! `equate controllers`: reconciles a cluster's sources and Kustomizations in place of Flux's controllers.
//!
//! Its flags have Flux's names and meanings. A flag that only controls Flux's internals is accepted with a
//! warning. An unknown flag, or one that Equate does not implement, is refused: silently ignoring a
//! restriction of tenants would remove it.

mod egress;
pub(crate) mod flags;
mod gates;
mod ignored_flux_flags;
pub(crate) mod log;
pub(crate) mod metrics;
mod probe;
mod run;
mod value;
mod vital;

pub(crate) use flags::Args;
pub(crate) use run::run;
pub(crate) use value::boolean;
