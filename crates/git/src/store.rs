//! The objects of a mirror or a local repository, readable from any thread.
//!
//! gix's handles contain caches and belong to one thread at a time. Idle handles are pooled here, so
//! readers never wait for each other.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// A mirror is open while it gets up to [`crate::Limits::packs_max`] packs; gix's default is enough for 32.
const SLOTS: gix::odb::store::init::Slots = gix::odb::store::init::Slots::AsNeededByDiskState {
    multiplier: 2.0,
    minimum: 256,
};

pub(crate) struct Store {
    shared: gix::ThreadSafeRepository,
    idle: Mutex<Vec<gix::Repository>>,
    _keep: Option<std::sync::Arc<dyn Send + Sync>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.shared.git_dir())
            .finish_non_exhaustive()
    }
}

/// An error for a directory that cannot be opened as a repository.
#[derive(Debug, thiserror::Error)]
#[error("cannot open {} as a git repository", path.display())]
pub struct OpenStoreError {
    path: PathBuf,
    source: gix::Error,
}

impl Store {
    /// Reads only the repository's own configuration, which is trusted because the caller names the
    /// directory.
    pub(crate) fn open(
        path: &Path,
        keep: Option<std::sync::Arc<dyn Send + Sync>>,
    ) -> Result<Self, OpenStoreError> {
        let options = gix::open::Options::isolated()
            .with(gix::sec::Trust::Full)
            .object_store_slots(SLOTS)
            .strict_config(false);
        let shared =
            gix::ThreadSafeRepository::open_opts(path, options).map_err(|source| OpenStoreError {
                path: path.to_owned(),
                source,
            })?;
        Ok(Self {
            shared,
            idle: Mutex::new(Vec::new()),
            _keep: keep,
        })
    }

    pub(crate) fn with<R>(&self, read: impl FnOnce(&gix::Repository) -> R) -> R {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let repository = idle.unwrap_or_else(|| self.shared.to_thread_local());
        let result = read(&repository);
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(repository);
        result
    }
}
