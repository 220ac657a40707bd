//! The envelope of a signature: intact, with a valid chain of certificates. The policy decides whether its
//! signer counts.

use jiff::Timestamp;

use super::super::certificate::{Certificate, CertificateError};
use super::super::key::{KeyKind, SignatureError};
use super::code_signing::{self, ChainProblem};
use super::{ENVELOPE_BYTES_MAX, cose, jws};

/// The most certificates of an envelope.
const CHAIN_MAX: usize = 16;
pub(super) const SIGNING_SCHEME: &str = "io.cncf.notary.signingScheme";
pub(super) const SIGNING_TIME: &str = "io.cncf.notary.signingTime";
pub(super) const AUTHENTIC_SIGNING_TIME: &str = "io.cncf.notary.authenticSigningTime";
pub(super) const EXPIRY: &str = "io.cncf.notary.expiry";
const PLUGIN: &str = "io.cncf.notary.verificationPlugin";

/// An envelope is not intact.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// It is too large.
    #[error("the signature envelope has {bytes} bytes, more than {ENVELOPE_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Its format is another one.
    #[error(
        "unable to parse the digital signature, error : signature envelope format with media type \"{0}\" is not supported"
    )]
    MediaType(String),
    /// It is malformed.
    #[error("unable to parse the digital signature, error : {0}")]
    Malformed(String),
    /// A certificate is malformed.
    #[error("a certificate of the signature is malformed")]
    Certificate(#[from] CertificateError),
    /// It has too many certificates.
    #[error("the signature has more than {CHAIN_MAX} certificates")]
    TooManyCertificates,
    /// The signature is not of the certificate's key.
    #[error("signature is invalid")]
    Signature(#[from] SignatureError),
    /// The algorithm does not go with the key.
    #[error(
        "mismatch between signature algorithm derived from signing certificate and signing algorithm specified \
         ({0})"
    )]
    Algorithm(String),
    /// The scheme is another one.
    #[error("unsupported SigningScheme: `{0}`")]
    Scheme(String),
    /// A header must not be there.
    #[error("\"{0}\" header must not be present for {1} signing scheme")]
    Unexpected(&'static str, &'static str),
    /// The critical headers are wrong.
    #[error("{0}")]
    Critical(String),
    /// The signature needs a plugin.
    #[error("the signature needs the verification plugin \"{0}\", and plugins are not supported")]
    Plugin(String),
    /// The time of the signature is missing.
    #[error("signing-time not present")]
    NoSigningTime,
    /// The signature expired before it was made.
    #[error("expiry cannot be equal or before the signing time")]
    Expiry,
    /// The chain breaks a rule.
    #[error("certificate-chain is invalid")]
    Chain(#[from] ChainProblem),
    /// It has no content.
    #[error("content not present")]
    NoContent,
}

/// The origin of the signing time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    X509,
    SigningAuthority,
}

impl Scheme {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::X509 => "notary.x509",
            Self::SigningAuthority => "notary.x509.signingAuthority",
        }
    }

    pub(super) fn parse(name: &str) -> Result<Self, EnvelopeError> {
        [Self::X509, Self::SigningAuthority]
            .into_iter()
            .find(|scheme| scheme.name() == name)
            .ok_or_else(|| EnvelopeError::Scheme(name.to_owned()))
    }
}

/// The signature algorithms of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Es512,
}

impl Algorithm {
    /// The algorithm that a key must use.
    fn of(kind: KeyKind) -> Option<Self> {
        match kind {
            KeyKind::Rsa(2048) => Some(Self::Ps256),
            KeyKind::Rsa(3072) => Some(Self::Ps384),
            KeyKind::Rsa(4096) => Some(Self::Ps512),
            KeyKind::P256 => Some(Self::Es256),
            KeyKind::P384 => Some(Self::Es384),
            KeyKind::Rsa(_) | KeyKind::Ed25519 => None,
        }
    }
}

/// The headers that a signature covers, in either format.
#[derive(Debug)]
pub(super) struct Headers {
    pub(super) algorithm: Algorithm,
    pub(super) content_type: String,
    pub(super) scheme: Scheme,
    pub(super) signing_time: Option<Timestamp>,
    pub(super) authentic_signing_time: Option<Timestamp>,
    pub(super) expiry: Option<Timestamp>,
    pub(super) critical: Vec<String>,
    /// The names of further headers, and their values if those are texts.
    pub(super) others: Vec<(String, Option<String>)>,
}

/// An envelope of either format, parsed.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) headers: Headers,
    pub(super) payload: Vec<u8>,
    /// The bytes that the signature covers.
    pub(super) message: Vec<u8>,
    pub(super) signature: Vec<u8>,
    pub(super) certificates: Vec<Vec<u8>>,
}

/// An intact envelope.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) payload: Vec<u8>,
    pub(super) content_type: String,
    pub(super) scheme: Scheme,
    pub(super) signing_time: Timestamp,
    pub(super) expiry: Option<Timestamp>,
    /// From the signer to the root; not empty.
    pub(super) chain: Vec<Certificate>,
}

impl Envelope {
    pub(super) fn verify(media_type: &str, envelope: &[u8]) -> Result<Self, EnvelopeError> {
        if envelope.len() > ENVELOPE_BYTES_MAX {
            return Err(EnvelopeError::TooLarge {
                bytes: envelope.len(),
            });
        }
        let parsed = match media_type {
            jws::MEDIA_TYPE => jws::parse(envelope)?,
            cose::MEDIA_TYPE => cose::parse(envelope)?,
            other => return Err(EnvelopeError::MediaType(other.to_owned())),
        };
        if parsed.certificates.len() > CHAIN_MAX {
            return Err(EnvelopeError::TooManyCertificates);
        }
        let chain = parsed
            .certificates
            .iter()
            .map(|der| Certificate::parse(der))
            .collect::<Result<Vec<_>, _>>()?;
        let leaf = chain
            .first()
            .ok_or_else(|| EnvelopeError::Malformed("certificate chain is not present".to_owned()))?;
        let headers = parsed.headers;
        if Algorithm::of(leaf.key().kind()) != Some(headers.algorithm) {
            return Err(EnvelopeError::Algorithm(format!("{:?}", headers.algorithm)));
        }
        leaf.key().check_jose(&parsed.message, &parsed.signature)?;
        check_critical(&headers)?;
        let signing_time = signing_time(&headers)?;
        if headers.expiry.is_some_and(|expiry| expiry <= signing_time) {
            return Err(EnvelopeError::Expiry);
        }
        code_signing::check(&chain)?;
        if parsed.payload.is_empty() {
            return Err(EnvelopeError::NoContent);
        }
        Ok(Self {
            payload: parsed.payload,
            content_type: headers.content_type,
            scheme: headers.scheme,
            signing_time,
            expiry: headers.expiry,
            chain,
        })
    }

    pub(super) fn leaf(&self) -> &Certificate {
        // the constructor refuses an empty chain
        &self.chain[0]
    }
}

fn signing_time(headers: &Headers) -> Result<Timestamp, EnvelopeError> {
    let name = headers.scheme.name();
    let time = match headers.scheme {
        Scheme::X509 => {
            if headers.authentic_signing_time.is_some() {
                return Err(EnvelopeError::Unexpected(AUTHENTIC_SIGNING_TIME, name));
            }
            headers.signing_time
        }
        Scheme::SigningAuthority => {
            if headers.signing_time.is_some() {
                return Err(EnvelopeError::Unexpected(SIGNING_TIME, name));
            }
            headers.authentic_signing_time
        }
    };
    time.ok_or(EnvelopeError::NoSigningTime)
}

fn check_critical(headers: &Headers) -> Result<(), EnvelopeError> {
    if headers.critical.is_empty() {
        return Err(EnvelopeError::Critical("missing \"crit\" header".to_owned()));
    }
    let mut required = vec![SIGNING_SCHEME];
    if headers.expiry.is_some() {
        required.push(EXPIRY);
    }
    if headers.scheme == Scheme::SigningAuthority {
        required.push(AUTHENTIC_SIGNING_TIME);
    }
    let plugin = headers.others.iter().find(|(name, _)| name == PLUGIN);
    if let Some((_, plugin)) = plugin {
        return Err(EnvelopeError::Plugin(plugin.clone().unwrap_or_default()));
    }
    for name in &headers.critical {
        if required.contains(&name.as_str()) {
            continue;
        }
        let is_there = headers.others.iter().any(|(other, _)| other == name);
        return Err(EnvelopeError::Critical(match is_there {
            true => format!("\"{name}\" header is marked critical but not supported"),
            false => format!("\"{name}\" header is marked critical but not present"),
        }));
    }
    let missing: Vec<&str> = required
        .into_iter()
        .filter(|name| !headers.critical.iter().any(|other| other == name))
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(EnvelopeError::Critical(format!(
            "these required headers are not marked as critical: [{}]",
            missing.join(" ")
        ))),
    }
}
