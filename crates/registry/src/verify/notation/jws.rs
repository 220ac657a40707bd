//! Envelopes in JWS, JSON serialization.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::envelope::{
    AUTHENTIC_SIGNING_TIME, Algorithm, EXPIRY, EnvelopeError, Headers, Parsed, SIGNING_SCHEME, SIGNING_TIME,
    Scheme,
};

pub(super) const MEDIA_TYPE: &str = "application/jose+json";

#[derive(Debug, Deserialize)]
struct Envelope {
    payload: String,
    protected: String,
    header: Header,
    signature: String,
}

#[derive(Debug, Deserialize)]
struct Header {
    #[serde(default)]
    x5c: Vec<String>,
}

pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, EnvelopeError> {
    let envelope: Envelope =
        serde_json::from_slice(bytes).map_err(|error| EnvelopeError::Malformed(error.to_string()))?;
    let decode = |text: &str, name: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(text);
        bytes.map_err(|_| EnvelopeError::Malformed(format!("the {name} is not base64")))
    };
    let protected: Map<String, Value> =
        serde_json::from_slice(&decode(&envelope.protected, "protected header")?).map_err(|error| {
            EnvelopeError::Malformed(format!("jws envelope protected header can't be decoded: {error}"))
        })?;
    let certificates = envelope
        .header
        .x5c
        .iter()
        .map(|text| STANDARD.decode(text))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| EnvelopeError::Malformed("a certificate is not base64".to_owned()))?;
    Ok(Parsed {
        headers: headers(protected)?,
        payload: decode(&envelope.payload, "payload")?,
        signature: decode(&envelope.signature, "signature")?,
        message: format!("{}.{}", envelope.protected, envelope.payload).into_bytes(),
        certificates,
    })
}

fn headers(mut protected: Map<String, Value>) -> Result<Headers, EnvelopeError> {
    let algorithm = text(&mut protected, "alg")?.unwrap_or_default();
    let algorithm = match algorithm.as_str() {
        "PS256" => Algorithm::Ps256,
        "PS384" => Algorithm::Ps384,
        "PS512" => Algorithm::Ps512,
        "ES256" => Algorithm::Es256,
        "ES384" => Algorithm::Es384,
        "ES512" => Algorithm::Es512,
        _ => {
            return Err(EnvelopeError::Malformed(format!(
                "signature algorithm \"{algorithm}\" is not supported"
            )));
        }
    };
    let critical = match protected.remove("crit") {
        None => Vec::new(),
        Some(value) => {
            serde_json::from_value(value).map_err(|error| EnvelopeError::Malformed(error.to_string()))?
        }
    };
    Ok(Headers {
        algorithm,
        content_type: text(&mut protected, "cty")?.unwrap_or_default(),
        scheme: Scheme::parse(&text(&mut protected, SIGNING_SCHEME)?.unwrap_or_default())?,
        signing_time: time(&mut protected, SIGNING_TIME)?,
        authentic_signing_time: time(&mut protected, AUTHENTIC_SIGNING_TIME)?,
        expiry: time(&mut protected, EXPIRY)?,
        critical,
        others: protected
            .into_iter()
            .map(|(name, value)| (name, value.as_str().map(str::to_owned)))
            .collect(),
    })
}

fn text(protected: &mut Map<String, Value>, name: &str) -> Result<Option<String>, EnvelopeError> {
    match protected.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(EnvelopeError::Malformed(format!(
            "the header \"{name}\" is not a text"
        ))),
    }
}

fn time(protected: &mut Map<String, Value>, name: &str) -> Result<Option<Timestamp>, EnvelopeError> {
    let Some(text) = text(protected, name)? else {
        return Ok(None);
    };
    let time = text.parse();
    time.map(Some)
        .map_err(|_| EnvelopeError::Malformed(format!("the header \"{name}\" is not a time")))
}
