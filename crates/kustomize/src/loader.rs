//! Reads from the tree and from fetched repositories: follows links, enforces limits, records inputs.
//!
//! A fetched repository appears below its label (see `path`), once per clone URL and reference: a build sees
//! one commit of it.

use crate::budget::Budget;
use crate::charts::Charts;
use crate::error::{BuildError, Fault, Place};
use crate::inputs::{Inputs, RemoteInput};
use crate::kustomization::Deprecation;
use crate::path::{self, PathFault};
use crate::remote::{self, RemoteRepository, Remotes};
use crate::secrets::Secrets;
use crate::spec::{Limits, LoadRestriction};
use crate::tree::{EntryKind, ReadError, Tree};
use crate::{Derived, Loaders};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use std::collections::{HashMap, HashSet};

const LINKS_MAX: usize = 40;

pub(crate) struct Loader<'t> {
    tree: &'t dyn Tree,
    remotes: Option<&'t dyn Remotes>,
    pub(crate) charts: Option<&'t dyn Charts>,
    pub(crate) secrets: Option<&'t dyn Secrets>,
    pub(crate) derived: Option<Derived<'t>>,
    fetched: Vec<Fetched>,
    pub(crate) limits: Limits,
    pub(crate) budget: Budget,
    /// How many kustomizations were entered, repeats included.
    pub(crate) entered: usize,
    pub(crate) charts_rendered: usize,
    restriction: LoadRestriction,
    /// Whether the tree is a whole file system, where absolute paths have a meaning.
    pub(crate) whole: bool,
    pub(crate) inputs: Inputs,
    pub(crate) deprecations: Vec<Deprecation>,
    pub(crate) warnings: Vec<String>,
    /// Real paths read so far: a file counts once.
    counted: HashSet<String>,
    bytes: usize,
    found: HashMap<String, Result<(String, EntryKind), ResolveFault>>,
    files: HashMap<String, Bytes>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResolveFault {
    Absent,
    Links,
    /// This link leaves the tree or the repository.
    Outside(String),
}

impl ResolveFault {
    fn fault(self, path: &str) -> Fault {
        let path = path.to_owned();
        match self {
            Self::Absent => Fault::NoFile { path },
            Self::Links => Fault::Links { path },
            Self::Outside(link) => Fault::LinkAway { path, link },
        }
    }
}

struct Fetched {
    /// The prefix of its paths; ends in `//`.
    label: String,
    url: String,
    reference: String,
    tree: Box<dyn Tree>,
}

impl<'t> Loader<'t> {
    pub(crate) fn new(tree: &'t dyn Tree, limits: Limits, restriction: LoadRestriction) -> Self {
        Self {
            tree,
            remotes: None,
            charts: None,
            secrets: None,
            derived: None,
            fetched: Vec::new(),
            budget: Budget::new(&limits),
            entered: 0,
            charts_rendered: 0,
            limits,
            restriction,
            whole: false,
            inputs: Inputs::default(),
            deprecations: Vec::new(),
            warnings: Vec::new(),
            counted: HashSet::new(),
            bytes: 0,
            found: HashMap::new(),
            files: HashMap::new(),
        }
    }

    pub(crate) fn with(self, loaders: Loaders<'t>) -> Self {
        let stop = loaders.stop.cloned().unwrap_or_default();
        Self {
            remotes: loaders.remotes,
            charts: loaders.charts,
            secrets: loaders.secrets,
            derived: loaders.derived,
            budget: Budget::stopped_by(&self.limits, stop),
            ..self
        }
    }

    /// The tree of a path, its label, and the path inside the tree.
    fn tree_of<'p>(&self, path: &'p str) -> (Option<&dyn Tree>, &'p str, &'p str) {
        let (label, rest) = path::split_label(path);
        if label.is_empty() {
            return (Some(self.tree), label, rest);
        }
        let fetched = self.fetched.iter().find(|fetched| fetched.label == label);
        (fetched.map(|fetched| &*fetched.tree), label, rest)
    }

    pub(crate) fn locate(&mut self, path: &str) -> Result<(String, EntryKind), ResolveFault> {
        if let Some(found) = self.found.get(path) {
            return found.clone();
        }
        let found = self.follow(path, LINKS_MAX);
        self.found.insert(path.to_owned(), found.clone());
        found
    }

    fn follow(&mut self, path: &str, links: usize) -> Result<(String, EntryKind), ResolveFault> {
        self.record_path(path);
        let (tree, label, rest) = self.tree_of(path);
        let tree = tree.ok_or(ResolveFault::Absent)?;
        if rest.is_empty() {
            return Ok((path.to_owned(), EntryKind::Directory));
        }
        match tree.stat(rest).map(|stat| stat.kind) {
            Some(kind @ (EntryKind::File | EntryKind::Directory)) => return Ok((path.to_owned(), kind)),
            Some(EntryKind::Symlink) => return self.follow_link(path, "", links),
            None => {}
        }
        for (at, _) in rest.match_indices('/') {
            match tree.stat(&rest[..at]).map(|stat| stat.kind) {
                Some(EntryKind::Directory) => {}
                Some(EntryKind::Symlink) => {
                    let at = label.len() + at;
                    return self.follow_link(&path[..at], &path[at + 1..], links);
                }
                Some(EntryKind::File) | None => return Err(ResolveFault::Absent),
            }
        }
        Err(ResolveFault::Absent)
    }

    fn follow_link(
        &mut self,
        link: &str,
        rest: &str,
        links: usize,
    ) -> Result<(String, EntryKind), ResolveFault> {
        self.record_path(link);
        let links = links.checked_sub(1).ok_or(ResolveFault::Links)?;
        let (tree, label, place) = self.tree_of(link);
        let target = tree
            .and_then(|tree| tree.read(place).ok())
            .ok_or(ResolveFault::Absent)?;
        let target = std::str::from_utf8(&target).map_err(|_| ResolveFault::Absent)?;
        let target = match target.strip_prefix('/') {
            Some(absolute) if self.whole && label.is_empty() => {
                path::join("", absolute.trim_start_matches('/'))
            }
            _ => path::join(path::parent(link), target),
        };
        let whole = target.and_then(|target| path::join(&target, rest));
        let whole = whole.map_err(|_| ResolveFault::Outside(link.to_owned()))?;
        self.follow(&whole, links)
    }

    /// Records a path of the tree. Fetched repositories are recorded as a whole.
    fn record_path(&mut self, path: &str) {
        if path::split_label(path).0.is_empty() {
            self.inputs.record_path(self.tree, path);
        }
    }

    pub(crate) fn fetch(&mut self, wanted: &RemoteRepository) -> Result<String, Fault> {
        let refused = || Fault::Remote {
            url: remote::shown(wanted.raw()),
        };
        let remotes = self.remotes.ok_or_else(refused)?;
        if wanted.forced {
            self.warnings.push(FORCED.to_owned());
        }
        let url = wanted.clone_url();
        let known = |fetched: &&Fetched| fetched.url == url && fetched.reference == wanted.reference;
        let label = match self.fetched.iter().find(known) {
            Some(fetched) => fetched.label.clone(),
            None => {
                let got = remotes.repository(wanted).map_err(|cause| Fault::Fetch {
                    url: remote::shown(wanted.raw()),
                    cause,
                })?;
                self.inputs.fetched(RemoteInput::Repository {
                    url: remote::shown(&url),
                    reference: wanted.reference.clone(),
                    commit: got.commit,
                });
                // repositories that differ only in credentials stay separate
                let mut label = format!("{}//", wanted.label());
                while self.fetched.iter().any(|fetched| fetched.label == label) {
                    label.insert(label.len() - 2, '+');
                }
                self.fetched.push(Fetched {
                    label: label.clone(),
                    url,
                    reference: wanted.reference.clone(),
                    tree: got.tree,
                });
                label
            }
        };
        let path = format!("{label}{}", wanted.directory);
        match self.locate(&path) {
            Ok((real, EntryKind::Directory)) => Ok(real),
            Ok(_) => Err(Fault::ExpectedDirectory { path }),
            Err(lost) => Err(lost.fault(&path)),
        }
    }

    /// Whether a kustomization in `root` came over a network. Such content must not read the local disk.
    pub(crate) fn is_foreign(&self, root: &str) -> bool {
        let label = path::split_label(root).0;
        let fetched = self.fetched.iter().find(|fetched| fetched.label == label);
        fetched.is_some_and(|fetched| !remote::is_file(&fetched.url))
    }

    fn download(&mut self, url: &str) -> Result<(String, Bytes), Fault> {
        let shown = remote::shown(url);
        let Some(remotes) = self.remotes else {
            return Err(Fault::Remote { url: shown });
        };
        if let Some(content) = self.files.get(url) {
            return Ok((shown, content.clone()));
        }
        let content = remotes
            .file(url, self.limits.file_bytes_max)
            .map_err(|cause| Fault::Download {
                url: shown.clone(),
                cause,
            })?;
        self.count(&shown, content.len())?;
        self.inputs.fetched(RemoteInput::File {
            url: shown.clone(),
            digest: Sha256::digest(&content).into(),
        });
        self.files.insert(url.to_owned(), content.clone());
        Ok((shown, content))
    }

    /// Joins `entry` with `root`. An absolute path is kept where it has a meaning.
    fn join(&self, root: &str, entry: &str) -> Result<String, PathFault> {
        let fetched = !path::split_label(root).0.is_empty();
        match path::join(root, entry) {
            Err(PathFault::Absolute) if self.whole && !fetched => {
                path::join("", entry.trim_start_matches('/'))
            }
            joined => joined,
        }
    }

    /// Whether a kustomization in `root` may read a real path.
    pub(crate) fn may_name(&mut self, root: &str, real: &str) -> bool {
        let fetched = !path::split_label(root).0.is_empty();
        let within = self
            .locate(root)
            .map_or(true, |(root, _)| path::is_within(real, &root));
        // a fetched kustomization reads only its own repository, whatever the load restriction
        within || !fetched && self.restriction == LoadRestriction::Tree
    }

    pub(crate) fn resolve_file(&mut self, root: &str, entry: &str) -> Result<String, Fault> {
        let shown = || entry.to_owned();
        let clean = self.join(root, entry).map_err(|fault| match fault {
            PathFault::Absolute => Fault::AbsolutePath { path: shown() },
            PathFault::Outside => Fault::OutsideTree { path: shown() },
        })?;
        match self.locate(&clean) {
            Ok((real, EntryKind::File)) => {
                if !self.may_name(root, &real) {
                    return Err(Fault::LoadRestriction {
                        file: real,
                        root: root.to_owned(),
                    });
                }
                Ok(real)
            }
            Ok(_) => Err(Fault::IsDirectory { path: shown() }),
            Err(lost) => Err(lost.fault(entry)),
        }
    }

    pub(crate) fn read(&mut self, root: &str, entry: &str) -> Result<(String, Bytes), Fault> {
        if remote::is_http(entry) {
            return self.download(entry);
        }
        let real = self.resolve_file(root, entry)?;
        let content = self.read_real(&real)?;
        Ok((real, content))
    }

    pub(crate) fn read_text(&mut self, root: &str, entry: &str) -> Result<(String, String), Fault> {
        let (real, content) = self.read(root, entry)?;
        match String::from_utf8(content.into()) {
            Ok(text) => Ok((real, text)),
            Err(_) => Err(Fault::NotText { path: real }),
        }
    }

    pub(crate) fn read_real(&mut self, path: &str) -> Result<Bytes, Fault> {
        let (tree, _, rest) = self.tree_of(path);
        let content = tree.map_or(Err(ReadError::Absent), |tree| tree.read(rest));
        let content = content.map_err(|source| match source {
            ReadError::Absent => Fault::NoFile {
                path: path.to_owned(),
            },
            source => Fault::Read {
                path: path.to_owned(),
                source,
            },
        })?;
        self.count(path, content.len())?;
        Ok(content)
    }

    fn count(&mut self, path: &str, length: usize) -> Result<(), Fault> {
        if length > self.limits.file_bytes_max {
            return Err(Fault::FileBytes {
                path: path.to_owned(),
                limit: self.limits.file_bytes_max,
            });
        }
        if self.counted.insert(path.to_owned()) {
            self.bytes += length;
        }
        if self.counted.len() > self.limits.files_max {
            return Err(Fault::Files(self.limits.files_max));
        }
        if self.bytes > self.limits.bytes_max {
            return Err(Fault::Bytes(self.limits.bytes_max));
        }
        self.budget.charge(length)?;
        Ok(())
    }

    pub(crate) fn walk(&mut self, dir: &str) -> Vec<(String, EntryKind)> {
        if path::split_label(dir).0.is_empty() {
            self.inputs.record_listing(self.tree, dir);
        }
        let (tree, _, rest) = self.tree_of(dir);
        let mut entries: Vec<(String, EntryKind)> = tree
            .and_then(|tree| tree.list(rest))
            .unwrap_or_default()
            .into_iter()
            .map(|(name, stat)| (name, stat.kind))
            .collect();
        entries.sort_by(|left, right| left.0.cmp(&right.0));
        entries
    }

    pub(crate) fn resolve_directory(&mut self, root: &str, entry: &str) -> Result<String, Fault> {
        let clean = path::join(root, entry).map_err(|fault| misplaced(fault, root, entry))?;
        match self.locate(&clean) {
            Ok((real, EntryKind::Directory)) => Ok(real),
            Ok(_) => Err(Fault::NotDirectory {
                path: entry.to_owned(),
            }),
            Err(lost) => Err(lost.fault(entry)),
        }
    }

    /// [`Self::resolve_directory`], or `None` if there is none.
    pub(crate) fn find_directory(&mut self, root: &str, entry: &str) -> Result<Option<String>, Fault> {
        let clean = self
            .join(root, entry)
            .map_err(|fault| misplaced(fault, root, entry))?;
        match self.locate(&clean) {
            Ok((real, EntryKind::Directory)) => Ok(Some(real)),
            Ok(_) | Err(ResolveFault::Absent) => Ok(None),
            Err(lost) => Err(lost.fault(entry)),
        }
    }

    /// [`Self::resolve_directory`] for a base or component. A path that looks like two joined entries is
    /// refused.
    pub(crate) fn resolve_base(&mut self, root: &str, entry: &str) -> Result<String, Fault> {
        let odd = |segment: &str| !matches!(segment, "" | "." | "..") && segment.contains("..");
        if entry.is_empty() {
            return Err(Fault::EmptyRoot);
        }
        if !entry.starts_with('/') && entry.split('/').any(odd) {
            return Err(Fault::AmbiguousPath {
                path: entry.to_owned(),
            });
        }
        self.resolve_directory(root, entry)
    }
}

/// Whether a URL whose download failed may still be a repository's.
pub(crate) fn may_be_repository(fault: &Fault) -> bool {
    !matches!(
        fault,
        Fault::Files(_) | Fault::Bytes(_) | Fault::FileBytes { .. } | Fault::Remote { .. }
    )
}

/// kustomize's text.
const FORCED: &str = "Warning: Forcing the git protocol using the 'git::' URL prefix is not supported. \
                      Kustomize currently strips this invalid prefix, but will stop doing so in a future release. \
                      Please remove the 'git::' prefix from your configuration.";

pub(crate) fn at(place: Place) -> impl FnOnce(Fault) -> BuildError {
    move |fault| BuildError {
        place,
        fault: Box::new(fault),
        included_from: Vec::new(),
        warnings: Vec::new(),
    }
}

fn misplaced(fault: PathFault, root: &str, entry: &str) -> Fault {
    let path = entry.to_owned();
    let repository = path::split_label(root).0.trim_end_matches('/');
    match fault {
        PathFault::Absolute => Fault::AbsolutePath { path },
        PathFault::Outside if repository.is_empty() => Fault::OutsideTree { path },
        PathFault::Outside => Fault::OutsideRepository {
            path,
            repository: repository.to_owned(),
        },
    }
}
