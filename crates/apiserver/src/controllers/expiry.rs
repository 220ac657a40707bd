//! Deletes Events some time after their last write; upstream gives them an etcd lease.

use super::object::{text, uid};
use super::{Action, Controller, Propagation, Seen, Step};
use crate::store::{Event, EventKind, Key, ResourceId, Snapshot};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use tokio::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Expiry {
    resources: [ResourceId; 2],
    ttl: Duration,
    ends: HashMap<Key, Instant>,
    queue: BTreeSet<(Instant, Key)>,
}

impl Expiry {
    pub(super) fn new(ttl: Duration) -> Self {
        Self {
            resources: ["", "events.k8s.io"].map(|group| ResourceId::new(group, "events")),
            ttl,
            ends: HashMap::new(),
            queue: BTreeSet::new(),
        }
    }

    fn set(&mut self, key: &Key, end: Option<Instant>) {
        let old = match end {
            Some(end) => {
                self.queue.insert((end, key.clone()));
                self.ends.insert(key.clone(), end)
            }
            None => self.ends.remove(key),
        };
        if let Some(old) = old.filter(|old| Some(*old) != end) {
            self.queue.remove(&(old, key.clone()));
        }
    }
}

impl Controller for Expiry {
    fn name(&self) -> &'static str {
        "Event expiry"
    }

    /// After a restart or a gap, the object itself gives the time of its last write.
    fn resync(&mut self, snapshot: &Snapshot, at: Instant, now: Timestamp) {
        self.ends.clear();
        self.queue.clear();
        for resource in self.resources.clone() {
            for (path, entry) in snapshot.list(&resource, None) {
                let age = age(&entry.view(), now);
                let key = Key::new(&resource, path.namespace(), path.name());
                self.set(&key, Some(at + self.ttl.saturating_sub(age)));
            }
        }
    }

    fn observe(&mut self, event: &Event, at: Instant) {
        if self.resources.contains(&event.key.resource) {
            let end = (event.kind != EventKind::Deleted).then(|| at + self.ttl);
            self.set(&event.key, end);
        }
    }

    fn again(&mut self, about: Key) {
        self.set(&about, Some(Instant::now()));
    }

    fn decide(&mut self, seen: &Seen<'_>) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some((end, key)) = self.queue.first().cloned() {
            if end > seen.at {
                break;
            }
            self.set(&key, None);
            let Some(entry) = seen.snapshot.get(&key) else {
                continue;
            };
            let action = Action::Delete {
                key: key.clone(),
                uid: uid(&entry.view()).to_owned(),
                revision: Some(entry.revision),
                propagation: Propagation::Background,
            };
            steps.push(Step::one(key, action));
        }
        steps
    }

    fn due(&self) -> Option<Instant> {
        self.queue.first().map(|(end, _)| *end)
    }
}

fn age(event: &Value, now: Timestamp) -> Duration {
    let series = event["series"].get("lastObservedTime").and_then(Value::as_str);
    let texts = [
        series.unwrap_or_default(),
        text(event, "lastTimestamp"),
        text(event, "eventTime"),
        text(&event["metadata"], "creationTimestamp"),
    ];
    let newest = texts.iter().filter_map(|t| t.parse::<Timestamp>().ok()).max();
    newest
        .and_then(|written| Duration::try_from(now.duration_since(written)).ok())
        .unwrap_or_default()
}
