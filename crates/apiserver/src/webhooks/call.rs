//! Calls of webhooks: https on loopback, with a deadline and a limit.

use crate::builtin::tree::{int, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::uri::PathAndQuery;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// An answer is an object's patch, so not much larger than an object.
const ANSWER_BYTES_MAX: usize = 8 << 20;
const SECONDS: i64 = 10;
/// Clients are kept for so many configurations; then all are made again.
const CLIENTS_MAX: usize = 64;

/// The clients of webhooks, by URL and certificate authority.
#[derive(Default)]
pub(crate) struct Webhooks(Mutex<HashMap<(String, String), kube::Client>>);

/// Whether the host of a URL is this machine.
pub(super) fn is_local(url: &str) -> bool {
    let Ok(url) = url.parse::<Uri>() else { return false };
    let host = url.host().unwrap_or_default();
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl Webhooks {
    pub(super) async fn post(&self, webhook: &Value, body: Vec<u8>) -> Result<Vec<u8>, String> {
        let url = text(webhook, "clientConfig.url");
        let failed = |why: String| format!("failed to call webhook: Post {url:?}: {why}");
        let client = self
            .client(url, text(webhook, "clientConfig.caBundle"))
            .map_err(&failed)?;
        let seconds = int(webhook, "timeoutSeconds").unwrap_or(SECONDS);
        let deadline = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let answered = tokio::time::timeout(deadline, send(&client, url, seconds, body)).await;
        match answered {
            Ok(answer) => answer.map_err(failed),
            Err(_) => Err(failed("context deadline exceeded".to_owned())),
        }
    }

    fn client(&self, url: &str, bundle: &str) -> Result<kube::Client, String> {
        let key = (url.to_owned(), bundle.to_owned());
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let mut parts = parsed(url)?.into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static("/"));
        let server = Uri::from_parts(parts).map_err(|error| format!("the URL: {error}"))?;
        let mut config = kube::Config::new(server);
        config.default_retry = false;
        if !bundle.is_empty() {
            let bundle = STANDARD
                .decode(bundle)
                .map_err(|error| format!("caBundle: {error}"))?;
            let certificates = CertificateDer::pem_slice_iter(&bundle)
                .map(|certificate| certificate.map(|one| one.to_vec()))
                .collect::<Result<Vec<_>, _>>();
            config.root_cert = Some(certificates.map_err(|error| format!("caBundle: {error}"))?);
        }
        let client = kube::Client::try_from(config).map_err(|error| error.to_string())?;
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients.insert(key, client.clone());
        Ok(client)
    }
}

fn parsed(url: &str) -> Result<Uri, String> {
    url.parse().map_err(|error| format!("the URL: {error}"))
}

async fn send(client: &kube::Client, url: &str, seconds: i64, body: Vec<u8>) -> Result<Vec<u8>, String> {
    let url = parsed(url)?;
    let separator = if url.query().is_some() { '&' } else { '?' };
    let path = url.path_and_query().map_or("/", PathAndQuery::as_str);
    let request = Request::post(format!("{path}{separator}timeout={seconds}s"))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .body(Body::from(body))
        .map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| chain(&error))?;
    let status = response.status();
    if !status.is_success() {
        return Err(format!("the server answers {status}"));
    }
    let bytes = Limited::new(response.into_body(), ANSWER_BYTES_MAX)
        .collect()
        .await;
    let bytes = bytes.map_err(|error| format!("the answer: {error}"))?;
    Ok(bytes.to_bytes().to_vec())
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn only_this_machine_is_local() {
        for (url, local) in [
            ("https://localhost:9443/x", true),
            ("https://127.0.0.1/x", true),
            ("https://127.9.0.1:1", true),
            ("https://[::1]:9443/x", true),
            ("https://localhost.example.com/x", false),
            ("https://127.0.0.1.example.com/x", false),
            ("https://10.0.0.1/x", false),
            ("https://user@10.0.0.1/", false),
            ("", false),
        ] {
            assert_eq!(is_local(url), local, "{url}");
        }
    }
}
