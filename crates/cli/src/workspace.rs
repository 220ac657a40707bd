//! The directory `.equate/` of a running `equate up`: tells other commands how to reach it.
//!
//! | file | content |
//! |---|---|
//! | `.gitignore` | keeps the directory out of git |
//! | `pid` | the process; locked while it runs, so that a stale file is recognized |
//! | `kubeconfig` | credentials of its API; mode 0600 |
//! | `endpoints.json` | addresses of its artifacts, webhook and metrics; mode 0600 |
//!
//! All files are removed at the end, and the directory too if it is empty. The operating system releases the
//! lock however the process ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

pub(crate) const DIRECTORY: &str = ".equate";

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    #[error("`equate up` already runs in {directory} (process {pid})")]
    Taken { directory: PathBuf, pid: String },
    #[error("{path} is a symbolic link, and `equate up` does not write through links; remove it")]
    Link { path: PathBuf },
    #[error("could not prepare {path}")]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// The files of this command, the claim last.
const OWN: [&str; 4] = ["kubeconfig", "endpoints.json", ".gitignore", "pid"];
/// Attempts to claim a directory that an ending process removes at the same time.
const TRIES: usize = 16;

/// A claimed `.equate/`. Dropping it removes its files and releases the claim.
#[derive(Debug)]
pub(crate) struct Workspace {
    directory: PathBuf,
    claim: File,
}

impl Workspace {
    pub(crate) fn claim(parent: &Path) -> Result<Self, ClaimError> {
        let directory = parent.join(DIRECTORY);
        // a repository's author could redirect writes through a link
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
        // from here on, dropping the workspace cleans up after an error
        let workspace = Self { directory, claim };
        let ignore = workspace.directory.join(".gitignore");
        std::fs::write(&ignore, "*\n").map_err(failed(&ignore))?;
        let mut claim = &workspace.claim;
        claim
            .set_len(0)
            .and_then(|()| claim.rewind())
            .and_then(|()| writeln!(claim, "{}", std::process::id()))
            .map_err(failed(&path))?;
        // a killed process leaves a kubeconfig whose port may belong to another program now
        workspace.forget()?;
        Ok(workspace)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    pub(crate) fn endpoints(&self) -> PathBuf {
        self.directory.join("endpoints.json")
    }

    /// Removes the files that only a live process may leave.
    fn forget(&self) -> Result<(), ClaimError> {
        for path in [self.kubeconfig(), self.endpoints()] {
            remove(&path)?;
        }
        Ok(())
    }

    /// Removes the rest; another process can claim the directory only after the other files are gone.
    fn leave(&self) -> Result<(), ClaimError> {
        self.forget()?;
        let entries = std::fs::read_dir(&self.directory).map_err(failed(&self.directory))?;
        let others = entries
            .filter_map(Result::ok)
            .any(|entry| !OWN.iter().any(|own| entry.file_name() == *own));
        let ignore = self.directory.join(".gitignore");
        // other files, such as persisted state, stay out of git
        if !others {
            remove(&ignore)?;
        }
        remove(&self.directory.join("pid"))?;
        match std::fs::remove_dir(&self.directory) {
            Ok(()) => Ok(()),
            Err(_) if others => Ok(()),
            // another process started here, or ended already
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
            tracing::warn!(%error, "could not remove all of `.equate/`");
        }
        if let Err(error) = self.claim.unlock() {
            tracing::debug!(%error, "could not release the claim");
        }
    }
}

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
            // an ending process removed the directory
            Err(error) if error.kind() == ErrorKind::NotFound => {
                last = Some(error);
                continue;
            }
            Err(error) => return Err(failed(path)(error)),
        };
        match claim.try_lock() {
            // the lock on a removed file excludes nobody
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
        std::io::Error::other("other processes keep claiming it")
    })))
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    matches!((file.metadata(), path.metadata()), (Ok(open), Ok(there)) if same(&open, &there))
}

/// An open file cannot be removed on other systems.
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

/// Writes a file that only its owner can ever read.
pub(crate) fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

/// The kubeconfig of the `equate up` that runs in this directory or the nearest parent. Ignores the files of
/// a killed process.
pub(crate) fn live_kubeconfig(from: &Path) -> Option<PathBuf> {
    from.ancestors().find_map(|parent| {
        let kubeconfig = parent.join(DIRECTORY).join("kubeconfig");
        is_live(&kubeconfig).then_some(kubeconfig)
    })
}

/// Whether this is the kubeconfig of a running `equate up`.
pub(crate) fn is_live(kubeconfig: &Path) -> bool {
    let claim = || File::open(kubeconfig.with_file_name("pid")).ok();
    let runs = |claim: File| matches!(claim.try_lock_shared(), Err(TryLockError::WouldBlock));
    is_ours(kubeconfig) && kubeconfig.is_file() && claim().is_some_and(runs)
}

/// Whether this is the kubeconfig of an `equate up` that runs no more.
pub(crate) fn has_ended(kubeconfig: &Path) -> bool {
    is_ours(kubeconfig) && !is_live(kubeconfig)
}

fn is_ours(kubeconfig: &Path) -> bool {
    let parent = kubeconfig.parent();
    parent.is_some_and(|parent| parent.ends_with(DIRECTORY)) && kubeconfig.ends_with("kubeconfig")
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
    fn second_claim_is_refused_until_the_first_ends() {
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
    fn links_are_not_written_through() {
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
    fn only_a_live_workspace_is_found() {
        let place = tempfile::tempdir().unwrap();
        let below = place.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        let workspace = Workspace::claim(place.path()).unwrap();
        assert_eq!(live_kubeconfig(&below), None, "no kubeconfig yet");
        std::fs::write(workspace.kubeconfig(), "x").unwrap();
        assert_eq!(live_kubeconfig(&below), Some(workspace.kubeconfig()));
        assert!(is_live(&workspace.kubeconfig()) && !is_live(&below.join("kubeconfig")));
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
    fn foreign_files_stay_and_stay_out_of_git() {
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

    /// Claims and releases concurrently: two processes never have the claim at once.
    #[test]
    fn claims_are_exclusive() {
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
