//! Verifies signatures of OCI artifacts: bytes, keys, trusted roots and a time in, a result out. No I/O and
//! no clock.
//!
//! | module | content |
//! |---|---|
//! | [`cosign`] | signatures of cosign 2 and 3, by key and keyless |
//! | [`notation`] | signatures of notation, by trust policy |
//!
//! Everything is hostile input: each part has a limit, and a malformed part is an error. Revocation lists,
//! Rekor and timestamp servers are never asked.

mod certificate;
mod certificate_log;
mod chain;
pub mod cosign;
mod der;
mod key;
mod log;
pub mod notation;
mod timestamp;
mod trusted_root;
mod wire;

pub use certificate::{CERTIFICATE_BYTES_MAX, CertificateError};
pub use certificate_log::CertificateLogError;
pub use chain::ChainError;
pub use der::DerError;
pub use key::{KEY_BYTES_MAX, KeyError, PublicKey, SignatureError};
pub use log::{LOG_ENTRIES_MAX, LogError};
pub use timestamp::{TIMESTAMPS_MAX, TimestampError};
pub use trusted_root::{TRUSTED_ENTRIES_MAX, TRUSTED_ROOT_BYTES_MAX, TrustedRoot, TrustedRootError};

/// Is asked before each signature, log entry, trusted authority and identity: lets others go first, and tells whether
/// the verification goes on. If not, its result counts no more.
pub type GoOn<'a> = &'a dyn Fn() -> bool;

/// An error and its causes in one line.
fn chain_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
