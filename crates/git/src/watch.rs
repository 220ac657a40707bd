//! Tells that a local repository's refs may have moved.
//!
//! A level, not a log: what moved is for the caller to resolve again. Only HEAD, `packed-refs`
//! and what lies below `refs` count; objects, the index and the worktree do not, so an editor
//! that saves wakes nobody.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use crate::store::{OpenStoreError, Store};

/// A commit writes its ref, the reflog and HEAD within a few milliseconds: one wake-up is enough.
const SETTLE: Duration = Duration::from_millis(15);

/// Ends the watch when it is dropped.
#[derive(Debug)]
#[must_use = "the watch ends when this is dropped"]
pub struct Watch {
    _watcher: RecommendedWatcher,
}

/// Why a repository cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenStoreError),
    /// The system refuses: too many watches, or the directory went away.
    #[error("cannot watch the refs in {}: check the system's limit of file watches", path.display())]
    Notify {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: notify::Error,
    },
    /// No thread to call from.
    #[error("cannot start a thread to watch {}", path.display())]
    Thread {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Calls `changed` (on a thread of its own) soon after HEAD, a ref or `packed-refs` of the
/// repository at `path` changed. Also called when the system lost events, and then perhaps
/// without need.
pub fn watch(path: &Path, changed: impl Fn() + Send + 'static) -> Result<Watch, WatchError> {
    let store = Store::open(path, None)?;
    let places = store.with(|repository| Places {
        git: real(repository.git_dir()),
        common: real(repository.common_dir()),
    });
    let (send, receive) = channel();
    let filter = places.clone();
    let handler = move |event: notify::Result<notify::Event>| {
        if filter.concerns(&event) {
            // The receiver is gone only while the watch is being dropped.
            send.send(()).ok();
        }
    };
    let refused = |path: &Path| {
        let path = path.to_owned();
        move |source| WatchError::Notify { path, source }
    };
    let mut watcher = notify::recommended_watcher(handler).map_err(refused(&places.git))?;
    for (directory, mode) in places.watched() {
        watcher.watch(&directory, mode).map_err(refused(&directory))?;
    }
    std::thread::Builder::new()
        .name("git-watch".to_owned())
        .spawn(move || settle(&receive, &changed))
        .map_err(|source| WatchError::Thread {
            path: places.git,
            source,
        })?;
    Ok(Watch { _watcher: watcher })
}

/// One call for a burst; ends when the watcher, and with it the sender, is gone.
fn settle(receive: &Receiver<()>, changed: &impl Fn()) {
    while receive.recv().is_ok() {
        loop {
            match receive.recv_timeout(SETTLE) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        changed();
    }
}

/// A linked worktree has a HEAD of its own and shares everything else.
#[derive(Debug, Clone)]
struct Places {
    git: PathBuf,
    common: PathBuf,
}

impl Places {
    /// Files are replaced by rename, so their directories are watched, not they.
    fn watched(&self) -> Vec<(PathBuf, RecursiveMode)> {
        let mut watched = vec![
            (self.common.clone(), RecursiveMode::NonRecursive),
            (self.common.join("refs"), RecursiveMode::Recursive),
        ];
        if self.git != self.common {
            watched.push((self.git.clone(), RecursiveMode::NonRecursive));
        }
        watched
    }

    fn concerns(&self, event: &notify::Result<notify::Event>) -> bool {
        let Ok(event) = event else {
            return true;
        };
        if event.need_rescan() {
            return true;
        }
        !event.kind.is_access() && event.paths.iter().any(|path| self.is_ref(path))
    }

    fn is_ref(&self, path: &Path) -> bool {
        let head = |directory: &Path| path.parent() == Some(directory) && path.ends_with("HEAD");
        let packed = path == self.common.join("packed-refs");
        let lock = path.extension().is_some_and(|extension| extension == "lock");
        !lock
            && (head(&self.git) || head(&self.common) || packed || path.starts_with(self.common.join("refs")))
    }
}

/// Events carry the path as it was given; gix may give a relative one, or one through a link.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
