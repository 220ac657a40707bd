//! Sources as artifacts: ignore rules, archives, the store and its server.
//!
//! Fetched content becomes a [`Tree`]: immutable, content-addressed, read without a checkout. A [`Storage`]
//! keeps artifacts in Flux's layout: trees as deterministic `tar.gz`, and blobs (indexes, charts, layers)
//! byte for byte. It serves both to readers of Flux's artifacts. A [`Cache`] keeps downloaded archives whose
//! digest matches. Both give an artifact only to readers of the source that published it. This crate fetches
//! nothing and knows no custom resource; controllers decide what to keep and for how long.
//!
//! All calls block (files, hashing, compression), so asynchronous callers use `spawn_blocking`. The
//! exception is the router of [`Storage::router`].

mod archive;
mod cache;
mod digest;
mod ignore;
mod limits;
mod pauses;
mod storage;
mod tree;

pub use archive::{ArchiveError, Archived};
pub use cache::{Cache, CacheError, CacheKey, ReceiveError, Receiving};
pub use digest::{Digest, DigestError};
pub use ignore::{Glob, Ignore, KeyRules};
pub use limits::{LimitExceeded, Limits};
pub use pauses::{Pauses, Stopped};
pub use storage::{
    Blob, FileNameError, MediaType, Place, PlaceError, Publisher, Retention, Share, Storage, StorageError,
    Stored, StoredFile,
};
pub use tree::{
    ComposeError, ContentId, Entry, Gathering, Included, Parts, ReadError, Submodule, Tree, TreeError,
    UnpackError,
};
