//! X.509 certificates: the fields that policies ask for. `chain` decides whether a certificate is trusted.

use der::asn1::ObjectIdentifier;
use jiff::Timestamp;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use super::der::{
    BIT_STRING, BOOLEAN, DerError, DerResult, Element, INTEGER, OCTET_STRING, OID, SEQUENCE, SET,
    UTF8_STRING, constructed, primitive,
};
use super::key::{Hash, KeyError, PublicKey, SignatureError};

/// The most bytes of one certificate.
pub const CERTIFICATE_BYTES_MAX: usize = 64 << 10;
const EXTENSIONS_MAX: usize = 64;
const NAMES_MAX: usize = 64;

const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");
const SUBJECT_NAMES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
const CRL_POINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.31");
const AUTHORITY_ACCESS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.1");
const OCSP: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1");
/// Fulcio's extensions, see `docs/oid-info.md` of sigstore/fulcio 1.8.
const FULCIO_ISSUER: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57264.1.1");
const FULCIO_ISSUER_V2: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57264.1.8");
const FULCIO_USER_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57264.1.7");

const ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const ECDSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
const ECDSA_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.4");
const RSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
const RSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.12");
const RSA_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.13");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// A certificate cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// It is too large.
    #[error("the certificate has {bytes} bytes, more than {CERTIFICATE_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is not PEM.
    #[error("the certificate is not PEM")]
    NotPem,
    /// Its encoding is invalid.
    #[error("the certificate is malformed")]
    Malformed(#[from] DerError),
    /// An extension is there twice.
    #[error("the certificate has the extension {0} twice")]
    Repeated(String),
    /// It has too many extensions or names.
    #[error("the certificate has more than {max} {of}")]
    TooMany {
        /// The counted thing.
        of: &'static str,
        /// The limit.
        max: usize,
    },
    /// Its key cannot be used.
    #[error("the key of the certificate is not usable")]
    Key(#[from] KeyError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extension {
    pub(super) oid: ObjectIdentifier,
    pub(super) critical: bool,
    pub(super) value: Vec<u8>,
}

/// The purposes of a key, as bits of the first two bytes of the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyUsage(u16);

impl KeyUsage {
    pub(super) const DIGITAL_SIGNATURE: u16 = 0x8000;
    pub(super) const CONTENT_COMMITMENT: u16 = 0x4000;
    pub(super) const CERT_SIGN: u16 = 0x0400;

    pub(super) fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }

    pub(super) fn bits(self) -> u16 {
        self.0
    }
}

/// The constraints of an authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BasicConstraints {
    pub(super) is_authority: bool,
    pub(super) path_length: Option<u64>,
}

/// A certificate, parsed but not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    der: Vec<u8>,
    body: Range<usize>,
    serial: Vec<u8>,
    issuer: Vec<u8>,
    subject: Vec<u8>,
    not_before: Timestamp,
    not_after: Timestamp,
    key: PublicKey,
    extensions: Vec<Extension>,
    signature_algorithm: ObjectIdentifier,
    signature: Vec<u8>,
}

impl Certificate {
    pub(super) fn parse(der: &[u8]) -> Result<Self, CertificateError> {
        if der.len() > CERTIFICATE_BYTES_MAX {
            return Err(CertificateError::TooLarge { bytes: der.len() });
        }
        let outer = Element::only(der, SEQUENCE)?;
        let start = der.len() - outer.value.len();
        let mut parts = outer.elements()?;
        let body = parts.take(SEQUENCE)?;
        let signature_algorithm = parts.take(SEQUENCE)?.elements()?.take(OID)?.oid()?;
        let signature = parts.take(BIT_STRING)?.bits()?.to_vec();
        parts.finish()?;

        let mut fields = body.elements()?;
        fields.take_if(constructed(0))?;
        let serial = fields.take(INTEGER)?.value.to_vec();
        fields.take(SEQUENCE)?;
        let issuer = fields.take(SEQUENCE)?.raw.to_vec();
        let mut validity = fields.take(SEQUENCE)?.elements()?;
        let not_before = validity.next()?.time()?;
        let not_after = validity.next()?.time()?;
        let subject = fields.take(SEQUENCE)?.raw.to_vec();
        let key = PublicKey::from_info(fields.take(SEQUENCE)?.raw)?;
        fields.take_if(primitive(1))?;
        fields.take_if(primitive(2))?;
        let extensions = match fields.take_if(constructed(3))? {
            Some(list) => extensions(list)?,
            None => Vec::new(),
        };
        fields.finish()?;
        Ok(Self {
            der: der.to_vec(),
            body: start..start + body.raw.len(),
            serial,
            issuer,
            subject,
            not_before,
            not_after,
            key,
            extensions,
            signature_algorithm,
            signature,
        })
    }

    /// The certificate of the first PEM block.
    pub(super) fn from_pem(text: &[u8]) -> Result<Self, CertificateError> {
        if text.len() > 2 * CERTIFICATE_BYTES_MAX {
            return Err(CertificateError::TooLarge { bytes: text.len() });
        }
        let block = pem::parse(text).map_err(|_| CertificateError::NotPem)?;
        Self::parse(block.contents())
    }

    pub(super) fn der(&self) -> &[u8] {
        &self.der
    }

    /// The signed part.
    pub(super) fn body(&self) -> &[u8] {
        &self.der[self.body.clone()]
    }

    pub(super) fn serial(&self) -> &[u8] {
        &self.serial
    }

    /// The encoded name.
    pub(super) fn issuer(&self) -> &[u8] {
        &self.issuer
    }

    /// The encoded name.
    pub(super) fn subject(&self) -> &[u8] {
        &self.subject
    }

    pub(super) fn key(&self) -> &PublicKey {
        &self.key
    }

    pub(super) fn not_before(&self) -> Timestamp {
        self.not_before
    }

    pub(super) fn not_after(&self) -> Timestamp {
        self.not_after
    }

    pub(super) fn is_valid_at(&self, time: Timestamp) -> bool {
        (self.not_before..=self.not_after).contains(&time)
    }

    pub(super) fn extension(&self, oid: ObjectIdentifier) -> Option<&Extension> {
        self.extensions.iter().find(|extension| extension.oid == oid)
    }

    pub(super) fn basic_constraints(&self) -> DerResult<Option<BasicConstraints>> {
        let Some(extension) = self.extension(BASIC_CONSTRAINTS) else {
            return Ok(None);
        };
        let mut fields = Element::only(&extension.value, SEQUENCE)?.elements()?;
        let is_authority = match fields.take_if(BOOLEAN)? {
            Some(field) => field.boolean()?,
            None => false,
        };
        let path_length = match fields.take_if(INTEGER)? {
            Some(field) => Some(field.unsigned()?),
            None => None,
        };
        fields.finish()?;
        Ok(Some(BasicConstraints {
            is_authority,
            path_length,
        }))
    }

    /// The usage and whether its extension is critical.
    pub(super) fn key_usage(&self) -> DerResult<Option<(KeyUsage, bool)>> {
        let Some(extension) = self.extension(KEY_USAGE) else {
            return Ok(None);
        };
        let value = Element::only(&extension.value, BIT_STRING)?.value;
        let byte = |at: usize| value.get(at).copied().map_or(0, u16::from);
        Ok(Some((KeyUsage(byte(1) << 8 | byte(2)), extension.critical)))
    }

    /// The extended usages and whether their extension is critical.
    pub(super) fn extended_key_usage(&self) -> DerResult<Option<(Vec<ObjectIdentifier>, bool)>> {
        let Some(extension) = self.extension(EXTENDED_KEY_USAGE) else {
            return Ok(None);
        };
        let mut list = Element::only(&extension.value, SEQUENCE)?.elements()?;
        let mut usages = Vec::new();
        while !list.is_finished() {
            usages.push(list.take(OID)?.oid()?);
        }
        Ok(Some((usages, extension.critical)))
    }

    /// Whether the certificate names a server for its revocation.
    pub(super) fn is_revocable(&self) -> DerResult<bool> {
        if self.extension(CRL_POINTS).is_some() {
            return Ok(true);
        }
        let Some(access) = self.extension(AUTHORITY_ACCESS) else {
            return Ok(false);
        };
        let mut list = Element::only(&access.value, SEQUENCE)?.elements()?;
        while !list.is_finished() {
            if list.take(SEQUENCE)?.elements()?.take(OID)?.oid()? == OCSP {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The names that sigstore matches: DNS, email, IP address, URI, and Fulcio's user name.
    pub(super) fn subject_names(&self) -> Result<Vec<String>, CertificateError> {
        let Some(extension) = self.extension(SUBJECT_NAMES) else {
            return Ok(Vec::new());
        };
        let mut list = Element::only(&extension.value, SEQUENCE)?.elements()?;
        let mut names = Vec::new();
        while !list.is_finished() {
            if names.len() == NAMES_MAX {
                return Err(CertificateError::TooMany {
                    of: "subject alternative names",
                    max: NAMES_MAX,
                });
            }
            names.extend(subject_name(list.next()?)?);
        }
        Ok(names)
    }

    /// The OIDC issuer in Fulcio's extension.
    pub(super) fn oidc_issuer(&self) -> Result<String, CertificateError> {
        let text = match (self.extension(FULCIO_ISSUER_V2), self.extension(FULCIO_ISSUER)) {
            (Some(extension), _) => Element::only(&extension.value, UTF8_STRING)?.text()?,
            (None, Some(extension)) => {
                std::str::from_utf8(&extension.value).map_err(|_| DerError::Value("string"))?
            }
            (None, None) => "",
        };
        Ok(text.to_owned())
    }

    /// Checks that a key made the signature of this certificate.
    pub(super) fn check_signed_by(&self, key: &PublicKey) -> Result<(), SignatureError> {
        let hash = match self.signature_algorithm {
            ECDSA_SHA256 | RSA_SHA256 => Hash::Sha256,
            ECDSA_SHA384 | RSA_SHA384 => Hash::Sha384,
            ECDSA_SHA512 | RSA_SHA512 | ED25519 => Hash::Sha512,
            _ => {
                return Err(SignatureError::Unsupported {
                    key: "certificate",
                    hash: "another algorithm",
                });
            }
        };
        key.check(hash, self.body(), &self.signature)
    }
}

fn extensions(list: Element<'_>) -> Result<Vec<Extension>, CertificateError> {
    let mut list = Element::only(list.value, SEQUENCE)?.elements()?;
    let mut extensions: Vec<Extension> = Vec::new();
    while !list.is_finished() {
        if extensions.len() == EXTENSIONS_MAX {
            return Err(CertificateError::TooMany {
                of: "extensions",
                max: EXTENSIONS_MAX,
            });
        }
        let mut fields = list.take(SEQUENCE)?.elements()?;
        let oid = fields.take(OID)?.oid()?;
        let critical = match fields.take_if(BOOLEAN)? {
            Some(field) => field.boolean()?,
            None => false,
        };
        let value = fields.take(OCTET_STRING)?.value.to_vec();
        fields.finish()?;
        if extensions.iter().any(|extension| extension.oid == oid) {
            return Err(CertificateError::Repeated(oid.to_string()));
        }
        extensions.push(Extension { oid, critical, value });
    }
    Ok(extensions)
}

const OTHER_NAME: u8 = constructed(0);
const EMAIL: u8 = primitive(1);
const DNS: u8 = primitive(2);
const URI: u8 = primitive(6);
const IP_ADDRESS: u8 = primitive(7);

fn subject_name(name: Element<'_>) -> DerResult<Option<String>> {
    let text = |bytes: &[u8]| {
        std::str::from_utf8(bytes)
            .map(|text| Some(text.to_owned()))
            .map_err(|_| DerError::Value("subject alternative name"))
    };
    match name.tag() {
        EMAIL | DNS | URI => text(name.value),
        IP_ADDRESS => match (<[u8; 4]>::try_from(name.value), <[u8; 16]>::try_from(name.value)) {
            (Ok(v4), _) => Ok(Some(Ipv4Addr::from(v4).to_string())),
            (_, Ok(v6)) => Ok(Some(Ipv6Addr::from(v6).to_string())),
            _ => Err(DerError::Value("IP address")),
        },
        OTHER_NAME => {
            let mut fields = name.elements()?;
            let kind = fields.take(OID)?.oid()?;
            let value = fields.take(constructed(0))?;
            match kind == FULCIO_USER_NAME {
                true => text(Element::only(value.value, UTF8_STRING)?.value),
                false => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// The attributes of an encoded name: parts in order, each a list of types and texts.
pub(super) fn name_parts(name: &[u8]) -> DerResult<Vec<Vec<(ObjectIdentifier, String)>>> {
    let mut sets = Element::only(name, SEQUENCE)?.elements()?;
    let mut parts = Vec::new();
    while !sets.is_finished() {
        let mut list = sets.take(SET)?.elements()?;
        let mut part = Vec::new();
        while !list.is_finished() {
            let mut fields = list.take(SEQUENCE)?.elements()?;
            let kind = fields.take(OID)?.oid()?;
            part.push((kind, fields.next()?.text()?.to_owned()));
            fields.finish()?;
        }
        parts.push(part);
        if parts.len() > NAMES_MAX {
            return Err(DerError::Value("name"));
        }
    }
    Ok(parts)
}
