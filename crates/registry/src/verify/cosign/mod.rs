//! Signatures of cosign, in both formats.
//!
//! | format | where it is | what is signed |
//! |---|---|---|
//! | bundle, cosign 3 | a referrer of the artifact with one layer `application/vnd.dev.sigstore.bundle…` | an in-toto statement about the digest |
//! | simple signing, cosign 2 | each layer of the manifest at the tag `sha256-<hex>.sig` | a payload with the digest |
//!
//! As in source-controller 1.9, bundles count if there are any, and the other format only without them. A
//! public key needs no transparency log. Without a key, a certificate of Fulcio must lead to a given trusted
//! root, a trusted log must have recorded the signature while the certificate was valid, and one identity
//! must match.
//!
//! Differences from upstream: the payload's digest is compared in the older format too, several identities
//! also work with bundles, and Rekor is never asked: a signature without its log entry is refused.

mod bundle;
mod identity;
mod simple;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use oci_spec::image::Digest;

use super::GoOn;
use super::certificate::{Certificate, CertificateError};
use super::certificate_log::{CertificateLogError, check_timestamps};
use super::chain::{Purpose, check_chain};
use super::key::{Hash, PublicKey, SignatureError};
use super::log::{LogEntry, LogError, Signed, check_entries};
use super::timestamp::{TimestampError, check_timestamp};
use super::trusted_root::TrustedRoot;

pub use bundle::{BUNDLE_BYTES_MAX, Bundle, BundleError, is_bundle_layer};
pub use identity::{Identity, IdentityError};
pub use simple::{PAYLOAD_BYTES_MAX, SIMPLE_SIGNING_MEDIA_TYPE, SimpleSignature, signature_tag};

/// The most signatures of one artifact.
pub const SIGNATURES_MAX: usize = 100;

/// The signers whose signatures count.
#[derive(Debug, Clone)]
pub enum Trust {
    /// The owner of a key.
    Key(PublicKey),
    /// Owners of certificates of a trusted root.
    Keyless {
        /// The trusted root.
        root: Box<TrustedRoot>,
        /// The identities, of which one must match. Without any, every identity matches.
        identities: Vec<Identity>,
    },
}

/// The signatures of one artifact.
#[derive(Debug, Clone, Default)]
pub struct Signatures {
    /// Bundles, from the artifact's referrers.
    pub bundles: Vec<Bundle>,
    /// Simple signatures, from the tag.
    pub simple: Vec<SimpleSignature>,
}

/// The signer of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signer {
    /// The owner of the given key.
    Key,
    /// The owner of a certificate.
    Certificate {
        /// The OIDC issuer.
        issuer: String,
        /// The subject alternative names.
        subjects: Vec<String>,
    },
}

/// An artifact has no signature that counts.
#[derive(Debug, thiserror::Error)]
pub enum Unverified {
    /// It has none at all.
    #[error("no signatures found")]
    None,
    /// It has too many.
    #[error("the artifact has {0} signatures, more than {SIGNATURES_MAX}")]
    TooMany(usize),
    /// The verification was stopped.
    #[error("the verification was stopped")]
    Stopped,
    /// None of its bundles counts.
    #[error("no matching attestations: {}", shown(.0))]
    Bundles(Vec<CosignError>),
    /// None of its simple signatures counts.
    #[error("no matching signatures: {}", shown(.0))]
    Simple(Vec<CosignError>),
}

fn shown(errors: &[CosignError]) -> String {
    let texts: Vec<String> = errors.iter().map(|error| super::chain_text(error)).collect();
    texts.join("\n ")
}

/// One signature does not count.
#[derive(Debug, thiserror::Error)]
pub enum CosignError {
    /// The bundle has a certificate, but a key is given.
    #[error("expected key signature, not certificate")]
    NotByKey,
    /// The signature has no certificate, but no key is given.
    #[error("no certificate found on signature")]
    NoCertificate,
    /// The content is not an envelope.
    #[error("bundle does not contain a DSSE envelope")]
    NoEnvelope,
    /// The payload of the envelope is not an in-toto statement.
    #[error("could not verify artifact: unable to extract statement from envelope")]
    Statement(#[source] Option<serde_json::Error>),
    /// The statement has too many subjects.
    #[error("too many subjects: {0}")]
    Subjects(usize),
    /// The statement is about other artifacts.
    #[error("provided artifact digest does not match any digest in statement")]
    OtherSubject,
    /// The payload is not a claim about an image.
    #[error("the payload is not a claim about an image")]
    Claim(#[source] serde_json::Error),
    /// The claim is about another image.
    #[error("invalid or missing digest in claim: {0}")]
    OtherImage(String),
    /// A field is malformed.
    #[error("the {0} of the signature is malformed")]
    Malformed(&'static str),
    /// The signature has no entry of a log.
    #[error(
        "the signature has no entry of a transparency log; sign with one, because equate does not ask Rekor"
    )]
    NoLogEntry,
    /// The certificate is malformed.
    #[error("invalid certificate found on signature")]
    Certificate(#[from] CertificateError),
    /// The certificate is not of the trusted root.
    #[error("leaf certificate verification failed: it is of no trusted authority at {0}")]
    Chain(Timestamp),
    /// The certificate was not recorded.
    #[error("failed to verify signed certificate timestamp")]
    CertificateLog(#[from] CertificateLogError),
    /// The signature was not recorded.
    #[error("failed to verify log inclusion")]
    Log(#[from] LogError),
    /// The signature has no time.
    #[error("threshold not met for verified log entry integrated timestamps: 0 < 1")]
    NoTime,
    /// The signature has no valid timestamp.
    #[error("threshold not met for verified signed timestamps: 0 < 1")]
    Timestamp(#[source] Option<TimestampError>),
    /// The certificate has expired.
    #[error("expected a signed timestamp to verify an expired certificate")]
    Expired,
    /// The signature is of another key or content.
    #[error("failed to verify signature")]
    Signature(#[from] SignatureError),
    /// The signer is another one.
    #[error(
        "none of the expected identities matched what was in the certificate, got subjects [{}] with issuer {issuer}",
        subjects.join(", ")
    )]
    OtherIdentity {
        /// The actual issuer.
        issuer: String,
        /// The actual subjects.
        subjects: Vec<String>,
    },
}

/// Verifies that one of the signatures of an artifact counts.
///
/// # Errors
/// None does; the error has the reason for each.
pub fn verify(
    artifact: &Digest,
    signatures: &Signatures,
    trust: &Trust,
    now: Timestamp,
    go_on: GoOn<'_>,
) -> Result<Signer, Unverified> {
    let count = signatures.bundles.len() + signatures.simple.len();
    if count > SIGNATURES_MAX {
        return Err(Unverified::TooMany(count));
    }
    if signatures.bundles.is_empty() {
        let results = signatures
            .simple
            .iter()
            .map(|signature| signature.verify(artifact, trust, now, go_on));
        return any(results, go_on)?.map_err(|errors| match errors.is_empty() {
            true => Unverified::None,
            false => Unverified::Simple(errors),
        });
    }
    let results = signatures
        .bundles
        .iter()
        .map(|bundle| bundle.verify(artifact, trust, go_on));
    any(results, go_on)?.map_err(Unverified::Bundles)
}

fn any(
    mut results: impl Iterator<Item = Result<Signer, CosignError>>,
    go_on: GoOn<'_>,
) -> Result<Result<Signer, Vec<CosignError>>, Unverified> {
    let mut errors = Vec::new();
    loop {
        if !go_on() {
            return Err(Unverified::Stopped);
        }
        match results.next() {
            Some(Ok(signer)) => return Ok(Ok(signer)),
            Some(Err(error)) => errors.push(error),
            None => return Ok(Err(errors)),
        }
    }
}

/// A signature with a certificate, and its evidence.
#[derive(Clone, Copy)]
struct Keyless<'a> {
    signed: Signed<'a>,
    entries: &'a [LogEntry],
    timestamps: &'a [Vec<u8>],
    /// Bundles use the hash that fits the key, the older format uses SHA-256.
    is_bundle: bool,
    go_on: GoOn<'a>,
}

impl Keyless<'_> {
    fn check(self, root: &TrustedRoot, identities: &[Identity]) -> Result<Signer, CosignError> {
        let certificate = self.signed.certificate;
        let times = self.times(root)?;
        let mut issuer = None;
        for time in &times {
            issuer = Some(authority_of(certificate, root, *time, self.go_on)?);
        }
        let issuer = issuer.ok_or(CosignError::NoTime)?;
        check_timestamps(certificate, issuer, &root.certificate_logs)?;
        self.check_signature()?;
        identity_of(certificate, identities, self.go_on)
    }

    /// The times at which the certificate must have been valid: those of logs and of timestamp authorities.
    /// Entries of Rekor 2 have none, so that a timestamp authority must have seen the signature.
    fn times(&self, root: &TrustedRoot) -> Result<Vec<Timestamp>, CosignError> {
        if self.entries.is_empty() {
            return Err(CosignError::NoLogEntry);
        }
        let mut times = check_entries(self.entries, root, self.signed, self.go_on)?;
        if times.is_empty() && self.entries.iter().any(LogEntry::has_time) {
            return Err(CosignError::NoTime);
        }
        let mut last = None;
        for timestamp in self.timestamps {
            let authorities = &root.timestamp_authorities;
            match check_timestamp(timestamp, self.signed.signature, authorities, self.go_on) {
                Ok(time) => times.push(time),
                Err(error) => last = Some(error),
            }
        }
        match times.is_empty() {
            true => Err(CosignError::Timestamp(last)),
            false => Ok(times),
        }
    }

    fn check_signature(&self) -> Result<(), SignatureError> {
        let key = self.signed.certificate.key();
        let check = |hash| key.check(hash, self.signed.message, self.signed.signature);
        match key.default_hash() {
            // older clients sign with SHA-256 whatever the key
            Hash::Sha384 if self.is_bundle => check(Hash::Sha384).or_else(|_| check(Hash::Sha256)),
            _ => check(Hash::Sha256),
        }
    }
}

/// The issuer of a certificate, at a time.
fn authority_of<'r>(
    certificate: &Certificate,
    root: &'r TrustedRoot,
    time: Timestamp,
    go_on: GoOn<'_>,
) -> Result<&'r Certificate, CosignError> {
    root.authorities
        .iter()
        .filter(|authority| authority.valid_for.contains(time) && go_on())
        .find_map(|authority| {
            let (others, root) = (&authority.intermediates, &authority.root);
            check_chain(certificate, others, root, time, Purpose::CodeSigning).ok()
        })
        .ok_or(CosignError::Chain(time))
}

fn identity_of(
    certificate: &Certificate,
    identities: &[Identity],
    go_on: GoOn<'_>,
) -> Result<Signer, CosignError> {
    let issuer = certificate.oidc_issuer()?;
    let subjects = certificate.subject_names()?;
    let matches = |identity: &Identity| go_on() && identity.matches(&issuer, &subjects);
    match identities.is_empty() || identities.iter().any(matches) {
        true => Ok(Signer::Certificate { issuer, subjects }),
        false => Err(CosignError::OtherIdentity { issuer, subjects }),
    }
}
