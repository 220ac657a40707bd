//! Reading from the tree: symbolic links, limits, what may be read, what was read.

use crate::error::{BuildError, Fault, Place};
use crate::inputs::Inputs;
use crate::kustomization::Deprecation;
use crate::path::{self, PathFault};
use crate::spec::{Limits, LoadRestriction};
use crate::tree::{EntryKind, ReadError, Tree};
use bytes::Bytes;
use std::collections::{HashMap, HashSet};

/// How many symbolic links one path may lead through.
const LINKS_MAX: usize = 40;

/// The tree, seen through the rules of one build.
pub(crate) struct Loader<'t> {
    tree: &'t dyn Tree,
    pub(crate) limits: Limits,
    restriction: LoadRestriction,
    pub(crate) inputs: Inputs,
    /// What the kustomization files read so far say in fields that have successors.
    pub(crate) deprecations: Vec<Deprecation>,
    /// Real paths read so far: a file counts once.
    counted: HashSet<String>,
    bytes: usize,
    found: HashMap<String, Option<(String, EntryKind)>>,
}

impl<'t> Loader<'t> {
    pub(crate) fn new(tree: &'t dyn Tree, limits: Limits, restriction: LoadRestriction) -> Self {
        Self {
            tree,
            limits,
            restriction,
            inputs: Inputs::default(),
            deprecations: Vec::new(),
            counted: HashSet::new(),
            bytes: 0,
            found: HashMap::new(),
        }
    }

    /// What stands at a clean path, links followed: its real path and kind.
    pub(crate) fn locate(&mut self, path: &str) -> Option<(String, EntryKind)> {
        if let Some(found) = self.found.get(path) {
            return found.clone();
        }
        let found = self.follow(path, LINKS_MAX);
        self.found.insert(path.to_owned(), found.clone());
        found
    }

    fn follow(&mut self, path: &str, links: usize) -> Option<(String, EntryKind)> {
        self.inputs.saw(self.tree, path);
        if path.is_empty() {
            return Some((String::new(), EntryKind::Directory));
        }
        match self.tree.stat(path).map(|stat| stat.kind) {
            Some(kind @ (EntryKind::File | EntryKind::Directory)) => return Some((path.to_owned(), kind)),
            Some(EntryKind::Symlink) => return self.follow_link(path, "", links),
            None => {}
        }
        // a link on the way there?
        for (at, _) in path.match_indices('/') {
            match self.tree.stat(&path[..at]).map(|stat| stat.kind) {
                Some(EntryKind::Directory) => {}
                Some(EntryKind::Symlink) => return self.follow_link(&path[..at], &path[at + 1..], links),
                Some(EntryKind::File) | None => return None,
            }
        }
        None
    }

    fn follow_link(&mut self, link: &str, rest: &str, links: usize) -> Option<(String, EntryKind)> {
        self.inputs.saw(self.tree, link);
        let links = links.checked_sub(1)?;
        let target = self.tree.read(link).ok()?;
        let target = path::join(path::parent(link), std::str::from_utf8(&target).ok()?).ok()?;
        let whole = path::join(&target, rest).ok()?;
        self.follow(&whole, links)
    }

    /// The real path of the file that `entry` names in a kustomization in `root`.
    pub(crate) fn resolve_file(&mut self, root: &str, entry: &str) -> Result<String, Fault> {
        let shown = || entry.to_owned();
        let clean = match path::join(root, entry) {
            Ok(clean) => clean,
            Err(PathFault::Absolute) => return Err(Fault::AbsolutePath { path: shown() }),
            Err(PathFault::Outside) => {
                return Err(Fault::OutsideTree { path: shown() });
            }
        };
        match self.locate(&clean) {
            Some((real, EntryKind::File)) => {
                let within = self
                    .locate(root)
                    .is_none_or(|(root, _)| path::is_within(&real, &root));
                if self.restriction == LoadRestriction::Root && !within {
                    return Err(Fault::LoadRestriction {
                        file: real,
                        root: root.to_owned(),
                    });
                }
                Ok(real)
            }
            Some(_) => Err(Fault::IsDirectory { path: shown() }),
            None => Err(Fault::NoFile { path: shown() }),
        }
    }

    /// Reads the file that `entry` names in a kustomization in `root`: its real path and content.
    pub(crate) fn read(&mut self, root: &str, entry: &str) -> Result<(String, Bytes), Fault> {
        let real = self.resolve_file(root, entry)?;
        let content = self.read_real(&real)?;
        Ok((real, content))
    }

    /// The same, as text.
    pub(crate) fn read_text(&mut self, root: &str, entry: &str) -> Result<(String, String), Fault> {
        let (real, content) = self.read(root, entry)?;
        match String::from_utf8(content.into()) {
            Ok(text) => Ok((real, text)),
            Err(_) => Err(Fault::NotText { path: real }),
        }
    }

    fn read_real(&mut self, path: &str) -> Result<Bytes, Fault> {
        let content = self.tree.read(path).map_err(|source| match source {
            ReadError::Absent => Fault::NoFile {
                path: path.to_owned(),
            },
            source => Fault::Read {
                path: path.to_owned(),
                source,
            },
        })?;
        if content.len() > self.limits.file_bytes_max {
            return Err(Fault::FileBytes {
                path: path.to_owned(),
                limit: self.limits.file_bytes_max,
            });
        }
        if self.counted.insert(path.to_owned()) {
            self.bytes += content.len();
        }
        if self.counted.len() > self.limits.files_max {
            return Err(Fault::Files(self.limits.files_max));
        }
        if self.bytes > self.limits.bytes_max {
            return Err(Fault::Bytes(self.limits.bytes_max));
        }
        Ok(content)
    }

    /// What a directory lists, in order of the names; the walk is recorded.
    pub(crate) fn walk(&mut self, dir: &str) -> Vec<(String, EntryKind)> {
        self.inputs.walked(self.tree, dir);
        let mut entries: Vec<(String, EntryKind)> = self
            .tree
            .list(dir)
            .unwrap_or_default()
            .into_iter()
            .map(|(name, stat)| (name, stat.kind))
            .collect();
        entries.sort_by(|left, right| left.0.cmp(&right.0));
        entries
    }

    /// The real path of the directory that `entry` names in a kustomization in `root`.
    pub(crate) fn resolve_directory(&mut self, root: &str, entry: &str) -> Result<String, Fault> {
        let clean = match path::join(root, entry) {
            Ok(clean) => clean,
            Err(PathFault::Absolute) => {
                return Err(Fault::AbsolutePath {
                    path: entry.to_owned(),
                });
            }
            Err(PathFault::Outside) => {
                return Err(Fault::OutsideTree {
                    path: entry.to_owned(),
                });
            }
        };
        match self.locate(&clean) {
            Some((real, EntryKind::Directory)) => Ok(real),
            Some(_) => Err(Fault::NotDirectory {
                path: entry.to_owned(),
            }),
            None => Err(Fault::NoFile {
                path: entry.to_owned(),
            }),
        }
    }
}

/// Puts a fault at a place.
pub(crate) fn at(place: Place) -> impl FnOnce(Fault) -> BuildError {
    move |fault| BuildError {
        place,
        fault: Box::new(fault),
    }
}
