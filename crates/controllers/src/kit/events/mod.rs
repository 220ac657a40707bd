//! Kubernetes Events about Equate's own objects, as Flux's controllers write them.
//!
//! They are core v1 Events, because Flux's tools read those: the controller as source, metadata as
//! annotations under the prefix of the object's API group. One task writes them.
//!
//! The queue, the remembered events and the new events per object and time are bounded ([`Limits`]), and tenants
//! share the room: one with many events loses its own. A repeated event raises a count. Events over a limit and
//! failed writes are counted and logged, never written late.

mod buckets;
pub(super) mod line;
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
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use self::buckets::Buckets;
use self::line::Line;
use super::notify::Notifier;
use super::read::chain;
use super::tenants::{Tenant, Tenants};

/// Whether an event is normal.
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
    /// The reporting controller, `kustomize-controller`.
    pub controller: &'static str,
    /// Normal or warning.
    pub severity: Severity,
    /// A condition's reason, `ReconciliationSucceeded`.
    pub reason: String,
    /// The message; shortened to [`MESSAGE_BYTES_MAX`].
    pub message: String,
    /// Metadata by names like `revision`; written with the prefix of the object's API group. Values longer than
    /// [`ANNOTATIONS_BYTES_MAX`] are left out.
    pub metadata: BTreeMap<String, String>,
    /// Annotations of the object that are copied to its events, `event.toolkit.fluxcd.io/...`; together at most
    /// [`ANNOTATIONS_BYTES_MAX`], in the order of their names.
    pub carried: BTreeMap<String, String>,
}

impl Event {
    /// An event about an object.
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
            carried: carried(&K::kind(&()), object.meta()),
        }
    }

    /// Adds metadata.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.metadata.insert(name.to_owned(), value.into());
        self
    }
}

fn warn_of_omission(kind: Option<&str>, namespace: Option<&str>, object: Option<&str>, left_out: &str) {
    tracing::warn!(
        kind,
        namespace,
        name = object,
        annotation = left_out,
        "an event does not have this annotation: it exceeds {ANNOTATIONS_BYTES_MAX} bytes, alone or with others; \
         make it shorter"
    );
}

fn carried(kind: &str, meta: &ObjectMeta) -> BTreeMap<String, String> {
    let all = meta.annotations.iter().flatten();
    let carried = all.filter(|(name, _)| name.starts_with(EVENT_PREFIX));
    let mut left = ANNOTATIONS_BYTES_MAX;
    let mut fits = |(name, value): &(&String, &String)| {
        let rest = left.checked_sub(name.len() + value.len());
        left = rest.unwrap_or(left);
        if rest.is_none() {
            warn_of_omission(Some(kind), meta.namespace.as_deref(), meta.name.as_deref(), name);
        }
        rest.is_some()
    };
    carried
        .filter(|each| fits(each))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Annotations that are copied to an event have at most so many bytes together, with their names.
pub const ANNOTATIONS_BYTES_MAX: usize = 4096;

/// A message is cut off after this many bytes.
pub const MESSAGE_BYTES_MAX: usize = 4096;
/// Room for the number of lines that are left out.
const MORE_BYTES: usize = 32;

/// The bounds of a recorder.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Events that wait to be written, of all tenants.
    pub line: usize,
    /// Events that are remembered, to count repetitions, and objects with new events.
    pub remembered: usize,
    /// How long an event is remembered after its last repetition.
    pub window: Duration,
    /// New events of one object at once.
    pub burst: u32,
    /// The time per new event of an object after the burst.
    pub refill: Duration,
    /// The time limit of a write.
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

/// Events by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Written as new.
    pub created: u64,
    /// Counted up.
    pub repeated: u64,
    /// Dropped: the queue was full, and no tenant had more events in it.
    pub crowded: u64,
    /// Dropped: the object had too many.
    pub spared: u64,
    /// Failed: the API server rejected them or did not answer.
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

/// Writes events; clones share one task, which ends with the last.
#[derive(Clone)]
pub struct Recorder {
    line: Arc<Line<Event>>,
    tally: Arc<Tally>,
    tenants: Tenants,
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
        let line = Arc::new(Line::new(limits.line));
        let tally = Arc::new(Tally::default());
        let writer = Writer {
            client,
            answer: limits.answer,
            memory: Memory::new(limits),
            tally: Arc::clone(&tally),
        };
        let writing = tokio::spawn(writer.run(Arc::clone(&line)));
        Self {
            line,
            tally,
            tenants: Tenants::default(),
            notifier: None,
            _task: Arc::new(AbortOnDropHandle::new(writing)),
        }
    }

    /// Shares the room between these tenants, instead of namespaces.
    #[must_use]
    pub fn between(mut self, tenants: Tenants) -> Self {
        self.tenants = tenants;
        self
    }

    /// Also posts each event to a receiver.
    #[must_use]
    pub fn notifying(mut self, notifier: Option<Notifier>) -> Self {
        self.notifier = notifier;
        self
    }

    /// Queues an event if there is room. Never waits, never fails.
    pub fn publish(&self, mut event: Event) {
        log(&event);
        let about = &event.about;
        event.metadata.retain(|name, value| {
            let fits = value.len() <= ANNOTATIONS_BYTES_MAX;
            if !fits {
                let (kind, namespace, object) = (&about.kind, &about.namespace, &about.name);
                warn_of_omission(kind.as_deref(), namespace.as_deref(), object.as_deref(), name);
            }
            fits
        });
        let tenant = self
            .tenants
            .of(event.about.namespace.as_deref().unwrap_or_default());
        if let Some(notifier) = &self.notifier {
            notifier.publish(&tenant, &event, annotations(&event));
        }
        event.message = shortened(event.message);
        if let Some(event) = self.line.push(&tenant, event) {
            self.tally.crowded.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                object = event.about.name,
                reason = event.reason,
                "an event is dropped: the queue is full"
            );
        }
    }

    /// The numbers so far.
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

/// Logs one line with the field names of Flux's controllers. The target allows other displays of events
/// to filter it.
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
    async fn run(mut self, line: Arc<Line<Event>>) {
        loop {
            let (tenant, event) = line.next().await;
            self.write(&tenant, &event).await;
        }
    }

    async fn write(&mut self, tenant: &Tenant, event: &Event) {
        let identity = Identity::of(event);
        let step = self.memory.step(tenant, &identity, Instant::now());
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
            Ok(name) => self.memory.wrote(tenant, identity.digest, name, Instant::now()),
            Err(error) => {
                self.tally.refused.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    error = chain(&error),
                    object = event.about.name,
                    reason = event.reason,
                    "cannot write an event"
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

    /// Increments an event's count; makes a new one if the API server has dropped it by its age.
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
            Err(_) => Err(WriteError::Timeout(self.answer)),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("the API server rejected it")]
    Refused(#[from] kube::Error),
    #[error("no answer within {}s", .0.as_secs())]
    Timeout(Duration),
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
        message: Some(cut(&event.message, MESSAGE_BYTES_MAX).to_owned()),
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

fn annotations(event: &Event) -> Option<BTreeMap<String, String>> {
    let api_version = event.about.api_version.as_deref().unwrap_or_default();
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let all = event.metadata.iter();
    let all = all.map(|(name, value)| (format!("{group}/{name}"), value.clone()));
    let carried = event.carried.iter();
    let carried = carried.map(|(name, value)| (name.clone(), value.clone()));
    // the controller's own metadata wins
    let all: BTreeMap<_, _> = carried.chain(all).collect();
    (!all.is_empty()).then_some(all)
}

/// The whole lines of a long message that fit, and the number of the others. A long last line is cut off.
fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        let room = cut(&message, MESSAGE_BYTES_MAX - MORE_BYTES);
        let end = room.rfind('\n').filter(|end| *end >= room.len() / 4 * 3);
        let room = end.unwrap_or(room.len());
        let left_out = message[room..].lines().skip(usize::from(end.is_none()));
        let more = match left_out.filter(|line| !line.is_empty()).count() {
            0 => String::new(),
            1 => "\nand 1 more line".to_owned(),
            more => format!("\nand {more} more lines"),
        };
        let room = if more.is_empty() { MESSAGE_BYTES_MAX } else { room };
        let kept = cut(&message, room).len();
        message.truncate(kept);
        message.push_str(&more);
    }
    message.shrink_to_fit();
    message
}

pub(super) fn cut(message: &str, bytes_max: usize) -> &str {
    let mut end = message.len().min(bytes_max);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

/// An event without its time. A digest stands for its texts: thousands are remembered, of some KiB each.
struct Identity {
    object: String,
    digest: Digest,
}

type Digest = [u8; 32];

impl Identity {
    fn of(event: &Event) -> Self {
        let about = &event.about;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let object = format!(
            "{}/{}/{}",
            part(&about.kind),
            part(&about.namespace),
            part(&about.name)
        );
        let uid = part(&about.uid);
        let parts = [
            &*uid,
            &*object,
            event.severity.as_str(),
            &*event.reason,
            cut(&event.message, MESSAGE_BYTES_MAX),
        ];
        let metadata = event
            .metadata
            .iter()
            .flat_map(|(name, value)| [&**name, &**value]);
        let mut hash = Sha256::new();
        for part in parts.into_iter().chain(metadata) {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        Self {
            object,
            digest: hash.finalize().into(),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Create,
    Repeat { name: String, count: i32 },
    Spare,
}

#[derive(Debug)]
struct Written {
    name: String,
    count: i32,
    seen: Instant,
}

impl Written {
    fn is_over(&self, window: Duration, now: Instant) -> bool {
        now.duration_since(self.seen) >= window
    }
}

#[derive(Debug)]
struct Memory {
    written: HashMap<Digest, Written>,
    /// Oldest first, by the first write, of each tenant.
    order: BTreeMap<Tenant, VecDeque<Digest>>,
    buckets: Buckets,
    sweep_after: Option<Instant>,
    limits: Limits,
}

impl Memory {
    fn new(limits: Limits) -> Self {
        Self {
            written: HashMap::new(),
            order: BTreeMap::new(),
            buckets: Buckets::of(&limits),
            sweep_after: None,
            limits,
        }
    }

    fn step(&mut self, tenant: &Tenant, identity: &Identity, now: Instant) -> Step {
        if self.sweep_after.is_none_or(|after| after <= now) {
            self.sweep_after = Some(now + self.limits.window);
            self.sweep(now);
        }
        if let Some(written) = self.written.get(&identity.digest)
            && !written.is_over(self.limits.window, now)
        {
            return Step::Repeat {
                name: written.name.clone(),
                count: written.count.saturating_add(1),
            };
        }
        if self.buckets.spend(tenant, &identity.object, now) {
            Step::Create
        } else {
            Step::Spare
        }
    }

    fn sweep(&mut self, now: Instant) {
        let window = self.limits.window;
        self.written.retain(|_, written| !written.is_over(window, now));
        self.written.shrink_to(2 * self.written.len());
        self.order.retain(|_, order| {
            order.retain(|identity| self.written.contains_key(identity));
            order.shrink_to(2 * order.len());
            !order.is_empty()
        });
        self.buckets.sweep(now);
    }

    /// While too many are remembered, the tenant with the most loses its oldest.
    fn make_room(&mut self, tenant: &Tenant) {
        if self.written.len() < self.limits.remembered.max(1) {
            return;
        }
        let others = self.order.iter_mut().filter(|(_, order)| !order.is_empty());
        let largest = others.max_by_key(|(other, order)| order.len() + usize::from(*other == tenant));
        if let Some(oldest) = largest.and_then(|(_, order)| order.pop_front()) {
            self.written.remove(&oldest);
        }
    }

    fn wrote(&mut self, tenant: &Tenant, identity: Digest, name: Option<String>, now: Instant) {
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
                self.make_room(tenant);
                self.order.entry(tenant.clone()).or_default().push_back(identity);
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
