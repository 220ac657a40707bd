//! Posts events to a receiver, as Flux's controllers post theirs to notification-controller
//! (`--events-addr`).
//!
//! One task posts: tenants take turns, and each has its events in order. Queue, response time and retries are
//! bounded: an unresponsive receiver loses events, which are counted and logged. The answer 429 means that the
//! event was posted lately and counts as success.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use http::{Method, Request, StatusCode, Uri};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::client::Body;
use kube::{Client, Config};
use serde::Serialize;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::backoff::{Backoff, Jitter};
use super::events::line::Line;
use super::events::{Event, Severity, cut};
use super::tenants::Tenant;

/// Events that wait to be posted, of all tenants.
const LINE: usize = 8192;
/// A message is cut off after this many bytes, as in a condition.
const MESSAGE_BYTES_MAX: usize = 32 << 10;
const ANSWER: Duration = Duration::from_secs(5);
const TRIES: u32 = 5;
const BACKOFF: Backoff = Backoff {
    first: Duration::from_secs(1),
    max: Duration::from_secs(30),
};

/// Why events cannot be posted to an address.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// It is not a URI.
    #[error(
        "{address:?} is not the address of an event receiver: expected a URL such as http://notification-controller/"
    )]
    Address {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: http::uri::InvalidUri,
    },
    /// It has no host, or another scheme.
    #[error("{0:?} is not an http or https URL of an event receiver")]
    Protocol(String),
    /// The client cannot be created.
    #[error("cannot create a client for the event receiver")]
    Client(#[source] Box<kube::Error>),
}

/// Events by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Accepted by the receiver.
    pub posted: u64,
    /// Given up or dropped.
    pub lost: u64,
}

#[derive(Default)]
struct Tally {
    posted: AtomicU64,
    lost: AtomicU64,
}

/// Posts events; clones share one task, which ends with the last.
#[derive(Clone)]
pub struct Notifier {
    line: Arc<Line<Posted>>,
    tally: Arc<Tally>,
    _task: Arc<AbortOnDropHandle<()>>,
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl Notifier {
    /// Posts to an address. `instance` is the name of this process there.
    ///
    /// # Errors
    ///
    /// If the address is invalid.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(address: &str, instance: &str) -> Result<Self, NotifyError> {
        let uri: Uri = address.parse().map_err(|source| NotifyError::Address {
            address: address.to_owned(),
            source,
        })?;
        let http::uri::Parts {
            scheme,
            authority,
            path_and_query,
            ..
        } = uri.into_parts();
        let path = path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        // the client puts its own path before that of a request
        let server = match (scheme, authority) {
            (Some(scheme), Some(authority)) if matches!(scheme.as_str(), "http" | "https") => Uri::builder()
                .scheme(scheme)
                .authority(authority)
                .path_and_query("/")
                .build()
                .ok(),
            _ => None,
        };
        let server = server.ok_or_else(|| NotifyError::Protocol(address.to_owned()))?;
        let mut config = Config::new(server);
        config.connect_timeout = Some(ANSWER);
        let client = Client::try_from(config).map_err(|source| NotifyError::Client(Box::new(source)))?;
        let line = Arc::new(Line::new(LINE));
        let tally = Arc::new(Tally::default());
        let poster = Poster {
            client,
            path,
            instance: instance.to_owned(),
            tally: Arc::clone(&tally),
            jitter: Jitter::random(),
        };
        let posting = tokio::spawn(poster.run(Arc::clone(&line)));
        Ok(Self {
            line,
            tally,
            _task: Arc::new(AbortOnDropHandle::new(posting)),
        })
    }

    /// Queues an event if there is room. Never waits, never fails.
    pub(super) fn publish(&self, tenant: &Tenant, event: &Event, metadata: Option<BTreeMap<String, String>>) {
        let event = Posted {
            involved_object: event.about.clone(),
            severity: match event.severity {
                Severity::Normal => "info",
                Severity::Warning => "error",
            },
            timestamp: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            message: cut(&event.message, MESSAGE_BYTES_MAX).to_owned(),
            reason: event.reason.clone(),
            metadata: metadata.unwrap_or_default(),
            reporting_controller: event.controller,
            reporting_instance: String::new(),
        };
        if let Some(event) = self.line.push(tenant, event) {
            self.tally.lost.fetch_add(1, Ordering::Relaxed);
            let object = event.involved_object.name;
            tracing::warn!(?object, "an event is dropped: the queue is full");
        }
    }

    /// The numbers so far.
    pub fn counts(&self) -> Counts {
        Counts {
            posted: self.tally.posted.load(Ordering::Relaxed),
            lost: self.tally.lost.load(Ordering::Relaxed),
        }
    }
}

/// An event as receivers read it (`event.toolkit.fluxcd.io/v1beta1`).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Posted {
    involved_object: ObjectReference,
    severity: &'static str,
    timestamp: String,
    message: String,
    reason: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    reporting_controller: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    reporting_instance: String,
}

struct Poster {
    client: Client,
    path: PathAndQuery,
    instance: String,
    tally: Arc<Tally>,
    jitter: Jitter,
}

#[derive(Debug, thiserror::Error)]
enum PostError {
    #[error("cannot reach the receiver")]
    Unreachable(#[source] kube::Error),
    #[error("no answer within {}s", ANSWER.as_secs())]
    Timeout,
    #[error("the receiver answered {0}")]
    Refused(StatusCode),
    #[error("cannot encode the event as a request")]
    Request(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Poster {
    async fn run(self, line: Arc<Line<Posted>>) {
        loop {
            let (_, mut event) = line.next().await;
            event.reporting_instance.clone_from(&self.instance);
            self.post_with_retries(&event).await;
        }
    }

    async fn post_with_retries(&self, event: &Posted) {
        for tried in 1..=TRIES {
            let error = match self.post(event).await {
                Ok(()) => {
                    self.tally.posted.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(error) => error,
            };
            let lasting = matches!(&error, PostError::Refused(status) if status.is_client_error());
            if lasting || matches!(error, PostError::Request(_)) || tried == TRIES {
                self.tally.lost.fetch_add(1, Ordering::Relaxed);
                let error: &dyn std::error::Error = &error;
                tracing::warn!(
                    error,
                    tried,
                    object = event.involved_object.name,
                    "cannot post an event"
                );
                return;
            }
            sleep(BACKOFF.delay(tried, &self.jitter)).await;
        }
    }

    async fn post(&self, event: &Posted) -> Result<(), PostError> {
        let body = serde_json::to_vec(event).map_err(|error| PostError::Request(error.into()))?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(Uri::from(self.path.clone()))
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .map_err(|error| PostError::Request(error.into()))?;
        let answer = timeout(ANSWER, self.client.send(request)).await;
        let status = answer
            .map_err(|_| PostError::Timeout)?
            .map_err(PostError::Unreachable)?
            .status();
        match status.is_success() || status == StatusCode::TOO_MANY_REQUESTS {
            true => Ok(()),
            false => Err(PostError::Refused(status)),
        }
    }
}

#[cfg(test)]
mod tests;
