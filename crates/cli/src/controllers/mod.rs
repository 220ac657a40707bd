//! `equate controllers`: reconciles a cluster's sources and Kustomizations in place of Flux's controllers.
//!
//! Its flags have Flux's names and meanings. A flag that only controls Flux's internals is accepted with a
//! warning. An unknown flag, or one that Equate does not implement, is refused: silently ignoring a
//! restriction of tenants would remove it.
//!
//! | file | content |
//! |---|---|
//! | `flags` | the flags that have an effect |
//! | `ignored_flux_flags` | Flux's flags that are ignored or refused, and why |
//! | `gates` | feature gates |
//! | `egress` | the addresses that may be dialled for tenants |
//! | `value` | Go's syntax of addresses and booleans |
//! | `log` | log lines in Flux's format |
//! | `metrics` | the metrics, under Flux's names |
//! | `probe` | health and metrics over HTTP |
//! | `run` | the process: client, Leases, engine, listeners, shutdown |

mod egress;
pub(crate) mod flags;
mod gates;
mod ignored_flux_flags;
pub(crate) mod log;
pub(crate) mod metrics;
mod probe;
mod run;
mod value;

pub(crate) use flags::Args;
pub(crate) use run::run;
pub(crate) use value::boolean;
