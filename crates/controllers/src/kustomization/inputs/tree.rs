//! Adapts an artifact's tree to builds: `source` and `kustomize` do not depend on each other.

use bytes::Bytes;
use equate_kustomize::{EntryKind, ReadError, Stat};
use equate_source::{Entry, Tree};

/// A tree of `source` as content of a `kustomize` build.
#[derive(Debug, Clone)]
pub struct Content(pub Tree);

impl equate_kustomize::Tree for Content {
    fn stat(&self, path: &str) -> Option<Stat> {
        self.0.entry(path).map(|entry| stat(&entry))
    }

    fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>> {
        let entries = self.0.list(dir)?;
        Some(
            entries
                .into_iter()
                .map(|(name, entry)| (name, stat(&entry)))
                .collect(),
        )
    }

    fn read(&self, path: &str) -> Result<Bytes, ReadError> {
        match self.0.entry(path) {
            None => Err(ReadError::Absent),
            Some(Entry::Directory { .. }) => Err(ReadError::Directory),
            Some(Entry::File { .. }) => self
                .0
                .read(path)
                .map_err(|error| ReadError::Store(Box::new(error))),
        }
    }
}

fn stat(entry: &Entry) -> Stat {
    match entry {
        Entry::File { id, .. } => Stat {
            kind: EntryKind::File,
            id: id.0,
        },
        Entry::Directory { id } => Stat {
            kind: EntryKind::Directory,
            id: id.0,
        },
    }
}
