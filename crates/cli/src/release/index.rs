//! The history of a branch on disk, beside the objects of the clone.
//!
//! The file only saves time. One that is missing, damaged, of another configuration or of another version of
//! Equate is made anew, and a clone that cannot be written works without it.

use super::repository::Repository;
use equate_release::history::{self, History};
use std::io::Write as _;
use std::path::PathBuf;

/// More is a mistake, not a history.
const BYTES_MAX: u64 = 1 << 30;

/// The file of a branch.
pub(super) struct Index {
    path: PathBuf,
}

impl Index {
    /// A local branch and its upstream have a file each: one may be behind the other for long.
    pub(super) fn of(repository: &Repository) -> Self {
        let branch = match &repository.upstream {
            Some((upstream, _)) => format!("{} {}", upstream.url, upstream.branch),
            None => repository.branch.clone(),
        };
        let directory = repository.inner.common_dir().join("equate");
        Self {
            path: directory.join(history::file_name(&branch)),
        }
    }

    /// The stored history of a configuration.
    pub(super) fn read(&self, key: &str) -> Option<History> {
        let found = std::fs::metadata(&self.path).ok()?;
        if !found.is_file() || found.len() > BYTES_MAX {
            return None;
        }
        History::decode(&std::fs::read(&self.path).ok()?, key)
    }

    /// Stores a history; the file is the old one or the new one at any time.
    pub(super) fn write(&self, key: &str, history: &History) -> std::io::Result<()> {
        let directory = self.path.parent().unwrap_or(&self.path);
        std::fs::create_dir_all(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(&history.encode(key))?;
        file.persist(&self.path)?;
        Ok(())
    }
}
