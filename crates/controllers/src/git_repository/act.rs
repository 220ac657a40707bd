//! Making an artifact: fetch, verify, read the tree, publish. The only writes outside the cluster.

use std::sync::Arc;
use std::time::SystemTime;

use equate_api::source::Artifact;
use equate_git::{Commit, Remote, Revision};
use equate_source::{Ignore, Limits, Parts, Stored, Submodule, Tree};
use tokio::task::spawn_blocking;

use super::Context;
use super::declared::Declared;
use super::failure::Failure;
use super::{includes, verify};

/// What was done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Done {
    /// The artifact is what the repository says; its address, which may be another than before.
    Kept { url: Option<String> },
    /// There is a new artifact.
    Published(Box<Published>),
    /// It did not work.
    Failed {
        failure: Failure,
        /// The revision that could not be had, if it got so far.
        revision: Option<String>,
        /// Whether the artifact that the status names is not in the store.
        lost: bool,
    },
    /// It is to be published and nothing opens the repository: it is looked at again.
    Unopened,
    /// It is being deleted, and its artifacts could not be; why.
    NotRemoved(String),
}

/// An artifact that is in the store. Only [`publish`] makes one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Published {
    pub(crate) stored: Stored,
    /// The first line of the commit's message.
    pub(crate) summary: String,
    /// Whose signatures it has, where they count.
    pub(crate) verified: Option<String>,
    /// The artifacts whose files are part of it.
    pub(crate) included: Vec<Artifact>,
}

/// Makes the artifact of a revision. Where it fails, what was published before stays.
pub(crate) async fn publish(
    cx: Arc<Context>,
    declared: Arc<Declared>,
    remote: Remote,
    revision: Revision,
    included: Vec<Artifact>,
) -> Result<Published, Failure> {
    let key = declared.key.clone();
    let signers = match &declared.verify {
        Some(verify) => Some(verify::signers(&cx, &declared, verify).await?),
        None => None,
    };
    let work = spawn_blocking(move || {
        let commit = cx
            .git
            .fetch(&remote, &revision)
            .map_err(|error| Failure::fetch(&error))?;
        let verified = match (&declared.verify, &signers) {
            (Some(asked), Some(signers)) => {
                let now = SystemTime::now();
                Some(verify::verify(&cx.git, &remote, &commit, asked, signers, now)?)
            }
            _ => None,
        };
        let tree = tree(&cx, &declared, &remote, &commit, &included)?;
        let stored = cx
            .storage
            .publish(&declared.place, &revision.to_string(), &tree)
            .map_err(|error| Failure::storage(&error))?;
        Ok(Published {
            stored,
            summary: commit.summary(),
            verified,
            included,
        })
    });
    work.await.unwrap_or_else(|_| Err(Failure::broken(&key)))
}

/// The files of the artifact. Of a commit alone they are shared with the artifact before it.
fn tree(
    cx: &Context,
    declared: &Declared,
    remote: &Remote,
    commit: &Commit,
    included: &[Artifact],
) -> Result<Tree, Failure> {
    let (ignore, limits) = (Ignore::new(declared.ignore.as_deref()), Limits::default());
    if declared.sparse.is_empty() && declared.include.is_empty() && !declared.submodules {
        let previous = cx.storage.newest(&declared.place);
        return Tree::from_git_after(commit.tree(), &ignore, &limits, previous.as_ref())
            .map_err(|error| Failure::tree(&error));
    }
    let submodules = match declared.submodules {
        false => Vec::new(),
        true => cx
            .git
            .submodules(remote, commit)
            .map_err(|error| Failure::submodules(&error))?,
    };
    let submodules: Vec<Submodule> = submodules
        .into_iter()
        .map(|submodule| Submodule {
            path: submodule.path,
            tree: submodule.tree,
        })
        .collect();
    let included = includes::trees(&cx.storage, declared, included)?;
    let parts = Parts {
        git: commit.tree(),
        only: &declared.sparse,
        submodules: &submodules,
        included: &included,
    };
    Tree::compose(&parts, &ignore, &limits).map_err(|error| Failure::compose(&error))
}
