//! Tokens of ServiceAccounts, issued by `serviceaccounts/NAME/token`.
//!
//! A token is random text whose digest only this process knows; a real server signs its tokens. No token
//! survives the process: clients ask again, as they do when one expires. A cluster can be told to accept
//! another's tokens, like a real server that trusts its issuer.

use super::authenticate::Token;
use super::identity::Identity;
use crate::random::NoRandomNumbers;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The audience of tokens whose request names none.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc";
/// Bounds the memory that token requests can take. Counts tokens that have not expired.
const TOKENS_MAX: usize = 10_000;

/// The tokens that a cluster issued. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct IssuedTokens(Arc<Mutex<HashMap<[u8; 32], TokenGrant>>>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenGrant {
    /// Carries the ServiceAccount's uid.
    pub identity: Identity,
    pub audiences: Vec<String>,
    pub expires: Timestamp,
}

impl fmt::Debug for IssuedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IssuedTokens(***)")
    }
}

impl IssuedTokens {
    pub(crate) fn issue(&self, grant: TokenGrant, now: Timestamp) -> Result<Option<Token>, NoRandomNumbers> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TOKENS_MAX {
            known.retain(|_, grant| grant.expires > now);
        }
        if known.len() >= TOKENS_MAX {
            return Ok(None);
        }
        let token = Token::random()?;
        known.insert(digest(token.expose()), grant);
        Ok(Some(token))
    }

    pub(crate) fn find(&self, presented: &str, now: Timestamp) -> Option<TokenGrant> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // a look-up by digest takes no time that depends on the text
        let grant = known.get(&digest(presented))?;
        let meant = grant.audiences.iter().any(|audience| audience == AUDIENCE);
        (meant && now < grant.expires).then(|| grant.clone())
    }
}

impl TokenGrant {
    pub(crate) fn new(
        namespace: &str,
        name: &str,
        uid: &str,
        audiences: Vec<String>,
        (now, seconds): (Timestamp, i64),
    ) -> Self {
        Self {
            identity: Identity {
                uid: uid.to_owned(),
                ..Identity::service_account(namespace, name)
            },
            audiences,
            // an expiry beyond the range of timestamps means never
            expires: now
                .checked_add(SignedDuration::from_secs(seconds))
                .unwrap_or(Timestamp::MAX),
        }
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_audience_until_it_expires() {
        let issued = IssuedTokens::default();
        let now = Timestamp::UNIX_EPOCH;
        let issue = |audience: &str, seconds| {
            let audiences = vec![audience.to_owned()];
            issued
                .issue(TokenGrant::new("n", "a", "1", audiences, (now, seconds)), now)
                .unwrap()
                .unwrap()
        };
        let check = |token: &str, after: i64, expected: Option<&str>| {
            let found = issued.find(token, now + SignedDuration::from_secs(after));
            assert_eq!(found.map(|grant| grant.identity.name).as_deref(), expected);
        };
        let (own, other) = (issue(AUDIENCE, 600), issue("elsewhere", 600));
        let who = Some("system:serviceaccount:n:a");
        check(own.expose(), 599, who);
        check(own.expose(), 600, None);
        check(other.expose(), 0, None);
        check("", 0, None);
        assert_eq!(format!("{issued:?}"), "IssuedTokens(***)");
        for _ in 2..TOKENS_MAX {
            issue(AUDIENCE, 600);
        }
        let one_more = |after| {
            let now = now + SignedDuration::from_secs(after);
            let grant = TokenGrant::new("n", "a", "1", Vec::new(), (now, 600));
            issued.issue(grant, now).unwrap()
        };
        assert!(one_more(0).is_none());
        assert!(one_more(600).is_some());
    }
}
