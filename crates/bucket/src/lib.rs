//! A client for buckets of object stores, over [`equate_egress`]: whether a bucket exists, its objects page by
//! page, and the content of one. Stores are S3-compatible ones, Google Cloud Storage and Azure Blob Storage.
//!
//! | module | content |
//! |---|---|
//! | `access` | how a store is reached: credentials, certificates, proxy, time |
//! | `place` | the URL of a bucket, and of the objects in it |
//! | `certificate` | the certificate of a service principal, and signed assertions; pure |
//! | `google` | the API of Google Cloud Storage; pure |
//! | `azure` | the API of Azure Blob Storage; pure |
//! | `identity` | users of LDAP and this process, which token services give temporary keys; pure |
//! | `environment` | the identity of this process, as its environment names it; pure |
//! | `temporary` | the requests for temporary keys |
//! | `tokens` | tokens that stores accept, until they expire |
//! | `sign` | signatures of requests (AWS Signature Version 4); pure |
//! | `answer` | lists and errors as XML; pure |
//! | `list` | the list of the objects |
//! | `store` | the requests |
//! | `local` | buckets in directories of this machine |
//!
//! Every answer has a limit. Redirects are not followed, because a signature is for one host. The crate
//! writes to no store and to no disk.

mod access;
mod answer;
mod azure;
mod certificate;
mod environment;
mod error;
mod google;
mod identity;
mod list;
mod local;
mod place;
mod sign;
mod store;
mod temporary;
mod tokens;

pub use access::{Access, Api, Credentials};
pub use answer::Object;
pub use azure::{AzureCredentials, Principal, Proof};
pub use certificate::{ClientCertificate, ClientCertificateError};
pub use environment::AwsEnvironment;
pub use error::{Error, Reason};
pub use google::{ServiceAccount, ServiceAccountError};
pub use identity::{Aws, Identity, Ldap, TokenServiceError};
pub use list::Listing;
pub use place::{Kind, PlaceError};
pub use secrecy::SecretString;
pub use store::{Bucket, Limits, Stores};
