//! Signed certificate timestamps: that a trusted log has recorded a certificate of Fulcio (RFC 6962, sections
//! 3.2 and 3.3).

use der::asn1::ObjectIdentifier;
use jiff::Timestamp;

use super::certificate::Certificate;
use super::der::{DerError, DerResult, Element, OCTET_STRING, OID, SEQUENCE, constructed, encode};
use super::key::{Hash, KeyKind};
use super::trusted_root::Log;

const TIMESTAMP_LIST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.11129.2.4.2");
const TIMESTAMPS_MAX: usize = 32;

/// No trusted log recorded a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateLogError {
    /// The certificate has no timestamps.
    #[error("certificate does not include required embedded SCT and no detached SCT was set")]
    Missing,
    /// The timestamps are malformed.
    #[error("the signed certificate timestamps are malformed")]
    Malformed(#[from] DerError),
    /// None is valid.
    #[error("only able to verify 0 SCT entries; unable to meet threshold of 1")]
    None,
}

struct SignedTimestamp<'a> {
    log_id: &'a [u8],
    milliseconds: u64,
    extensions: &'a [u8],
    hash: u8,
    algorithm: u8,
    signature: &'a [u8],
}

/// Checks that one of the logs recorded a certificate before its issuer signed it.
pub(super) fn check_timestamps(
    certificate: &Certificate,
    issuer: &Certificate,
    logs: &[Log],
) -> Result<(), CertificateLogError> {
    let extension = certificate
        .extension(TIMESTAMP_LIST)
        .ok_or(CertificateLogError::Missing)?;
    let list = Element::only(&extension.value, OCTET_STRING)?.value;
    let timestamps = timestamps(list).ok_or(DerError::Value("timestamp list"))?;
    let body = without_timestamps(certificate)?;
    let is_recorded = timestamps
        .iter()
        .any(|timestamp| is_valid(timestamp, &body, issuer, logs));
    match is_recorded {
        true => Ok(()),
        false => Err(CertificateLogError::None),
    }
}

fn is_valid(timestamp: &SignedTimestamp<'_>, body: &[u8], issuer: &Certificate, logs: &[Log]) -> bool {
    let time = i64::try_from(timestamp.milliseconds).ok();
    let Some(time) = time.and_then(|time| Timestamp::from_millisecond(time).ok()) else {
        return false;
    };
    let Some(log) = logs.iter().find(|log| log.id == timestamp.log_id) else {
        return false;
    };
    // RFC 5246, section 7.4.1.4.1: SHA-256 is 4, RSA is 1, ECDSA is 3
    let is_algorithm = match log.key.kind() {
        KeyKind::Rsa(_) => timestamp.algorithm == 1,
        KeyKind::P256 | KeyKind::P384 => timestamp.algorithm == 3,
        KeyKind::Ed25519 => false,
    };
    if timestamp.hash != 4 || !is_algorithm || !log.valid_for.contains(time) {
        return false;
    }
    let Some(message) = signed_message(timestamp, body, issuer) else {
        return false;
    };
    log.key.check(Hash::Sha256, &message, timestamp.signature).is_ok()
}

/// Version 1, a certificate's timestamp, of an entry before its signature: the bytes that the log signed.
fn signed_message(timestamp: &SignedTimestamp<'_>, body: &[u8], issuer: &Certificate) -> Option<Vec<u8>> {
    let mut message = vec![0, 0];
    message.extend(timestamp.milliseconds.to_be_bytes());
    message.extend([0, 1]);
    message.extend(issuer.key().id());
    let length = u32::try_from(body.len())
        .ok()
        .filter(|length| *length < 1 << 24)?;
    message.extend(&length.to_be_bytes()[1..]);
    message.extend(body);
    message.extend(u16::try_from(timestamp.extensions.len()).ok()?.to_be_bytes());
    message.extend(timestamp.extensions);
    Some(message)
}

/// The signed part of a certificate as its log saw it: without the timestamps.
fn without_timestamps(certificate: &Certificate) -> DerResult<Vec<u8>> {
    let mut fields = Element::only(certificate.body(), SEQUENCE)?.elements()?;
    let mut body = Vec::new();
    while !fields.is_finished() {
        let field = fields.next()?;
        if field.tag() != constructed(3) {
            body.extend_from_slice(field.raw);
            continue;
        }
        let mut list = Element::only(field.value, SEQUENCE)?.elements()?;
        let mut others = Vec::new();
        while !list.is_finished() {
            let extension = list.take(SEQUENCE)?;
            if extension.elements()?.take(OID)?.oid()? != TIMESTAMP_LIST {
                others.extend_from_slice(extension.raw);
            }
        }
        body.extend(encode(constructed(3), &encode(SEQUENCE, &others)));
    }
    Ok(encode(SEQUENCE, &body))
}

/// Reads the list of RFC 6962, section 3.3; `None` if a length is wrong.
fn timestamps(list: &[u8]) -> Option<Vec<SignedTimestamp<'_>>> {
    let (mut rest, end) = prefixed(list)?;
    if !end.is_empty() {
        return None;
    }
    let mut timestamps = Vec::new();
    while !rest.is_empty() {
        let (timestamp, after) = prefixed(rest)?;
        rest = after;
        if timestamps.len() == TIMESTAMPS_MAX {
            return None;
        }
        // other versions are skipped, as in certificate-transparency-go
        if timestamp.first() == Some(&0) {
            timestamps.push(signed_timestamp(&timestamp[1..])?);
        }
    }
    Some(timestamps)
}

fn signed_timestamp(bytes: &[u8]) -> Option<SignedTimestamp<'_>> {
    let (log_id, rest) = bytes.split_at_checked(32)?;
    let (milliseconds, rest) = rest.split_first_chunk::<8>()?;
    let (extensions, rest) = prefixed(rest)?;
    let ([hash, algorithm], rest) = rest.split_first_chunk::<2>()?;
    let (signature, end) = prefixed(rest)?;
    end.is_empty().then_some(SignedTimestamp {
        log_id,
        milliseconds: u64::from_be_bytes(*milliseconds),
        extensions,
        hash: *hash,
        algorithm: *algorithm,
        signature,
    })
}

/// The bytes after a length of two bytes, and the rest.
fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}
