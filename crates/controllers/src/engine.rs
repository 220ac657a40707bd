//! All controllers of one process, started and stopped together.
//!
//! `equate up`, the tests and `equate controllers` use this and nothing below it. It owns what the
//! controllers share: the mirrors of our own resources, the watch hub, the queues, the store's
//! trees, and the bound on work that holds a processor.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use equate_api::kustomize::{Kustomization, SourceKind};
use equate_api::source::GitRepository;
use equate_apply::cluster::Cluster;
use equate_apply::id::ObjectId;
use equate_apply::plan::Presence;
use equate_git::Mirrors;
use equate_source::{CacheError, Storage};
use kube::Client;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::git_repository;
use crate::kit::backoff::{Backoff, Jitter};
use crate::kit::events::{Limits as EventLimits, Recorder};
use crate::kit::feed::Pace;
use crate::kit::inputs::InputWatcher;
use crate::kit::mirror::{Change, Mirror};
use crate::kit::notify::Notifier;
use crate::kit::queue::{Outcome, Queue, Settings};
use crate::kit::wake::Reason;
use crate::kit::watcher::{ObjectWatcher, Wake};
use crate::kustomization::inputs::vault_transit::{TransitSettings, Transits};
use crate::kustomization::render::normal;
use crate::kustomization::rules::ObjectRules;
use crate::kustomization::{self, Context, Tally};
use crate::ownership::graph::OwnershipGraph;
use crate::policy::Policy;
use crate::sources::artifacts::{self, Artifacts};
use crate::sources::{SourceEvent, Sources, news};
use crate::targets::remote::RemoteClusters;
use crate::targets::target::{Access, TargetCluster};
use crate::{Key, Shards};

/// The Kustomization of this very process (`equate up`), whose directory may hold the manifests of
/// the engine that is asked to run here: they are understood as this one, never applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnLoop {
    /// Its name, `flux-system`.
    pub name: String,
    /// Its namespace, `flux-system`.
    pub namespace: String,
    /// Its `spec.path`.
    pub path: String,
}

impl OwnLoop {
    /// Whether a file of the source declares the loop itself, as `flux bootstrap` writes it.
    pub(crate) fn declares(&self, file: &str) -> bool {
        let root = normal(&self.path);
        let below = match root.as_str() {
            "" => Some(file),
            root => file.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')),
        };
        matches!(
            below,
            Some("flux-system/gotk-components.yaml" | "flux-system/gotk-sync.yaml")
        )
    }
}

/// Sources that may be looked at together. They wait for hosts rather than compute, and a host that
/// says nothing is waited for as long as its `timeout`: with as few workers as Kustomizations have,
/// a handful of such hosts would hold up every other source.
const SOURCES_AT_ONCE: usize = 64;

/// Flux's `--interval-jitter-percentage`.
const INTERVAL_JITTER: f64 = 0.05;
/// Flux's `--requeue-dependency`.
const DEPENDENCY_RETRY: Duration = Duration::from_secs(30);

/// What an engine did so far, and how its queues stand. Plain numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Runs of Kustomizations, also those that found nothing to do.
    pub runs: u64,
    /// Builds of Kustomizations.
    pub builds: u64,
    /// New revisions that needed no build, because nothing a build read had changed.
    pub builds_skipped: u64,
    /// Objects applied.
    pub applies: u64,
    /// Objects pruned.
    pub prunes: u64,
    /// Objects that had drifted and were corrected.
    pub corrections: u64,
    /// Statuses of Kustomizations written.
    pub status_patches: u64,
    /// How often all Kustomizations were asked what they want, for one that deletes.
    pub prune_checks: u64,
    /// Kustomizations that run now or stand in the line.
    pub queue: usize,
}

/// Running controllers. Dropping it ends them at once; [`Engine::stop`] lets runs end.
pub struct Engine {
    context: Arc<Context>,
    sources: Arc<git_repository::Context>,
    changes: watch::Sender<u64>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// What an engine needs; made by [`Engine::builder`].
pub struct Builder {
    client: Client,
    mirrors: Option<Mirrors>,
    storage: Option<Storage>,
    root: Option<OwnLoop>,
    default_namespace: Option<String>,
    concurrency: usize,
    poll: Option<Duration>,
    http_retries: u32,
    pace: Pace,
    jitter: Jitter,
    policy: Policy,
    shards: Shards,
    controllers: Controllers,
    transit: TransitSettings,
    notifier: Option<Notifier>,
    backoff: Backoff,
    interval_jitter: f64,
    dependency_retry: Duration,
    observer: Option<Observer>,
}

/// Told of each run.
pub type Observer = Arc<dyn Fn(&ReconcileEvent<'_>) + Send + Sync>;

/// A run that ended.
#[derive(Debug, Clone, Copy)]
pub struct ReconcileEvent<'a> {
    /// The kind of what was run, `Kustomization`.
    pub kind: &'static str,
    /// What was run.
    pub key: &'a Key,
    /// How long that took.
    pub took: Duration,
    /// Whether it has to be repeated.
    pub failed: bool,
    /// Whether the object is gone: nothing more will be told of it.
    pub gone: bool,
}

/// Which controllers run. What the others do is seen in the cluster, as with those of other shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controllers {
    /// Those of sources: artifacts are made.
    pub sources: bool,
    /// That of Kustomizations: objects are applied.
    pub kustomizations: bool,
}

impl Default for Controllers {
    fn default() -> Self {
        Self {
            sources: true,
            kustomizations: true,
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("root", &self.root)
            .field("default_namespace", &self.default_namespace)
            .field("concurrency", &self.concurrency)
            .field("poll", &self.poll)
            .field("policy", &self.policy)
            .field("shards", &self.shards)
            .field("controllers", &self.controllers)
            .finish_non_exhaustive()
    }
}

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Nobody said where repositories are kept.
    #[error("an engine needs a place for git mirrors")]
    Mirrors,
    /// Nobody said where artifacts are kept.
    #[error("an engine needs a store for artifacts")]
    Storage,
    /// There is no place for artifacts that others published.
    #[error("artifacts of others cannot be kept")]
    Cache(#[from] CacheError),
    /// They cannot be fetched.
    #[error("no http client can be made")]
    Http(#[from] reqwest::Error),
}

impl Builder {
    /// Where repositories are kept, and which local directories stand in for URLs.
    #[must_use]
    pub fn mirrors(mut self, mirrors: Mirrors) -> Self {
        self.mirrors = Some(mirrors);
        self
    }

    /// Where artifacts are kept.
    #[must_use]
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = Some(storage);
        self
    }

    /// The Kustomization that is this process itself.
    #[must_use]
    pub fn root(mut self, root: OwnLoop) -> Self {
        self.root = Some(root);
        self
    }

    /// The namespace of objects that name none; without it they are an error, as in Flux.
    #[must_use]
    pub fn default_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.default_namespace = Some(namespace.into());
        self
    }

    /// How many Kustomizations run at once, and how many sources.
    #[must_use]
    pub fn concurrency(mut self, keys: usize) -> Self {
        self.concurrency = keys.max(1);
        self
    }

    /// How often repositories are looked at, in place of their own intervals.
    #[must_use]
    pub fn poll(mut self, every: Duration) -> Self {
        self.poll = Some(every);
        self
    }

    /// How often the download of an artifact is tried again, Flux's `--http-retry`.
    #[must_use]
    pub fn http_retries(mut self, retries: u32) -> Self {
        self.http_retries = retries;
        self
    }

    /// How patient watches are.
    #[must_use]
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// The source of jitter, for runs that must repeat themselves.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// What those who write Kustomizations are allowed.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Which sources and Kustomizations are reconciled here; all, unless others do the rest.
    #[must_use]
    pub fn shards(mut self, shards: Shards) -> Self {
        self.shards = shards;
        self
    }

    /// Which controllers run; all, unless another process runs the rest.
    #[must_use]
    pub fn controllers(mut self, controllers: Controllers) -> Self {
        self.controllers = controllers;
        self
    }

    /// Where the transit engines are that decryption may ask.
    #[must_use]
    pub fn transit(mut self, settings: TransitSettings) -> Self {
        self.transit = settings;
        self
    }

    /// Who is told of events besides the API server.
    #[must_use]
    pub fn notifier(mut self, notifier: Option<Notifier>) -> Self {
        self.notifier = notifier;
        self
    }

    /// How long to wait after failures.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Which share of an interval it may be longer or shorter, so that not all is looked at at once.
    #[must_use]
    pub fn interval_jitter(mut self, share: f64) -> Self {
        self.interval_jitter = share.clamp(0.0, 1.0);
        self
    }

    /// How often a Kustomization that waits looks by itself; what it waits for wakes it before.
    #[must_use]
    pub fn dependency_retry(mut self, every: Duration) -> Self {
        self.dependency_retry = every;
        self
    }

    /// Who is told of each run.
    #[must_use]
    pub fn observer(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Starts the controllers.
    ///
    /// # Errors
    /// When a part is missing. That the API server does not answer, or lacks our definitions, is no
    /// error: the engine waits for it.
    pub async fn start(self) -> Result<Engine, StartError> {
        let mirrors = self.mirrors.ok_or(StartError::Mirrors)?;
        let storage = self.storage.ok_or(StartError::Storage)?;
        let stop = CancellationToken::new();
        let ours = |here: bool| if here { self.shards.clone() } else { Shards::none() };
        let source_shards = ours(self.controllers.sources);
        let settings = || Settings {
            workers: self.concurrency,
            backoff: self.backoff,
            jitter: self.jitter.clone(),
            ..Settings::default()
        };
        let queue = Queue::new(settings());
        let source_queue = Queue::new(Settings {
            workers: self.concurrency.max(SOURCES_AT_ONCE),
            ..settings()
        });
        let changes = watch::Sender::new(0);
        let index = OwnershipGraph::of(ours(self.controllers.kustomizations));
        let index = index.shared_keys(self.policy.sops_age_secret.clone());
        let index = Arc::new(Mutex::new(index));
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let blocking = Arc::new(Semaphore::new(processors));
        let recorder = Recorder::start(self.client.clone(), EventLimits::default()).notifying(self.notifier);

        let on_source_change: Arc<dyn Fn(SourceEvent) + Send + Sync> = {
            let (index, queue, changes) = (Arc::clone(&index), queue.clone(), changes.clone());
            Arc::new(move |news| {
                changes.send_modify(|count| *count += 1);
                wake_readers(&index, &queue, news);
            })
        };
        let repositories = {
            let (on_source_change, sources, changes) = (
                Arc::clone(&on_source_change),
                source_queue.clone(),
                changes.clone(),
            );
            let (index, queue) = (Arc::clone(&index), queue.clone());
            let includers = git_repository::Includers::default();
            let shards = source_shards.clone();
            Mirror::start(
                self.client.clone(),
                self.pace.clone(),
                move |change: Change<GitRepository>| {
                    changes.send_modify(|count| *count += 1);
                    for includer in includers.changed(&change) {
                        sources.wake(includer, Reason::Source);
                    }
                    let own = |object: &Arc<GitRepository>| shards.own(&object.metadata);
                    let (was, is) = (change.before.as_ref().map(own), change.after.as_ref().map(own));
                    if let Some(reason) = git_repository::wakes(change.what)
                        && (was == Some(true) || is == Some(true))
                    {
                        sources.wake(change.key.clone(), reason);
                    }
                    if let Some(news) = news(&change) {
                        on_source_change(news);
                    }
                    if was != is {
                        note_owner(&index, &queue, change.key, is);
                    }
                },
            )
        };
        let rules = Arc::new(ObjectRules::default());
        let kustomizations = {
            let (index, queue) = (Arc::clone(&index), queue.clone());
            let (changes, rules) = (changes.clone(), Arc::clone(&rules));
            Mirror::start(
                self.client.clone(),
                self.pace.clone(),
                move |change: Change<Kustomization>| {
                    changes.send_modify(|count| *count += 1);
                    match &change.after {
                        Some(object) => rules.set(&change.key, &object.spec),
                        None => rules.forget(&change.key),
                    }
                    let wakes = index
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .changed(&change);
                    for (key, reason) in wakes {
                        queue.wake(key, reason);
                    }
                },
            )
        };
        let hub = {
            let (queue, changes) = (queue.clone(), changes.clone());
            let rules = Arc::clone(&rules);
            ObjectWatcher::new(self.client.clone(), self.pace.clone(), rules, move |wake| {
                changes.send_modify(|count| *count += 1);
                queue.wake(wake.key, Reason::Object);
            })
        };
        let remote_clusters = {
            let (queue, changes) = (queue.clone(), changes.clone());
            let rules = Arc::clone(&rules);
            RemoteClusters::new(self.pace.clone(), rules, move |wake: Wake| {
                changes.send_modify(|count| *count += 1);
                queue.wake(wake.key, Reason::Object);
            })
        };
        let labelled = {
            let (index, queue) = (Arc::clone(&index), queue.clone());
            InputWatcher::new(self.client.clone(), self.pace.clone(), move |holder| {
                let fed = index
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .fed_by(holder);
                for key in fed {
                    queue.wake(key, Reason::Input);
                }
            })
        };
        let looked = {
            let (index, queue) = (Arc::clone(&index), queue.clone());
            Box::new(move |key: &Key| {
                let source = (SourceKind::GitRepository, key.clone());
                let wakes = index
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .looked(source);
                for (key, reason) in wakes {
                    queue.wake(key, reason);
                }
            })
        };
        let fetching = artifacts::Settings {
            cache: storage.cache()?,
            retries: self.http_retries,
            jitter: self.jitter.clone(),
            processors: Arc::clone(&blocking),
        };
        let artifacts = {
            let queue = queue.clone();
            Artifacts::new(fetching, move |reader| queue.wake(reader, Reason::Source))?
        };
        let published = Sources::new(repositories.clone(), &self.client, &self.pace, &on_source_change);
        let sources = Arc::new(git_repository::Context {
            looked,
            client: self.client.clone(),
            repositories,
            git: mirrors,
            storage: storage.clone(),
            recorder: recorder.clone(),
            queue: source_queue,
            watches: git_repository::Watches::default(),
            jitter: self.jitter.clone(),
            poll: self.poll,
            shards: source_shards.clone(),
            interval_jitter: self.interval_jitter,
        });
        let context = Arc::new(Context {
            remote_clusters,
            nowhere: Access::none(self.pace.clone()),
            here: Access::full(TargetCluster::Local, Cluster::new(self.client.clone()), hub),
            policy: self.policy,
            transits: Transits::new(self.transit),
            client: self.client,
            kustomizations,
            sources: published,
            source_shards,
            artifacts,
            rules,
            labelled,
            storage,
            recorder,
            queue,
            blocking,
            index,
            memories: Mutex::default(),
            root: self.root,
            own_files: Mutex::default(),
            default_namespace: self.default_namespace,
            jitter: self.jitter,
            interval_jitter: self.interval_jitter,
            dependency_retry: self.dependency_retry,
            tally: Tally::default(),
        });
        let mut tasks = JoinSet::new();
        if self.controllers.sources {
            let observer = self.observer.clone();
            tasks.spawn(run_sources(Arc::clone(&sources), stop.clone(), observer));
        }
        if self.controllers.kustomizations {
            tasks.spawn(run_kustomizations(
                Arc::clone(&context),
                stop.clone(),
                self.observer,
            ));
            tasks.spawn(sweep_artifacts(Arc::clone(&context), stop.clone()));
        }
        Ok(Engine {
            context,
            sources,
            changes,
            stop,
            tasks,
        })
    }
}

/// Runs sources, from the moment it is known which there are.
async fn run_sources(
    context: Arc<git_repository::Context>,
    stop: CancellationToken,
    observer: Option<Observer>,
) {
    tokio::select! {
        () = stop.cancelled() => return,
        () = context.repositories.ready() => {}
    }
    let queue = context.queue.clone();
    let handler = |key: Key, reasons| {
        let (context, observer) = (Arc::clone(&context), observer.clone());
        async move {
            let began = Instant::now();
            let outcome = git_repository::reconcile(Arc::clone(&context), key.clone(), reasons).await;
            if let Some(observer) = observer {
                // as good as gone where another shard has it
                let object = context.repositories.get(&key);
                let gone = object.is_none_or(|object| !context.shards.own(&object.metadata));
                observer(&ran("GitRepository", &key, began, outcome, gone));
            }
            outcome
        }
    };
    queue.run(stop, handler).await;
}

/// Runs Kustomizations, from the moment it is known which there are and what they read.
async fn run_kustomizations(context: Arc<Context>, stop: CancellationToken, observer: Option<Observer>) {
    let listed = async {
        context.kustomizations.ready().await;
        context.sources.repositories.ready().await;
    };
    tokio::select! {
        () = stop.cancelled() => return,
        () = listed => {}
    }
    let queue = context.queue.clone();
    let handler = |key: Key, reasons| {
        let (context, observer) = (Arc::clone(&context), observer.clone());
        async move {
            let began = Instant::now();
            let outcome = kustomization::reconcile(Arc::clone(&context), key.clone(), reasons).await;
            if let Some(observer) = observer {
                // as good as gone where another shard has it
                let gone = context.kustomizations.get(&key).is_none() || context.is_in_other_shard(&key);
                observer(&ran("Kustomization", &key, began, outcome, gone));
            }
            outcome
        }
    };
    queue.run(stop, handler).await;
}

/// Removes what nobody reads, once.
async fn sweep_artifacts(context: Arc<Context>, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = context.artifacts.clone().sweep() => {}
    }
}

fn ran<'a>(
    kind: &'static str,
    key: &'a Key,
    began: Instant,
    outcome: Outcome,
    gone: bool,
) -> ReconcileEvent<'a> {
    ReconcileEvent {
        kind,
        key,
        took: began.elapsed(),
        failed: outcome.failed,
        gone,
    }
}

/// Wakes those that read a source of which there is something new.
fn wake_readers(index: &Mutex<OwnershipGraph>, queue: &Queue<Key>, news: SourceEvent) {
    let readers = {
        let mut index = index.lock().unwrap_or_else(PoisonError::into_inner);
        match news {
            SourceEvent::Artifact { source, gone } => {
                index.artifact_changed();
                if gone {
                    index.lost(&source);
                }
                index.readers(source.0, &source.1)
            }
            SourceEvent::Kind(kind) => {
                index.artifact_changed();
                index.readers_of(kind)
            }
        }
    };
    for key in readers {
        queue.wake(key, Reason::Source);
    }
}

/// Notes whether it is this process that looks at a source; none where the source is gone.
fn note_owner(index: &Mutex<OwnershipGraph>, queue: &Queue<Key>, source: Key, ours: Option<bool>) {
    let source = (SourceKind::GitRepository, source);
    let wakes = {
        let mut index = index.lock().unwrap_or_else(PoisonError::into_inner);
        match ours {
            // another one looks at it: its word is all there is
            Some(false) => index.looked(source),
            Some(true) => {
                index.lost(&source);
                Vec::new()
            }
            None => Vec::new(),
        }
    };
    for (key, reason) in wakes {
        queue.wake(key, reason);
    }
}

impl Engine {
    /// An engine that reaches the API server with this client.
    pub fn builder(client: Client) -> Builder {
        Builder {
            client,
            mirrors: None,
            storage: None,
            root: None,
            default_namespace: None,
            concurrency: 8,
            poll: None,
            http_retries: artifacts::RETRIES,
            pace: Pace::default(),
            jitter: Jitter::random(),
            policy: Policy::default(),
            shards: Shards::default(),
            controllers: Controllers::default(),
            transit: TransitSettings::default(),
            notifier: None,
            backoff: Backoff::RECONCILE,
            interval_jitter: INTERVAL_JITTER,
            dependency_retry: DEPENDENCY_RETRY,
            observer: None,
        }
    }

    /// The GitRepositories as they are known here.
    pub fn sources(&self) -> Vec<Arc<GitRepository>> {
        self.sources.repositories.all()
    }

    /// The Kustomizations as they are known here.
    pub fn kustomizations(&self) -> Vec<Arc<Kustomization>> {
        self.context.kustomizations.all()
    }

    /// What is known of an object that a Kustomization holds.
    pub fn object(&self, id: &ObjectId) -> Presence {
        self.context.here.hub.get(id)
    }

    /// The files of the root Kustomization that declare this very loop, and how many objects each
    /// declares: they are kept as they are.
    pub fn own_files(&self) -> Vec<(String, usize)> {
        let files = self.context.own_files.lock();
        let files = files.unwrap_or_else(PoisonError::into_inner);
        files.iter().map(|(file, count)| (file.clone(), *count)).collect()
    }

    /// Changes whenever any of the three above may have.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Looks at all sources now, as after a push.
    pub fn wake_sources(&self) {
        for source in self.sources() {
            self.sources.queue.wake(Key::of(&source.metadata), Reason::Push);
        }
    }

    /// The numbers.
    pub fn stats(&self) -> Stats {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let tally = &self.context.tally;
        let queue = self.context.queue.counts();
        Stats {
            runs: queue.runs,
            builds: read(&tally.builds),
            builds_skipped: read(&tally.builds_skipped),
            applies: read(&tally.applies),
            prunes: read(&tally.prunes),
            corrections: read(&tally.corrections),
            status_patches: read(&tally.status_patches),
            prune_checks: read(&tally.prune_checks),
            queue: queue.ready + queue.running,
        }
    }

    /// Ends all controllers: present runs end, nothing new begins.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a controller broke off");
            }
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
