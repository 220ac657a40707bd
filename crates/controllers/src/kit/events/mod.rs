//! Kubernetes Events about our own objects, as Flux's controllers write them.
//!
//! Core v1 Events, because that is what Flux's tools read: the controller as source, what
//! is known of the matter as annotations under the prefix of the object's API group. One
//! task writes; whoever publishes only puts the event in a line and goes on.
//!
//! Bounded in every direction: the line ([`Limits::line`]), the events that are remembered
//! for repeating ([`Limits::remembered`]), and the new events per object and time
//! ([`Limits::burst`], [`Limits::refill`]). The same event again raises a count instead of
//! making another. What is over a limit, or cannot be written, is counted and logged;
//! nothing is ever written late.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use equate_api::meta::EVENT_PREFIX;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::notify::Notifier;

/// Whether something is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
}

impl Severity {
    const fn as_str(self) -> &'static str {
        match self {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        }
    }
}

/// Something happened to an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The object.
    pub about: ObjectReference,
    /// The controller that says so, `kustomize-controller`.
    pub controller: &'static str,
    /// Whether it is as it should be.
    pub severity: Severity,
    /// A condition's reason, `ReconciliationSucceeded`.
    pub reason: String,
    /// For people; what is over [`MESSAGE_BYTES_MAX`] is cut off.
    pub message: String,
    /// What it is about, by names like `revision`; each is written with the prefix of the
    /// object's API group.
    pub metadata: BTreeMap<String, String>,
    /// Annotations of the object that travel with its events, `event.toolkit.fluxcd.io/...`.
    pub carried: BTreeMap<String, String>,
}

impl Event {
    /// About an object as the API server answers it.
    pub fn about<K: Resource<DynamicType = ()>>(
        object: &K,
        controller: &'static str,
        severity: Severity,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            about: object.object_ref(&()),
            controller,
            severity,
            reason: reason.into(),
            message: message.into(),
            metadata: BTreeMap::new(),
            carried: carried(object.meta()),
        }
    }

    /// Adds what it is about.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.metadata.insert(name.to_owned(), value.into());
        self
    }
}

fn carried(meta: &ObjectMeta) -> BTreeMap<String, String> {
    let all = meta.annotations.iter().flatten();
    let carried = all.filter(|(name, _)| name.starts_with(EVENT_PREFIX));
    carried
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// A message is cut off after this many bytes.
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// The bounds of a recorder.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Events that wait to be written.
    pub line: usize,
    /// Events remembered, so that they can be counted up when they repeat.
    pub remembered: usize,
    /// How long an event is remembered after it was last seen.
    pub window: Duration,
    /// New events of one object at once.
    pub burst: u32,
    /// After the burst, one new event of the object in this time.
    pub refill: Duration,
    /// How long a write may take.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // two for each of some thousand Kustomizations that become ready together
            line: 8192,
            remembered: 16_384,
            window: Duration::from_secs(10 * 60),
            // client-go allows 25 and one in five minutes; a session on a laptop makes more
            burst: 25,
            refill: Duration::from_secs(20),
            answer: Duration::from_secs(10),
        }
    }
}

/// What became of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Written as new.
    pub created: u64,
    /// Counted up.
    pub repeated: u64,
    /// Not written: the line was full.
    pub crowded: u64,
    /// Not written: the object had too many.
    pub spared: u64,
    /// Not written: the API server did not take them.
    pub refused: u64,
}

#[derive(Default)]
struct Tally {
    created: AtomicU64,
    repeated: AtomicU64,
    crowded: AtomicU64,
    spared: AtomicU64,
    refused: AtomicU64,
}

/// Writes events; clones are the same recorder. The last one ends it.
#[derive(Clone)]
pub struct Recorder {
    line: mpsc::Sender<Event>,
    tally: Arc<Tally>,
    notifier: Option<Notifier>,
    _task: Arc<AbortOnDropHandle<()>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl Recorder {
    /// Starts the task that writes.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(client: Client, limits: Limits) -> Self {
        let (line, events) = mpsc::channel(limits.line.max(1));
        let tally = Arc::new(Tally::default());
        let writer = Writer {
            client,
            answer: limits.answer,
            memory: Memory::new(limits),
            tally: Arc::clone(&tally),
        };
        Self {
            line,
            tally,
            notifier: None,
            _task: Arc::new(AbortOnDropHandle::new(tokio::spawn(writer.run(events)))),
        }
    }

    /// Has each event posted to a receiver as well.
    #[must_use]
    pub fn notifying(mut self, notifier: Option<Notifier>) -> Self {
        self.notifier = notifier;
        self
    }

    /// Has an event written, if there is room. Never waits, never fails.
    pub fn publish(&self, event: Event) {
        log(&event);
        if let Some(notifier) = &self.notifier {
            notifier.publish(&event, annotations(&event));
        }
        if let Err(error) = self.line.try_send(event) {
            self.tally.crowded.fetch_add(1, Ordering::Relaxed);
            let event = error.into_inner();
            tracing::warn!(
                object = ?event.about.name,
                reason = event.reason,
                "an event is not written: too many wait"
            );
        }
    }

    /// What became of the events so far.
    pub fn counts(&self) -> Counts {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Counts {
            created: read(&self.tally.created),
            repeated: read(&self.tally.repeated),
            crowded: read(&self.tally.crowded),
            spared: read(&self.tally.spared),
            refused: read(&self.tally.refused),
        }
    }
}

/// One line, by the names Flux's controllers use. The target is for those who show events otherwise.
fn log(event: &Event) {
    let Event {
        about,
        controller,
        severity,
        reason,
        message,
        metadata,
        carried: _,
    } = event;
    let [kind, namespace, name] =
        [&about.kind, &about.namespace, &about.name].map(|part| part.as_deref().unwrap_or_default());
    let revision = metadata.get("revision");
    match severity {
        Severity::Normal => tracing::info!(
            target: "equate::told",
            controller, controllerKind = kind, namespace, name, reason, revision, "{message}"
        ),
        Severity::Warning => tracing::error!(
            target: "equate::told",
            controller, controllerKind = kind, namespace, name, reason, revision, "{message}"
        ),
    }
}

struct Writer {
    client: Client,
    memory: Memory,
    answer: Duration,
    tally: Arc<Tally>,
}

impl Writer {
    async fn run(mut self, mut events: mpsc::Receiver<Event>) {
        while let Some(event) = events.recv().await {
            self.write(&event).await;
        }
    }

    async fn write(&mut self, event: &Event) {
        let identity = Identity::of(event);
        let step = self.memory.step(&identity, Instant::now());
        let now = Timestamp::now();
        let namespace = event.about.namespace.as_deref().unwrap_or("default");
        let api: Api<CoreEvent> = Api::namespaced(self.client.clone(), namespace);
        let written = match step {
            Step::Spare => {
                self.tally.spared.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Step::Create => self.create(&api, event, now).await.map(Some),
            Step::Repeat { name, count } => self.repeat(&api, event, &name, count, now).await,
        };
        match written {
            Ok(name) => self.memory.wrote(identity, name, Instant::now()),
            Err(error) => {
                self.tally.refused.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    %error,
                    object = ?event.about.name,
                    reason = event.reason,
                    "an event is not written"
                );
            }
        }
    }

    async fn create(
        &self,
        api: &Api<CoreEvent>,
        event: &Event,
        now: Timestamp,
    ) -> Result<String, WriteError> {
        let object = core_event(event, now);
        let name = object.metadata.name.clone().unwrap_or_default();
        self.limited(api.create(&PostParams::default(), &object)).await?;
        self.tally.created.fetch_add(1, Ordering::Relaxed);
        Ok(name)
    }

    /// Counts an event up; makes a new one where the API server has dropped it by its age.
    async fn repeat(
        &self,
        api: &Api<CoreEvent>,
        event: &Event,
        name: &str,
        count: i32,
        now: Timestamp,
    ) -> Result<Option<String>, WriteError> {
        let patch = Patch::Merge(json!({ "count": count, "lastTimestamp": Time(now) }));
        let params = PatchParams::default();
        match self.limited(api.patch(name, &params, &patch)).await {
            Ok(_) => {
                self.tally.repeated.fetch_add(1, Ordering::Relaxed);
                Ok(None)
            }
            Err(WriteError::Refused(kube::Error::Api(status))) if status.is_not_found() => {
                self.create(api, event, now).await.map(Some)
            }
            Err(error) => Err(error),
        }
    }

    async fn limited<T>(&self, write: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
        match timeout(self.answer, write).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(WriteError::Silent(self.answer)),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("the API server did not take it")]
    Refused(#[from] kube::Error),
    #[error("no answer within {}s", .0.as_secs())]
    Silent(Duration),
}

fn core_event(event: &Event, now: Timestamp) -> CoreEvent {
    let about = &event.about;
    let name = about.name.as_deref().unwrap_or("unnamed");
    CoreEvent {
        metadata: ObjectMeta {
            // as client-go names them: unique as long as the clock moves on
            name: Some(format!("{name}.{:x}", now.as_nanosecond())),
            namespace: Some(about.namespace.clone().unwrap_or_else(|| "default".to_owned())),
            annotations: annotations(event),
            ..ObjectMeta::default()
        },
        involved_object: about.clone(),
        reason: Some(event.reason.clone()),
        message: Some(cut(&event.message).to_owned()),
        type_: Some(event.severity.as_str().to_owned()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        source: Some(EventSource {
            component: Some(event.controller.to_owned()),
            host: None,
        }),
        reporting_component: Some(event.controller.to_owned()),
        reporting_instance: Some(event.controller.to_owned()),
        ..CoreEvent::default()
    }
}

/// The metadata under the group of the object, `kustomize.toolkit.fluxcd.io/revision`.
fn annotations(event: &Event) -> Option<BTreeMap<String, String>> {
    let api_version = event.about.api_version.as_deref().unwrap_or_default();
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let all = event.metadata.iter();
    let all = all.map(|(name, value)| (format!("{group}/{name}"), value.clone()));
    let carried = event.carried.iter();
    let carried = carried.map(|(name, value)| (name.clone(), value.clone()));
    // what a controller says of the matter wins
    let all: BTreeMap<_, _> = carried.chain(all).collect();
    (!all.is_empty()).then_some(all)
}

fn cut(message: &str) -> &str {
    let mut end = message.len().min(MESSAGE_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

/// What makes two events the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Identity {
    uid: String,
    object: String,
    severity: Severity,
    reason: String,
    message: String,
    metadata: BTreeMap<String, String>,
}

impl Identity {
    fn of(event: &Event) -> Arc<Self> {
        let about = &event.about;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        Arc::new(Self {
            uid: part(&about.uid),
            object: format!(
                "{}/{}/{}",
                part(&about.kind),
                part(&about.namespace),
                part(&about.name)
            ),
            severity: event.severity,
            reason: event.reason.clone(),
            message: cut(&event.message).to_owned(),
            metadata: event.metadata.clone(),
        })
    }
}

/// What to do with an event.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Create,
    Repeat {
        name: String,
        count: i32,
    },
    /// The object had too many.
    Spare,
}

#[derive(Debug)]
struct Written {
    name: String,
    count: i32,
    seen: Instant,
}

/// Tokens for new events; one comes back per refill.
#[derive(Debug)]
struct Bucket {
    tokens: u32,
    filled: Instant,
}

/// What was written lately; pure, instants come in.
#[derive(Debug)]
struct Memory {
    written: HashMap<Arc<Identity>, Written>,
    /// In the order of their first writing: the oldest is forgotten first.
    order: VecDeque<Arc<Identity>>,
    buckets: HashMap<String, Bucket>,
    limits: Limits,
}

impl Memory {
    fn new(limits: Limits) -> Self {
        Self {
            written: HashMap::new(),
            order: VecDeque::new(),
            buckets: HashMap::new(),
            limits,
        }
    }

    fn step(&mut self, identity: &Arc<Identity>, now: Instant) -> Step {
        if let Some(written) = self.written.get(identity)
            && now.duration_since(written.seen) < self.limits.window
        {
            return Step::Repeat {
                name: written.name.clone(),
                count: written.count.saturating_add(1),
            };
        }
        if self.spend(&identity.object, now) {
            Step::Create
        } else {
            Step::Spare
        }
    }

    fn spend(&mut self, object: &str, now: Instant) -> bool {
        let (burst, refill) = (self.limits.burst.max(1), self.limits.refill);
        let remembered = self.limits.remembered.max(1);
        if self.buckets.len() >= remembered && !self.buckets.contains_key(object) {
            // a full bucket says nothing that its absence does not
            self.buckets.retain(|_, bucket| {
                bucket.fill(burst, refill, now);
                bucket.tokens < burst
            });
            if self.buckets.len() >= remembered {
                return false;
            }
        }
        let bucket = self.buckets.entry(object.to_owned()).or_insert(Bucket {
            tokens: burst,
            filled: now,
        });
        bucket.fill(burst, refill, now);
        let Some(left) = bucket.tokens.checked_sub(1) else {
            return false;
        };
        bucket.tokens = left;
        true
    }

    /// An event was written, under a new name or counted up.
    fn wrote(&mut self, identity: Arc<Identity>, name: Option<String>, now: Instant) {
        match (self.written.get_mut(&identity), name) {
            (Some(written), None) => {
                written.count = written.count.saturating_add(1);
                written.seen = now;
            }
            (Some(written), Some(name)) => {
                *written = Written {
                    name,
                    count: 1,
                    seen: now,
                };
            }
            (None, None) => {}
            (None, Some(name)) => {
                if self.order.len() >= self.limits.remembered.max(1)
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.written.remove(&oldest);
                }
                self.order.push_back(Arc::clone(&identity));
                self.written.insert(
                    identity,
                    Written {
                        name,
                        count: 1,
                        seen: now,
                    },
                );
            }
        }
    }
}

impl Bucket {
    fn fill(&mut self, burst: u32, refill: Duration, now: Instant) {
        let periods = now.duration_since(self.filled).as_nanos() / refill.as_nanos().max(1);
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        if self.tokens.saturating_add(periods) >= burst {
            self.tokens = burst;
            self.filled = now;
        } else {
            self.tokens += periods;
            self.filled += refill * periods;
        }
    }
}
