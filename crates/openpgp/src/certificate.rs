//! A certificate: a primary key, what it says of itself, and its subkeys.

use std::fmt;
use std::time::{Duration, SystemTime};

use pgp::composed::{SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{self, SignatureType, SubpacketData};
use pgp::ser::Serialize as _;
use pgp::types::{KeyDetails, PublicParams, Tag, VerifyingKey};

use crate::signature::Signature;

const RSA_BITS_MIN: u16 = 2047;

/// A public key with what belongs to it. Nothing in it counts before it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate(pub(crate) SignedPublicKey);

/// What a signature is worth under a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was made by a key of this certificate that may sign.
    Signed,
    /// It names another key.
    Unrelated,
    /// It names a key of this certificate, and does not count.
    Not(Flaw),
}

/// Why a signature that names a certificate does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The signature is of something else, or not by that key.
    OtherContent,
    /// The certificate was taken back.
    Revoked,
    /// The certificate's time is up.
    Expired,
    /// The certificate does not say anything of itself that holds.
    Silent,
    /// The primary key may not sign or is too weak.
    MayNotSign,
    /// The subkey was taken back.
    SubkeyRevoked,
    /// The subkey's time is up.
    SubkeyExpired,
    /// The subkey is not the certificate's, or not yet.
    SubkeyUnbound,
    /// The subkey is for something else, or does not say it is the certificate's.
    SubkeyMayNotSign,
    /// The subkey is too weak to sign.
    SubkeyWeak,
}

/// To be read after the name of a key.
impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherContent => "did not sign this content",
            Self::Revoked => "is revoked",
            Self::Expired => "has expired",
            Self::Silent => "has no valid signature of its own",
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
    /// The id of the primary key, as people write it: 16 hexadecimal digits.
    pub fn id(&self) -> String {
        hexadecimal(self.0.legacy_key_id().as_ref())
    }

    /// The fingerprint of the primary key, in hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        hexadecimal(self.0.fingerprint().as_bytes())
    }

    /// Whom it says it belongs to: `Name (comment) <address>`. Anybody may say anything.
    pub fn users(&self) -> impl Iterator<Item = String> {
        let users = self.0.details.users.iter();
        users.map(|user| String::from_utf8_lossy(user.id.id()).into_owned())
    }

    /// What a signature of these bytes is worth. Whether it is worth anything is asked of the signature
    /// ([`Signature::is_worth_something`]).
    pub fn judge(&self, signature: &Signature, payload: &[u8], now: SystemTime) -> Verdict {
        let signature = &signature.0;
        let primary = &self.0.primary_key;
        if names(signature, primary) && signature.verify(primary, payload).is_ok() {
            return match certified(&self.0, now) {
                Err(why) => Verdict::Not(why),
                Ok(own) => match may_sign(own) && strong(primary) {
                    true => Verdict::Signed,
                    false => Verdict::Not(Flaw::MayNotSign),
                },
            };
        }
        for subkey in &self.0.public_subkeys {
            if names(signature, &subkey.key) && signature.verify(&subkey.key, payload).is_ok() {
                return match certified(&self.0, now).and_then(|_| bound(&self.0, subkey, now)) {
                    Err(why) => Verdict::Not(why),
                    Ok(()) if !strong(&subkey.key) => Verdict::Not(Flaw::SubkeyWeak),
                    Ok(()) => Verdict::Signed,
                };
            }
        }
        match self.is_named(signature) {
            true => Verdict::Not(Flaw::OtherContent),
            false => Verdict::Unrelated,
        }
    }

    /// Whether a signature says that a key of this certificate made it.
    pub fn is_named_by(&self, signature: &Signature) -> bool {
        self.is_named(&signature.0)
    }

    fn is_named(&self, signature: &packet::Signature) -> bool {
        let mut subkeys = self.0.public_subkeys.iter();
        names(signature, &self.0.primary_key) || subkeys.any(|subkey| names(signature, &subkey.key))
    }
}

/// Whether a signature says it was made by this key. One that names nobody is nobody's.
fn names(signature: &packet::Signature, key: &impl KeyDetails) -> bool {
    signature.issuer_key_id().contains(&&key.legacy_key_id())
        || signature.issuer_fingerprint().contains(&&key.fingerprint())
}

/// The newest of a certificate's own statements about itself, if it stands.
fn certified(certificate: &SignedPublicKey, now: SystemTime) -> Result<&packet::Signature, Flaw> {
    let primary = &certificate.primary_key;
    let details = &certificate.details;
    let revoked = details
        .revocation_signatures
        .iter()
        .any(|own| own.typ() == Some(SignatureType::KeyRevocation) && own.verify_key(primary).is_ok());
    if revoked {
        return Err(Flaw::Revoked);
    }
    let direct = details
        .direct_signatures
        .iter()
        .filter(|own| own.typ() == Some(SignatureType::Key) && own.verify_key(primary).is_ok())
        .filter(|own| stands(own, now));
    let users = details.users.iter().flat_map(|user| {
        let holds = |own: &&packet::Signature| {
            names(own, primary) && own.verify_certification(primary, Tag::UserId, &user.id).is_ok()
        };
        let newest = user
            .signatures
            .iter()
            .filter(holds)
            .filter(|own| revokes(own) || stands(own, now))
            .max_by_key(|own| own.created().map(SystemTime::from));
        // a user id whose last word is its revocation says nothing
        newest.filter(|own| !revokes(own))
    });
    let newest = direct
        .chain(users)
        .max_by_key(|own| own.created().map(SystemTime::from))
        .ok_or(Flaw::Silent)?;
    match over(primary.created_at().into(), newest.key_expiration_time(), now) {
        true => Err(Flaw::Expired),
        false => Ok(newest),
    }
}

/// Whether a subkey may sign for its certificate.
fn bound(certificate: &SignedPublicKey, subkey: &SignedPublicSubKey, now: SystemTime) -> Result<(), Flaw> {
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
        return Err(Flaw::SubkeyRevoked);
    }
    let newest = valid
        .into_iter()
        .filter(|own| own.typ() == Some(SignatureType::SubkeyBinding) && stands(own, now))
        .max_by_key(|own| own.created().map(SystemTime::from))
        .ok_or(Flaw::SubkeyUnbound)?;
    if over(subkey.key.created_at().into(), newest.key_expiration_time(), now) {
        return Err(Flaw::SubkeyExpired);
    }
    let back = newest
        .embedded_signature()
        .is_some_and(|back| back.verify_primary_key_binding(&subkey.key, primary).is_ok());
    match newest.key_flags().sign() && back {
        true => Ok(()),
        false => Err(Flaw::SubkeyMayNotSign),
    }
}

/// Whether it takes back what was said of a user id. The library counts that as saying something.
fn revokes(own: &packet::Signature) -> bool {
    own.typ() == Some(SignatureType::CertRevocation)
}

/// Whether a statement of a certificate about itself holds now: it was made, is not over, and its hash is
/// worth something. Revocations are not asked: they hold for ever.
fn stands(own: &packet::Signature, now: SystemTime) -> bool {
    let created = own.created().map(SystemTime::from);
    let begun = created.filter(|created| *created <= now);
    own.hash_alg() != Some(HashAlgorithm::Md5)
        && begun.is_some_and(|created| !over(created, own.signature_expiration_time(), now))
}

/// Whether a time is up; a span of nothing is none.
pub(crate) fn over(from: SystemTime, span: Option<pgp::types::Duration>, now: SystemTime) -> bool {
    let span = span.map(Duration::from).filter(|span| !span.is_zero());
    span.and_then(|span| from.checked_add(span))
        .is_some_and(|end| now >= end)
}

/// A primary key that does not say what it is for may sign.
fn may_sign(own: &packet::Signature) -> bool {
    let says = own.config().is_some_and(|config| {
        config
            .hashed_subpackets()
            .any(|packet| matches!(packet.data, SubpacketData::KeyFlags(_)))
    });
    !says || own.key_flags().sign()
}

fn strong(key: &impl VerifyingKey) -> bool {
    match key.public_params() {
        PublicParams::RSA(params) => {
            let mut bytes = Vec::new();
            // the modulus comes first, with its bits in front
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
