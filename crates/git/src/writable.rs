//! A clone that commits are written to, without git and without a checkout.
//!
//! A change is a function of the newest tip: it is called again on each tip that it loses to, and never
//! rebased as text. A ref moves by compare-and-swap. Objects are made in memory, so that a process that is
//! killed leaves either the whole commit or nothing.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use gix::{
    ObjectId,
    refs::{
        Target,
        transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog},
    },
};

use crate::{
    commit::Commit,
    fetch::FetchError,
    limits::Limits,
    local::{Head, OpenError, discover_root, head},
    objects::{Draft, ObjectsError},
    reference::Revision,
    store::Store,
    transport::RefUpdate,
    tree::Tree,
};

mod chain;
mod queue;
mod refusal;
mod remote;
mod turn;
mod worktree;

use chain::Chain;
pub use queue::{Answer, Queue, Requests, Waiting, queue};
pub use refusal::Refusal;
use refusal::left_lock;
use remote::ATTEMPTS_MAX;
pub use remote::{Each, Upstream};

/// A local repository that commits can be written to.
#[derive(Debug)]
pub struct WritableRepository {
    store: Arc<Store>,
    root: PathBuf,
    limits: Arc<Limits>,
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The function wanted no commit.
    Nothing,
    /// A commit is on the branch.
    Commit {
        /// Its id.
        id: String,
        /// The tips that the change was made for; more than one if others were faster.
        attempts: usize,
    },
}

/// The reason why a change is not on its branch.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError<E> {
    /// The function failed.
    #[error(transparent)]
    Make(E),
    /// The repository cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The objects cannot be made.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// The repository cannot be read or written.
    #[error("cannot {doing} the git repository {}", root.display())]
    Repository {
        /// Its directory.
        root: PathBuf,
        /// The operation.
        doing: &'static str,
        /// The error from gix or the system.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The branch does not exist.
    #[error("{place} has no branch {branch:?}")]
    NoBranch {
        /// The repository.
        place: String,
        /// The branch.
        branch: String,
    },
    /// Files of the change have uncommitted changes.
    #[error("uncommitted changes in {}", paths.join(", "))]
    Dirty {
        /// The files.
        paths: Vec<String>,
    },
    /// The remote cannot be read or does not answer.
    #[error(transparent)]
    Remote(#[from] FetchError),
    /// The remote refused the push.
    #[error("{place} refused the push to {branch}: {words}")]
    Refused {
        /// The remote.
        place: String,
        /// The branch.
        branch: String,
        /// Its words.
        words: String,
        /// The cause, as far as it is known.
        cause: Refusal,
    },
    /// Another process locks a ref, or one that was killed did.
    #[error("cannot move {branch} in {place}: {} exists", file.display())]
    Locked {
        /// The repository.
        place: String,
        /// The branch.
        branch: String,
        /// The lock.
        file: PathBuf,
    },
    /// Others were faster, too often.
    #[error("{branch} moved {attempts} times while the change was made")]
    Moved {
        /// The branch.
        branch: String,
        /// The number of tips.
        attempts: usize,
    },
    /// The connection broke, and the remote does not say whether the commit arrived.
    #[error("it is unknown whether commit {commit} reached {place}")]
    Unknown {
        /// The commit.
        commit: String,
        /// The remote.
        place: String,
        /// The failure of the connection.
        source: Box<FetchError>,
    },
}

/// A commit and its parents.
#[derive(Debug, Clone)]
pub struct Past {
    /// The commit.
    pub commit: Commit,
    /// The ids of its parents; the first one is the branch before a merge.
    pub parents: Vec<String>,
}

/// The tips of a branch and of its notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tips {
    branch: ObjectId,
    notes: Option<ObjectId>,
}

impl WritableRepository {
    /// Finds the repository of a directory, in it or in one of its parents.
    ///
    /// # Errors
    /// There is none, or it cannot be opened.
    pub fn discover(path: &Path, limits: Limits) -> Result<Self, OpenError> {
        let found = discover_root(path)?;
        let store = Arc::new(Store::open(&found, None)?);
        let root = store.with(|repository| repository.workdir().map(Path::to_owned));
        Ok(Self {
            store,
            root: root.unwrap_or(found),
            limits: Arc::new(limits),
        })
    }

    /// The directory of the work tree, or that of a bare repository.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of the objects and of everything that work trees share: `.git`, or the bare repository.
    pub fn common_dir(&self) -> PathBuf {
        self.store.with(|repository| repository.common_dir().to_owned())
    }

    /// The state of HEAD.
    ///
    /// # Errors
    /// The repository cannot be read.
    pub fn head(&self) -> Result<Head, OpenError> {
        self.store.with(head).map_err(|source| OpenError::Read {
            root: self.root.clone(),
            source,
        })
    }

    /// A value of the repository's own configuration.
    pub fn setting(&self, key: &str) -> Option<String> {
        self.store.with(|repository| {
            let value = repository.config_snapshot().string(key)?;
            Some(value.to_string())
        })
    }

    /// The commit of a ref, by its full name.
    pub fn tip(&self, reference: &str) -> Option<String> {
        self.find(reference).map(|id| id.to_string())
    }

    fn find(&self, reference: &str) -> Option<ObjectId> {
        self.store.with(|repository| tip_of(repository, reference))
    }

    /// A commit by its whole id.
    ///
    /// # Errors
    /// The repository has no such commit.
    pub fn commit(&self, id: &str) -> Result<Past, OpenError> {
        let read = |source| OpenError::Read {
            root: self.root.clone(),
            source,
        };
        let parsed = ObjectId::from_hex(id.as_bytes()).map_err(read)?;
        let revision = Revision {
            reference: None,
            absolute: false,
            id: parsed,
        };
        let found = Commit::read_with_parents(&self.store, &revision, &self.limits);
        let (commit, parents) = found.map_err(read)?;
        Ok(Past {
            commit,
            parents: parents.iter().map(ToString::to_string).collect(),
        })
    }

    /// Whether history ends before the first commit, as after `git clone --depth`.
    pub fn is_shallow(&self) -> bool {
        // if git's list cannot be read, a missing parent counts as damage
        self.store.with(gix::Repository::is_shallow).unwrap_or(false)
    }

    /// The parents of a commit that are in the repository; a shallow clone lacks some.
    pub fn has(&self, id: &str) -> bool {
        ObjectId::from_hex(id.as_bytes())
            .is_ok_and(|id| self.store.with(|repository| repository.has_object(id)))
    }

    /// The text of a commit's note under a ref.
    pub fn note(&self, reference: &str, commit: &str) -> Option<String> {
        let notes = self.find(reference)?;
        let tree = self.store.with(|repository| {
            let commit = repository.find_commit(notes).ok()?;
            commit.tree_id().ok().map(gix::Id::detach)
        })?;
        let tree = Tree::new(Arc::clone(&self.store), tree, Arc::clone(&self.limits));
        let places = [
            commit.to_owned(),
            format!("{}/{}", commit.get(..2)?, commit.get(2..)?),
            format!("{}/{}/{}", commit.get(..2)?, commit.get(2..4)?, commit.get(4..)?),
        ];
        let entry = places.iter().find_map(|path| tree.entry(path).ok().flatten())?;
        String::from_utf8(tree.read(&entry.id).ok()?.to_vec()).ok()
    }

    /// Commits a change to a local branch, and updates the files of the work tree if the branch is checked
    /// out there. Files with uncommitted changes are refused before anything is written, unless they are the
    /// change itself.
    ///
    /// The files and the index are written before the branch moves, as with `git merge`: if the process is
    /// killed between, the change is uncommitted, and the next call commits it. In the other order, the
    /// user's next `git commit -a` would revert it.
    ///
    /// # Errors
    /// `make` fails, a file is not clean, or the repository cannot be written.
    pub fn commit_locally<E>(
        &self,
        branch: &str,
        mut make: impl FnMut(&Commit) -> Result<Option<Draft>, E>,
    ) -> Result<Written, ChangeError<E>> {
        let reference = format!("refs/heads/{branch}");
        let is_checked_out = match self.head()? {
            Head::Branch(head) => head == branch,
            Head::Unborn(_) | Head::Detached(_) => false,
        };
        for attempt in 1..=ATTEMPTS_MAX {
            let tip = self.find(&reference).ok_or_else(|| ChangeError::NoBranch {
                place: self.root.display().to_string(),
                branch: branch.to_owned(),
            })?;
            let commit = self.commit(&tip.to_string())?.commit;
            let Some(draft) = make(&commit).map_err(ChangeError::Make)? else {
                return Ok(Written::Nothing);
            };
            if is_checked_out {
                let dirty = worktree::dirty(&self.store, &draft.changes);
                let dirty = dirty.map_err(|source| self.repository("read", source))?;
                if !dirty.is_empty() {
                    return Err(ChangeError::Dirty { paths: dirty });
                }
            }
            let find_notes = || {
                let (reference, _) = draft.note.as_ref()?;
                self.find(reference)
            };
            let notes = find_notes();
            let base = Tips { branch: tip, notes };
            let mut chain = Chain::new(&self.store, &self.limits, base);
            let id = chain.add(&draft)?;
            let updates = chain.updates(&reference);
            if is_checked_out {
                let updated = worktree::update(&self.store, &draft.changes);
                updated.map_err(|source| self.repository("update the files of", source))?;
            }
            let moved = self.store.with(|repository| {
                chain.objects().write(repository)?;
                move_refs(repository, &updates, &draft.message)
            });
            if let Err(source) = moved {
                if is_checked_out {
                    let restored = worktree::restore(&self.store, &draft.changes);
                    restored.map_err(|source| self.repository("restore the files of", source))?;
                }
                // another process was faster
                if self.find(&reference) != Some(tip) || find_notes() != notes {
                    back_off(attempt);
                    continue;
                }
                if let Some(file) = left_lock(&self.store, &updates) {
                    return Err(ChangeError::Locked {
                        place: self.root.display().to_string(),
                        branch: branch.to_owned(),
                        file,
                    });
                }
                return Err(self.repository("write", source));
            }
            return Ok(Written::Commit {
                id: id.to_string(),
                attempts: attempt,
            });
        }
        Err(ChangeError::Moved {
            branch: branch.to_owned(),
            attempts: ATTEMPTS_MAX,
        })
    }

    fn repository<E>(
        &self,
        doing: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> ChangeError<E> {
        ChangeError::Repository {
            root: self.root.clone(),
            doing,
            source: source.into(),
        }
    }
}

/// The commit of a ref, by its full name.
fn tip_of(repository: &gix::Repository, reference: &str) -> Option<ObjectId> {
    let mut found = repository.try_find_reference(reference).ok()??;
    found.peel_to_id().ok().map(gix::Id::detach)
}

/// Moves one ref by compare-and-swap.
fn move_ref(
    repository: &gix::Repository,
    name: &str,
    old: Option<ObjectId>,
    new: ObjectId,
    message: &str,
) -> Result<(), gix::Error> {
    let name = name.to_owned();
    move_refs(repository, &[RefUpdate { name, old, new }], message)
}

/// Moves refs by compare-and-swap, all or none.
fn move_refs(repository: &gix::Repository, updates: &[RefUpdate], message: &str) -> Result<(), gix::Error> {
    let subject = message.lines().next().unwrap_or_default();
    let mut edits = Vec::with_capacity(updates.len());
    for RefUpdate { name, old, new } in updates {
        edits.push(RefEdit {
            change: Change::Update {
                log: LogChange {
                    mode: RefLog::AndReference,
                    force_create_reflog: false,
                    message: format!("commit: {subject}").into(),
                },
                expected: match old {
                    Some(old) => PreviousValue::MustExistAndMatch(Target::Object(*old)),
                    None => PreviousValue::MustNotExist,
                },
                new: Target::Object(*new),
            },
            name: name.as_str().try_into().map_err(gix::Error::from_error)?,
            deref: false,
        });
    }
    let committer = gix::actor::SignatureRef {
        name: "Equate".into(),
        email: "equate@localhost".into(),
        time: "0 +0000",
    };
    repository.edit_references_as(edits, Some(committer))?;
    Ok(())
}

/// A random share of a doubling wait, so that losers of a race do not meet again.
fn back_off(attempt: usize) {
    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(2);
    let doubled = FIRST.saturating_mul(1 << attempt.min(10));
    pause(doubled.min(LONGEST).mul_f64(random_share()));
}

/// A random number from 0 to 1.
fn random_share() -> f64 {
    let mut random = [0_u8; 4];
    match ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut random) {
        Ok(()) => f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}

fn pause(time: Duration) {
    let end = std::time::Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::park_timeout(left);
    }
}
