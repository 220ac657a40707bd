//! One attempt to fetch an archive over HTTP, and what can go wrong with it.
//!
//! What arrives is a stranger's: it goes to disk while it is hashed, within limits, and is unpacked only if
//! the digest is right. A redirect is followed on the same host alone: the address is a promise of the
//! source's status, and nobody else's. Sentences begin as Flux's do.

use std::time::Duration;

use bytes::Bytes;
use equate_source::{Cache, CacheError, Digest, ReceiveError, Receiving, Tree};
use reqwest::{StatusCode, Url, header, redirect};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::kit::read::chain;

/// A host that does not answer a connection in this time is away.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// So long nothing may arrive.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// So long one attempt may take, however slowly its bytes come.
const ATTEMPT_MAX: Duration = Duration::from_secs(600);
/// Redirects on one host.
const REDIRECTS_MAX: usize = 5;
/// What was received and is not written yet.
const CHUNKS_MAX: usize = 8;

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DownloadError {
    /// The address is none that can be asked.
    #[error("failed to download archive: {url:?} is no http or https URL")]
    Address { url: String },
    /// No answer, or not a whole one.
    #[error("failed to download archive: GET {url}")]
    Unreachable {
        url: String,
        #[source]
        source: reqwest::Error,
    },
    /// It takes too long.
    #[error("failed to download archive: GET {url} did not end within {}s", ATTEMPT_MAX.as_secs())]
    Late { url: String },
    /// There is no such archive any more.
    #[error("Source is not ready, artifact not found: {url} does not have it (any more)")]
    NotFound { url: String },
    /// Another answer.
    #[error("failed to download archive from {url} (status: {status})")]
    Status {
        url: String,
        status: StatusCode,
        after: Option<Duration>,
    },
    /// It leads elsewhere.
    #[error("failed to download archive from {url}: it redirects to {to}, and only the same host is trusted")]
    Redirected { url: String, to: String },
    /// What came is not what was promised.
    #[error("failed to verify archive: {0}")]
    Digest(#[source] ReceiveError),
    /// It cannot be taken.
    #[error("failed to download archive from {url}")]
    Refused {
        url: String,
        #[source]
        source: ReceiveError,
    },
    /// Nobody works on it any more.
    #[error("failed to download archive: the work broke off")]
    BrokeOff,
}

impl DownloadError {
    /// Whether another attempt may well succeed.
    pub(crate) fn passes(&self) -> bool {
        match self {
            DownloadError::Unreachable { .. } | DownloadError::Late { .. } => true,
            DownloadError::Status { status, .. } => {
                // as Flux's: what a server cannot do at all it cannot do later, either
                *status == StatusCode::TOO_MANY_REQUESTS
                    || (status.is_server_error() && *status != StatusCode::NOT_IMPLEMENTED)
            }
            DownloadError::Address { .. }
            | DownloadError::NotFound { .. }
            | DownloadError::Redirected { .. }
            | DownloadError::Digest(_)
            | DownloadError::Refused { .. }
            | DownloadError::BrokeOff => false,
        }
    }

    /// What the server asks to wait.
    pub(crate) fn after(&self) -> Option<Duration> {
        match self {
            DownloadError::Status { after, .. } => *after,
            _ => None,
        }
    }

    /// Whether the source is about to publish another.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, DownloadError::NotFound { .. })
    }

    /// The whole of it, and what to do.
    pub(crate) fn said(&self) -> String {
        let hint = match self {
            DownloadError::Unreachable { .. } | DownloadError::Late { .. } => {
                "check that the source's controller runs and can be reached from here"
            }
            DownloadError::NotFound { .. } => {
                "its source publishes a newer one when it is reconciled: annotate the source with \
                 reconcile.fluxcd.io/requestedAt"
            }
            DownloadError::Digest(_) => {
                "the archive is not what the source's status promises, and was not read; reconcile the source"
            }
            DownloadError::Address { .. } | DownloadError::Redirected { .. } => {
                "check status.artifact.url of the source"
            }
            DownloadError::Refused {
                source: ReceiveError::Limit(_) | ReceiveError::Archive(_),
                ..
            } => "leave files out of the artifact, or repair what makes it",
            DownloadError::Refused { .. } => "look at the disk of the storage path",
            DownloadError::Status { .. } | DownloadError::BrokeOff => return chain(self),
        };
        format!("{}; {hint}", chain(self))
    }
}

/// Asks servers of artifacts.
#[derive(Debug, Clone)]
pub(crate) struct Http(reqwest::Client);

impl Http {
    pub(crate) fn new() -> Result<Http, reqwest::Error> {
        // reqwest panics in a process that chose none. Where one is chosen, this changes nothing.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            rustls::crypto::ring::default_provider().install_default().ok();
        }
        let same_host = redirect::Policy::custom(|attempt| {
            let origin = |url: &Url| {
                let port = url.port_or_known_default();
                (url.scheme().to_owned(), url.host_str().map(str::to_owned), port)
            };
            let first = attempt.previous().first().map(origin);
            let stays = first.is_some_and(|first| first == origin(attempt.url()));
            match stays && attempt.previous().len() <= REDIRECTS_MAX {
                true => attempt.follow(),
                false => attempt.stop(),
            }
        });
        let client = reqwest::Client::builder()
            .redirect(same_host)
            .connect_timeout(CONNECT_MAX)
            .read_timeout(SILENCE_MAX)
            .user_agent(concat!("equate/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Http(client))
    }

    /// Fetches an archive into the cache, checks it, unpacks it.
    pub(crate) async fn fetch(
        &self,
        url: &str,
        digest: &Digest,
        cache: &Cache,
    ) -> Result<Receiving, DownloadError> {
        let address = address(url)?;
        let shown = shown(&address);
        let late = || DownloadError::Late { url: shown.clone() };
        let fetched = timeout(ATTEMPT_MAX, self.take(address, &shown, digest, cache)).await;
        fetched.map_err(|_| late())?
    }

    async fn take(
        &self,
        address: Url,
        shown: &str,
        digest: &Digest,
        cache: &Cache,
    ) -> Result<Receiving, DownloadError> {
        let url = || shown.to_owned();
        let unreachable = |source: reqwest::Error| DownloadError::Unreachable {
            url: url(),
            source: source.without_url(),
        };
        let mut response = self.0.get(address).send().await.map_err(unreachable)?;
        let status = response.status();
        let named = |name| response.headers().get(name)?.to_str().ok();
        match status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Err(DownloadError::NotFound { url: url() }),
            status if status.is_redirection() => {
                let to: String = named(header::LOCATION)
                    .unwrap_or("nowhere")
                    .chars()
                    .take(200)
                    .collect();
                return Err(DownloadError::Redirected { url: url(), to });
            }
            status => {
                let seconds = named(header::RETRY_AFTER).and_then(|text| text.parse().ok());
                let after = seconds.map(Duration::from_secs);
                return Err(DownloadError::Status {
                    url: url(),
                    status,
                    after,
                });
            }
        }
        let (send, chunks) = mpsc::channel(CHUNKS_MAX);
        let (own, wanted) = (cache.clone(), digest.clone());
        let taking = spawn_blocking(move || written(&own, &wanted, chunks));
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    // who does not take it says why below
                    if send.send(chunk).await.is_err() {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => return Err(unreachable(error)),
            }
        }
        drop(send);
        let received = taking.await.map_err(|_| DownloadError::BrokeOff)?;
        received.map_err(|source| refused(shown, source))
    }
}

/// Checks and unpacks what arrived; it holds a processor.
pub(crate) fn finished(url: &str, received: Receiving) -> Result<Tree, DownloadError> {
    received.finish().map_err(|source| {
        let shown = Url::parse(url).map_or_else(|_| url.to_owned(), |url| shown(&url));
        refused(&shown, source)
    })
}

fn refused(shown: &str, source: ReceiveError) -> DownloadError {
    match source {
        ReceiveError::Digest(_) => DownloadError::Digest(source),
        source => DownloadError::Refused {
            url: shown.to_owned(),
            source,
        },
    }
}

/// Writes what arrives, until nobody sends any more.
fn written(
    cache: &Cache,
    digest: &Digest,
    mut chunks: mpsc::Receiver<Bytes>,
) -> Result<Receiving, ReceiveError> {
    let mut receiving = cache
        .receive(digest)
        .map_err(|error: CacheError| ReceiveError::Disk(error))?;
    while let Some(chunk) = chunks.blocking_recv() {
        receiving.write(&chunk)?;
    }
    Ok(receiving)
}

fn address(url: &str) -> Result<Url, DownloadError> {
    let parsed = Url::parse(url).ok();
    let parsed = parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    parsed.ok_or_else(|| DownloadError::Address {
        url: url.chars().take(200).collect(),
    })
}

/// An address as it may be shown: without the password it may have.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // both can be set for what has a host
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}
