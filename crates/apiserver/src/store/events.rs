//! What happened: events, the ring that keeps them, and cursors over it.
//!
//! A watcher has no buffer. It has a cursor into its resource's ring, which is
//! part of the published state, and takes what is new whenever it wakes. So
//! the memory of a watch is the ring, however many watch and however slowly; a
//! cursor that fell out of the ring is told [`Lagged`] and has to list again.

use std::sync::Arc;

use imbl::Vector;
use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use super::state::State;
use super::{Entry, Key, ResourceId, Store};

/// How many events one [`Subscription::next`] hands over at most, so that a
/// reader far behind does not hold its thread.
const BATCH_EVENTS_MAX: usize = 512;
/// About how many bytes of objects they hold at most, besides the first:
/// a slow reader keeps a batch, and there may be hundreds of slow readers.
pub(crate) const BATCH_BYTES_MAX: usize = 256 << 10;

/// One change of one object.
#[derive(Debug)]
pub struct Event {
    /// The revision of the change.
    pub revision: u64,
    /// What it did.
    pub kind: EventKind,
    /// To which object.
    pub key: Key,
    /// The object after the change; of a deletion, its last state stamped with the deletion's revision.
    pub entry: Arc<Entry>,
    /// The object before the change, unless it did not exist.
    pub previous: Option<Arc<Entry>>,
    /// When it was written, for the age of history.
    pub(super) at: Instant,
}

/// What a change did to its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// It did not exist before.
    Added,
    /// It existed and does.
    Modified,
    /// It is gone.
    Deleted,
}

/// The subscription's next event is no longer kept: list again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("events up to revision {trimmed} are gone, the subscription had seen {seen}")]
pub struct Lagged {
    /// What the subscription had seen.
    pub seen: u64,
    /// The newest event that was dropped.
    pub trimmed: u64,
}

/// How much history a ring keeps. What exceeds any bound is dropped at the
/// next write to the resource: a resource nobody writes keeps its last events,
/// so that a watch of a quiet resource can always resume.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retention {
    pub(super) events: usize,
    pub(super) bytes: usize,
    pub(super) age: Duration,
}

/// The newest events of one resource, oldest first. Persistent: a clone shares
/// everything.
#[derive(Clone, Default)]
pub(super) struct Ring {
    events: Vector<Arc<Event>>,
    /// The weight of their entries.
    bytes: usize,
    /// The revision of the newest event that was dropped; 0 when none was.
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
            // the one being published must be readable, however large
            let last = self.events.len() == 1;
            let within = self.events.len() <= retention.events && self.bytes <= retention.bytes;
            if last || within && age <= retention.age {
                break;
            }
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.events.pop_front() {
            self.trimmed = oldest.revision;
            self.bytes -= oldest.entry.weight;
        }
    }

    /// Drops every event up to `revision`.
    pub(super) fn trim(&mut self, revision: u64) {
        while self.oldest().is_some_and(|oldest| oldest <= revision) {
            self.drop_oldest();
        }
    }

    /// The events after `revision`, oldest first.
    pub(super) fn after(&self, revision: u64) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        // most readers are one event behind: look at the end before searching
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

/// What a subscription follows.
#[derive(Debug, Clone)]
pub(super) enum Scope {
    One(ResourceId),
    All,
}

impl State {
    /// The newest revision in scope.
    fn modified(&self, scope: &Scope) -> u64 {
        match scope {
            Scope::One(resource) => self.shelf(resource).map_or(0, |shelf| shelf.modified),
            Scope::All => self.revision,
        }
    }

    /// The newest event in scope that is no longer kept.
    pub(super) fn trimmed(&self, scope: &Scope) -> u64 {
        match scope {
            Scope::One(resource) => self.shelf(resource).map_or(0, |shelf| shelf.ring.trimmed),
            Scope::All => self
                .shelves()
                .map(|(_, shelf)| shelf.ring.trimmed)
                .max()
                .unwrap_or(0),
        }
    }

    /// A batch of the events in scope after `revision`, in order.
    fn events(&self, scope: &Scope, revision: u64) -> Vec<Arc<Event>> {
        match scope {
            Scope::One(resource) => self
                .shelf(resource)
                .into_iter()
                .flat_map(|shelf| batch(shelf.ring.after(revision)))
                .cloned()
                .collect(),
            Scope::All => {
                // the batch of all is among the batches of each, and ends where the first of
                // them does: what follows there must not be overtaken by another's smaller event
                let mut events: Vec<Arc<Event>> = Vec::new();
                let mut horizon = u64::MAX;
                for (_, shelf) in self.shelves().filter(|(_, shelf)| shelf.modified > revision) {
                    let before = events.len();
                    events.extend(batch(shelf.ring.after(revision)).cloned());
                    let last = events[before..].last().map_or(revision, |event| event.revision);
                    if last < shelf.modified {
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

/// As many of the events as one reader is handed at a time, at least one.
fn batch<'a>(events: impl Iterator<Item = &'a Arc<Event>>) -> impl Iterator<Item = &'a Arc<Event>> {
    events.take(BATCH_EVENTS_MAX).scan(0, |before, event| {
        let fits = *before == 0 || *before + event.entry.weight <= BATCH_BYTES_MAX;
        *before += event.entry.weight;
        fits.then_some(event)
    })
}

/// A cursor over the events of one resource, or of all.
///
/// It holds the store open.
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

    /// The next events in order of revision, at least one, at most 512 and,
    /// besides the first, about 256 KiB. Waits until there is one.
    ///
    /// Cancel safe: events are lost to no one when the future is dropped.
    ///
    /// # Errors
    /// [`Lagged`] when the next event is no longer kept. It stays so.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Lagged> {
        loop {
            // before the state is read, so that what is published in between wakes
            self.wake.borrow_and_update();
            let events = self.take()?;
            if !events.is_empty() {
                return Ok(events);
            }
            if self.wake.changed().await.is_err() {
                // cannot be: the sender lives in the store this holds
                std::future::pending::<()>().await;
            }
        }
    }

    /// What is there now, without waiting; empty when everything was seen.
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

    /// Every event up to this revision was handed over. It moves with other
    /// resources' revisions too: what a bookmark says.
    pub fn revision(&self) -> u64 {
        let state = self.store.state();
        if state.modified(&self.scope) <= self.seen {
            state.revision.max(self.seen)
        } else {
            self.seen
        }
    }
}
