//! Reads DER, element by element. Certificates, timestamps and keys are made of it.

use der::asn1::{GeneralizedTime, ObjectIdentifier, UtcTime};
use der::{AnyRef, Decode as _, Reader as _, SliceReader};
use jiff::Timestamp;

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const UTF8_STRING: u8 = 0x0c;
pub(super) const PRINTABLE_STRING: u8 = 0x13;
pub(super) const IA5_STRING: u8 = 0x16;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// The tag of a constructed, context-specific element.
pub(super) const fn constructed(number: u8) -> u8 {
    0xa0 | number
}

/// The tag of a primitive, context-specific element.
pub(super) const fn primitive(number: u8) -> u8 {
    0x80 | number
}

/// The reason why bytes are not the expected DER.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DerError {
    /// The encoding is invalid.
    #[error("the encoding is invalid")]
    Encoding(#[from] der::Error),
    /// Another element is in the place of the expected one.
    #[error("an element has the tag {found:#04x}, but {expected:#04x} is expected")]
    Tag {
        /// The expected tag.
        expected: u8,
        /// The actual tag.
        found: u8,
    },
    /// An element has a value outside its range.
    #[error("the value of a {0} is out of range")]
    Value(&'static str),
}

impl From<der::oid::Error> for DerError {
    fn from(_: der::oid::Error) -> Self {
        Self::Value("object identifier")
    }
}

pub(super) type DerResult<T> = Result<T, DerError>;

/// One element: its whole encoding, and its content.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element<'a> {
    pub(super) raw: &'a [u8],
    pub(super) value: &'a [u8],
}

impl<'a> Element<'a> {
    /// The element that some bytes consist of.
    pub(super) fn only(bytes: &'a [u8], tag: u8) -> DerResult<Self> {
        let mut elements = Elements::new(bytes)?;
        let element = elements.take(tag)?;
        elements.finish()?;
        Ok(element)
    }

    pub(super) fn tag(&self) -> u8 {
        self.raw.first().copied().unwrap_or_default()
    }

    pub(super) fn elements(&self) -> DerResult<Elements<'a>> {
        Elements::new(self.value)
    }

    pub(super) fn oid(&self) -> DerResult<ObjectIdentifier> {
        Ok(ObjectIdentifier::from_bytes(self.value)?)
    }

    /// The bytes of a bit string without unused bits.
    pub(super) fn bits(&self) -> DerResult<&'a [u8]> {
        match self.value.split_first() {
            Some((0, bytes)) => Ok(bytes),
            _ => Err(DerError::Value("bit string")),
        }
    }

    pub(super) fn boolean(&self) -> DerResult<bool> {
        match self.value {
            [0] => Ok(false),
            [0xff] => Ok(true),
            _ => Err(DerError::Value("boolean")),
        }
    }

    /// A non-negative integer of at most eight bytes.
    pub(super) fn unsigned(&self) -> DerResult<u64> {
        let digits = match self.value {
            [0, rest @ ..] => rest,
            [first, ..] if first & 0x80 == 0 => self.value,
            _ => return Err(DerError::Value("integer")),
        };
        if digits.len() > 8 {
            return Err(DerError::Value("integer"));
        }
        Ok(digits
            .iter()
            .fold(0, |number, digit| number << 8 | u64::from(*digit)))
    }

    /// Text in the strings that names use.
    pub(super) fn text(&self) -> DerResult<&'a str> {
        match self.tag() {
            UTF8_STRING | PRINTABLE_STRING | IA5_STRING => {
                std::str::from_utf8(self.value).map_err(|_| DerError::Value("string"))
            }
            found => Err(DerError::Tag {
                expected: UTF8_STRING,
                found,
            }),
        }
    }

    /// A time of either form. A fraction of a second is cut off.
    pub(super) fn time(&self) -> DerResult<Timestamp> {
        let since_epoch = match self.tag() {
            UTC_TIME => UtcTime::from_der(self.raw)?.to_unix_duration(),
            GENERALIZED_TIME => match self.value {
                [whole @ .., b'Z'] if whole.len() > 14 => {
                    let mut cut = vec![GENERALIZED_TIME, 15];
                    cut.extend_from_slice(&whole[..14]);
                    cut.push(b'Z');
                    let fraction = &whole[14..];
                    let is_fraction = fraction[0] == b'.' && fraction[1..].iter().all(u8::is_ascii_digit);
                    if !is_fraction || fraction.len() < 2 {
                        return Err(DerError::Value("time"));
                    }
                    GeneralizedTime::from_der(&cut)?.to_unix_duration()
                }
                _ => GeneralizedTime::from_der(self.raw)?.to_unix_duration(),
            },
            found => {
                return Err(DerError::Tag {
                    expected: GENERALIZED_TIME,
                    found,
                });
            }
        };
        i64::try_from(since_epoch.as_secs())
            .ok()
            .and_then(|seconds| Timestamp::from_second(seconds).ok())
            .ok_or(DerError::Value("time"))
    }
}

/// The elements of a sequence, one after the other.
#[derive(Debug)]
pub(super) struct Elements<'a> {
    reader: SliceReader<'a>,
}

impl<'a> Elements<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> DerResult<Self> {
        Ok(Self {
            reader: SliceReader::new(bytes)?,
        })
    }

    pub(super) fn next(&mut self) -> DerResult<Element<'a>> {
        let raw = self.reader.tlv_bytes()?;
        let value = AnyRef::from_der(raw)?.value();
        Ok(Element { raw, value })
    }

    /// The next element, which must have this tag.
    pub(super) fn take(&mut self, tag: u8) -> DerResult<Element<'a>> {
        let element = self.next()?;
        match element.tag() {
            found if found == tag => Ok(element),
            found => Err(DerError::Tag { expected: tag, found }),
        }
    }

    /// The next element if it has this tag.
    pub(super) fn take_if(&mut self, tag: u8) -> DerResult<Option<Element<'a>>> {
        match self.reader.peek_byte() {
            Some(found) if found == tag => self.next().map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.reader.is_finished()
    }

    pub(super) fn finish(self) -> DerResult<()> {
        Ok(self.reader.finish()?)
    }
}

/// The encoding of an element.
pub(super) fn encode(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let digits = length.to_be_bytes();
            let digits = &digits[length.leading_zeros() as usize / 8..];
            // a usize has at most eight bytes
            out.push(0x80 | digits.len() as u8);
            out.extend_from_slice(digits);
        }
    }
    out.extend_from_slice(content);
    out
}
