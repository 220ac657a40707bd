//! A person's own repository: where it is, what is checked out, what is not committed.
//!
//! It is opened in place and only read. Nothing here runs git, a hook or a filter.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::limits::Limits;
use crate::store::{OpenStoreError, Store};
use crate::tree::Tree;

mod uncommitted;

/// What a local repository looks like at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRepository {
    /// The worktree's directory; for a bare repository, its own.
    pub root: PathBuf,
    /// What is checked out.
    pub head: Head,
    /// The URL of the remote `origin`, as it is configured (a password in it is left out, over http also a user).
    pub origin: Option<String>,
    /// Something in the worktree differs from HEAD, new files that are not ignored included.
    /// Compared by the index's sizes and times first and by content where these differ; a file
    /// a filter would rewrite (line ends, LFS) may therefore count as changed once it was touched.
    pub uncommitted: bool,
}

/// What HEAD says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// A branch with a commit on it.
    Branch(String),
    /// A branch without any commit yet.
    Unborn(String),
    /// A commit without a branch.
    Detached(String),
}

/// Why a directory's repository cannot be told about.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Neither the directory nor any above it is a repository.
    #[error("{} is not in a git repository", path.display())]
    NoRepository {
        /// Where the search began.
        path: PathBuf,
    },
    /// There is one, but it cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenStoreError),
    /// There is one, but it cannot be read.
    #[error("cannot read the git repository {}", root.display())]
    Read {
        /// Its directory.
        root: PathBuf,
        /// What gix said.
        source: gix::Error,
    },
}

impl LocalRepository {
    /// Finds the repository a directory belongs to, the directory itself or one above it, and
    /// looks at it once.
    pub fn discover(path: &Path) -> Result<Self, OpenError> {
        let start = path.canonicalize().map_err(|_| OpenError::NoRepository {
            path: path.to_owned(),
        })?;
        let found = start.ancestors().find(|directory| is_repository(directory));
        let found = found.ok_or_else(|| OpenError::NoRepository {
            path: path.to_owned(),
        })?;
        let store = Store::open(found, None)?;
        store.with(|repository| {
            let root = repository.workdir().unwrap_or(found).to_owned();
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
    /// The files that a commit of everything in the worktree would have: tracked ones that are still
    /// there and new ones that are not ignored. Paths from [`Self::root`], with `/`, sorted; none in a
    /// bare repository. Submodules are left out.
    ///
    /// # Errors
    /// When the repository cannot be opened or its index or ignore rules cannot be read.
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

/// Why a local repository has no such tree.
#[derive(Debug, thiserror::Error)]
pub enum TreeishError {
    /// Neither the directory nor any above it is a repository, or it cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Nothing is called that, or several things are.
    #[error("{revision:?} is not a commit or tree of {}", root.display())]
    Revision {
        /// What was asked for.
        revision: String,
        /// The repository's directory.
        root: PathBuf,
        /// What gix said.
        source: gix::Error,
    },
}

impl LocalRepository {
    /// The content of a commit or tree of the repository that a directory belongs to, by any name git
    /// has for it: a branch, a tag, `HEAD~2`, the first digits of an id. It is opened in place.
    ///
    /// # Errors
    /// When there is no repository, or nothing in it that the name is of.
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

/// A worktree, a linked one (its `.git` is a file), or a bare repository.
fn is_repository(directory: &Path) -> bool {
    let git = directory.join(".git");
    git.is_file() || bare(&git) || bare(directory)
}

fn bare(directory: &Path) -> bool {
    directory.join("HEAD").is_file() && directory.join("objects").is_dir() && directory.join("refs").is_dir()
}

fn head(repository: &gix::Repository) -> Result<Head, gix::Error> {
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
    // A token may stand for the user as well as for the password; over ssh the user is the account.
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
