//! OpenPGP signatures, under the keys of armored key rings.
//!
//! A certificate is what its newest valid self-signature says of it: without one, revoked, or expired,
//! it signs nothing. A subkey needs a binding that lets it sign, and its own signature back.

use std::time::{Duration, SystemTime};

use pgp::{
    composed::{Deserializable, DetachedSignature, SignedPublicKey, SignedPublicSubKey},
    crypto::hash::HashAlgorithm,
    packet::{Signature, SignatureType, SubpacketData},
    ser::Serialize,
    types::{KeyDetails, PublicParams, Tag, VerifyingKey},
};

use super::{KeyFile, SignatureError};

const RSA_BITS_MIN: u16 = 2047;
/// Certificates of one file. A key ring of everybody is no statement of trust.
const CERTIFICATES_MAX: usize = 1_000;
/// Signatures of one armor that are looked at.
const SIGNATURES_MAX: usize = 8;
/// So much is said of one file that cannot be read.
const NOTES_MAX: usize = 3;
const BLOCK: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";

pub(super) fn verify(
    payload: &[u8],
    armor: &str,
    rings: &[KeyFile],
    now: SystemTime,
) -> Result<String, SignatureError> {
    let signatures = signatures(armor)?;
    let (good, mut bad): (Vec<_>, Vec<_>) = signatures
        .iter()
        .map(|signature| acceptable(signature, now).map(|()| signature))
        .partition(Result::is_ok);
    // several people may have signed; one of them is enough
    let good: Vec<&Signature> = good.into_iter().flatten().collect();
    if good.is_empty()
        && let Some(Err(refused)) = bad.drain(..).next()
    {
        return Err(refused);
    }
    let mut notes: Vec<String> = bad
        .into_iter()
        .filter_map(|bad| Some(bad.err()?.to_string()))
        .collect();
    for ring in rings {
        let (certificates, unreadable) = read(&ring.text);
        notes.extend(
            unreadable
                .into_iter()
                .map(|problem| format!("unable to read armored key ring {:?}: {problem}", ring.name)),
        );
        for certificate in &certificates {
            for signature in &good {
                match signer(certificate, signature, payload, now) {
                    Verdict::Signed => return Ok(id(certificate)),
                    Verdict::Unrelated => {}
                    Verdict::Not(why) => {
                        notes.push(format!("key {} in {:?} {why}", id(certificate), ring.name));
                    }
                }
            }
        }
    }
    Err(SignatureError::NoMatchingKey {
        place: "key rings",
        notes,
    })
}

/// The signatures of one armor, in their order.
fn signatures(armor: &str) -> Result<Vec<Signature>, SignatureError> {
    let malformed = |error: pgp::errors::Error| SignatureError::Malformed {
        kind: "PGP",
        problem: error.to_string(),
    };
    let (all, _) = DetachedSignature::from_string_many(armor).map_err(malformed)?;
    let mut found = Vec::new();
    for one in all.take(SIGNATURES_MAX) {
        match one {
            Ok(detached) => found.push(detached.signature),
            // what comes after one that can be read may be of a later version
            Err(error) if found.is_empty() => return Err(malformed(error)),
            Err(_) => break,
        }
    }
    match found.is_empty() {
        true => Err(SignatureError::Malformed {
            kind: "PGP",
            problem: "it holds no signature".to_owned(),
        }),
        false => Ok(found),
    }
}

enum Verdict {
    Signed,
    /// The signature names another key.
    Unrelated,
    Not(&'static str),
}

/// Every key of a file that can be read, and what of it cannot.
fn read(text: &str) -> (Vec<SignedPublicKey>, Vec<String>) {
    let (mut certificates, mut unreadable) = (Vec::new(), Vec::new());
    let mut note = |problem: String| {
        if unreadable.len() < NOTES_MAX {
            unreadable.push(problem);
        }
    };
    let blocks: Vec<usize> = text.match_indices(BLOCK).map(|(at, _)| at).collect();
    if blocks.is_empty() {
        note("it holds no armored public key".to_owned());
    }
    let mut seen = 0;
    for (index, start) in blocks.iter().enumerate() {
        let end = blocks.get(index + 1).copied().unwrap_or(text.len());
        let block = text.get(*start..end).unwrap_or_default();
        let parsed = match SignedPublicKey::from_string_many(block) {
            Ok((parsed, _)) => parsed,
            // one that is exotic does not hide the others
            Err(error) => {
                note(error.to_string());
                continue;
            }
        };
        for certificate in parsed {
            seen += 1;
            if seen > CERTIFICATES_MAX {
                note(format!("more than {CERTIFICATES_MAX} keys"));
                return (certificates, unreadable);
            }
            match certificate {
                Ok(certificate) => certificates.push(certificate),
                Err(error) => note(error.to_string()),
            }
        }
    }
    (certificates, unreadable)
}

fn acceptable(signature: &Signature, now: SystemTime) -> Result<(), SignatureError> {
    let refused = |problem: String| Err(SignatureError::Refused { kind: "PGP", problem });
    if !matches!(signature.typ(), Some(SignatureType::Binary | SignatureType::Text)) {
        return refused("it is no signature of a document".to_owned());
    }
    match signature.hash_alg() {
        Some(weak @ (HashAlgorithm::Md5 | HashAlgorithm::Sha1 | HashAlgorithm::Ripemd160)) => {
            return refused(format!("{weak} proves nothing any more"));
        }
        Some(HashAlgorithm::None) | None => return refused("it names no hash".to_owned()),
        Some(_) => {}
    }
    let Some(created) = signature.created().map(SystemTime::from) else {
        return refused("it does not say when it was made".to_owned());
    };
    if created > now {
        return refused("it was made in the future: check the clocks".to_owned());
    }
    if over(created, signature.signature_expiration_time(), now) {
        return refused("it has expired".to_owned());
    }
    Ok(())
}

fn signer(certificate: &SignedPublicKey, signature: &Signature, payload: &[u8], now: SystemTime) -> Verdict {
    let primary = &certificate.primary_key;
    if names(signature, primary) && signature.verify(primary, payload).is_ok() {
        return match certified(certificate, now) {
            Err(why) => Verdict::Not(why),
            Ok(own) => match may_sign(own) && strong(primary) {
                true => Verdict::Signed,
                false => Verdict::Not("may not sign, or is too weak to"),
            },
        };
    }
    for subkey in &certificate.public_subkeys {
        if names(signature, &subkey.key) && signature.verify(&subkey.key, payload).is_ok() {
            return match certified(certificate, now).and_then(|_| bound(certificate, subkey, now)) {
                Err(why) => Verdict::Not(why),
                Ok(()) if !strong(&subkey.key) => Verdict::Not("has a subkey that is too weak to sign"),
                Ok(()) => Verdict::Signed,
            };
        }
    }
    let named = names(signature, primary)
        || certificate
            .public_subkeys
            .iter()
            .any(|subkey| names(signature, &subkey.key));
    match named {
        true => Verdict::Not("did not sign this content"),
        false => Verdict::Unrelated,
    }
}

/// Whether a signature says it was made by this key. One that names nobody is nobody's.
fn names(signature: &Signature, key: &impl KeyDetails) -> bool {
    signature.issuer_key_id().contains(&&key.legacy_key_id())
        || signature.issuer_fingerprint().contains(&&key.fingerprint())
}

/// The newest of a certificate's own statements about itself, if it stands.
fn certified(certificate: &SignedPublicKey, now: SystemTime) -> Result<&Signature, &'static str> {
    let primary = &certificate.primary_key;
    let details = &certificate.details;
    let revoked = details
        .revocation_signatures
        .iter()
        .any(|own| own.typ() == Some(SignatureType::KeyRevocation) && own.verify_key(primary).is_ok());
    if revoked {
        return Err("is revoked");
    }
    let direct = details
        .direct_signatures
        .iter()
        .filter(|own| own.typ() == Some(SignatureType::Key) && own.verify_key(primary).is_ok())
        .filter(|own| stands(own, now));
    let users = details.users.iter().flat_map(|user| {
        let holds = |own: &&Signature| {
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
        .ok_or("has no valid signature of its own")?;
    if over(primary.created_at().into(), newest.key_expiration_time(), now) {
        return Err("has expired");
    }
    Ok(newest)
}

/// Whether a subkey may sign for its certificate.
fn bound(
    certificate: &SignedPublicKey,
    subkey: &SignedPublicSubKey,
    now: SystemTime,
) -> Result<(), &'static str> {
    let primary = &certificate.primary_key;
    let valid: Vec<&Signature> = subkey
        .signatures
        .iter()
        .filter(|own| own.verify_subkey_binding(primary, &subkey.key).is_ok())
        .collect();
    if valid
        .iter()
        .any(|own| own.typ() == Some(SignatureType::SubkeyRevocation))
    {
        return Err("has revoked the subkey that signed");
    }
    let newest = valid
        .into_iter()
        .filter(|own| own.typ() == Some(SignatureType::SubkeyBinding) && stands(own, now))
        .max_by_key(|own| own.created().map(SystemTime::from))
        .ok_or("does not bind the subkey that signed")?;
    if over(subkey.key.created_at().into(), newest.key_expiration_time(), now) {
        return Err("has a subkey that has expired");
    }
    let back = newest
        .embedded_signature()
        .is_some_and(|back| back.verify_primary_key_binding(&subkey.key, primary).is_ok());
    match newest.key_flags().sign() && back {
        true => Ok(()),
        false => Err("does not let its subkey sign"),
    }
}

/// Whether it takes back what was said of a user id. The library counts that as saying something.
fn revokes(own: &Signature) -> bool {
    own.typ() == Some(SignatureType::CertRevocation)
}

/// Whether a statement of a certificate about itself holds now: it was made, is not over, and its hash is
/// worth something. Revocations are not asked: they hold for ever.
fn stands(own: &Signature, now: SystemTime) -> bool {
    let created = own.created().map(SystemTime::from);
    let begun = created.filter(|created| *created <= now);
    own.hash_alg() != Some(HashAlgorithm::Md5)
        && begun.is_some_and(|created| !over(created, own.signature_expiration_time(), now))
}

/// Whether a time is up; a span of nothing is none.
fn over(from: SystemTime, span: Option<pgp::types::Duration>, now: SystemTime) -> bool {
    let span = span.map(Duration::from).filter(|span| !span.is_zero());
    span.and_then(|span| from.checked_add(span))
        .is_some_and(|end| now >= end)
}

/// A primary key that does not say what it is for may sign.
fn may_sign(own: &Signature) -> bool {
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

/// As people write it: 16 hexadecimal digits of the primary key.
fn id(certificate: &SignedPublicKey) -> String {
    let id = certificate.legacy_key_id();
    id.as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
}
