//! Whether a packed chart is what somebody signed: `helm verify`, over bytes.
//!
//! A `.prov` file is a text that is signed in the clear: the chart's `Chart.yaml`, a line with three dots,
//! and the SHA-256 of the archive under its file name. It proves the archive when one of the keys that are
//! given signed the text and the archive has that sum. `Chart.yaml` in the text is not read, for the sum
//! covers the archive's own.
//!
//! As for Helm, the first signed text of a file counts and what is around it does not, and of its
//! signatures the first that names one of the keys decides. Which signatures count is settled in
//! `equate_openpgp`, for charts as for commits. Refused where Helm goes on: texts and key rings without
//! measure.

mod message;
#[cfg(test)]
mod tests;

use equate_manifest::json::type_name;
use equate_manifest::yaml::{self, YamlError};
use equate_openpgp::{
    Certificate, InvalidSignature, KeyFlaw, MalformedSignature, Signature, SignatureValidity,
};
use equate_template::quote;
use message::Message;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::time::SystemTime;

pub use equate_openpgp::{KeyRing, KeyRingError, RING_BYTES_MAX};

/// What the name of a chart's archive ends in when it is that of its provenance.
pub const EXTENSION: &str = ".prov";
/// Bytes of a provenance file: a `Chart.yaml` as large as Helm takes one, and room for the rest.
pub const PROVENANCE_BYTES_MAX: usize = 6 << 20;

/// Sums of one text.
const SUMS_MAX: usize = 10_000;
const SUMS_DEPTH_MAX: usize = 10;

/// Who vouches for an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Whom the key says it belongs to.
    pub signed_by: Vec<String>,
    /// The fingerprint of the key, in hexadecimal digits.
    pub fingerprint: String,
    /// The sum of the archive: `sha256:…`.
    pub digest: String,
}

/// Why an archive is not proved. Begins with what Helm says.
#[derive(Debug, thiserror::Error)]
pub enum ProvenanceError {
    /// The file is larger than is read.
    #[error("the provenance has {bytes} bytes, and at most {PROVENANCE_BYTES_MAX} are read")]
    TooLarge {
        /// How large it is.
        bytes: usize,
    },
    /// There is no signed text in the file, or not all of one.
    #[error("signature block not found")]
    NoMessage,
    /// The signature cannot be read.
    #[error("openpgp: invalid data")]
    Malformed(#[source] MalformedSignature),
    /// None of the keys is named by a signature.
    #[error("openpgp: signature made by unknown entity")]
    UnknownSigner,
    /// The signature proves nothing, whoever made it.
    #[error("openpgp: {}", of_invalid(.0))]
    InvalidSignature(#[source] InvalidSignature),
    /// The key that is named did not sign this, or may not.
    #[error("openpgp: {}: key {key} {flaw}", of_flaw(*flaw))]
    NotSigned {
        /// Its id.
        key: String,
        /// Why.
        flaw: KeyFlaw,
    },
    /// There are no sums in the text.
    #[error("message block must have at least two parts")]
    NoSums,
    /// What stands where sums do is no YAML.
    #[error("error converting YAML to JSON: yaml")]
    Yaml(#[source] YamlError),
    /// What stands where sums do is something else.
    #[error("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into {wanted}")]
    Type {
        /// What it is.
        found: &'static str,
        /// What would be read, in Go's words.
        wanted: &'static str,
    },
    /// There is no sum for the archive's name.
    #[error("provenance does not contain a SHA for a file named {}", quote(.0))]
    NoSum(String),
    /// The archive is not the one that was signed.
    #[error("sha256 sum does not match for {name}: {} != {}", quote(signed), quote(found))]
    OtherSum {
        /// The archive's name.
        name: String,
        /// The sum that was signed.
        signed: String,
        /// The sum it has.
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

/// Go's words, as far as it tells flaws apart.
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

/// Whether a provenance file proves an archive that has this file name, by one of these keys, at this time.
///
/// # Errors
/// It does not, and why.
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

/// The key that made the first of the signatures that names a key of the ring. Of two copies of a key the
/// one that stands counts.
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

/// The sum that a text holds for a file.
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
    // keys match as Go's decoder matches them
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

/// A mapping, empty where there is nothing.
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
