//! The kit: the services that the controllers of one process share.
//!
//! It knows no controller: wakes use [`ObjectRef`], and controllers ask for their settings and register
//! their rules.

#[cfg(test)]
mod tests;

use std::any::{Any, TypeId};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use equate_apply::cluster::Cluster;
use equate_apply::id::ObjectId;
use equate_apply::owner::OwnerKind;
use equate_apply::rules::OwnerRules;
use equate_bucket::{AwsEnvironment, Stores};
use equate_egress::Egress;
use equate_git::Mirrors;
use equate_priority::Background;
use equate_registry::{ReadImages, Registries};
use equate_source::Storage;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::backoff::Jitter;
use super::callbacks::CallbackTime;
use super::controller::Reconcilable;
use super::events::Recorder;
use super::feed::Pace;
use super::inputs::InputWatcher;
use super::mirror::{Change, Mirror};
use super::missing_kinds::MissingByOwner;
use super::owner_rules::RulesByKind;
use super::processors::{Processors, Threads};
use super::sessions::Sessions;
use super::tenants::Tenants;
use super::time_limit::TimeLimit;
use super::wake::Reason;
use super::waker::Waker;
use super::watcher::{ObjectWatcher, Wake};
use super::yielding::YieldPolicy;
use crate::ownership::graph::OwnershipGraph;
use crate::sources::artifacts::{self, Artifacts};
use crate::sources::charts::{ChartRepositories, HelmSettings};
use crate::sources::http::Http;
use crate::sources::readers::SourceReaders;
use crate::sources::watches::Watches;
use crate::sources::{OnEvent, Publishes, SourceEvent, Sources, local};
use crate::targets::remote::RemoteClusters;
use crate::targets::target::{Access, TargetCluster};
use crate::{ObjectRef, OwnLoop, Policy, Shards};

/// The least time between two reports that an object is throttled.
const THROTTLED_PAUSE: Duration = Duration::from_secs(300);

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) root: Option<OwnLoop>,
    pub(crate) default_namespace: Option<String>,
    pub(crate) poll: Option<Duration>,
    pub(crate) http_retries: u32,
    pub(crate) pace: Pace,
    pub(crate) jitter: Jitter,
    /// The largest share by which an interval varies.
    pub(crate) interval_jitter: f64,
    /// How often an object that waits for others retries.
    pub(crate) dependency_retry: Duration,
    pub(crate) policy: Policy,
    pub(crate) shards: Shards,
    pub(crate) egress: Egress,
    pub(crate) tenants: Tenants,
    /// The limit of a build, fetch or download.
    pub(crate) timeout_max: Duration,
    pub(crate) threads: Threads,
    /// Polls the runs of busy tenants.
    pub(crate) background: Option<Background>,
    /// API groups and kinds that nothing reconciles: their health is not awaited.
    pub(crate) unreconciled: BTreeSet<(String, String)>,
}

/// Counters of a process, for kinds that apply objects. Relaxed: no logic depends on their order.
#[derive(Debug, Default)]
pub struct Tally {
    pub(crate) builds: AtomicU64,
    pub(crate) builds_skipped: AtomicU64,
    pub(crate) applies: AtomicU64,
    pub(crate) prunes: AtomicU64,
    pub(crate) corrections: AtomicU64,
    pub(crate) status_patches: AtomicU64,
    pub(crate) prune_checks: AtomicU64,
}

/// The services that the controllers of a process share.
pub struct Kit {
    /// The API server, with this process's own rights.
    pub client: Client,
    /// The store of artifacts.
    pub storage: Storage,
    /// Publishes events.
    pub recorder: Recorder,
    /// Wakes objects of any kind.
    pub waker: Waker,
    pub(crate) settings: Settings,
    pub(crate) git: Mirrors,
    pub(crate) registries: Registries,
    /// Stores of buckets.
    pub(crate) buckets: Stores,
    /// The longest wait of an upgrade for the rest of its commit.
    pub(crate) commit_wait: CommitWait,
    /// Watches directories that stand for sources.
    pub(crate) watches: Watches,
    pub(crate) tally: Tally,
    pub(crate) sources: Sources,
    on_source_change: OnEvent,
    pub(crate) source_readers: Arc<SourceReaders>,
    pub(crate) charts: ChartRepositories,
    pub(crate) artifacts: Artifacts,
    pub(crate) inputs: InputWatcher,
    pub(crate) cluster: Cluster,
    pub(crate) objects: ObjectWatcher,
    pub(crate) remote_clusters: RemoteClusters,
    pub(crate) owner_rules: Arc<RulesByKind>,
    pub(crate) processors: Processors,
    pub(crate) callback_time: Arc<CallbackTime>,
    pub(crate) yielding: YieldPolicy,
    pub(crate) sessions: Sessions,
    /// When objects were last reported as throttled.
    throttled: Mutex<HashMap<ObjectRef, Instant>>,
    /// Follows the labels of tenants.
    tenants: Mutex<Option<AbortOnDropHandle<()>>>,
    /// The files that declare this process, with the number of objects in each.
    pub(crate) own_files: Mutex<BTreeMap<String, usize>>,
    pub(crate) missing_kinds: MissingByOwner,
    ownership: Arc<Mutex<OwnershipGraph>>,
    mirrors: Mutex<Registry>,
    configuration: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    kinds: BTreeSet<&'static str>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Registry {
    mirrors: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    begin: Vec<Box<dyn Fn() + Send + Sync>>,
    begun: bool,
}

impl Registry {
    fn get<K: 'static>(&self) -> Option<Mirror<K>> {
        let mirror = self.mirrors.get(&TypeId::of::<K>())?;
        mirror.downcast_ref::<Mirror<K>>().cloned()
    }

    fn enter<K>(&mut self, mirror: Mirror<K>, changes: &watch::Sender<u64>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + Sync + 'static,
    {
        let changes = changes.clone();
        mirror.subscribe(move |_| changes.send_modify(|count| *count += 1));
        match self.begun {
            true => mirror.begin(),
            false => {
                let mirror = mirror.clone();
                self.begin.push(Box::new(move || mirror.begin()));
            }
        }
        self.mirrors.insert(TypeId::of::<K>(), Box::new(mirror));
    }
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kit")
            .field("kinds", &self.kinds)
            .field("tally", &self.tally)
            .finish_non_exhaustive()
    }
}

pub(crate) struct Parts {
    pub(crate) client: Client,
    pub(crate) storage: Storage,
    pub(crate) git: Mirrors,
    pub(crate) recorder: Recorder,
    pub(crate) settings: Settings,
    pub(crate) configuration: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    pub(crate) kinds: BTreeSet<&'static str>,
}

/// Why the kit cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum KitError {
    /// The cache of other processes' artifacts cannot be opened.
    #[error("cannot open the cache of other processes' artifacts")]
    Cache(#[from] equate_source::CacheError),
    /// The HTTP client cannot be made.
    #[error("cannot make an HTTP client")]
    Http(#[from] reqwest::Error),
}

impl Kit {
    pub(crate) fn new(parts: Parts) -> Result<Kit, KitError> {
        let Parts {
            client,
            storage,
            git,
            recorder,
            settings,
            configuration,
            kinds,
        } = parts;
        let (waker, changes) = (Waker::default(), watch::Sender::new(0));
        let pace = &settings.pace;
        let ownership = Arc::new(Mutex::new(OwnershipGraph::default()));
        let processors = Processors::of_machine(settings.tenants.clone(), settings.threads.clone());
        let sessions = Sessions::new(settings.tenants.clone());
        let callback_time = Arc::new(CallbackTime::new(settings.tenants.clone()));
        let yielding = YieldPolicy::new(settings.tenants.clone(), settings.background.clone());
        let owner_rules = Arc::new(RulesByKind::default());
        let rules = || Arc::clone(&owner_rules) as Arc<dyn OwnerRules>;
        let object_changed = {
            let (waker, changes) = (waker.clone(), changes.clone());
            move |wake: Wake| {
                changes.send_modify(|count| *count += 1);
                waker.wake(&wake.object, Reason::Object);
            }
        };
        let objects = ObjectWatcher::new(client.clone(), pace.clone(), rules(), object_changed.clone());
        let remote_clusters = RemoteClusters::new(pace.clone(), rules(), yielding.clone(), object_changed);
        let inputs = {
            let (ownership, waker) = (Arc::clone(&ownership), waker.clone());
            InputWatcher::new(client.clone(), pace.clone(), move |holder| {
                let fed = lock(&ownership).fed_by(holder);
                waker.wake_all(fed.into_iter().map(|object| (object, Reason::Input)));
            })
        };
        let artifacts = {
            let fetching = artifacts::Settings {
                cache: storage.cache()?,
                retries: settings.http_retries,
                jitter: settings.jitter.clone(),
                processors: processors.clone(),
                sessions: sessions.clone(),
                attempt_max: TimeLimit::of(artifacts::ATTEMPT_MAX, settings.timeout_max),
                egress: settings.egress.clone(),
            };
            let waker = waker.clone();
            Artifacts::new(fetching, move |reader| {
                waker.wake(&reader, Reason::Source);
            })?
        };
        let source_readers = Arc::new(SourceReaders::default());
        let on_source_change: OnEvent = {
            let (ownership, waker) = (Arc::clone(&ownership), waker.clone());
            let others = Arc::clone(&source_readers);
            Arc::new(move |event| {
                let readers = readers(&mut lock(&ownership), &event);
                let readers = readers.into_iter().chain(others.of(&event));
                waker.wake_all(readers.map(|reader| (reader, Reason::Source)));
            })
        };
        let helm = configured::<HelmSettings>(&configuration);
        let charts = ChartRepositories::new(
            Http::new(settings.egress.clone()),
            helm.clone(),
            storage.clone(),
            processors.clone(),
        );
        let sources = Sources::new(&client, pace, &on_source_change);
        let commit_wait = configured::<CommitWait>(&configuration);
        let environment = configured::<AwsEnvironment>(&configuration);
        let limits = equate_bucket::Limits::default();
        let buckets = Stores::identified(settings.egress.clone(), limits, environment);
        let images: ReadImages = Arc::new(move |place| Ok(local::images(place, &helm)?));
        let limits = equate_registry::Limits::default();
        let registries = Registries::reading(settings.egress.clone(), limits, images);
        Ok(Kit {
            cluster: Cluster::new(client.clone()),
            objects,
            client,
            storage,
            recorder,
            watches: Watches::new(waker.clone()),
            waker,
            settings,
            git,
            registries,
            buckets,
            commit_wait,
            tally: Tally::default(),
            sources,
            on_source_change,
            source_readers,
            charts,
            artifacts,
            inputs,
            remote_clusters,
            owner_rules,
            processors,
            callback_time,
            yielding,
            sessions,
            throttled: Mutex::default(),
            tenants: Mutex::default(),
            own_files: Mutex::default(),
            missing_kinds: MissingByOwner::default(),
            ownership,
            mirrors: Mutex::default(),
            configuration,
            kinds,
            changes,
        })
    }

    /// The mirror of a custom resource, shared by all callers.
    pub fn mirror<K>(&self) -> Mirror<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + Sync + 'static,
    {
        // under one lock: two that ask first get the same
        let mut registry = self.registry();
        registry.get().unwrap_or_else(|| {
            let mirror = Mirror::new(self.client.clone(), self.settings.pace.clone());
            registry.enter(mirror.clone(), &self.changes);
            mirror
        })
    }

    pub(crate) fn known_mirror<K: 'static>(&self) -> Option<Mirror<K>> {
        self.registry().get()
    }

    /// The settings of one controller by type, or their default.
    pub fn configuration<T: Clone + Default + Send + Sync + 'static>(&self) -> T {
        configured(&self.configuration)
    }

    /// This cluster, for the objects of this kind of owner.
    pub(crate) fn here(&self, owners: &'static OwnerKind) -> Access {
        let (cluster, objects) = (self.cluster.clone(), self.objects.clone());
        Access::full(TargetCluster::Local, cluster, objects, owners)
    }

    /// Whether this process reconciles an object of a kind.
    pub fn reconciles(&self, kind: &str, meta: &ObjectMeta) -> bool {
        self.kinds.contains(kind) && self.settings.shards.own(meta)
    }

    /// Whether nothing reconciles objects of a kind, so that they never become healthy.
    pub(crate) fn is_unreconciled(&self, id: &ObjectId) -> bool {
        let kinds = &self.settings.unreconciled;
        !kinds.is_empty() && kinds.contains(&(id.group.to_string(), id.kind.to_string()))
    }

    /// An interval with jitter, so that objects do not run together.
    pub fn spread(&self, interval: Duration) -> Duration {
        let Settings {
            jitter,
            interval_jitter,
            ..
        } = &self.settings;
        jitter.spread(interval, *interval_jitter)
    }

    /// The ownership graph. Not held across an await.
    pub(crate) fn ownership(&self) -> MutexGuard<'_, OwnershipGraph> {
        lock(&self.ownership)
    }

    /// Notes that this process fetched a source, so its status is current.
    pub(crate) fn source_checked(&self, source: &ObjectRef) {
        let (first, wakes) = {
            let mut ownership = self.ownership();
            (
                !ownership.announcements.is_source_checked(source),
                ownership.source_checked(source),
            )
        };
        self.waker.wake_all(wakes);
        if first {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    /// Changes whenever a mirror or a watched object does.
    pub(crate) fn changes(&self) -> &watch::Sender<u64> {
        &self.changes
    }

    /// Whether to report an object as throttled: not again for [`THROTTLED_PAUSE`].
    pub(super) fn report_throttled(&self, object: ObjectRef) -> bool {
        let mut throttled = self.throttled.lock().unwrap_or_else(PoisonError::into_inner);
        throttled.retain(|_, at| at.elapsed() < THROTTLED_PAUSE);
        match throttled.entry(object) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                entry.insert(Instant::now());
                true
            }
        }
    }

    /// Starts every mirror, also those requested later.
    pub(crate) fn begin(&self) {
        let following = (self.settings.tenants).follow(self.client.clone(), self.settings.pace.clone());
        *self.tenants.lock().unwrap_or_else(PoisonError::into_inner) = following;
        let mut registry = self.registry();
        registry.begun = true;
        registry.begin.drain(..).for_each(|begin| begin());
    }

    /// The mirror of sources that this process reconciles. Their controller calls this when it is made:
    /// from then on the readers of their artifacts are woken, and read them from the store.
    pub(crate) fn serve_source<K: Publishes + Reconcilable>(&self) -> Mirror<K> {
        let (mirror, shards) = (self.mirror::<K>(), self.settings.shards.clone());
        self.sources.serve(&mirror, &shards, &self.on_source_change);
        let (ownership, waker) = (Arc::clone(&self.ownership), self.waker.clone());
        mirror.subscribe(move |change: &Change<K>| {
            let own = |object: &Arc<K>| shards.own(object.meta());
            let (was, is) = (change.before.as_ref().map(own), change.after.as_ref().map(own));
            if was == is {
                return;
            }
            let source = ObjectRef::of(K::KIND, &change.key);
            let wakes = match is {
                // another process fetches it: its status is all there is to know
                Some(false) => lock(&ownership).source_checked(&source),
                Some(true) => {
                    lock(&ownership).announcements.forget_source(&source);
                    Vec::new()
                }
                None => Vec::new(),
            };
            waker.wake_all(wakes);
        });
        mirror
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.mirrors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The longest wait of an upgrade for the rest of a commit. Usually it takes as long as the other objects of the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitWait(pub Duration);

impl Default for CommitWait {
    fn default() -> Self {
        Self(Duration::from_millis(800))
    }
}

fn configured<T: Clone + Default + Send + Sync + 'static>(
    configuration: &HashMap<TypeId, Box<dyn Any + Send + Sync>>,
) -> T {
    let set = configuration.get(&TypeId::of::<T>());
    set.and_then(|set| set.downcast_ref::<T>())
        .cloned()
        .unwrap_or_default()
}

/// A panic elsewhere leaves no half-done state: the graph's calls are total.
fn lock(graph: &Mutex<OwnershipGraph>) -> MutexGuard<'_, OwnershipGraph> {
    graph.lock().unwrap_or_else(PoisonError::into_inner)
}

fn readers(graph: &mut OwnershipGraph, event: &SourceEvent) -> Vec<ObjectRef> {
    graph.announcements.outdate_surveys();
    match event {
        SourceEvent::Artifact { source, gone } => {
            if *gone {
                graph.announcements.forget_source(source);
            }
            graph.readers(source)
        }
        SourceEvent::Kind(kind) => graph.readers_of(kind),
    }
}
