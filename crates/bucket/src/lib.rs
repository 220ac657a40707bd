//! A client for buckets of S3-compatible object stores, over [`equate_egress`]: whether a bucket exists, its
//! objects page by page, and the content of one.
//!
//! | module | content |
//! |---|---|
//! | `access` | how a store is reached: credentials, certificates, proxy, time |
//! | `place` | the URL of a bucket, and of the objects in it |
//! | `sign` | signatures of requests (AWS Signature Version 4); pure |
//! | `answer` | lists and errors as XML; pure |
//! | `store` | the requests |
//! | `local` | buckets in directories of this machine |
//!
//! Every answer has a limit. Redirects are not followed, because a signature is for one host. The crate
//! writes to no store, knows no custom resource, and keeps nothing on disk.

mod access;
mod answer;
mod error;
mod local;
mod place;
mod sign;
mod store;

pub use access::{Access, Credentials};
pub use answer::Object;
pub use error::{Error, Reason};
pub use place::PlaceError;
pub use secrecy::SecretString;
pub use store::{Bucket, Limits, Stores};
