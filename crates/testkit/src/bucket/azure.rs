//! The API of Azure Blob Storage, and the token service of service principals. Shared keys are verified on the
//! request as it arrived.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::request::Parts;
use http::{Method, StatusCode};
use rcgen::{CertificateParams, KeyPair};
use ring::signature::{KeyPair as _, RSA_PSS_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::google::SERVICE_ACCOUNT_KEY;
use super::{BucketFault, Shared, decode, encode, etag, hmac, query, xml};

/// How requests must prove their account, which is `127`: the first part of the host's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AzureGuard {
    /// With the account's key, in base64.
    Key(String),
    /// With this query.
    Sas(String),
    /// With a token of the tenant, for this client and its secret, or [`client_certificate`].
    Principal(String, String, String),
}

/// The certificate of a client and its key, PEM: the same for the whole process.
pub fn client_certificate() -> &'static str {
    static PEM: LazyLock<String> = LazyLock::new(|| make_certificate().unwrap_or_default());
    &PEM
}

fn make_certificate() -> Result<String, rcgen::Error> {
    let key = KeyPair::from_pem(SERVICE_ACCOUNT_KEY)?;
    let certificate = CertificateParams::new(["client".to_owned()])?.self_signed(&key)?;
    Ok(format!("{}{SERVICE_ACCOUNT_KEY}", certificate.pem()))
}

fn refusal(status: StatusCode, code: &str) -> Response {
    let text = format!(
        "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{code}</Code><Message>no</Message></Error>"
    );
    xml(status, text)
}

pub(super) fn route(shared: &Shared, guard: &AzureGuard, parts: &Parts, body: &Bytes) -> Response {
    if let (AzureGuard::Principal(tenant, client, secret), &Method::POST) = (guard, &parts.method) {
        let fields = pairs(&String::from_utf8_lossy(body));
        let field = |name: &str| fields.get(name).map_or("", String::as_str);
        let is_right = parts.uri.path() == format!("/{tenant}/oauth2/v2.0/token")
            && field("grant_type") == "client_credentials"
            && field("client_id") == client
            && (field("client_secret") == secret || asserts(parts, &fields, client))
            && field("scope") == "https://storage.azure.com/.default";
        let (status, answer) = match is_right {
            true => (StatusCode::OK, shared.new_token()),
            false => (
                StatusCode::UNAUTHORIZED,
                json!({ "error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret." }),
            ),
        };
        let response = Response::builder().status(status);
        return response.body(Body::from(answer.to_string())).unwrap_or_default();
    }
    if parts.headers.get("x-ms-version").is_none() || parts.headers.get("x-ms-date").is_none() {
        return refusal(StatusCode::BAD_REQUEST, "MissingRequiredHeader");
    }
    if !accepts(shared, guard, parts) {
        return refusal(StatusCode::FORBIDDEN, "AuthenticationFailed");
    }
    let query = query(parts);
    let path = decode(parts.uri.path().trim_start_matches('/'));
    let (container, key) = path.split_once('/').unwrap_or((&path, ""));
    if container != shared.options.bucket {
        return refusal(StatusCode::NOT_FOUND, "ContainerNotFound");
    }
    let value = |name: &str| query.get(name).map_or("", String::as_str);
    match (key, value("restype"), value("comp")) {
        ("", "container", "list") => list(shared, &query),
        ("", _, _) => refusal(StatusCode::BAD_REQUEST, "InvalidQueryParameterValue"),
        (key, _, _) => object(shared, key),
    }
}

/// Whether a form has a valid assertion of the certificate.
fn asserts(parts: &Parts, form: &BTreeMap<String, String>, client: &str) -> bool {
    let field = |name: &str| form.get(name).map_or("", String::as_str);
    let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    let Some((text, signature)) = field("client_assertion").rsplit_once('.') else {
        return false;
    };
    let (header, claims) = text.split_once('.').unwrap_or_default();
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
    let json = |text: &str| serde_json::from_slice::<Value>(&bytes(text)).unwrap_or_default();
    let (header, claims) = (json(header), json(claims));
    let pem = client_certificate().as_bytes();
    let (Ok(certificate), Ok(PrivateKeyDer::Pkcs8(key))) = (
        CertificateDer::from_pem_slice(pem),
        PrivateKeyDer::from_pem_slice(pem),
    ) else {
        return false;
    };
    let Ok(key) = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()) else {
        return false;
    };
    let key = UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, key.public_key().as_ref());
    let host = parts.headers.get("host").and_then(|host| host.to_str().ok());
    let url = format!("http://{}{}", host.unwrap_or_default(), parts.uri.path());
    let thumbprint = URL_SAFE_NO_PAD.encode(Sha256::digest(&certificate));
    let now = jiff::Timestamp::now().as_second();
    let time = |name: &str| claims[name].as_i64().unwrap_or_default();
    field("client_assertion_type") == kind
        && key.verify(text.as_bytes(), &bytes(signature)).is_ok()
        && (&header["alg"], &header["x5t#S256"]) == (&json!("PS256"), &json!(thumbprint))
        && (&claims["iss"], &claims["sub"], &claims["aud"]) == (&json!(client), &json!(client), &json!(url))
        && (now - 60..=now + 60).contains(&time("nbf"))
        && time("exp") > now
}

fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

fn accepts(shared: &Shared, guard: &AzureGuard, parts: &Parts) -> bool {
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let raw = parts.uri.query().unwrap_or_default();
    match guard {
        AzureGuard::Principal(..) => shared.accepts_token(parts),
        AzureGuard::Sas(wanted) => {
            let given: Vec<&str> = raw.split('&').collect();
            header("authorization").is_none() && wanted.split('&').all(|pair| given.contains(&pair))
        }
        AzureGuard::Key(key) => {
            let mut text = parts.method.to_string();
            for name in [
                "content-encoding",
                "content-language",
                "content-length",
                "content-md5",
                "content-type",
                "date",
                "if-modified-since",
                "if-match",
                "if-none-match",
                "if-unmodified-since",
                "range",
            ] {
                let _ = write!(text, "\n{}", header(name).unwrap_or_default());
            }
            text.push('\n');
            let own = parts.headers.keys().map(http::HeaderName::as_str);
            let mut own: Vec<&str> = own.filter(|name| name.starts_with("x-ms-")).collect();
            own.sort_unstable();
            for name in own {
                let _ = writeln!(text, "{name}:{}", header(name).unwrap_or_default());
            }
            let _ = write!(text, "/127{}", parts.uri.path());
            for (name, value) in pairs(raw) {
                let _ = write!(text, "\n{}:{value}", name.to_ascii_lowercase());
            }
            let key = STANDARD.decode(key).unwrap_or_default();
            let signature = STANDARD.encode(hmac(&key, text.as_bytes()));
            header("authorization") == Some(&*format!("SharedKey 127:{signature}"))
        }
    }
}

fn list(shared: &Shared, query: &BTreeMap<String, String>) -> Response {
    let mut state = shared.state();
    if let Some(BucketFault::List(text)) = state.fault(|fault| matches!(fault, BucketFault::List(_))) {
        return xml(StatusCode::OK, text);
    }
    let value = |name: &str| query.get(name).map_or("", String::as_str);
    let last = decode(value("marker").strip_prefix("2!").unwrap_or_default());
    let asked: usize = value("maxresults").parse().unwrap_or(usize::MAX);
    let matching = state.objects.iter();
    let matching =
        matching.filter(|(key, _)| key.starts_with(value("prefix")) && key.as_str() > last.as_str());
    let rest: Vec<_> = matching.collect();
    let page = &rest[..rest.len().min(asked).min(shared.options.page)];
    let mut text =
        "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ContainerName=\"apps\"><Blobs>"
            .to_owned();
    for (key, bytes) in page {
        // every other name is encoded, as names that XML cannot have
        let name = match key.contains('&') {
            true => format!("<Name Encoded=\"true\">{}</Name>", encode(key, b"/")),
            false => format!("<Name>{key}</Name>"),
        };
        let (etag, size) = (version(bytes), bytes.len());
        let _ = write!(
            text,
            "<Blob>{name}<Properties><Etag>{etag}</Etag><Content-Length>{size}</Content-Length></Properties></Blob>"
        );
    }
    text.push_str("</Blobs>");
    match page.last() {
        Some((key, _)) if page.len() < rest.len() => {
            let _ = write!(text, "<NextMarker>2!{}</NextMarker>", encode(key, b""));
        }
        _ => text.push_str("<NextMarker />"),
    }
    text.push_str("</EnumerationResults>");
    xml(StatusCode::OK, text)
}

fn version(bytes: &[u8]) -> String {
    format!("0x{}", &etag(bytes)[..15].to_uppercase())
}

fn object(shared: &Shared, key: &str) -> Response {
    let state = shared.state();
    match state.objects.get(key) {
        None => refusal(StatusCode::NOT_FOUND, "BlobNotFound"),
        Some(bytes) => {
            let response = Response::builder().header("etag", format!("\"{}\"", version(bytes)));
            response.body(Body::from(bytes.clone())).unwrap_or_default()
        }
    }
}
