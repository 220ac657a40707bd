//! Turns of processes on one machine that push to the same branch.
//!
//! Without them each push makes all others lose, and each loser plans again: the work grows with the square of
//! their number. A process that lost once waits for its turn before it plans again. A turn protects nothing,
//! since only the remote's compare-and-swap does: a process that cannot get one goes on without it.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::Path,
    time::{Duration, Instant},
};

use sha2::{Digest as _, Sha256};

use super::{pause, random_share};

/// The longest wait. A holder may wait for a remote that does not answer.
const WAIT_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

/// A turn that ends when it is dropped. The system ends it with the process, too.
#[derive(Debug)]
pub(super) struct Turn {
    _file: File,
}

impl Turn {
    /// Waits for the turn to push to a branch. `None` if the directory cannot be written, or after a minute.
    pub(super) fn take(directory: &Path, branch: &str) -> Option<Self> {
        std::fs::create_dir_all(directory).ok()?;
        let digest = Sha256::digest(branch);
        let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let path = directory.join(format!("turn-{digits}"));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .ok()?;
        let end = Instant::now() + WAIT_MAX;
        while Instant::now() < end {
            match file.try_lock() {
                Ok(()) => return Some(Self { _file: file }),
                // a random part, so that those who wait do not ask at the same time
                Err(TryLockError::WouldBlock) => pause(POLL.mul_f64(0.5 + random_share())),
                Err(TryLockError::Error(_)) => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Turn;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_process_has_the_turn_of_a_branch() {
        let directory = tempfile::tempdir().unwrap();
        let holders = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let turn = Turn::take(directory.path(), "main").unwrap();
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                    let other = Turn::take(directory.path(), "next").map(drop);
                    assert!(other.is_some(), "another branch has its own turn");
                    holders.fetch_sub(1, Ordering::SeqCst);
                    drop(turn);
                });
            }
        });
    }

    #[test]
    fn a_file_in_place_of_the_directory_gives_no_turn() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Turn::take(file.path(), "main").is_none());
    }
}
