//! All that controllers have in common, so that a new kind is four verbs and nothing else.
//!
//! No worker waits: a controller that needs something which another object does says so in its
//! [`Report`] and ends; the change wakes its object again. All waiting goes through tokio's clock and all
//! jitter through [`backoff::Jitter`], so that a test with a paused clock and a seed repeats itself.
//!
//! | module | gives | refuses |
//! |---|---|---|
//! | [`controller`] | the trait: observe, decide, act, report | verbs that wait |
//! | [`about`] | a controller as data, for CLI, metrics, Leases | code of other crates that knows a kind |
//! | [`services`] | what the controllers of a process share | to know a controller |
//! | [`runner`] | what every kind has: finalizer, suspend, interval, requests, retries | two runs of one object at once |
//! | [`reconciliation`] | one object in a run; the only writer of its status and events | a status that says nothing new |
//! | [`queue`], [`waker`], [`wake`] | one queue for each kind, fair among namespaces; wakes by object; the reasons | to hold a worker while waiting |
//! | [`feed`] | list and watch of one collection, whatever happens to it | to interpret objects |
//! | [`mirror`] | our own resources, typed, with what changed in them | kinds that are not ours |
//! | [`watcher`] | what is observed of managed objects, per kind of owner | to keep objects |
//! | [`inputs`] | which ConfigMaps and Secrets changed, of those that ask to be watched | their content |
//! | [`events`], [`notify`] | Kubernetes Events, aggregated and bounded; the same posted to a receiver | to block or fail a run |
//! | `owner_rules` | health and drift in the words of each kind of owner | rules of its own |
//! | `read` | one object by its name | the text of an answer that may quote a Secret |
//! | [`listed`] | an object of any kind, for lists | to change it |
//! | [`lease`] | one of several processes that works | to let two work at once |

pub mod about;
pub mod backoff;
pub mod controller;
pub mod events;
pub mod feed;
pub mod inputs;
pub mod lease;
pub mod listed;
pub mod mirror;
pub mod notify;
mod owner_rules;
pub mod queue;
pub(crate) mod read;
pub mod reconciliation;
pub mod runner;
pub mod services;
mod versioned_store;
pub mod wake;
pub mod waker;
pub mod watcher;

pub use about::{About, Column, Concurrency};
pub use controller::{
    Absence, Acted, Controller, Failure, Next, Notice, Reconcilable, Report, Retry, StandardConditions,
    Status, StatusOf,
};
pub use events::Severity;
pub use listed::Listed;
pub use reconciliation::{Reconciliation, Stop};
pub use services::Kit;
