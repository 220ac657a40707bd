//! Calls of webhooks: https on loopback, with a deadline and a limit.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::uri::PathAndQuery;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// An answer is an object's patch, or the objects of a review, so not much larger than an object.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Clients are kept for so many configurations; then all are made again.
const CLIENTS_MAX: usize = 64;

/// The clients of webhooks, by URL and certificate authority.
#[derive(Default)]
pub(crate) struct Webhooks(Mutex<HashMap<(String, String), kube::Client>>);

/// Whether the host of a URL is this machine.
pub(crate) fn is_local(url: &str) -> bool {
    let Ok(url) = url.parse::<Uri>() else { return false };
    let host = url.host().unwrap_or_default();
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl Webhooks {
    /// Posts a review to a webhook with the given certificate authorities, if any, and returns its answer.
    pub(crate) async fn post(
        &self,
        url: &str,
        bundle: &str,
        seconds: i64,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, String> {
        let separator = if url.contains('?') { '&' } else { '?' };
        let timed = format!("{url}{separator}timeout={seconds}s");
        let failed = |why: String| format!("Post {timed:?}: {why}");
        let client = self.client(url, bundle).map_err(&failed)?;
        let deadline = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let answered = tokio::time::timeout(deadline, send(&client, &timed, body)).await;
        match answered {
            Ok(answer) => answer.map_err(|error| match error {
                SendError::Refused(why) => why,
                SendError::Failed(why) => failed(why),
            }),
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

enum SendError {
    /// The webhook answered with another status than success; client-go's text, without the URL.
    Refused(String),
    Failed(String),
}

async fn send(client: &kube::Client, url: &str, body: Vec<u8>) -> Result<Vec<u8>, SendError> {
    let url = parsed(url).map_err(SendError::Failed)?;
    let path = url.path_and_query().map_or("/", PathAndQuery::as_str);
    let request = Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .body(Body::from(body))
        .map_err(|error| SendError::Failed(error.to_string()))?;
    let response = client.send(request).await;
    let response = response.map_err(|error| SendError::Failed(chain(&error)))?;
    let status = response.status();
    let is_text = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.to_str().unwrap_or_default();
        kind.starts_with("text/")
    });
    let bytes = Limited::new(response.into_body(), ANSWER_BYTES_MAX)
        .collect()
        .await;
    let bytes = bytes.map_err(|error| SendError::Failed(format!("the answer: {error}")))?;
    let bytes = bytes.to_bytes();
    if status.is_success() {
        return Ok(bytes.to_vec());
    }
    let said = match is_text {
        true => String::from_utf8_lossy(&bytes).trim().to_owned(),
        false => "unknown".to_owned(),
    };
    Err(SendError::Refused(refused(status, &said)))
}

/// As client-go's `NewGenericServerResponse`.
fn refused(status: StatusCode, said: &str) -> String {
    match status.as_u16() {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => said.to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing \
                the request"
                .to_owned()
        }
        500.. => format!("an error on the server ({said:?}) has prevented the request from succeeding"),
        _ => format!(
            "the server responded with the status code {} but did not return more information",
            status.as_u16()
        ),
    }
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
