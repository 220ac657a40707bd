//! The signatures in an armor.

use std::time::SystemTime;

use pgp::composed::{Deserializable, DetachedSignature};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{self, SignatureType};

use crate::certificate::has_ended;

/// The most signatures of one armor that are read.
pub const SIGNATURES_MAX: usize = 8;

/// A signature that is not verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature(pub(crate) packet::Signature);

/// The reason why an armor has no readable signature.
#[derive(Debug, thiserror::Error)]
pub enum MalformedSignature {
    /// It cannot be parsed.
    #[error(transparent)]
    Unreadable(#[from] pgp::errors::Error),
    /// It is empty.
    #[error("it contains no signature")]
    Empty,
}

/// The reason why a signature is invalid with any key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSignature {
    /// It signs a key, or nothing.
    #[error("it is not the signature of a document")]
    OtherPurpose,
    /// Collisions of this hash can be made.
    #[error("{0} is no longer secure")]
    WeakHash(HashAlgorithm),
    /// Nothing can be compared with it.
    #[error("it names no hash algorithm")]
    NoHash,
    /// The state of the key at signing time is unknown.
    #[error("it has no creation time")]
    Undated,
    /// A clock is wrong, or it is forged.
    #[error("it was made in the future: check the clocks")]
    Future,
    /// Its own lifetime has ended.
    #[error("it has expired")]
    Expired,
}

/// Reads the signatures of one armor in their order, at most [`SIGNATURES_MAX`].
///
/// # Errors
/// The first signature cannot be read, or there is none.
pub fn signatures(armor: &str) -> Result<Vec<Signature>, MalformedSignature> {
    let (all, _) = DetachedSignature::from_string_many(armor)?;
    let mut found = Vec::new();
    for one in all.take(SIGNATURES_MAX) {
        match one {
            Ok(detached) => found.push(Signature(detached.signature)),
            // signatures after a readable one may have a later version
            Err(error) if found.is_empty() => return Err(error.into()),
            Err(_) => break,
        }
    }
    match found.is_empty() {
        true => Err(MalformedSignature::Empty),
        false => Ok(found),
    }
}

impl Signature {
    /// Checks the properties that hold for any key: purpose, hash and dates.
    ///
    /// # Errors
    /// The signature is invalid with any key.
    pub fn check(&self, now: SystemTime) -> Result<(), InvalidSignature> {
        let signature = &self.0;
        if !matches!(signature.typ(), Some(SignatureType::Binary | SignatureType::Text)) {
            return Err(InvalidSignature::OtherPurpose);
        }
        match signature.hash_alg() {
            Some(weak @ (HashAlgorithm::Md5 | HashAlgorithm::Sha1 | HashAlgorithm::Ripemd160)) => {
                return Err(InvalidSignature::WeakHash(weak));
            }
            Some(HashAlgorithm::None) | None => return Err(InvalidSignature::NoHash),
            Some(_) => {}
        }
        let created = signature.created().map(SystemTime::from);
        let created = created.ok_or(InvalidSignature::Undated)?;
        if created > now {
            return Err(InvalidSignature::Future);
        }
        match has_ended(created, signature.signature_expiration_time(), now) {
            true => Err(InvalidSignature::Expired),
            false => Ok(()),
        }
    }
}
