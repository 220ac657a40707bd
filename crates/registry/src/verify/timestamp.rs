//! Timestamps of RFC 3161: that a trusted authority saw a signature, and when.
//!
//! The rules are those of sigstore's timestamp-authority 2.1: the authority's certificate is for timestamps
//! only, and valid at the time of the timestamp.

use der::asn1::ObjectIdentifier;
use jiff::Timestamp;

use super::GoOn;
use super::certificate::{Certificate, CertificateError};
use super::chain::{ChainError, Purpose, check_chain};
use super::der::{DerError, DerResult, Element, INTEGER, OCTET_STRING, OID, SEQUENCE, SET, constructed};
use super::key::{Hash, SignatureError};
use super::trusted_root::Authority;

/// The most timestamps of a bundle, as in sigstore-go.
pub const TIMESTAMPS_MAX: usize = 32;
const TOKEN_BYTES_MAX: usize = 64 << 10;
const CERTIFICATES_MAX: usize = 16;
const ATTRIBUTES_MAX: usize = 32;

const SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const TIMESTAMP_INFO: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.1.4");
const CONTENT_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.3");
const MESSAGE_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.4");
const TIME_STAMPING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.8");
const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2");
const SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3");
const ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const ECDSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const RSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
const RSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.12");
const RSA_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.13");

/// A timestamp does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimestampError {
    /// It is too large.
    #[error("the timestamp has {bytes} bytes, more than {TOKEN_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Its encoding is invalid.
    #[error("the timestamp is malformed")]
    Malformed(#[from] DerError),
    /// The authority refused the request.
    #[error("the timestamp authority answered with status {0}")]
    Status(u64),
    /// A certificate in it is malformed.
    #[error("a certificate of the timestamp is malformed")]
    Certificate(#[from] CertificateError),
    /// An algorithm is not supported.
    #[error("the algorithm {0} of the timestamp is not supported")]
    Algorithm(String),
    /// The authority's certificate is missing.
    #[error("the certificate that signed the timestamp is neither in the timestamp nor trusted")]
    NoSigner,
    /// The timestamp is of another certificate.
    #[error("certificate embedded in the TSR does not match the provided TSA certificate")]
    OtherSigner,
    /// The authority's certificate is not for timestamps only.
    #[error("the certificate of the timestamp authority is not for timestamps only")]
    Purpose,
    /// The timestamp is of another signature.
    #[error("hashed messages do not match")]
    OtherMessage,
    /// The signature does not fit.
    #[error("the signature of the timestamp is invalid")]
    Signature(#[from] SignatureError),
    /// The authority's certificate is not trusted.
    #[error("the certificate of the timestamp authority is not trusted")]
    Chain(#[from] ChainError),
    /// The authority was not trusted at the time.
    #[error("timestamp {0} is outside the validity period of the authority")]
    Period(Timestamp),
    /// No authority is trusted.
    #[error("unable to verify signed timestamps: the trusted root has no timestamp authority")]
    NoAuthority,
}

/// A token, parsed but not verified.
#[derive(Debug)]
struct Token<'a> {
    content: &'a [u8],
    certificates: Vec<Certificate>,
    signer_issuer: &'a [u8],
    signer_serial: &'a [u8],
    digest: Hash,
    /// The signed attributes as an encoded set, which is what the signature covers.
    attributes: Vec<u8>,
    message_digest: &'a [u8],
    signature_hash: Hash,
    signature: &'a [u8],
    imprint_hash: Hash,
    imprint: &'a [u8],
    time: Timestamp,
}

/// Checks a response of a timestamp authority over a signature, and returns its time.
pub(super) fn check_timestamp(
    response: &[u8],
    signature: &[u8],
    authorities: &[Authority],
    go_on: GoOn<'_>,
) -> Result<Timestamp, TimestampError> {
    if response.len() > TOKEN_BYTES_MAX {
        return Err(TimestampError::TooLarge {
            bytes: response.len(),
        });
    }
    let mut fields = Element::only(response, SEQUENCE)?.elements()?;
    let status = fields.take(SEQUENCE)?.elements()?.take(INTEGER)?.unsigned()?;
    if status > 1 {
        return Err(TimestampError::Status(status));
    }
    let token = Token::parse(fields.take(SEQUENCE)?)?;
    let mut last = TimestampError::NoAuthority;
    for authority in authorities.iter().take_while(|_| go_on()) {
        match token.check(signature, authority) {
            Ok(()) => return Ok(token.time),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl<'a> Token<'a> {
    fn parse(content_info: Element<'a>) -> Result<Self, TimestampError> {
        let mut info = content_info.elements()?;
        expect(info.take(OID)?, SIGNED_DATA)?;
        let signed = info.take(constructed(0))?;
        let mut fields = Element::only(signed.value, SEQUENCE)?.elements()?;
        fields.take(INTEGER)?;
        fields.take(SET)?;
        let mut encapsulated = fields.take(SEQUENCE)?.elements()?;
        expect(encapsulated.take(OID)?, TIMESTAMP_INFO)?;
        let content = Element::only(encapsulated.take(constructed(0))?.value, OCTET_STRING)?.value;
        let certificates = match fields.take_if(constructed(0))? {
            Some(list) => certificates(list)?,
            None => Vec::new(),
        };
        fields.take_if(constructed(1))?;
        let signers = fields.take(SET)?;
        let mut signer = Element::only(signers.value, SEQUENCE)?.elements()?;
        signer.take(INTEGER)?;
        let mut id = signer.take(SEQUENCE)?.elements()?;
        let signer_issuer = id.take(SEQUENCE)?.raw;
        let signer_serial = id.take(INTEGER)?.value;
        let digest = digest_algorithm(signer.take(SEQUENCE)?)?;
        let attributes = signer.take(constructed(0))?;
        let signature_hash = signature_hash(signer.take(SEQUENCE)?, digest)?;
        let signature = signer.take(OCTET_STRING)?.value;
        // the unsigned attributes are not read
        signer.take_if(constructed(1))?;

        let mut fields = Element::only(content, SEQUENCE)?.elements()?;
        fields.take(INTEGER)?;
        fields.take(OID)?;
        let mut imprint = fields.take(SEQUENCE)?.elements()?;
        let imprint_hash = digest_algorithm(imprint.take(SEQUENCE)?)?;
        let imprint = imprint.take(OCTET_STRING)?.value;
        fields.take(INTEGER)?;
        let time = fields.next()?.time()?;
        Ok(Self {
            content,
            certificates,
            signer_issuer,
            signer_serial,
            digest,
            attributes: super::der::encode(SET, attributes.value),
            message_digest: message_digest(attributes)?,
            signature_hash,
            signature,
            imprint_hash,
            imprint,
            time,
        })
    }

    fn check(&self, message: &[u8], authority: &Authority) -> Result<(), TimestampError> {
        let leaf = self.signer(authority)?;
        match leaf.extended_key_usage()? {
            Some((usages, true)) if usages == [TIME_STAMPING] => {}
            _ => return Err(TimestampError::Purpose),
        }
        check_chain(
            leaf,
            &authority.intermediates,
            &authority.root,
            self.time,
            Purpose::TimeStamping,
        )?;
        if !authority.valid_for.contains(self.time) {
            return Err(TimestampError::Period(self.time));
        }
        if self.digest.of(self.content) != self.message_digest
            || self.imprint_hash.of(message) != self.imprint
        {
            return Err(TimestampError::OtherMessage);
        }
        leaf.key()
            .check(self.signature_hash, &self.attributes, self.signature)?;
        Ok(())
    }

    /// The certificate that the token names as its signer.
    fn signer<'c>(&'c self, authority: &'c Authority) -> Result<&'c Certificate, TimestampError> {
        let is_named = |certificate: &&Certificate| {
            certificate.issuer() == self.signer_issuer && certificate.serial() == self.signer_serial
        };
        let embedded = self.certificates.iter().find(is_named);
        match (&authority.leaf, embedded) {
            (Some(leaf), Some(embedded)) if leaf != embedded => Err(TimestampError::OtherSigner),
            (Some(leaf), _) if is_named(&leaf) => Ok(leaf),
            (Some(_), _) => Err(TimestampError::OtherSigner),
            (None, embedded) => embedded.ok_or(TimestampError::NoSigner),
        }
    }
}

fn expect(found: Element<'_>, expected: ObjectIdentifier) -> Result<(), TimestampError> {
    match found.oid()? {
        found if found == expected => Ok(()),
        other => Err(TimestampError::Algorithm(other.to_string())),
    }
}

fn certificates(list: Element<'_>) -> Result<Vec<Certificate>, TimestampError> {
    let mut list = list.elements()?;
    let mut certificates = Vec::new();
    while !list.is_finished() {
        if certificates.len() == CERTIFICATES_MAX {
            return Err(DerError::Value("list of certificates").into());
        }
        certificates.push(Certificate::parse(list.take(SEQUENCE)?.raw)?);
    }
    Ok(certificates)
}

fn digest_algorithm(algorithm: Element<'_>) -> Result<Hash, TimestampError> {
    match algorithm.elements()?.take(OID)?.oid()? {
        SHA256 => Ok(Hash::Sha256),
        SHA384 => Ok(Hash::Sha384),
        SHA512 => Ok(Hash::Sha512),
        other => Err(TimestampError::Algorithm(other.to_string())),
    }
}

fn signature_hash(algorithm: Element<'_>, digest: Hash) -> Result<Hash, TimestampError> {
    match algorithm.elements()?.take(OID)?.oid()? {
        ECDSA_SHA256 | RSA_SHA256 => Ok(Hash::Sha256),
        ECDSA_SHA384 | RSA_SHA384 => Ok(Hash::Sha384),
        RSA_SHA512 => Ok(Hash::Sha512),
        RSA => Ok(digest),
        other => Err(TimestampError::Algorithm(other.to_string())),
    }
}

/// The digest in the signed attributes, which must also name the type of the content.
fn message_digest(attributes: Element<'_>) -> DerResult<&[u8]> {
    let mut list = attributes.elements()?;
    let (mut digest, mut content, mut count) = (None, None, 0);
    while !list.is_finished() {
        count += 1;
        if count > ATTRIBUTES_MAX {
            return Err(DerError::Value("list of attributes"));
        }
        let mut fields = list.take(SEQUENCE)?.elements()?;
        let kind = fields.take(OID)?.oid()?;
        let values = fields.take(SET)?;
        let slot = match kind {
            MESSAGE_DIGEST => &mut digest,
            CONTENT_TYPE => &mut content,
            _ => continue,
        };
        if slot.replace(values).is_some() {
            return Err(DerError::Value("list of attributes"));
        }
    }
    let content = content.ok_or(DerError::Value("content type"))?;
    if Element::only(content.value, OID)?.oid()? != TIMESTAMP_INFO {
        return Err(DerError::Value("content type"));
    }
    let digest = digest.ok_or(DerError::Value("message digest"))?;
    Ok(Element::only(digest.value, OCTET_STRING)?.value)
}
