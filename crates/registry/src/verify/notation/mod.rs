//! Signatures of notation: envelopes in JWS and COSE, a trust policy, and trusted certificates.
//!
//! The rules and texts are those of notation-go 1.3, as source-controller 1.9 uses it: at most three
//! signatures are tried, every given certificate is in each trust store, and a policy that only logs leaves
//! the artifact unverified but usable.
//!
//! Differences: nobody is asked about revocation, so that a certificate that names a server for it has an
//! unknown status; countersignatures of timestamp authorities are not verified, and a policy that needs one
//! fails; unknown critical attributes fail, as the specification says; P-521 is not supported.

mod cbor;
mod code_signing;
mod cose;
mod distinguished_name;
mod envelope;
mod jws;
mod policy;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::Deserialize;

use super::certificate::{CERTIFICATE_BYTES_MAX, Certificate, CertificateError};
use distinguished_name::DistinguishedName;
use envelope::{Envelope, Scheme};
use policy::{Action, Statement};

pub use envelope::EnvelopeError;
pub use policy::{POLICY_BYTES_MAX, PolicyError, TrustPolicy};

/// The most signatures that are tried, as in source-controller.
pub const ATTEMPTS_MAX: usize = 3;
/// The most bytes of an envelope.
pub const ENVELOPE_BYTES_MAX: usize = 4 << 20;
/// The most trusted certificates.
pub const CERTIFICATES_MAX: usize = 1_000;
/// The artifact type of a signature among the referrers.
pub const ARTIFACT_TYPE: &str = "application/vnd.cncf.notary.signature";
const PAYLOAD: &str = "application/vnd.cncf.notary.payload.v1+json";

/// The certificates that a user trusts.
#[derive(Debug, Clone, Default)]
pub struct TrustStore {
    certificates: Vec<Certificate>,
}

/// The trusted certificates cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TrustStoreError {
    /// There are too many.
    #[error("more than {CERTIFICATES_MAX} trusted certificates")]
    TooMany,
    /// One is malformed.
    #[error("failed to parse certificate '{name}'")]
    Certificate {
        /// The name of its file.
        name: String,
        /// The cause.
        source: CertificateError,
    },
}

impl TrustStore {
    /// The certificates of named files: of each its first PEM block, or DER.
    ///
    /// # Errors
    /// One is malformed, or there are too many.
    pub fn new<'f>(files: impl IntoIterator<Item = (&'f str, &'f [u8])>) -> Result<Self, TrustStoreError> {
        let mut certificates = Vec::new();
        for (name, bytes) in files {
            if certificates.len() == CERTIFICATES_MAX {
                return Err(TrustStoreError::TooMany);
            }
            let is_small = bytes.len() <= 2 * CERTIFICATE_BYTES_MAX;
            let parsed = match pem::parse(bytes) {
                Ok(block) if is_small => Certificate::parse(block.contents()),
                _ => Certificate::parse(bytes),
            };
            certificates.push(parsed.map_err(|source| TrustStoreError::Certificate {
                name: name.to_owned(),
                source,
            })?);
        }
        Ok(Self { certificates })
    }
}

/// The descriptor of the signed artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The media type of its manifest.
    pub media_type: String,
    /// The digest of its manifest.
    pub digest: String,
    /// The size of its manifest in bytes.
    pub size: u64,
}

/// A signature of an artifact, not yet verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotationSignature {
    /// The digest of its manifest, for messages.
    pub digest: String,
    /// The media type of the envelope.
    pub media_type: String,
    /// The envelope.
    pub envelope: Vec<u8>,
}

/// The result for an artifact that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A signature counts. A policy that only logs some checks lists those that failed.
    Verified(Vec<String>),
    /// A signature is intact but not of a trusted signer, and the policy only logs that.
    Ignored(Vec<String>),
    /// The policy skips the artifact.
    Skipped,
}

/// An artifact may not be used.
#[derive(Debug, thiserror::Error)]
pub enum NotationError {
    /// No statement applies.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// There is no signature.
    #[error("no signature is associated with \"{0}\", make sure the artifact was signed successfully")]
    NoSignature(String),
    /// The first signatures do not count.
    #[error(
        "signature evaluation stopped. The configured limit of {ATTEMPTS_MAX} signatures to verify per \
         artifact exceeded: {}",
        shown(.0)
    )]
    Attempts(Vec<(String, SignatureProblem)>),
    /// No signature counts.
    #[error("signature verification failed\n{}", shown(.0))]
    Failed(Vec<(String, SignatureProblem)>),
}

fn shown(problems: &[(String, SignatureProblem)]) -> String {
    let texts: Vec<String> = problems
        .iter()
        .map(|(digest, problem)| {
            let problem = super::chain_text(problem);
            format!("failed to verify signature with digest {digest}, {problem}")
        })
        .collect();
    texts.join("\n")
}

/// One signature does not count.
#[derive(Debug, thiserror::Error)]
pub enum SignatureProblem {
    /// The envelope is not intact.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The envelope has other content.
    #[error("payload content type \"{0}\" not supported, only \"{PAYLOAD}\" is")]
    ContentType(String),
    /// The content is malformed.
    #[error("the payload of the signature is malformed")]
    Payload(#[source] serde_json::Error),
    /// The signature is of another artifact.
    #[error("content descriptor mismatch")]
    OtherArtifact,
    /// An enforced check failed.
    #[error("{0}")]
    Check(String),
}

/// Verifies that a signature of an artifact counts. `reference` is its name with its digest.
///
/// # Errors
/// No statement of the policy applies, or no signature counts.
pub fn verify(
    policy: &TrustPolicy,
    store: &TrustStore,
    reference: &str,
    target: &Target,
    signatures: &[NotationSignature],
    now: Timestamp,
) -> Result<Outcome, NotationError> {
    let statement = policy.statement_for(reference)?;
    if statement.is_skipped() {
        return Ok(Outcome::Skipped);
    }
    if signatures.is_empty() {
        return Err(NotationError::NoSignature(reference.to_owned()));
    }
    let mut problems = Vec::new();
    for signature in signatures.iter().take(ATTEMPTS_MAX) {
        match verify_one(statement, store, target, signature, now) {
            Ok(outcome) => return Ok(outcome),
            Err(problem) => problems.push((signature.digest.clone(), problem)),
        }
    }
    match signatures.len() >= ATTEMPTS_MAX {
        true => Err(NotationError::Attempts(problems)),
        false => Err(NotationError::Failed(problems)),
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    target_artifact: TargetArtifact,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetArtifact {
    media_type: String,
    digest: String,
    size: u64,
}

fn verify_one(
    statement: &Statement,
    store: &TrustStore,
    target: &Target,
    signature: &NotationSignature,
    now: Timestamp,
) -> Result<Outcome, SignatureProblem> {
    let envelope = Envelope::verify(&signature.media_type, &signature.envelope)?;
    if envelope.content_type != PAYLOAD {
        return Err(SignatureProblem::ContentType(envelope.content_type));
    }
    let level = statement.level();
    let mut logged = Vec::new();
    let mut check = |action: Action, result: Result<(), String>| match (action, result) {
        (Action::Skip, _) | (_, Ok(())) => Ok(true),
        (Action::Enforce, Err(problem)) => Err(SignatureProblem::Check(problem)),
        (Action::Log, Err(problem)) => {
            logged.push(problem);
            Ok(false)
        }
    };
    let is_of_store = check(
        level.authenticity,
        check_authenticity(&envelope, statement, store),
    )?;
    let is_identity = check(level.authenticity, check_identity(&envelope, statement))?;
    check(level.expiry, check_expiry(&envelope, now))?;
    check(level.authentic_timestamp, check_time(&envelope, statement, now))?;
    check(level.revocation, check_revocation(&envelope))?;

    let payload: Payload = serde_json::from_slice(&envelope.payload).map_err(SignatureProblem::Payload)?;
    let signed = payload.target_artifact;
    let is_target = signed.digest == target.digest
        && signed.size == target.size
        && signed.media_type == target.media_type;
    match (is_target, is_of_store && is_identity) {
        (false, _) => Err(SignatureProblem::OtherArtifact),
        (true, true) => Ok(Outcome::Verified(logged)),
        (true, false) => Ok(Outcome::Ignored(logged)),
    }
}

fn check_authenticity(envelope: &Envelope, statement: &Statement, store: &TrustStore) -> Result<(), String> {
    let kind = match envelope.scheme {
        Scheme::X509 => "ca",
        Scheme::SigningAuthority => "signingAuthority",
    };
    if !statement.has_store(kind) || store.certificates.is_empty() {
        return Err("no trusted certificates are found to verify authenticity".to_owned());
    }
    let is_trusted = |certificate: &Certificate| store.certificates.contains(certificate);
    match envelope.chain.iter().any(is_trusted) {
        true => Ok(()),
        false => Err("the signature's certificate chain does not contain any trusted certificate".to_owned()),
    }
}

fn check_identity(envelope: &Envelope, statement: &Statement) -> Result<(), String> {
    let Some(trusted) = statement.trusted_identities() else {
        return Ok(());
    };
    if trusted.is_empty() {
        return Err(format!(
            "no x509 trusted identities are configured in the trust policy \"{}\"",
            statement.name()
        ));
    }
    let subject = DistinguishedName::of_certificate(envelope.leaf())
        .map_err(|problem| format!("error while parsing the certificate subject: {problem}"))?;
    match trusted.iter().any(|identity| identity.is_part_of(&subject)) {
        true => Ok(()),
        false => Err(format!(
            "signing certificate from the digital signature does not match the X.509 trusted identities \
             defined in the trust policy \"{}\"",
            statement.name()
        )),
    }
}

fn check_expiry(envelope: &Envelope, now: Timestamp) -> Result<(), String> {
    match envelope.expiry {
        Some(expiry) if now >= expiry => Err(format!("digital signature has expired on \"{expiry}\"")),
        _ => Ok(()),
    }
}

fn check_time(envelope: &Envelope, statement: &Statement, now: Timestamp) -> Result<(), String> {
    if envelope.scheme == Scheme::SigningAuthority {
        let time = envelope.signing_time;
        let invalid = envelope.chain.iter().find(|other| !other.is_valid_at(time));
        return match invalid {
            None => Ok(()),
            Some(certificate) => Err(format!(
                "certificate \"{}\" was not valid when the digital signature was produced at \"{time}\"",
                code_signing::subject_of(certificate)
            )),
        };
    }
    let is_expired = envelope.chain.iter().any(|other| now > other.not_after());
    if statement.has_store("tsa") && (statement.always_needs_timestamp() || is_expired) {
        return Err(
            "timestamp countersignatures are not supported; remove the tsa trust store from the trust policy, \
             or set verifyTimestamp to afterCertExpiry and sign with a certificate that is valid"
                .to_owned(),
        );
    }
    for certificate in &envelope.chain {
        let subject = || code_signing::subject_of(certificate);
        let (start, end) = (certificate.not_before(), certificate.not_after());
        if now < start {
            return Err(format!(
                "verification time is before certificate \"{}\" validity period, it will be valid from \"{start}\"",
                subject()
            ));
        }
        if now > end {
            return Err(format!(
                "verification time is after certificate \"{}\" validity period, it was expired at \"{end}\"",
                subject()
            ));
        }
    }
    Ok(())
}

/// The root at the end of the chain is not revocable.
fn check_revocation(envelope: &Envelope) -> Result<(), String> {
    let issued = &envelope.chain[..envelope.chain.len().saturating_sub(1)];
    let revocable = issued
        .iter()
        .find(|certificate| certificate.is_revocable().unwrap_or(true));
    match revocable {
        None => Ok(()),
        Some(certificate) => Err(format!(
            "signing certificate with subject \"{}\" revocation status is unknown: equate does not ask OCSP \
             servers or for revocation lists; set the override of revocation to skip or log in the trust policy",
            code_signing::subject_of(certificate)
        )),
    }
}
