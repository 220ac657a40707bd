//! Wakes objects of any kind by reference, so that callers need no queue.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::queue::Queue;
use super::wake::Reason;
use crate::{Key, ObjectRef};

/// The queues of the kinds that this process reconciles; clones are the same.
#[derive(Clone, Default)]
pub struct Waker {
    // held for a map operation: a wake of a queue does not block
    queues: Arc<RwLock<BTreeMap<&'static str, Queue<Key>>>>,
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").finish_non_exhaustive()
    }
}

impl Waker {
    pub(crate) fn register(&self, kind: &'static str, queue: Queue<Key>) {
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        queues.insert(kind, queue);
    }

    /// Queues an object; does nothing if another process reconciles its kind.
    pub fn wake(&self, object: &ObjectRef, reason: Reason) {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(object.kind) {
            queue.wake(object.key(), reason);
        }
    }

    /// Queues several objects.
    pub fn wake_all(&self, wakes: impl IntoIterator<Item = (ObjectRef, Reason)>) {
        for (object, reason) in wakes {
            self.wake(&object, reason);
        }
    }
}
