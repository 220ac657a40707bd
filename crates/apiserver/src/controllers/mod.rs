//! What must happen after a write: controllers over the store's events.
//!
//! | module | what it does |
//! |---|---|
//! | `garbage` | deletes what lost its owners; foreground and orphan deletion |
//! | `namespaces` | empties a deleted namespace and lets it go |
//! | `furnish` | keeps what every namespace has: a ServiceAccount and the root CA |
//! | `definitions` | establishes CRDs, and empties deleted ones |
//! | `roles` | fills in ClusterRoles that gather others |
//! | `expiry` | drops Events an hour after they were last written |
//! | `workloads` | plays the controllers, scheduler and kubelet of workloads; off unless asked for |
//!
//! Each is a synchronous core: it is shown events, and decides `Step`s from
//! a snapshot. One task shows and acts for all of them (`run`). They write as
//! any client does, through `Cluster::perform`, and keep no truth of their
//! own: what they remember is an index that a snapshot rebuilds.
//!
mod definitions;
mod expiry;
mod furnish;
mod garbage;
mod namespaces;
mod object;
mod roles;
mod run;
#[cfg(test)]
mod tests;
mod workloads;

use crate::status::ApiError;
use crate::store::{Event, Key, ResourceId, Snapshot, Store};
use jiff::Timestamp;
use serde_json::Value;
use std::future::Future;
use tokio::time::{Duration, Instant};

pub(crate) use run::start;
pub(crate) use workloads::NODE;
pub use workloads::Simulation;

/// Which controllers run, and their times.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Empties deleted namespaces. Without it they stay `Terminating`.
    pub namespaces: bool,
    /// Keeps a `default` ServiceAccount in each namespace.
    pub service_accounts: bool,
    /// Deletes what lost its owners. Without it foreground and orphan deletions wait for ever.
    pub garbage_collector: bool,
    /// Keeps the ConfigMap `kube-root-ca.crt` in each namespace.
    pub root_ca: bool,
    /// Fills in ClusterRoles that gather others. Without it their rules stay as written.
    pub cluster_roles: bool,
    /// How long after its deletion a namespace is first emptied. Upstream waits five seconds,
    /// so that writers on other API servers have seen that it is terminating.
    pub namespace_delay: Duration,
    /// How long an Event is kept after it was last written.
    pub event_ttl: Duration,
    /// Plays Deployments, StatefulSets, DaemonSets, Jobs and Pods on one node that does not exist.
    /// Without it they are stored as declared and their status stays as written.
    pub workloads: Option<Simulation>,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            namespaces: true,
            service_accounts: true,
            garbage_collector: true,
            root_ca: true,
            cluster_roles: true,
            namespace_delay: Duration::from_secs(5),
            event_ttl: Duration::from_hours(1),
            workloads: None,
        }
    }
}

impl Profile {
    /// The controllers that run beside the real server when the two are compared: namespace,
    /// serviceaccount, garbage collector and root CA publisher.
    pub fn differential() -> Self {
        Self {
            cluster_roles: false,
            ..Self::default()
        }
    }
}

/// The cluster as controllers see it: its state, its kinds, and the way to write.
pub(crate) trait Cluster: Send + Sync + 'static {
    /// The state.
    fn store(&self) -> &Store;

    /// The resource that serves a kind at the time of a snapshot.
    fn served(&self, snapshot: &Snapshot, api_version: &str, kind: &str) -> Option<Served>;

    /// The time that objects carry.
    fn now(&self) -> Timestamp;

    /// Writes as a client would: defaults, field managers, validation, finalizers.
    fn perform(&self, action: Action) -> impl Future<Output = Result<(), ApiError>> + Send;
}

/// Where a kind is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) resource: ResourceId,
    pub(crate) namespaced: bool,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// POST.
    Create {
        key: Key,
        object: Value,
        manager: &'static str,
    },
    /// PATCH with a JSON merge patch; `uid` and `resourceVersion` in it are preconditions.
    Merge {
        key: Key,
        /// `status`, `finalize`, or empty for the object itself.
        endpoint: &'static str,
        patch: Value,
        manager: &'static str,
    },
    /// Server-side apply with `force`.
    Apply {
        key: Key,
        object: Value,
        manager: &'static str,
    },
    /// DELETE of what has nothing to wind down: no grace period.
    Kill { key: Key, uid: String },
    /// DELETE with preconditions.
    Delete {
        key: Key,
        uid: String,
        revision: Option<u64>,
        propagation: Propagation,
    },
}

/// What a deletion means for dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    /// As DeleteOptions have it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// Writes that are made in order, and what to look at again should one fail.
#[derive(Debug, Clone, PartialEq)]
struct Step {
    about: Key,
    actions: Vec<Action>,
}

impl Step {
    fn one(about: Key, action: Action) -> Self {
        Self {
            about,
            actions: vec![action],
        }
    }
}

/// What a decision is made from.
struct Seen<'a> {
    snapshot: &'a Snapshot,
    /// For deadlines.
    at: Instant,
    /// For objects.
    now: Timestamp,
    served: &'a dyn Fn(&str, &str) -> Option<Served>,
}

/// A controller's core. No I/O, no waiting.
trait Controller: Send {
    /// For logs.
    fn name(&self) -> &'static str;

    /// Forgets everything and starts from a snapshot.
    fn resync(&mut self, snapshot: &Snapshot, at: Instant, now: Timestamp);

    /// Takes note of a change.
    fn observe(&mut self, event: &Event, at: Instant);

    /// Looks at an object again.
    fn again(&mut self, about: Key);

    /// Learns why a write about an object was refused, before `again` names it.
    fn refused(&mut self, _about: &Key, _error: &ApiError) {}

    /// What to do now. What it returns counts as done unless `again` names it.
    fn decide(&mut self, seen: &Seen<'_>) -> Vec<Step>;

    /// When to decide next if nothing changes.
    fn due(&self) -> Option<Instant> {
        None
    }
}
