//! Verifies OpenPGP signatures over given bytes, with given keys, at a given time, without a keyring of the
//! machine, `gpg`, the network or a clock.
//!
//! Commits, tags and packaged charts share one definition of a valid signature. The newest valid
//! self-signature of a certificate decides: without one, revoked or expired, the certificate signs nothing.
//! A subkey needs a binding that allows signing, and its own back signature. As in Go's OpenPGP libraries,
//! MD5, SHA-1 and RIPEMD-160 over a document, DSA, and RSA below 2048 bits are refused.

mod certificate;
mod ring;
mod signature;
#[cfg(test)]
mod tests;

pub use certificate::{Certificate, KeyFlaw, SignatureValidity};
pub use ring::{CERTIFICATES_MAX, KeyRing, KeyRingError, RING_BYTES_MAX};
pub use signature::{InvalidSignature, MalformedSignature, SIGNATURES_MAX, Signature, signatures};
