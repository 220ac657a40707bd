//! A local repository: its root, its HEAD and its uncommitted changes.
//!
//! It is opened in place and only read. No git, hook or filter runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::limits::Limits;
use crate::store::{OpenStoreError, Store};
use crate::tree::Tree;

mod uncommitted;

/// A snapshot of a local repository's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRepository {
    /// The worktree's directory, or the repository's own if it is bare.
    pub root: PathBuf,
    /// The state of HEAD.
    pub head: Head,
    /// The configured URL of the remote `origin`, without its password and, over http, without its user.
    pub origin: Option<String>,
    /// Whether the worktree differs from HEAD, including new files that are not ignored. Sizes and times
    /// are compared first, then content. A touched file that a filter rewrites (line ends, LFS) may count
    /// as changed.
    pub uncommitted: bool,
}

/// The state of HEAD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// A branch with a commit on it.
    Branch(String),
    /// A branch without a commit.
    Unborn(String),
    /// A commit without a branch.
    Detached(String),
}

/// The reason why a local repository cannot be inspected.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Neither the directory nor any above it is a repository.
    #[error("{} is not in a git repository", path.display())]
    NoRepository {
        /// The start of the search.
        path: PathBuf,
    },
    /// The repository cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenStoreError),
    /// The repository cannot be read.
    #[error("cannot read the git repository {}", root.display())]
    Read {
        /// Its directory.
        root: PathBuf,
        /// The error from gix.
        source: gix::Error,
    },
}

impl LocalRepository {
    /// Finds the repository of a directory, in it or in one of its parents, and inspects it once.
    pub fn discover(path: &Path) -> Result<Self, OpenError> {
        let found = discover_root(path)?;
        let store = Store::open(&found, None)?;
        store.with(|repository| {
            let root = repository.workdir().unwrap_or(&found).to_owned();
            let read = |source| OpenError::Read {
                root: root.clone(),
                source,
            };
            Ok(Self {
                head: head(repository).map_err(read)?,
                origin: origin(repository),
                uncommitted: uncommitted::any(repository).map_err(read)?,
                root,
            })
        })
    }
}

impl LocalRepository {
    /// The files that a commit of the whole worktree would contain: existing tracked files, and new ones
    /// that are not ignored. Paths are relative to [`Self::root`], use `/`, and are sorted. A bare
    /// repository has none. Submodules are left out.
    ///
    /// # Errors
    /// The repository cannot be opened, or its index or ignore rules cannot be read.
    pub fn files(&self) -> Result<BTreeSet<String>, OpenError> {
        let store = Store::open(&self.root, None)?;
        store.with(|repository| {
            uncommitted::files(repository).map_err(|source| OpenError::Read {
                root: self.root.clone(),
                source,
            })
        })
    }
}

/// The reason why a tree cannot be read from a local repository.
#[derive(Debug, thiserror::Error)]
pub enum TreeishError {
    /// There is no repository, or it cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The name is unknown or ambiguous.
    #[error("{revision:?} is not a commit or tree of {}", root.display())]
    Revision {
        /// The requested name.
        revision: String,
        /// The repository's directory.
        root: PathBuf,
        /// The error from gix.
        source: gix::Error,
    },
}

impl LocalRepository {
    /// Reads the tree of a commit or tree of a directory's repository, by any name that git accepts: a
    /// branch, a tag, `HEAD~2`, an abbreviated id. The repository is opened in place.
    ///
    /// # Errors
    /// There is no repository, or the name is unknown in it.
    pub fn tree(path: &Path, revision: &str, limits: &Limits) -> Result<Tree, TreeishError> {
        let absent = || OpenError::NoRepository {
            path: path.to_owned(),
        };
        let start = path.canonicalize().map_err(|_| absent())?;
        let found = start.ancestors().find(|directory| is_repository(directory));
        let root = found.ok_or_else(absent)?;
        let store = Arc::new(Store::open(root, None).map_err(OpenError::from)?);
        let id = store.with(|repository| {
            let named = repository.rev_parse_single(revision)?;
            Ok(named.object()?.peel_to_tree()?.id)
        });
        let id = id.map_err(|source| TreeishError::Revision {
            revision: revision.to_owned(),
            root: root.to_owned(),
            source,
        })?;
        Ok(Tree::new(store, id, Arc::new(limits.clone())))
    }
}

pub(crate) fn discover_root(path: &Path) -> Result<PathBuf, OpenError> {
    let absent = || OpenError::NoRepository {
        path: path.to_owned(),
    };
    let start = path.canonicalize().map_err(|_| absent())?;
    let found = start.ancestors().find(|directory| is_repository(directory));
    found.map(Path::to_owned).ok_or_else(absent)
}

/// A linked worktree's `.git` is a file.
fn is_repository(directory: &Path) -> bool {
    let git = directory.join(".git");
    git.is_file() || bare(&git) || bare(directory)
}

fn bare(directory: &Path) -> bool {
    directory.join("HEAD").is_file() && directory.join("objects").is_dir() && directory.join("refs").is_dir()
}

pub(crate) fn head(repository: &gix::Repository) -> Result<Head, gix::Error> {
    let head = repository.head()?;
    let branch = head.referent_name().map(|name| name.shorten().to_string());
    Ok(match (branch, head.id()) {
        (Some(branch), None) => Head::Unborn(branch),
        (Some(branch), Some(_)) => Head::Branch(branch),
        (None, id) => Head::Detached(id.map(|id| id.to_string()).unwrap_or_default()),
    })
}

fn origin(repository: &gix::Repository) -> Option<String> {
    let url = repository.config_snapshot().string("remote.origin.url")?;
    let url = url.to_string();
    // A token may be in the user's place as well as in the password's; over ssh the user is the account.
    let parsed = reqwest::Url::parse(&url).ok().filter(|url| {
        let web = matches!(url.scheme(), "http" | "https");
        url.password().is_some() || (web && !url.username().is_empty())
    });
    let Some(mut parsed) = parsed else {
        return Some(url);
    };
    parsed.set_password(None).ok()?;
    if parsed.scheme() != "ssh" {
        parsed.set_username("").ok()?;
    }
    Some(parsed.to_string())
}
