//! One bare mirror on disk, in generations.
//!
//! Each fetch adds a pack, and packs are never rewritten. After [`crate::Limits::packs_max`] packs or
//! [`crate::Limits::mirror_bytes_max`] bytes, or when it is damaged, the mirror is replaced by a new
//! generation. The old one is removed when its last reader is done. A file lock excludes other processes, so
//! locks and temporary files found under it are from a killed process.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use gix::ObjectId;

use crate::store::{OpenStoreError, Store};

const LOCK_POLL: Duration = Duration::from_millis(20);
/// The extension of mirrors that are about to be removed.
const SET_ASIDE: &str = "unused";

#[derive(Debug)]
pub(crate) struct Mirror {
    directory: PathBuf,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    busy: bool,
    current: Option<Generation>,
}

#[derive(Debug, Clone)]
pub(crate) struct Generation {
    pub(crate) store: Arc<Store>,
    guard: Arc<Guard>,
}

/// Removes a replaced generation from disk after its last reader.
#[derive(Debug)]
struct Guard {
    directory: PathBuf,
    /// The time of its HEAD, which is written once.
    made: SystemTime,
    retired: AtomicBool,
    /// The commit that was fetched last, by its reference.
    last: Mutex<HashMap<String, ObjectId>>,
}

#[derive(Debug)]
pub(crate) struct MirrorLock<'a> {
    mirror: &'a Mirror,
    lock: fs::File,
}

impl Mirror {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// Returns `None` at the deadline.
    pub(crate) fn lock(&self, deadline: Instant) -> io::Result<Option<MirrorLock<'_>>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.busy {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            state = self
                .freed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        state.busy = true;
        drop(state);
        match self.file_lock(deadline) {
            Ok(Some(lock)) => Ok(Some(MirrorLock { mirror: self, lock })),
            other => {
                self.free();
                other.map(|_| None)
            }
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        !state.busy
            && state
                .current
                .as_ref()
                .is_none_or(|current| Arc::strong_count(&current.store) == 1)
    }

    fn file_lock(&self, deadline: Instant) -> io::Result<Option<fs::File>> {
        let path = self.directory.join("lock");
        loop {
            fs::create_dir_all(&self.directory)?;
            let file = fs::OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)?;
            match file.try_lock() {
                // another process may have set the mirror aside meanwhile
                Ok(()) if !is_at(&file, &path)? => {}
                Ok(()) => {
                    // The time of the last use, for `is_unused`.
                    file.set_modified(SystemTime::now())?;
                    return Ok(Some(file));
                }
                Err(fs::TryLockError::Error(error)) => return Err(error),
                Err(fs::TryLockError::WouldBlock) if Instant::now() >= deadline => return Ok(None),
                Err(fs::TryLockError::WouldBlock) => thread::park_timeout(LOCK_POLL),
            }
        }
    }

    fn free(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).busy = false;
        self.freed.notify_one();
    }
}

impl Drop for MirrorLock<'_> {
    fn drop(&mut self) {
        // Closing is not enough: a process that another thread is starting holds a copy of the file, and
        // the lock, until it runs its program. Where unlocking fails, closing suffices.
        let _ = self.lock.unlock();
        self.mirror.free();
    }
}

impl MirrorLock<'_> {
    pub(crate) fn generation(&self) -> Result<Generation, MirrorError> {
        if let Some(generation) = self.known() {
            return Ok(generation);
        }
        let mut found: Vec<PathBuf> = fs::read_dir(&self.mirror.directory)?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect();
        found.sort();
        let newest = found.pop();
        for older in found {
            removed(&older)?;
        }
        match newest.filter(|path| path.join("HEAD").is_file()) {
            Some(path) => {
                sweep(&path)?;
                self.set(path)
            }
            None => self.renew(),
        }
    }

    /// Another process may have set the mirror aside, or renewed it.
    fn known(&self) -> Option<Generation> {
        let state = || self.mirror.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = state().current.clone()?;
        if made(known.directory()).ok() == Some(known.guard.made) {
            return Some(known);
        }
        state().current = None;
        None
    }

    /// The old generation lives until its readers are done.
    pub(crate) fn renew(&self) -> Result<Generation, MirrorError> {
        let newest = fs::read_dir(&self.mirror.directory)?
            .flatten()
            .filter_map(|entry| {
                entry
                    .file_name()
                    .to_str()?
                    .strip_suffix(".git")?
                    .parse::<u64>()
                    .ok()
            })
            .max();
        let number = newest.map_or(0, |newest| newest + 1);
        let path = self.mirror.directory.join(format!("{number:08}.git"));
        init_bare(&path)?;
        self.set(path)
    }

    fn set(&self, directory: PathBuf) -> Result<Generation, MirrorError> {
        let guard = Arc::new(Guard {
            made: made(&directory)?,
            directory,
            retired: AtomicBool::new(false),
            last: Mutex::default(),
        });
        let keep: Arc<dyn Send + Sync> = Arc::clone(&guard) as _;
        let store = Arc::new(Store::open(&guard.directory, Some(keep))?);
        let generation = Generation { store, guard };
        let mut state = self.mirror.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = state.current.replace(generation.clone()) {
            old.guard.retired.store(true, Ordering::Release);
        }
        Ok(generation)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum MirrorError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Open(#[from] OpenStoreError),
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Packs {
    pub(crate) count: usize,
    pub(crate) bytes: u64,
}

impl Generation {
    pub(crate) fn directory(&self) -> &Path {
        &self.guard.directory
    }

    /// The commit that was fetched last for a reference, by this process.
    pub(crate) fn last(&self, reference: &str) -> Option<ObjectId> {
        self.guard.last().get(reference).copied()
    }

    pub(crate) fn set_last(&self, reference: &str, commit: ObjectId) {
        self.guard.last().insert(reference.to_owned(), commit);
    }

    /// The names of files of a directory, those that were written last first.
    pub(crate) fn newest_files(&self, directory: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.directory().join(directory)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry?;
            let written = entry.metadata()?.modified()?;
            files.push((written, entry.file_name().to_string_lossy().into_owned()));
        }
        files.sort_unstable_by(|one, other| other.cmp(one));
        Ok(files.into_iter().map(|(_, name)| name).collect())
    }

    pub(crate) fn packs(&self) -> Packs {
        let files = fs::read_dir(self.directory().join("objects/pack"));
        let mut packs = Packs::default();
        for entry in files.into_iter().flatten().flatten() {
            packs.bytes += entry.metadata().map_or(0, |file| file.len());
            if entry.path().extension().is_some_and(|kind| kind == "idx") {
                packs.count += 1;
            }
        }
        packs
    }
}

impl Guard {
    fn last(&self) -> MutexGuard<'_, HashMap<String, ObjectId>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dozens of files: the last reader does not wait for it. The next process that opens the mirror removes a leftover.
impl Drop for Guard {
    fn drop(&mut self) {
        if !*self.retired.get_mut() {
            return;
        }
        let directory = self.directory.clone();
        let removing = thread::Builder::new().name("git-remove".to_owned());
        if removing.spawn(move || remove_replaced(&directory)).is_err() {
            remove_replaced(&self.directory);
        }
    }
}

fn made(generation: &Path) -> io::Result<SystemTime> {
    fs::metadata(generation.join("HEAD"))?.modified()
}

fn remove_replaced(directory: &Path) {
    if let Err(error) = removed(directory) {
        tracing::warn!(%error, "cannot remove a replaced mirror");
    }
}

/// Another thread may remove it, too.
pub(crate) fn removed(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Whether no process has locked a mirror for this time.
pub(crate) fn is_unused(directory: &Path, unused: Duration) -> bool {
    let used = fs::metadata(directory.join("lock")).and_then(|lock| lock.modified());
    used.is_ok_and(|used| {
        let age = SystemTime::now().duration_since(used);
        age.is_ok_and(|age| age >= unused)
    })
}

/// Renames an unused mirror, so that it can be removed while its place is used again. Meanwhile the caller
/// lets no other thread open it. Returns the new name, or `None` if it is used after all.
pub(crate) fn set_aside(directory: &Path, unused: Duration) -> io::Result<Option<PathBuf>> {
    let lock = fs::OpenOptions::new().write(true).open(directory.join("lock"))?;
    if lock.try_lock().is_err() || !is_unused(directory, unused) {
        return Ok(None);
    }
    let aside = directory.with_extension(SET_ASIDE);
    fs::rename(directory, &aside)?;
    Ok(Some(aside))
}

pub(crate) fn is_set_aside(directory: &Path) -> bool {
    directory.extension().is_some_and(|kind| kind == SET_ASIDE)
}

#[cfg(unix)]
fn is_at(file: &fs::File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let opened = file.metadata()?;
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => found.map(|found| (found.dev(), found.ino()) == (opened.dev(), opened.ino())),
    }
}

#[cfg(not(unix))]
fn is_at(_file: &fs::File, path: &Path) -> io::Result<bool> {
    path.try_exists()
}

fn init_bare(path: &Path) -> io::Result<()> {
    for directory in ["objects/pack", "objects/info", "refs/heads", "refs/tags"] {
        fs::create_dir_all(path.join(directory))?;
    }
    fs::write(
        path.join("config"),
        "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
    )?;
    // Last, because a directory without it is not a repository.
    fs::write(path.join("HEAD"), "ref: refs/heads/main\n")
}

fn sweep(path: &Path) -> io::Result<()> {
    let leftover = |path: &Path| {
        let lock = path.extension().is_some_and(|extension| extension == "lock");
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        lock || name.starts_with(".tmp") || name.starts_with("tmp_")
    };
    for directory in [
        path.to_owned(),
        path.join("objects/pack"),
        path.join("refs/fetched"),
    ] {
        let Ok(entries) = fs::read_dir(directory) else {
            continue;
        };
        for entry in entries.flatten().filter(|entry| leftover(&entry.path())) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
