//! Sigstore bundles: an envelope or a message signature, with the certificate and the evidence of logs and
//! timestamp authorities.

use oci_spec::image::Digest;

use super::super::GoOn;
use super::super::certificate::{Certificate, CertificateError};
use super::super::log::{LOG_ENTRIES_MAX, LogEntry, LogError, Signed, from_hex};
use super::super::timestamp::TIMESTAMPS_MAX;
use super::super::wire;
use super::{CosignError, Keyless, Signer, Trust};

/// The most bytes of a bundle.
pub const BUNDLE_BYTES_MAX: usize = 4 << 20;
const SUBJECTS_MAX: usize = 1024;
const CHAIN_MAX: usize = 16;
const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle";
const STATEMENT: &str = "application/vnd.in-toto+json";

/// Whether a layer with this media type is a bundle.
#[must_use]
pub fn is_bundle_layer(media_type: &str) -> bool {
    media_type.starts_with(MEDIA_TYPE)
}

/// A layer is not a bundle that cosign finds.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// It is too large.
    #[error("the bundle has {bytes} bytes, more than {BUNDLE_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is not the expected JSON.
    #[error("validation error: the bundle is not valid JSON of its format")]
    Json(#[source] serde_json::Error),
    /// It has another version.
    #[error("validation error: unsupported media type: {0}")]
    MediaType(String),
    /// Its version is not found in registries.
    #[error("bundle version too old")]
    TooOld,
    /// It has no certificate or key.
    #[error("validation error: missing verification material")]
    NoMaterial,
    /// It has no content.
    #[error("validation error: missing bundle content")]
    NoContent,
    /// An older version's proof is missing.
    #[error("inclusion {0} missing in bundle")]
    NoProof(&'static str),
    /// It has a chain of certificates, or one with a root.
    #[error("verification material cannot be this X.509 certificate chain")]
    Chain,
    /// It has too many entries.
    #[error("the bundle has more than {max} {of}")]
    TooMany {
        /// The counted thing.
        of: &'static str,
        /// The limit.
        max: usize,
    },
    /// Its certificate is malformed.
    #[error("validation error: the certificate is malformed")]
    Certificate(#[from] CertificateError),
    /// A log entry is malformed.
    #[error("validation error: a log entry is malformed")]
    Entry(#[from] LogError),
    /// The envelope has several signatures.
    #[error("exactly one signature is required")]
    Signatures,
}

/// The versions of the format, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum BundleVersion {
    V0_1,
    V0_2,
    V0_3,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    Envelope { kind: String, payload: Vec<u8> },
    Message,
}

/// A bundle, parsed but not verified.
#[derive(Debug, Clone)]
pub struct Bundle {
    version: BundleVersion,
    pub(super) content: Content,
    signature: Vec<u8>,
    /// `None` if a key signed.
    certificate: Option<Certificate>,
    entries: Vec<LogEntry>,
    timestamps: Vec<Vec<u8>>,
}

impl Bundle {
    /// The bundle in the only layer of a referrer.
    ///
    /// # Errors
    /// It is malformed, or older than version 0.3. As cosign does, callers ignore such referrers.
    pub fn of_layer(json: &[u8]) -> Result<Self, BundleError> {
        let bundle = Self::parse(json)?;
        match bundle.version {
            BundleVersion::V0_3 => Ok(bundle),
            BundleVersion::V0_1 | BundleVersion::V0_2 => Err(BundleError::TooOld),
        }
    }

    pub(super) fn parse(json: &[u8]) -> Result<Self, BundleError> {
        if json.len() > BUNDLE_BYTES_MAX {
            return Err(BundleError::TooLarge { bytes: json.len() });
        }
        let bundle: wire::Bundle = serde_json::from_slice(json).map_err(BundleError::Json)?;
        let version = version(&bundle.media_type).ok_or(BundleError::MediaType(bundle.media_type))?;
        let mut material = bundle.verification_material.ok_or(BundleError::NoMaterial)?;
        let certificate = certificate(&mut material, version)?;
        let timestamps = material.timestamp_verification_data;
        let timestamps = timestamps.map_or_else(Vec::new, |data| data.rfc3161_timestamps);
        let counts = [
            (material.tlog_entries.len(), "log entries", LOG_ENTRIES_MAX),
            (timestamps.len(), "timestamps", TIMESTAMPS_MAX),
        ];
        if let Some((_, of, max)) = counts.into_iter().find(|(count, _, max)| count > max) {
            return Err(BundleError::TooMany { of, max });
        }
        let entries = material
            .tlog_entries
            .into_iter()
            .map(LogEntry::parse)
            .collect::<Result<Vec<_>, _>>()?;
        let (has, what): (fn(&LogEntry) -> bool, _) = match version {
            BundleVersion::V0_1 => (LogEntry::has_promise, "promises"),
            BundleVersion::V0_2 | BundleVersion::V0_3 => (LogEntry::has_proof, "proof"),
        };
        if !entries.is_empty() && !entries.iter().any(has) {
            return Err(BundleError::NoProof(what));
        }
        let (content, signature) = content(bundle.dsse_envelope, bundle.message_signature)?;
        Ok(Self {
            version,
            content,
            signature,
            certificate,
            entries,
            timestamps: timestamps
                .into_iter()
                .map(|timestamp| timestamp.signed_timestamp.0)
                .collect(),
        })
    }

    pub(super) fn verify(
        &self,
        artifact: &Digest,
        trust: &Trust,
        go_on: GoOn<'_>,
    ) -> Result<Signer, CosignError> {
        let Content::Envelope { kind, payload } = &self.content else {
            return Err(CosignError::NoEnvelope);
        };
        let message = pre_authentication(kind, payload);
        let signer = self.check(&message, Some(payload), trust, go_on)?;
        check_subject(kind, payload, artifact)?;
        Ok(signer)
    }

    /// Checks all but the subject.
    pub(super) fn check(
        &self,
        message: &[u8],
        payload: Option<&[u8]>,
        trust: &Trust,
        go_on: GoOn<'_>,
    ) -> Result<Signer, CosignError> {
        match (trust, &self.certificate) {
            (Trust::Key(key), None) => {
                key.check_cosign(message, &self.signature)?;
                Ok(Signer::Key)
            }
            (Trust::Key(_), Some(_)) => Err(CosignError::NotByKey),
            (Trust::Keyless { .. }, None) => Err(CosignError::NoCertificate),
            (Trust::Keyless { root, identities }, Some(certificate)) => {
                let keyless = Keyless {
                    signed: Signed {
                        signature: &self.signature,
                        certificate,
                        message,
                        payload,
                    },
                    entries: &self.entries,
                    timestamps: &self.timestamps,
                    is_bundle: true,
                    go_on,
                };
                keyless.check(root, identities)
            }
        }
    }
}

/// The bytes that the signature of an envelope covers (DSSE 1.0).
pub(super) fn pre_authentication(kind: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    message.extend_from_slice(payload);
    message
}

fn check_subject(kind: &str, payload: &[u8], artifact: &Digest) -> Result<(), CosignError> {
    if kind != STATEMENT {
        return Err(CosignError::Statement(None));
    }
    let statement: wire::Statement =
        serde_json::from_slice(payload).map_err(|error| CosignError::Statement(Some(error)))?;
    if statement.subject.len() > SUBJECTS_MAX {
        return Err(CosignError::Subjects(statement.subject.len()));
    }
    let algorithm = artifact.algorithm().to_string();
    let wanted = from_hex(artifact.digest()).ok_or(CosignError::OtherSubject)?;
    let is_subject = |subject: &wire::Subject| {
        let digest = subject.digest.get(&algorithm);
        digest.and_then(|hex| from_hex(hex)).as_ref() == Some(&wanted)
    };
    match statement.subject.iter().any(is_subject) {
        true => Ok(()),
        false => Err(CosignError::OtherSubject),
    }
}

fn version(media_type: &str) -> Option<BundleVersion> {
    match media_type.strip_prefix(MEDIA_TYPE)? {
        "+json;version=0.1" | ".v0.1+json" => Some(BundleVersion::V0_1),
        "+json;version=0.2" | ".v0.2+json" => Some(BundleVersion::V0_2),
        "+json;version=0.3" | ".v0.3+json" | ".v0.3.0+json" => Some(BundleVersion::V0_3),
        _ => None,
    }
}

fn certificate(
    material: &mut wire::Material,
    version: BundleVersion,
) -> Result<Option<Certificate>, BundleError> {
    match (
        material.x509_certificate_chain.take(),
        material.certificate.take(),
        material.public_key.take(),
    ) {
        (Some(chain), None, None) if version < BundleVersion::V0_3 => {
            if chain.certificates.len() > CHAIN_MAX {
                return Err(BundleError::TooMany {
                    of: "certificates",
                    max: CHAIN_MAX,
                });
            }
            let chain = chain
                .certificates
                .iter()
                .map(|certificate| Certificate::parse(&certificate.raw_bytes.0))
                .collect::<Result<Vec<_>, _>>()?;
            let is_root = |certificate: &Certificate| certificate.subject() == certificate.issuer();
            if chain.iter().skip(1).any(is_root) {
                return Err(BundleError::Chain);
            }
            let leaf = chain.into_iter().next();
            leaf.map(Some).ok_or(BundleError::NoMaterial)
        }
        (Some(_), None, None) => Err(BundleError::Chain),
        (None, Some(certificate), None) => Ok(Some(Certificate::parse(&certificate.raw_bytes.0)?)),
        (None, None, Some(wire::Hint {})) => Ok(None),
        _ => Err(BundleError::NoMaterial),
    }
}

fn content(
    envelope: Option<wire::Envelope>,
    message: Option<wire::MessageSignature>,
) -> Result<(Content, Vec<u8>), BundleError> {
    match (envelope, message) {
        (Some(envelope), None) => {
            let mut signatures = envelope.signatures.into_iter();
            let (Some(only), None) = (signatures.next(), signatures.next()) else {
                return Err(BundleError::Signatures);
            };
            let content = Content::Envelope {
                kind: envelope.payload_type,
                payload: envelope.payload.0,
            };
            Ok((content, only.sig.0))
        }
        (None, Some(message)) => Ok((Content::Message, message.signature.0)),
        _ => Err(BundleError::NoContent),
    }
}
