//! A certificate: a primary key, its self-signatures and its subkeys.

use std::fmt;
use std::time::{Duration, SystemTime};

use pgp::composed::{SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{self, SignatureType, SubpacketData};
use pgp::ser::Serialize as _;
use pgp::types::{KeyDetails, PublicParams, Tag, VerifyingKey};

use crate::signature::Signature;

const RSA_BITS_MIN: u16 = 2047;

/// A public key with its self-signatures and subkeys. They are verified by [`Certificate::verify`], not
/// when read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate(pub(crate) SignedPublicKey);

/// The validity of a signature under a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureValidity {
    /// A key of this certificate made it and may sign.
    Valid,
    /// It names another key.
    OtherKey,
    /// It names a key of this certificate but is not valid.
    Invalid(KeyFlaw),
}

/// The reason why a signature that names a certificate is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFlaw {
    /// The signature is over other content or made by another key.
    OtherContent,
    /// The certificate is revoked.
    Revoked,
    /// The certificate has expired.
    Expired,
    /// The certificate has no valid self-signature.
    NoSelfSignature,
    /// The primary key may not sign or is too weak.
    MayNotSign,
    /// The subkey is revoked.
    SubkeyRevoked,
    /// The subkey has expired.
    SubkeyExpired,
    /// The certificate does not bind the subkey, or not yet.
    SubkeyUnbound,
    /// The subkey has another purpose or lacks its back signature.
    SubkeyMayNotSign,
    /// The subkey is too weak to sign.
    SubkeyWeak,
}

/// Follows the name of a key in a sentence.
impl fmt::Display for KeyFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherContent => "did not sign this content",
            Self::Revoked => "is revoked",
            Self::Expired => "has expired",
            Self::NoSelfSignature => "has no valid signature of its own",
            Self::MayNotSign => "may not sign or is too weak",
            Self::SubkeyRevoked => "has revoked the subkey that signed",
            Self::SubkeyExpired => "has a subkey that has expired",
            Self::SubkeyUnbound => "does not bind the subkey that signed",
            Self::SubkeyMayNotSign => "does not allow its subkey to sign",
            Self::SubkeyWeak => "has a subkey that is too weak to sign",
        })
    }
}

impl Certificate {
    /// The id of the primary key as 16 hexadecimal digits.
    pub fn id(&self) -> String {
        hexadecimal(self.0.legacy_key_id().as_ref())
    }

    /// The fingerprint of the primary key in hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        hexadecimal(self.0.fingerprint().as_bytes())
    }

    /// The user ids, `Name (comment) <address>`, which anybody can claim.
    pub fn users(&self) -> impl Iterator<Item = String> {
        let users = self.0.details.users.iter();
        users.map(|user| String::from_utf8_lossy(user.id.id()).into_owned())
    }

    /// Verifies a signature of these bytes. Call [`Signature::check`] first: it rejects signatures that are
    /// invalid with any key.
    pub fn verify(&self, signature: &Signature, payload: &[u8], now: SystemTime) -> SignatureValidity {
        let signature = &signature.0;
        let primary = &self.0.primary_key;
        if is_issuer(signature, primary) && signature.verify(primary, payload).is_ok() {
            return match newest_self_signature(&self.0, now) {
                Err(why) => SignatureValidity::Invalid(why),
                Ok(own) => match may_sign(own) && is_strong(primary) {
                    true => SignatureValidity::Valid,
                    false => SignatureValidity::Invalid(KeyFlaw::MayNotSign),
                },
            };
        }
        for subkey in &self.0.public_subkeys {
            if is_issuer(signature, &subkey.key) && signature.verify(&subkey.key, payload).is_ok() {
                return match newest_self_signature(&self.0, now)
                    .and_then(|_| check_binding(&self.0, subkey, now))
                {
                    Err(why) => SignatureValidity::Invalid(why),
                    Ok(()) if !is_strong(&subkey.key) => SignatureValidity::Invalid(KeyFlaw::SubkeyWeak),
                    Ok(()) => SignatureValidity::Valid,
                };
            }
        }
        match self.issued(signature) {
            true => SignatureValidity::Invalid(KeyFlaw::OtherContent),
            false => SignatureValidity::OtherKey,
        }
    }

    /// Whether a signature names a key of this certificate as its issuer.
    pub fn is_issuer_of(&self, signature: &Signature) -> bool {
        self.issued(&signature.0)
    }

    fn issued(&self, signature: &packet::Signature) -> bool {
        let mut subkeys = self.0.public_subkeys.iter();
        is_issuer(signature, &self.0.primary_key) || subkeys.any(|subkey| is_issuer(signature, &subkey.key))
    }
}

/// Whether a signature names this key as its issuer. A signature without an issuer belongs to no key.
fn is_issuer(signature: &packet::Signature, key: &impl KeyDetails) -> bool {
    signature.issuer_key_id().contains(&&key.legacy_key_id())
        || signature.issuer_fingerprint().contains(&&key.fingerprint())
}

/// Returns the newest valid self-signature of a certificate.
fn newest_self_signature(
    certificate: &SignedPublicKey,
    now: SystemTime,
) -> Result<&packet::Signature, KeyFlaw> {
    let primary = &certificate.primary_key;
    let details = &certificate.details;
    let revoked = details
        .revocation_signatures
        .iter()
        .any(|own| own.typ() == Some(SignatureType::KeyRevocation) && own.verify_key(primary).is_ok());
    if revoked {
        return Err(KeyFlaw::Revoked);
    }
    let direct = details
        .direct_signatures
        .iter()
        .filter(|own| own.typ() == Some(SignatureType::Key) && own.verify_key(primary).is_ok())
        .filter(|own| is_in_force(own, now));
    let users = details.users.iter().flat_map(|user| {
        let holds = |own: &&packet::Signature| {
            is_issuer(own, primary) && own.verify_certification(primary, Tag::UserId, &user.id).is_ok()
        };
        let newest = user
            .signatures
            .iter()
            .filter(holds)
            .filter(|own| is_revocation(own) || is_in_force(own, now))
            .max_by_key(|own| own.created().map(SystemTime::from));
        // a user id whose newest signature is a revocation does not count
        newest.filter(|own| !is_revocation(own))
    });
    let newest = direct
        .chain(users)
        .max_by_key(|own| own.created().map(SystemTime::from))
        .ok_or(KeyFlaw::NoSelfSignature)?;
    match has_ended(primary.created_at().into(), newest.key_expiration_time(), now) {
        true => Err(KeyFlaw::Expired),
        false => Ok(newest),
    }
}

/// Checks that a subkey may sign for its certificate.
fn check_binding(
    certificate: &SignedPublicKey,
    subkey: &SignedPublicSubKey,
    now: SystemTime,
) -> Result<(), KeyFlaw> {
    let primary = &certificate.primary_key;
    let valid: Vec<&packet::Signature> = subkey
        .signatures
        .iter()
        .filter(|own| own.verify_subkey_binding(primary, &subkey.key).is_ok())
        .collect();
    if valid
        .iter()
        .any(|own| own.typ() == Some(SignatureType::SubkeyRevocation))
    {
        return Err(KeyFlaw::SubkeyRevoked);
    }
    let newest = valid
        .into_iter()
        .filter(|own| own.typ() == Some(SignatureType::SubkeyBinding) && is_in_force(own, now))
        .max_by_key(|own| own.created().map(SystemTime::from))
        .ok_or(KeyFlaw::SubkeyUnbound)?;
    if has_ended(subkey.key.created_at().into(), newest.key_expiration_time(), now) {
        return Err(KeyFlaw::SubkeyExpired);
    }
    let back = newest
        .embedded_signature()
        .is_some_and(|back| back.verify_primary_key_binding(&subkey.key, primary).is_ok());
    match newest.key_flags().sign() && back {
        true => Ok(()),
        false => Err(KeyFlaw::SubkeyMayNotSign),
    }
}

/// Whether it revokes a user id. The library counts a revocation as a certification.
fn is_revocation(own: &packet::Signature) -> bool {
    own.typ() == Some(SignatureType::CertRevocation)
}

/// Whether a self-signature is valid now, by its creation, its expiration and its hash. Revocations are not
/// checked with it: they never expire.
fn is_in_force(own: &packet::Signature, now: SystemTime) -> bool {
    let created = own.created().map(SystemTime::from);
    let begun = created.filter(|created| *created <= now);
    own.hash_alg() != Some(HashAlgorithm::Md5)
        && begun.is_some_and(|created| !has_ended(created, own.signature_expiration_time(), now))
}

/// Whether a time span has ended; a span of zero means no end.
pub(crate) fn has_ended(from: SystemTime, span: Option<pgp::types::Duration>, now: SystemTime) -> bool {
    let span = span.map(Duration::from).filter(|span| !span.is_zero());
    span.and_then(|span| from.checked_add(span))
        .is_some_and(|end| now >= end)
}

/// A primary key without key flags may sign.
fn may_sign(own: &packet::Signature) -> bool {
    let says = own.config().is_some_and(|config| {
        config
            .hashed_subpackets()
            .any(|packet| matches!(packet.data, SubpacketData::KeyFlags(_)))
    });
    !says || own.key_flags().sign()
}

fn is_strong(key: &impl VerifyingKey) -> bool {
    match key.public_params() {
        PublicParams::RSA(params) => {
            let mut bytes = Vec::new();
            // the modulus comes first, after its bit count
            params.to_writer(&mut bytes).is_ok()
                && bytes
                    .first_chunk()
                    .is_some_and(|bits| u16::from_be_bytes(*bits) >= RSA_BITS_MIN)
        }
        PublicParams::DSA(_) | PublicParams::Elgamal(_) | PublicParams::Unknown { .. } => false,
        _ => true,
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
