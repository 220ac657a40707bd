//! Objects, revisions, snapshots, events and the journal: the counterpart of etcd.
//!
//! One global revision increases with every change and is every object's `resourceVersion`. The whole state
//! is one immutable value behind a pointer ([`Snapshot`] reads it); one writer at a time changes a copy and
//! publishes it. So reads never wait for writes, a list shows one revision however long it takes, a
//! [`fork`](Store::fork) is a few reference counts, and watchers are cursors over shared events instead of
//! queues.
//!
//! The store has keys, JSON and revisions, but no kinds: no validation, TTL, finalizers or selectors. It
//! never writes on its own. Time is tokio's, so history ages in virtual time when the clock is paused.

mod entry;
mod events;
mod journal;
mod key;
mod snapshot;
mod state;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::{Duration, Instant};

pub use self::entry::Entry;
pub(crate) use self::events::BATCH_BYTES_MAX;
pub use self::events::{Event, EventKind, Lagged, Subscription};
pub use self::journal::StoreError;
pub use self::key::{Key, ObjectPath, ResourceId};
pub use self::snapshot::Snapshot;
pub use self::writer::{Change, CommitError, Expect};

use self::events::{Retention, Scope};
use self::journal::Journal;
use self::state::State;

/// The settings of a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file that survives a restart; `None` keeps everything in memory.
    pub journal: Option<PathBuf>,
    /// The most events kept per resource, for watches and exact lists.
    pub history_events: usize,
    /// The approximate memory of a resource's events: large objects have less history.
    pub history_bytes: usize,
    /// The greatest age of an event when its resource is next written.
    pub history_age: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            journal: None,
            history_events: 10_000,
            history_bytes: 64 << 20,
            history_age: Duration::from_mins(5),
        }
    }
}

/// A revision that cannot be read or followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AtError {
    /// Its history was dropped.
    #[error("the revision was compacted; the oldest available one is {oldest}")]
    Expired {
        /// The oldest readable revision.
        oldest: u64,
    },
    /// It is in the future.
    #[error("the revision is in the future, the newest is {current}")]
    Future {
        /// The newest revision.
        current: u64,
    },
}

/// The revisions whose first page is remembered.
const PAGES_MAX: usize = 256;

/// A handle on a store; clones share it. The last one closes the journal; a [`Subscription`] counts as one.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    published: watch::Sender<Arc<State>>,
    wakers: Mutex<Wakers>,
    /// Held from reading the published state to replacing it.
    write_lock: Mutex<()>,
    retention: Retention,
    compacted: AtomicU64,
    journal: Option<Journal>,
    /// When the first page of a list was answered, by revision.
    pages: Mutex<VecDeque<(Instant, u64)>>,
}

/// Wakers by resource, so that a write wakes only the subscriptions it concerns.
struct Wakers {
    all: watch::Sender<()>,
    one: HashMap<ResourceId, watch::Sender<()>>,
}

impl Store {
    /// Opens a store and reads its journal, if any. Blocks meanwhile.
    ///
    /// # Errors
    /// When the journal cannot be used; never without one.
    pub fn open(options: Options) -> Result<Self, StoreError> {
        let Options {
            journal,
            history_events,
            history_bytes,
            history_age,
        } = options;
        let retention = Retention {
            events: history_events,
            bytes: history_bytes,
            age: history_age,
        };
        let (journal, state) = match journal {
            None => (None, State::empty()),
            Some(path) => {
                let (journal, state) = Journal::open(&path)?;
                (Some(journal), state)
            }
        };
        Ok(Self::start(Arc::new(state), retention, journal))
    }

    /// An empty store in memory with the default history.
    pub fn in_memory() -> Self {
        let Options {
            journal: _,
            history_events: events,
            history_bytes: bytes,
            history_age: age,
        } = Options::default();
        let retention = Retention { events, bytes, age };
        Self::start(Arc::new(State::empty()), retention, None)
    }

    fn start(state: Arc<State>, retention: Retention, journal: Option<Journal>) -> Self {
        Self {
            inner: Arc::new(Inner {
                compacted: AtomicU64::new(state.floor),
                published: watch::Sender::new(state),
                wakers: Mutex::new(Wakers {
                    all: watch::Sender::new(()),
                    one: HashMap::new(),
                }),
                write_lock: Mutex::new(()),
                retention,
                journal,
                pages: Mutex::default(),
            }),
        }
    }

    /// The newest state.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::newest(self.state())
    }

    /// The state at a revision.
    ///
    /// # Errors
    /// [`AtError::Expired`] when any resource's history does not reach back that far.
    /// [`snapshot_of`](Self::snapshot_of) reads one resource.
    pub fn snapshot_at(&self, revision: u64) -> Result<Snapshot, AtError> {
        let state = self.state();
        self.reach(&state, &Scope::All, revision)?;
        Ok(Snapshot::at(state, revision))
    }

    /// One resource at a revision. Writes to other resources do not expire it.
    ///
    /// # Errors
    /// [`AtError::Expired`] when its history does not reach back that far, [`AtError::Future`] when the
    /// revision is in the future.
    pub fn snapshot_of(&self, resource: &ResourceId, revision: u64) -> Result<Snapshot, AtError> {
        let state = self.state();
        self.reach(&state, &Scope::One(resource.clone()), revision)?;
        Ok(Snapshot::at(Arc::new(state.only(resource)), revision))
    }

    /// Whether the pages of a list at a revision end: its first continuation is older than the history.
    ///
    /// The events of a quiet resource stay longer than the age of the history, but clients expect a token
    /// to end.
    pub fn page_expired(&self, revision: u64) -> bool {
        let now = Instant::now();
        let age = self.inner.retention.age;
        let mut pages = self.inner.pages.lock().unwrap_or_else(PoisonError::into_inner);
        while pages.len() > PAGES_MAX {
            pages.pop_front();
        }
        match pages.iter().find(|(_, first)| *first >= revision) {
            Some((at, _)) => now.saturating_duration_since(*at) > age,
            None => {
                pages.push_back((now, revision));
                false
            }
        }
    }

    /// Waits until the store has reached a revision; `false` on timeout.
    pub async fn wait_for(&self, revision: u64, timeout: Duration) -> bool {
        if self.revision() >= revision {
            return true;
        }
        let mut published = self.inner.published.subscribe();
        let reached = published.wait_for(|state| state.revision >= revision);
        matches!(tokio::time::timeout(timeout, reached).await, Ok(Ok(_)))
    }

    /// Whether it accepts writes; false after a failed write to the journal.
    pub fn is_writable(&self) -> bool {
        self.inner.journal.as_ref().is_none_or(Journal::is_writable)
    }

    /// Makes all changes in order, each at its own revision, or none. With a journal they are durable on
    /// return. Returns the changes' entries in order; a deletion's is the last published state.
    ///
    /// Dropping the future while it waits for the journal does not undo the commit.
    ///
    /// # Errors
    /// The first impossible change.
    pub async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Arc<Entry>>, CommitError> {
        self.inner.commit(changes).await
    }

    /// Follows a resource's changes after a revision.
    ///
    /// # Errors
    /// As [`snapshot_of`](Self::snapshot_of).
    pub fn subscribe(&self, resource: &ResourceId, after: u64) -> Result<Subscription, AtError> {
        self.follow(Scope::One(resource.clone()), after)
    }

    /// Follows every resource's changes after a revision.
    ///
    /// # Errors
    /// As [`snapshot_at`](Self::snapshot_at).
    pub fn subscribe_all(&self, after: u64) -> Result<Subscription, AtError> {
        self.follow(Scope::All, after)
    }

    fn follow(&self, scope: Scope, after: u64) -> Result<Subscription, AtError> {
        self.reach(&self.state(), &scope, after)?;
        // a subscription that registers after a publication sees it by its cursor
        let wake = locked(&self.inner.wakers).register(&scope);
        Ok(Subscription::new(self.clone(), scope, after, wake))
    }

    /// A store in memory that starts from this one's state and history. Later writes to one do not affect
    /// the other.
    pub fn fork(&self) -> Self {
        Self::start(self.state(), self.inner.retention, None)
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.inner.published.borrow().revision
    }

    /// Drops the history before a revision: older ones are `Expired` from now on. Subscriptions that have
    /// seen the dropped events continue.
    pub fn compact(&self, before: u64) {
        self.inner
            .compacted
            .fetch_max(before.min(self.revision()), Ordering::SeqCst);
        // the writer may be waiting for a disk; readers heed the number at once, and the next publication
        // frees the memory
        if let Ok(_lock) = self.inner.write_lock.try_lock() {
            let state = State::clone(&self.state());
            self.inner.publish(state, &BTreeSet::new());
        }
    }

    fn reach(&self, state: &State, scope: &Scope, revision: u64) -> Result<(), AtError> {
        let compacted = self.inner.compacted.load(Ordering::SeqCst);
        let oldest = state.trimmed(scope).max(state.floor).max(compacted);
        if revision > state.revision {
            Err(AtError::Future {
                current: state.revision,
            })
        } else if revision < oldest {
            Err(AtError::Expired { oldest })
        } else {
            Ok(())
        }
    }

    fn state(&self) -> Arc<State> {
        self.inner.state()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("revision", &self.revision())
            .field("journal", &self.inner.journal.is_some())
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn state(&self) -> Arc<State> {
        Arc::clone(&self.published.borrow())
    }

    /// Replaces the state and wakes subscriptions. The caller holds `write_lock`.
    fn publish(&self, mut state: State, resources: &BTreeSet<ResourceId>) {
        state.compact(self.compacted.load(Ordering::SeqCst));
        self.published.send_replace(Arc::new(state));
        if !resources.is_empty() {
            locked(&self.wakers).wake(resources);
        }
    }
}

impl Wakers {
    fn register(&mut self, scope: &Scope) -> watch::Receiver<()> {
        match scope {
            Scope::All => self.all.subscribe(),
            Scope::One(resource) => {
                if let Some(waker) = self.one.get(resource) {
                    return waker.subscribe();
                }
                // resources come and go: drop wakers without receivers
                self.one.retain(|_, waker| waker.receiver_count() > 0);
                let (waker, receiver) = watch::channel(());
                self.one.insert(resource.clone(), waker);
                receiver
            }
        }
    }

    fn wake(&self, resources: &BTreeSet<ResourceId>) {
        self.all.send_replace(());
        for resource in resources {
            if let Some(waker) = self.one.get(resource) {
                waker.send_replace(());
            }
        }
    }
}

/// Guarded values are replaced whole or not at all, so a panic elsewhere leaves nothing inconsistent:
/// ignore poisoning.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
