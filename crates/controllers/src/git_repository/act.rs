//! Makes an artifact: fetches, verifies, reads the tree, publishes.

use std::sync::Arc;
use std::time::SystemTime;

use equate_api::meta::Reason;
use equate_api::source::Artifact;
use equate_git::{Commit, Remote, Revision, Signers};
use equate_source::{Ignore, Limits, Parts, Pauses, Stored, Submodule, Tree};

use super::Context;
use super::declared::Declared;
use super::failure::Failure;
use super::host::{Fetching, outcome};
use super::{includes, verify};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Done {
    /// The artifact is up to date; its URL, which may have changed.
    Kept {
        url: Option<String>,
    },
    Published(Box<Published>),
    Failed {
        failure: Failure,
        /// The revision of the failed artifact, if it was resolved.
        revision: Option<String>,
        /// Whether the artifact of the status is missing from the store.
        lost: bool,
    },
    /// No remote is open for the revision to publish: the run starts over.
    Unopened,
    /// The artifacts of a deleted object could not be removed.
    NotRemoved(String),
}

/// An artifact in the store. Only [`publish`] makes one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Published {
    pub(crate) stored: Stored,
    pub(crate) summary: String,
    pub(crate) verified: Option<String>,
    pub(crate) included: Vec<Artifact>,
}

/// Makes the artifact of a revision. On failure the earlier artifact stays.
pub(crate) async fn publish(
    cx: Arc<Context>,
    declared: Arc<Declared>,
    opened: Opened,
    revision: Revision,
) -> Result<Published, Failure> {
    let Opened {
        remote,
        included,
        fetching,
    } = opened;
    let signers = match &declared.verify {
        Some(verify) => Some(verify::signers(&cx, &declared, verify).await?),
        None => None,
    };
    let commit = match fetching {
        Some(fetching) => fetching.commit().await?,
        None => None,
    };
    let fetched = match commit {
        Some(commit) if signers.is_none() && !declared.submodules => Fetched::of(commit),
        commit => from_host(&cx, &declared, remote, &revision, commit, signers).await?,
    };
    let (own, context) = (Arc::clone(&declared), Arc::clone(&cx));
    let work = move |go_on: &dyn Fn() -> bool| {
        publish_fetched(&context, &own, &revision, fetched, included, &Pauses::new(go_on))
    };
    let publishing = cx.processors.paced(&declared.key.namespace, cx.timeout_max, work);
    publishing.await.unwrap_or_else(|error| {
        let doing = "failed to make an artifact of the commit";
        Err(Failure::unfinished(
            &error,
            Reason::GitOperationFailed,
            &declared.key,
            doing,
        ))
    })
}

pub(crate) struct Opened {
    pub(crate) remote: Remote,
    pub(crate) included: Vec<Artifact>,
    pub(crate) fetching: Option<Fetching>,
}

/// A commit with everything that comes from its host.
struct Fetched {
    commit: Commit,
    verified: Option<String>,
    submodules: Vec<Submodule>,
}

impl Fetched {
    fn of(commit: Commit) -> Self {
        Self {
            commit,
            verified: None,
            submodules: Vec::new(),
        }
    }
}

async fn from_host(
    cx: &Arc<Context>,
    declared: &Arc<Declared>,
    remote: Remote,
    revision: &Revision,
    commit: Option<Commit>,
    signers: Option<Signers>,
) -> Result<Fetched, Failure> {
    let (own, context, revision) = (Arc::clone(declared), Arc::clone(cx), revision.clone());
    let limit = cx.limit(declared);
    let session = move || {
        let commit = commit.map_or_else(|| context.git.fetch(&remote, &revision), Ok);
        let commit = match commit {
            Ok(commit) => commit,
            Err(error) => return (Err(Failure::fetch(&error, limit)), outcome(Some(error.kind()))),
        };
        let fetched = fetched(&context, &own, &remote, commit, signers.as_ref());
        (fetched, outcome(None))
    };
    cx.at_host(declared, session).await
}

fn fetched(
    cx: &Context,
    declared: &Declared,
    remote: &Remote,
    commit: Commit,
    signers: Option<&Signers>,
) -> Result<Fetched, Failure> {
    let verified = match (&declared.verify, signers) {
        (Some(asked), Some(signers)) => {
            let now = SystemTime::now();
            Some(verify::verify(&cx.git, remote, &commit, asked, signers, now)?)
        }
        _ => None,
    };
    let submodules = match declared.submodules {
        false => Vec::new(),
        true => cx
            .git
            .submodules(remote, &commit)
            .map_err(|error| Failure::submodules(&error, cx.limit(declared)))?,
    };
    let submodules = submodules.into_iter().map(|submodule| Submodule {
        path: submodule.path,
        tree: submodule.tree,
    });
    Ok(Fetched {
        commit,
        verified,
        submodules: submodules.collect(),
    })
}

fn publish_fetched(
    cx: &Context,
    declared: &Declared,
    revision: &Revision,
    fetched: Fetched,
    included: Vec<Artifact>,
    pauses: &Pauses<'_>,
) -> Result<Published, Failure> {
    let tree = tree(cx, declared, &fetched, &included, pauses)?;
    let stored = cx
        .storage
        .publish_pausing(&declared.publisher, &revision.to_string(), &tree, pauses)
        .map_err(|error| Failure::storage(&error))?;
    Ok(Published {
        stored,
        summary: fetched.commit.summary(),
        verified: fetched.verified,
        included,
    })
}

/// The files of the artifact. If they come from one commit only, files are shared with the previous
/// artifact.
fn tree(
    cx: &Context,
    declared: &Declared,
    fetched: &Fetched,
    included: &[Artifact],
    pauses: &Pauses<'_>,
) -> Result<Tree, Failure> {
    let commit = fetched.commit.tree();
    let (ignore, limits) = (Ignore::new(declared.ignore.as_deref()), Limits::default());
    if declared.sparse.is_empty() && declared.include.is_empty() && !declared.submodules {
        let previous = cx.storage.newest(declared.publisher.place());
        return Tree::from_git_after(commit, &ignore, &limits, previous.as_ref(), pauses)
            .map_err(|error| Failure::tree(&error));
    }
    let included = includes::trees(cx, declared, included, pauses)?;
    let parts = Parts {
        git: commit,
        only: &declared.sparse,
        submodules: &fetched.submodules,
        included: &included,
    };
    let pack = cx.storage.scratch().map_err(|error| Failure::storage(&error))?;
    Tree::compose(&parts, &ignore, &limits, pack, pauses).map_err(|error| Failure::compose(&error))
}
