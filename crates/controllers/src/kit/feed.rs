//! List and watch of one collection, for as long as it is wanted and whatever happens to it.
//!
//! `kube::runtime::watcher` does nearly this. It is not used because it hides the
//! bookmarks, without which a watch that fell silent cannot be told from a quiet one
//! before its timeout (five minutes); because a kind that is not served any more has to be
//! told from one that cannot be read; and because waiting must use the server's
//! `retryAfterSeconds` and a jitter that repeats itself in tests.
//!
//! What a reader may rely on:
//! - the first change is `Listed` or trouble; every `Listed` is the whole collection at one
//!   version, read consistently (never from a stale cache), and supersedes what came before;
//! - between two `Listed`, changes come in the server's order, possibly more than once;
//! - trouble never ends the feed, nor does a panic of the reader. Dropping the future does.
//!
//! Versions must be numbers, as Kubernetes guarantees; others are an error by name.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::core::{Request, Status, WatchEvent};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::backoff::{Backoff, Jitter};

/// What is followed: a collection of the API, or the part that selectors leave of it.
#[derive(Clone)]
pub struct Collection {
    /// Reaches the API server.
    pub client: Client,
    /// The collection's path, `/apis/apps/v1/deployments`.
    pub path: String,
    /// A label selector.
    pub labels: Option<String>,
    /// A field selector.
    pub fields: Option<String>,
    /// Whether only the metadata of objects is asked for.
    pub metadata: bool,
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collection")
            .field("path", &self.path)
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

/// How patient a feed is.
#[derive(Debug, Clone)]
pub struct Pace {
    /// After failures.
    pub backoff: Backoff,
    /// Of the backoff.
    pub jitter: Jitter,
    /// How long the server is asked to keep a watch open.
    pub watch: Duration,
    /// A watch is given up when nothing, not even a bookmark, arrived for so long.
    /// Servers send a bookmark a minute.
    pub idle: Duration,
    /// How long an answer may take: a page of a list, or the head of a watch.
    pub answer: Duration,
    /// Objects in a page of a list.
    pub page: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            backoff: Backoff::WATCH,
            jitter: Jitter::random(),
            watch: Duration::from_secs(290),
            idle: Duration::from_secs(90),
            answer: Duration::from_secs(60),
            page: 500,
        }
    }
}

/// What a reader made of an object, and the object's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item<U> {
    /// `metadata.resourceVersion`.
    pub version: u64,
    /// What the reader keeps.
    pub value: U,
}

/// What happened in the collection.
#[derive(Debug)]
pub enum Change<U> {
    /// All there is, at a version.
    Listed(u64, Vec<Item<U>>),
    /// An object is new or changed.
    Applied(Item<U>),
    /// An object is gone, or the selector does not match it any more.
    Deleted(Item<U>),
    /// Everything up to this version has been told.
    Told(u64),
    /// The API server does not serve the kind; the feed looks again.
    Unserved,
    /// The collection cannot be read just now; the feed tries again.
    Failed(FeedError),
}

/// Why a collection cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// A list failed.
    #[error("cannot list {path}")]
    List {
        /// Of the collection.
        path: String,
        /// The answer.
        source: Box<kube::Error>,
    },
    /// A watch failed.
    #[error("cannot watch {path}")]
    Watch {
        /// Of the collection.
        path: String,
        /// The answer.
        source: Box<kube::Error>,
    },
    /// The server ended a watch with an error.
    #[error("the watch of {path} was ended")]
    Ended {
        /// Of the collection.
        path: String,
        /// The server's words.
        source: Box<Status>,
    },
    /// No answer came.
    #[error("no answer from {path} within {}s", limit.as_secs())]
    Silent {
        /// Of the collection.
        path: String,
        /// How long was waited.
        limit: Duration,
    },
    /// Reading an object, or telling of it, broke off.
    #[error("following {path} broke off and begins anew: an error of Equate, whose log has more")]
    Broke {
        /// Of the collection.
        path: String,
    },
    /// The server's version of an object or list is not a number.
    #[error("{path} has the version {text:?}, which is not a number")]
    Version {
        /// Of the collection.
        path: String,
        /// What it is instead.
        text: String,
    },
}

impl FeedError {
    fn status(&self) -> Option<&Status> {
        match self {
            FeedError::List { source, .. } | FeedError::Watch { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            FeedError::Ended { source, .. } => Some(source),
            FeedError::Silent { .. } | FeedError::Broke { .. } | FeedError::Version { .. } => None,
        }
    }

    /// Whether the server will not let us read it: until somebody grants it, asking again is no help.
    pub fn is_refusal(&self) -> bool {
        self.has_code(401) || self.has_code(403) || self.has_code(405)
    }

    fn has_code(&self, code: u16) -> bool {
        self.status().is_some_and(|status| status.code == code)
    }

    /// What the server asks to wait.
    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }
}

/// A page of a list; `kube`'s own asks for more of its items than is needed here.
#[derive(Deserialize)]
struct Page<T> {
    metadata: ListMeta,
    // Go writes an empty list of some kinds as null
    items: Option<Vec<T>>,
}

/// Follows a collection until the future is dropped.
///
/// `read` turns an object into what is kept of it, or says that its version is not a
/// number; `tell` takes the changes and must not block. `hurry` ends a wait after trouble.
pub async fn follow<T, U>(
    collection: Collection,
    pace: Pace,
    hurry: Arc<Notify>,
    read: impl Fn(T) -> Result<Item<U>, String> + Send,
    tell: impl FnMut(Change<U>) + Send,
) where
    T: DeserializeOwned + Clone + Send + 'static,
    U: Send,
{
    let request = Request::new(collection.path.clone());
    let mut feed = Feed {
        collection,
        request,
        pace,
        hurry,
        read,
        tell,
        failures: 0,
        types: std::marker::PhantomData,
    };
    loop {
        // one object that a reader falls over ends nothing for those who read the others
        let round = AssertUnwindSafe(feed.round()).catch_unwind().await;
        if round.is_err() {
            tracing::error!(path = feed.request.url_path, "a reader of objects broke off");
            let path = feed.collection.path.clone();
            feed.rest(FeedError::Broke { path }, Pause::Backoff).await;
        }
    }
}

struct Feed<T, U, R, F> {
    collection: Collection,
    request: Request,
    pace: Pace,
    hurry: Arc<Notify>,
    read: R,
    tell: F,
    /// Since something last arrived on a watch.
    failures: u32,
    types: std::marker::PhantomData<fn(T) -> U>,
}

/// How to wait after trouble.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    Backoff,
    /// Not at all the first time: ends that are part of the protocol.
    Forgiving,
}

/// How a watch ended.
enum End {
    /// It may be taken up where it was.
    Resume(Option<FeedError>),
    /// History is gone: list again.
    Relist(FeedError),
}

impl<T, U, R, F> Feed<T, U, R, F>
where
    T: DeserializeOwned + Clone + Send + 'static,
    R: Fn(T) -> Result<Item<U>, String> + Send,
    F: FnMut(Change<U>) + Send,
{
    /// Lists, and watches for as long as that goes on.
    async fn round(&mut self) {
        match self.list().await {
            Ok((version, items)) => {
                (self.tell)(Change::Listed(version, items));
                self.watch_from(version).await;
            }
            Err(trouble) => self.rest(trouble, Pause::Backoff).await,
        }
    }

    /// Reads all pages. A first page without a version is a consistent read; the others
    /// are of the same version.
    async fn list(&self) -> Result<(u64, Vec<Item<U>>), FeedError> {
        let mut params = ListParams {
            label_selector: self.collection.labels.clone(),
            field_selector: self.collection.fields.clone(),
            limit: Some(self.pace.page),
            ..ListParams::default()
        };
        let mut items = Vec::new();
        loop {
            let page = self.page(&params).await?;
            for object in page.items.unwrap_or_default() {
                items.push(self.read(object)?);
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = page.metadata.resource_version.unwrap_or_default();
                return Ok((self.number(version)?, items));
            }
        }
    }

    async fn page(&self, params: &ListParams) -> Result<Page<T>, FeedError> {
        let request = match self.collection.metadata {
            true => self.request.list_metadata(params),
            false => self.request.list(params),
        };
        let request = request.map_err(|error| self.list_trouble(kube::Error::BuildRequest(error)))?;
        let answer = self.collection.client.request::<Page<T>>(request);
        match timeout(self.pace.answer, answer).await {
            Ok(answer) => answer.map_err(|error| self.list_trouble(error)),
            Err(_) => Err(self.silent(self.pace.answer)),
        }
    }

    /// Watches from a version on; returns when the collection has to be listed again.
    async fn watch_from(&mut self, mut version: u64) {
        loop {
            let opened = Instant::now();
            let end = match self.open(version).await {
                Ok(stream) => self.drain(stream, &mut version).await,
                Err(trouble) => Self::end(trouble),
            };
            if opened.elapsed() >= self.pace.backoff.max {
                self.failures = 0;
            }
            match end {
                End::Relist(trouble) => return self.rest(trouble, Pause::Forgiving).await,
                End::Resume(Some(trouble)) => self.rest(trouble, Pause::Backoff).await,
                End::Resume(None) => self.pause(None, Pause::Forgiving).await,
            }
        }
    }

    async fn open(&self, version: u64) -> Result<BoxStream<'static, kube::Result<WatchEvent<T>>>, FeedError> {
        let params = WatchParams {
            label_selector: self.collection.labels.clone(),
            field_selector: self.collection.fields.clone(),
            timeout: Some(u32::try_from(self.pace.watch.as_secs()).unwrap_or(u32::MAX)),
            bookmarks: true,
            send_initial_events: false,
        };
        let version = version.to_string();
        let request = match self.collection.metadata {
            true => self.request.watch_metadata(&params, &version),
            false => self.request.watch(&params, &version),
        };
        let request = request.map_err(|error| self.watch_trouble(kube::Error::BuildRequest(error)))?;
        let answer = self.collection.client.request_events::<T>(request);
        match timeout(self.pace.answer, answer).await {
            Ok(Ok(events)) => Ok(events.boxed()),
            Ok(Err(error)) => Err(self.watch_trouble(error)),
            Err(_) => Err(self.silent(self.pace.answer)),
        }
    }

    /// Tells what arrives, until the stream ends or falls silent.
    async fn drain(
        &mut self,
        mut stream: BoxStream<'static, kube::Result<WatchEvent<T>>>,
        version: &mut u64,
    ) -> End {
        loop {
            let event = match timeout(self.pace.idle, stream.next()).await {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(error))) => return Self::end(self.watch_trouble(error)),
                Ok(None) => return End::Resume(None),
                Err(_) => return End::Resume(Some(self.silent(self.pace.idle))),
            };
            match self.change(event) {
                Ok((reached, change)) => {
                    self.failures = 0;
                    *version = (*version).max(reached);
                    (self.tell)(change);
                }
                // what cannot be read now may be left out by a list; the server's errors say themselves
                Err(trouble @ FeedError::Version { .. }) => return End::Relist(trouble),
                Err(trouble) => return Self::end(trouble),
            }
        }
    }

    fn change(&self, event: WatchEvent<T>) -> Result<(u64, Change<U>), FeedError> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let item = self.read(object)?;
                Ok((item.version, Change::Applied(item)))
            }
            WatchEvent::Deleted(object) => {
                let item = self.read(object)?;
                Ok((item.version, Change::Deleted(item)))
            }
            WatchEvent::Bookmark(bookmark) => {
                let version = self.number(bookmark.metadata.resource_version)?;
                Ok((version, Change::Told(version)))
            }
            WatchEvent::Error(source) => {
                let path = self.collection.path.clone();
                Err(FeedError::Ended { path, source })
            }
        }
    }

    /// What to do about trouble on a watch: history that is gone and a kind that is gone
    /// need a list, all else may be taken up where it was.
    fn end(trouble: FeedError) -> End {
        if trouble.has_code(410) || trouble.has_code(404) {
            End::Relist(trouble)
        } else {
            End::Resume(Some(trouble))
        }
    }

    /// Tells of trouble, then waits as the server asks or the backoff says.
    async fn rest(&mut self, trouble: FeedError, pause: Pause) {
        tracing::debug!(error = %trouble, cause = ?trouble.status(), "a feed is disturbed");
        let wanted = trouble.retry_after();
        if matches!(trouble, FeedError::List { .. }) && trouble.has_code(404) {
            (self.tell)(Change::Unserved);
        } else if pause == Pause::Backoff {
            (self.tell)(Change::Failed(trouble));
        }
        self.pause(wanted, pause).await;
    }

    async fn pause(&mut self, wanted: Option<Duration>, pause: Pause) {
        self.failures = self.failures.saturating_add(1);
        if self.failures == 1 && pause == Pause::Forgiving {
            return;
        }
        let delay = self.pace.backoff.delay(self.failures, &self.pace.jitter);
        let delay = wanted.map_or(delay, |wanted| wanted.max(delay));
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = self.hurry.notified() => {}
        }
    }

    fn read(&self, object: T) -> Result<Item<U>, FeedError> {
        (self.read)(object).map_err(|text| self.no_number(text))
    }

    fn number(&self, text: String) -> Result<u64, FeedError> {
        match text.parse() {
            Ok(version) => Ok(version),
            Err(_) => Err(self.no_number(text)),
        }
    }

    fn no_number(&self, text: String) -> FeedError {
        FeedError::Version {
            path: self.collection.path.clone(),
            text,
        }
    }

    fn silent(&self, limit: Duration) -> FeedError {
        FeedError::Silent {
            path: self.collection.path.clone(),
            limit,
        }
    }

    fn list_trouble(&self, error: kube::Error) -> FeedError {
        FeedError::List {
            path: self.collection.path.clone(),
            source: Box::new(error),
        }
    }

    fn watch_trouble(&self, error: kube::Error) -> FeedError {
        FeedError::Watch {
            path: self.collection.path.clone(),
            source: Box::new(error),
        }
    }
}
