//! Watches: a stream of events as lines of JSON, or as frames of protobuf.
//!
//! A watch has a cursor into the store's event ring and one frame of bounded size. A client that reads too
//! slowly falls out of the ring and its stream ends; it then resumes or relists, as after any broken
//! connection. While a watch sends its initial objects it holds their snapshot, which shares unchanged
//! objects with all others.

use super::list::{Selection, at};
use super::negotiate::{Accepted, Format, Shape};
use super::options::{At, ListOptions};
use super::respond::Reply;
use crate::crd;
use crate::pipeline::{Api, Clock, View};
use crate::random::{self, NoRandomNumbers};
use crate::registry::Resource;
use crate::status::ApiError;
use crate::store::{AtError, BATCH_BYTES_MAX, Entry, Event, EventKind, ResourceId, Snapshot, Subscription};
use crate::table;
use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use equate_manifest::schema::{self, protobuf};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often an idle watch gets a bookmark.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The default lifetime (apiserver: 30 to 60 minutes, at random).
const LIFETIME_MIN: Duration = Duration::from_secs(30 * 60);
/// The longest lifetime a client may ask for. Upstream has no such limit; it keeps the end representable.
const LIFETIME_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// The time from the last bookmark to the end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

pub(crate) async fn respond(
    api: &Arc<Api>,
    view: &View,
    reply: Reply,
    resource: Arc<Resource>,
    namespace: Option<String>,
    options: &ListOptions,
) -> Result<Response, ApiError> {
    let selection = Selection::parse(&resource, options)?;
    let begun = begin(api, view, &resource, options).await?;
    let definition = Definition::of(api, view, &resource);
    let shown = initial_objects(api, &resource, namespace.as_deref(), &begun).await?;
    let lifetime = match options.timeout_seconds {
        Some(seconds) => Duration::from_secs(seconds).min(LIFETIME_MAX),
        None => random_lifetime()?,
    };
    let end = Instant::now() + lifetime;
    let stream = Stream {
        api: Arc::clone(api),
        shown,
        lines: Lines {
            reply,
            resource,
            selection,
            namespace,
            table_begun: false,
            clock: Arc::clone(&api.clock),
        },
        bookmarks: options.bookmarks,
        mark_initial: options.send_initial_events == Some(true) && options.bookmarks,
        next_bookmark: next_bookmark(end),
        end,
        state: State::Begin(begun),
        definition,
    };
    let content_type = match stream.lines.reply.accepted.format {
        Format::Json => HeaderValue::from_static("application/json"),
        Format::Protobuf => HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch"),
        Format::Yaml => {
            return Err(ApiError::new(
                406,
                "NotAcceptable",
                "406: Not Acceptable\n\nAvailable representations: application/json;stream=watch, \
                 application/vnd.kubernetes.protobuf;stream=watch",
                Some(crate::status::Details::default()),
            ));
        }
    };
    let body = Body::from_stream(futures::stream::unfold(stream, |mut stream| async move {
        stream
            .next()
            .await
            .map(|bytes| (Ok::<_, std::convert::Infallible>(bytes), stream))
    }));
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    Ok(response)
}

fn random_lifetime() -> Result<Duration, NoRandomNumbers> {
    let random = u64::from_le_bytes(random::bytes()?);
    Ok(LIFETIME_MIN + Duration::from_secs(random % LIFETIME_MIN.as_secs()))
}

fn next_bookmark(end: Instant) -> Option<Instant> {
    let now = Instant::now();
    let last = end.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > now)?;
    Some((now + BOOKMARK_EVERY).min(last))
}

enum WatchStart {
    /// The objects of a snapshot, then the events after it.
    Objects(Snapshot, Subscription),
    After(u64, Subscription),
    /// The revision was compacted. The stream reports it and ends.
    Expired {
        asked: u64,
        oldest: u64,
    },
}

impl WatchStart {
    fn expired(asked: u64, error: AtError) -> Self {
        match error {
            AtError::Expired { oldest } | AtError::Future { current: oldest } => {
                Self::Expired { asked, oldest }
            }
        }
    }
}

async fn begin(
    api: &Api,
    view: &View,
    resource: &Resource,
    options: &ListOptions,
) -> Result<WatchStart, ApiError> {
    let id = resource.storage();
    let from = |snapshot: Snapshot| match api.store.subscribe(&id, snapshot.revision()) {
        Ok(subscription) => WatchStart::Objects(snapshot, subscription),
        Err(error) => WatchStart::expired(0, error),
    };
    match (options.send_initial_events, options.at) {
        (Some(true), wanted) => Ok(from(at(api, view, &id, wanted).await?)),
        (Some(false), At::Newest | At::Any) => {
            let revision = view.snapshot.revision();
            Ok(subscribe(api, &id, revision))
        }
        (None, At::Newest | At::Any) => Ok(from(view.snapshot.clone())),
        (_, At::NotOlderThan(revision) | At::Exactly(revision)) => Ok(subscribe(api, &id, revision)),
    }
}

fn subscribe(api: &Api, id: &ResourceId, revision: u64) -> WatchStart {
    match api.store.subscribe(id, revision) {
        Ok(subscription) => WatchStart::After(revision, subscription),
        Err(error @ AtError::Expired { .. }) => WatchStart::expired(revision, error),
        // A future revision: nothing before it is sent.
        Err(AtError::Future { current }) => match api.store.subscribe(id, current) {
            Ok(subscription) => WatchStart::After(revision, subscription),
            Err(error) => WatchStart::expired(revision, error),
        },
    }
}

/// The objects that a watch starts with, converted; `None` without a conversion.
async fn initial_objects(
    api: &Api,
    resource: &Resource,
    namespace: Option<&str>,
    begun: &WatchStart,
) -> Result<Option<VecDeque<Arc<Entry>>>, ApiError> {
    let WatchStart::Objects(snapshot, _) = begun else {
        return Ok(None);
    };
    if resource.conversion().is_none() {
        return Ok(None);
    }
    let stored = snapshot.list(&resource.storage(), namespace);
    let stored = stored.map(|(_, entry)| Arc::clone(entry)).collect();
    Ok(Some(api.entries_as(resource, stored).await?.into()))
}

enum State {
    Begin(WatchStart),
    Initial {
        snapshot: Snapshot,
        subscription: Subscription,
        from: String,
    },
    Live {
        subscription: Subscription,
        after: u64,
    },
    Ended,
}

struct Stream {
    api: Arc<Api>,
    /// The initial objects that are left to send, if a webhook converted them.
    shown: Option<VecDeque<Arc<Entry>>>,
    lines: Lines,
    bookmarks: bool,
    mark_initial: bool,
    /// `None` once the last was sent, or if there is no time for one.
    next_bookmark: Option<Instant>,
    end: Instant,
    state: State,
    definition: Option<Definition>,
}

/// The CRD behind a watch of custom resources. The watch ends when it changes or goes, so that clients
/// relist by the new schema.
struct Definition {
    api: Arc<Api>,
    resource: Arc<Resource>,
    changes: Subscription,
}

impl Definition {
    fn of(api: &Arc<Api>, view: &View, resource: &Arc<Resource>) -> Option<Self> {
        let id = ResourceId::new(crd::GROUP, crd::PLURAL);
        let changes = api
            .store
            .subscribe(&id, view.snapshot.revision())
            .ok()
            .filter(|_| resource.is_custom())?;
        Some(Self {
            api: Arc::clone(api),
            resource: Arc::clone(resource),
            changes,
        })
    }

    async fn outdated(&mut self) {
        while self.changes.next().await.is_ok() {
            let view = self.api.view();
            let Resource {
                group,
                version,
                plural,
                ..
            } = &*self.resource;
            match view.registry.get(group, version, plural) {
                Some(now) if now.same_schema(&self.resource) => {}
                _ => return,
            }
        }
    }
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return None,
                State::Begin(WatchStart::Expired { asked, oldest }) => {
                    return Some(self.lines.expired(asked, oldest));
                }
                State::Begin(WatchStart::After(after, subscription)) => {
                    self.state = State::Live { subscription, after };
                }
                State::Begin(WatchStart::Objects(snapshot, subscription)) => {
                    self.state = State::Initial {
                        snapshot,
                        subscription,
                        from: String::new(),
                    };
                }
                State::Initial {
                    snapshot,
                    subscription,
                    from,
                } => {
                    let (bytes, rest) = self.initial(&snapshot, &from);
                    self.state = match rest {
                        Some(from) => State::Initial {
                            snapshot,
                            subscription,
                            from,
                        },
                        None => State::Live {
                            subscription,
                            after: snapshot.revision(),
                        },
                    };
                    if !bytes.is_empty() {
                        return Some(bytes);
                    }
                }
                State::Live {
                    mut subscription,
                    after,
                } => {
                    let next = self.live(&mut subscription, after).await;
                    match next {
                        Live::Bytes(bytes) => {
                            self.state = State::Live { subscription, after };
                            return Some(bytes);
                        }
                        Live::Nothing => self.state = State::Live { subscription, after },
                        Live::Last(bytes) => return Some(bytes),
                        Live::Over => return None,
                    }
                }
            }
        }
    }

    fn initial(&mut self, snapshot: &Snapshot, from: &str) -> (Bytes, Option<String>) {
        let mut out = BytesMut::new();
        while let Some(entry) = self.shown.as_mut().and_then(VecDeque::pop_front) {
            if self.lines.selected(&entry) {
                self.lines.entry(&mut out, "ADDED", &entry);
            }
            if out.len() >= BATCH_BYTES_MAX {
                return (out.freeze(), Some(String::new()));
            }
        }
        let id = self.lines.resource.storage();
        let converted = self.shown.is_some();
        let stored = snapshot.list_from(&id, self.lines.namespace.as_deref(), from);
        for (path, entry) in stored.filter(|_| !converted) {
            if out.len() >= BATCH_BYTES_MAX {
                return (out.freeze(), Some(path.as_str().to_owned()));
            }
            if self.lines.selected(entry) {
                self.lines.entry(&mut out, "ADDED", entry);
            }
        }
        if self.mark_initial {
            let bookmark = self.lines.bookmark(snapshot.revision(), true);
            out.extend_from_slice(&bookmark);
        }
        (out.freeze(), None)
    }

    async fn event(&mut self, out: &mut BytesMut, event: &Event) -> Result<(), ApiError> {
        let resource = &self.lines.resource;
        if resource.conversion().is_none() || !self.lines.names(event) {
            self.lines
                .event(out, event, &event.entry, event.previous.as_ref());
            return Ok(());
        }
        let entry = self.api.entry_as(resource, &event.entry).await?;
        let previous = match &event.previous {
            // without a selection only its existence counts
            Some(previous) if !self.lines.selection.is_empty() => {
                Some(self.api.entry_as(resource, previous).await?)
            }
            previous => previous.clone(),
        };
        self.lines.event(out, event, &entry, previous.as_ref());
        Ok(())
    }

    async fn live(&mut self, subscription: &mut Subscription, after: u64) -> Live {
        let deadline = match self.next_bookmark {
            Some(at) if self.bookmarks => at,
            _ => self.end,
        };
        let definition = self.definition.as_mut();
        let outdated = async {
            match definition {
                Some(definition) => definition.outdated().await,
                None => std::future::pending().await,
            }
        };
        let next = tokio::select! {
            biased;
            next = tokio::time::timeout_at(deadline, subscription.next()) => next,
            () = outdated => return Live::Over,
        };
        match next {
            Ok(Ok(events)) => {
                let mut out = BytesMut::new();
                for event in events.iter().filter(|e| e.revision > after) {
                    if let Err(error) = self.event(&mut out, event).await {
                        self.lines.line(&mut out, "ERROR", &error.to_value());
                        return Live::Last(out.freeze());
                    }
                }
                if out.is_empty() {
                    Live::Nothing
                } else {
                    Live::Bytes(out.freeze())
                }
            }
            Ok(Err(lagged)) => {
                tracing::debug!(?lagged, "a watch fell behind and was closed");
                Live::Over
            }
            Err(_) if Instant::now() >= self.end => Live::Over,
            Err(_) => {
                self.next_bookmark = next_bookmark(self.end);
                Live::Bytes(self.lines.bookmark(subscription.revision(), false))
            }
        }
    }
}

enum Live {
    Bytes(Bytes),
    /// The end after an error.
    Last(Bytes),
    Nothing,
    Over,
}

struct Lines {
    reply: Reply,
    resource: Arc<Resource>,
    selection: Selection,
    namespace: Option<String>,
    clock: Clock,
    table_begun: bool,
}

impl Lines {
    fn selected(&self, entry: &Entry) -> bool {
        self.selection.matches(&self.resource, entry)
    }

    fn names(&self, event: &Event) -> bool {
        self.namespace.as_ref().is_none_or(|n| *n == event.key.namespace)
    }

    /// `entry` and `previous` are the event's, in the version of the watch.
    fn event(
        &mut self,
        out: &mut BytesMut,
        event: &Event,
        entry: &Arc<Entry>,
        previous: Option<&Arc<Entry>>,
    ) {
        if !self.names(event) {
            return;
        }
        let before = previous.is_some_and(|p| self.selected(p));
        let now = event.kind != EventKind::Deleted && self.selected(entry);
        match (before, now) {
            (false, true) => self.entry(out, "ADDED", entry),
            (true, true) => self.entry(out, "MODIFIED", entry),
            (true, false) if event.kind == EventKind::Deleted => self.entry(out, "DELETED", entry),
            // Left the selection: its last matching state, at the new revision.
            (true, false) => {
                if let Some(previous) = previous {
                    let mut last = previous.view().into_owned();
                    last["metadata"]["resourceVersion"] = json!(event.revision.to_string());
                    self.value(out, "DELETED", &last);
                }
            }
            (false, false) => {}
        }
    }

    fn entry(&mut self, out: &mut BytesMut, kind: &str, entry: &Arc<Entry>) {
        if self.reply.accepted == Accepted::JSON && self.resource.shows_as_stored(entry.api_version()) {
            out.put_slice(b"{\"type\":\"");
            out.put_slice(kind.as_bytes());
            out.put_slice(b"\",\"object\":");
            out.extend_from_slice(&entry.encoded());
            out.put_slice(b"}\n");
        } else {
            self.value(out, kind, &entry.view());
        }
    }

    fn value(&mut self, out: &mut BytesMut, kind: &str, object: &Value) {
        let shown = match self.resource.to_version(object) {
            Ok(shown) => shown,
            Err(error) => {
                self.line(out, "ERROR", &error.to_value());
                return;
            }
        };
        match self.reply.accepted.shape {
            Shape::Object => self.line(out, kind, &shown),
            Shape::PartialMetadata => self.line(out, kind, &table::partial_metadata(&shown)),
            Shape::Table => {
                let rendering = self.rendering();
                let mut rendered = table::render(&self.resource, std::iter::once(&*shown), rendering);
                rendered["metadata"] = json!({ "resourceVersion": shown["metadata"]["resourceVersion"] });
                self.line(out, kind, &rendered);
            }
        }
    }

    /// Ages count from now, and only the first table has columns.
    fn rendering(&mut self) -> table::Rendering {
        self.reply.now = (self.clock)();
        self.reply
            .rendering(!std::mem::replace(&mut self.table_begun, true))
    }

    fn bookmark(&mut self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({ "resourceVersion": revision.to_string() });
        if initial_end {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = json!({
            "kind": self.resource.kind,
            "apiVersion": self.resource.api_version(),
            "metadata": metadata,
        });
        let mut out = BytesMut::new();
        match self.reply.accepted.shape {
            Shape::Object => self.line(&mut out, "BOOKMARK", &object),
            Shape::PartialMetadata => self.line(&mut out, "BOOKMARK", &table::partial_metadata(&object)),
            Shape::Table => {
                let rendering = self.rendering();
                let mut rendered = table::render(&self.resource, std::iter::once(&object), rendering);
                rendered["metadata"] = json!({ "resourceVersion": revision.to_string() });
                self.line(&mut out, "BOOKMARK", &rendered);
            }
        }
        out.freeze()
    }

    fn expired(&self, asked: u64, oldest: u64) -> Bytes {
        let error = ApiError::expired(format!("too old resource version: {asked} ({oldest})"));
        let mut out = BytesMut::new();
        self.line(&mut out, "ERROR", &error.to_value());
        out.freeze()
    }

    fn line(&self, out: &mut BytesMut, kind: &str, object: &Value) {
        if self.reply.accepted.format == Format::Protobuf {
            let (kind, bytes) = match protobuf::encode_object(schema::kubernetes(), object) {
                Ok(bytes) => (kind, bytes),
                Err(error) => {
                    tracing::error!(%error, "an object has no protobuf form");
                    let status = ApiError::internal(error.to_string()).to_value();
                    let status = protobuf::encode_object(schema::kubernetes(), &status);
                    ("ERROR", status.unwrap_or_default())
                }
            };
            out.extend_from_slice(&protobuf::watch_frame(kind, &bytes));
            return;
        }
        out.put_slice(b"{\"type\":\"");
        out.put_slice(kind.as_bytes());
        out.put_slice(b"\",\"object\":");
        out.put_slice(object.to_string().as_bytes());
        out.put_slice(b"}\n");
    }
}
