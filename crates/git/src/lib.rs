//! Git as Equate reads it: what a remote's refs say, the objects of one commit, a tree without a checkout.
//!
//! Everything here blocks; callers run it on threads made for that. No subprocess is started.
//! Nothing here reads a user's or the system's git configuration, asks a person, runs a hook or
//! a filter, or writes to a repository it was pointed at.
//!
//! * [`Mirrors`] resolves and fetches: one bare mirror per URL and credential, or a local
//!   directory that stands in for a URL and is read in place.
//! * [`Commit`] and [`Tree`] are what was fetched.
//! * [`Commit::verify`] and [`Tag::verify`] say who signed it.
//! * [`watch()`] tells when a local repository's refs moved, [`LocalRepository`] what it is.

mod commit;
mod fetch;
mod github;
mod kind;
mod limits;
mod local;
mod mirror;
mod mirrors;
mod reference;
mod remote;
mod resolve;
mod secret;
mod signature;
mod store;
mod submodule;
mod transport;
mod tree;
mod versions;
mod watch;

pub use commit::{Commit, Signature};
pub use fetch::FetchError;
pub use github::{GithubApp, GithubError, Installation, opens_with_a_token};
pub use kind::Kind;
pub use limits::Limits;
pub use local::{Head, LocalRepository, OpenError, TreeishError};
pub use mirrors::Mirrors;
pub use reference::{DEFAULT_BRANCH, InvalidReference, ParseRevisionError, Reference, Revision};
pub use remote::{Credentials, Proxy, ProxyError, Ration, Remote, TIMEOUT, UrlError};
pub use resolve::ResolveError;
pub use secret::Secret;
pub use signature::{SignatureError, Signers, Tag};
pub use submodule::{ModulesError, Submodule, SubmoduleError, SubmoduleUrlError};
pub use transport::{RemoteError, SshAlgorithmError, SshAlgorithms};
pub use tree::{BlobId, Child, Entry, Mode, Node, Tree, TreeError, TreeId};
pub use watch::{Watch, WatchError, watch};
