//! Tokens that stores accept instead of signatures. Each is kept in memory until it expires.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::header::HeaderValue;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::answer::shown;
use crate::error::{Problem, Reason};

const TOKENS_MAX: usize = 1024;
/// A token is not used so shortly before its end: the request needs time.
const MARGIN: Duration = Duration::from_secs(60);
const LIFE_MAX: Duration = Duration::from_secs(60 * 60);

/// Tokens by the hash of the credentials that they were made for.
#[derive(Debug)]
pub(crate) struct Tokens<T = HeaderValue>(Mutex<HashMap<[u8; 32], (T, Instant)>>);

impl<T> Default for Tokens<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Tokens<T> {
    fn state(&self) -> MutexGuard<'_, HashMap<[u8; 32], (T, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &[u8; 32]) -> Option<T> {
        let state = self.state();
        let (token, end) = state.get(key)?;
        (*end > Instant::now()).then(|| token.clone())
    }

    /// Keeps a token for its life, but not longer than an hour.
    pub(crate) fn insert(&self, key: [u8; 32], token: T, life: Duration) {
        let now = Instant::now();
        let mut state = self.state();
        state.retain(|_, (_, end)| *end > now);
        if state.len() < TOKENS_MAX {
            state.insert(key, (token, now + life.min(LIFE_MAX)));
        }
    }

    /// Forgets a token that the store refuses.
    pub(crate) fn remove(&self, key: &[u8; 32]) {
        self.state().remove(key);
    }
}

/// The hash of credentials.
pub(crate) fn hash<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for field in fields {
        hash.update((field.len() as u64).to_be_bytes());
        hash.update(field);
    }
    hash.finalize().into()
}

/// A token as the header that carries it.
pub(crate) struct Token {
    pub(crate) header: HeaderValue,
    /// How long it can be used.
    pub(crate) life: Duration,
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    #[serde(default)]
    expires_in: u64,
}

/// The answer of a token service (RFC 6749, section 5.1).
pub(crate) fn token(json: &[u8]) -> Result<Token, Problem> {
    // an error of the parser may quote the token
    let malformed = || Problem::new(Reason::Malformed, "the answer of the token service is malformed");
    let answer: Answer = serde_json::from_slice(json).map_err(|_| malformed())?;
    let header = HeaderValue::from_str(&format!("Bearer {}", answer.access_token));
    let mut header = header.map_err(|_| malformed())?;
    header.set_sensitive(true);
    Ok(Token {
        header,
        life: Duration::from_secs(answer.expires_in).saturating_sub(MARGIN),
    })
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Refusal {
    error: String,
    error_description: String,
}

/// The words of a token service that refuses (RFC 6749, section 5.2).
pub(crate) fn told(json: &[u8]) -> String {
    // the status decides, whatever its body
    let Refusal {
        error,
        error_description,
    } = serde_json::from_slice(json).unwrap_or_default();
    joined(error, error_description)
}

/// A code and a message, one of which may be missing.
pub(crate) fn joined(code: String, message: String) -> String {
    match (code.is_empty(), message.is_empty()) {
        (_, true) => code,
        (true, false) => message,
        (false, false) => format!("{code}: {message}"),
    }
}

/// The problem of a token service's answer that is no success.
pub(crate) fn refusal(status: u16, told: &str) -> Problem {
    let (reason, did) = match status {
        400 | 401 | 403 => (
            Reason::Authentication,
            "the token service refused the credentials",
        ),
        300..=399 => (Reason::Refused, "the token service redirects"),
        429 | 503 => (Reason::Failed, "the token service limits requests"),
        _ => (Reason::Failed, "the token service failed"),
    };
    Problem::new(reason, format!("{did} (HTTP {status}){}", shown(told)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_is_kept_until_shortly_before_its_end() {
        let (tokens, key) = (Tokens::default(), [7; 32]);
        let made = token(b"{\"access_token\":\"t\",\"expires_in\":3599,\"token_type\":\"Bearer\"}").unwrap();
        assert_eq!(made.header, "Bearer t");
        assert!(made.header.is_sensitive());
        tokens.insert(key, made.header, made.life);
        tokio::time::advance(Duration::from_secs(3538)).await;
        assert!(tokens.get(&key).is_some());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(tokens.get(&key).is_none());
        let long = token(b"{\"access_token\":\"t\",\"expires_in\":86400}").unwrap();
        tokens.insert(key, long.header, long.life);
        tokio::time::advance(LIFE_MAX - Duration::from_secs(1)).await;
        assert!(tokens.get(&key).is_some());
        tokens.remove(&key);
        assert!(tokens.get(&key).is_none());
        assert!(token(b"{\"access_token\":\"a\\nb\"}").is_err());
        assert!(token(b"{}").is_err());
    }

    #[test]
    fn a_refusal_says_what_the_service_says() {
        let json = b"{\"error\":\"invalid_grant\",\"error_description\":\"Invalid JWT Signature.\"}";
        let problem = refusal(400, &told(json));
        assert_eq!(
            problem.text,
            "the token service refused the credentials (HTTP 400): invalid_grant: Invalid JWT Signature."
        );
        assert_eq!(problem.reason, Reason::Authentication);
        assert_eq!(
            refusal(502, &told(b"<html>")).text,
            "the token service failed (HTTP 502)"
        );
    }
}
