//! Reconciles HelmReleases: installs, upgrades, tests, remediates and removes releases of Helm charts.
//!
//! Events that wake a HelmRelease:
//!
//! | event | reported by |
//! |---|---|
//! | a change of its spec, annotations or deletion | its mirror |
//! | a labelled ConfigMap or Secret with its values | the watched inputs, by the ownership graph |
//! | a new artifact of its source, or the source's readiness | the sources' mirrors |
//! | a dependency that became ready | its mirror, by the graph |
//! | an object that became ready, failed, drifted or disappeared | the object watcher |
//! | the end of an apply, and a HelmChart, for an upgrade that waits for the rest of its commit | the ownership graph |
//! | a time: interval, retry, deadline | the queue |
//!
//! A run observes, decides one step and carries it out. `decide` is pure: the last record of the release, the
//! status and the spec in, one action with its reason out. A run that has to wait for a hook or for readiness
//! ends, and the change of that begins the next. So a change of the chart or the values ends an operation that hangs.
//!
//! Storage, texts and rules are those of Helm 4 and of fluxcd/helm-controller 1.6: releases move between that
//! and this controller without a new revision. `docs/compatibility.d/helm-release.md` lists the differences.
//!
//! `outlook`, `offline` and `comparison` run the same code outside of a controller, for the command line.
//!
//! Of the spec, `persistentClient` and `waitStrategy` change nothing here.

mod act;
pub mod comparison;
mod decide;
mod declaration;
pub mod declared;
mod digests;
mod memory;
mod objects;
mod observe;
pub mod offline;
pub mod outlook;
mod render;
mod report;
mod status;
mod storage;
pub mod values;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use equate_api::helm::{HelmRelease, HelmReleaseStatus};
use equate_api::kustomize::InventoryEntry;
use equate_api::meta::{ConditionType, FINALIZER, HELM_MANAGER, condition};
use equate_api::source::{HelmChart, OciRepository};
use equate_apply::owner::Owner;
use equate_helm::Chart;
use equate_helm::cache::Cache;
use jiff::Timestamp;
use tokio::time::Instant;

use self::decide::Plan;
use self::decide::seen::Seen;
use self::declared::{Action, Declared};
use self::memory::Memory;
use self::report::Done;
use crate::kit::about::{About, Column, Concurrency};
use crate::kit::controller::{self, Absence, Acted, Controller, Reconcilable};
use crate::kit::mirror::{Change, Mirror};
use crate::kit::reconciliation::{Reconciliation, Stop};
use crate::kit::services::Kit;
use crate::kit::wake::Reason;
use crate::object_rules::{ObjectRules, SparingRules};
use crate::sources;
use crate::targets::target::Access;
use crate::{Key, ObjectRef};

pub use crate::owner_kinds::HELM_RELEASE;

const ABOUT: About = About {
    kind: "HelmRelease",
    plural: "helmreleases",
    group: "helm.toolkit.fluxcd.io",
    version: "v2",
    aliases: &["hr"],
    family: None,
    component: HELM_MANAGER,
    finalizer: Some(FINALIZER),
    status_manager: HELM_MANAGER,
    owner: Some(&HELM_RELEASE),
    concurrency: Concurrency::Computes,
    suspends: true,
    columns: &[
        // as Flux: the version of the latest release, or of the attempt at the first one
        Column::new(
            "REVISION",
            &["/status/history/0/chartVersion", "/status/lastAttemptedRevision"],
        ),
        Column::new("CHART", &["/status/history/0/chartName"]).after_message(),
        Column::new("APP VERSION", &["/status/history/0/appVersion"]).after_message(),
    ],
};

/// Memory of parsed templates.
const PROGRAMS_BYTES_MAX: usize = 32 << 20;
/// Known charts between two removals of those that nobody uses.
const LOADED_MAX: usize = 256;

pub(crate) fn owner_of(key: &Key) -> Owner {
    Owner::new(&HELM_RELEASE, &*key.namespace, &*key.name)
}

pub(crate) fn object_ref(key: &Key) -> ObjectRef {
    ObjectRef::of(HELM_RELEASE.kind, key)
}

/// Names the owner of an operation, in its record.
fn operation_owner(declared: &Declared, action: Action) -> String {
    format!("{} {} {}", declared.uid, declared.generation, action.name())
}

/// The generation and the name of the action of an operation that this HelmRelease owns.
fn own_operation<'o>(declared: &Declared, owner: &'o str) -> Option<(i64, &'o str)> {
    let mut words = owner.splitn(3, ' ');
    let (uid, generation, action) = (words.next()?, words.next()?, words.next()?);
    let generation = generation.parse().ok()?;
    (uid == declared.uid).then_some((generation, action))
}

pub(crate) struct HelmReleases {
    kit: Arc<Kit>,
    mirror: Mirror<HelmRelease>,
    charts: Mirror<HelmChart>,
    /// From the first reference on.
    oci: OnceLock<Mirror<OciRepository>>,
    /// The rules of each HelmRelease for its objects.
    rules: Arc<ObjectRules>,
    sparing_rules: Arc<SparingRules>,
    /// This cluster, with this process's own rights.
    here: Access,
    programs: Cache,
    /// The charts in use, by the digest of their artifact: many releases are of one chart.
    loaded: Mutex<HashMap<String, Weak<Chart>>>,
}

type Run<'a> = Reconciliation<'a, HelmReleases>;

impl Controller for HelmReleases {
    type Object = HelmRelease;
    type Declared = Declared;
    type Memory = Memory;
    type Seen = Seen;
    type Plan = Plan;
    type Done = Done;

    const ABOUT: &'static About = &ABOUT;

    fn new(kit: &Arc<Kit>) -> Self {
        let rules = Arc::new(ObjectRules::of_kind(&HELM_RELEASE));
        let sparing_rules = Arc::new(SparingRules {
            rules: Arc::clone(&rules),
            time: Arc::clone(&kit.callback_time),
        });
        let registered = Arc::clone(&sparing_rules);
        kit.owner_rules.register(ABOUT.kind, registered);
        let charts = kit.mirror::<HelmChart>();
        wake_waiting(kit, &charts);
        wake_readers(kit, &charts, "HelmChart", |chart| {
            let status = chart.status.as_ref()?;
            Some((status.observed_generation, readiness(&status.conditions)))
        });
        Self {
            mirror: kit.mirror(),
            charts,
            oci: OnceLock::new(),
            rules,
            sparing_rules,
            here: kit.here(&HELM_RELEASE),
            programs: Cache::new(PROGRAMS_BYTES_MAX),
            loaded: Mutex::default(),
            kit: Arc::clone(kit),
        }
    }

    fn affected(&self, change: &Change<HelmRelease>) -> Vec<(ObjectRef, Reason)> {
        match &change.after {
            Some(object) => {
                let drift = object.spec.drift_detection.as_ref();
                let ignore = drift.map_or(&[][..], |drift| &drift.ignore);
                self.rules
                    .set_rules(&change.key, &object.spec.health_check_exprs, ignore);
                self.rules.begin(&change.key, &self.kit.processors);
            }
            None => self.rules.forget(&change.key),
        }
        let reconciles = |object: &Arc<HelmRelease>| self.kit.reconciles(ABOUT.kind, &object.metadata);
        let ours = change.after.as_ref().is_some_and(reconciles);
        let policy = &self.kit.settings.policy;
        declaration::changed(&mut self.kit.ownership(), change, ours, policy)
    }

    async fn ready(&self) {
        sources::known(&self.charts).await;
        self.kit.sources.ready(&["HelmChart", "OCIRepository"]).await;
    }

    fn declare(object: &HelmRelease) -> Result<Declared, controller::Failure> {
        Ok(Declared::from(object))
    }

    async fn observe(&self, run: &mut Run<'_>, declared: &Declared) -> Result<Seen, Stop> {
        Ok(Box::pin(observe::observe(self, run, declared)).await)
    }

    fn decide(declared: &Declared, seen: &Seen, _now: Instant) -> Plan {
        decide::decide(declared, seen)
    }

    async fn act(
        &self,
        run: &mut Run<'_>,
        declared: &Declared,
        seen: Seen,
        plan: Plan,
    ) -> Result<Acted<Done>, Stop> {
        Box::pin(act::act(self, run, declared, seen, plan)).await
    }

    fn report(
        _declared: &Declared,
        _before: &HelmReleaseStatus,
        done: Done,
        _now: Timestamp,
    ) -> controller::Report<HelmReleaseStatus> {
        report::report(done)
    }

    fn suspend(&self, key: &Key, memory: Memory) {
        if let Some(access) = &memory.access {
            access.view.forget(key);
        }
        self.kit.artifacts.release(&object_ref(key));
    }

    fn suspended(declared: &Declared, mut status: HelmReleaseStatus) -> HelmReleaseStatus {
        status.observed_generation = Some(declared.generation);
        status
    }

    async fn forget(&self, key: &Key, memory: Memory, _why: Absence) {
        self.here.view.forget(key);
        self.kit.missing_kinds.forget(&object_ref(key));
        self.kit.artifacts.release(&object_ref(key));
        if let Some(access) = memory.access {
            access.view.forget(key);
        }
        let wakes = self.kit.ownership().forget(&object_ref(key));
        self.kit.waker.wake_all(wakes);
    }
}

impl HelmReleases {
    fn oci_repositories(&self) -> &Mirror<OciRepository> {
        self.oci.get_or_init(|| {
            let mirror = self.kit.mirror::<OciRepository>();
            wake_readers(&self.kit, &mirror, "OCIRepository", |repository| {
                let status = repository.status.as_ref()?;
                Some((status.observed_generation, readiness(&status.conditions)))
            });
            mirror
        })
    }

    /// A chart that another release uses.
    fn loaded(&self, digest: &str) -> Option<Arc<Chart>> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.get(digest)?.upgrade()
    }

    fn keep_loaded(&self, digest: &str, chart: &Arc<Chart>) {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.len() >= LOADED_MAX {
            loaded.retain(|_, chart| chart.strong_count() > 0);
        }
        loaded.insert(digest.to_owned(), Arc::downgrade(chart));
    }
}

/// Whether an install or upgrade is in progress.
pub fn is_releasing(object: &HelmRelease) -> bool {
    let status = object.status.as_ref();
    status.is_some_and(|status| status::is_releasing(&status.conditions))
}

type Readiness = (Option<String>, bool);

/// Whether a source is ready, and whether it is stalled.
fn readiness(conditions: &[equate_api::meta::Condition]) -> Readiness {
    let status = |of| condition(conditions, of).map(|condition| condition.status.clone());
    let stalled = status(ConditionType::Stalled).as_deref() == Some("True");
    (status(ConditionType::Ready), stalled)
}

/// Wakes the readers of a source when its readiness changes: a new artifact wakes them anyway.
fn wake_readers<K>(
    kit: &Arc<Kit>,
    mirror: &Mirror<K>,
    kind: &'static str,
    state: impl Fn(&K) -> Option<(Option<i64>, Readiness)> + Send + Sync + 'static,
) where
    K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let kit = Arc::downgrade(kit);
    mirror.subscribe(move |change: &Change<K>| {
        let is = |object: &Option<Arc<K>>| object.as_deref().map(&state);
        if is(&change.before) == is(&change.after) {
            return;
        }
        let Some(kit) = kit.upgrade() else { return };
        let readers = kit.ownership().readers(&ObjectRef::of(kind, &change.key));
        let releases = readers.into_iter().filter(|reader| reader.kind == ABOUT.kind);
        kit.waker
            .wake_all(releases.map(|reader| (reader, Reason::Source)));
    });
}

/// Wakes the releases that wait for a HelmChart to be of its source's artifact.
fn wake_waiting(kit: &Arc<Kit>, charts: &Mirror<HelmChart>) {
    let kit = Arc::downgrade(kit);
    charts.subscribe(move |change: &Change<HelmChart>| {
        let of = |chart: &Option<Arc<HelmChart>>| {
            let status = chart.as_ref()?.status.as_ref()?;
            status.observed_source_artifact_revision.clone()
        };
        if of(&change.before) == of(&change.after) {
            return;
        }
        let Some(kit) = kit.upgrade() else { return };
        let chart = ObjectRef::of("HelmChart", &change.key);
        let wakes = kit.ownership().announcements.announced(&chart);
        kit.waker.wake_all(wakes);
    });
}

impl Reconcilable for HelmRelease {
    type Status = HelmReleaseStatus;

    fn status(&self) -> Option<&HelmReleaseStatus> {
        self.status.as_ref()
    }

    fn interval(&self) -> Duration {
        self.spec.interval.get()
    }

    fn is_suspended(&self) -> bool {
        self.spec.suspend
    }

    fn revision(&self) -> Option<&str> {
        self.status.as_ref()?.last_attempted_revision.as_deref()
    }

    fn revision_time(&self) -> Option<Timestamp> {
        let latest = status::latest(&self.status.as_ref()?.history)?;
        Some(latest.last_deployed.0)
    }

    fn inventory(&self) -> &[InventoryEntry] {
        let inventory = self.status.as_ref().and_then(|status| status.inventory.as_ref());
        inventory.map_or(&[], |inventory| &inventory.entries)
    }
}

crate::standard_status!(HelmReleaseStatus);
