//! A checked-out repository as a file tree, and its kustomizations.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use equate_kustomize::{EntryKind, ReadError, Stat, Tree};

const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

pub(super) struct Disk {
    root: PathBuf,
}

impl Disk {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }
}

impl Tree for Disk {
    fn stat(&self, path: &str) -> Option<Stat> {
        stat(&self.root.join(path))
    }

    fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>> {
        let entries = fs::read_dir(self.root.join(dir)).ok()?;
        let named = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((name, stat(&entry.path())?))
        });
        Some(named.collect())
    }

    fn read(&self, path: &str) -> Result<bytes::Bytes, ReadError> {
        let store = |error: io::Error| ReadError::Store(Box::new(error));
        let path = self.root.join(path);
        match stat(&path).ok_or(ReadError::Absent)?.kind {
            EntryKind::Directory => Err(ReadError::Directory),
            EntryKind::File => Ok(fs::read(&path).map_err(store)?.into()),
            EntryKind::Symlink => {
                let target = fs::read_link(&path).map_err(store)?;
                Ok(target.into_os_string().into_encoded_bytes().into())
            }
        }
    }
}

/// All ids are equal: one build reads, and nothing is cached.
fn stat(path: &Path) -> Option<Stat> {
    let kind = fs::symlink_metadata(path).ok()?.file_type();
    let kind = if kind.is_symlink() {
        EntryKind::Symlink
    } else if kind.is_dir() {
        EntryKind::Directory
    } else {
        EntryKind::File
    };
    Some(Stat { kind, id: [0; 32] })
}

/// The directories with a kustomization that builds alone, relative to the root, sorted.
pub(super) fn kustomizations(root: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut pending = vec![String::new()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(root.join(&dir))? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = if dir.is_empty() {
                name.clone()
            } else {
                format!("{dir}/{name}")
            };
            let kind = entry.file_type()?;
            if kind.is_dir() && name != ".git" {
                pending.push(path);
            } else if !kind.is_dir() && NAMES.contains(&name.as_str()) && !is_component(&entry.path()) {
                found.push(dir.clone());
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn is_component(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().any(|line| {
        line.strip_prefix("kind:")
            .is_some_and(|kind| kind.trim() == "Component")
    })
}
