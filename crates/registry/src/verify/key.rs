//! Public keys, and the signatures that they verify.
//!
//! The algorithms are those of ring. ECDSA with P-521 is refused, because ring lacks it.

use der::asn1::ObjectIdentifier;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use sha2::{Digest as _, Sha256, Sha384, Sha512};

use super::der::{BIT_STRING, DerError, DerResult, Element, INTEGER, OID, SEQUENCE, encode};

/// The most bytes of a public key in PEM.
pub const KEY_BYTES_MAX: usize = 64 << 10;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// `AlgorithmIdentifier` of RSA: its identifier and NULL.
const RSA_ALGORITHM: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];

/// A public key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is too large.
    #[error("the public key has {bytes} bytes, more than {KEY_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is not PEM.
    #[error("PEM decoding failed")]
    NotPem,
    /// The PEM block is no public key.
    #[error("unknown Public key PEM file type: {0}. Are you passing the correct public key?")]
    OtherBlock(String),
    /// Its encoding is invalid.
    #[error("the public key is malformed")]
    Malformed(#[from] DerError),
    /// Its algorithm is not supported.
    #[error("keys of the algorithm {0} are not supported; use ECDSA P-256 or P-384, RSA or Ed25519")]
    Unsupported(String),
}

/// A signature is not of this key over this message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The key or the message is another one.
    #[error("invalid signature when validating {0} signature")]
    Invalid(&'static str),
    /// The key and the hash do not go together.
    #[error("{key} signatures over {hash} are not supported")]
    Unsupported {
        /// The algorithm of the key.
        key: &'static str,
        /// The hash.
        hash: &'static str,
    },
}

/// The hash that a signature covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA-256",
            Self::Sha384 => "SHA-384",
            Self::Sha512 => "SHA-512",
        }
    }

    pub(super) fn of(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha384 => Sha384::digest(bytes).to_vec(),
            Self::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }
}

/// The algorithm of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// The size of its modulus in bits.
    Rsa(usize),
    P256,
    P384,
    Ed25519,
}

impl KeyKind {
    fn name(self) -> &'static str {
        match self {
            Self::Rsa(_) => "rsa",
            Self::P256 | Self::P384 => "ECDSA",
            Self::Ed25519 => "ed25519",
        }
    }
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    kind: KeyKind,
    /// As ring reads it: a point, the bytes of an Ed25519 key, or an `RSAPublicKey`.
    bytes: Vec<u8>,
    /// The `SubjectPublicKeyInfo`.
    info: Vec<u8>,
}

impl PublicKey {
    /// The key of the first PEM block: `PUBLIC KEY` or `RSA PUBLIC KEY`, as sigstore reads it.
    ///
    /// # Errors
    /// The text is not a public key, or of an algorithm that is not supported.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        if text.len() > KEY_BYTES_MAX {
            return Err(KeyError::TooLarge { bytes: text.len() });
        }
        let block = pem::parse(text).map_err(|_| KeyError::NotPem)?;
        match block.tag() {
            "PUBLIC KEY" => Self::from_info(block.contents()),
            "RSA PUBLIC KEY" => Self::from_pkcs1(block.contents()),
            other => Err(KeyError::OtherBlock(other.to_owned())),
        }
    }

    /// The key of a `SubjectPublicKeyInfo`.
    pub(super) fn from_info(info: &[u8]) -> Result<Self, KeyError> {
        let mut fields = Element::only(info, SEQUENCE)?.elements()?;
        let mut algorithm = fields.take(SEQUENCE)?.elements()?;
        let bytes = fields.take(BIT_STRING)?.bits()?;
        fields.finish()?;
        let name = algorithm.take(OID)?.oid()?;
        let kind = match name {
            RSA => KeyKind::Rsa(modulus_bits(bytes)?),
            ED25519 => KeyKind::Ed25519,
            EC => match algorithm.take(OID)?.oid()? {
                P256 => KeyKind::P256,
                P384 => KeyKind::P384,
                P521 => return Err(KeyError::Unsupported("ECDSA P-521".to_owned())),
                other => return Err(KeyError::Unsupported(format!("ECDSA {other}"))),
            },
            other => return Err(KeyError::Unsupported(other.to_string())),
        };
        Ok(Self {
            kind,
            bytes: bytes.to_vec(),
            info: info.to_vec(),
        })
    }

    /// The key of an `RSAPublicKey`.
    pub(super) fn from_pkcs1(key: &[u8]) -> Result<Self, KeyError> {
        let mut content = RSA_ALGORITHM.to_vec();
        let mut bits = vec![0];
        bits.extend_from_slice(key);
        content.extend(encode(BIT_STRING, &bits));
        Self::from_info(&encode(SEQUENCE, &content))
    }

    pub(super) fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The `SubjectPublicKeyInfo`.
    pub(super) fn info(&self) -> &[u8] {
        &self.info
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The SHA-256 of the `SubjectPublicKeyInfo`.
    pub(super) fn id(&self) -> [u8; 32] {
        Sha256::digest(&self.info).into()
    }

    /// The hash that sigstore's signers use with this key by default.
    pub(super) fn default_hash(&self) -> Hash {
        match self.kind {
            KeyKind::P384 => Hash::Sha384,
            KeyKind::P256 | KeyKind::Rsa(_) | KeyKind::Ed25519 => Hash::Sha256,
        }
    }

    /// Checks a signature: ECDSA in ASN.1, RSA by PKCS #1 v1.5, or Ed25519, which ignores the hash.
    pub(super) fn check(&self, hash: Hash, message: &[u8], signed: &[u8]) -> Result<(), SignatureError> {
        let algorithm: &'static dyn VerificationAlgorithm = match (self.kind, hash) {
            (KeyKind::P256, Hash::Sha256) => &signature::ECDSA_P256_SHA256_ASN1,
            (KeyKind::P256, Hash::Sha384) => &signature::ECDSA_P256_SHA384_ASN1,
            (KeyKind::P384, Hash::Sha256) => &signature::ECDSA_P384_SHA256_ASN1,
            (KeyKind::P384, Hash::Sha384) => &signature::ECDSA_P384_SHA384_ASN1,
            (KeyKind::Rsa(_), Hash::Sha256) => &signature::RSA_PKCS1_2048_8192_SHA256,
            (KeyKind::Rsa(_), Hash::Sha384) => &signature::RSA_PKCS1_2048_8192_SHA384,
            (KeyKind::Rsa(_), Hash::Sha512) => &signature::RSA_PKCS1_2048_8192_SHA512,
            (KeyKind::Ed25519, _) => &signature::ED25519,
            (KeyKind::P256 | KeyKind::P384, Hash::Sha512) => {
                return Err(SignatureError::Unsupported {
                    key: self.kind.name(),
                    hash: hash.name(),
                });
            }
        };
        self.check_with(algorithm, message, signed)
    }

    /// Checks a signature of cosign: over SHA-256 whatever the key, or since version 3 over the key's own hash.
    pub(super) fn check_cosign(&self, message: &[u8], signed: &[u8]) -> Result<(), SignatureError> {
        let check = |hash| self.check(hash, message, signed);
        check(Hash::Sha256).or_else(|_| check(self.default_hash()))
    }

    /// Checks a signature as JOSE and COSE encode it: ECDSA in fixed length, or RSA-PSS. The size of the key
    /// fixes the hash.
    pub(super) fn check_jose(&self, message: &[u8], signed: &[u8]) -> Result<(), SignatureError> {
        let algorithm: &'static dyn VerificationAlgorithm = match self.kind {
            KeyKind::P256 => &signature::ECDSA_P256_SHA256_FIXED,
            KeyKind::P384 => &signature::ECDSA_P384_SHA384_FIXED,
            KeyKind::Rsa(2048) => &signature::RSA_PSS_2048_8192_SHA256,
            KeyKind::Rsa(3072) => &signature::RSA_PSS_2048_8192_SHA384,
            KeyKind::Rsa(4096) => &signature::RSA_PSS_2048_8192_SHA512,
            KeyKind::Rsa(_) | KeyKind::Ed25519 => {
                return Err(SignatureError::Unsupported {
                    key: self.kind.name(),
                    hash: "JOSE",
                });
            }
        };
        self.check_with(algorithm, message, signed)
    }

    fn check_with(
        &self,
        algorithm: &'static dyn VerificationAlgorithm,
        message: &[u8],
        signed: &[u8],
    ) -> Result<(), SignatureError> {
        UnparsedPublicKey::new(algorithm, &self.bytes)
            .verify(message, signed)
            .map_err(|_| SignatureError::Invalid(self.kind.name()))
    }
}

fn modulus_bits(key: &[u8]) -> DerResult<usize> {
    let modulus = Element::only(key, SEQUENCE)?.elements()?.take(INTEGER)?.value;
    let digits = match modulus {
        [0, rest @ ..] => rest,
        all => all,
    };
    Ok(digits
        .first()
        .map_or(0, |first| digits.len() * 8 - first.leading_zeros() as usize))
}
