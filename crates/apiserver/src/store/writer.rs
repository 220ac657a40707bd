//! Writing: one change at a time, one revision each, all or nothing per commit.
//!
//! Without a journal a commit runs where it is called: the writer's turn is a
//! lock held for the microseconds a change takes, and no reader takes it.
//!
//! With a journal the commits that wait travel together. The first to arrive
//! starts a drain on a blocking thread (which keeps a paused clock from
//! running on meanwhile); it takes whatever waits, writes it in one durable
//! transaction, publishes, answers, and looks again. Nobody reads a state that
//! is not on disk, and a commit that failed because of another one is answered
//! only when the other is safe.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
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
        /// Which.
        key: Key,
        /// What it becomes; the store stamps `metadata.resourceVersion`.
        object: Value,
        /// What must be there.
        expect: Expect,
    },
    /// Removes an object.
    Delete {
        /// Which. It must exist whatever is expected.
        key: Key,
        /// What must be there.
        expect: Expect,
        /// The last state to publish; the stored one without it.
        last: Option<Value>,
    },
}

impl Change {
    /// The object it changes.
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key, .. } => key,
        }
    }
}

/// What must be at a key for its change to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Anything or nothing.
    Any,
    /// Nothing.
    Absent,
    /// The object at this revision.
    Revision(u64),
}

/// Why nothing of a commit was done.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// Expected absent, and is there.
    #[error("{key} exists")]
    Exists {
        /// Which.
        key: Key,
    },
    /// Expected, and is not there.
    #[error("{key} does not exist")]
    Missing {
        /// Which.
        key: Key,
    },
    /// Expected at another revision.
    #[error("{key} is at revision {current}, not at the expected one")]
    Conflict {
        /// Which.
        key: Key,
        /// Where it is.
        current: u64,
    },
    /// The value is not a JSON object, or its `metadata` is not one.
    #[error("the value for {key} is not an object with metadata")]
    Malformed {
        /// Which.
        key: Key,
    },
    /// Not written, because an earlier write to the journal failed (then the
    /// store only reads) or because the runtime is shutting down.
    #[error("the store takes no writes")]
    Closed,
    /// The write failed. Whether it is on disk is open until the store is
    /// opened again; no reader has seen it.
    #[error("cannot write the journal")]
    Journal(#[source] Arc<redb::Error>),
}

type Answer = Result<Vec<Arc<Entry>>, CommitError>;

struct Request {
    changes: Vec<Change>,
    reply: oneshot::Sender<Answer>,
}

/// The commits that wait for the journal.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Vec<Request>,
    /// Someone is at it and will look again.
    draining: bool,
    /// A write failed: what is on disk is unknown, so nothing may follow it.
    closed: bool,
}

impl Journal {
    /// Whether no write failed yet.
    pub(super) fn takes_writes(&self) -> bool {
        !locked(&self.queue).closed
    }
}

impl State {
    /// All changes, or none and the first reason why.
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
        let _turn = locked(&self.turn);
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
                Ok(runtime) => drop(runtime.spawn_blocking(|| drain.run())),
                // polled by hand: there is nothing to keep from blocking
                Err(_) => drain.run(),
            }
        }
        answer.await.unwrap_or(Err(CommitError::Closed))
    }

    /// Writes a group in one durable transaction.
    fn commit_group(&self, journal: &Journal, group: Vec<Request>) -> Vec<(oneshot::Sender<Answer>, Answer)> {
        let _turn = locked(&self.turn);
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

/// Whoever writes what waits. Weak, so that a store whose last handle goes
/// right after its last answer is closed by then.
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
                // who gave up waiting need not know
                reply.send(answer).ok();
            }
        }
    }
}

/// Dropped unfinished: the runtime shut down before it ran, or it panicked.
/// Who waits is answered `Closed` by the drop of its reply.
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
