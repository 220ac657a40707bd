//! This machine's file system as a tree, from its root: a base may be anywhere.
//!
//! Reports links without following them: the build follows them, so that it can check where a file really is.
//! Hides devices, pipes and sockets.

use bytes::Bytes;
use equate_kustomize::{EntryKind, ReadError, Stat, Tree};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The file system as input of one build.
#[derive(Debug)]
pub(crate) struct Disk {
    /// Reads one byte more than this, so that the build can detect a file that is too long.
    file_bytes_max: usize,
    /// Cache: whether a directory's path contains no link.
    real: RefCell<HashMap<String, bool>>,
}

impl Disk {
    pub(crate) fn new(file_bytes_max: usize) -> Self {
        Self {
            file_bytes_max,
            real: RefCell::default(),
        }
    }

    /// Whether the path is a directory and contains no link.
    fn is_real(&self, dir: &str) -> bool {
        if dir.is_empty() {
            return true;
        }
        if let Some(known) = self.real.borrow().get(dir) {
            return *known;
        }
        let above = dir.rsplit_once('/').map_or("", |(above, _)| above);
        let real = self.is_real(above) && fs::symlink_metadata(place(dir)).is_ok_and(|found| found.is_dir());
        self.real.borrow_mut().insert(dir.to_owned(), real);
        real
    }
}

/// The path without its leading slash, as trees of builds have it.
pub(crate) fn tree_path(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches('/').to_owned()
}

fn place(path: &str) -> PathBuf {
    Path::new("/").join(path)
}

impl Tree for Disk {
    fn stat(&self, path: &str) -> Option<Stat> {
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        let found = self.is_real(above).then(|| fs::symlink_metadata(place(path)))?;
        stat(&found.ok()?)
    }

    fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>> {
        let entries = fs::read_dir(place(dir)).ok()?;
        let entries = entries.filter_map(Result::ok).filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            Some((name, stat(&entry.metadata().ok()?)?))
        });
        Some(entries.collect())
    }

    fn read(&self, path: &str) -> Result<Bytes, ReadError> {
        let place = place(path);
        let found = fs::symlink_metadata(&place).map_err(failed)?;
        if found.is_symlink() {
            let target = fs::read_link(&place).map_err(failed)?;
            return Ok(Bytes::from(target.into_os_string().into_encoded_bytes()));
        }
        if found.is_dir() {
            return Err(ReadError::Directory);
        }
        let mut content = Vec::new();
        let most = u64::try_from(self.file_bytes_max)
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        let file = File::open(&place).map_err(failed)?;
        file.take(most).read_to_end(&mut content).map_err(failed)?;
        Ok(Bytes::from(content))
    }
}

/// Identified by size and time, which suffices for one build.
fn stat(found: &Metadata) -> Option<Stat> {
    let kind = match found.file_type() {
        kind if kind.is_file() => EntryKind::File,
        kind if kind.is_dir() => EntryKind::Directory,
        kind if kind.is_symlink() => EntryKind::Symlink,
        _ => return None,
    };
    let mut id = [0; 32];
    id[..8].copy_from_slice(&found.len().to_be_bytes());
    let changed = found
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    id[8..24].copy_from_slice(&changed.unwrap_or_default().as_nanos().to_be_bytes());
    Some(Stat { kind, id })
}

fn failed(error: io::Error) -> ReadError {
    match error.kind() {
        io::ErrorKind::NotFound => ReadError::Absent,
        io::ErrorKind::IsADirectory => ReadError::Directory,
        _ => ReadError::Store(Box::new(error)),
    }
}
