//! Fetches the signatures of an artifact. What they are worth is decided in [`verify`](crate::verify).

use std::ops::Deref;

use equate_egress::{Displaced, HeldAnswer};
use oci_spec::image::{Descriptor, Digest};

use crate::error::{Error, Problem, Reason};
use crate::name::Version;
use crate::remote::Remote;
use crate::verify::cosign::{
    BUNDLE_BYTES_MAX, Bundle, PAYLOAD_BYTES_MAX, SIGNATURES_MAX, Signatures, SimpleSignature,
    is_bundle_layer, signature_tag,
};
use crate::verify::notation::{ARTIFACT_TYPE, ATTEMPTS_MAX, ENVELOPE_BYTES_MAX, NotationSignature};

/// Bytes of all signatures of one artifact.
const SIGNATURE_BYTES_MAX: u64 = 16 << 20;

/// The signatures of an artifact. Their memory counts until they are dropped.
#[derive(Debug)]
pub struct HeldSignatures<T> {
    signatures: T,
    held: HeldAnswer,
}

impl<T> HeldSignatures<T> {
    /// Checks that they may be kept.
    ///
    /// # Errors
    /// All answers together need too much memory, and these signatures must be dropped.
    pub fn check(&self) -> Result<(), Displaced> {
        self.held.add(0).map(drop)
    }
}

impl<T> Deref for HeldSignatures<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.signatures
    }
}

/// The bytes that are left for signatures.
struct Allowance<'a> {
    left: u64,
    held: &'a HeldAnswer,
}

impl<'a> Allowance<'a> {
    fn new(held: &'a HeldAnswer) -> Self {
        Self {
            left: SIGNATURE_BYTES_MAX,
            held,
        }
    }
}

impl Remote {
    /// The signatures of cosign: bundles among the referrers, or else the older format at its tag.
    ///
    /// # Errors
    /// There are too many, or the registry fails. A referrer that is no bundle is left out.
    pub async fn cosign_signatures(&self, artifact: &Digest) -> Result<HeldSignatures<Signatures>, Error> {
        let held = self.hold();
        let mut allowance = Allowance::new(&held);
        let bundles = self.bundles(artifact, &mut allowance).await?;
        let simple = match bundles.is_empty() {
            true => self.simple_signatures(artifact, &mut allowance).await?,
            false => Vec::new(),
        };
        Ok(HeldSignatures {
            signatures: Signatures { bundles, simple },
            held,
        })
    }

    async fn bundles(&self, artifact: &Digest, allowance: &mut Allowance<'_>) -> Result<Vec<Bundle>, Error> {
        let referrers = self.referrers(artifact, None).await?;
        self.count("referrers", referrers.len(), artifact)?;
        let mut bundles = Vec::new();
        // all of them, as cosign does: not every tool sets the artifact type
        for referrer in &*referrers {
            let image = match self.image(&Version::Digest(referrer.digest().clone())).await {
                Ok(image) => image,
                Err(error) if matches!(error.reason(), Reason::Malformed | Reason::NotFound) => continue,
                Err(error) => return Err(error),
            };
            let [layer] = image.manifest.layers().as_slice() else {
                continue;
            };
            if !is_bundle_layer(layer.media_type().as_ref()) {
                continue;
            }
            let bytes = self.signature_blob(layer, BUNDLE_BYTES_MAX, allowance).await?;
            bundles.extend(Bundle::of_layer(&bytes).ok());
        }
        Ok(bundles)
    }

    async fn simple_signatures(
        &self,
        artifact: &Digest,
        allowance: &mut Allowance<'_>,
    ) -> Result<Vec<SimpleSignature>, Error> {
        let tag = Version::Tag(signature_tag(artifact));
        let image = match self.image(&tag).await {
            Ok(image) => image,
            Err(error) if error.reason() == Reason::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let layers = image.manifest.layers();
        self.count("signatures", layers.len(), artifact)?;
        let mut signatures = Vec::new();
        for layer in layers {
            let payload = self.signature_blob(layer, PAYLOAD_BYTES_MAX, allowance).await?;
            signatures.push(SimpleSignature::of_layer(layer.annotations().as_ref(), payload));
        }
        Ok(signatures)
    }

    /// The signatures of notation that are tried: the first ones.
    ///
    /// # Errors
    /// There are too many, or the registry fails.
    pub async fn notation_signatures(
        &self,
        artifact: &Digest,
    ) -> Result<HeldSignatures<Vec<NotationSignature>>, Error> {
        let held = self.hold();
        let mut allowance = Allowance::new(&held);
        let referrers = self.referrers(artifact, Some(ARTIFACT_TYPE)).await?;
        let mut signatures = Vec::new();
        for referrer in referrers.iter().take(ATTEMPTS_MAX) {
            let image = self.image(&Version::Digest(referrer.digest().clone())).await?;
            let [layer] = image.manifest.layers().as_slice() else {
                let problem = Problem::new(Reason::Malformed, "its signature has not one layer");
                return Err(problem.of("get the signature", self.named(referrer.digest())));
            };
            signatures.push(NotationSignature {
                digest: referrer.digest().to_string(),
                media_type: layer.media_type().to_string(),
                envelope: self
                    .signature_blob(layer, ENVELOPE_BYTES_MAX, &mut allowance)
                    .await?,
            });
        }
        Ok(HeldSignatures { signatures, held })
    }

    async fn signature_blob(
        &self,
        layer: &Descriptor,
        max: usize,
        allowance: &mut Allowance<'_>,
    ) -> Result<Vec<u8>, Error> {
        let Some(left) = allowance.left.checked_sub(layer.size()) else {
            let text = format!("the signatures are larger than {SIGNATURE_BYTES_MAX} bytes");
            let problem = Problem::new(Reason::TooLarge, text);
            return Err(problem.of("download", self.named(layer.digest())));
        };
        allowance.left = left;
        // the bytes, and what is parsed of them
        let held = allowance.held.add(2 * layer.size());
        held.map_err(|displaced| Problem::from(displaced).of("download", self.named(layer.digest())))?;
        self.small_blob(layer, max as u64).await
    }

    fn count(&self, of: &str, count: usize, artifact: &Digest) -> Result<(), Error> {
        if count <= SIGNATURES_MAX {
            return Ok(());
        }
        let text = format!("it has {count} {of}, more than {SIGNATURES_MAX}");
        Err(Problem::new(Reason::TooLarge, text).of("verify", self.named(artifact)))
    }

    fn named(&self, digest: &Digest) -> String {
        format!("{}@{digest}", self.repository())
    }
}
