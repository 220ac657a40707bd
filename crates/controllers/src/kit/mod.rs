//! What every controller needs and none should write again: a queue of keys, stores that
//! follow the API server, the watch hub over managed objects, events, Leases.
//!
//! The rule of this module: no worker waits. A controller that has to wait for something
//! says so in its [`Outcome`](queue::Outcome) and ends; whatever it waits for wakes its key
//! again. All waiting goes through tokio's clock and all jitter through [`backoff::Jitter`],
//! so that a test with a paused clock and a seed repeats itself.
//!
//! | module | gives | refuses |
//! |---|---|---|
//! | [`wake`] | the reasons to run a key | free text |
//! | [`queue`] | one run per key at a time, backoff, requeues | to hold a worker while waiting |
//! | [`feed`] | list and watch of one collection, whatever happens to it | to interpret objects |
//! | [`mirror`] | our own resources, typed, with what changed in them | kinds that are not ours |
//! | [`hub`] | what is observed of managed objects, and who must look | to keep objects |
//! | [`events`] | Kubernetes Events, aggregated and bounded | to block or fail a run |
//! | [`notify`] | events posted to a receiver, in Flux's form | to wait for who does not answer |
//! | `read` | one object by its name | to say what is wrong with an answer |
//! | [`lease`] | one of several processes that works | to let two work at once |

pub mod about;
pub mod backoff;
pub mod controller;
pub mod events;
pub mod feed;
pub mod inputs;
pub mod lease;
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
