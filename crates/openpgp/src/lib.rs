//! Whether an OpenPGP signature counts: over bytes that are given, under keys that are given, at a time
//! that is given. No keyring of the machine, no `gpg`, no network, no clock; nothing is signed.
//!
//! Commits, tags and packaged charts are signed by people who mean the same thing by it, so what makes a
//! signature good is decided here, once. A certificate is what its newest valid self-signature says of it:
//! without one, revoked, or expired, it signs nothing. A subkey needs a binding that lets it sign, and its
//! own signature back. Refused are MD5, SHA-1 and RIPEMD-160 over a document, DSA, and RSA below 2048 bits,
//! as Go's readers of OpenPGP refuse them. Who calls says what a verdict means and in which words.
//!
//! | module | what it answers |
//! |---|---|
//! | `ring` | the keys in a file: armored, binary, or a keybox of GnuPG's |
//! | `signature` | the signatures in an armor, and which prove nothing whoever made them |
//! | `certificate` | whether a key made a signature, and may |

mod certificate;
mod ring;
mod signature;
#[cfg(test)]
mod tests;

pub use certificate::{Certificate, Flaw, Verdict};
pub use ring::{CERTIFICATES_MAX, KeyRing, NoKeyRing, RING_BYTES_MAX};
pub use signature::{MalformedSignature, SIGNATURES_MAX, Signature, Worthless, signatures};
