//! Controllers over the store's events.
//!
//! | module | task |
//! |---|---|
//! | `garbage` | deletes dependents without owners; foreground and orphan deletion |
//! | `namespaces` | empties and removes deleted namespaces |
//! | `namespace_defaults` | keeps the ServiceAccount and the root CA of every namespace |
//! | `definitions` | establishes CRDs, and empties deleted ones |
//! | `own_service` | keeps the Service `kubernetes` |
//! | `roles` | fills in aggregated ClusterRoles |
//! | `quotas` | keeps the status of ResourceQuotas |
//! | `expiry` | deletes Events an hour after their last write |
//! | `workloads` | simulates workload controllers, scheduler and kubelet; off by default |
//!
//! Each has a synchronous core: it observes events, and decides `Step`s from a snapshot. One task drives
//! all of them (`run`). They write as clients do, through `Cluster::perform`. Their only state is an index
//! that a snapshot rebuilds.

mod definitions;
mod expiry;
mod garbage;
mod namespace_defaults;
mod namespaces;
mod object;
mod own_service;
mod quotas;
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
pub use workloads::Simulation;
pub(crate) use workloads::{NODE, allow, log, schedule};

/// The controllers to run, and their delays.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Empties and removes deleted namespaces. When off, they stay `Terminating`.
    pub namespaces: bool,
    /// Keeps a `default` ServiceAccount in each namespace.
    pub service_accounts: bool,
    /// Deletes dependents without owners. When off, foreground and orphan deletions never end.
    pub garbage_collector: bool,
    /// Keeps the ConfigMap `kube-root-ca.crt` in each namespace.
    pub root_ca: bool,
    /// Fills in aggregated ClusterRoles. When off, their rules stay as written.
    pub cluster_roles: bool,
    /// Measures ResourceQuotas. When off, a quota refuses whatever it limits, as its status is unknown.
    pub quotas: bool,
    /// The delay between a namespace's deletion and the first pass. Upstream waits five seconds, so that
    /// writers on other API servers have seen the deletion.
    pub namespace_delay: Duration,
    /// How long an Event is kept after its last write.
    pub event_ttl: Duration,
    /// Simulates workloads and their pods on one node. When off, they are only stored.
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
            quotas: true,
            namespace_delay: Duration::from_secs(5),
            event_ttl: Duration::from_hours(1),
            workloads: None,
        }
    }
}

impl Profile {
    /// The controllers that run beside the real server in comparisons: namespace, ServiceAccount, garbage
    /// collector and root CA publisher.
    pub fn differential() -> Self {
        Self {
            cluster_roles: false,
            quotas: false,
            ..Self::default()
        }
    }
}

pub(crate) trait Cluster: Send + Sync + 'static {
    fn store(&self) -> &Store;

    fn served(&self, snapshot: &Snapshot, api_version: &str, kind: &str) -> Option<Served>;

    fn now(&self) -> Timestamp;

    /// Writes like a client: with defaults, field managers, validation, finalizers.
    fn perform(&self, action: Action) -> impl Future<Output = Result<(), ApiError>> + Send;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) resource: ResourceId,
    pub(crate) namespaced: bool,
}

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
    /// The scheduler's POST of `binding`.
    Bind {
        key: Key,
        uid: String,
        node: &'static str,
    },
    /// DELETE without a grace period.
    Kill { key: Key, uid: String },
    /// DELETE with preconditions.
    Delete {
        key: Key,
        uid: String,
        revision: Option<u64>,
        propagation: Propagation,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// Writes made in order, and the object to decide again if one fails.
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

/// The inputs of a decision.
struct Seen<'a> {
    snapshot: &'a Snapshot,
    /// For deadlines.
    at: Instant,
    now: Timestamp,
    served: &'a dyn Fn(&str, &str) -> Option<Served>,
}

/// A controller's core. No I/O, no waiting.
trait Controller: Send {
    fn name(&self) -> &'static str;

    /// Discards all state and starts from a snapshot.
    fn resync(&mut self, snapshot: &Snapshot, at: Instant, now: Timestamp);

    fn observe(&mut self, event: &Event, at: Instant);

    fn again(&mut self, about: Key);

    /// Reports a refused write about an object, before the call of `again`.
    fn refused(&mut self, _about: &Key, _error: &ApiError) {}

    /// The steps to take now. They count as done unless `again` names their object.
    fn decide(&mut self, seen: &Seen<'_>) -> Vec<Step>;

    /// When to decide next if nothing changes.
    fn due(&self) -> Option<Instant> {
        None
    }
}
