//! Events, the ring that keeps them, and cursors over it.
//!
//! A watcher has no buffer. Its cursor points into its resource's ring, which is part of the published
//! state, and reads new events when it wakes. So watches take no memory but the ring, however many and slow
//! they are. A cursor that falls out of the ring gets [`Lagged`] and has to list again.

use std::sync::Arc;

use imbl::Vector;
use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use super::state::State;
use super::{Entry, Key, ResourceId, Store};

/// Bounds one [`Subscription::next`], so that a reader far behind does not block its thread.
const BATCH_EVENTS_MAX: usize = 512;
/// The approximate bytes of a batch besides its first object: each of many slow readers keeps one.
pub(crate) const BATCH_BYTES_MAX: usize = 256 << 10;

/// The newest events of a resource that keep the trees of their objects. Readers are rarely further behind.
pub(super) const UNPACKED_EVENTS: usize = if cfg!(test) { 3 } else { 16 };

/// One change of one object.
#[derive(Debug)]
pub struct Event {
    /// The revision of the change.
    pub revision: u64,
    /// The kind of change.
    pub kind: EventKind,
    /// The changed object.
    pub key: Key,
    /// The object after the change; for a deletion, its last state with the deletion's revision.
    pub entry: Arc<Entry>,
    /// The object before the change, if it existed.
    pub previous: Option<Arc<Entry>>,
    /// For the age of history.
    pub(super) at: Instant,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted.
    Deleted,
}

/// The subscription's next event was dropped: list again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the subscription has seen revision {seen}, but events up to {trimmed} were dropped: list again")]
pub struct Lagged {
    /// The last revision the subscription has seen.
    pub seen: u64,
    /// The newest dropped event.
    pub trimmed: u64,
}

/// The bounds of a ring. Excess events are dropped at the next write to the resource: an idle resource
/// keeps its last events, so that its watches can always resume.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retention {
    pub(super) events: usize,
    pub(super) bytes: usize,
    pub(super) age: Duration,
}

/// The newest events of one resource, oldest first. Persistent: a clone shares everything.
#[derive(Clone, Default)]
pub(super) struct Ring {
    events: Vector<Arc<Event>>,
    bytes: usize,
    /// The revision of the newest dropped event; 0 if none was.
    pub(super) trimmed: u64,
}

impl Ring {
    pub(super) fn push(&mut self, event: Arc<Event>, retention: Retention) {
        let now = event.at;
        self.bytes += event.entry.weight;
        self.events.push_back(event);
        while let Some(oldest) = self.events.front() {
            // a fork's clock may be another runtime's: never negative
            let age = now.saturating_duration_since(oldest.at);
            // the event being published must be readable, however large
            let last = self.events.len() == 1;
            let within = self.events.len() <= retention.events && self.bytes <= retention.bytes;
            if last || within && age <= retention.age {
                break;
            }
            self.drop_oldest();
        }
    }

    /// Packs the objects of the newest event that is not among the last few, and returns it.
    pub(super) fn pack(&mut self) -> Option<Arc<Event>> {
        let index = self.events.len().checked_sub(UNPACKED_EVENTS + 1)?;
        let event = self.events.get(index)?;
        let packed = Arc::new(Event {
            revision: event.revision,
            kind: event.kind,
            key: event.key.clone(),
            entry: event.entry.packed(),
            previous: event.previous.as_ref().map(Entry::packed),
            at: event.at,
        });
        self.bytes = self.bytes + packed.entry.weight - event.entry.weight;
        self.events.set(index, Arc::clone(&packed));
        Some(packed)
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.events.pop_front() {
            self.trimmed = oldest.revision;
            self.bytes -= oldest.entry.weight;
        }
    }

    pub(super) fn trim(&mut self, revision: u64) {
        while self.oldest().is_some_and(|oldest| oldest <= revision) {
            self.drop_oldest();
        }
    }

    pub(super) fn after(&self, revision: u64) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        // most readers are one event behind: check the end before searching
        let first = match self.events.back() {
            None => 0,
            Some(last) if last.revision <= revision => self.events.len(),
            Some(_) => self.first_after(revision),
        };
        self.events.focus().narrow(first..).into_iter()
    }

    pub(super) fn oldest(&self) -> Option<u64> {
        self.events.front().map(|event| event.revision)
    }

    fn first_after(&self, revision: u64) -> usize {
        match self
            .events
            .binary_search_by(|event| event.revision.cmp(&revision))
        {
            Ok(index) => index + 1,
            Err(index) => index,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Scope {
    One(ResourceId),
    All,
}

impl State {
    fn modified(&self, scope: &Scope) -> u64 {
        match scope {
            Scope::One(resource) => self
                .resource_state(resource)
                .map_or(0, |resource_state| resource_state.modified),
            Scope::All => self.revision,
        }
    }

    pub(super) fn trimmed(&self, scope: &Scope) -> u64 {
        match scope {
            Scope::One(resource) => self
                .resource_state(resource)
                .map_or(0, |resource_state| resource_state.ring.trimmed),
            Scope::All => self
                .resources()
                .map(|(_, resource_state)| resource_state.ring.trimmed)
                .max()
                .unwrap_or(0),
        }
    }

    fn events(&self, scope: &Scope, revision: u64) -> Vec<Arc<Event>> {
        match scope {
            Scope::One(resource) => self
                .resource_state(resource)
                .into_iter()
                .flat_map(|resource_state| batch(resource_state.ring.after(revision)))
                .cloned()
                .collect(),
            Scope::All => {
                // ends where the first resource's batch does: a later event must not overtake another's
                // earlier one
                let mut events: Vec<Arc<Event>> = Vec::new();
                let mut horizon = u64::MAX;
                for (_, resource_state) in self
                    .resources()
                    .filter(|(_, resource_state)| resource_state.modified > revision)
                {
                    let before = events.len();
                    events.extend(batch(resource_state.ring.after(revision)).cloned());
                    let last = events[before..].last().map_or(revision, |event| event.revision);
                    if last < resource_state.modified {
                        horizon = horizon.min(last);
                    }
                }
                events.retain(|event| event.revision <= horizon);
                events.sort_unstable_by_key(|event| event.revision);
                let within = batch(events.iter()).count();
                events.truncate(within);
                events
            }
        }
    }
}

/// Limits a batch; at least one event passes.
fn batch<'a>(events: impl Iterator<Item = &'a Arc<Event>>) -> impl Iterator<Item = &'a Arc<Event>> {
    events.take(BATCH_EVENTS_MAX).scan(0, |before, event| {
        let fits = *before == 0 || *before + event.entry.weight <= BATCH_BYTES_MAX;
        *before += event.entry.weight;
        fits.then_some(event)
    })
}

/// A cursor over the events of one resource, or of all. Keeps the store open.
#[derive(Debug)]
pub struct Subscription {
    store: Store,
    scope: Scope,
    seen: u64,
    wake: watch::Receiver<()>,
}

impl Subscription {
    pub(super) fn new(store: Store, scope: Scope, seen: u64, wake: watch::Receiver<()>) -> Self {
        Self {
            store,
            scope,
            seen,
            wake,
        }
    }

    /// The next events in order of revision: at least one, at most 512 and, besides the first, about 256
    /// KiB. Waits for the first.
    ///
    /// Cancel safe: dropping the future loses no events.
    ///
    /// # Errors
    /// [`Lagged`] when the next event was dropped; every later call then fails too.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Lagged> {
        loop {
            // before the state is read, so that a publication in between wakes
            self.wake.borrow_and_update();
            let events = self.take()?;
            if !events.is_empty() {
                return Ok(events);
            }
            if self.wake.changed().await.is_err() {
                // unreachable: the sender lives in the store this keeps open
                std::future::pending::<()>().await;
            }
        }
    }

    /// The next events without waiting; empty if there are none.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn take(&mut self) -> Result<Vec<Arc<Event>>, Lagged> {
        let state = self.store.state();
        let trimmed = state.trimmed(&self.scope);
        if trimmed > self.seen {
            return Err(Lagged {
                seen: self.seen,
                trimmed,
            });
        }
        let events = state.events(&self.scope, self.seen);
        if let Some(last) = events.last() {
            self.seen = last.revision;
        }
        Ok(events)
    }

    /// The revision up to which every event was returned, for bookmarks. Writes to other resources advance
    /// it too.
    pub fn revision(&self) -> u64 {
        let state = self.store.state();
        if state.modified(&self.scope) <= self.seen {
            state.revision.max(self.seen)
        } else {
            self.seen
        }
    }
}
