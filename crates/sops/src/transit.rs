//! Requests to Vault's and OpenBao's transit engine, and their answers.
//!
//! The caller sends the requests: it has the HTTP client and the token. Addresses come from a repository,
//! so the caller must check them against an allow list before it sends a token.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use zeroize::Zeroizing;

/// The longest answer that is read.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
const MESSAGE_CHARS_MAX: usize = 200;

/// A key of a transit engine, and the data key encrypted with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransitKey<'m> {
    /// The server's address, `https://vault.example.com:8200`.
    pub address: &'m str,
    /// The engine's mount path.
    pub engine: &'m str,
    /// The key's name.
    pub key: &'m str,
    /// The encrypted data key, `vault:v1:…`.
    pub sealed: &'m str,
}

impl std::fmt::Display for TransitKey<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (address, engine) = (self.address.trim_end_matches('/'), self.engine.trim_matches('/'));
        write!(formatter, "{address}/v1/{engine}/keys/{}", self.key)
    }
}

/// A client for transit engines. Its calls block.
pub trait Transit {
    /// Decrypts the data key.
    fn open(&self, key: &TransitKey<'_>) -> Result<Zeroizing<Vec<u8>>, TransitError>;
}

/// The reason why a transit engine did not decrypt a data key.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransitError {
    /// The address is not allowed.
    #[error(
        "the token must not be sent to {0}; if you trust this address, add it to sops.vault-address in the \
         Secret of the keys"
    )]
    NotAllowed(String),
    /// There is no answer.
    #[error("{address} does not answer")]
    NoAnswer {
        /// The server.
        address: String,
        /// The reason.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The server refused.
    #[error("it answers {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's message.
        message: String,
    },
    /// The answer is malformed.
    #[error("its answer is not that of a transit engine")]
    Answer,
    /// A name in the metadata is invalid.
    #[error("{0:?} is not a valid key or engine name")]
    Name(String),
}

/// A request: `POST` this body to this URL, with the token in `X-Vault-Token`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TransitRequest {
    /// The URL.
    pub url: String,
    /// The JSON body.
    pub body: String,
}

impl TransitKey<'_> {
    /// Builds the request. Names that lead outside the engine's `decrypt` path are refused.
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

fn clean_message(words: &str) -> String {
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
    /// Reads the answer.
    pub fn read(&self, status: u16, answer: &[u8]) -> Result<Zeroizing<Vec<u8>>, TransitError> {
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(TransitError::Answer);
        }
        let read: Option<Answer> = serde_json::from_slice(answer).ok();
        if status != 200 {
            let errors = read.map(|answer| answer.errors).unwrap_or_default();
            let message = match errors.first() {
                Some(first) => clean_message(first),
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
