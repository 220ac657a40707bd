//! Git access: refs of a remote, the objects of one commit, and trees without a checkout.
//!
//! All calls block, so callers run them on dedicated threads. No subprocess, hook or filter runs. The
//! user's and the system's git configuration is not read, nothing prompts, and source repositories are
//! never written, except through [`WritableRepository`]. A caller can give the user's own credentials for named repositories.
//!
//! * [`Mirrors`] resolves and fetches. It keeps one bare mirror per URL and credential, or reads a local
//!   directory in place of a URL.
//! * [`Commit`] and [`Tree`] give access to fetched content.
//! * [`Commit::verify`] and [`Tag::verify`] return the signer.
//! * [`WritableRepository`] commits to a branch of a clone, or of its upstream by a push; [`queue()`] gathers the
//!   changes of many callers, so that they share pushes.
//! * [`watch()`] reports moved refs of a local repository; [`LocalRepository`] describes it.

mod commit;
mod fetch;
mod github;
mod kind;
mod limits;
mod local;
mod mirror;
mod mirrors;
mod objects;
mod own;
mod reference;
mod remote;
mod resolve;
mod secret;
mod signature;
mod store;
mod submodule;
mod transport;
mod tree;
mod watch;
mod writable;

pub use commit::{Commit, Signature};
pub use fetch::FetchError;
pub use github::{GithubApp, GithubError, Installation, accepts_token};
pub use kind::Kind;
pub use limits::Limits;
pub use local::{Head, LocalRepository, OpenError, TreeishError};
pub use mirrors::Mirrors;
pub use objects::{Changes, Draft, Identity, ObjectsError};
pub use own::{CredentialSource, OwnCredentials, OwnRemote};
pub use reference::{DEFAULT_BRANCH, InvalidReference, ParseRevisionError, Reference, Revision};
pub use remote::{ByteBudget, Credentials, Proxy, ProxyError, Remote, TIMEOUT, UrlError, host};
pub use resolve::ResolveError;
pub use secret::Secret;
pub use signature::{SignatureError, Signers, Tag};
pub use submodule::{ModulesError, Submodule, SubmoduleError, SubmoduleUrlError};
pub use transport::{RemoteError, SshAlgorithmError, SshAlgorithms};
pub use tree::{BlobHash, BlobId, Child, Entry, Mode, Node, Tree, TreeError, TreeId};
pub use watch::{Watch, WatchError, watch, watch_files};
pub use writable::{
    Answer, ChangeError, Each, Past, Queue, Refusal, Requests, Upstream, Waiting, WritableRepository,
    Written, queue,
};
