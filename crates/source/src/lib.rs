//! What was fetched as artifacts: ignore rules, archives, the store and its server.
//!
//! Whatever is fetched becomes a [`Tree`]: immutable, content-addressed, read without a checkout. A
//! [`Storage`] keeps trees as artifacts, writes each as a deterministic `tar.gz` where Flux writes its
//! own, keeps blobs (indexes, charts, layers) byte for byte, and serves both to whoever reads Flux's
//! artifacts. A [`Cache`] keeps archives that others published, and takes only what hashes to what it was
//! asked for. This crate fetches nothing, knows no custom resource and reads no cluster: controllers say
//! what to keep and for how long.
//!
//! Everything here blocks (files, hashing, compression); callers on a runtime use `spawn_blocking`. The
//! one exception is the router of [`Storage::router`].

mod archive;
mod cache;
mod digest;
mod ignore;
mod limits;
mod storage;
mod tree;

pub use archive::{ArchiveError, Archived};
pub use cache::{Cache, CacheError, ReceiveError, Receiving};
pub use digest::{Digest, DigestError};
pub use ignore::Ignore;
pub use limits::{LimitExceeded, Limits};
pub use storage::{
    Blob, FileNameError, MediaType, Place, PlaceError, Retention, Storage, StorageError, Stored, StoredFile,
};
pub use tree::{ComposeError, ContentId, Entry, Included, Parts, ReadError, Submodule, Tree, TreeError};
