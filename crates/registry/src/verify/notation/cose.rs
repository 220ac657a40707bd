//! Envelopes in COSE: a tagged `COSE_Sign1` (RFC 9052).

use jiff::Timestamp;

use super::cbor::{self, Key, Value};
use super::envelope::{
    AUTHENTIC_SIGNING_TIME, Algorithm, EXPIRY, EnvelopeError, Headers, Parsed, SIGNING_SCHEME, SIGNING_TIME,
    Scheme,
};

pub(super) const MEDIA_TYPE: &str = "application/cose";
const SIGN1: u64 = 18;
/// Seconds since the epoch.
const EPOCH_TIME: u64 = 1;
const ALGORITHM: Key<'_> = Key::Integer(1);
const CRITICAL: Key<'_> = Key::Integer(2);
const CONTENT_TYPE: Key<'_> = Key::Integer(3);
const CERTIFICATES: Key<'_> = Key::Integer(33);

pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, EnvelopeError> {
    let malformed = |text: &str| EnvelopeError::Malformed(text.to_owned());
    let Ok(Value::Tag(SIGN1, inner)) = cbor::parse(bytes) else {
        return Err(malformed("it is not a tagged COSE_Sign1"));
    };
    let Value::Array(parts) = *inner else {
        return Err(malformed("it is not a COSE_Sign1"));
    };
    let [
        Value::Bytes(protected),
        Value::Map(unprotected),
        Value::Bytes(payload),
        Value::Bytes(signature),
    ] = parts.as_slice()
    else {
        return Err(malformed("it is not a COSE_Sign1"));
    };
    let Ok(Value::Map(headers)) = cbor::parse(protected) else {
        return Err(malformed("the protected header is malformed"));
    };
    let Some(Value::Array(chain)) = get(unprotected, CERTIFICATES) else {
        return Err(malformed("certificate chain is not present"));
    };
    let mut certificates = Vec::new();
    for certificate in chain {
        let Value::Bytes(certificate) = certificate else {
            return Err(malformed("certificate chain is not present"));
        };
        certificates.push(certificate.to_vec());
    }
    Ok(Parsed {
        headers: self::headers(&headers)?,
        payload: payload.to_vec(),
        message: signed_message(protected, payload),
        signature: signature.to_vec(),
        certificates,
    })
}

/// The `Sig_structure` without external data.
fn signed_message(protected: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut message = vec![0x84, 0x6a];
    message.extend_from_slice(b"Signature1");
    cbor::write_bytes(&mut message, protected);
    cbor::write_bytes(&mut message, &[]);
    cbor::write_bytes(&mut message, payload);
    message
}

fn get<'v, 'b>(map: &'v [(Key<'b>, Value<'b>)], wanted: Key<'_>) -> Option<&'v Value<'b>> {
    map.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value)
}

fn headers(map: &[(Key<'_>, Value<'_>)]) -> Result<Headers, EnvelopeError> {
    let malformed = |text: &str| EnvelopeError::Malformed(text.to_owned());
    let algorithm = match get(map, ALGORITHM) {
        Some(Value::Integer(-37)) => Algorithm::Ps256,
        Some(Value::Integer(-38)) => Algorithm::Ps384,
        Some(Value::Integer(-39)) => Algorithm::Ps512,
        Some(Value::Integer(-7)) => Algorithm::Es256,
        Some(Value::Integer(-35)) => Algorithm::Es384,
        Some(Value::Integer(-36)) => Algorithm::Es512,
        _ => return Err(malformed("signature algorithm not supported")),
    };
    let Some(Value::Text(content_type)) = get(map, CONTENT_TYPE) else {
        return Err(malformed("missing content type"));
    };
    let Some(Value::Text(scheme)) = get(map, Key::Text(SIGNING_SCHEME)) else {
        return Err(malformed("invalid signingScheme"));
    };
    let mut critical = Vec::new();
    if let Some(value) = get(map, CRITICAL) {
        let Value::Array(names) = value else {
            return Err(malformed("invalid critical headers"));
        };
        for name in names {
            critical.push(match name {
                Value::Text(name) => (*name).to_owned(),
                Value::Integer(label) => label.to_string(),
                _ => return Err(malformed("invalid critical headers")),
            });
        }
    }
    let known = [
        ALGORITHM,
        CRITICAL,
        CONTENT_TYPE,
        Key::Text(SIGNING_SCHEME),
        Key::Text(SIGNING_TIME),
        Key::Text(AUTHENTIC_SIGNING_TIME),
        Key::Text(EXPIRY),
    ];
    let others = map.iter().filter(|(key, _)| !known.contains(key));
    Ok(Headers {
        algorithm,
        content_type: (*content_type).to_owned(),
        scheme: Scheme::parse(scheme)?,
        signing_time: time(map, SIGNING_TIME)?,
        authentic_signing_time: time(map, AUTHENTIC_SIGNING_TIME)?,
        expiry: time(map, EXPIRY)?,
        critical,
        others: others
            .map(|(key, value)| {
                let name = match key {
                    Key::Text(name) => (*name).to_owned(),
                    Key::Integer(label) => label.to_string(),
                };
                let text = match value {
                    Value::Text(text) => Some((*text).to_owned()),
                    _ => None,
                };
                (name, text)
            })
            .collect(),
    })
}

fn time(map: &[(Key<'_>, Value<'_>)], name: &str) -> Result<Option<Timestamp>, EnvelopeError> {
    let Some(value) = get(map, Key::Text(name)) else {
        return Ok(None);
    };
    let seconds = match value {
        Value::Tag(EPOCH_TIME, inner) => match inner.as_ref() {
            Value::Integer(seconds) => Some(*seconds),
            _ => None,
        },
        _ => None,
    };
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map(Some)
        .ok_or_else(|| EnvelopeError::Malformed(format!("the header \"{name}\" is not a time")))
}
