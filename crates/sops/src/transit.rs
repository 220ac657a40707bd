//! Vault's and OpenBao's transit engine: what to ask it, and what its answer means.
//!
//! The request itself is the caller's: it has the HTTP client, the token, and the say about which
//! addresses may be asked at all. An address comes from a file in a repository, so who carries
//! out a request must hold it against what is allowed before it sends a token there.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use zeroize::Zeroizing;

/// The longest answer that is read.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// So much of what a server says goes into an error.
const MESSAGE_CHARS_MAX: usize = 200;

/// A key of a transit engine, and what is sealed for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransitKey<'m> {
    /// Where the server is, `https://vault.example.com:8200`.
    pub address: &'m str,
    /// Where the engine is mounted.
    pub engine: &'m str,
    /// The key's name.
    pub key: &'m str,
    /// What is to be opened, `vault:v1:…`.
    pub sealed: &'m str,
}

impl std::fmt::Display for TransitKey<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (address, engine) = (self.address.trim_end_matches('/'), self.engine.trim_matches('/'));
        write!(formatter, "{address}/v1/{engine}/keys/{}", self.key)
    }
}

/// Carries out requests to transit engines. Its calls block.
pub trait Transit {
    /// What is sealed for the key, opened.
    fn open(&self, key: &TransitKey<'_>) -> Result<Zeroizing<Vec<u8>>, TransitError>;
}

/// Why a transit engine did not open a data key.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransitError {
    /// The address is not one that may be asked.
    #[error(
        "{0} may not receive its token: check sops.vault-address in the Secret of the keys"
    )]
    NotAllowed(String),
    /// There is no answer.
    #[error("{address} does not answer")]
    NoAnswer {
        /// Which server.
        address: String,
        /// Why.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// It said no.
    #[error("it answers {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it says about it.
        message: String,
    },
    /// The answer is not a transit engine's.
    #[error("its answer is not that of a transit engine")]
    Answer,
    /// What the metadata names is no key.
    #[error("{0:?} is not a valid key or engine name")]
    Name(String),
}

/// What a transit engine is asked: `POST` this body to this URL, with the token in `X-Vault-Token`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TransitRequest {
    /// The whole URL.
    pub url: String,
    /// JSON.
    pub body: String,
}

impl TransitKey<'_> {
    /// What to ask. Names that would lead elsewhere than to the engine's `decrypt` are refused.
    pub fn request(&self) -> Result<TransitRequest, TransitError> {
        let engine = self.engine.trim_matches('/');
        for part in engine.split('/').chain([self.key]) {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
            if part.is_empty() || part == "." || part == ".." || !part.bytes().all(plain) {
                return Err(TransitError::Name(part.to_owned()));
            }
        }
        let address = self.address.trim_end_matches('/');
        Ok(TransitRequest {
            url: format!("{address}/v1/{engine}/decrypt/{}", self.key),
            body: serde_json::json!({ "ciphertext": self.sealed }).to_string(),
        })
    }
}

/// A server's words, as they may stand in a status.
fn said(words: &str) -> String {
    let plain = words.chars().map(|c| if c.is_control() { ' ' } else { c });
    let plain: String = plain.take(MESSAGE_CHARS_MAX).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[derive(Deserialize)]
struct Answer {
    data: Option<Data>,
    #[serde(default)]
    errors: Vec<String>,
}

#[derive(Deserialize)]
struct Data {
    plaintext: Zeroizing<String>,
}

impl TransitRequest {
    /// What an answer means.
    pub fn read(&self, status: u16, answer: &[u8]) -> Result<Zeroizing<Vec<u8>>, TransitError> {
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(TransitError::Answer);
        }
        let read: Option<Answer> = serde_json::from_slice(answer).ok();
        if status != 200 {
            let errors = read.map(|answer| answer.errors).unwrap_or_default();
            let message = match errors.first() {
                Some(first) => said(first),
                None => "no reason given".to_owned(),
            };
            return Err(TransitError::Refused { status, message });
        }
        let data = read.and_then(|answer| answer.data).ok_or(TransitError::Answer)?;
        match STANDARD.decode(data.plaintext.as_bytes()) {
            Ok(bytes) => Ok(Zeroizing::new(bytes)),
            Err(_) => Err(TransitError::Answer),
        }
    }
}
