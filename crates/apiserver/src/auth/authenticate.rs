//! Authentication: an identity injected in-process, a bearer token, or anonymous.
//!
//! Only [`Token`] holds a token, and it never prints itself. An unknown token is refused, never treated as
//! anonymous.

use super::identity::Identity;
use crate::status::ApiError;
use http::{Extensions, HeaderMap, header};
use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

use crate::random::{self, NoRandomNumbers};

/// A bearer token. `Debug` hides it; [`Token::expose`] is the only way to the text.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Wraps a token's text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Generates a token of 256 random bits.
    ///
    /// # Errors
    /// When the operating system has no random numbers.
    pub fn random() -> Result<Self, NoRandomNumbers> {
        let bytes: [u8; 32] = random::bytes()?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The text, for a kubeconfig.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Authenticator {
    tokens: Vec<(TokenDigest, Identity)>,
    anonymous: bool,
}

/// Digests are compared: the time of a comparison then reveals neither content nor length of a token.
#[derive(Clone)]
struct TokenDigest([u8; 32]);

impl TokenDigest {
    fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest(***)")
    }
}

impl Default for Authenticator {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            anonymous: true,
        }
    }
}

impl Authenticator {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub(crate) fn token(mut self, token: &Token, identity: Identity) -> Self {
        self.tokens
            .push((TokenDigest::of(token.expose()), identity.completed()));
        self
    }

    #[must_use]
    pub(crate) fn anonymous(mut self, allowed: bool) -> Self {
        self.anonymous = allowed;
        self
    }

    /// The identity of a request. An [`Identity`] in `extensions` wins: only in-process callers can put it
    /// there.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<Identity, ApiError> {
        if let Some(identity) = extensions.get::<Identity>() {
            return Ok(identity.clone().completed());
        }
        match bearer(headers) {
            Some(token) => self.known(token).cloned().ok_or_else(ApiError::unauthorized),
            None if self.anonymous => Ok(Identity::anonymous()),
            None => Err(ApiError::unauthorized()),
        }
    }

    fn known(&self, presented: &str) -> Option<&Identity> {
        let presented = TokenDigest::of(presented);
        let mut found = None;
        // No early exit: the time must not reveal which token matched.
        for (digest, identity) in &self.tokens {
            if bool::from(digest.0.ct_eq(&presented.0)) {
                found = Some(identity);
            }
        }
        found
    }
}

/// The token of an `Authorization: Bearer` header. Bytes that are not text count as an unknown token.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?;
    let Ok(text) = value.to_str() else {
        return Some("\u{0}");
    };
    let mut parts = text.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
