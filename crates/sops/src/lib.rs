//! SOPS documents, decrypted.
//!
//! Flux's users keep secrets in git as SOPS writes them: every value sealed for itself with one
//! data key, and the data key sealed for each of several recipients. This crate opens such
//! documents. It is pure: bytes and keys in, decrypted bytes out. What lives on a network, a
//! Vault's or OpenBao's transit engine, is asked through [`Transit`], which the caller carries out.
//!
//! | module | owns |
//! |---|---|
//! | `decrypter` | the story: read, find the data key, open the values, check the MAC, write |
//! | `object` | the same for a Kubernetes object that a build gave, as Flux does it |
//! | `format` | YAML, JSON, dotenv, binary: to a tree and back, as SOPS writes them |
//! | `tree`, `rules`, `walk`, `envelope` | values in order; which are sealed; opening them all; opening one |
//! | `budget` | how much of that one document may ask for |
//! | `metadata`, `data_key`, `shamir` | what stands under `sops`; key groups and their threshold |
//! | `keys`, `age`, `openpgp`, `transit` | the private keys given, and the three services |
//!
//! Refused, each by name: recipients of AWS, GCP, Azure and Huawei KMS, of age's post-quantum,
//! plugin and ssh kinds; PGP keys with a passphrase; INI files; input beyond the limits in
//! [`Limits`]. A value that should be sealed and is not is an error, never passed through.
//!
//! Encrypting is no business of this crate: a person does that with the real tool. The tests have
//! an encrypter, so that the real tool can be asked to read what it wrote.
//!
//! What is secret is in no `Debug` and no error: errors name files, keys of values, recipients and
//! services. Data keys, private keys, tokens, opened texts and the decrypted file are zeroed when this
//! crate drops them. What is made on the way to a file's spelling is not: quoted scalars, outgrown
//! buffers, numbers and dates, and what becomes of an object is the caller's in ordinary strings.

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
