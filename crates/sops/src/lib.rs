//! Decrypts SOPS documents.
//!
//! SOPS encrypts every value with one data key, and the data key for each of several recipients. This crate
//! decrypts such documents without I/O: bytes and keys in, decrypted bytes out. The caller sends requests
//! to Vault's or OpenBao's transit engine through [`Transit`].
//!
//! Refused by name: recipients of AWS, GCP, Azure and Huawei KMS, of age's post-quantum, plugin and ssh
//! kinds; PGP keys with a passphrase; INI files; input beyond [`Limits`]. A plain value that should be
//! encrypted is an error.
//!
//! This crate does not encrypt. The tests contain an encrypter whose output the real tool reads.
//!
//! No `Debug` output and no error contains a secret. Errors name files, keys of values, recipients and
//! services. Data keys, private keys, tokens, decrypted texts and the decrypted file are zeroed on drop.
//! Intermediate texts are not: quoted scalars, outgrown buffers, numbers and dates. Decrypted objects are
//! ordinary strings.

mod age;
mod budget;
mod data_key;
mod decrypter;
mod envelope;
mod format;
mod keys;
mod metadata;
mod object;
mod openpgp;
mod rules;
mod shamir;
mod transit;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

pub use age::IdentityError;
pub use budget::Exhausted;
pub use data_key::{DataKeyError, KeyFailure, KeyFault};
pub use decrypter::{Decrypter, FileError, Integrity, Limits};
pub use envelope::EnvelopeError;
pub use format::{Format, FormatError};
pub use keys::{Keys, KeysError};
pub use metadata::MetadataError;
pub use object::ObjectError;
pub use openpgp::SecretKeyError;
pub use secrecy::{ExposeSecret, SecretSlice, SecretString};
pub use shamir::ShamirError;
pub use transit::{
    ANSWER_BYTES_MAX as TRANSIT_ANSWER_BYTES_MAX, Transit, TransitError, TransitKey, TransitRequest,
};
pub use walk::{WalkError, WalkFault};
