//! The whole state as one immutable value.
//!
//! All parts are persistent: a clone is a few reference counts, and a change copies one path of each tree
//! it touches. The writer changes a clone and publishes it; readers of the old one keep it.

use std::sync::Arc;

use imbl::OrdMap;
use tokio::time::Instant;

use super::events::{Event, EventKind, Retention, Ring};
use super::writer::{Change, CommitError, Expect};
use super::{Entry, Key, ObjectPath, ResourceId};

/// 0 means "any" to clients, so it must not be a revision.
pub(super) const FIRST_REVISION: u64 = 1;

pub(super) type Objects = OrdMap<ObjectPath, Arc<Entry>>;

#[derive(Clone)]
pub(super) struct State {
    pub(super) revision: u64,
    /// Nothing before this revision is known, of any resource.
    pub(super) floor: u64,
    resources: OrdMap<ResourceId, Arc<ResourceState>>,
}

#[derive(Clone, Default)]
pub(super) struct ResourceState {
    pub(super) objects: Objects,
    pub(super) ring: Ring,
    pub(super) modified: u64,
}

impl State {
    pub(super) fn empty() -> Self {
        Self {
            revision: FIRST_REVISION,
            floor: FIRST_REVISION,
            resources: OrdMap::new(),
        }
    }

    /// As found on disk: objects without history.
    pub(super) fn restored(revision: u64, objects: impl IntoIterator<Item = (Key, Entry)>) -> Self {
        let mut state = Self {
            revision,
            floor: revision,
            resources: OrdMap::new(),
        };
        for (key, entry) in objects {
            let resource_state = Arc::make_mut(state.resources.entry(key.resource.clone()).or_default());
            resource_state.modified = resource_state.modified.max(entry.revision);
            resource_state.objects.insert(key.path(), Arc::new(entry));
        }
        state
    }

    /// This state without other resources.
    pub(super) fn only(&self, resource: &ResourceId) -> Self {
        Self {
            revision: self.revision,
            floor: self.floor,
            resources: self
                .resources
                .get_key_value(resource)
                .map(|(resource, resource_state)| (resource.clone(), Arc::clone(resource_state)))
                .into_iter()
                .collect(),
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.resource_state(&key.resource)?.objects.get(&key.path())
    }

    pub(super) fn resource_state(&self, resource: &ResourceId) -> Option<&ResourceState> {
        self.resources
            .get(resource)
            .map(|resource_state| &**resource_state)
    }

    pub(super) fn resources(&self) -> impl Iterator<Item = (&ResourceId, &ResourceState)> {
        self.resources
            .iter()
            .map(|(resource, resource_state)| (resource, &**resource_state))
    }

    /// Drops history before `revision`. Watches that are up to date continue.
    pub(super) fn compact(&mut self, revision: u64) {
        let revision = revision.min(self.revision);
        if revision <= self.floor {
            return;
        }
        self.floor = revision;
        let affected: Vec<_> = self
            .resources()
            .filter(|(_, resource_state)| {
                resource_state
                    .ring
                    .oldest()
                    .is_some_and(|oldest| oldest <= revision)
            })
            .map(|(resource, _)| resource.clone())
            .collect();
        for resource in affected {
            if let Some(resource_state) = self.resources.get_mut(&resource) {
                Arc::make_mut(resource_state).ring.trim(revision);
            }
        }
    }

    /// Makes one change at the next revision, or returns why not.
    pub(super) fn apply(
        &mut self,
        change: Change,
        now: Instant,
        retention: Retention,
    ) -> Result<Arc<Entry>, CommitError> {
        let (key, expect) = match &change {
            Change::Put { key, expect, .. } | Change::Delete { key, expect, .. } => (key, *expect),
        };
        let path = key.path();
        let previous = self
            .resource_state(&key.resource)
            .and_then(|resource_state| resource_state.objects.get(&path))
            .cloned();
        let exists = matches!(change, Change::Delete { .. }) || matches!(expect, Expect::Revision(_));
        match (&previous, expect) {
            (None, _) if exists => return Err(CommitError::Missing { key: key.clone() }),
            (Some(_), Expect::Absent) => return Err(CommitError::Exists { key: key.clone() }),
            (Some(entry), Expect::Revision(expected)) if entry.revision != expected => {
                return Err(CommitError::Conflict {
                    key: key.clone(),
                    current: entry.revision,
                });
            }
            (None | Some(_), Expect::Any | Expect::Absent | Expect::Revision(_)) => {}
        }

        let (key, object, kind) = match (change, &previous) {
            (Change::Put { key, object, .. }, None) => (key, object, EventKind::Added),
            (Change::Put { key, object, .. }, Some(_)) => (key, object, EventKind::Modified),
            (
                Change::Delete {
                    key,
                    last: Some(last),
                    ..
                },
                _,
            ) => (key, last, EventKind::Deleted),
            (Change::Delete { key, last: None, .. }, Some(stored)) => {
                (key, stored.object().clone(), EventKind::Deleted)
            }
            (Change::Delete { key, last: None, .. }, None) => return Err(CommitError::Missing { key }),
        };
        let revision = self.revision + 1;
        let Some(entry) = Entry::stamp(object, revision).map(Arc::new) else {
            return Err(CommitError::Malformed { key });
        };

        self.revision = revision;
        let resource_state = Arc::make_mut(self.resources.entry(key.resource.clone()).or_default());
        resource_state.modified = revision;
        match kind {
            EventKind::Added | EventKind::Modified => {
                resource_state.objects.insert(path, Arc::clone(&entry));
            }
            EventKind::Deleted => {
                resource_state.objects.remove(&path);
            }
        }
        let event = Event {
            revision,
            kind,
            key,
            entry: Arc::clone(&entry),
            previous,
            at: now,
        };
        resource_state.ring.push(Arc::new(event), retention);
        resource_state.pack();
        Ok(entry)
    }
}

impl ResourceState {
    /// Packs what has become old by the last push: an event, and its object if that is still stored.
    fn pack(&mut self) {
        let Some(event) = self.ring.pack() else { return };
        let path = event.key.path();
        if let Some(stored) = self.objects.get_mut(&path)
            && stored.revision == event.revision
        {
            // an entry of its own: a reader of the object must not unpack the history
            *stored = stored.packed();
        }
    }

    /// The objects at an older revision within the ring.
    pub(super) fn objects_at(&self, revision: u64) -> Objects {
        let mut objects = self.objects.clone();
        for event in self.ring.after(revision).rev() {
            let path = event.key.path();
            match &event.previous {
                Some(previous) => objects.insert(path, Arc::clone(previous)),
                None => objects.remove(&path),
            };
        }
        objects
    }
}
