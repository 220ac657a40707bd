//! A tree in memory.

use bytes::Bytes;
use equate_kustomize::{EntryKind, ReadError, Stat, Tree};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// Files by path; directories are implied.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    files: BTreeMap<String, (EntryKind, Vec<u8>)>,
}

impl Memory {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.put(path, text.as_bytes());
        }
        tree
    }

    pub(crate) fn put(&mut self, path: &str, content: &[u8]) {
        let path = path.trim_start_matches("./").trim_start_matches('/');
        self.files
            .insert(path.to_owned(), (EntryKind::File, content.to_vec()));
    }

    pub(crate) fn link(&mut self, path: &str, target: &str) {
        let link = (EntryKind::Symlink, target.as_bytes().to_vec());
        self.files.insert(path.to_owned(), link);
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.files.remove(path);
    }

    pub(crate) fn with(&self, path: &str, text: &str) -> Self {
        let mut tree = self.clone();
        tree.put(path, text.as_bytes());
        tree
    }
}

impl Tree for Memory {
    fn stat(&self, path: &str) -> Option<Stat> {
        if let Some((kind, content)) = self.files.get(path) {
            return Some(Stat {
                kind: *kind,
                id: Sha256::digest(content).into(),
            });
        }
        let prefix = if path.is_empty() {
            String::new()
        } else {
            format!("{path}/")
        };
        let mut below = self
            .files
            .range(prefix.clone()..)
            .take_while(|(file, _)| file.starts_with(&prefix))
            .peekable();
        below.peek()?;
        // no build uses a directory's id: a walk records the listing
        Some(Stat {
            kind: EntryKind::Directory,
            id: [0; 32],
        })
    }

    fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>> {
        let prefix = if dir.is_empty() {
            String::new()
        } else {
            format!("{dir}/")
        };
        let mut names: Vec<&str> = self
            .files
            .range(prefix.clone()..)
            .map_while(|(file, _)| file.strip_prefix(&prefix))
            .filter_map(|rest| rest.split('/').next())
            .collect();
        names.dedup();
        if names.is_empty() {
            return None;
        }
        names
            .into_iter()
            .map(|name| Some((name.to_owned(), self.stat(&format!("{prefix}{name}"))?)))
            .collect()
    }

    fn read(&self, path: &str) -> Result<Bytes, ReadError> {
        match self.files.get(path) {
            Some((_, content)) => Ok(content.clone().into()),
            None if self.stat(path).is_some() => Err(ReadError::Directory),
            None => Err(ReadError::Absent),
        }
    }
}
