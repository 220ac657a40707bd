//! Lists and watches one collection until it is dropped.
//!
//! `kube::runtime::watcher` is not used: it hides bookmarks, without which a stuck watch looks quiet
//! until its timeout (five minutes). It does not separate a kind that is not served from one that cannot
//! be read. And waits must use the server's `retryAfterSeconds` and a jitter that tests can repeat.
//!
//! Guarantees for a reader:
//!
//! - the first change is `Listed` or an error; every `Listed` is the whole collection at one version,
//!   read consistently (never from a stale cache), and supersedes everything before it;
//! - between two `Listed`, changes come in the server's order, possibly more than once;
//! - neither an error nor a panic of the reader ends the feed. Dropping the future does.
//!
//! Versions must be numbers, as Kubernetes guarantees.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use equate_egress::Memory;
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

/// The collection to follow, or the part that selectors match.
#[derive(Clone)]
pub struct Collection {
    /// The API server.
    pub client: Client,
    /// The collection's path, `/apis/apps/v1/deployments`.
    pub path: String,
    /// A label selector.
    pub labels: Option<String>,
    /// A field selector.
    pub fields: Option<String>,
    /// Whether to request only metadata.
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

/// The timing and the limits of a feed.
#[derive(Debug, Clone)]
pub struct Pace {
    /// The delays after failures.
    pub backoff: Backoff,
    /// The jitter of the backoff.
    pub jitter: Jitter,
    /// How long the server is asked to keep a watch open.
    pub watch: Duration,
    /// A watch ends if nothing arrives for this long, not even a bookmark. Servers send a bookmark a
    /// minute.
    pub idle: Duration,
    /// The time limit of a response: a page of a list, or the head of a watch.
    pub answer: Duration,
    /// Objects in a page of a list.
    pub page: u32,
    /// The limits of a whole list.
    pub lists: ListLimits,
    /// For unfinished lists; `None` without a limit.
    pub memory: Option<ListMemory>,
}

/// The memory that incomplete lists share with all large answers of other hosts.
#[derive(Debug, Clone)]
pub struct ListMemory {
    /// All of it.
    pub memory: Memory,
    /// Whose lists.
    pub namespace: Arc<str>,
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
            lists: ListLimits::OWN,
            memory: None,
        }
    }
}

/// The limits of a list with all its pages. A page has those of [`AnswerLimits`](crate::AnswerLimits), too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListLimits {
    /// Pages.
    pub pages: usize,
    /// Objects of all pages.
    pub objects: usize,
    /// Bytes of all pages.
    pub bytes: usize,
    /// From the first request to the last answer.
    pub time: Duration,
    /// Events of a watch until the collection is listed again, so that a server that only adds objects
    /// meets the limits of a list.
    pub events: usize,
    /// Events of a watch in a second, on average; the others wait in the connection.
    pub events_per_second: usize,
}

impl ListLimits {
    /// For the cluster of this process.
    pub const OWN: ListLimits = ListLimits {
        pages: 20_000,
        objects: 2_000_000,
        bytes: 8 << 30,
        time: Duration::from_secs(900),
        events: usize::MAX,
        events_per_second: usize::MAX,
    };

    /// For clusters that tenants name.
    pub const FOREIGN: ListLimits = ListLimits {
        pages: 1_000,
        objects: 50_000,
        bytes: 128 << 20,
        time: Duration::from_secs(120),
        events: 50_000,
        events_per_second: 1_000,
    };

    fn check(&self, pages: usize, objects: usize, bytes: usize) -> Result<(), Excess> {
        let all = [
            (pages, self.pages, "pages"),
            (objects, self.objects, "objects"),
            (bytes, self.bytes, "bytes"),
        ];
        let exceeded = all.into_iter().find(|(used, limit, _)| used > limit);
        exceeded.map_or(Ok(()), |(_, limit, unit)| Err(Excess::More { limit, unit }))
    }
}

/// How a list exceeds its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// It is too large.
    #[error("has more than {limit} {unit}, the limit")]
    More {
        /// The limit.
        limit: usize,
        /// Its unit.
        unit: &'static str,
    },
    /// It takes too long.
    #[error("is not complete after {}s, the limit", .0.as_secs())]
    Slow(Duration),
    /// Two pages have the same `continue` token.
    #[error("repeats a page, so it has no end; report it to the operator of the API server")]
    Repeated,
    /// All lists and answers together are too large.
    #[error("was ended, because all answers together need too much memory; it is read again later")]
    Displaced,
}

/// An object as the reader keeps it, with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item<U> {
    /// `metadata.resourceVersion`.
    pub version: u64,
    /// The reader's value.
    pub value: U,
}

/// A change in the collection.
#[derive(Debug)]
pub enum Change<U> {
    /// The whole collection at a version.
    Listed(u64, Vec<Item<U>>),
    /// An object is new or changed.
    Applied(Item<U>),
    /// An object is gone, or the selector does not match it any more.
    Deleted(Item<U>),
    /// Everything up to this version has been delivered.
    Bookmark(u64),
    /// The API server does not serve the kind; the feed retries.
    Unserved,
    /// The collection cannot be read now; the feed retries.
    Failed(FeedError),
}

/// Why a collection cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// A list failed.
    #[error("cannot list {path}")]
    List {
        /// The collection.
        path: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// A watch failed.
    #[error("cannot watch {path}")]
    Watch {
        /// The collection.
        path: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The server ended a watch with an error.
    #[error("the server ended the watch of {path}")]
    Ended {
        /// The collection.
        path: String,
        /// The server's answer.
        source: Box<Status>,
    },
    /// A list exceeds its limits.
    #[error("cannot list {path}: the list {excess}")]
    Excess {
        /// The collection.
        path: String,
        /// The limit.
        excess: Excess,
    },
    /// No response came.
    #[error("no answer from {path} within {}s", limit.as_secs())]
    Timeout {
        /// The collection.
        path: String,
        /// The time limit.
        limit: Duration,
    },
    /// The reader or its callback panicked.
    #[error("internal error while watching {path}, which starts again; see the controller's log")]
    Panicked {
        /// The collection.
        path: String,
    },
    /// The server's version of an object or list is not a number.
    #[error("{path} has the version {text:?}, which is not a number")]
    Version {
        /// The collection.
        path: String,
        /// The version.
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
            FeedError::Excess { .. }
            | FeedError::Timeout { .. }
            | FeedError::Panicked { .. }
            | FeedError::Version { .. } => None,
        }
    }

    pub(crate) fn is_excess(&self) -> bool {
        matches!(self, FeedError::Excess { excess, .. } if *excess != Excess::Displaced)
    }

    /// Whether the server denies access: retries do not help until it is granted.
    pub fn is_refusal(&self) -> bool {
        self.has_code(401) || self.has_code(403) || self.has_code(405)
    }

    fn has_code(&self, code: u16) -> bool {
        self.status().is_some_and(|status| status.code == code)
    }

    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }
}

/// A page of a list; `kube`'s own requires more fields of its items.
#[derive(Deserialize)]
struct Page<T> {
    metadata: ListMeta,
    // Go writes an empty list of some kinds as null
    items: Option<Vec<T>>,
}

/// An item takes this many times its size while a list grows. Texts are not counted.
const KEPT_PER_ITEM: usize = 2;

/// How many times longer a feed waits at most for the definition of its kind than after other failures:
/// definitions are rarely added.
const UNSERVED_SLOWER: u32 = 8;

/// Follows a collection until the future is dropped.
///
/// `read` converts an object, or reports that its version is not a number. `deliver` receives the changes
/// and must not block. `hurry` ends a wait after an error.
pub async fn follow<T, U>(
    collection: Collection,
    pace: Pace,
    hurry: Arc<Notify>,
    read: impl Fn(T) -> Result<Item<U>, String> + Send,
    deliver: impl FnMut(Change<U>) + Send,
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
        deliver,
        failures: 0,
        types: std::marker::PhantomData,
    };
    loop {
        // a panic on one object must not end the feed of other readers
        let round = AssertUnwindSafe(feed.round()).catch_unwind().await;
        if round.is_err() {
            tracing::error!(path = feed.request.url_path, "a reader of objects panicked");
            let path = feed.collection.path.clone();
            feed.report_and_wait(FeedError::Panicked { path }, Pause::Backoff)
                .await;
        }
    }
}

struct Feed<T, U, R, F> {
    collection: Collection,
    request: Request,
    pace: Pace,
    hurry: Arc<Notify>,
    read: R,
    deliver: F,
    /// Reset by anything that arrives on a watch.
    failures: u32,
    types: std::marker::PhantomData<fn(T) -> U>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    Backoff,
    /// No wait the first time: such ends are part of the protocol.
    Forgiving,
}

enum End {
    Resume(Option<FeedError>),
    Relist(Option<FeedError>),
}

/// The events of a watch since the last list, and in the present second.
struct EventTally {
    left: usize,
    per_second: usize,
    second: Instant,
    in_second: usize,
}

impl EventTally {
    fn new(limits: &ListLimits) -> Self {
        Self {
            left: limits.events,
            per_second: limits.events_per_second,
            second: Instant::now(),
            in_second: 0,
        }
    }

    /// Waits if there are too many; false if the collection has to be listed again.
    async fn count(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.in_second += 1;
        if self.in_second >= self.per_second {
            tokio::time::sleep_until(self.second + Duration::from_secs(1)).await;
            (self.second, self.in_second) = (Instant::now(), 0);
        }
        self.left > 0
    }
}

impl<T, U, R, F> Feed<T, U, R, F>
where
    T: DeserializeOwned + Clone + Send + 'static,
    R: Fn(T) -> Result<Item<U>, String> + Send,
    F: FnMut(Change<U>) + Send,
{
    async fn round(&mut self) {
        match self.list().await {
            Ok((version, items)) => {
                (self.deliver)(Change::Listed(version, items));
                self.watch_from(version).await;
            }
            Err(error) => self.report_and_wait(error, Pause::Backoff).await,
        }
    }

    /// Reads all pages within the limits of a list.
    async fn list(&self) -> Result<(u64, Vec<Item<U>>), FeedError> {
        let limit = self.pace.lists.time;
        match timeout(limit, self.pages()).await {
            Ok(listed) => listed,
            Err(_) => Err(self.excess(Excess::Slow(limit))),
        }
    }

    /// A first page without a version is a consistent read; the others are of the same version.
    async fn pages(&self) -> Result<(u64, Vec<Item<U>>), FeedError> {
        let mut params = ListParams {
            label_selector: self.collection.labels.clone(),
            field_selector: self.collection.fields.clone(),
            limit: Some(self.pace.page),
            ..ListParams::default()
        };
        let (mut items, mut pages, mut bytes) = (Vec::new(), 0, 0_usize);
        let held = self.pace.memory.as_ref();
        let held = held.map(|shared| shared.memory.hold(&shared.namespace));
        loop {
            let (page, size) = match &held {
                Some(held) => tokio::select! {
                    biased;
                    () = held.over() => return Err(self.excess(Excess::Displaced)),
                    page = self.page(&params) => page?,
                },
                None => self.page(&params).await?,
            };
            let objects = page.items.unwrap_or_default();
            (pages, bytes) = (pages + 1, bytes.saturating_add(size));
            let within = self.pace.lists.check(pages, items.len() + objects.len(), bytes);
            within.map_err(|excess| self.excess(excess))?;
            let kept = objects.len() * KEPT_PER_ITEM * size_of::<Item<U>>();
            if held.as_ref().is_some_and(|held| held.add(kept as u64).is_err()) {
                return Err(self.excess(Excess::Displaced));
            }
            for object in objects {
                items.push(self.read(object)?);
            }
            let next = page.metadata.continue_.filter(|token| !token.is_empty());
            if next.is_none() {
                let version = page.metadata.resource_version.unwrap_or_default();
                return Ok((self.number(version)?, items));
            }
            if next == params.continue_token {
                return Err(self.excess(Excess::Repeated));
            }
            params.continue_token = next;
        }
    }

    /// A page and its bytes.
    async fn page(&self, params: &ListParams) -> Result<(Page<T>, usize), FeedError> {
        let request = match self.collection.metadata {
            true => self.request.list_metadata(params),
            false => self.request.list(params),
        };
        let request = request.map_err(|error| self.list_trouble(kube::Error::BuildRequest(error)))?;
        // `Client::request` logs an answer that it cannot read, in full
        let answer = self.collection.client.request_text(request);
        let text = match timeout(self.pace.answer, answer).await {
            Ok(answer) => answer.map_err(|error| self.list_trouble(error))?,
            Err(_) => return Err(self.timeout(self.pace.answer)),
        };
        let page = serde_json::from_str(&text);
        let page = page.map_err(|error| self.list_trouble(kube::Error::SerdeError(error)))?;
        Ok((page, text.len()))
    }

    /// Watches from a version on; returns when the collection has to be listed again.
    async fn watch_from(&mut self, mut version: u64) {
        let mut tally = EventTally::new(&self.pace.lists);
        loop {
            let opened = Instant::now();
            let end = match self.open(version).await {
                Ok(stream) => self.drain(stream, &mut version, &mut tally).await,
                Err(error) => Self::end(error),
            };
            if opened.elapsed() >= self.pace.backoff.max {
                self.failures = 0;
            }
            match end {
                End::Relist(Some(error)) => return self.report_and_wait(error, Pause::Forgiving).await,
                End::Relist(None) => return,
                End::Resume(Some(error)) => self.report_and_wait(error, Pause::Backoff).await,
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
            Err(_) => Err(self.timeout(self.pace.answer)),
        }
    }

    async fn drain(
        &mut self,
        mut stream: BoxStream<'static, kube::Result<WatchEvent<T>>>,
        version: &mut u64,
        tally: &mut EventTally,
    ) -> End {
        loop {
            let event = match timeout(self.pace.idle, stream.next()).await {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(error))) => return Self::end(self.watch_trouble(error)),
                Ok(None) => return End::Resume(None),
                Err(_) => return End::Resume(Some(self.timeout(self.pace.idle))),
            };
            match self.change(event) {
                Ok((reached, change)) => {
                    self.failures = 0;
                    *version = (*version).max(reached);
                    (self.deliver)(change);
                    if !tally.count().await {
                        return End::Relist(None);
                    }
                }
                // a list may leave out an unreadable object; the server's errors are handled by code
                Err(error @ FeedError::Version { .. }) => return End::Relist(Some(error)),
                Err(error) => return Self::end(error),
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
                Ok((version, Change::Bookmark(version)))
            }
            WatchEvent::Error(source) => {
                let path = self.collection.path.clone();
                Err(FeedError::Ended { path, source })
            }
        }
    }

    fn end(error: FeedError) -> End {
        if error.has_code(410) || error.has_code(404) {
            End::Relist(Some(error))
        } else {
            End::Resume(Some(error))
        }
    }

    async fn report_and_wait(&mut self, error: FeedError, pause: Pause) {
        tracing::debug!(error = %error, cause = ?error.status(), "a feed failed");
        let mut wanted = error.retry_after();
        if matches!(error, FeedError::List { .. }) && error.has_code(404) {
            (self.deliver)(Change::Unserved);
            let backoff = self.pace.backoff;
            let slower = Backoff {
                max: backoff.max.saturating_mul(UNSERVED_SLOWER),
                ..backoff
            };
            wanted = wanted.max(Some(
                slower.delay(self.failures.saturating_add(1), &self.pace.jitter),
            ));
        } else if pause == Pause::Backoff {
            (self.deliver)(Change::Failed(error));
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

    fn excess(&self, excess: Excess) -> FeedError {
        let path = self.collection.path.clone();
        FeedError::Excess { path, excess }
    }

    fn timeout(&self, limit: Duration) -> FeedError {
        FeedError::Timeout {
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

#[cfg(test)]
mod tests;
