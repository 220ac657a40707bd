//! The deletion of namespaces.
//!
//! As upstream's namespace controller (1.36): pods go first and everything else waits for them; each pass
//! writes the five deletion conditions; the finalizer `kubernetes` is removed when nothing remains.
//! Upstream starts five seconds after the deletion, and so does this by default.

use super::object::{FOREGROUND, ORPHAN, deleting, finalizers, has_finalizer, meta, text, uid};
use super::{Action, Controller, Propagation, Seen, Step};
use crate::store::{Entry, Event, EventKind, Key, ResourceId, Snapshot};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::{Duration, Instant};

const MANAGER: &str = "kube-controller-manager";
const FINALIZER: &str = "kubernetes";

#[derive(Debug)]
pub(super) struct Namespaces {
    resource: ResourceId,
    pods: ResourceId,
    delay: Duration,
    /// Namespaces being deleted, and the time of the next pass unless something in them changes first.
    terminating: BTreeMap<String, Due>,
    dirty: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy)]
struct Due {
    first: Instant,
    next: Option<Instant>,
}

#[derive(Debug, Default)]
struct Remaining {
    objects: BTreeMap<ResourceId, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Namespaces {
    pub(super) fn new(delay: Duration) -> Self {
        Self {
            resource: ResourceId::new("", "namespaces"),
            pods: ResourceId::new("", "pods"),
            delay,
            terminating: BTreeMap::new(),
            dirty: BTreeSet::new(),
        }
    }

    fn seen(&mut self, name: &str, namespace: &Value, at: Instant) {
        if deleting(namespace) && !self.terminating.contains_key(name) {
            let first = at + self.delay;
            let due = Due {
                first,
                next: Some(first),
            };
            self.terminating.insert(name.to_owned(), due);
        }
    }

    fn key(&self, name: &str) -> Key {
        Key::new(&self.resource, "", name)
    }

    fn reconcile(&mut self, name: &str, seen: &Seen<'_>) -> Vec<Step> {
        let key = self.key(name);
        let Some(entry) = seen.snapshot.get(&key) else {
            return Vec::new();
        };
        let namespace = entry.object();
        let held = namespace["spec"]["finalizers"].as_array();
        if !deleting(namespace) || !held.into_iter().flatten().any(|f| f == FINALIZER) {
            return Vec::new();
        }
        let pods: Vec<_> = seen.snapshot.list(&self.pods, Some(name)).collect();
        let pods_first = !pods.is_empty();
        let resources = seen.snapshot.resources();
        let resources = resources.filter(|r| !pods_first || **r == self.pods);
        let mut steps = Vec::new();
        let mut remaining = Remaining::default();
        for resource in resources {
            for (path, entry) in seen.snapshot.list(resource, Some(name)) {
                remaining.add(resource, entry);
                let object = entry.object();
                let stuck = has_finalizer(object, FOREGROUND) || has_finalizer(object, ORPHAN);
                if deleting(object) && !stuck {
                    continue;
                }
                let action = Action::Delete {
                    key: Key::new(resource, name, path.name()),
                    uid: uid(object).to_owned(),
                    revision: None,
                    propagation: Propagation::Background,
                };
                steps.push(Step::one(key.clone(), action));
            }
        }
        if !steps.is_empty() {
            // The next pass reports the remaining objects. Their events trigger it; this does if there are
            // none.
            self.dirty.insert(name.to_owned());
            return steps;
        }
        let estimate = grace_left(&pods, namespace, seen);
        let conditions = if pods_first {
            // As upstream: while pods remain, only errors are reported.
            conditions(
                namespace,
                &Remaining::default(),
                overdue(name, &pods, estimate),
                seen,
            )
        } else {
            conditions(namespace, &remaining, None, seen)
        };
        let mut actions: Vec<Action> = conditions
            .into_iter()
            .map(|conditions| Action::Merge {
                key: key.clone(),
                endpoint: "status",
                patch: json!({ "status": { "phase": "Terminating", "conditions": conditions } }),
                manager: MANAGER,
            })
            .collect();
        if remaining.objects.is_empty() {
            let kept: Vec<&Value> = held.into_iter().flatten().filter(|f| **f != FINALIZER).collect();
            actions.push(Action::Merge {
                key: key.clone(),
                endpoint: "finalize",
                patch: json!({
                    "metadata": { "uid": uid(namespace) },
                    "spec": { "finalizers": kept },
                }),
                manager: MANAGER,
            });
        } else if let Some(due) = self.terminating.get_mut(name) {
            due.next = estimate.map(|left| seen.at + left);
        }
        if actions.is_empty() {
            Vec::new()
        } else {
            vec![Step { about: key, actions }]
        }
    }
}

impl Controller for Namespaces {
    fn name(&self) -> &'static str {
        "namespace"
    }

    fn resync(&mut self, snapshot: &Snapshot, at: Instant, _now: Timestamp) {
        self.terminating.clear();
        self.dirty.clear();
        let resource = self.resource.clone();
        for (path, entry) in snapshot.list(&resource, None) {
            self.seen(path.name(), &entry.view(), at);
        }
    }

    fn observe(&mut self, event: &Event, at: Instant) {
        let key = &event.key;
        if key.resource == self.resource {
            match event.kind {
                EventKind::Deleted => {
                    self.terminating.remove(&key.name);
                }
                EventKind::Added | EventKind::Modified => self.seen(&key.name, &event.entry.view(), at),
            }
        }
        let place = if key.namespace.is_empty() {
            &key.name
        } else {
            &key.namespace
        };
        let about_it = key.resource == self.resource || !key.namespace.is_empty();
        if about_it && self.terminating.get(place).is_some_and(|due| due.first <= at) {
            self.dirty.insert(place.clone());
        }
    }

    fn again(&mut self, about: Key) {
        self.dirty.insert(about.name);
    }

    fn decide(&mut self, seen: &Seen<'_>) -> Vec<Step> {
        for (name, due) in &mut self.terminating {
            if due.next.is_some_and(|next| next <= seen.at) {
                due.next = None;
                self.dirty.insert(name.clone());
            }
        }
        std::mem::take(&mut self.dirty)
            .into_iter()
            .flat_map(|name| self.reconcile(&name, seen))
            .collect()
    }

    fn due(&self) -> Option<Instant> {
        self.terminating.values().filter_map(|due| due.next).min()
    }
}

impl Remaining {
    fn add(&mut self, resource: &ResourceId, entry: &Arc<Entry>) {
        *self.objects.entry(resource.clone()).or_default() += 1;
        for finalizer in finalizers(entry.object()) {
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
}

type Listed<'a> = (&'a crate::store::ObjectPath, &'a Arc<Entry>);

/// The longest remaining grace period of the pods, counted from the namespace's deletion.
fn grace_left(pods: &[Listed<'_>], namespace: &Value, seen: &Seen<'_>) -> Option<Duration> {
    let running = pods
        .iter()
        .map(|(_, entry)| entry.object())
        .filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")));
    let grace = running
        .filter_map(|pod| pod["spec"]["terminationGracePeriodSeconds"].as_i64())
        .max()?;
    let deleted: Timestamp = meta(namespace, "deletionTimestamp").parse().ok()?;
    let left = deleted
        .checked_add(jiff::SignedDuration::from_secs(grace))
        .ok()?
        .duration_since(seen.now);
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

/// The error for pods that should be gone: their grace has ended, and no finalizer explains them.
fn overdue(name: &str, pods: &[Listed<'_>], grace_left: Option<Duration>) -> Option<String> {
    let explained = pods
        .iter()
        .any(|(_, entry)| finalizers(entry.object()).next().is_some());
    (grace_left.is_none() && !explained)
        .then(|| format!("unexpected items still remain in namespace: {name} for gvr: /v1, Resource=pods"))
}

fn conditions(
    namespace: &Value,
    remaining: &Remaining,
    failed: Option<String>,
    seen: &Seen<'_>,
) -> Option<Vec<Value>> {
    let content: Vec<String> = remaining
        .objects
        .iter()
        .map(|(r, n)| format!("{}.{} has {n} resource instances", r.plural(), r.group()))
        .collect();
    let waiting: Vec<String> = remaining
        .finalizers
        .iter()
        .map(|(f, n)| format!("{f} in {n} resource instances"))
        .collect();
    let wanted = [
        deletion_condition(
            "NamespaceDeletionDiscoveryFailure",
            ("ResourcesDiscovered", "All resources successfully discovered"),
            None,
        ),
        deletion_condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
            None,
        ),
        deletion_condition(
            "NamespaceDeletionContentFailure",
            (
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            failed.map(|why| {
                (
                    "ContentDeletionFailed",
                    format!("Failed to delete all resource types, 1 remaining: {why}"),
                )
            }),
        ),
        deletion_condition(
            "NamespaceContentRemaining",
            ("ContentRemoved", "All content successfully removed"),
            sorted("Some resources are remaining", content).map(|m| ("SomeResourcesRemain", m)),
        ),
        deletion_condition(
            "NamespaceFinalizersRemaining",
            (
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ),
            sorted("Some content in the namespace has finalizers remaining", waiting)
                .map(|m| ("SomeFinalizersRemain", m)),
        ),
    ];
    let stored = namespace["status"]["conditions"].as_array();
    let mut list = stored.cloned().unwrap_or_default();
    let mut changed = false;
    for mut condition in wanted {
        let old = list.iter_mut().find(|c| c["type"] == condition["type"]);
        let same = |old: &Value, keys: &[&str]| keys.iter().all(|k| old[*k] == condition[*k]);
        if old
            .as_ref()
            .is_some_and(|old| same(old, &["status", "reason", "message"]))
        {
            continue;
        }
        changed = true;
        let since = old.as_ref().filter(|old| same(old, &["status"]));
        condition["lastTransitionTime"] = since.map_or_else(
            || json!(seen.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            |old| old["lastTransitionTime"].clone(),
        );
        match old {
            Some(old) => *old = condition,
            None => list.push(condition),
        }
    }
    (changed || text(&namespace["status"], "phase") != "Terminating").then_some(list)
}

fn deletion_condition(kind: &str, well: (&str, &str), ill: Option<(&str, String)>) -> Value {
    let (status, reason, message) = match ill {
        Some((reason, message)) => ("True", reason, message),
        None => ("False", well.0, well.1.to_owned()),
    };
    json!({ "type": kind, "status": status, "reason": reason, "message": message })
}

/// Sorted as text, as upstream does for stable messages.
fn sorted(title: &str, mut items: Vec<String>) -> Option<String> {
    items.sort();
    (!items.is_empty()).then(|| format!("{title}: {}", items.join(", ")))
}
