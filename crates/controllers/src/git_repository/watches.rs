//! Watches local repositories that replace URLs: a commit wakes its source at once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use equate_git::{Watch, WatchError};

use crate::Key;

#[derive(Default)]
pub(crate) struct Watches {
    // one map operation; watches are created outside the lock
    all: Mutex<HashMap<Key, (PathBuf, Watch)>>,
}

impl Watches {
    /// Calls `woken` with the key whenever a ref of the repository at `path` moves. Does nothing if it is
    /// watched already. Blocks.
    pub(crate) fn follow(
        &self,
        key: &Key,
        path: &Path,
        woken: Arc<dyn Fn(Key) + Send + Sync>,
    ) -> Result<(), WatchError> {
        if self.all().get(key).is_some_and(|(own, _)| own == path) {
            return Ok(());
        }
        let own = key.clone();
        let watch = equate_git::watch(path, move || woken(own.clone()))?;
        self.all().insert(key.clone(), (path.to_owned(), watch));
        Ok(())
    }

    pub(crate) fn leave(&self, key: &Key) {
        let left = self.all().remove(key);
        // ends a thread: not while the map is locked
        drop(left);
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<Key, (PathBuf, Watch)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
