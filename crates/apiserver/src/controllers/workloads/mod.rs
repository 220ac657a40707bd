//! Simulated workloads: their controllers, the scheduler and the kubelet.
//!
//! Pods become ready after a short delay, or fail if an annotation says so. Their owners follow the real controllers'
//! rules and use their messages.
//!
//! | module | simulates |
//! |---|---|
//! | `deployment`, `replica_set` | rollouts, history, scale, conditions |
//! | `stateful_set`, `daemon_set`, `revision` | ordered and per-node pods, their revisions |
//! | `job`, `job_policy`, `cron_job`, `schedule` | runs to completion or failure, at set times |
//! | `pod`, `behaviour` | the scheduler and the kubelet: a pod's status, and its declared behaviour |
//! | `budget`, `autoscaler` | disruption budgets and autoscalers |
//! | `endpoints`, `network` | endpoints of Services, balancer addresses |
//! | `claim`, `volume`, `bindings`, `node` | bound claims and volumes, the one node |
//!
//! Nothing runs; resources, selectors and affinity of pods are ignored. Owners find their pods by the controller
//! reference. They adopt and release pods by their selector, and Deployments ReplicaSets.
//!
//! An event marks its object, its owner and what selects it, and only marked objects are reconciled. An index over
//! owner uids finds children.

mod alarm;
mod autoscaler;
mod behaviour;
mod bindings;
mod budget;
mod claim;
mod command;
mod context;
mod cron_job;
mod daemon_set;
mod deployment;
mod endpoints;
mod job;
mod job_policy;
mod network;
mod node;
mod pod;
mod replica_set;
mod revision;
mod rollout;
mod schedule;
mod selection;
mod stateful_set;
#[cfg(test)]
mod tests;
mod volume;

use super::object::{deleting, owner_references, text, uid};
use super::{Controller, Seen, Step};
use crate::builtin::tree as builtin;
use crate::status::ApiError;
use crate::store::{Event, EventKind, Key, ResourceId, Snapshot};
use alarm::Alarms;
use bindings::Bindings;
use context::{Context, EventLimit};
use jiff::Timestamp;
use selection::Selections;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use tokio::time::{Duration, Instant};

pub(crate) use behaviour::log;
pub(crate) use budget::allow;
pub(crate) use pod::schedule;

pub(crate) const NODE: &str = "equate-0";

/// The steps of one round, so that other controllers get their turn.
const STEPS_MAX: usize = 256;
/// The reconciles of one round: most take no step.
const RECONCILES_MAX: usize = 1024;

/// The settings of simulated workloads.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// How long after its creation a pod is ready, or fails on request. 200 ms: long enough to be observed
    /// as a step, short enough for tests.
    pub ready_after: Duration,
    /// How long a pod that does not restart runs until it succeeds.
    pub runs_for: Duration,
}

impl Default for Simulation {
    fn default() -> Self {
        Self {
            ready_after: Duration::from_millis(200),
            runs_for: Duration::from_millis(200),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    Pod,
    Revision,
    Service,
    Ingress,
    Claim,
    Volume,
    Node,
    ReplicationController,
    CronJob,
    Budget,
    Autoscaler,
    Slice,
    Endpoints,
}

const KINDS: [(&str, &str, &str, Kind); 18] = [
    ("apps", "deployments", "Deployment", Kind::Deployment),
    ("apps", "replicasets", "ReplicaSet", Kind::ReplicaSet),
    ("apps", "statefulsets", "StatefulSet", Kind::StatefulSet),
    ("apps", "daemonsets", "DaemonSet", Kind::DaemonSet),
    ("batch", "jobs", "Job", Kind::Job),
    ("", "pods", "Pod", Kind::Pod),
    (
        "apps",
        "controllerrevisions",
        "ControllerRevision",
        Kind::Revision,
    ),
    ("", "services", "Service", Kind::Service),
    ("networking.k8s.io", "ingresses", "Ingress", Kind::Ingress),
    ("", "persistentvolumeclaims", "PersistentVolumeClaim", Kind::Claim),
    ("", "persistentvolumes", "PersistentVolume", Kind::Volume),
    ("", "nodes", "Node", Kind::Node),
    (
        "",
        "replicationcontrollers",
        "ReplicationController",
        Kind::ReplicationController,
    ),
    ("batch", "cronjobs", "CronJob", Kind::CronJob),
    (
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        Kind::Budget,
    ),
    (
        "autoscaling",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        Kind::Autoscaler,
    ),
    ("discovery.k8s.io", "endpointslices", "EndpointSlice", Kind::Slice),
    ("", "endpoints", "Endpoints", Kind::Endpoints),
];

impl Kind {
    fn of(resource: &ResourceId) -> Option<Self> {
        let found = KINDS
            .iter()
            .find(|k| k.1 == resource.plural() && k.0 == resource.group())?;
        Some(found.3)
    }

    fn resource(self) -> ResourceId {
        let (group, plural, ..) = KINDS[self as usize];
        ResourceId::new(group, plural)
    }
}

type Children = HashMap<String, BTreeSet<Key>>;

#[derive(Debug)]
pub(super) struct Workloads {
    simulation: Simulation,
    children: Children,
    alarms: Alarms,
    dirty: BTreeSet<Key>,
    refusals: HashMap<Key, String>,
    misdeclared: BTreeSet<Key>,
    selections: Selections,
    /// The selectors of all other owners of pods, to adopt orphans.
    adopters: Selections,
    /// The selectors of Deployments, to adopt orphans.
    set_adopters: Selections,
    /// Pods, ReplicaSets and ControllerRevisions without a controller.
    orphans: BTreeSet<Key>,
    /// The autoscalers of a scaled object.
    autoscalers: HashMap<Key, BTreeSet<Key>>,
    /// Pods without a node.
    unplaced: BTreeSet<Key>,
    bindings: Bindings,
    /// The time of the last round, if it left marked objects.
    unfinished: Option<Instant>,
    pod_events: EventLimit,
    /// Makes names of Events unique.
    events: u64,
}

impl Workloads {
    pub(super) fn new(simulation: Simulation) -> Self {
        Self {
            simulation,
            children: Children::default(),
            alarms: Alarms::default(),
            dirty: BTreeSet::new(),
            refusals: HashMap::new(),
            misdeclared: BTreeSet::new(),
            selections: Selections::default(),
            adopters: Selections::default(),
            set_adopters: Selections::default(),
            orphans: BTreeSet::new(),
            autoscalers: HashMap::new(),
            unplaced: BTreeSet::new(),
            bindings: Bindings::default(),
            unfinished: None,
            pod_events: EventLimit::default(),
            events: 0,
        }
    }

    fn changed(&mut self, key: &Key, kind: Kind, before: Option<&Value>, after: Option<&Value>) {
        let old = before.and_then(controller);
        let new = after.and_then(controller);
        let owner = |r: &Value| text(r, "uid").to_owned();
        if old.map(owner) != new.map(owner) {
            if let Some(uid) = old.map(owner)
                && let Some(set) = self.children.get_mut(&uid)
            {
                set.remove(key);
                if set.is_empty() {
                    self.children.remove(&uid);
                }
            }
            if let Some(reference) = new {
                let set = self.children.entry(owner(reference)).or_default();
                set.insert(key.clone());
            }
        }
        for reference in [old, new].into_iter().flatten() {
            self.dirty.extend(owner_key(reference, &key.namespace));
        }
        self.related(key, kind, before, after);
        match after {
            Some(object) => {
                self.dirty.insert(key.clone());
                let declared =
                    before.map(behaviour::declared).unwrap_or_default() != behaviour::declared(object);
                if declared && new.is_none() && behaviour::unknown(object).is_some() {
                    self.misdeclared.insert(key.clone());
                }
                // An owner's annotation applies to its pods, which do not change with it.
                if declared && let Some(children) = self.children.get(uid(object)) {
                    self.dirty.extend(children.iter().cloned());
                }
            }
            None => self.gone(key, kind, before),
        }
    }

    /// Marks objects that refer to the changed one without owning it.
    fn related(&mut self, key: &Key, kind: Kind, before: Option<&Value>, after: Option<&Value>) {
        match kind {
            Kind::Pod => {
                self.dirty.extend(self.bindings.pod_changed(key, before, after));
                let old = before.map(|pod| &pod["metadata"]["labels"]);
                let new = after.map(|pod| &pod["metadata"]["labels"]);
                self.dirty.extend(self.selections.pod_changed(key, old, new));
                if after.is_some_and(|pod| controller(pod).is_none() && context::is_active(pod)) {
                    self.orphans.insert(key.clone());
                    self.dirty.extend(self.adopters.selecting(&key.namespace, new));
                } else {
                    self.orphans.remove(key);
                }
                // A set waits for a pod of its names, also one of another owner.
                if after.is_none() {
                    self.dirty.extend(stateful_set::parent(key));
                }
                let placed = after.is_none_or(|pod| !builtin::text(pod, "spec.nodeName").is_empty());
                if placed {
                    self.unplaced.remove(key);
                } else {
                    self.unplaced.insert(key.clone());
                }
            }
            Kind::Node => self.dirty.extend(self.unplaced.iter().cloned()),
            Kind::Service => self.selections.set(key, after.and_then(endpoints::selector)),
            Kind::Claim => {
                let names = [before, after].into_iter().flatten();
                let names = names.map(|claim| builtin::text(claim, "spec.volumeName"));
                let volumes = names.filter(|name| !name.is_empty());
                self.dirty
                    .extend(volumes.map(|name| Key::new(&Kind::Volume.resource(), "", name)));
                self.bindings.claim_changed(key, before, after);
            }
            Kind::Volume => self
                .dirty
                .extend(self.bindings.volume_changed(key, before, after)),
            Kind::Job | Kind::DaemonSet => self.adopters.set(key, after.map(replica_set::selector)),
            Kind::Revision if after.is_some_and(|revision| controller(revision).is_none()) => {
                self.orphans.insert(key.clone());
            }
            Kind::Revision => drop(self.orphans.remove(key)),
            Kind::Budget => {
                let selector = after.map(|budget| budget["spec"]["selector"].clone());
                self.selections.set(key, selector);
            }
            Kind::Endpoints => {
                let service = Key::new(&Kind::Service.resource(), &*key.namespace, &*key.name);
                self.dirty.insert(service);
            }
            Kind::Autoscaler => {
                for (object, present) in [(before, false), (after, true)] {
                    let Some(target) = object.and_then(|o| autoscaler::target(key, o)) else {
                        continue;
                    };
                    let known = self.autoscalers.entry(target).or_default();
                    match present {
                        true => drop(known.insert(key.clone())),
                        false => drop(known.remove(key)),
                    }
                }
            }
            Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet | Kind::ReplicationController => {
                if kind != Kind::Deployment {
                    self.adopters.set(key, after.map(replica_set::selector));
                }
                if kind == Kind::Deployment {
                    self.set_adopters.set(key, after.map(replica_set::selector));
                }
                if kind == Kind::ReplicaSet && after.is_some_and(|set| controller(set).is_none()) {
                    self.orphans.insert(key.clone());
                    let labels = after.map(|set| &set["metadata"]["labels"]);
                    self.dirty
                        .extend(self.set_adopters.selecting(&key.namespace, labels));
                } else if kind == Kind::ReplicaSet {
                    self.orphans.remove(key);
                }
                let autoscalers = self.autoscalers.get(key).into_iter().flatten();
                self.dirty.extend(autoscalers.cloned());
            }
            _ => {}
        }
    }

    fn gone(&mut self, key: &Key, kind: Kind, before: Option<&Value>) {
        self.alarms.forget(key);
        self.refusals.remove(key);
        self.children.remove(before.map(uid).unwrap_or_default());
        // The node comes back, the endpoints of a Service go with it.
        if matches!(kind, Kind::Node | Kind::Service) {
            self.dirty.insert(key.clone());
        }
    }
}

fn controller(object: &Value) -> Option<&Value> {
    owner_references(object).iter().find(|r| r["controller"] == true)
}

fn owner_key(reference: &Value, namespace: &str) -> Option<Key> {
    let group = text(reference, "apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group);
    let kind = text(reference, "kind");
    let found = KINDS.iter().find(|k| k.2 == kind && k.0 == group)?;
    Some(Key::new(&found.3.resource(), namespace, text(reference, "name")))
}

impl Controller for Workloads {
    fn name(&self) -> &'static str {
        "simulated workloads"
    }

    fn resync(&mut self, snapshot: &Snapshot, _at: Instant, _now: Timestamp) {
        *self = Self {
            events: self.events,
            ..Self::new(self.simulation.clone())
        };
        for (.., kind) in KINDS {
            let resource = kind.resource();
            for (path, entry) in snapshot.list(&resource, None) {
                let key = Key::new(&resource, path.namespace(), path.name());
                self.changed(&key, kind, None, Some(&entry.view()));
            }
        }
        // Their owners were warned then.
        self.misdeclared.clear();
        self.dirty.insert(Key::new(&Kind::Node.resource(), "", NODE));
    }

    fn observe(&mut self, event: &Event, _at: Instant) {
        let Some(kind) = Kind::of(&event.key.resource) else {
            return;
        };
        let before = event.previous.as_ref().map(|entry| entry.view());
        let after = match event.kind {
            EventKind::Added | EventKind::Modified => Some(event.entry.view()),
            EventKind::Deleted => None,
        };
        self.changed(&event.key, kind, before.as_deref(), after.as_deref());
    }

    fn again(&mut self, about: Key) {
        self.dirty.insert(about);
    }

    fn refused(&mut self, about: &Key, error: &ApiError) {
        // A conflict only means that a newer version exists.
        if error.code != 409 {
            self.refusals.insert(about.clone(), error.to_string());
        }
    }

    fn decide(&mut self, seen: &Seen<'_>) -> Vec<Step> {
        self.dirty.extend(self.alarms.take_due(seen.at));
        let mut steps = Vec::new();
        let mut reconciles = 0;
        while steps.len() < STEPS_MAX
            && reconciles < RECONCILES_MAX
            && let Some(key) = self.dirty.pop_first()
        {
            reconciles += 1;
            let Some(kind) = Kind::of(&key.resource) else {
                continue;
            };
            let mut cx = Context {
                seen,
                key: &key,
                simulation: &self.simulation,
                children: &self.children,
                alarms: &mut self.alarms,
                refusals: &mut self.refusals,
                events: &mut self.events,
                pod_events: &mut self.pod_events,
                selections: &mut self.selections,
                bindings: &mut self.bindings,
                orphans: &self.orphans,
                steps: &mut steps,
            };
            let Some(entry) = seen.snapshot.get(&key) else {
                match kind {
                    Kind::Node => node::make(&mut cx),
                    Kind::Service => endpoints::remove(&mut cx),
                    _ => {}
                }
                continue;
            };
            let object = &*entry.view();
            if self.misdeclared.remove(&key) {
                behaviour::report_unknown(&mut cx, object);
            }
            match kind {
                Kind::Pod => pod::reconcile(&mut cx, object),
                Kind::Claim => claim::reconcile(&mut cx, object),
                Kind::Volume => volume::reconcile(&mut cx, object),
                // The garbage collector deletes their children.
                _ if deleting(object) => {}
                Kind::Deployment => deployment::reconcile(&mut cx, object),
                Kind::ReplicaSet => replica_set::reconcile(&mut cx, object, &replica_set::REPLICA_SET),
                Kind::ReplicationController => {
                    replica_set::reconcile(&mut cx, object, &replica_set::REPLICATION_CONTROLLER);
                }
                Kind::StatefulSet => stateful_set::reconcile(&mut cx, object),
                Kind::DaemonSet => daemon_set::reconcile(&mut cx, object),
                Kind::Job => job::reconcile(&mut cx, object),
                Kind::CronJob => cron_job::reconcile(&mut cx, object),
                Kind::Budget => budget::reconcile(&mut cx, object),
                Kind::Autoscaler => autoscaler::reconcile(&mut cx, object),
                Kind::Service => {
                    network::service(&mut cx, object);
                    endpoints::reconcile(&mut cx, object);
                }
                Kind::Ingress => network::ingress(&mut cx, object),
                Kind::Node => node::reconcile(&mut cx, object),
                Kind::Revision | Kind::Slice | Kind::Endpoints => {}
            }
        }
        self.bindings.end_round();
        self.unfinished = (!self.dirty.is_empty()).then_some(seen.at);
        steps
    }

    fn due(&self) -> Option<Instant> {
        self.unfinished.into_iter().chain(self.alarms.next()).min()
    }
}
