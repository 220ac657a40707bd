//! Reports that a local repository's refs may have moved, or that a directory's files changed.
//!
//! The caller resolves refs, or reads files, again to learn what changed. Of a repository, only HEAD, `packed-refs` and files below `refs` are
//! watched, so saving a file in the worktree causes no report.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use crate::store::{OpenStoreError, Store};

/// A commit writes its ref, the reflog and HEAD within a few milliseconds.
const SETTLE: Duration = Duration::from_millis(15);

/// A running watch; dropping it ends it.
#[derive(Debug)]
#[must_use = "the watch ends when this is dropped"]
pub struct Watch {
    _watcher: RecommendedWatcher,
}

/// The reason why a repository cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The repository cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenStoreError),
    /// The system refuses: too many watches, or the directory is gone.
    #[error("cannot watch {}: check the system's limit of file watches", path.display())]
    Notify {
        /// The directory.
        path: PathBuf,
        /// The error from the system.
        source: notify::Error,
    },
    /// The thread for the callback cannot be started.
    #[error("cannot start a thread to watch {}", path.display())]
    Thread {
        /// The directory.
        path: PathBuf,
        /// The error from the system.
        source: std::io::Error,
    },
}

/// Calls `changed` on its own thread soon after HEAD, a ref or `packed-refs` of the repository at `path`
/// changes. Calls it also when the system lost events, perhaps without a change.
pub fn watch(path: &Path, changed: impl Fn() + Send + 'static) -> Result<Watch, WatchError> {
    let store = Store::open(path, None)?;
    let places = store.with(|repository| Places {
        git: real(repository.git_dir()),
        common: real(repository.common_dir()),
    });
    let (at, watched) = (places.git.clone(), places.watched());
    start(
        "git-watch",
        at,
        &watched,
        move |path| places.is_ref(path),
        changed,
    )
}

/// Calls `changed` on its own thread soon after a file below `path` changes, or the file at `path`. Calls it
/// also when the system lost events, perhaps without a change. A `.git` directory does not count.
pub fn watch_files(path: &Path, changed: impl Fn() + Send + 'static) -> Result<Watch, WatchError> {
    let path = real(path);
    let concerns = |path: &Path| !path.components().any(|part| part.as_os_str() == ".git");
    let (directory, mode) = match (path.is_dir(), path.parent()) {
        // a file is replaced by rename
        (false, Some(parent)) => (parent.to_owned(), RecursiveMode::NonRecursive),
        (_, _) => (path, RecursiveMode::Recursive),
    };
    let watched = [(directory.clone(), mode)];
    start("file-watch", directory, &watched, concerns, changed)
}

fn start(
    thread: &str,
    place: PathBuf,
    watched: &[(PathBuf, RecursiveMode)],
    concerns: impl Fn(&Path) -> bool + Send + 'static,
    changed: impl Fn() + Send + 'static,
) -> Result<Watch, WatchError> {
    let (send, receive) = channel();
    let handler = move |event: notify::Result<notify::Event>| {
        let counts = event.map_or(true, |event| {
            let is_change = !event.kind.is_access() && event.paths.iter().any(|path| concerns(path));
            event.need_rescan() || is_change
        });
        if counts {
            // The receiver is gone only while the watch is being dropped.
            send.send(()).ok();
        }
    };
    let refused = |path: &Path| {
        let path = path.to_owned();
        move |source| WatchError::Notify { path, source }
    };
    let mut watcher = notify::recommended_watcher(handler).map_err(refused(&place))?;
    for (directory, mode) in watched {
        watcher.watch(directory, *mode).map_err(refused(directory))?;
    }
    std::thread::Builder::new()
        .name(thread.to_owned())
        .spawn(move || settle(&receive, &changed))
        .map_err(|source| WatchError::Thread { path: place, source })?;
    Ok(Watch { _watcher: watcher })
}

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

/// A linked worktree has its own HEAD and shares everything else.
#[derive(Debug, Clone)]
struct Places {
    git: PathBuf,
    common: PathBuf,
}

impl Places {
    /// Files are replaced by rename, so their directories are watched.
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

    fn is_ref(&self, path: &Path) -> bool {
        let head = |directory: &Path| path.parent() == Some(directory) && path.ends_with("HEAD");
        let packed = path == self.common.join("packed-refs");
        let lock = path.extension().is_some_and(|extension| extension == "lock");
        !lock
            && (head(&self.git) || head(&self.common) || packed || path.starts_with(self.common.join("refs")))
    }
}

/// gix may return a relative path, or one through a link; events carry the given one.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
