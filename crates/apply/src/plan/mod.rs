//! Planning of every object: values in, values out.
//!
//! [`plan`] is total and pure. It compares the desired objects with the inventory and the observed
//! cluster. It returns a [`Plan`]: steps in stages, then prune steps. Leaving an object alone is a step
//! with a reason. Partial knowledge never deletes: an empty render blocks pruning, so does one that drops
//! too much ([`PruneBudgetCheck`]), and an object of another owner is never pruned.
//!
//! It has no clock: objects with a drift backoff are an input.

mod display;
mod prune_budget;
mod state;
#[cfg(test)]
mod tests;

pub use prune_budget::{Budget, BudgetError, Exceeded, PruneBudgetCheck};
pub use state::{Live, Memory, Presence, Remembered};

use crate::desired::Desired;
use crate::difference::Difference;
use crate::id::ObjectId;
use crate::inventory::Inventory;
use crate::observed::Observed;
use crate::order::{self, GroupKind, StageKind};
use crate::owner::{Owner, OwnerKind};
use crate::policy::Mode;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// The plan of one owner at one revision.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// The stages to apply, in order, without empty ones.
    pub stages: Vec<Stage>,
    /// The objects to prune after all stages, in reverse apply order.
    pub prune: Vec<Step>,
    /// Set when pruning is blocked because it looks like a mistake.
    pub guard: Option<Guard>,
}

/// The reason to block pruning until it is confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// The render is empty.
    EmptyRender(EmptyRender),
    /// The prune budget is exceeded.
    Budget(Exceeded),
}

/// Objects that are applied together.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// The kind of stage.
    pub kind: StageKind,
    /// One step per object, in Flux's order.
    pub steps: Vec<Step>,
}

/// The step of one object.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The object does not exist and is created.
    Create(ObjectId),
    /// The object exists, or may exist, and is applied.
    Patch {
        /// The object.
        id: ObjectId,
        /// The reason to apply.
        reason: PatchReason,
        /// The planned resource version; `None` if unobserved.
        from: Option<String>,
        /// The fields that would change; empty if only digests were compared.
        changes: Vec<Difference>,
    },
    /// The object cannot be changed in place; it is deleted and created anew.
    Recreate {
        /// The object.
        id: ObjectId,
        /// The refused change.
        why: String,
    },
    /// The object is no longer in git and is deleted.
    Prune {
        /// The object.
        id: ObjectId,
        /// The version it was applied in.
        version: String,
        /// The uid and resource version as preconditions, because the plan depends on them; `None` if
        /// unobserved.
        from: Option<(String, String)>,
    },
    /// The object is left alone.
    Keep(ObjectId, KeepReason),
}

impl Step {
    /// The object of the step.
    pub fn id(&self) -> &ObjectId {
        match self {
            Self::Create(id)
            | Self::Patch { id, .. }
            | Self::Recreate { id, .. }
            | Self::Prune { id, .. }
            | Self::Keep(id, _) => id,
        }
    }

    /// Whether the step writes to the cluster.
    pub fn acts(&self) -> bool {
        !matches!(self, Self::Keep(..))
    }
}

/// The reason to apply an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PatchReason {
    /// Git differs from the live object, or no earlier apply is remembered.
    Changed,
    /// It was applied as in git and has changed since.
    Drifted,
    /// Fields owned by `kubectl` are taken over.
    Takeover,
    /// It is not observed yet.
    NotSeen,
}

/// The reason to leave an object alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeepReason {
    /// It is up to date.
    Unchanged,
    /// A label or annotation, in git or in the cluster: `reconcile: disabled` or `ssa: Ignore`.
    Ignored,
    /// It exists, and has `ssa: IfNotPresent`.
    Present,
    /// It is being deleted, and created anew once it is gone. A change in git is still applied: it may
    /// remove the finalizer.
    Deleting,
    /// Another owner has applied it and still claims it, or comes first among those that want it.
    HeldBy(Owner),
    /// It is part of the bootstrap that would apply it.
    OwnLoop,
    /// Others keep changing it, and the correction waits.
    DriftBackoff {
        /// The last manager that wrote it.
        writer: Option<String>,
    },
    /// Not pruned: `prune: Disabled` in the cluster.
    PruneDisabled,
    /// Not pruned: pruning is off for its owner.
    PruneOff,
    /// Not pruned: its labels name another owner, or none.
    NotOurs(Option<Owner>),
    /// Not pruned: another owner takes it over.
    HandedOver(Owner),
    /// Not pruned yet: it is unknown whether this owner wants it.
    Awaited(Owner),
    /// Not pruned yet: this object of the owner would be deleted with it.
    Needed(Owner, ObjectId),
    /// Not pruned: the prune budget is exceeded.
    OverBudget,
    /// Not pruned: it no longer exists.
    Gone,
}

/// A render without objects while the inventory has some: a mistake until confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmptyRender {
    /// The empty revision, which is also the value that confirms it.
    pub revision: String,
    /// The number of objects it would prune.
    pub objects: usize,
}

/// The other inputs of a plan.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// The owner.
    pub owner: &'a Owner,
    /// The rendered revision.
    pub revision: &'a str,
    /// Whether pruning is on.
    pub prune: bool,
    /// The revision whose empty render is confirmed (`equate.dev/allow-empty`).
    pub allow_empty: Option<&'a str>,
    /// The prune budget; `None` for no limit, as after a confirmation.
    pub prune_check: Option<PruneBudgetCheck>,
    /// The kinds of the custom stage.
    pub custom_stage: &'a BTreeSet<GroupKind>,
    /// Objects that other owners claim. A claim counts for an object whose labels name that owner. A
    /// claim of another kind of owner counts whatever the labels are: labels of that kind are not read.
    pub claims: &'a BTreeSet<(ObjectId, Owner)>,
    /// Objects that another owner has or gets, whatever their labels, also before they exist.
    pub assigned: &'a BTreeMap<ObjectId, Owner>,
    /// Among the objects to prune, those that another owner wants.
    pub contenders: &'a BTreeMap<ObjectId, Owner>,
    /// An owner whose desired objects are unknown. It may want objects that are dropped here, so nothing
    /// is pruned meanwhile.
    pub awaited: Option<&'a Owner>,
    /// Among the objects to prune, those labelled with an owner that has released them, with that owner:
    /// they may be pruned though they were never applied here.
    pub released: &'a BTreeMap<ObjectId, Owner>,
    /// Objects that contain others ([`crate::container`]), each with one that an owner needs.
    pub needed: &'a BTreeMap<ObjectId, (Owner, ObjectId)>,
    /// Objects with a drift backoff, and the manager that writes them.
    pub backing_off: &'a BTreeMap<ObjectId, Option<String>>,
}

impl<'a> Options<'a> {
    /// Default options: pruning is on.
    pub fn new(owner: &'a Owner, revision: &'a str) -> Self {
        static NO_KINDS: BTreeSet<GroupKind> = BTreeSet::new();
        static NO_CLAIMS: BTreeSet<(ObjectId, Owner)> = BTreeSet::new();
        static NO_CONTENDERS: BTreeMap<ObjectId, Owner> = BTreeMap::new();
        static NOT_NEEDED: BTreeMap<ObjectId, (Owner, ObjectId)> = BTreeMap::new();
        static NO_BACKOFF: BTreeMap<ObjectId, Option<String>> = BTreeMap::new();
        Self {
            owner,
            revision,
            prune: true,
            allow_empty: None,
            prune_check: None,
            custom_stage: &NO_KINDS,
            claims: &NO_CLAIMS,
            assigned: &NO_CONTENDERS,
            contenders: &NO_CONTENDERS,
            awaited: None,
            released: &NO_CONTENDERS,
            needed: &NOT_NEEDED,
            backing_off: &NO_BACKOFF,
        }
    }
}

/// Makes the plan. Of two desired objects with one id the first counts.
pub fn plan(
    desired: &[Desired],
    inventory: &Inventory,
    live: &Live,
    memory: &Memory,
    options: &Options<'_>,
) -> Plan {
    let mut wanted: HashSet<&ObjectId> = HashSet::with_capacity(desired.len());
    let mut stages: BTreeMap<StageKind, Vec<Step>> = BTreeMap::new();
    for desired in desired {
        if wanted.insert(&desired.id) {
            let step = apply_step(desired, live.get(&desired.id), memory, options);
            let stage = order::stage(&desired.id, options.custom_stage);
            stages.entry(stage).or_default().push(step);
        }
    }
    let stages = stages
        .into_iter()
        .map(|(kind, mut steps)| {
            steps.sort_by(|a, b| order::compare(a.id(), b.id()));
            Stage { kind, steps }
        })
        .collect();

    let mut prune: Vec<Step> = inventory
        .iter()
        .filter(|(id, _)| !wanted.contains(id))
        .map(|(id, version)| prune_step(id, version, live.get(id), options))
        .collect();
    prune.sort_by(|a, b| {
        let stage = |step: &Step| order::stage(step.id(), options.custom_stage);
        let forward = stage(a).cmp(&stage(b));
        forward.then_with(|| order::compare(a.id(), b.id())).reverse()
    });
    let guard = match empty_render(desired, &prune, options) {
        Some(empty) => {
            prune.clear();
            Some(Guard::EmptyRender(empty))
        }
        None => {
            let prune_check = options.prune_check;
            prune_check
                .and_then(|prune_check| prune_check.hold(&mut prune))
                .map(Guard::Budget)
        }
    };
    Plan { stages, prune, guard }
}

/// The step of one desired object. The executor calls it again with the live object.
pub(crate) fn apply_step(
    desired: &Desired,
    presence: &Presence,
    memory: &Memory,
    options: &Options<'_>,
) -> Step {
    let id = desired.id.clone();
    if desired.own_loop {
        return Step::Keep(id, KeepReason::OwnLoop);
    }
    if desired.policy.ignored() {
        return Step::Keep(id, KeepReason::Ignored);
    }
    if let Some(owner) = options.assigned.get(&id) {
        return Step::Keep(id, KeepReason::HeldBy(owner.clone()));
    }
    let backing_off = || {
        let writer = options.backing_off.get(&desired.id)?;
        Some(KeepReason::DriftBackoff {
            writer: writer.clone(),
        })
    };
    let remembered = memory.get(&desired.id);
    let applied = remembered.is_some_and(|r| r.desired == desired.digest);
    match presence {
        Presence::Unknown => Step::Patch {
            id,
            reason: PatchReason::NotSeen,
            from: None,
            changes: Vec::new(),
        },
        // absent means without a label of this kind; it may belong to another kind
        Presence::Absent if let Some(holder) = holder_of_another_kind(&id, options) => {
            Step::Keep(id, KeepReason::HeldBy(holder.clone()))
        }
        Presence::Absent => match backing_off() {
            Some(reason) if applied => Step::Keep(id, reason),
            _ => Step::Create(id),
        },
        Presence::Present(observed) => {
            if let Some(reason) = kept_when_present(desired, observed, options) {
                return Step::Keep(id, reason);
            }
            if observed.deleting && (applied || remembered.is_none()) {
                return Step::Keep(id, KeepReason::Deleting);
            }
            let Some(reason) = reason_to_apply(desired, observed, remembered) else {
                return Step::Keep(id, KeepReason::Unchanged);
            };
            match backing_off() {
                Some(keep) if reason == PatchReason::Drifted => Step::Keep(id, keep),
                _ => Step::Patch {
                    id,
                    reason,
                    from: Some(observed.resource_version.clone()),
                    changes: Vec::new(),
                },
            }
        }
    }
}

/// The reason to keep a live object without comparing it.
fn kept_when_present(desired: &Desired, observed: &Observed, options: &Options<'_>) -> Option<KeepReason> {
    if observed.policy.ignored() {
        return Some(KeepReason::Ignored);
    }
    // A label alone may be left over from an owner that released the object or is gone; only a claim
    // counts.
    let holder = observed.owner.as_ref().filter(|owner| *owner != options.owner);
    if let Some(holder) = holder
        && options.claims.contains(&(desired.id.clone(), holder.clone()))
    {
        return Some(KeepReason::HeldBy(holder.clone()));
    }
    if let Some(holder) = holder_of_another_kind(&desired.id, options) {
        return Some(KeepReason::HeldBy(holder.clone()));
    }
    (desired.policy.mode == Mode::IfNotPresent).then_some(KeepReason::Present)
}

fn holder_of_another_kind<'a>(id: &ObjectId, options: &Options<'a>) -> Option<&'a Owner> {
    static LOWEST: OwnerKind = OwnerKind {
        kind: "",
        field_manager: "",
        name_label: "",
        namespace_label: "",
    };
    let from = (id.clone(), Owner::new(&LOWEST, "", ""));
    let claims = options.claims.range(from..);
    let mut claims = claims.take_while(|(claimed, _)| claimed == id);
    let claim = claims.find(|(_, owner)| owner.kind != options.owner.kind);
    claim.map(|(_, owner)| owner)
}

fn reason_to_apply(
    desired: &Desired,
    observed: &Observed,
    remembered: Option<Remembered>,
) -> Option<PatchReason> {
    if observed.kubectl && desired.policy.mode != Mode::Merge {
        return Some(PatchReason::Takeover);
    }
    match remembered {
        Some(r) if r.desired == desired.digest && r.owned == observed.owned => None,
        _ if observed.owned == desired.digest => None,
        Some(r) if r.desired == desired.digest => Some(PatchReason::Drifted),
        _ => Some(PatchReason::Changed),
    }
}

fn prune_step(id: &ObjectId, version: &str, presence: &Presence, options: &Options<'_>) -> Step {
    let prune = |seen: Option<&Arc<Observed>>| Step::Prune {
        id: id.clone(),
        version: version.to_owned(),
        from: seen.map(|seen| (seen.uid.clone(), seen.resource_version.clone())),
    };
    let keep = |reason| Step::Keep(id.clone(), reason);
    if !options.prune {
        return keep(KeepReason::PruneOff);
    }
    let seen = match presence {
        Presence::Absent => return keep(KeepReason::Gone),
        // its labels name the owner that took it over
        Presence::Present(observed) if !belongs(id, observed, options) => {
            return keep(KeepReason::NotOurs(observed.owner.clone()));
        }
        Presence::Present(observed) => Some(observed),
        Presence::Unknown => None,
    };
    if let Some(taker) = options.contenders.get(id) {
        return keep(KeepReason::HandedOver(taker.clone()));
    }
    if let Some(Err(reason)) = seen.map(|observed| prunable(id, observed, options)) {
        return keep(reason);
    }
    if let Some((owner, object)) = options.needed.get(id) {
        return keep(KeepReason::Needed(owner.clone(), object.clone()));
    }
    match options.awaited {
        Some(owner) => keep(KeepReason::Awaited(owner.clone())),
        None => prune(seen),
    }
}

/// Whether the labels name the planning owner, or one that has released the object to it.
fn belongs(id: &ObjectId, observed: &Observed, options: &Options<'_>) -> bool {
    observed
        .owner
        .as_ref()
        .is_some_and(|named| named == options.owner || options.released.get(id) == Some(named))
}

/// Whether an owner may prune a live object. The executor calls it again with the live object.
pub(crate) fn prunable(id: &ObjectId, observed: &Observed, options: &Options<'_>) -> Result<(), KeepReason> {
    if !belongs(id, observed, options) {
        Err(KeepReason::NotOurs(observed.owner.clone()))
    } else if observed.policy.ignored() {
        Err(KeepReason::Ignored)
    } else if !observed.policy.prune {
        Err(KeepReason::PruneDisabled)
    } else if observed.deleting {
        Err(KeepReason::Deleting)
    } else {
        Ok(())
    }
}

/// A render is empty when only the bootstrap itself is left.
fn empty_render(desired: &[Desired], prune: &[Step], options: &Options<'_>) -> Option<EmptyRender> {
    let later = |step: &Step| {
        matches!(
            step,
            Step::Keep(_, KeepReason::Awaited(_) | KeepReason::Needed(..))
        )
    };
    let would = |step: &&Step| step.acts() || later(step);
    let objects = prune.iter().filter(would).count();
    let empty = desired.iter().all(|desired| desired.own_loop);
    let confirmed = options.allow_empty == Some(options.revision);
    (empty && objects > 0 && !confirmed).then(|| EmptyRender {
        revision: options.revision.to_owned(),
        objects,
    })
}

impl Plan {
    /// All steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.stages
            .iter()
            .flat_map(|stage| &stage.steps)
            .chain(&self.prune)
    }

    /// Whether nothing is written.
    pub fn is_noop(&self) -> bool {
        !self.steps().any(Step::acts)
    }

    /// The inventory after all steps succeed: applied and kept objects of ours.
    ///
    /// Objects of the bootstrap and of other owners are not in it. An object that is handed over, or may
    /// not be pruned yet, stays in it until its labels name the other owner: at each moment some
    /// inventory has it. While pruning is blocked the inventory is unchanged.
    pub fn inventory(&self, desired: &[Desired], before: &Inventory) -> Inventory {
        if self.guard.is_some() {
            return before.clone();
        }
        let foreign: HashSet<&ObjectId> = self
            .stages
            .iter()
            .flat_map(|stage| &stage.steps)
            .filter(|step| matches!(step, Step::Keep(_, KeepReason::OwnLoop | KeepReason::HeldBy(_))))
            .map(Step::id)
            .collect();
        let lingering = self.lingering(before).into_iter();
        desired
            .iter()
            .filter(|desired| !foreign.contains(&desired.id))
            .map(|desired| (desired.id.clone(), version_of(desired)))
            .chain(lingering)
            .collect()
    }

    /// Objects that are no longer declared and still in the inventory: another owner takes or may take
    /// them, or needs their contents, or the prune budget is exceeded.
    pub fn lingering(&self, before: &Inventory) -> Inventory {
        let kept = self.prune.iter().filter_map(|step| match step {
            Step::Keep(
                id,
                KeepReason::HandedOver(_)
                | KeepReason::Awaited(_)
                | KeepReason::Needed(..)
                | KeepReason::OverBudget,
            ) => Some(id),
            _ => None,
        });
        kept.filter_map(|id| Some((id.clone(), before.version(id)?.to_owned())))
            .collect()
    }

    /// The inventory to store before the apply, so that a killed process forgets no object: the old and
    /// the new one together.
    pub fn write_ahead(&self, desired: &[Desired], before: &Inventory) -> Inventory {
        before.union(&self.inventory(desired, before))
    }

    /// Objects that this owner wants and another one holds, with that owner.
    pub fn contested(&self) -> impl Iterator<Item = (&ObjectId, &Owner)> {
        self.steps().filter_map(|step| match step {
            Step::Keep(id, KeepReason::HeldBy(owner)) => Some((id, owner)),
            _ => None,
        })
    }
}

fn version_of(desired: &Desired) -> String {
    let api_version = desired.object.api_version();
    let version = api_version
        .rsplit_once('/')
        .map_or(api_version, |(_, version)| version);
    version.to_owned()
}
