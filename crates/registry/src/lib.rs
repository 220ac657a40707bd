//! A client for OCI registries: the distribution specification v1.1 over [`equate_egress`].
//!
//! | module | content |
//! |---|---|
//! | `name` | names of repositories, tags and digests |
//! | `credentials` | entries of a dockerconfigjson, and which one counts for a repository |
//! | [`verify`] | signatures of cosign and notation; pure |
//!
//! Content is verified by its digest while it arrives, and every answer has a limit. Credentials go to the
//! registry and to the token server that it names, never to the target of a redirect. The crate knows no
//! custom resource, and keeps nothing on disk.

mod content;
mod error;
mod limits;
mod name;
pub mod verify;

pub use content::sha256;
pub use error::{Error, Reason};
pub use limits::Limits;
pub use name::{NameError, Repository, Version};
pub use oci_spec;
