//! Reads from the certificate of an authority what the certificates it signs need: its subject and the id of
//! its key.
//!
//! Refused, as in rcgen: a name with several attributes in one part, and strings in UTF-32.

use rcgen::string::{BmpString, Ia5String, PrintableString, TeletexString};
use rcgen::{DistinguishedName, DnType, DnValue};
use rsa::pkcs8::ObjectIdentifier;
use rsa::pkcs8::der::asn1::AnyRef;
use rsa::pkcs8::der::{self, Decode as _, Reader as _, SliceReader, Tag, TagNumber, Tagged as _};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{self, PemObject as _};

/// The subject's place after the version: serial number, algorithm, issuer, validity, subject.
const SUBJECT: usize = 4;
const VERSION: Tag = Tag::ContextSpecific {
    constructed: true,
    number: TagNumber::N0,
};

const EXTENSIONS: Tag = Tag::ContextSpecific {
    constructed: true,
    number: TagNumber::N3,
};
const SUBJECT_KEY_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.14");

#[derive(Debug, thiserror::Error)]
pub(super) enum IssuerError {
    #[error("it is not a certificate in PEM: {0}")]
    Pem(pem::Error),
    #[error("it is malformed: {0}")]
    Der(#[from] der::Error),
    #[error("it is malformed: its {0} is missing")]
    Missing(&'static str),
    #[error("its subject has a part with {0} attributes, but one is supported")]
    Attributes(usize),
    #[error("its subject has a {0}, which is not a string")]
    Kind(Tag),
    #[error("its subject has an invalid string: {0}")]
    Text(#[from] rcgen::Error),
    #[error("its subject has an invalid string: {0}")]
    Utf8(#[from] std::str::Utf8Error),
}

#[derive(Debug)]
pub(super) struct Authority {
    pub(super) subject: DistinguishedName,
    /// The Subject Key Identifier.
    pub(super) key_id: Option<Vec<u8>>,
}

/// Reads a certificate in PEM.
pub(super) fn read(pem: &str) -> Result<Authority, IssuerError> {
    let bytes = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(IssuerError::Pem)?;
    let certificate = AnyRef::from_der(&bytes)?;
    let content = first(certificate.value(), "content")?;
    let fields = elements(content.value())?;
    let version = usize::from(fields.first().is_some_and(|field| field.tag() == VERSION));
    let subject = fields
        .get(version + SUBJECT)
        .ok_or(IssuerError::Missing("subject"))?;
    let mut name = DistinguishedName::new();
    for part in elements(subject.value())? {
        let attributes = elements(part.value())?;
        let [attribute] = attributes.as_slice() else {
            return Err(IssuerError::Attributes(attributes.len()));
        };
        let fields = elements(attribute.value())?;
        let [kind, value] = fields.as_slice() else {
            return Err(IssuerError::Missing("attribute's value"));
        };
        let kind: ObjectIdentifier = kind.decode_as()?;
        let arcs: Vec<u64> = kind.arcs().map(u64::from).collect();
        name.push(DnType::from_oid(&arcs), text(*value)?);
    }
    let extensions = fields.iter().find(|field| field.tag() == EXTENSIONS);
    Ok(Authority {
        subject: name,
        key_id: match extensions {
            Some(extensions) => key_id(first(extensions.value(), "extension")?)?,
            None => None,
        },
    })
}

fn key_id(extensions: AnyRef<'_>) -> Result<Option<Vec<u8>>, IssuerError> {
    for extension in elements(extensions.value())? {
        let fields = elements(extension.value())?;
        // between the two there may be a flag
        let (Some(kind), Some(content)) = (fields.first(), fields.last()) else {
            return Err(IssuerError::Missing("extension's value"));
        };
        let kind: ObjectIdentifier = kind.decode_as()?;
        if kind == SUBJECT_KEY_ID {
            return Ok(Some(AnyRef::from_der(content.value())?.value().to_vec()));
        }
    }
    Ok(None)
}

fn text(value: AnyRef<'_>) -> Result<DnValue, IssuerError> {
    let bytes = value.value();
    let text = || std::str::from_utf8(bytes);
    Ok(match value.tag() {
        Tag::Utf8String => DnValue::Utf8String(text()?.to_owned()),
        Tag::PrintableString => DnValue::PrintableString(PrintableString::try_from(text()?)?),
        Tag::Ia5String => DnValue::Ia5String(Ia5String::try_from(text()?)?),
        Tag::TeletexString => DnValue::TeletexString(TeletexString::try_from(text()?)?),
        Tag::BmpString => DnValue::BmpString(BmpString::from_utf16be(bytes.to_vec())?),
        other => return Err(IssuerError::Kind(other)),
    })
}

fn first<'a>(bytes: &'a [u8], what: &'static str) -> Result<AnyRef<'a>, IssuerError> {
    let found = elements(bytes)?;
    found.first().copied().ok_or(IssuerError::Missing(what))
}

/// The elements of a constructed value.
fn elements(bytes: &[u8]) -> Result<Vec<AnyRef<'_>>, der::Error> {
    let mut reader = SliceReader::new(bytes)?;
    let mut found = Vec::new();
    while !reader.is_finished() {
        found.push(AnyRef::decode(&mut reader)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    #[test]
    fn subject_is_read_as_it_was_written() {
        let email = DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]);
        let parts = [
            (
                DnType::CountryName,
                DnValue::PrintableString("CH".try_into().expect("text")),
            ),
            (
                DnType::OrganizationName,
                DnValue::Utf8String("Käse & Söhne".to_owned()),
            ),
            (
                DnType::CommonName,
                DnValue::BmpString("Ω".try_into().expect("text")),
            ),
            (email, DnValue::Ia5String("a@b.ch".try_into().expect("text"))),
            (
                DnType::LocalityName,
                DnValue::TeletexString("Bern".try_into().expect("text")),
            ),
        ];
        let mut name = DistinguishedName::new();
        for (kind, value) in parts {
            name.push(kind, value);
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = name.clone();
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        assert_eq!(read(&pem).expect("a certificate").subject, name);
    }

    #[test]
    fn malformed_certificates_are_refused() {
        let check = |body: &str, want: &str| {
            let pem = format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
            let got = read(&pem).expect_err("a malformed certificate").to_string();
            assert!(got.starts_with(want), "{got}");
        };
        check("MAA=", "it is malformed: its content is missing");
        check("MAIwAA==", "it is malformed: its subject is missing");
        check("MAIwBA==", "it is malformed: ");
        check("!", "it is not a certificate in PEM: ");
        assert!(read("").is_err());
    }
}
