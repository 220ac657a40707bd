//! Composes a tree of directories of a commit, its submodules, and files of other trees.
//!
//! `.sourceignore` files and `spec.ignore` apply to the result as a whole. As in Flux, a part may replace
//! only an empty directory of another part, such as a submodule's.
//!
//! Files of the commit stay in git; those of other parts go to a file on disk, so that memory holds names only.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use equate_git::{BlobId, Mode};
use thiserror::Error;

use super::build::{File, names};
use super::ignored::IgnoreFiles;
use super::pack::Packed;
use super::{Building, Content, Node, Packing, Source, Tree, TreeError};
use crate::ignore::{IGNORE_FILE, Ignore, IgnoreDecision};
use crate::limits::{LimitExceeded, Limits};
use crate::pauses::{ENTRY, Pauses, Stopped};

/// The parts of a tree.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// The commit.
    pub git: &'a equate_git::Tree,
    /// The directories and files to take; all if empty.
    pub only: &'a [String],
    /// The commits of its submodules, outer ones first.
    pub submodules: &'a [Submodule],
    /// Files of other trees.
    pub included: &'a [Included],
}

/// A submodule's commit.
#[derive(Debug, Clone)]
pub struct Submodule {
    /// Its path.
    pub path: String,
    /// Its content.
    pub tree: equate_git::Tree,
}

/// Files of another tree.
#[derive(Debug, Clone)]
pub struct Included {
    /// The name for errors.
    pub name: String,
    /// The tree.
    pub tree: Tree,
    /// The directory or file to take, "" for all.
    pub from: String,
    /// The destination.
    pub to: String,
}

/// The reason why a tree cannot be composed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ComposeError {
    /// A requested part of the commit does not exist.
    #[error("sparse checkout dir '{path}' does not exist in repository")]
    Absent {
        /// The requested path.
        path: String,
    },
    /// Files of another tree cannot be included.
    #[error("failed to copy '{name}' include from {from:?} to {to:?}: {why}")]
    Include {
        /// The name of the tree.
        name: String,
        /// The path to take.
        from: String,
        /// The destination.
        to: String,
        /// The reason.
        why: String,
    },
    /// The tree cannot be built.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl From<Stopped> for ComposeError {
    fn from(stopped: Stopped) -> ComposeError {
        ComposeError::Tree(stopped.into())
    }
}

/// An entry before ignore rules apply. Only empty directories are listed.
enum Item {
    File(FileContent, bool),
    /// Of another tree.
    Copy(File),
    Link,
    Directory,
}

enum FileContent {
    /// In the commit itself.
    Git(BlobId),
    /// In a submodule's commit.
    Submodule(usize, BlobId),
}

impl Tree {
    /// Composes the parts, without the files that `ignore` and their `.sourceignore` files exclude. The contents of
    /// other parts than the commit go to `pack`, an empty file.
    ///
    /// # Errors
    /// A part is missing or conflicts with another, a limit is exceeded, an object cannot be read, or the work is
    /// to end.
    pub fn compose(
        parts: &Parts<'_>,
        ignore: &Ignore,
        limits: &Limits,
        pack: fs::File,
        pauses: &Pauses<'_>,
    ) -> Result<Tree, ComposeError> {
        let mut composing = Composing {
            parts,
            limits,
            pauses,
            items: BTreeMap::new(),
            packing: Packing::new(pack),
            blobs: HashMap::new(),
            bytes: 0,
        };
        composing.commit()?;
        for index in 0..parts.submodules.len() {
            pauses.here()?;
            composing.submodule(index)?;
        }
        for included in parts.included {
            pauses.here()?;
            composing.include(included)?;
        }
        Ok(composing.finish(ignore)?)
    }
}

struct Composing<'a> {
    parts: &'a Parts<'a>,
    limits: &'a Limits,
    pauses: &'a Pauses<'a>,
    items: BTreeMap<String, Item>,
    packing: Packing,
    blobs: HashMap<BlobId, Packed>,
    bytes: u64,
}

impl Composing<'_> {
    fn commit(&mut self) -> Result<(), ComposeError> {
        let git = self.parts.git;
        let only: Vec<&str> = self.parts.only.iter().map(|path| selected(path)).collect();
        for (path, asked) in only.iter().zip(self.parts.only) {
            self.pauses.here()?;
            let absent = || ComposeError::Absent { path: asked.clone() };
            if path.split('/').any(|name| name == "..") || path.starts_with('/') {
                return Err(absent());
            }
            let found = match git.entry(path).map_err(|source| unread(path, source))? {
                Some(_) => true,
                None => git
                    .subtree(path)
                    .map_err(|source| unread(path, source))?
                    .is_some(),
            };
            if !found {
                return Err(absent());
            }
        }
        let selection = Selection(only.into_iter().collect());
        // without pauses: meanwhile, others may wait for the repository
        let entries = git
            .entries_where(|directory| selection.is_on_the_way(directory))
            .map_err(|source| unread("", source))?;
        for entry in entries {
            self.pauses.count(ENTRY)?;
            if selection.has(&entry.path) {
                let item = item(entry.mode, || FileContent::Git(entry.id));
                self.put_below(entry.path, item)?;
            }
        }
        Ok(())
    }

    fn submodule(&mut self, index: usize) -> Result<(), ComposeError> {
        let Some(Submodule { path, tree }) = self.parts.submodules.get(index) else {
            return Ok(());
        };
        // a submodule outside the selection does not exist
        if !matches!(self.items.get(path), Some(Item::Directory)) {
            return Ok(());
        }
        let entries = tree.entries().map_err(|source| unread(path, source))?;
        for entry in entries {
            self.pauses.count(ENTRY)?;
            let item = item(entry.mode, || FileContent::Submodule(index, entry.id));
            self.put_below(format!("{path}/{}", entry.path), item)?;
        }
        Ok(())
    }

    fn include(&mut self, included: &Included) -> Result<(), ComposeError> {
        let refuse = |why: String| ComposeError::Include {
            name: included.name.clone(),
            from: included.from.clone(),
            to: included.to.clone(),
            why,
        };
        let (from, to) = (selected(&included.from), selected(&included.to));
        self.make_room(to).map_err(|why| refuse(why.to_owned()))?;
        let source = &included.tree;
        let uncopied = |path: &str, error: TreeError| match error {
            TreeError::Content(error) => refuse(format!("{path:?}: {error}")),
            error => error.into(),
        };
        let place = |path: &str| match (to, path) {
            ("", path) => path.to_owned(),
            (to, "") => to.to_owned(),
            (to, path) => format!("{to}/{path}"),
        };
        match source.entry(from) {
            None => return Err(refuse("it does not exist".to_owned())),
            Some(super::Entry::File { .. }) if to.is_empty() => {
                return Err(refuse("a file cannot replace the whole tree".to_owned()));
            }
            Some(super::Entry::File { .. }) => {
                if let Some(Node::File(file)) = source.find(from) {
                    let copy = self.copy(source, from, file);
                    let copy = copy.map_err(|error| uncopied(from, error))?;
                    self.put_below(to.to_owned(), Item::Copy(copy))?;
                }
                return Ok(());
            }
            Some(super::Entry::Directory { .. }) => {}
        }
        if !to.is_empty() {
            self.put_below(to.to_owned(), Item::Directory)?;
        }
        source.walk(&mut |path, node| {
            self.pauses.count(ENTRY)?;
            let below = match from {
                "" => path,
                from => match path.strip_prefix(from).and_then(|rest| rest.strip_prefix('/')) {
                    Some(below) => below,
                    None => return Ok(()),
                },
            };
            match node {
                Node::Directory(_) => self.put(place(below), Item::Directory),
                Node::File(file) => {
                    let copy = self.copy(source, path, file);
                    let copy = copy.map_err(|error| uncopied(path, error))?;
                    self.put(place(below), Item::Copy(copy))
                }
            }
        })
    }

    /// Only an empty directory may be replaced.
    fn make_room(&mut self, to: &str) -> Result<(), &'static str> {
        let mut parent = to;
        while let Some((above, _)) = parent.rsplit_once('/') {
            if matches!(
                self.items.get(above),
                Some(Item::File(..) | Item::Copy(_) | Item::Link)
            ) {
                return Err("a parent directory is a file");
            }
            parent = above;
        }
        match self.items.get(to) {
            Some(Item::File(..) | Item::Copy(_) | Item::Link) => return Err("a file exists there"),
            Some(Item::Directory) | None => {}
        }
        let mut below = self.items.range(to.to_owned()..);
        let taken = match to {
            "" => !self.items.is_empty(),
            to => below
                .find(|(path, _)| path.as_str() != to && !is_sibling(path, to))
                .is_some_and(|(path, _)| is_at_or_below(path, to)),
        };
        match taken {
            true => Err("files already exist there"),
            false => Ok(()),
        }
    }

    fn take(&mut self, path: &str, bytes: u64) -> Result<(), TreeError> {
        let limit = |limit| TreeError::Limit {
            path: path.to_owned(),
            limit,
        };
        if bytes > self.limits.file_bytes_max {
            return Err(limit(LimitExceeded::FileBytes(self.limits.file_bytes_max)));
        }
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes > self.limits.tree_bytes_max {
            true => Err(limit(LimitExceeded::TreeBytes(self.limits.tree_bytes_max))),
            false => Ok(()),
        }
    }

    /// A file of another tree. Pauses where no content is in memory.
    fn copy(&mut self, source: &Tree, path: &str, file: &File) -> Result<File, TreeError> {
        let copy = match &file.content {
            Content::Git(blob) => self.blob(path, *blob, file.executable, |_| {
                source.content(path, file).map_err(TreeError::from)
            })?,
            Content::Packed(_) | Content::Memory(_) => {
                let (size, content) = source.open(path)?;
                let (packed, blob) = self.pack(path, content, size)?;
                File::of(path, blob, file.executable, Content::Packed(packed))?
            }
        };
        let bytes = copy.content.bytes().unwrap_or_default();
        self.pauses.count(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        Ok(copy)
    }

    /// A file of git. Of equal contents, the first is read.
    fn blob(
        &mut self,
        path: &str,
        blob: BlobId,
        executable: bool,
        read: impl FnOnce(&Self) -> Result<Bytes, TreeError>,
    ) -> Result<File, TreeError> {
        let packed = match self.blobs.get(&blob).cloned() {
            Some(packed) => {
                self.take(path, packed.bytes())?;
                packed
            }
            None => {
                let content = read(self)?;
                let (packed, _) = self.pack(path, &*content, content.len() as u64)?;
                self.blobs.insert(blob, packed.clone());
                packed
            }
        };
        Ok(File::of(path, Some(blob), executable, Content::Packed(packed))?)
    }

    fn pack(
        &mut self,
        path: &str,
        content: impl Read,
        size: u64,
    ) -> Result<(Packed, Option<BlobId>), TreeError> {
        self.take(path, size)?;
        self.packing.add(content, size).map_err(|error| error.at(path))
    }

    /// Adds parent directories, which git does not list.
    fn put_below(&mut self, path: String, item: Item) -> Result<(), ComposeError> {
        let mut above = path.as_str();
        while let Some((parent, _)) = above.rsplit_once('/') {
            if self.items.contains_key(parent) {
                break;
            }
            self.put(parent.to_owned(), Item::Directory)?;
            above = parent;
        }
        self.put(path, item)
    }

    fn put(&mut self, path: String, item: Item) -> Result<(), ComposeError> {
        names(&path, self.limits).map_err(TreeError::from)?;
        if self.items.len() >= self.limits.entries_max {
            let limit = LimitExceeded::Entries(self.limits.entries_max);
            return Err(TreeError::Limit { path, limit }.into());
        }
        self.items.insert(path, item);
        Ok(())
    }

    fn finish(mut self, ignore: &Ignore) -> Result<Tree, TreeError> {
        let rules = self.ignore_files()?.rules(ignore)?;
        let mut building = Building::new(self.limits);
        for (path, item) in std::mem::take(&mut self.items) {
            let names: Vec<&str> = path.split('/').collect();
            let mut decision = IgnoreDecision::default();
            for depth in 1..names.len() {
                decision = rules.decide(
                    decision,
                    names.get(..depth).unwrap_or_default(),
                    true,
                    self.pauses,
                )?;
            }
            decision = rules.decide(decision, &names, matches!(item, Item::Directory), self.pauses)?;
            if decision.is_excluded() {
                continue;
            }
            match item {
                Item::Directory => building.directory(&path)?,
                Item::Link => building.link(&path)?,
                Item::File(FileContent::Git(blob), executable) => {
                    building.git_file(&path, blob, executable)?;
                }
                Item::Copy(file) => building.place(&path, file)?,
                Item::File(FileContent::Submodule(index, blob), executable) => {
                    let file = self.blob(&path, blob, executable, |composing| {
                        composing.of_submodule(&path, index, &blob)
                    })?;
                    let bytes = file.content.bytes().unwrap_or_default();
                    self.pauses.count(usize::try_from(bytes).unwrap_or(usize::MAX))?;
                    building.place(&path, file)?;
                }
            }
        }
        Ok(Tree {
            root: building.root(),
            source: Source::Git {
                tree: self.parts.git.clone(),
                rules: rules.id(),
                kept: Arc::default(),
            },
        })
    }

    fn of_submodule(&self, path: &str, index: usize, blob: &BlobId) -> Result<Bytes, TreeError> {
        match self.parts.submodules.get(index) {
            None => Ok(Bytes::new()),
            Some(submodule) => submodule.tree.read(blob).map_err(|source| unread(path, source)),
        }
    }

    fn ignore_files(&self) -> Result<IgnoreFiles<'_>, TreeError> {
        let mut found = IgnoreFiles::new(self.limits);
        let mut files = Vec::new();
        for (path, item) in &self.items {
            let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
            if name != IGNORE_FILE {
                continue;
            }
            match item {
                Item::Directory => {}
                Item::Link => {
                    let why = "a .sourceignore that is a symbolic link is not followed: make it a file";
                    return Err(TreeError::Path {
                        path: path.clone(),
                        why,
                    });
                }
                item @ (Item::File(..) | Item::Copy(_)) => {
                    found.count(directory, self.size(path, item)?)?;
                    files.push((directory, path, item));
                }
            }
        }
        // parents before children, siblings by name
        files.sort_by(|(one, ..), (other, ..)| names_in(one).cmp(names_in(other)));
        for (directory, path, item) in files {
            found.add(directory, &self.read(path, item)?)?;
        }
        Ok(found)
    }

    fn size(&self, path: &str, item: &Item) -> Result<u64, TreeError> {
        let (tree, blob) = match item {
            Item::Link | Item::Directory => return Ok(0),
            Item::Copy(file) => return Ok(file.content.bytes().unwrap_or_default()),
            Item::File(FileContent::Git(blob), _) => (self.parts.git, blob),
            Item::File(FileContent::Submodule(index, blob), _) => match self.parts.submodules.get(*index) {
                Some(submodule) => (&submodule.tree, blob),
                None => return Ok(0),
            },
        };
        tree.size(blob).map_err(|source| unread(path, source))
    }

    fn read(&self, path: &str, item: &Item) -> Result<Bytes, TreeError> {
        match item {
            Item::Link | Item::Directory => Ok(Bytes::new()),
            Item::Copy(file) => Ok(file.content.read(path)?),
            Item::File(FileContent::Git(blob), _) => {
                self.parts.git.read(blob).map_err(|source| unread(path, source))
            }
            Item::File(FileContent::Submodule(index, blob), _) => self.of_submodule(path, *index, blob),
        }
    }
}

/// The names on the way to a directory; none for the root.
fn names_in(directory: &str) -> impl Iterator<Item = &str> {
    directory.split('/').filter(|name| !name.is_empty())
}

fn item(mode: Mode, content: impl FnOnce() -> FileContent) -> Item {
    match mode {
        Mode::File => Item::File(content(), false),
        Mode::Executable => Item::File(content(), true),
        Mode::Symlink => Item::Link,
        Mode::Submodule => Item::Directory,
    }
}

fn unread(path: &str, source: equate_git::TreeError) -> TreeError {
    TreeError::Git {
        path: path.to_owned(),
        source,
    }
}

/// Normalizes a path written by people: `./a/b/` is `a/b`, `.` is everything.
fn selected(path: &str) -> &str {
    let mut path = path;
    while let Some(rest) = path.strip_prefix("./") {
        path = rest;
    }
    match path.trim_end_matches('/') {
        "." => "",
        // keep an absolute path, which is then not found
        "" if path.starts_with('/') => path,
        path => path,
    }
}

/// The paths to take; all if it is empty.
struct Selection<'a>(BTreeSet<&'a str>);

impl Selection<'_> {
    fn has(&self, path: &str) -> bool {
        let mut above = std::iter::successors(Some(path), |path| Some(path.rsplit_once('/')?.0));
        self.0.is_empty() || self.0.contains("") || above.any(|path| self.0.contains(path))
    }

    /// Whether anything in a directory is taken.
    fn is_on_the_way(&self, directory: &str) -> bool {
        let below = format!("{directory}/");
        let mut after = self.0.range(below.as_str()..);
        self.has(directory) || after.next().is_some_and(|path| path.starts_with(&below))
    }
}

fn is_at_or_below(path: &str, directory: &str) -> bool {
    directory.is_empty()
        || path
            .strip_prefix(directory)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Sorted between a directory and its content: `a-b` precedes `a/b`.
fn is_sibling(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.chars().next().is_some_and(|next| next < '/'))
}
