//! Watches the directories of this machine that stand for sources: a commit or a changed file wakes its
//! source at once.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use equate_egress::Substitute;
use equate_git::Watch;
use tokio::task::spawn_blocking;

use crate::ObjectRef;
use crate::kit::read::chain;
use crate::kit::wake::Reason;
use crate::kit::waker::Waker;

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    /// A moved ref of a repository.
    Refs,
    /// Any change of a file.
    Files,
}

#[derive(Clone)]
pub(crate) struct Watches(Arc<Inner>);

struct Inner {
    waker: Waker,
    // one map operation; watches are created outside the lock
    all: Mutex<HashMap<ObjectRef, (PathBuf, Watch)>>,
}

impl fmt::Debug for Watches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watches").finish_non_exhaustive()
    }
}

impl Watches {
    pub(crate) fn new(waker: Waker) -> Self {
        Self(Arc::new(Inner {
            waker,
            all: Mutex::default(),
        }))
    }

    /// Wakes an object whenever its directory changes. Call it before the directory is read, so that no
    /// change is missed. Without a directory, this ends its watch.
    pub(crate) async fn follow(&self, object: ObjectRef, path: Option<PathBuf>, watched: Watched) {
        let Some(path) = path else {
            return self.leave(&object);
        };
        if self.0.all().get(&object).is_some_and(|(own, _)| *own == path) {
            return;
        }
        let inner = Arc::clone(&self.0);
        let followed = spawn_blocking(move || {
            let (waker, own) = (inner.waker.clone(), object.clone());
            let changed = move || waker.wake(&own, Reason::Push);
            let watch = match watched {
                Watched::Refs => equate_git::watch(&path, changed),
                Watched::Files => equate_git::watch_files(&path, changed),
            };
            match watch {
                Ok(watch) => drop(inner.all().insert(object, (path, watch))),
                Err(error) => {
                    let error = chain(&error);
                    tracing::warn!(%object, error, "cannot watch a directory; it is only read at the interval");
                }
            }
        });
        // it does not panic by itself; unwatched, the interval still wakes it
        drop(followed.await);
    }

    /// [`Self::follow`], for the files at a place: a missing one may appear in the directory above.
    pub(crate) async fn follow_files(&self, object: ObjectRef, place: Option<Substitute>) {
        let path = place.map(|place| match place.path() {
            path if path.exists() || place.below.is_empty() => path,
            path => path.parent().map_or(place.directory, ToOwned::to_owned),
        });
        self.follow(object, path, Watched::Files).await;
    }

    pub(crate) fn leave(&self, object: &ObjectRef) {
        let left = self.0.all().remove(object);
        // ends a thread: not while the map is locked
        drop(left);
    }
}

impl Inner {
    fn all(&self) -> MutexGuard<'_, HashMap<ObjectRef, (PathBuf, Watch)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
