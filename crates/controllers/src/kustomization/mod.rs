//! Reconciles Kustomizations: applies the objects of a source, checks their health and prunes.
//!
//! Events that wake a Kustomization:
//!
//! | event | reported by |
//! |---|---|
//! | a change of its spec, annotations or deletion | its mirror |
//! | a labelled ConfigMap or Secret with its values or keys | the watched inputs, by the ownership graph |
//! | a new artifact of its source | the sources' mirror, by the graph |
//! | a dependency that became ready, or reached the revision | its mirror, by the graph |
//! | a build of another Kustomization that may affect its objects | that one's run, by the graph |
//! | an object that drifted, disappeared, became healthy or has another owner | the object watcher |
//! | a time: interval, retry, deadline, a delayed correction | the queue |
//!
//! The interval is a safety net. It checks the memory, and only requests ConfigMaps and Secrets that no watch
//! covers.
//!
//! A run has four steps, and repeats them while the plan has questions:
//!
//! ```text
//! new revision    Build    ->  Apply (to the first stage that is not healthy)  ->  Finish: prune, report health
//! stage ready                  Apply  ->  Finish
//! steady                       Idle
//! deleted                      Delete  ->  Removal
//! before any of them, where it is not known:  BuildAhead, Survey, HandOver
//! ```
//!
//! A kind that is not listed yet, an unhealthy stage or a dependency that is not ready ends a run, and the change of
//! that begins the next.

mod act;
mod decide;
pub(crate) mod declaration;
pub mod declared;
pub mod inputs;
mod memory;
mod nearest;
mod observe;
pub mod preview;
pub mod reasons;
pub(crate) mod render;
mod report;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use equate_api::kustomize::{InventoryEntry, Kustomization, KustomizationStatus, SourceKind};
use equate_api::meta::{FINALIZER, KUSTOMIZE_MANAGER, KUSTOMIZE_STATUS_MANAGER};
use equate_apply::id::ObjectId;
use equate_apply::owner::Owner;
use jiff::Timestamp;
use tokio::time::Instant;

use self::decide::Plan;
use self::decide::seen::Seen;
use self::declared::Declared;
use self::inputs::vault_transit::{TransitSettings, Transits};
use self::memory::{Memory, ThisRun};
use self::report::Done;
use crate::kit::about::{About, Column, Concurrency};
use crate::kit::controller::{self, Absence, Acted, Controller, ROUNDS_MAX, Reconcilable};
use crate::kit::mirror::{Change, Mirror};
use crate::kit::reconciliation::{Reconciliation, Stop};
use crate::kit::services::Kit;
use crate::kit::wake::Reason;
use crate::object_rules::{ObjectRules, SparingRules};
use crate::targets::target::Access;
use crate::{Key, ObjectRef};

pub use crate::owner_kinds::KUSTOMIZATION;

const ABOUT: About = About {
    kind: "Kustomization",
    plural: "kustomizations",
    group: "kustomize.toolkit.fluxcd.io",
    version: "v1",
    aliases: &["ks"],
    family: None,
    component: KUSTOMIZE_MANAGER,
    finalizer: Some(FINALIZER),
    status_manager: KUSTOMIZE_STATUS_MANAGER,
    owner: Some(&KUSTOMIZATION),
    concurrency: Concurrency::Computes,
    suspends: true,
    columns: &[Column::new("REVISION", &["/status/lastAppliedRevision"])],
};

pub(crate) const GROUP: &str = "kustomize.toolkit.fluxcd.io";

/// The owner kind of a declared object that is an owner itself.
pub(crate) fn applies(id: &ObjectId) -> Option<&'static str> {
    let is_kustomization = &*id.group == GROUP && &*id.kind == KUSTOMIZATION.kind;
    is_kustomization.then_some(KUSTOMIZATION.kind)
}

pub(crate) fn owner_of(key: &Key) -> Owner {
    Owner::new(&KUSTOMIZATION, &*key.namespace, &*key.name)
}

pub(crate) fn object_ref(key: &Key) -> ObjectRef {
    ObjectRef::of(KUSTOMIZATION.kind, key)
}

pub(crate) struct Kustomizations {
    kit: Arc<Kit>,
    mirror: Mirror<Kustomization>,
    /// The rules of each Kustomization for its objects.
    rules: Arc<ObjectRules>,
    /// The same for callbacks and answers to writes.
    sparing_rules: Arc<SparingRules>,
    /// This cluster, with this process's own rights.
    here: Access,
    /// No cluster, for one whose target is unknown.
    nowhere: Access,
    transits: Transits,
}

type Run<'a> = Reconciliation<'a, Kustomizations>;

impl Controller for Kustomizations {
    type Object = Kustomization;
    type Declared = Declared;
    type Memory = Memory;
    type Seen = Seen;
    type Plan = Plan;
    type Done = Done;

    const ABOUT: &'static About = &ABOUT;

    // a suspended Kustomization announces its desired state, too
    const ATTENDS_SUSPENDED: bool = true;

    fn new(kit: &Arc<Kit>) -> Self {
        let rules = Arc::new(ObjectRules::of_kind(&KUSTOMIZATION));
        let sparing_rules = Arc::new(SparingRules {
            rules: Arc::clone(&rules),
            time: Arc::clone(&kit.callback_time),
        });
        let registered = Arc::clone(&sparing_rules);
        kit.owner_rules.register(ABOUT.kind, registered);
        Self {
            mirror: kit.mirror(),
            rules,
            sparing_rules,
            here: kit.here(&KUSTOMIZATION),
            nowhere: Access::none(kit.settings.pace.clone(), &KUSTOMIZATION),
            transits: Transits::new(
                kit.configuration::<TransitSettings>(),
                kit.settings.egress.clone(),
            ),
            kit: Arc::clone(kit),
        }
    }

    fn affected(&self, change: &Change<Kustomization>) -> Vec<(ObjectRef, Reason)> {
        match &change.after {
            Some(object) => {
                self.rules.set(&change.key, &object.spec);
                self.rules.begin(&change.key, &self.kit.processors);
            }
            None => self.rules.forget(&change.key),
        }
        let reconciles = |object: &Arc<Kustomization>| self.kit.reconciles(ABOUT.kind, &object.metadata);
        let ours = change.after.as_ref().is_some_and(reconciles);
        let policy = &self.kit.settings.policy;
        declaration::changed(&mut self.kit.ownership(), change, ours, policy)
    }

    async fn ready(&self) {
        let kinds: Vec<&str> = SourceKind::ALL.iter().map(|kind| kind.as_str()).collect();
        self.kit.sources.ready(&kinds).await;
    }

    fn declare(object: &Kustomization) -> Result<Declared, controller::Failure> {
        // `decide` reports an invalid spec, after the announcement
        Ok(Declared::from(object))
    }

    async fn observe(&self, run: &mut Run<'_>, declared: &Declared) -> Result<Seen, Stop> {
        Ok(observe::observe(self, run, declared).await)
    }

    fn decide(declared: &Declared, seen: &Seen, now: Instant) -> Plan {
        decide::decide(declared, seen, now)
    }

    async fn act(
        &self,
        run: &mut Run<'_>,
        declared: &Declared,
        seen: Seen,
        plan: Plan,
    ) -> Result<Acted<Done>, Stop> {
        let acted = act::act(self, run, declared, seen, plan).await;
        run.memory.this_run.rounds += 1;
        let goes_on = matches!(acted, Ok(Acted::Again)) && run.memory.this_run.rounds < ROUNDS_MAX;
        if !goes_on {
            // the next run observes everything again
            run.memory.this_run = ThisRun::default();
            let wakes = self.kit.ownership().end_apply(&object_ref(run.key()));
            self.kit.waker.wake_all(wakes);
        }
        acted
    }

    fn report(
        declared: &Declared,
        before: &KustomizationStatus,
        done: Done,
        now: Timestamp,
    ) -> controller::Report<KustomizationStatus> {
        report::report(declared, before, done, now)
    }

    async fn forget(&self, key: &Key, memory: Memory, _why: Absence) {
        self.here.view.forget(key);
        self.kit.artifacts.release(&object_ref(key));
        self.kit.missing_kinds.forget(&object_ref(key));
        if let Some(access) = memory.access {
            access.view.forget(key);
        }
        let wakes = self.kit.ownership().forget(&object_ref(key));
        self.kit.waker.wake_all(wakes);
    }
}

impl Kustomizations {
    /// The access to one's objects in this run.
    fn access<'m>(&'m self, memory: &'m Memory) -> &'m Access {
        memory.this_run.access.as_ref().unwrap_or(&self.nowhere)
    }
}

/// Adds to a counter; no other memory is ordered by it.
fn count(number: &AtomicU64, more: u64) {
    number.fetch_add(more, Ordering::Relaxed);
}

impl Reconcilable for Kustomization {
    type Status = KustomizationStatus;

    fn status(&self) -> Option<&KustomizationStatus> {
        self.status.as_ref()
    }

    fn interval(&self) -> Duration {
        self.spec.interval.get()
    }

    fn retry_interval(&self) -> Duration {
        self.spec.retry_interval()
    }

    fn is_suspended(&self) -> bool {
        self.spec.suspend
    }

    fn revision(&self) -> Option<&str> {
        self.status.as_ref()?.last_applied_revision.as_deref()
    }

    fn revision_time(&self) -> Option<Timestamp> {
        let latest = self.status.as_ref()?.history.first()?;
        Some(latest.first_reconciled.0)
    }

    fn inventory(&self) -> &[InventoryEntry] {
        let inventory = self.status.as_ref().and_then(|status| status.inventory.as_ref());
        inventory.map_or(&[], |inventory| &inventory.entries)
    }
}

crate::standard_status!(KustomizationStatus);
