//! All controllers of one process, started and stopped together.
//!
//! `equate up`, the tests and `equate controllers` use only this. The engine makes the kit and starts
//! the controllers of a [`ControllerSet`]; it knows none of them by name.

mod behind;

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use equate_apply::id::ObjectId;
use equate_apply::plan::Presence;
use equate_egress::Egress;
use equate_git::Mirrors;
use equate_priority::Background;
use equate_source::Storage;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::kit::about::About;
use crate::kit::backoff::{Backoff, Jitter};
use crate::kit::events::{Limits as EventLimits, Recorder};
use crate::kit::feed;
use crate::kit::listed::Listed;
use crate::kit::missing_kinds::MissingKinds;
use crate::kit::notify::Notifier;
use crate::kit::processors::Threads;
use crate::kit::queue::Counts;
use crate::kit::runner::{Observer, Pace, Run};
use crate::kit::services::{Kit, KitError, Parts, Settings};
use crate::kit::tenants::Tenants;
use crate::kit::wake::Reason;
use crate::sources::artifacts;
use crate::{ControllerSet, ObjectRef, OwnLoop, Policy, Shards, all};

/// Flux's `--interval-jitter-percentage`.
const INTERVAL_JITTER: f64 = 0.05;
/// Flux's `--requeue-dependency`.
const DEPENDENCY_RETRY: Duration = Duration::from_secs(30);

/// Totals of an engine, and the state of its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Runs of Kustomizations, including those without changes.
    pub runs: u64,
    /// Builds of Kustomizations.
    pub builds: u64,
    /// New revisions without a build, because no input had changed.
    pub builds_skipped: u64,
    /// Objects applied.
    pub applies: u64,
    /// Objects pruned.
    pub prunes: u64,
    /// Drifted objects that were corrected.
    pub corrections: u64,
    /// Statuses of Kustomizations written.
    pub status_patches: u64,
    /// How often all Kustomizations were surveyed before a deletion.
    pub prune_checks: u64,
    /// Kustomizations that run or are ready to.
    pub queue: usize,
}

/// Running controllers. Dropping it ends them at once; [`Engine::stop`] lets runs end.
pub struct Engine {
    kit: Arc<Kit>,
    runners: Vec<Arc<dyn Run>>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// The parts of an engine; made by [`Engine::builder`].
pub struct Builder {
    client: Client,
    mirrors: Option<Mirrors>,
    storage: Option<Storage>,
    controllers: ControllerSet,
    settings: Settings,
    concurrency: usize,
    backoff: Backoff,
    notifier: Option<Notifier>,
    observer: Option<Observer>,
    configuration: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("controllers", &self.controllers)
            .field("settings", &self.settings)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The place for git mirrors is not set.
    #[error("an engine needs a place for git mirrors")]
    Mirrors,
    /// The store for artifacts is not set.
    #[error("an engine needs a store for artifacts")]
    Storage,
    /// The kit cannot be made.
    #[error(transparent)]
    Kit(#[from] KitError),
}

impl Builder {
    /// Where repositories are stored, and which local directories replace URLs.
    #[must_use]
    pub fn mirrors(mut self, mirrors: Mirrors) -> Self {
        self.mirrors = Some(mirrors);
        self
    }

    /// Where artifacts are stored.
    #[must_use]
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = Some(storage);
        self
    }

    /// The Kustomization of this process itself.
    #[must_use]
    pub fn root(mut self, root: OwnLoop) -> Self {
        self.settings.root = Some(root);
        self
    }

    /// The namespace of objects without one; otherwise they are an error, as in Flux.
    #[must_use]
    pub fn default_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.settings.default_namespace = Some(namespace.into());
        self
    }

    /// Concurrent runs per kind; more for kinds that mostly wait for hosts.
    #[must_use]
    pub fn concurrency(mut self, keys: usize) -> Self {
        self.concurrency = keys.max(1);
        self
    }

    /// How often to fetch repositories, instead of their own intervals.
    #[must_use]
    pub fn poll(mut self, every: Duration) -> Self {
        self.settings.poll = Some(every);
        self
    }

    /// How often to retry the download of an artifact, Flux's `--http-retry`.
    #[must_use]
    pub fn http_retries(mut self, retries: u32) -> Self {
        self.settings.http_retries = retries;
        self
    }

    /// The timing of watches.
    #[must_use]
    pub fn pace(mut self, pace: feed::Pace) -> Self {
        self.settings.pace = pace;
        self
    }

    /// The source of jitter, for runs that must repeat themselves.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.settings.jitter = jitter;
        self
    }

    /// The permissions of those who write Kustomizations.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// The sources and Kustomizations to reconcile here; all by default.
    #[must_use]
    pub fn shards(mut self, shards: Shards) -> Self {
        self.settings.shards = shards;
        self
    }

    /// The way out to hosts that tenants name; by default all addresses may be dialled.
    ///
    /// Give the [`Mirrors`] the same.
    #[must_use]
    pub fn egress(mut self, egress: Egress) -> Self {
        self.settings.egress = egress;
        self
    }

    /// The tenants, which share the workers and processors; by default each namespace.
    #[must_use]
    pub fn tenants(mut self, tenants: Tenants) -> Self {
        self.settings.tenants = tenants;
        self
    }

    /// The limit of one build, fetch or download, also if a spec allows more; none by default.
    #[must_use]
    pub fn timeout_max(mut self, time: Duration) -> Self {
        self.settings.timeout_max = time;
        self
    }

    /// API groups and kinds that nothing reconciles in this cluster: `wait` and health checks skip their
    /// objects.
    #[must_use]
    pub fn unreconciled(mut self, kinds: impl IntoIterator<Item = (String, String)>) -> Self {
        self.settings.unreconciled = kinds.into_iter().collect();
        self
    }

    /// The threads of builds; by default their own.
    #[must_use]
    pub fn threads(mut self, threads: Threads) -> Self {
        self.settings.threads = threads;
        self
    }

    /// Threads with a low priority, for the runs of busy tenants and the watches of their clusters; by default those
    /// of the runtime. Not with a paused clock.
    #[must_use]
    pub fn background(mut self, threads: Background) -> Self {
        self.settings.background = Some(threads);
        self
    }

    /// The controllers to run; all by default.
    #[must_use]
    pub fn controllers(mut self, controllers: ControllerSet) -> Self {
        self.controllers = controllers;
        self
    }

    /// A receiver of events besides the API server.
    #[must_use]
    pub fn notifier(mut self, notifier: Option<Notifier>) -> Self {
        self.notifier = notifier;
        self
    }

    /// The delays after failures.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// The share by which an interval varies, so that objects do not run together.
    #[must_use]
    pub fn interval_jitter(mut self, share: f64) -> Self {
        self.settings.interval_jitter = share.clamp(0.0, 1.0);
        self
    }

    /// How often a waiting Kustomization retries; a change of its dependency wakes it before.
    #[must_use]
    pub fn dependency_retry(mut self, every: Duration) -> Self {
        self.settings.dependency_retry = every;
        self
    }

    /// Called after each run.
    #[must_use]
    pub fn observer(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Settings of one controller, by their type ([`Kit::configuration`]).
    #[must_use]
    pub fn configure<T: Clone + Send + Sync + 'static>(mut self, settings: T) -> Self {
        self.configuration.insert(TypeId::of::<T>(), Box::new(settings));
        self
    }

    /// Starts the controllers.
    ///
    /// # Errors
    ///
    /// If a part is missing. An unreachable API server and missing definitions are no errors: the engine
    /// waits.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn start(self) -> Result<Engine, StartError> {
        let limits = EventLimits::default();
        let recorder = Recorder::start(self.client.clone(), limits)
            .between(self.settings.tenants.clone())
            .notifying(self.notifier);
        let kit = Arc::new(Kit::new(Parts {
            client: self.client,
            storage: self.storage.ok_or(StartError::Storage)?,
            git: self.mirrors.ok_or(StartError::Mirrors)?,
            recorder,
            settings: self.settings,
            configuration: self.configuration,
            kinds: self.controllers.iter().map(|about| about.kind).collect(),
        })?);
        let pace = Pace {
            concurrent: self.concurrency,
            backoff: self.backoff,
        };
        let runners = self.controllers.start(&kit, pace);
        kit.begin();
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        for runner in &runners {
            tasks.spawn(Arc::clone(runner).run(stop.clone(), self.observer.clone()));
        }
        tasks.spawn(sweep_artifacts(Arc::clone(&kit), stop.clone()));
        Ok(Engine {
            kit,
            runners,
            stop,
            tasks,
        })
    }
}

/// Removes unread artifacts of other processes, once.
async fn sweep_artifacts(kit: Arc<Kit>, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = kit.artifacts.clone().sweep() => {}
    }
}

impl Engine {
    /// An engine that reaches the API server with this client.
    pub fn builder(client: Client) -> Builder {
        Builder {
            client,
            mirrors: None,
            storage: None,
            controllers: all(),
            settings: Settings {
                root: None,
                default_namespace: None,
                poll: None,
                http_retries: artifacts::RETRIES,
                pace: feed::Pace::default(),
                jitter: Jitter::random(),
                interval_jitter: INTERVAL_JITTER,
                dependency_retry: DEPENDENCY_RETRY,
                policy: Policy::default(),
                shards: Shards::default(),
                egress: Egress::default(),
                tenants: Tenants::default(),
                timeout_max: Duration::MAX,
                threads: Threads::Own,
                background: None,
                unreconciled: BTreeSet::new(),
            },
            concurrency: 8,
            backoff: Backoff::RECONCILE,
            notifier: None,
            observer: None,
            configuration: HashMap::new(),
        }
    }

    /// The known objects of a custom resource; empty if no controller follows it.
    pub fn objects<K>(&self) -> Vec<Arc<K>>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + Sync + 'static,
    {
        let mirror = self.kit.known_mirror::<K>();
        mirror.map(|mirror| mirror.all()).unwrap_or_default()
    }

    /// The objects of all running controllers, by kind.
    pub fn reconciled(&self) -> Vec<(&'static About, Vec<Arc<dyn Listed>>)> {
        let runners = self.runners.iter();
        runners.map(|runner| (runner.about(), runner.objects())).collect()
    }

    /// An object that an owner of any kind applied. It is absent if no kind of owner sees it and one of
    /// them watches its kind.
    pub fn object(&self, id: &ObjectId) -> Presence {
        let owners = self.runners.iter().filter_map(|runner| runner.about().owner);
        any_presence(owners.map(|owner| self.kit.objects.get(owner, id)))
    }

    /// The files of the root Kustomization that declare this process, with the number of objects in
    /// each. They are not applied.
    pub fn own_files(&self) -> Vec<(String, usize)> {
        let files = self.kit.own_files.lock();
        let files = files.unwrap_or_else(PoisonError::into_inner);
        files.iter().map(|(file, count)| (file.clone(), *count)).collect()
    }

    /// The kinds without a definition, by the owner whose last apply failed for it.
    pub fn missing_kinds(&self) -> BTreeMap<ObjectRef, MissingKinds> {
        self.kit.missing_kinds.all()
    }

    /// Applies the objects of a kind again that was missing and is served now.
    pub fn kind_defined(&self, group: &str, kind: &str) {
        self.kit.cluster.expect_change(group);
        for owner in self.kit.missing_kinds.define(group, kind) {
            self.kit.waker.wake(&owner, Reason::Object);
        }
    }

    /// Changes whenever the results above or [`Engine::behind`] may have changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.kit.changes().subscribe()
    }

    /// The running controllers, and the state of their queues.
    pub fn queues(&self) -> Vec<(&'static About, Counts)> {
        let runners = self.runners.iter();
        runners.map(|runner| (runner.about(), runner.counts())).collect()
    }

    /// Runs all sources now, as after a push.
    pub fn wake_sources(&self) {
        let sources = self
            .runners
            .iter()
            .filter(|runner| runner.about().family == Some("sources"));
        sources.for_each(|runner| runner.wake_all(Reason::Push));
    }

    /// The numbers.
    pub fn stats(&self) -> Stats {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let tally = &self.kit.tally;
        let mut stats = Stats {
            builds: read(&tally.builds),
            builds_skipped: read(&tally.builds_skipped),
            applies: read(&tally.applies),
            prunes: read(&tally.prunes),
            corrections: read(&tally.corrections),
            status_patches: read(&tally.status_patches),
            prune_checks: read(&tally.prune_checks),
            ..Stats::default()
        };
        // fetched sources are no objects that were applied
        let appliers = self
            .queues()
            .into_iter()
            .filter(|(about, _)| about.owner.is_some());
        for (_, counts) in appliers {
            stats.runs += counts.runs;
            stats.queue += counts.ready + counts.running;
        }
        stats
    }

    /// Stops all controllers: present runs end, nothing new begins.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a controller panicked");
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

/// Each kind of owner sees the objects with its labels: one that sees an object is enough.
fn any_presence(seen: impl Iterator<Item = Presence>) -> Presence {
    seen.fold(Presence::Unknown, |known, next| match (&known, &next) {
        (Presence::Present(_), _) | (_, Presence::Unknown) => known,
        (_, Presence::Present(_)) | (Presence::Unknown, Presence::Absent) => next,
        (Presence::Absent, Presence::Absent) => known,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_present_when_one_kind_of_owner_sees_it() {
        let object = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "a", "namespace": "n", "uid": "1", "resourceVersion": "1" },
        });
        let object = equate_manifest::object::Object::from_value(object).unwrap();
        let observed =
            equate_apply::observed::Observed::of(&object, &crate::object_ref::tests::KUSTOMIZATION);
        let present = Presence::Present(Arc::new(observed));
        let check = |seen: &[&Presence], expected: &Presence| {
            let seen = seen.iter().map(|presence| (*presence).clone());
            assert_eq!(any_presence(seen), *expected);
        };
        check(&[], &Presence::Unknown);
        check(&[&Presence::Absent, &present], &present);
        check(&[&present, &Presence::Absent, &Presence::Unknown], &present);
        check(&[&Presence::Unknown, &Presence::Absent], &Presence::Absent);
        check(&[&Presence::Absent, &Presence::Unknown], &Presence::Absent);
    }
}
