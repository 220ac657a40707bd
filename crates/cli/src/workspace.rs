//! The directory `.equate/`: where a running `equate up` leaves what others need to reach it.
//!
//! | file | what it is |
//! |---|---|
//! | `.gitignore` | keeps the directory out of git |
//! | `pid` | the process; locked while it runs, so that a stale one is told from a live one |
//! | `kubeconfig` | how to reach its API; mode 0600 |
//! | `endpoints.json` | where its artifacts, webhook and counters are; the same |
//!
//! All of it goes at the end, and the directory unless it holds something else. The lock is the
//! operating system's and goes with the process, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The directory's name.
pub(crate) const DIRECTORY: &str = ".equate";

/// Why the directory could not be taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// Another `equate up` runs here.
    #[error("`equate up` already runs in {directory} (process {pid})")]
    Taken {
        /// The directory that holds `.equate/`.
        directory: PathBuf,
        /// Its process, as it wrote it.
        pid: String,
    },
    /// Something else than this command made it, as a repository could.
    #[error("{path} is a symbolic link; `.equate/` is this command's own and holds none")]
    Link {
        /// Which.
        path: PathBuf,
    },
    /// A file could not be made or read.
    #[error("could not prepare {path}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// What is this command's own in it, the claim last.
const OWN: [&str; 4] = ["kubeconfig", "endpoints.json", ".gitignore", "pid"];
/// How often a claim is tried anew that a process took away as it ended.
const TRIES: usize = 16;

/// A claimed `.equate/`. Dropping it removes what it holds and lets go of the claim.
#[derive(Debug)]
pub(crate) struct Workspace {
    directory: PathBuf,
    claim: File,
}

impl Workspace {
    /// Takes `.equate/` below a directory for this process.
    pub(crate) fn claim(parent: &Path) -> Result<Self, ClaimError> {
        let directory = parent.join(DIRECTORY);
        // What is written below must not go where a repository's author wants it to.
        for path in OWN
            .iter()
            .map(|name| directory.join(name))
            .chain([directory.clone()])
        {
            if path.is_symlink() {
                return Err(ClaimError::Link { path });
            }
        }
        let path = directory.join("pid");
        let claim = lock(parent, &directory, &path)?;
        // From here on an error takes away what is here.
        let workspace = Self { directory, claim };
        let ignore = workspace.directory.join(".gitignore");
        std::fs::write(&ignore, "*\n").map_err(failed(&ignore))?;
        let mut claim = &workspace.claim;
        claim
            .set_len(0)
            .and_then(|()| claim.rewind())
            .and_then(|()| writeln!(claim, "{}", std::process::id()))
            .map_err(failed(&path))?;
        // Left by a process that was killed: it names a port that may be anyone's now.
        workspace.forget()?;
        Ok(workspace)
    }

    /// Where the kubeconfig goes.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Where the endpoints are told.
    pub(crate) fn endpoints(&self) -> PathBuf {
        self.directory.join("endpoints.json")
    }

    /// What only a live process may leave.
    fn forget(&self) -> Result<(), ClaimError> {
        for path in [self.kubeconfig(), self.endpoints()] {
            remove(&path)?;
        }
        Ok(())
    }

    /// The rest; all but the claim is gone before another can take that.
    fn leave(&self) -> Result<(), ClaimError> {
        self.forget()?;
        let entries = std::fs::read_dir(&self.directory).map_err(failed(&self.directory))?;
        let others = entries
            .filter_map(Result::ok)
            .any(|entry| !OWN.iter().any(|own| entry.file_name() == *own));
        let ignore = self.directory.join(".gitignore");
        // Other things, such as kept state, are to stay out of git.
        if !others {
            remove(&ignore)?;
        }
        remove(&self.directory.join("pid"))?;
        match std::fs::remove_dir(&self.directory) {
            Ok(()) => Ok(()),
            Err(_) if others => Ok(()),
            // Another process has begun here, or ended already.
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::NotFound) => {
                Ok(())
            }
            Err(error) => Err(failed(&self.directory)(error)),
        }
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Err(error) = self.leave() {
            tracing::warn!(%error, "not all of `.equate/` could be removed");
        }
        if let Err(error) = self.claim.unlock() {
            tracing::debug!(%error, "could not let go of the claim");
        }
    }
}

/// Makes the directory and takes the lock of the file that claims it.
fn lock(parent: &Path, directory: &Path, path: &Path) -> Result<File, ClaimError> {
    let mut last = None;
    for _ in 0..TRIES {
        std::fs::create_dir_all(directory).map_err(failed(directory))?;
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let mut claim = match opened {
            Ok(claim) => claim,
            // Somebody ended, and took the directory with it.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                last = Some(error);
                continue;
            }
            Err(error) => return Err(failed(path)(error)),
        };
        match claim.try_lock() {
            // The lock of a file that was removed meanwhile keeps nobody away.
            Ok(()) if !is_at(&claim, path) => {}
            Ok(()) => return Ok(claim),
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                claim.read_to_string(&mut pid).map_err(failed(path))?;
                return Err(ClaimError::Taken {
                    directory: parent.to_path_buf(),
                    pid: pid.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(path)(source)),
        }
    }
    Err(failed(path)(last.unwrap_or_else(|| {
        std::io::Error::other("other processes take it and let it go all the time")
    })))
}

/// Whether an open file is the one that a path leads to.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    matches!((file.metadata(), path.metadata()), (Ok(open), Ok(there)) if same(&open, &there))
}

/// Elsewhere a file that is open is not removed.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

fn remove(path: &Path) -> Result<(), ClaimError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes a file that only its owner can read, from its first byte on.
pub(crate) fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

/// The kubeconfig of an `equate up` that runs in a directory or the nearest of its parents that has one.
///
/// What a killed process left behind is not an answer.
pub(crate) fn live_kubeconfig(from: &Path) -> Option<PathBuf> {
    from.ancestors().find_map(|parent| {
        let directory = parent.join(DIRECTORY);
        let claim = File::open(directory.join("pid")).ok()?;
        let kubeconfig = directory.join("kubeconfig");
        let runs = matches!(claim.try_lock_shared(), Err(TryLockError::WouldBlock));
        (runs && kubeconfig.is_file()).then_some(kubeconfig)
    })
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> ClaimError + '_ {
    move |source| ClaimError::Io {
        path: path.to_path_buf(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_claim_is_refused_until_the_first_ends() {
        let place = tempfile::tempdir().unwrap();
        let first = Workspace::claim(place.path()).unwrap();
        let refused = Workspace::claim(place.path()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "`equate up` already runs in {} (process {})",
                place.path().display(),
                std::process::id()
            )
        );
        drop(first);
        Workspace::claim(place.path()).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_written_through_a_link() {
        for name in [".equate", ".equate/pid", ".equate/.gitignore"] {
            let place = tempfile::tempdir().unwrap();
            let target = place.path().join("target");
            let link = place.path().join(name);
            if name == ".equate" {
                std::fs::create_dir(&target).unwrap();
            } else {
                std::fs::create_dir(place.path().join(".equate")).unwrap();
                std::fs::write(&target, "mine").unwrap();
            }
            std::os::unix::fs::symlink(&target, &link).unwrap();
            let refused = Workspace::claim(place.path()).unwrap_err();
            assert!(refused.to_string().contains("is a symbolic link"), "{refused}");
            if name == ".equate" {
                assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
            } else {
                assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
            }
        }
    }

    #[test]
    fn only_a_live_one_is_found_and_nothing_is_left() {
        let place = tempfile::tempdir().unwrap();
        let below = place.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        let workspace = Workspace::claim(place.path()).unwrap();
        assert_eq!(live_kubeconfig(&below), None, "no kubeconfig yet");
        std::fs::write(workspace.kubeconfig(), "x").unwrap();
        assert_eq!(live_kubeconfig(&below), Some(workspace.kubeconfig()));
        let kubeconfig = workspace.kubeconfig();
        drop(workspace);
        assert!(!place.path().join(DIRECTORY).exists());
        std::fs::create_dir(place.path().join(DIRECTORY)).unwrap();
        std::fs::write(&kubeconfig, "left by a killed process").unwrap();
        assert_eq!(live_kubeconfig(&below), None);
        Workspace::claim(place.path()).unwrap();
        assert!(!place.path().join(DIRECTORY).exists());
    }

    #[test]
    fn what_somebody_keeps_there_stays_and_stays_out_of_git() {
        let place = tempfile::tempdir().unwrap();
        let workspace = Workspace::claim(place.path()).unwrap();
        let directory = place.path().join(DIRECTORY);
        std::fs::create_dir(directory.join("state")).unwrap();
        drop(workspace);
        let mut left: Vec<_> = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, [".gitignore", "state"]);
    }

    /// Claims that are let go while others are taken: at no time do two hold one.
    #[test]
    fn two_never_hold_one() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let place = tempfile::tempdir().unwrap();
        let holders = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        match Workspace::claim(place.path()) {
                            Ok(workspace) => {
                                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                                std::thread::yield_now();
                                holders.fetch_sub(1, Ordering::SeqCst);
                                drop(workspace);
                            }
                            Err(ClaimError::Taken { .. } | ClaimError::Io { .. }) => {}
                            Err(error @ ClaimError::Link { .. }) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        drop(Workspace::claim(place.path()).unwrap());
        assert!(!place.path().join(DIRECTORY).exists());
    }
}
