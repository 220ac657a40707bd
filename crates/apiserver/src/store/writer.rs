//! Writing: one change at a time, each with its own revision; a commit is all or nothing.
//!
//! Without a journal a commit runs in its caller, under a lock that is held for microseconds and that
//! readers never take.
//!
//! With a journal, waiting commits share a transaction. The first starts a drain on a blocking thread
//! (which keeps a paused clock from running on); it takes all waiting commits, writes them durably,
//! publishes, answers, and repeats. Readers never see a state that is not durable. A commit that failed
//! because of another one is answered only when the other is durable.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use equate_priority::priority;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::events::Retention;
use super::journal::Journal;
use super::state::State;
use super::{Entry, Inner, Key, locked};

/// One change of a commit.
#[derive(Debug, Clone)]
pub enum Change {
    /// Creates or replaces an object.
    Put {
        /// The key of the object.
        key: Key,
        /// The new object; the store sets `metadata.resourceVersion`.
        object: Value,
        /// The precondition.
        expect: Expect,
    },
    /// Removes an object.
    Delete {
        /// The key of the object, which must exist in any case.
        key: Key,
        /// The precondition.
        expect: Expect,
        /// The last state to publish; `None` for the stored one.
        last: Option<Value>,
    },
}

impl Change {
    /// The key of the changed object.
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key, .. } => key,
        }
    }
}

/// The precondition of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// No precondition.
    Any,
    /// The object must not exist.
    Absent,
    /// The object must have this revision.
    Revision(u64),
}

/// The reason why a commit changed nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// The object exists but must not.
    #[error("{key} exists")]
    Exists {
        /// The key of the object.
        key: Key,
    },
    /// The object must exist but does not.
    #[error("{key} does not exist")]
    Missing {
        /// The key of the object.
        key: Key,
    },
    /// The object has another revision.
    #[error("{key} is at revision {current}, not at the expected revision")]
    Conflict {
        /// The key of the object.
        key: Key,
        /// Its revision.
        current: u64,
    },
    /// The value is not a JSON object, or its `metadata` is not one.
    #[error("the value for {key} is not an object with metadata")]
    Malformed {
        /// The key of the object.
        key: Key,
    },
    /// Not written: an earlier write to the journal failed (the store is read-only from then on), or the
    /// runtime is shutting down.
    #[error("the store accepts no more writes")]
    Closed,
    /// The write failed. Its state on disk is unknown until the store is opened again; no reader has seen
    /// it.
    #[error("cannot write the journal")]
    Journal(#[source] Arc<redb::Error>),
}

type Answer = Result<Vec<Arc<Entry>>, CommitError>;

struct Request {
    changes: Vec<Change>,
    reply: oneshot::Sender<Answer>,
}

#[derive(Default)]
pub(super) struct Queue {
    waiting: Vec<Request>,
    /// A drain runs and will look again.
    draining: bool,
    /// A write failed: the state on disk is unknown, so no write may follow.
    closed: bool,
}

impl Journal {
    pub(super) fn is_writable(&self) -> bool {
        !locked(&self.queue).closed
    }
}

impl State {
    /// All changes, or none and the first error.
    fn transact(&mut self, changes: Vec<Change>, retention: Retention) -> Answer {
        let now = Instant::now();
        let mut changed = self.clone();
        let entries = changes
            .into_iter()
            .map(|change| changed.apply(change, now, retention))
            .collect::<Result<Vec<_>, _>>()?;
        *self = changed;
        Ok(entries)
    }
}

impl Inner {
    pub(super) async fn commit(self: &Arc<Self>, changes: Vec<Change>) -> Answer {
        match &self.journal {
            _ if changes.is_empty() => Ok(Vec::new()),
            None => self.commit_here(changes),
            Some(journal) => self.commit_durably(journal, changes).await,
        }
    }

    fn commit_here(&self, changes: Vec<Change>) -> Answer {
        let _lock = locked(&self.write_lock);
        let resources = changes
            .iter()
            .map(|change| change.key().resource.clone())
            .collect();
        let mut state = State::clone(&self.state());
        let entries = state.transact(changes, self.retention)?;
        self.publish(state, &resources);
        Ok(entries)
    }

    async fn commit_durably(self: &Arc<Self>, journal: &Journal, changes: Vec<Change>) -> Answer {
        let (reply, answer) = oneshot::channel();
        let idle = {
            let mut queue = locked(&journal.queue);
            if queue.closed {
                return Err(CommitError::Closed);
            }
            queue.waiting.push(Request { changes, reply });
            !std::mem::replace(&mut queue.draining, true)
        };
        if idle {
            let drain = Drain {
                store: Arc::downgrade(self),
                done: false,
            };
            match Handle::try_current() {
                // a new thread would have the low priority of this one
                Ok(runtime) if priority().is_some_and(|nice| nice > 0) => {
                    drop(runtime.spawn(async { drop(spawn_blocking(|| drain.run())) }));
                }
                Ok(runtime) => drop(runtime.spawn_blocking(|| drain.run())),
                // polled by hand: blocking is fine
                Err(_) => drain.run(),
            }
        }
        answer.await.unwrap_or(Err(CommitError::Closed))
    }

    /// Writes a group in one durable transaction.
    fn commit_group(&self, journal: &Journal, group: Vec<Request>) -> Vec<(oneshot::Sender<Answer>, Answer)> {
        let _lock = locked(&self.write_lock);
        let mut state = State::clone(&self.state());
        let mut changed = BTreeSet::new();
        let mut answers = Vec::with_capacity(group.len());
        for Request { changes, reply } in group {
            let keys: Vec<_> = changes.iter().map(|change| change.key().clone()).collect();
            let answer = state.transact(changes, self.retention);
            if answer.is_ok() {
                changed.extend(keys);
            }
            answers.push((reply, answer));
        }
        if changed.is_empty() {
            return answers;
        }
        match journal.write(&state, &changed) {
            Ok(()) => {
                let resources = changed.iter().map(|key| key.resource.clone()).collect();
                self.publish(state, &resources);
            }
            Err(error) => {
                locked(&journal.queue).closed = true;
                let error = Arc::new(error);
                for (_, answer) in &mut answers {
                    *answer = Err(CommitError::Journal(Arc::clone(&error)));
                }
            }
        }
        answers
    }
}

/// Writes waiting commits. Weak, so that dropping the last handle after its last answer closes the store.
struct Drain {
    store: Weak<Inner>,
    done: bool,
}

impl Drain {
    fn run(mut self) {
        while !self.done {
            let Some(store) = self.store.upgrade() else {
                self.done = true;
                return;
            };
            let Some(journal) = &store.journal else { return };
            let group = std::mem::take(&mut locked(&journal.queue).waiting);
            let answers = store.commit_group(journal, group);
            {
                let mut queue = locked(&journal.queue);
                if queue.closed {
                    queue.waiting.clear();
                }
                self.done = queue.waiting.is_empty();
                queue.draining = !self.done;
            }
            drop(store);
            for (reply, answer) in answers {
                // the receiver may be gone
                reply.send(answer).ok();
            }
        }
    }
}

/// Dropped unfinished: the runtime shut down before it ran, or it panicked. Dropping the replies answers
/// waiting commits with `Closed`.
impl Drop for Drain {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let Some(store) = self.store.upgrade() else { return };
        let Some(journal) = &store.journal else { return };
        let mut queue = locked(&journal.queue);
        queue.draining = false;
        queue.closed |= std::thread::panicking();
        queue.waiting.clear();
    }
}
