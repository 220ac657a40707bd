//! Verification of packed charts: `helm verify`, over bytes.
//!
//! A `.prov` file is a cleartext signed message: the chart's `Chart.yaml`, a line with three dots, and
//! the SHA-256 of the archive under its file name. It is valid for the archive if one of the given keys
//! signed it and the sums agree. `Chart.yaml` in the message is not read: the sum covers the archive's
//! own.
//!
//! As in Helm, the first message of a file counts, and of its signatures the first that names one of the
//! keys. `equate_openpgp` decides which signatures are valid, for charts as for commits. Unlike Helm,
//! oversized texts and key rings are errors.

mod message;
#[cfg(test)]
mod tests;

use equate_manifest::go::quote;
use equate_manifest::json::type_name;
use equate_manifest::yaml::{self, YamlError};
use equate_openpgp::{
    Certificate, InvalidSignature, KeyFlaw, MalformedSignature, Signature, SignatureValidity,
};
use message::Message;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::time::SystemTime;

pub use equate_openpgp::{KeyRing, KeyRingError, RING_BYTES_MAX};

/// The suffix of a provenance file, after the archive's name.
pub const EXTENSION: &str = ".prov";
/// Bytes of a provenance file: Helm's largest `Chart.yaml`, and space for the rest.
pub const PROVENANCE_BYTES_MAX: usize = 6 << 20;

const SUMS_MAX: usize = 10_000;
const SUMS_DEPTH_MAX: usize = 10;

/// A verified signature of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The user ids of the key.
    pub signed_by: Vec<String>,
    /// The fingerprint of the key, in hexadecimal digits.
    pub fingerprint: String,
    /// The sum of the archive: `sha256:…`.
    pub digest: String,
}

/// An archive is not verified. Starts with Helm's text.
#[derive(Debug, thiserror::Error)]
pub enum ProvenanceError {
    /// The file is too large.
    #[error("the provenance has {bytes} bytes, more than {PROVENANCE_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The file has no complete message.
    #[error("signature block not found")]
    NoMessage,
    /// The signature does not parse.
    #[error("openpgp: invalid data")]
    Malformed(#[source] MalformedSignature),
    /// No signature names one of the keys.
    #[error("openpgp: signature made by unknown entity")]
    UnknownSigner,
    /// The signature is invalid, whatever the key.
    #[error("openpgp: {}", of_invalid(.0))]
    InvalidSignature(#[source] InvalidSignature),
    /// The named key did not sign this, or must not.
    #[error("openpgp: {}: key {key} {flaw}", of_flaw(*flaw))]
    NotSigned {
        /// The key's id.
        key: String,
        /// The cause.
        flaw: KeyFlaw,
    },
    /// The message has no sums.
    #[error("message block must have at least two parts")]
    NoSums,
    /// The sums are not YAML.
    #[error("error converting YAML to JSON: yaml")]
    Yaml(#[source] YamlError),
    /// The sums have the wrong type.
    #[error("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into {wanted}")]
    Type {
        /// The actual type.
        found: &'static str,
        /// The expected type, in Go's words.
        wanted: &'static str,
    },
    /// The archive's name has no sum.
    #[error("provenance does not contain a SHA for a file named {}", quote(.0))]
    NoSum(String),
    /// The archive is not the signed one.
    #[error("sha256 sum does not match for {name}: {} != {}", quote(signed), quote(found))]
    OtherSum {
        /// The archive's name.
        name: String,
        /// The signed sum.
        signed: String,
        /// The actual sum.
        found: String,
    },
}

/// Go's words.
fn of_invalid(invalid: &InvalidSignature) -> &'static str {
    match invalid {
        InvalidSignature::Future | InvalidSignature::Expired => "signature expired",
        _ => "invalid signature",
    }
}

/// Go's words; Go tells fewer flaws apart.
fn of_flaw(flaw: KeyFlaw) -> &'static str {
    match flaw {
        KeyFlaw::OtherContent => "invalid signature",
        KeyFlaw::Revoked | KeyFlaw::SubkeyRevoked => "signature made by revoked key",
        KeyFlaw::Expired | KeyFlaw::SubkeyExpired => "key expired",
        KeyFlaw::NoSelfSignature
        | KeyFlaw::MayNotSign
        | KeyFlaw::SubkeyUnbound
        | KeyFlaw::SubkeyMayNotSign
        | KeyFlaw::SubkeyWeak => "signature made by unknown entity",
    }
}

/// Verifies an archive with this file name against a provenance file, keys and a time.
///
/// # Errors
/// The signature or the sum is not valid for the archive.
pub fn verify(
    archive: &[u8],
    name: &str,
    provenance: &[u8],
    ring: &KeyRing,
    now: SystemTime,
) -> Result<Verified, ProvenanceError> {
    if provenance.len() > PROVENANCE_BYTES_MAX {
        return Err(ProvenanceError::TooLarge {
            bytes: provenance.len(),
        });
    }
    let message = Message::first(provenance).ok_or(ProvenanceError::NoMessage)?;
    let signatures = equate_openpgp::signatures(message.signature).map_err(ProvenanceError::Malformed)?;
    let key = signer(&signatures, &message.signed, ring, now)?;
    let signed = signed_sum(&message.text, name)?;
    let digest = format!("sha256:{:x}", Sha256::digest(archive));
    match signed == digest {
        true => Ok(Verified {
            signed_by: key.users().collect(),
            fingerprint: key.fingerprint(),
            digest,
        }),
        false => Err(ProvenanceError::OtherSum {
            name: name.to_owned(),
            signed,
            found: digest,
        }),
    }
}

/// The key of the first signature that names one of the ring. Of two copies of a key the valid one
/// counts.
fn signer<'k>(
    signatures: &[Signature],
    signed: &[u8],
    ring: &'k KeyRing,
    now: SystemTime,
) -> Result<&'k Certificate, ProvenanceError> {
    for signature in signatures {
        let mut flaw = None;
        for key in ring.certificates() {
            if !key.is_issuer_of(signature) {
                continue;
            }
            signature.check(now).map_err(ProvenanceError::InvalidSignature)?;
            match key.verify(signature, signed, now) {
                SignatureValidity::Valid => return Ok(key),
                SignatureValidity::OtherKey => {}
                SignatureValidity::Invalid(why) => flaw = flaw.or(Some((key.id(), why))),
            }
        }
        if let Some((key, flaw)) = flaw {
            return Err(ProvenanceError::NotSigned { key, flaw });
        }
    }
    Err(ProvenanceError::UnknownSigner)
}

fn signed_sum(text: &str, name: &str) -> Result<String, ProvenanceError> {
    let sums = text.split("\n...\n").nth(1).ok_or(ProvenanceError::NoSums)?;
    let options = yaml::Options {
        duplicates: yaml::Duplicates::Collect,
        bytes_max: PROVENANCE_BYTES_MAX,
        depth_max: SUMS_DEPTH_MAX,
        nodes_max: SUMS_MAX,
        ..yaml::Options::default()
    };
    let documents = yaml::load(sums, &options).map_err(ProvenanceError::Yaml)?;
    let all = documents.into_iter().next().map(|document| document.value);
    let all = mapping(all, "Go value of type provenance.SumCollection")?;
    // as Go's decoder does, keys ignore case
    let files = all.into_iter().find(|(key, _)| key.to_lowercase() == "files");
    let wanted = "Go struct field .files of type map[string]string";
    let mut files = mapping(files.map(|(_, files)| files), wanted)?;
    match files.remove(name) {
        None => Err(ProvenanceError::NoSum(name.to_owned())),
        Some(Value::String(sum)) => Ok(sum),
        Some(Value::Null) => Ok(String::new()),
        Some(scalar @ (Value::Bool(_) | Value::Number(_))) => Ok(scalar.to_string()),
        Some(other) => Err(ProvenanceError::Type {
            found: type_name(&other),
            wanted: "Go struct field .files of type string",
        }),
    }
}

fn mapping(value: Option<Value>, wanted: &'static str) -> Result<Map<String, Value>, ProvenanceError> {
    match value {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map),
        Some(other) => Err(ProvenanceError::Type {
            found: type_name(&other),
            wanted,
        }),
    }
}
