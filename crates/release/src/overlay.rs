//! A tree with edited files, for builds of a change that is not written yet.

use bytes::Bytes;
use equate_kustomize::{EntryKind, ReadError, Stat, Tree};
use sha2::{Digest as _, Sha256};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// New contents by path; `None` removes the file.
pub type Files = BTreeMap<String, Option<Bytes>>;

/// A tree with some files replaced, added or removed.
pub struct Overlay<'t> {
    base: &'t dyn Tree,
    files: &'t Files,
    /// The directories above the files, with their entries once they are known.
    directories: BTreeMap<String, OnceCell<Vec<(String, Stat)>>>,
}

impl std::fmt::Debug for Overlay<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl<'t> Overlay<'t> {
    /// Lays files over a tree.
    pub fn new(base: &'t dyn Tree, files: &'t Files) -> Self {
        let mut directories = BTreeMap::new();
        for path in files.keys() {
            let above = path.match_indices('/').map(|(at, _)| &path[..at]);
            directories.extend(above.chain([""]).map(|above| (above.to_owned(), OnceCell::new())));
        }
        Self {
            base,
            files,
            directories,
        }
    }

    /// The entries of a directory with changes; those without are as in the tree below.
    fn changed(&self, dir: &str) -> Option<&[(String, Stat)]> {
        let known = self.directories.get(dir)?;
        let entries = known.get_or_init(|| {
            let prefix = match dir {
                "" => String::new(),
                dir => format!("{dir}/"),
            };
            let mut entries: BTreeMap<String, Stat> =
                self.base.list(dir).unwrap_or_default().into_iter().collect();
            let paths = self.files.range(prefix.clone()..).map(|(path, _)| path);
            let names: BTreeSet<&str> = paths
                .map_while(|path| path.strip_prefix(&prefix)?.split('/').next())
                .collect();
            for name in names {
                match self.stat(&format!("{prefix}{name}")) {
                    Some(stat) => entries.insert(name.to_owned(), stat),
                    None => entries.remove(name),
                };
            }
            entries.into_iter().collect()
        });
        Some(entries)
    }
}

impl Tree for Overlay<'_> {
    fn stat(&self, path: &str) -> Option<Stat> {
        match self.files.get(path) {
            Some(None) => return None,
            Some(Some(content)) => return Some(file(content)),
            None => {}
        }
        let Some(entries) = self.changed(path) else {
            return self.base.stat(path);
        };
        if entries.is_empty() {
            return None;
        }
        let mut hash = Sha256::new();
        for (name, stat) in entries {
            hash.update(name.as_bytes());
            hash.update([0, u8::from(stat.kind == EntryKind::Directory)]);
            hash.update(stat.id);
        }
        Some(Stat {
            kind: EntryKind::Directory,
            id: hash.finalize().into(),
        })
    }

    fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>> {
        match self.changed(dir) {
            Some(entries) => Some(entries.to_vec()),
            None => self.base.list(dir),
        }
    }

    fn read(&self, path: &str) -> Result<Bytes, ReadError> {
        match self.files.get(path) {
            Some(Some(content)) => Ok(content.clone()),
            Some(None) => Err(ReadError::Absent),
            None => self.base.read(path),
        }
    }
}

fn file(content: &[u8]) -> Stat {
    Stat {
        kind: EntryKind::File,
        id: Sha256::digest(content).into(),
    }
}

/// A tree of files in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    files: BTreeMap<String, Bytes>,
}

impl Memory {
    /// The files by path.
    pub fn files(&self) -> &BTreeMap<String, Bytes> {
        &self.files
    }

    /// Sets the content of a file.
    #[must_use]
    pub fn with(mut self, path: &str, content: impl Into<Bytes>) -> Self {
        self.files.insert(path.to_owned(), content.into());
        self
    }

    /// The tree after a change.
    #[must_use]
    pub fn changed(mut self, files: &Files) -> Self {
        for (path, content) in files {
            match content {
                Some(content) => self.files.insert(path.clone(), content.clone()),
                None => self.files.remove(path),
            };
        }
        self
    }

    fn below<'m>(&'m self, dir: &str) -> impl Iterator<Item = (&'m str, &'m Bytes)> {
        let prefix = if dir.is_empty() {
            String::new()
        } else {
            format!("{dir}/")
        };
        let start = self.files.range(prefix.clone()..);
        start
            .take_while({
                let prefix = prefix.clone();
                move |(path, _)| path.starts_with(&prefix)
            })
            .map(move |(path, content)| (&path[prefix.len()..], content))
    }
}

impl Tree for Memory {
    fn stat(&self, path: &str) -> Option<Stat> {
        if let Some(content) = self.files.get(path) {
            return Some(file(content));
        }
        let mut hash = Sha256::new();
        let mut empty = true;
        for (rest, content) in self.below(path) {
            empty = false;
            hash.update(rest.as_bytes());
            hash.update([0]);
            hash.update(Sha256::digest(content));
        }
        (!empty || path.is_empty()).then(|| Stat {
            kind: EntryKind::Directory,
            id: hash.finalize().into(),
        })
    }

    fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>> {
        let stat = self.stat(dir)?;
        if stat.kind != EntryKind::Directory {
            return None;
        }
        let names: BTreeSet<&str> = self
            .below(dir)
            .filter_map(|(rest, _)| rest.split('/').next())
            .collect();
        let entries = names.into_iter().filter_map(|name| {
            let path = if dir.is_empty() {
                name.to_owned()
            } else {
                format!("{dir}/{name}")
            };
            Some((name.to_owned(), self.stat(&path)?))
        });
        Some(entries.collect())
    }

    fn read(&self, path: &str) -> Result<Bytes, ReadError> {
        match self.files.get(path) {
            Some(content) => Ok(content.clone()),
            None if self.stat(path).is_some() => Err(ReadError::Directory),
            None => Err(ReadError::Absent),
        }
    }
}
