//! Tokens of ServiceAccounts, issued by `serviceaccounts/NAME/token`.
//!
//! They are JSON web tokens with the claims of Kubernetes, signed with a key of this process (ES256). The key
//! is published for OIDC discovery. No token survives the process: clients ask again, as they do when one
//! expires. A cluster can be told to accept another's tokens, like a real server that trusts its issuer.

use super::authenticate::Token;
use super::identity::Identity;
use crate::random::NoRandomNumbers;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// The issuer, and the audience of tokens whose request names none.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc";
/// The path of the keys, as the discovery document names it.
pub(crate) const KEYS_PATH: &str = "/openid/v1/jwks";
/// An uncompressed point of P-256 follows.
const PUBLIC_KEY_PREFIX: &[u8] =
    b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";
const COORDINATE_BYTES: usize = 32;

/// The key that signs the tokens of a cluster. Clones share it.
#[derive(Clone)]
pub(crate) struct IssuedTokens(Arc<Signer>);

struct Signer {
    key: EcdsaKeyPair,
    id: String,
}

/// The object whose end ends a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bound {
    /// `pod`, `secret` or `node`.
    pub kind: String,
    pub name: String,
    pub uid: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenGrant {
    pub namespace: String,
    pub name: String,
    /// The ServiceAccount's uid.
    pub uid: String,
    pub bound: Option<Bound>,
    /// The node of a bound pod, with its uid if the Node exists.
    pub node: Option<(String, Option<String>)>,
    pub audiences: Vec<String>,
    pub issued: Timestamp,
    pub expires: Timestamp,
}

impl fmt::Debug for IssuedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IssuedTokens(***)")
    }
}

impl IssuedTokens {
    pub(crate) fn new() -> Result<Self, NoRandomNumbers> {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(|_| NoRandomNumbers)?;
        let key =
            EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).map_err(|_| NoRandomNumbers)?;
        let public = [PUBLIC_KEY_PREFIX, key.public_key().as_ref()].concat();
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(public));
        Ok(Self(Arc::new(Signer { key, id })))
    }

    pub(crate) fn issue(&self, grant: &TokenGrant) -> Result<Token, NoRandomNumbers> {
        let Signer { key, id } = &*self.0;
        let header = json!({ "alg": "ES256", "kid": id });
        let signed = format!("{}.{}", encoded(&header), encoded(&grant.claims()));
        let signature = key
            .sign(&SystemRandom::new(), signed.as_bytes())
            .map_err(|_| NoRandomNumbers)?;
        Ok(Token::new(format!(
            "{signed}.{}",
            URL_SAFE_NO_PAD.encode(signature)
        )))
    }

    /// The grant and the id of a token that this key signed, that has not expired, and that is meant for one
    /// of `audiences`.
    pub(crate) fn find(
        &self,
        presented: &str,
        audiences: &[&str],
        now: Timestamp,
    ) -> Option<(TokenGrant, String)> {
        let (signed, signature) = presented.rsplit_once('.')?;
        let (_, claims) = signed.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        // there is one algorithm: the header is not asked for it
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.0.key.public_key())
            .verify(signed.as_bytes(), &signature)
            .ok()?;
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        let grant = TokenGrant::from_claims(&claims)?;
        let is_meant = grant
            .audiences
            .iter()
            .any(|audience| audiences.contains(&audience.as_str()));
        let id = claims["jti"].as_str().unwrap_or_default().to_owned();
        (is_meant && now < grant.expires).then_some((grant, id))
    }

    /// `/openid/v1/jwks`.
    pub(crate) fn keys(&self) -> Value {
        let point = self.0.key.public_key().as_ref();
        let (x, y) = point[1..].split_at(COORDINATE_BYTES);
        json!({ "keys": [{
            "use": "sig", "kty": "EC", "kid": self.0.id, "crv": "P-256", "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        }] })
    }
}

/// `/.well-known/openid-configuration`.
pub(crate) fn configuration(host: &str) -> Value {
    json!({
        "issuer": AUDIENCE,
        "jwks_uri": format!("https://{host}{KEYS_PATH}"),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    })
}

impl TokenGrant {
    pub(crate) fn new(
        (namespace, name, uid): (&str, &str, &str),
        audiences: Vec<String>,
        (now, seconds): (Timestamp, i64),
    ) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            bound: None,
            node: None,
            audiences,
            issued: now,
            // an expiry beyond the range of timestamps means never
            expires: now
                .checked_add(SignedDuration::from_secs(seconds))
                .unwrap_or(Timestamp::MAX),
        }
    }

    /// The identity of a holder of the token with this id.
    pub(crate) fn identity(&self, id: &str) -> Identity {
        let mut identity = Identity {
            uid: self.uid.clone(),
            ..Identity::service_account(&self.namespace, &self.name)
        };
        let mut put = |key: &str, value: &str| {
            let key = format!("authentication.kubernetes.io/{key}");
            identity.extra.insert(key, vec![value.to_owned()]);
        };
        put("credential-id", &format!("JTI={id}"));
        if let Some(bound) = self.bound.as_ref().filter(|bound| bound.kind != "secret") {
            put(&format!("{}-name", bound.kind), &bound.name);
            put(&format!("{}-uid", bound.kind), &bound.uid);
        }
        if let Some((node, uid)) = &self.node {
            put("node-name", node);
            if let Some(uid) = uid {
                put("node-uid", uid);
            }
        }
        identity
    }

    fn claims(&self) -> Value {
        let mut own = json!({
            "namespace": self.namespace,
            "serviceaccount": { "name": self.name, "uid": self.uid },
        });
        if let Some(Bound { kind, name, uid }) = &self.bound {
            own[kind] = json!({ "name": name, "uid": uid });
        }
        if let Some((name, uid)) = &self.node {
            own["node"] = json!({ "name": name });
            if let Some(uid) = uid {
                own["node"]["uid"] = json!(uid);
            }
        }
        json!({
            "aud": self.audiences,
            "exp": self.expires.as_second(),
            "iat": self.issued.as_second(),
            "nbf": self.issued.as_second(),
            "iss": AUDIENCE,
            "jti": uuid::Uuid::new_v4().to_string(),
            "sub": format!("system:serviceaccount:{}:{}", self.namespace, self.name),
            "kubernetes.io": own,
        })
    }

    fn from_claims(claims: &Value) -> Option<Self> {
        let own = &claims["kubernetes.io"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let time = |name: &str| Timestamp::from_second(claims[name].as_i64()?).ok();
        let bound = |kind: &str| {
            let (name, uid) = (text(&own[kind]["name"])?, text(&own[kind]["uid"])?);
            let kind = kind.to_owned();
            Some(Bound { kind, name, uid })
        };
        let node = text(&own["node"]["name"]).map(|name| (name, text(&own["node"]["uid"])));
        let is_of_pod = !own["pod"].is_null();
        Some(Self {
            namespace: text(&own["namespace"])?,
            name: text(&own["serviceaccount"]["name"])?,
            uid: text(&own["serviceaccount"]["uid"])?,
            bound: bound("pod").or_else(|| bound("secret")).or_else(|| bound("node")),
            node: node.filter(|_| is_of_pod),
            audiences: claims["aud"]
                .as_array()?
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            issued: time("iat")?,
            expires: time("exp")?,
        })
    }
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(audience: &str, seconds: i64) -> TokenGrant {
        let now = Timestamp::UNIX_EPOCH;
        TokenGrant::new(("n", "a", "1"), vec![audience.to_owned()], (now, seconds))
    }

    #[test]
    fn a_token_is_good_for_its_audience_until_it_expires() {
        let issued = IssuedTokens::new().unwrap();
        let (own, other) = (
            issued.issue(&grant(AUDIENCE, 600)).unwrap(),
            issued.issue(&grant("elsewhere", 600)).unwrap(),
        );
        let check = |token: &str, after: i64, expected: Option<&str>| {
            let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(after);
            let found = issued.find(token, &[AUDIENCE], now);
            let name = found.map(|(grant, id)| grant.identity(&id).name);
            assert_eq!(name.as_deref(), expected);
        };
        let who = Some("system:serviceaccount:n:a");
        check(own.expose(), 599, who);
        check(own.expose(), 600, None);
        check(other.expose(), 0, None);
        check("", 0, None);
        let (signed, signature) = own.expose().rsplit_once('.').unwrap();
        let (header, _) = signed.split_once('.').unwrap();
        let (_, claims) = other.expose().split_once('.').unwrap();
        let (claims, _) = claims.split_once('.').unwrap();
        check(&format!("{header}.{claims}.{signature}"), 0, None);
        let foreign = IssuedTokens::new().unwrap();
        check(foreign.issue(&grant(AUDIENCE, 600)).unwrap().expose(), 0, None);
        assert_eq!(format!("{issued:?}"), "IssuedTokens(***)");
    }

    #[test]
    fn claims_are_read_as_they_were_written() {
        let bound = |kind: &str| {
            let (kind, name, uid) = (kind.to_owned(), "b".to_owned(), "2".to_owned());
            Some(Bound { kind, name, uid })
        };
        let node = Some(("node".to_owned(), None));
        for (bound, node) in [
            (None, None),
            (bound("secret"), None),
            (bound("pod"), node),
            (bound("node"), None),
        ] {
            let grant = TokenGrant {
                bound,
                node,
                ..grant(AUDIENCE, 600)
            };
            assert_eq!(TokenGrant::from_claims(&grant.claims()), Some(grant));
        }
    }
}
