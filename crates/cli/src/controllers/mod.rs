//! `equate controllers`: reconciles sources and Kustomizations of a cluster, in place of Flux's
//! controllers.
//!
//! Its flags are Flux's, by name and meaning. One that only steers how Flux does its work is taken and
//! said to mean nothing; one that would change what is done, and is not carried out here, is refused by
//! name, as is an unknown one: a restriction of tenants that is passed over in silence is none.
//!
//! | file | what |
//! |---|---|
//! | `flags` | the flags that mean something |
//! | `ignored_flux_flags` | the flags of Flux that mean nothing here, or are not carried out, and why |
//! | `gates` | feature gates |
//! | `value` | how Go writes addresses and booleans |
//! | `log` | log lines in the shape of Flux's |
//! | `metrics` | what is measured, under Flux's names |
//! | `probe` | health and metrics over HTTP |
//! | `run` | the process: client, Leases, engine, listeners, end |

pub(crate) mod flags;
mod gates;
mod ignored_flux_flags;
pub(crate) mod log;
mod metrics;
mod probe;
mod run;
mod value;

pub(crate) use flags::Args;
pub(crate) use run::run;
pub(crate) use value::boolean;
