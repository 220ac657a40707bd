//! Cosign's older format: layers with a payload, and the signature in annotations.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use oci_spec::image::Digest;
use std::collections::HashMap;

use super::super::GoOn;
use super::super::certificate::Certificate;
use super::super::log::{LogEntry, Signed};
use super::super::wire;
use super::{CosignError, Keyless, Signer, Trust, authority_of};

/// The most bytes of a payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// The most bytes of an annotation.
const ANNOTATION_BYTES_MAX: usize = 1 << 20;
/// The media type of a payload.
pub const SIMPLE_SIGNING_MEDIA_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const BUNDLE: &str = "dev.sigstore.cosign/bundle";

/// The tag of the manifest with the signatures of an artifact.
#[must_use]
pub fn signature_tag(artifact: &Digest) -> String {
    format!("{}-{}.sig", artifact.algorithm(), artifact.digest())
}

/// One layer with its payload, not yet verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimpleSignature {
    payload: Vec<u8>,
    signature: String,
    certificate: Option<String>,
    bundle: Option<String>,
}

impl SimpleSignature {
    /// The signature in a layer; a layer without one has an empty signature, which never counts.
    #[must_use]
    pub fn of_layer(annotations: Option<&HashMap<String, String>>, payload: Vec<u8>) -> Self {
        let annotation = |name| annotations.and_then(|all| all.get(name)).cloned();
        Self {
            payload,
            signature: annotation(SIGNATURE).unwrap_or_default(),
            certificate: annotation(CERTIFICATE).filter(|text| !text.is_empty()),
            bundle: annotation(BUNDLE).filter(|text| !text.is_empty()),
        }
    }

    pub(super) fn verify(
        &self,
        artifact: &Digest,
        trust: &Trust,
        now: Timestamp,
        go_on: GoOn<'_>,
    ) -> Result<Signer, CosignError> {
        let texts = [&self.certificate, &self.bundle];
        let is_long = |text: &&Option<String>| {
            text.as_ref()
                .is_some_and(|text| text.len() > ANNOTATION_BYTES_MAX)
        };
        if self.payload.len() > PAYLOAD_BYTES_MAX || texts.iter().any(is_long) {
            return Err(CosignError::Malformed("size"));
        }
        let signature = STANDARD
            .decode(&self.signature)
            .map_err(|_| CosignError::Malformed("base64"))?;
        let certificate = match &self.certificate {
            Some(text) => Some(Certificate::from_pem(text.as_bytes())?),
            None => None,
        };
        let signer = match trust {
            Trust::Key(key) => {
                key.check_cosign(&self.payload, &signature)?;
                if certificate.is_some_and(|certificate| !certificate.is_valid_at(now)) {
                    return Err(CosignError::Expired);
                }
                Signer::Key
            }
            Trust::Keyless { root, identities } => {
                let certificate = certificate.ok_or(CosignError::NoCertificate)?;
                let bundle = self.bundle.as_ref().ok_or(CosignError::NoLogEntry)?;
                let bundle: wire::RekorBundle =
                    serde_json::from_str(bundle).map_err(|_| CosignError::Malformed("bundle"))?;
                let entry = LogEntry::of_rekor_bundle(bundle)?;
                authority_of(&certificate, root, certificate.not_before(), go_on)?;
                let keyless = Keyless {
                    signed: Signed {
                        signature: &signature,
                        certificate: &certificate,
                        message: &self.payload,
                        payload: None,
                    },
                    entries: std::slice::from_ref(&entry),
                    timestamps: &[],
                    is_bundle: false,
                    go_on,
                };
                keyless.check(root, identities)?
            }
        };
        let claim: wire::SimpleSigning = serde_json::from_slice(&self.payload).map_err(CosignError::Claim)?;
        match claim.critical.image.digest {
            digest if digest == artifact.as_ref() => Ok(signer),
            digest => Err(CosignError::OtherImage(digest)),
        }
    }
}
