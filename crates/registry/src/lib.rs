//! A client for OCI registries: the distribution specification v1.1 over [`equate_egress`].
//!
//! | module | content |
//! |---|---|
//! | `name` | names of repositories, tags and digests |
//! | `credentials` | entries of a dockerconfigjson, and which one counts for a repository |
//! | `access` | how a registry is reached: credentials, certificates, proxy, time |
//! | `registries` | what all repositories share: clients, tokens, pauses |
//! | `exchange` | one request, with redirects, credentials and pauses |
//! | `remote` | an open repository, and its tokens |
//! | `entries` | the memory of lists |
//! | `pull`, `push` | tags, manifests, blobs, referrers |
//! | `local` | repositories in directories of this machine |
//! | `signatures` | what is fetched to verify an artifact |
//! | `tags` | the newest tag of a range of versions |
//! | [`verify`] | signatures of cosign and notation; pure |
//!
//! Content is verified by its digest while it arrives, and every answer has a limit. Credentials go to the
//! registry and to the token server that it names, never to the target of a redirect. The crate knows no
//! custom resource, and keeps nothing on disk.

mod access;
mod challenge;
mod content;
mod credentials;
mod entries;
mod error;
mod exchange;
mod limits;
mod local;
mod name;
mod pull;
mod push;
mod registries;
mod remote;
mod signatures;
pub mod tags;
pub mod verify;

pub use access::Access;
pub use content::sha256;
pub use credentials::{Credentials, DockerConfig, DockerConfigError};
pub use entries::Entries;
pub use equate_egress::Proxy;
pub use error::{Error, Reason};
pub use limits::Limits;
pub use local::{LocalImage, ReadImages, STAND_IN_LAYER};
pub use name::{NameError, Repository, Version};
pub use oci_spec;
pub use pull::{Image, Manifest};
pub use registries::Registries;
pub use remote::Remote;
pub use secrecy::SecretString;
pub use signatures::HeldSignatures;
