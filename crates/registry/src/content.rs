//! Digests of content, computed while it arrives.

use std::str::FromStr as _;

use oci_spec::image::{Digest, DigestAlgorithm};
use sha2::{Digest as _, Sha256, Sha512};

/// Whether this crate can verify content with this digest.
pub(crate) fn is_verifiable(digest: &Digest) -> bool {
    matches!(
        digest.algorithm(),
        DigestAlgorithm::Sha256 | DigestAlgorithm::Sha512
    )
}

pub(crate) enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    /// For content with this digest; `None` if its algorithm is not supported.
    pub(crate) fn of(digest: &Digest) -> Option<Self> {
        match digest.algorithm() {
            DigestAlgorithm::Sha256 => Some(Self::Sha256(Sha256::new())),
            DigestAlgorithm::Sha512 => Some(Self::Sha512(Sha512::new())),
            _ => None,
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::Sha512(hash) => hash.update(bytes),
        }
    }

    /// `algorithm:hex`.
    pub(crate) fn finish(self) -> String {
        match self {
            Self::Sha256(hash) => format!("sha256:{}", hex(&hash.finalize())),
            Self::Sha512(hash) => format!("sha512:{}", hex(&hash.finalize())),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // writing to a String does not fail
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The SHA-256 of some bytes, as `sha256:<hex>`.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// The SHA-256 of some bytes as a digest.
pub(crate) fn digest_of(bytes: &[u8]) -> Option<Digest> {
    Digest::from_str(&sha256(bytes)).ok()
}

/// Whether bytes have a digest; false for algorithms that are not supported.
pub(crate) fn matches(digest: &Digest, bytes: &[u8]) -> bool {
    Hasher::of(digest).is_some_and(|mut hasher| {
        hasher.update(bytes);
        hasher.finish() == digest.as_ref()
    })
}
