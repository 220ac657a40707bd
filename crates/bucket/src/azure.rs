//! The API of Azure Blob Storage: signed requests, tokens of service principals, and its answers.
//!
//! Microsoft's documents are "Authorize with Shared Key", "List Blobs" and "OAuth 2.0 client credentials flow".
//! Flux's client is `internal/bucket/azure` of source-controller 1.9.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use quick_xml::de::from_str;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use ring::hmac;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use crate::answer::{Object, Page, bare};
use crate::certificate::ClientCertificate;
use crate::error::{Problem, Reason};
use crate::tokens;

/// The version of the API.
const VERSION: &str = "2021-12-02";
const SCOPE: &str = "https://storage.azure.com/.default";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const AUTHORITY: &str = "https://login.microsoftonline.com/";

/// Credentials for Azure Blob Storage. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub enum AzureCredentials {
    /// The key of an account, in base64.
    AccountKey(SecretString),
    /// A shared access signature: a query.
    Sas(SecretString),
    /// A service principal.
    Principal(Principal),
}

/// How a service principal proves itself. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub enum Proof {
    /// With the client's secret.
    Secret(SecretString),
    /// With a certificate.
    Certificate(ClientCertificate),
}

/// A service principal of Microsoft Entra ID.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The tenant's ID.
    pub tenant: String,
    /// The client's ID.
    pub client: String,
    /// The proof that the client is meant.
    pub proof: Proof,
    /// The host of tokens; that of the public cloud if none.
    pub authority: Option<String>,
}

impl Principal {
    pub(crate) fn hash(&self) -> [u8; 32] {
        let authority = self.authority.as_deref().unwrap_or_default();
        let proof = match &self.proof {
            Proof::Secret(secret) => secret.expose_secret().as_bytes(),
            Proof::Certificate(certificate) => certificate.hash(),
        };
        let fields: [&str; 3] = [&self.tenant, &self.client, authority];
        tokens::hash(fields.map(str::as_bytes).into_iter().chain([proof]))
    }

    /// `None` if tenant or authority are no parts of a URL.
    pub(crate) fn token_url(&self) -> Option<Url> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        if self.tenant.is_empty() || !self.tenant.bytes().all(is_part) || self.tenant.starts_with('.') {
            return None;
        }
        let authority = self.authority.as_deref().filter(|host| !host.is_empty());
        let authority = authority.unwrap_or(AUTHORITY).trim_end_matches('/');
        let url = Url::parse(&format!("{authority}/{}/oauth2/v2.0/token", self.tenant)).ok()?;
        (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
    }

    /// The form that asks the service at `url` for a token. `None` if the certificate cannot sign.
    pub(crate) fn form(&self, url: &Url, now: Timestamp) -> Option<Vec<(&'static str, String)>> {
        let mut form = vec![
            ("grant_type", "client_credentials".to_owned()),
            ("client_id", self.client.clone()),
            ("scope", SCOPE.to_owned()),
        ];
        match &self.proof {
            Proof::Secret(secret) => form.push(("client_secret", secret.expose_secret().to_owned())),
            Proof::Certificate(certificate) => {
                let assertion = certificate.assertion(&self.client, url.as_str(), now)?;
                form.push(("client_assertion_type", ASSERTION.to_owned()));
                form.push(("client_assertion", assertion));
            }
        }
        Some(form)
    }
}

/// The name of the account: the first part of the host, as in Flux.
pub(crate) fn account(host: &str) -> Option<&str> {
    let mut parts = host.split('.');
    let first = parts.next()?;
    (parts.count() >= 2 && !first.is_empty()).then_some(first)
}

/// The headers of a request. With a key, they sign it. `None` if the key is not in base64, or the host names no
/// account.
pub(crate) fn headers(
    key: Option<&SecretString>,
    method: &str,
    url: &Url,
    now: Timestamp,
) -> Option<HeaderMap> {
    let time = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let mut headers = HeaderMap::new();
    headers.insert(
        HeaderName::from_static("x-ms-version"),
        HeaderValue::from_static(VERSION),
    );
    headers.insert(
        HeaderName::from_static("x-ms-date"),
        HeaderValue::from_str(&time).ok()?,
    );
    if let Some(key) = key {
        let account = account(url.host_str()?)?;
        let named = [("x-ms-date", &*time), ("x-ms-version", VERSION)];
        let text = text_to_sign(account, method, &named, url);
        let key = STANDARD.decode(key.expose_secret().trim()).ok()?;
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), text.as_bytes());
        let signature = STANDARD.encode(tag.as_ref());
        let mut value = HeaderValue::from_str(&format!("SharedKey {account}:{signature}")).ok()?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Some(headers)
}

/// The text of a request without a body. `headers` are sorted, and all that begin with `x-ms-`.
fn text_to_sign(account: &str, method: &str, headers: &[(&str, &str)], url: &Url) -> String {
    // eleven standard headers, which these requests do not have
    let mut text = format!("{method}{}", "\n".repeat(12));
    for (name, value) in headers {
        // writing to a String does not fail
        let _ = writeln!(text, "{name}:{value}");
    }
    let _ = write!(text, "/{account}{}", url.path());
    let mut query: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in url.query_pairs() {
        let values = query.entry(name.to_ascii_lowercase()).or_default();
        values.push(value.into_owned());
    }
    for (name, mut values) in query {
        values.sort();
        let _ = write!(text, "\n{name}:{}", values.join(","));
    }
    text
}

/// Adds a shared access signature to a URL.
pub(crate) fn with_sas(url: &mut Url, sas: &SecretString) {
    let sas = sas.expose_secret().trim().trim_start_matches('?');
    let query = match url.query() {
        Some(query) if !query.is_empty() => format!("{query}&{sas}"),
        _ => sas.to_owned(),
    };
    url.set_query(Some(&query));
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct List {
    #[serde(default)]
    blobs: Blobs,
    next_marker: Option<String>,
}

#[derive(Deserialize, Default)]
struct Blobs {
    #[serde(rename = "Blob", default)]
    all: Vec<Blob>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blob {
    name: Name,
    properties: Properties,
}

#[derive(Deserialize)]
struct Name {
    /// Whether the name is in percent-encoding: XML cannot have each character.
    #[serde(rename = "@Encoded", default)]
    encoded: bool,
    #[serde(rename = "$text", default)]
    text: String,
}

#[derive(Deserialize)]
struct Properties {
    #[serde(rename = "Etag", default)]
    etag: String,
    #[serde(rename = "Content-Length", default)]
    size: u64,
}

pub(crate) fn page(xml: &[u8]) -> Result<Page, Problem> {
    let malformed = || Problem::new(Reason::Malformed, "its list is malformed");
    let text = std::str::from_utf8(xml).map_err(|error| malformed().because(error))?;
    let list: List =
        from_str(text.trim_start_matches('\u{feff}')).map_err(|error| malformed().because(error))?;
    let objects = list.blobs.all.into_iter().map(|blob| {
        let key = match blob.name.encoded {
            true => percent_decode_str(&blob.name.text)
                .decode_utf8()
                .ok()?
                .into_owned(),
            false => blob.name.text,
        };
        Some(Object {
            key,
            etag: version(&blob.properties.etag),
            size: blob.properties.size,
        })
    });
    let objects: Option<Vec<Object>> = objects.collect();
    Ok(Page {
        objects: objects.ok_or_else(malformed)?,
        next: list.next_marker.filter(|marker| !marker.is_empty()),
    })
}

/// An etag as Flux's revisions have it: its bytes in hexadecimal digits.
pub(crate) fn version(etag: &str) -> String {
    bare(etag).bytes().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of "Authorize with Shared Key" for requests without a body.
    #[test]
    fn the_signed_text_is_that_of_the_documentation() {
        let check = |url: &str, time: &str, version: &str, expected: &str| {
            let headers = [("x-ms-date", time), ("x-ms-version", version)];
            let url = Url::parse(url).unwrap();
            assert_eq!(text_to_sign("myaccount", "GET", &headers, &url), expected);
        };
        check(
            "https://myaccount.blob.core.windows.net/mycontainer?restype=container&comp=metadata&timeout=20",
            "Fri, 26 Jun 2015 23:39:12 GMT",
            "2015-02-21",
            "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n\
             /myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20",
        );
        check(
            "https://myaccount.blob.core.windows.net/mycontainer\
             ?restype=container&comp=list&include=snapshots&include=metadata&include=uncommittedblobs",
            "Fri, 26 Jun 2015 23:39:12 GMT",
            "2015-02-21",
            "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n\
             /myaccount/mycontainer\ncomp:list\ninclude:metadata,snapshots,uncommittedblobs\nrestype:container",
        );
        check(
            "https://myaccount.blob.core.windows.net/mycontainer/a%20b.yaml",
            "Sun, 27 Sep 2009 18:41:57 GMT",
            "2009-09-19",
            "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Sun, 27 Sep 2009 18:41:57 GMT\nx-ms-version:2009-09-19\n\
             /myaccount/mycontainer/a%20b.yaml",
        );
    }

    #[test]
    fn a_signed_request_names_the_account_and_hides_the_signature() {
        let url = Url::parse("https://myaccount.blob.core.windows.net/c?comp=list").unwrap();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let made = headers(Some(&"a2V5".into()), "GET", &url, now).unwrap();
        assert_eq!(made["x-ms-date"], "Thu, 01 Jan 2026 00:00:00 GMT");
        let signature = made[AUTHORIZATION].to_str().unwrap();
        assert!(signature.starts_with("SharedKey myaccount:"), "{signature}");
        assert!(!format!("{made:?}").contains("SharedKey"));
        assert!(headers(Some(&"no base64".into()), "GET", &url, now).is_none());
        let local = Url::parse("http://localhost/c").unwrap();
        assert!(headers(Some(&"a2V5".into()), "GET", &local, now).is_none());
        assert!(headers(None, "GET", &local, now).is_some());
    }

    #[test]
    fn the_token_service_is_that_of_the_tenant() {
        let url = |tenant: &str, authority: Option<&str>| {
            let principal = Principal {
                tenant: tenant.to_owned(),
                client: "c".to_owned(),
                proof: Proof::Secret("hidden".into()),
                authority: authority.map(str::to_owned),
            };
            assert!(!format!("{principal:?}").contains("hidden"));
            principal.token_url().map(String::from)
        };
        let common = Some("https://login.microsoftonline.com/t-1/oauth2/v2.0/token".to_owned());
        assert_eq!(url("t-1", None), common);
        let other = Some("https://login.example/t-1/oauth2/v2.0/token".to_owned());
        assert_eq!(url("t-1", Some("https://login.example")), other);
        for (tenant, authority) in [
            ("", None),
            ("a/../b", None),
            ("..", None),
            ("t", Some("file:///x")),
        ] {
            assert_eq!(url(tenant, authority), None, "{tenant}");
        }
    }

    #[test]
    fn a_list_has_names_versions_and_the_next_page() {
        let xml = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>\
            <EnumerationResults ServiceEndpoint=\"https://a.blob.core.windows.net/\" ContainerName=\"c\">\
            <Blobs><Blob><Name>a/b &amp; c.yaml</Name><Properties><Creation-Time>x</Creation-Time>\
            <Etag>0x8D</Etag><Content-Length>12</Content-Length><Content-MD5 /></Properties><OrMetadata /></Blob>\
            <Blob><Name Encoded=\"true\">d%20%EF%BF%BE</Name><Properties><Etag>0x1</Etag></Properties></Blob>\
            </Blobs><NextMarker>2!x</NextMarker></EnumerationResults>";
        let object = |key: &str, etag: &str, size| Object {
            key: key.to_owned(),
            etag: etag.to_owned(),
            size,
        };
        let expected = Page {
            objects: vec![
                object("a/b & c.yaml", "30783844", 12),
                object("d \u{fffe}", "307831", 0),
            ],
            next: Some("2!x".to_owned()),
        };
        assert_eq!(page(xml.as_bytes()).unwrap(), expected);
        let empty = page(b"<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>").unwrap();
        assert_eq!((empty.objects.len(), empty.next), (0, None));
        assert!(page(b"<html>").is_err());
        assert_eq!(version("\"0x8D\""), "30783844");
    }
}
