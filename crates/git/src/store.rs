//! The objects of a mirror or a local repository, readable from any thread.
//!
//! gix's handles contain caches and belong to one thread at a time. Idle handles are pooled here, so
//! readers never wait for each other.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::objects::Object;

/// A mirror is open while it gets up to [`crate::Limits::packs_max`] packs; gix's default is enough for 32.
const SLOTS: gix::odb::store::init::Slots = gix::odb::store::init::Slots::AsNeededByDiskState {
    multiplier: 2.0,
    minimum: 256,
};

pub(crate) struct Store {
    shared: gix::ThreadSafeRepository,
    idle: Mutex<Vec<Handle>>,
    /// Objects that the repository does not have; `None` if there never are any.
    unwritten: Option<Mutex<Vec<Object>>>,
    keep: Option<std::sync::Arc<dyn Send + Sync>>,
}

struct Handle {
    repository: gix::Repository,
    /// The number of unwritten objects that it has in memory.
    unwritten: usize,
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
            unwritten: None,
            keep,
        })
    }

    /// The same repository, to which [`Store::add`] adds objects in memory.
    pub(crate) fn with_memory(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            idle: Mutex::new(Vec::new()),
            unwritten: Some(Mutex::new(Vec::new())),
            keep: self.keep.clone(),
        }
    }

    /// Adds objects that are readable here, and are not written. Without memory, nothing happens.
    pub(crate) fn add(&self, objects: &[Object]) {
        if let Some(unwritten) = &self.unwritten {
            let mut unwritten = unwritten.lock().unwrap_or_else(PoisonError::into_inner);
            unwritten.extend_from_slice(objects);
        }
    }

    pub(crate) fn with<R>(&self, read: impl FnOnce(&gix::Repository) -> R) -> R {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut handle = idle.unwrap_or_else(|| Handle {
            repository: self.shared.to_thread_local(),
            unwritten: 0,
        });
        if let Some(unwritten) = &self.unwritten {
            let unwritten = unwritten.lock().unwrap_or_else(PoisonError::into_inner);
            handle.learn(&unwritten);
        }
        let result = read(&handle.repository);
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(handle);
        result
    }
}

impl Handle {
    fn learn(&mut self, unwritten: &[Object]) {
        self.repository.objects.enable_object_memory();
        for object in unwritten.iter().skip(self.unwritten) {
            let Object { id, kind, data } = object;
            let objects = &self.repository.objects;
            // memory takes every object; one that it does not take is missing to its reader
            if gix::objs::Write::write_buf_with_known_id(objects, *kind, data, *id).is_err() {
                return;
            }
            self.unwritten += 1;
        }
    }
}
