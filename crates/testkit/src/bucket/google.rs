//! The JSON API of Google Cloud Storage, and the token service of service accounts. Signatures of assertions are
//! verified.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::request::Parts;
use http::{Method, StatusCode};
use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use super::{BucketFault, Shared, decode, etag, query};

const EMAIL: &str = "reader@project.example";
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_only";

/// The key of the example in RFC 7515, appendix A.2, as PKCS #8.
pub const SERVICE_ACCOUNT_KEY: &str = include_str!("rfc7515-a2.pem");

/// The JSON file of the account's key.
pub(super) fn service_account(port: u16) -> String {
    json!({
        "type": "service_account", "project_id": "project", "private_key_id": "k1",
        "private_key": SERVICE_ACCOUNT_KEY, "client_email": EMAIL,
        "token_uri": format!("http://localhost:{port}/token"),
    })
    .to_string()
}

fn answer(status: StatusCode, json: &Value) -> Response {
    let response = Response::builder()
        .status(status)
        .header("content-type", "application/json");
    response.body(Body::from(json.to_string())).unwrap_or_default()
}

fn refusal(status: StatusCode, message: &str) -> Response {
    let error = json!({ "error": { "code": status.as_u16(), "message": message } });
    answer(status, &error)
}

pub(super) fn route(shared: &Shared, parts: &Parts, body: &Bytes) -> Response {
    if parts.uri.path() == "/token" && parts.method == Method::POST {
        return match check_form(parts, &String::from_utf8_lossy(body)) {
            Ok(()) => answer(StatusCode::OK, &shared.new_token()),
            Err(why) => answer(
                StatusCode::BAD_REQUEST,
                &json!({ "error": "invalid_grant", "error_description": why }),
            ),
        };
    }
    if !shared.accepts_token(parts) {
        return refusal(StatusCode::UNAUTHORIZED, "Invalid Credentials");
    }
    let query = query(parts);
    let path: Vec<String> = parts.uri.path().split('/').skip(1).map(decode).collect();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path[..] {
        ["storage", "v1", "b", bucket, ..] if bucket != shared.options.bucket => {
            refusal(StatusCode::NOT_FOUND, "The specified bucket does not exist.")
        }
        ["storage", "v1", "b", bucket] => answer(StatusCode::OK, &json!({ "name": bucket })),
        ["storage", "v1", "b", _, "o"] => list(shared, &query),
        ["storage", "v1", "b", _, "o", key] => object(shared, key, &query),
        _ => refusal(StatusCode::NOT_FOUND, "Not Found"),
    }
}

/// Whether the form asks for a token with a valid assertion.
fn check_form(parts: &Parts, form: &str) -> Result<(), &'static str> {
    let pairs = form.split('&').filter_map(|pair| pair.split_once('='));
    let fields: BTreeMap<String, String> = pairs.map(|(name, value)| (decode(name), decode(value))).collect();
    if fields.get("grant_type").map(String::as_str) != Some("urn:ietf:params:oauth:grant-type:jwt-bearer") {
        return Err("unsupported grant_type");
    }
    let assertion = fields.get("assertion").map_or("", String::as_str);
    let (text, signature) = assertion.rsplit_once('.').ok_or("no JWT")?;
    let (header, claims) = text.split_once('.').ok_or("no JWT")?;
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| "not in base64url");
    let json = |text: &str| serde_json::from_slice::<Value>(&bytes(text)?).map_err(|_| "no JSON in the JWT");
    let Ok(PrivateKeyDer::Pkcs8(der)) = PrivateKeyDer::from_pem_slice(SERVICE_ACCOUNT_KEY.as_bytes()) else {
        return Err("the server has no key");
    };
    let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|_| "the server has no key")?;
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key().as_ref());
    let verified = key.verify(text.as_bytes(), &bytes(signature)?);
    verified.map_err(|_| "Invalid JWT Signature.")?;
    if json(header)? != json!({ "alg": "RS256", "typ": "JWT", "kid": "k1" }) {
        return Err("wrong header");
    }
    let claims = json(claims)?;
    let host = parts.headers.get("host").and_then(|host| host.to_str().ok());
    let host = host.unwrap_or_default();
    let time = |name: &str| claims[name].as_i64().unwrap_or_default();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = i64::try_from(now.map_or(0, |now| now.as_secs())).unwrap_or_default();
    let is_right = claims["iss"] == EMAIL
        && claims["scope"] == SCOPE
        && claims["aud"] == format!("http://{host}/token")
        && (now - 60..=now + 60).contains(&time("iat"))
        && time("exp") - time("iat") <= 3600
        && time("exp") > now;
    is_right.then_some(()).ok_or("Invalid JWT claims.")
}

fn generation(bytes: &[u8]) -> String {
    let digits = u64::from_str_radix(&etag(bytes)[..12], 16);
    digits.unwrap_or_default().to_string()
}

/// As Google's, it has characters of base64, and is no hash.
fn version(bytes: &[u8]) -> String {
    format!("C{}EAE=", &etag(bytes)[..10])
}

fn list(shared: &Shared, query: &BTreeMap<String, String>) -> Response {
    let mut state = shared.state();
    if let Some(BucketFault::List(text)) = state.fault(|fault| matches!(fault, BucketFault::List(_))) {
        return Response::new(Body::from(text));
    }
    let value = |name: &str| query.get(name).map_or("", String::as_str);
    let last = value("pageToken").strip_prefix("after:").unwrap_or_default();
    let asked: usize = value("maxResults").parse().unwrap_or(usize::MAX);
    let matching = state.objects.iter();
    let matching = matching.filter(|(key, _)| key.starts_with(value("prefix")) && key.as_str() > last);
    let rest: Vec<_> = matching.collect();
    let page = &rest[..rest.len().min(asked).min(shared.options.page)];
    let items = page
        .iter()
        .map(|(key, bytes)| json!({ "name": key, "etag": version(bytes), "size": bytes.len().to_string() }));
    let mut found = json!({});
    if !page.is_empty() {
        found["items"] = items.collect();
    }
    if page.len() < rest.len() {
        found["nextPageToken"] = format!("after:{}", page.last().map_or("", |(key, _)| key)).into();
    }
    answer(StatusCode::OK, &found)
}

fn object(shared: &Shared, key: &str, query: &BTreeMap<String, String>) -> Response {
    let state = shared.state();
    let Some(bytes) = state.objects.get(key) else {
        return refusal(StatusCode::NOT_FOUND, "No such object");
    };
    if query.get("alt").map(String::as_str) != Some("media") {
        let head = json!({ "etag": version(bytes), "generation": generation(bytes) });
        return answer(StatusCode::OK, &head);
    }
    match query.get("ifGenerationMatch") {
        Some(wanted) if *wanted != generation(bytes) => {
            refusal(StatusCode::PRECONDITION_FAILED, "Precondition Failed")
        }
        // the etag of the content is not that of a list
        _ => {
            let response = Response::builder().header("etag", "\"of-the-content\"");
            response.body(Body::from(bytes.clone())).unwrap_or_default()
        }
    }
}
