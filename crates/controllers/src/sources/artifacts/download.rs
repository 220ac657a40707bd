//! One attempt to fetch an archive over HTTP, and its errors.
//!
//! The archive is untrusted: it goes to disk while it is hashed, within limits, and is unpacked only if
//! the digest matches. Redirects stay on the same host: only the source's status vouches for the
//! address. Messages begin as Flux's.

use std::time::Duration;

use bytes::Bytes;
use equate_egress::{Egress, HttpRefusal, Outcome, Refusal};
use equate_source::{Cache, CacheError, CacheKey, ReceiveError, Receiving, Tree};
use reqwest::{StatusCode, Url, header, redirect};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::kit::read::chain;
use crate::kit::sessions::{Sessions, Slot};
use crate::kit::time_limit::TimeLimit;

/// A host that sends nothing for this long is unreachable.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The longest time of one attempt, however slowly its bytes come.
pub(crate) const ATTEMPT_MAX: Duration = Duration::from_secs(600);
/// Redirects on one host.
const REDIRECTS_MAX: usize = 5;
const CHUNKS_MAX: usize = 8;

#[derive(Debug, thiserror::Error)]
pub(crate) enum DownloadError {
    #[error("failed to download archive: {url:?} is not an http or https URL")]
    Address { url: String },
    /// No response, or an incomplete one.
    #[error("failed to download archive: GET {url}")]
    Unreachable {
        url: String,
        #[source]
        source: reqwest::Error,
    },
    #[error("failed to download archive: GET {url} did not end within {}{}", limit.time.as_secs_f64(), by(*limit))]
    Late { url: String, limit: TimeLimit },
    /// The server does not have the archive any more.
    #[error("Source is not ready, artifact not found: {url} does not exist (any more)")]
    NotFound { url: String },
    #[error("failed to download archive from {url} (status: {status})")]
    Status {
        url: String,
        status: StatusCode,
        after: Option<Duration>,
    },
    #[error(
        "failed to download archive from {url} (status: {status}): only redirects on the same host are allowed"
    )]
    Redirected { url: String, status: StatusCode },
    /// The address may not be dialled.
    #[error("failed to download archive: GET {url}")]
    Forbidden {
        url: String,
        #[source]
        source: HttpRefusal,
    },
    /// The host does not answer the namespace, and is not asked.
    #[error("failed to download archive")]
    Closed(#[source] Refusal),
    #[error("failed to verify archive: {0}")]
    Digest(#[source] ReceiveError),
    #[error("failed to download archive from {url}")]
    Refused {
        url: String,
        #[source]
        source: ReceiveError,
    },
    /// The task was dropped or panicked.
    #[error("failed to download archive: internal error")]
    Aborted,
}

impl DownloadError {
    pub(crate) fn passes(&self) -> bool {
        match self {
            DownloadError::Unreachable { .. } | DownloadError::Late { .. } => true,
            DownloadError::Status { status, .. } => {
                // as in Flux: a server that cannot do it at all (501) cannot do it later, either
                *status == StatusCode::TOO_MANY_REQUESTS
                    || (status.is_server_error() && *status != StatusCode::NOT_IMPLEMENTED)
            }
            DownloadError::Address { .. }
            | DownloadError::Forbidden { .. }
            | DownloadError::Closed(_)
            | DownloadError::NotFound { .. }
            | DownloadError::Redirected { .. }
            | DownloadError::Digest(_)
            | DownloadError::Refused { .. }
            | DownloadError::Aborted => false,
        }
    }

    /// The server's `Retry-After`.
    pub(crate) fn after(&self) -> Option<Duration> {
        match self {
            DownloadError::Status { after, .. } => *after,
            _ => None,
        }
    }

    /// Whether the source is about to publish a new archive.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, DownloadError::NotFound { .. })
    }

    pub(crate) fn message(&self) -> String {
        let hint = match self {
            DownloadError::Unreachable { .. } | DownloadError::Late { .. } => {
                "check that the source's controller runs and is reachable from here"
            }
            DownloadError::NotFound { .. } => {
                "its source publishes a newer one when it is reconciled: annotate the source with \
                 reconcile.fluxcd.io/requestedAt"
            }
            DownloadError::Digest(_) => {
                "the archive does not match the digest in the source's status and was not unpacked; reconcile the source"
            }
            DownloadError::Address { .. }
            | DownloadError::Forbidden { .. }
            | DownloadError::Redirected { .. } => "check status.artifact.url of the source",
            DownloadError::Refused {
                source: ReceiveError::Limit(_) | ReceiveError::Archive(_),
                ..
            } => "exclude files from the artifact, or repair its producer",
            DownloadError::Refused { .. } => "check the disk of the storage path",
            DownloadError::Status { .. } | DownloadError::Closed(_) | DownloadError::Aborted => {
                return chain(self);
            }
        };
        format!("{}; {hint}", chain(self))
    }
}

fn by(limit: TimeLimit) -> &'static str {
    match limit.is_operators {
        true => "s (--timeout-max)",
        false => "s",
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    egress: Egress,
    sessions: Sessions,
    attempt_max: TimeLimit,
}

impl Http {
    pub(crate) fn new(
        egress: Egress,
        sessions: Sessions,
        attempt_max: TimeLimit,
    ) -> Result<Http, reqwest::Error> {
        // reqwest panics in a process without a default provider. If there is one, this changes nothing.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            rustls::crypto::ring::default_provider().install_default().ok();
        }
        let checked = egress.clone();
        let same_host = redirect::Policy::custom(move |attempt| {
            let origin = |url: &Url| {
                let port = url.port_or_known_default();
                (url.scheme().to_owned(), url.host_str().map(str::to_owned), port)
            };
            let first = attempt.previous().first().map(origin);
            let stays = first.is_some_and(|first| first == origin(attempt.url()));
            let is_allowed = checked.check(attempt.url()).is_ok();
            match stays && is_allowed && attempt.previous().len() <= REDIRECTS_MAX {
                true => attempt.follow(),
                false => attempt.stop(),
            }
        });
        let client = egress
            .http()
            .redirect(same_host)
            .read_timeout(SILENCE_MAX)
            .user_agent(concat!("equate/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Http {
            client,
            egress,
            sessions,
            attempt_max,
        })
    }

    /// Downloads an archive for a namespace, when the namespace may have one more request to the host.
    pub(crate) async fn fetch(
        &self,
        namespace: &str,
        url: &str,
        artifact: &CacheKey,
        cache: &Cache,
    ) -> Result<Receiving, DownloadError> {
        let address = address(url)?;
        let shown = shown(&address);
        let host = match (address.host_str(), address.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        };
        let admission = self.egress.enter(namespace, &host).await;
        let mut admission = admission.map_err(DownloadError::Closed)?;
        let slot = self.sessions.enter(namespace).await;
        let limit = self.attempt_max;
        let late = || DownloadError::Late {
            url: shown.clone(),
            limit,
        };
        let fetched = timeout(limit.time, self.take(address, &shown, artifact, cache, slot)).await;
        let fetched = fetched.unwrap_or_else(|_| Err(late()));
        admission.report(match &fetched {
            Err(DownloadError::Unreachable { .. } | DownloadError::Late { .. }) => Outcome::Silent,
            _ => Outcome::Answered,
        });
        fetched
    }

    async fn take(
        &self,
        address: Url,
        shown: &str,
        artifact: &CacheKey,
        cache: &Cache,
        slot: Slot,
    ) -> Result<Receiving, DownloadError> {
        let url = || shown.to_owned();
        let unreachable = |source: reqwest::Error| DownloadError::Unreachable {
            url: url(),
            source: source.without_url(),
        };
        self.egress
            .check(&address)
            .map_err(|source| DownloadError::Forbidden { url: url(), source })?;
        let mut response = self.client.get(address).send().await.map_err(unreachable)?;
        let status = response.status();
        let named = |name| response.headers().get(name)?.to_str().ok();
        match status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Err(DownloadError::NotFound { url: url() }),
            status if status.is_redirection() => {
                return Err(DownloadError::Redirected { url: url(), status });
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
        let (own, wanted) = (cache.clone(), artifact.clone());
        let taking = spawn_blocking(move || {
            let _slot = slot;
            written(&own, &wanted, chunks)
        });
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    // the receiver's own error is returned below
                    if send.send(chunk).await.is_err() {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => return Err(unreachable(error)),
            }
        }
        drop(send);
        let received = taking.await.map_err(|_| DownloadError::Aborted)?;
        received.map_err(|source| refused(shown, source))
    }
}

/// Checks and unpacks a received archive; it keeps a processor busy.
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

fn written(
    cache: &Cache,
    artifact: &CacheKey,
    mut chunks: mpsc::Receiver<Bytes>,
) -> Result<Receiving, ReceiveError> {
    let mut receiving = cache
        .receive(artifact)
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

/// An address without its password.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // both can be set for an address with a host
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}
