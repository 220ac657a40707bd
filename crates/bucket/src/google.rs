//! The JSON API of Google Cloud Storage: requests as a service account, and its answers.
//!
//! The account signs an assertion (RFC 7523), which the token service exchanges for a token: Google's document
//! "Using OAuth 2.0 for Server to Server Applications". Flux's client is `internal/bucket/gcp` of
//! source-controller 1.9.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use reqwest::Url;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::answer::{Object, Page};
use crate::certificate::signed;
use crate::error::{Problem, Reason};

/// Objects are only read.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_only";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The longest that the token service accepts.
const ASSERTION_SECONDS: i64 = 3600;
const SERVICE_ACCOUNT: &str = "service_account";

/// The key of a service account. `Debug` shows no secret.
#[derive(Clone)]
pub struct ServiceAccount {
    email: String,
    key_id: Option<String>,
    key: Arc<RsaKeyPair>,
    token_url: Url,
    /// Of its text.
    hash: [u8; 32],
}

/// The text is no key of a service account. The message has nothing of a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceAccountError {
    /// It is not the JSON of a key.
    #[error("it is not the JSON of a service account's key")]
    Json,
    /// It is another kind of credentials.
    #[error("its type {0:?} is not supported; use the key of a service_account")]
    Type(String),
    /// A field is missing.
    #[error("it has no {0}")]
    Missing(&'static str),
    /// The private key cannot be used.
    #[error("its private_key is not an RSA key in PEM of 2048 bits or more")]
    Key,
    /// The token service cannot be asked.
    #[error("its token_uri is not an http or https URL")]
    TokenUri,
}

#[derive(Deserialize)]
struct Text {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    client_email: String,
    #[serde(default)]
    private_key: String,
    private_key_id: Option<String>,
    #[serde(default = "token_uri")]
    token_uri: String,
}

fn token_uri() -> String {
    "https://oauth2.googleapis.com/token".to_owned()
}

impl ServiceAccount {
    /// Reads the JSON file of a key, as the console of Google makes it.
    ///
    /// # Errors
    /// It is not one.
    pub fn parse(json: &[u8]) -> Result<Self, ServiceAccountError> {
        // an error of the parser may quote the key
        let text: Text = serde_json::from_slice(json).map_err(|_| ServiceAccountError::Json)?;
        if text.kind != SERVICE_ACCOUNT {
            return Err(ServiceAccountError::Type(text.kind.chars().take(40).collect()));
        }
        if text.client_email.is_empty() {
            return Err(ServiceAccountError::Missing("client_email"));
        }
        if text.private_key.is_empty() {
            return Err(ServiceAccountError::Missing("private_key"));
        }
        let der = PrivateKeyDer::from_pem_slice(text.private_key.as_bytes());
        let key = match der.map_err(|_| ServiceAccountError::Key)? {
            PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            _ => return Err(ServiceAccountError::Key),
        };
        let url = Url::parse(&text.token_uri).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        Ok(Self {
            email: text.client_email,
            key_id: text.private_key_id.filter(|id| !id.is_empty()),
            key: Arc::new(key.map_err(|_| ServiceAccountError::Key)?),
            token_url: url.ok_or(ServiceAccountError::TokenUri)?,
            hash: Sha256::digest(json).into(),
        })
    }

    pub(crate) fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    pub(crate) fn token_url(&self) -> &Url {
        &self.token_url
    }

    /// The form that asks for a token. `None` if the key cannot sign.
    pub(crate) fn form(&self, now: Timestamp) -> Option<Vec<(&'static str, String)>> {
        let mut header = json!({ "alg": "RS256", "typ": "JWT" });
        if let Some(id) = &self.key_id {
            header["kid"] = id.as_str().into();
        }
        let begin = now.as_second();
        let claims = json!({
            "iss": self.email, "scope": SCOPE, "aud": self.token_url.as_str(),
            "iat": begin, "exp": begin + ASSERTION_SECONDS,
        });
        let assertion = signed(
            &self.key,
            &RSA_PKCS1_SHA256,
            header.to_string().as_bytes(),
            claims.to_string().as_bytes(),
        )?;
        Some(vec![("grant_type", GRANT.to_owned()), ("assertion", assertion)])
    }
}

impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccount")
            .field("email", &self.email)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct List {
    items: Vec<Entry>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    #[serde(default)]
    etag: String,
    /// A number in a text.
    #[serde(default)]
    size: String,
}

/// The fields of a page that are read.
pub(crate) const LIST_FIELDS: &str = "items(etag,name,size),nextPageToken";

pub(crate) fn page(json: &[u8]) -> Result<Page, Problem> {
    let malformed = |error| Problem::new(Reason::Malformed, "its list is malformed").because(error);
    let list: List = serde_json::from_slice(json).map_err(malformed)?;
    let objects = list.items.into_iter().map(|entry| {
        let size = entry.size.parse();
        let size = size.map_err(|_| Problem::new(Reason::Malformed, "the size of an object is malformed"))?;
        Ok(Object {
            key: entry.name,
            etag: entry.etag,
            size,
        })
    });
    Ok(Page {
        objects: objects.collect::<Result<_, Problem>>()?,
        next: list.next_page_token.filter(|token| !token.is_empty()),
    })
}

/// An object before its content is fetched.
#[derive(Debug, Deserialize)]
pub(crate) struct Head {
    pub(crate) etag: String,
    /// A number in a text.
    pub(crate) generation: String,
}

/// The fields of an object that are read.
pub(crate) const HEAD_FIELDS: &str = "etag,generation";

pub(crate) fn head(json: &[u8]) -> Result<Head, Problem> {
    let malformed = |text: &str| Problem::new(Reason::Malformed, text.to_owned());
    let head: Head = serde_json::from_slice(json).map_err(|_| malformed("its metadata is malformed"))?;
    match head.generation.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(head),
        false => Err(malformed("its generation is not a number")),
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Refusal {
    error: RefusalError,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RefusalError {
    message: String,
}

/// The words of a store that refuses.
pub(crate) fn told(json: &[u8]) -> String {
    // the status decides, whatever its body
    let refusal: Refusal = serde_json::from_slice(json).unwrap_or_default();
    refusal.error.message
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use equate_testkit::bucket::SERVICE_ACCOUNT_KEY;

    use super::*;

    /// The example of RFC 7515, appendix A.2; its key as PKCS #8.
    #[test]
    fn the_signature_is_that_of_the_rfc() {
        let PrivateKeyDer::Pkcs8(der) =
            PrivateKeyDer::from_pem_slice(SERVICE_ACCOUNT_KEY.as_bytes()).unwrap()
        else {
            panic!("the key is PKCS #8");
        };
        let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap();
        let payload = "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}";
        assert_eq!(
            signed(
                &key,
                &RSA_PKCS1_SHA256,
                b"{\"alg\":\"RS256\"}",
                payload.as_bytes()
            )
            .unwrap(),
            include_str!("../tests/rfc7515-a2.jws").trim()
        );
    }

    #[test]
    fn an_assertion_names_the_account_and_the_service() {
        let account = json!({
            "type": "service_account", "client_email": "reader@project.example", "private_key_id": "k1",
            "private_key": SERVICE_ACCOUNT_KEY,
        });
        let account = ServiceAccount::parse(account.to_string().as_bytes()).unwrap();
        assert_eq!(
            account.token_url().as_str(),
            "https://oauth2.googleapis.com/token"
        );
        let form = account.form("2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
        let [("grant_type", grant), ("assertion", assertion)] = &form[..] else {
            panic!("{form:?}");
        };
        assert_eq!(grant, "urn:ietf:params:oauth:grant-type:jwt-bearer");
        let parts: Vec<&str> = assertion.split('.').collect();
        let part = |at: usize| -> serde_json::Value {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[at]).unwrap()).unwrap()
        };
        assert_eq!(part(0), json!({ "alg": "RS256", "typ": "JWT", "kid": "k1" }));
        assert_eq!(
            part(1),
            json!({
                "iss": "reader@project.example",
                "scope": "https://www.googleapis.com/auth/devstorage.read_only",
                "aud": "https://oauth2.googleapis.com/token",
                "iat": 1_767_225_600, "exp": 1_767_229_200,
            })
        );
        let shown = format!("{account:?}");
        assert!(
            shown.contains("reader@project.example") && shown.len() < 100,
            "{shown}"
        );
    }

    #[test]
    fn texts_that_are_no_key_are_refused() {
        let check = |text: serde_json::Value, expected: &str| {
            let error = ServiceAccount::parse(text.to_string().as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        let with = |field: &str, value: &str| {
            let mut text = json!({
                "type": "service_account", "client_email": "a@b", "private_key": SERVICE_ACCOUNT_KEY,
            });
            text[field] = value.into();
            text
        };
        check(json!("secret"), "it is not the JSON of a service account's key");
        check(
            with("type", "external_account"),
            "its type \"external_account\" is not supported; use the key of a service_account",
        );
        check(with("client_email", ""), "it has no client_email");
        check(with("private_key", ""), "it has no private_key");
        check(
            with(
                "private_key",
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            ),
            "its private_key is not an RSA key in PEM of 2048 bits or more",
        );
        check(
            with("token_uri", "file:///x"),
            "its token_uri is not an http or https URL",
        );
    }

    #[test]
    fn a_list_has_names_etags_and_the_next_page() {
        let list = json!({
            "kind": "storage#objects", "nextPageToken": "t",
            "items": [{ "name": "a/b.yaml", "etag": "CKih16GjycICEAE=", "size": "12" }],
        });
        let object = Object {
            key: "a/b.yaml".to_owned(),
            etag: "CKih16GjycICEAE=".to_owned(),
            size: 12,
        };
        let expected = Page {
            objects: vec![object],
            next: Some("t".to_owned()),
        };
        assert_eq!(page(list.to_string().as_bytes()).unwrap(), expected);
        assert_eq!(page(b"{}").unwrap().objects, []);
        assert!(page(b"<html>").is_err());
        assert!(head(b"{\"etag\":\"e\",\"generation\":\"1&x\"}").is_err());
        assert_eq!(
            told(b"{\"error\":{\"code\":403,\"message\":\"no access\"}}"),
            "no access"
        );
        assert_eq!(told(b"<html>"), "");
    }
}
