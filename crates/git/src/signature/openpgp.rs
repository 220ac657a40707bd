//! OpenPGP signatures of commits and tags, verified with armored key rings by `equate_openpgp`. One valid
//! signature is enough.

use std::time::SystemTime;

use equate_openpgp::{KeyRing, MalformedSignature, Signature, SignatureValidity, signatures};

use super::{KeyFile, SignatureError};

pub(super) fn verify(
    payload: &[u8],
    armor: &str,
    rings: &[KeyFile],
    now: SystemTime,
) -> Result<String, SignatureError> {
    let signatures = signatures(armor).map_err(|error: MalformedSignature| SignatureError::Malformed {
        kind: "PGP",
        problem: error.to_string(),
    })?;
    let mut notes = Vec::new();
    let mut good: Vec<&Signature> = Vec::new();
    for signature in &signatures {
        match signature.check(now) {
            Ok(()) => good.push(signature),
            Err(invalid) => notes.push(SignatureError::Refused {
                kind: "PGP",
                problem: invalid.to_string(),
            }),
        }
    }
    if good.is_empty() && !notes.is_empty() {
        return Err(notes.swap_remove(0));
    }
    let mut notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    for ring in rings {
        let keys = KeyRing::armored(&ring.text);
        notes.extend(
            keys.unreadable()
                .iter()
                .map(|problem| format!("unable to read armored key ring {:?}: {problem}", ring.name)),
        );
        for certificate in keys.certificates() {
            for signature in &good {
                match certificate.verify(signature, payload, now) {
                    SignatureValidity::Valid => return Ok(certificate.id()),
                    SignatureValidity::OtherKey => {}
                    SignatureValidity::Invalid(flaw) => {
                        notes.push(format!("key {} in {:?} {flaw}", certificate.id(), ring.name));
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
