//! Distinguished names of trust policies and certificates (RFC 4514), by notation's rules.

use der::asn1::ObjectIdentifier;
use std::collections::BTreeMap;

use super::super::certificate::{Certificate, name_parts};
use super::super::der::DerError;

const ATTRIBUTES_MAX: usize = 64;

/// The attributes that Go's certificates name.
const KNOWN: [(ObjectIdentifier, &str); 9] = [
    (ObjectIdentifier::new_unwrap("2.5.4.3"), "CN"),
    (ObjectIdentifier::new_unwrap("2.5.4.5"), "SERIALNUMBER"),
    (ObjectIdentifier::new_unwrap("2.5.4.6"), "C"),
    (ObjectIdentifier::new_unwrap("2.5.4.7"), "L"),
    (ObjectIdentifier::new_unwrap("2.5.4.8"), "ST"),
    (ObjectIdentifier::new_unwrap("2.5.4.9"), "STREET"),
    (ObjectIdentifier::new_unwrap("2.5.4.10"), "O"),
    (ObjectIdentifier::new_unwrap("2.5.4.11"), "OU"),
    (ObjectIdentifier::new_unwrap("2.5.4.17"), "POSTALCODE"),
];

/// The attribute's name, as Go prints it.
pub(super) fn attribute_name(oid: ObjectIdentifier) -> Option<&'static str> {
    KNOWN
        .iter()
        .find(|(known, _)| *known == oid)
        .map(|(_, name)| *name)
}

/// A distinguished name does not follow notation's rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    /// It is not a list of attributes.
    #[error(
        "parsing distinguished name (DN) \"{0}\" failed. A valid DN must contain 'C', 'ST' or 'S', and 'O' RDN \
         attributes at a minimum, and follow RFC 4514 standard"
    )]
    Malformed(String),
    /// It has an attribute in its encoding.
    #[error(
        "unsupported distinguished name (DN) \"{0}\": notation does not support x509.subject identities containing \"=#\""
    )]
    Encoded(String),
    /// A part has several attributes.
    #[error(
        "distinguished name (DN) \"{0}\" has multi-valued RDN attributes, remove multi-valued RDN attributes as \
         they are not supported"
    )]
    MultiValued(String),
    /// An attribute is there twice.
    #[error(
        "distinguished name (DN) \"{0}\" has duplicate RDN attribute for \"{1}\", DN can only have unique RDN \
         attributes"
    )]
    Duplicate(String, String),
    /// A required attribute is missing.
    #[error(
        "distinguished name (DN) \"{0}\" has no mandatory RDN attribute for \"{1}\", it must contain 'C', 'ST' or \
         'S', and 'O' RDN attributes at a minimum"
    )]
    Missing(String, &'static str),
    /// The certificate's name is malformed.
    #[error("the subject of the certificate is malformed")]
    Certificate(#[from] DerError),
}

/// Attributes, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DistinguishedName(BTreeMap<String, String>);

impl DistinguishedName {
    pub(super) fn parse(text: &str) -> Result<Self, NameProblem> {
        if text.contains("=#") {
            return Err(NameProblem::Encoded(text.to_owned()));
        }
        let malformed = || NameProblem::Malformed(text.to_owned());
        let mut attributes = Vec::new();
        for part in split(text).ok_or_else(malformed)? {
            if attributes.len() == ATTRIBUTES_MAX {
                return Err(malformed());
            }
            if part.is_multi_valued {
                return Err(NameProblem::MultiValued(text.to_owned()));
            }
            attributes.push((part.kind, part.value));
        }
        Self::of_attributes(text, attributes)
    }

    /// The subject of a certificate.
    pub(super) fn of_certificate(certificate: &Certificate) -> Result<Self, NameProblem> {
        let shown = super::code_signing::subject_of(certificate);
        let mut attributes = Vec::new();
        for part in name_parts(certificate.subject())? {
            let [(oid, value)] = part.as_slice() else {
                return Err(NameProblem::MultiValued(shown));
            };
            let name = attribute_name(*oid).ok_or_else(|| NameProblem::Encoded(shown.clone()))?;
            attributes.push((name.to_owned(), value.clone()));
        }
        Self::of_attributes(&shown, attributes)
    }

    fn of_attributes(text: &str, attributes: Vec<(String, String)>) -> Result<Self, NameProblem> {
        let mut map: BTreeMap<String, String> = BTreeMap::new();
        for (kind, value) in attributes {
            let kind = match kind.as_str() {
                "S" => "ST".to_owned(),
                _ => kind,
            };
            match map.get(&kind) {
                Some(other) if !other.is_empty() => {
                    return Err(NameProblem::Duplicate(text.to_owned(), kind));
                }
                _ => map.insert(kind, value),
            };
        }
        for required in ["C", "ST", "O"] {
            if map.get(required).is_none_or(String::is_empty) {
                return Err(NameProblem::Missing(text.to_owned(), required));
            }
        }
        Ok(Self(map))
    }

    /// Whether the other name has all attributes of this one.
    pub(super) fn is_part_of(&self, other: &Self) -> bool {
        self.0
            .iter()
            .all(|(kind, value)| other.0.get(kind) == Some(value))
    }
}

struct Part {
    kind: String,
    value: String,
    is_multi_valued: bool,
}

/// The parts of a name, with their escapes resolved; `None` if it is malformed.
fn split(text: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (kind, after) = rest.split_once('=')?;
        let (value, end, after) = value(after)?;
        let kind = kind.trim();
        let is_kind = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        if kind.is_empty() || !kind.chars().all(is_kind) {
            return None;
        }
        parts.push(Part {
            kind: kind.to_owned(),
            value,
            is_multi_valued: end == Some('+'),
        });
        match end {
            Some(_) => rest = after,
            None => return Some(parts),
        }
    }
}

/// A value, the separator after it, and the rest.
fn value(text: &str) -> Option<(String, Option<char>, &str)> {
    let mut bytes = Vec::new();
    // spaces after this are not part of the value
    let mut kept = 0;
    let mut chars = text.char_indices();
    let finish = |mut bytes: Vec<u8>, kept: usize| {
        bytes.truncate(kept);
        String::from_utf8(bytes).ok()
    };
    while let Some((at, c)) = chars.next() {
        match c {
            ',' | ';' | '+' => {
                return Some((finish(bytes, kept)?, Some(c), &text[at + 1..]));
            }
            '\\' => {
                let (_, first) = chars.next()?;
                match first.to_digit(16) {
                    Some(high) => {
                        let low = chars.next()?.1.to_digit(16)?;
                        bytes.push(u8::try_from(high << 4 | low).ok()?);
                    }
                    None if " \"#+,;<=>\\".contains(first) => bytes.push(first as u8),
                    None => return None,
                }
                kept = bytes.len();
            }
            '"' | '<' | '>' => return None,
            ' ' if bytes.is_empty() => {}
            ' ' => bytes.push(b' '),
            other => {
                bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
                kept = bytes.len();
            }
        }
    }
    Some((finish(bytes, kept)?, None, ""))
}
