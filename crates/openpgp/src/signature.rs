//! The signatures in an armor.

use std::time::SystemTime;

use pgp::composed::{Deserializable, DetachedSignature};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{self, SignatureType};

use crate::certificate::over;

/// Signatures of one armor that are looked at.
pub const SIGNATURES_MAX: usize = 8;

/// A signature that somebody says is theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature(pub(crate) packet::Signature);

/// Why an armor holds no signature.
#[derive(Debug, thiserror::Error)]
pub enum MalformedSignature {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] pgp::errors::Error),
    /// There is nothing in it.
    #[error("it contains no signature")]
    Empty,
}

/// Why a signature proves nothing, whoever made it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Worthless {
    /// It is about a key, or about nothing.
    #[error("it is not the signature of a document")]
    OtherPurpose,
    /// Documents with the same hash can be made.
    #[error("{0} is no longer secure")]
    WeakHash(HashAlgorithm),
    /// It cannot be held against anything.
    #[error("it names no hash algorithm")]
    NoHash,
    /// Nobody can tell whether the key was good then.
    #[error("it has no creation time")]
    Undated,
    /// Somebody's clock is wrong, or it is forged.
    #[error("it was made in the future: check the clocks")]
    Future,
    /// It was made for a time.
    #[error("it has expired")]
    Expired,
}

/// The signatures of one armor, in their order: at most [`SIGNATURES_MAX`].
///
/// # Errors
/// The first cannot be read, or there is none.
pub fn signatures(armor: &str) -> Result<Vec<Signature>, MalformedSignature> {
    let (all, _) = DetachedSignature::from_string_many(armor)?;
    let mut found = Vec::new();
    for one in all.take(SIGNATURES_MAX) {
        match one {
            Ok(detached) => found.push(Signature(detached.signature)),
            // what comes after one that can be read may be of a later version
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
    /// Whether it could prove anything.
    ///
    /// # Errors
    /// Why it could not.
    pub fn is_worth_something(&self, now: SystemTime) -> Result<(), Worthless> {
        let signature = &self.0;
        if !matches!(signature.typ(), Some(SignatureType::Binary | SignatureType::Text)) {
            return Err(Worthless::OtherPurpose);
        }
        match signature.hash_alg() {
            Some(weak @ (HashAlgorithm::Md5 | HashAlgorithm::Sha1 | HashAlgorithm::Ripemd160)) => {
                return Err(Worthless::WeakHash(weak));
            }
            Some(HashAlgorithm::None) | None => return Err(Worthless::NoHash),
            Some(_) => {}
        }
        let created = signature.created().map(SystemTime::from);
        let created = created.ok_or(Worthless::Undated)?;
        if created > now {
            return Err(Worthless::Future);
        }
        match over(created, signature.signature_expiration_time(), now) {
            true => Err(Worthless::Expired),
            false => Ok(()),
        }
    }
}
