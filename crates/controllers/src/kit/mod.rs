//! The common parts of all controllers, so that a new kind is four verbs.
//!
//! No worker waits. A controller that needs the work of another object says so in its [`Report`] and
//! ends; a change wakes its object again. All waits use tokio's clock and all jitter
//! [`backoff::Jitter`], so that a test with a paused clock and a seed repeats itself.
//!
//! | module | gives |
//! |---|---|
//! | [`controller`] | the trait: observe, decide, act, report |
//! | [`about`] | a controller as data, for CLI, metrics, Leases |
//! | [`services`] | the shared services of a process |
//! | [`runner`] | finalizer, suspend, interval, requests, retries of every kind |
//! | [`reconciliation`] | one object in a run; the only writer of its status and events |
//! | [`queue`], [`waker`], [`wake`] | one queue for each kind, fair among tenants; wakes by object; the reasons |
//! | [`tenants`], [`processors`] | the tenants of namespaces; processors, shared by tenants |
//! | [`feed`] | list and watch of one collection |
//! | [`mirror`] | Equate's own resources, typed, with their changes |
//! | [`watcher`] | observations of managed objects, per kind of owner |
//! | [`inputs`] | changes of labelled ConfigMaps and Secrets |
//! | [`events`], [`notify`] | Kubernetes Events, aggregated and bounded; the same posted to a receiver |
//! | `yielding` | runs of busy tenants let those of others go first |
//! | `owner_rules` | health and drift rules of each kind of owner |
//! | `read` | one object by its name |
//! | [`listed`] | an object of any kind, for lists |
//! | [`missing_kinds`] | kinds without a definition, by owner |
//! | [`request_turns`] | turns of tenants at the API server |
//! | [`lease`] | leader election |

pub mod about;
pub mod backoff;
pub(crate) mod callbacks;
pub mod controller;
pub mod events;
pub mod feed;
pub mod inputs;
pub mod lease;
pub mod listed;
pub mod mirror;
pub mod missing_kinds;
pub mod notify;
mod owner_rules;
pub mod processors;
pub mod queue;
pub(crate) mod read;
pub mod reconciliation;
pub mod request_turns;
pub mod runner;
pub mod services;
pub(crate) mod sessions;
pub(crate) mod shrink;
pub mod tenants;
pub(crate) mod time_limit;
mod versioned_store;
pub mod wake;
pub mod waker;
pub mod watcher;
pub(crate) mod yielding;

pub use about::{About, Column, Concurrency};
pub use controller::{
    Absence, Acted, Controller, Failure, Next, Notice, Reconcilable, Report, Retry, StandardConditions,
    Status, StatusOf,
};
pub use events::Severity;
pub use listed::Listed;
pub use missing_kinds::MissingKinds;
pub use reconciliation::{Reconciliation, Stop};
pub use services::Kit;
