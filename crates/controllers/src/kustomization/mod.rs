//! Keeps what a Kustomization declares applied: its source's objects, healthy, and nothing else.
//!
//! What wakes a Kustomization:
//!
//! | | told by |
//! |---|---|
//! | its own spec, annotations, deletion | its mirror |
//! | a ConfigMap or Secret with its values or keys, if that has the label for it | the watched inputs, by the ownership graph |
//! | a new artifact of its source | the sources' mirror, by the graph |
//! | a dependency that became ready, or reached the revision | its mirror, by the graph |
//! | another Kustomization that was built, where it matters what that wants | its run, by the graph |
//! | an object that drifted, went, became healthy or is held by another | the watched objects |
//! | a time: interval, retry, deadline, a correction that waited | the queue |
//!
//! The interval is a safety net: it looks at what memory holds, and asks the API server nothing but for the
//! ConfigMaps and Secrets that it takes values from and that nobody tells of.
//!
//! A run is four verbs, and as many rounds of them as the plan has questions:
//!
//! ```text
//! new revision    Build    ->  Apply (to the first stage that is not healthy)  ->  Finish: prune, say how healthy
//! stage ready                  Apply  ->  Finish
//! steady                       Idle
//! deleted                      Delete  ->  Farewell
//! before any of them, where it is not known:  BuildAhead, Survey, HandOver
//! ```
//!
//! Nothing is waited for inside a run: a kind that is not listed yet, a stage that is not healthy, a
//! dependency that is not ready end it, and their change begins the next one.
//!
//! | file | answers |
//! |---|---|
//! | `declared` | what the custom resource asks for, parsed once |
//! | `observe` | what there is |
//! | `decide` | what to do: values in, a plan out |
//! | `act` | carries a plan out |
//! | `report`, `status` | what the status and the events say then |
//! | `reasons` | why it is not ready, and when it is worth another try |
//! | `inputs` | what a build reads: artifact, variables, keys, Vault |
//! | `render` | the build of a revision, its objects made ready |
//! | `declaration` | what others have to know of it, for the ownership graph |
//! | `rules` | how it looks at its objects: rules for health and drift |
//! | `memory` | what is remembered between runs, and may be lost |
//! | `preview` | what a run would do, without doing it: the same decision |

mod act;
mod decide;
pub(crate) mod declaration;
pub mod declared;
pub mod inputs;
mod memory;
mod observe;
pub mod preview;
pub mod reasons;
pub(crate) mod render;
mod report;
pub(crate) mod rules;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use equate_api::kustomize::{InventoryEntry, Kustomization, KustomizationStatus};
use equate_api::meta::{FINALIZER, KUSTOMIZE_MANAGER, KUSTOMIZE_STATUS_MANAGER};
use equate_apply::id::ObjectId;
use equate_apply::owner::{Owner, OwnerKind};
use jiff::Timestamp;
use tokio::time::Instant;

use self::decide::Plan;
use self::decide::seen::Seen;
use self::declared::Declared;
use self::inputs::vault_transit::{TransitSettings, Transits};
use self::memory::{Memory, ThisRun};
use self::report::Done;
use self::rules::ObjectRules;
use crate::kit::about::{About, Column, Concurrency};
use crate::kit::controller::{self, Absence, Acted, Controller, ROUNDS_MAX, Reconcilable};
use crate::kit::mirror::{Change, Mirror};
use crate::kit::reconciliation::{Reconciliation, Stop};
use crate::kit::services::Kit;
use crate::kit::wake::Reason;
use crate::targets::target::Access;
use crate::{Key, ObjectRef};

/// How Kustomizations mark what they apply: as Flux does, so that ownership carries over.
pub static KUSTOMIZATION: OwnerKind = OwnerKind {
    kind: "Kustomization",
    field_manager: "kustomize-controller",
    name_label: "kustomize.toolkit.fluxcd.io/name",
    namespace_label: "kustomize.toolkit.fluxcd.io/namespace",
};

/// The kind and its controller as data.
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
    columns: &[Column {
        header: "REVISION",
        pointer: "/status/lastAppliedRevision",
    }],
};

/// The API group of Kustomizations.
pub(crate) const GROUP: &str = "kustomize.toolkit.fluxcd.io";

/// The kind of owner that an object is that somebody declares, if it is one.
pub(crate) fn applies(id: &ObjectId) -> Option<&'static str> {
    let is_kustomization = &*id.group == GROUP && &*id.kind == KUSTOMIZATION.kind;
    is_kustomization.then_some(KUSTOMIZATION.kind)
}

/// A Kustomization as the owner of objects.
pub(crate) fn owner_of(key: &Key) -> Owner {
    Owner::new(&KUSTOMIZATION, &*key.namespace, &*key.name)
}

/// A Kustomization among objects of other kinds.
pub(crate) fn object_ref(key: &Key) -> ObjectRef {
    ObjectRef::of(KUSTOMIZATION.kind, key)
}

/// The controller of Kustomizations.
pub(crate) struct Kustomizations {
    kit: Arc<Kit>,
    mirror: Mirror<Kustomization>,
    /// How each Kustomization looks at its objects.
    rules: Arc<ObjectRules>,
    /// This cluster, with this process's own rights.
    here: Access,
    /// No cluster: for one whose way is not known.
    nowhere: Access,
    /// Opens data keys that somebody else keeps.
    transits: Transits,
}

/// One object while it is reconciled.
type Run<'a> = Reconciliation<'a, Kustomizations>;

impl Controller for Kustomizations {
    type Object = Kustomization;
    type Declared = Declared;
    type Memory = Memory;
    type Seen = Seen;
    type Plan = Plan;
    type Done = Done;

    const ABOUT: &'static About = &ABOUT;

    // the others are told what it wants also while it rests
    const ATTENDS_SUSPENDED: bool = true;

    fn new(kit: &Arc<Kit>) -> Self {
        let rules = Arc::new(ObjectRules::default());
        let registered = Arc::clone(&rules);
        kit.owner_rules.register(ABOUT.kind, registered);
        Self {
            mirror: kit.mirror(),
            rules,
            here: kit.here(&KUSTOMIZATION),
            nowhere: Access::none(kit.settings.pace.clone(), &KUSTOMIZATION),
            transits: Transits::new(kit.configuration::<TransitSettings>()),
            kit: Arc::clone(kit),
        }
    }

    fn affected(&self, change: &Change<Kustomization>) -> Vec<(ObjectRef, Reason)> {
        match &change.after {
            Some(object) => self.rules.set(&change.key, &object.spec),
            None => self.rules.forget(&change.key),
        }
        let reconciles = |object: &Arc<Kustomization>| self.kit.reconciles(ABOUT.kind, &object.metadata);
        let ours = change.after.as_ref().is_some_and(reconciles);
        let policy = &self.kit.settings.policy;
        declaration::changed(&mut self.kit.ownership(), change, ours, policy)
    }

    async fn ready(&self) {
        self.kit.sources.repositories.ready().await;
    }

    fn declare(object: &Kustomization) -> Result<Declared, controller::Failure> {
        // what has no meaning stalls by a decision: the others are told first what it wants
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
            // the next run looks at everything again
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
        if let Some(access) = memory.access {
            access.view.forget(key);
        }
        let wakes = self.kit.ownership().forget(&object_ref(key));
        self.kit.waker.wake_all(wakes);
    }
}

impl Kustomizations {
    /// How the objects of one are reached in this run.
    fn access<'m>(&'m self, memory: &'m Memory) -> &'m Access {
        memory.this_run.access.as_ref().unwrap_or(&self.nowhere)
    }
}

/// Counts some more; nobody orders anything by these numbers.
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

    fn inventory(&self) -> &[InventoryEntry] {
        let inventory = self.status.as_ref().and_then(|status| status.inventory.as_ref());
        inventory.map_or(&[], |inventory| &inventory.entries)
    }
}

crate::standard_status!(KustomizationStatus);
