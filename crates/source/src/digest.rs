//! Digests of artifacts in status, `<algorithm>:<hex>`, computed while bytes arrive.
//!
//! The algorithms are those of Flux's artifact readers; a digest without one is SHA-256. (Flux:
//! `fluxcd/pkg/http/fetch`, `opencontainers/go-digest`.)

use std::fmt;

use sha2::{Digest as _, Sha256, Sha384, Sha512};
use thiserror::Error;

/// The expected digest of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Algorithm {
    Sha256,
    Sha384,
    Sha512,
    Blake3,
}

/// The reason why a text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DigestError {
    /// The text is empty.
    #[error("empty digest")]
    Empty,
    /// The algorithm is not supported.
    #[error(
        "failed to parse digest '{0}': unsupported digest algorithm, use sha256, sha384, sha512 or blake3"
    )]
    Algorithm(String),
    /// The length is wrong, or a character is not a lower-case hexadecimal digit.
    #[error("failed to parse digest '{0}': invalid checksum digest format")]
    Format(String),
}

impl Algorithm {
    const ALL: [Algorithm; 4] = [
        Algorithm::Sha256,
        Algorithm::Sha384,
        Algorithm::Sha512,
        Algorithm::Blake3,
    ];

    fn name(self) -> &'static str {
        match self {
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha384 => "sha384",
            Algorithm::Sha512 => "sha512",
            Algorithm::Blake3 => "blake3",
        }
    }

    fn digits(self) -> usize {
        match self {
            Algorithm::Sha256 | Algorithm::Blake3 => 64,
            Algorithm::Sha384 => 96,
            Algorithm::Sha512 => 128,
        }
    }
}

impl Digest {
    /// Parses a digest from status.
    ///
    /// # Errors
    /// The algorithm is not supported, or the digits are invalid.
    pub fn parse(text: &str) -> Result<Digest, DigestError> {
        if text.is_empty() {
            return Err(DigestError::Empty);
        }
        // the quoted text is untrusted
        let shown = || text.chars().take(200).collect::<String>();
        let (name, hex) = text.split_once(':').unwrap_or((Algorithm::Sha256.name(), text));
        let algorithm = Algorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name);
        let algorithm = algorithm.ok_or_else(|| DigestError::Algorithm(shown()))?;
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match hex.len() == algorithm.digits() && hex.bytes().all(digit) {
            true => Ok(Digest {
                algorithm,
                hex: hex.to_owned(),
            }),
            false => Err(DigestError::Format(shown())),
        }
    }

    pub(crate) fn file_name(&self) -> String {
        format!("{}-{}.tar.gz", self.algorithm.name(), self.hex)
    }

    pub(crate) fn of_file_name(name: &str) -> Option<Digest> {
        let (algorithm, hex) = name.strip_suffix(".tar.gz")?.split_once('-')?;
        Digest::parse(&format!("{algorithm}:{hex}")).ok()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex)
    }
}

pub(crate) enum Hasher {
    Sha256(Sha256),
    Sha384(Sha384),
    Sha512(Sha512),
    // large and rarely used
    Blake3(Box<blake3::Hasher>),
}

impl Hasher {
    pub(crate) fn of(digest: &Digest) -> Hasher {
        match digest.algorithm {
            Algorithm::Sha256 => Hasher::Sha256(Sha256::new()),
            Algorithm::Sha384 => Hasher::Sha384(Sha384::new()),
            Algorithm::Sha512 => Hasher::Sha512(Sha512::new()),
            Algorithm::Blake3 => Hasher::Blake3(Box::default()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hash) => hash.update(bytes),
            Hasher::Sha384(hash) => hash.update(bytes),
            Hasher::Sha512(hash) => hash.update(bytes),
            Hasher::Blake3(hash) => drop(hash.update(bytes)),
        }
    }

    pub(crate) fn is(self, digest: &Digest) -> bool {
        let hex = match self {
            Hasher::Sha256(hash) => hex(&hash.finalize()),
            Hasher::Sha384(hash) => hex(&hash.finalize()),
            Hasher::Sha512(hash) => hex(&hash.finalize()),
            Hasher::Blake3(hash) => hash.finalize().to_hex().to_string(),
        };
        hex == digest.hex
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_verified_by_algorithm() {
        // from `printf abc` through sha256sum, sha384sum, sha512sum, b3sum
        let digests = [
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "sha384:cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed\
             8086072ba1e7cc2358baeca134c825a7",
            "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            "blake3:6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
        ];
        for text in digests {
            let digest = Digest::parse(text).unwrap();
            let is = |content: &[u8]| {
                let mut hasher = Hasher::of(&digest);
                hasher.update(content);
                hasher.is(&digest)
            };
            assert!(is(b"abc"), "{text}");
            assert!(!is(b"abd"), "{text}");
            assert_eq!(Digest::of_file_name(&digest.file_name()), Some(digest), "{text}");
        }
    }

    #[test]
    fn invalid_digests_are_rejected() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Digest::parse(text).unwrap_err().to_string(), expected);
        };
        let unsupported = "unsupported digest algorithm, use sha256, sha384, sha512 or blake3";
        check("", "empty digest");
        check(
            "md5:00",
            &format!("failed to parse digest 'md5:00': {unsupported}"),
        );
        check(
            "sha256:00",
            "failed to parse digest 'sha256:00': invalid checksum digest format",
        );
        let upper = format!("sha256:{}", "A".repeat(64));
        check(
            &upper,
            &format!("failed to parse digest '{upper}': invalid checksum digest format"),
        );
        assert_eq!(Digest::of_file_name("sha256-../../x.tar.gz"), None);
    }
}
