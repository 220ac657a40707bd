//! What to do with every object, and why: values in, values out.
//!
//! [`plan`] is total and pure. It holds what git wants against the inventory and against what is
//! known of the cluster, and answers a [`Plan`]: steps in stages, then what to prune. Leaving an
//! object alone is a step as well, with its reason. Nothing is deleted on partial knowledge: an
//! empty render stops the pruning, so does one that drops too much ([`PruneBudgetCheck`]), and an object that somebody else owns is never pruned.
//!
//! It refuses to know the time: which objects are not to be corrected for now is an input.

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

/// What is planned for one owner at one revision.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// What is applied, stage after stage; only stages that have objects.
    pub stages: Vec<Stage>,
    /// What is pruned after all stages, in the reverse order of applying.
    pub prune: Vec<Step>,
    /// Set when nothing is pruned because it looks like a mistake.
    pub guard: Option<Guard>,
}

/// Why nothing is pruned, until somebody says that it is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// The render is empty.
    EmptyRender(EmptyRender),
    /// Too much would go at once.
    Budget(Exceeded),
}

/// Objects that are applied together.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Which.
    pub kind: StageKind,
    /// One step per object, in Flux's order.
    pub steps: Vec<Step>,
}

/// What happens to one object.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// It is not there and is created.
    Create(ObjectId),
    /// It is there, or may be, and is applied.
    Patch {
        /// The object.
        id: ObjectId,
        /// Why it is not left alone.
        reason: PatchReason,
        /// The resource version it had when this was planned; `None` if it was not seen.
        from: Option<String>,
        /// The fields that would change; empty where only digests were compared.
        changes: Vec<Difference>,
    },
    /// It cannot be changed in place, and may be deleted and created anew.
    Recreate {
        /// The object.
        id: ObjectId,
        /// What the API server refuses to change.
        why: String,
    },
    /// Git no longer holds it, and it is deleted.
    Prune {
        /// The object.
        id: ObjectId,
        /// The version it was applied in.
        version: String,
        /// The uid and the resource version it must still have, for what was seen of it decided;
        /// `None` if it was not seen.
        from: Option<(String, String)>,
    },
    /// It is left alone.
    Keep(ObjectId, KeepReason),
}

impl Step {
    /// The object it is about.
    pub fn id(&self) -> &ObjectId {
        match self {
            Self::Create(id)
            | Self::Patch { id, .. }
            | Self::Recreate { id, .. }
            | Self::Prune { id, .. }
            | Self::Keep(id, _) => id,
        }
    }

    /// Whether it writes to the cluster.
    pub fn acts(&self) -> bool {
        !matches!(self, Self::Keep(..))
    }
}

/// Why an object is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PatchReason {
    /// Git wants something else than what is there, or nothing is remembered of an earlier apply.
    Changed,
    /// It was applied as git wants it, and somebody changed it since.
    Drifted,
    /// What `kubectl` left on it is taken over.
    Takeover,
    /// It has not been seen yet.
    NotSeen,
}

/// Why an object is left alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeepReason {
    /// It is as git wants it.
    Unchanged,
    /// A label or annotation says so, in git or in the cluster: `reconcile: disabled` or `ssa: Ignore`.
    Ignored,
    /// It is there, and `ssa: IfNotPresent` says to leave it then.
    Present,
    /// It is being deleted; it is created anew when it is gone. A change in git is still applied: it
    /// may take away the finalizer that holds the object.
    Deleting,
    /// Another owner has applied it and still holds it, or is the first of those that want it.
    HeldBy(Owner),
    /// It is part of the loop that would apply it.
    OwnLoop,
    /// Somebody keeps changing it, and correcting it waits.
    DriftBackoff {
        /// The manager that wrote it last.
        writer: Option<String>,
    },
    /// Not pruned: `prune: Disabled`, in the cluster.
    PruneDisabled,
    /// Not pruned: its owner does not prune.
    PruneOff,
    /// Not pruned: its labels name another owner, or none.
    NotOurs(Option<Owner>),
    /// Not pruned: another owner wants it and takes it from here.
    HandedOver(Owner),
    /// Not pruned yet: whether this owner wants it is not known.
    Awaited(Owner),
    /// Not pruned yet: this object, which the owner wants or still holds, would go with it.
    Needed(Owner, ObjectId),
    /// Not pruned: too much would go at once.
    OverBudget,
    /// Not pruned: it is gone already.
    Gone,
}

/// A render without objects, while the inventory has some: taken for a mistake until it is confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmptyRender {
    /// The revision that renders empty, and the value that confirms it.
    pub revision: String,
    /// How many objects would have been pruned.
    pub objects: usize,
}

/// What else a plan depends on.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// Who plans.
    pub owner: &'a Owner,
    /// The revision that was rendered.
    pub revision: &'a str,
    /// Whether the owner prunes at all.
    pub prune: bool,
    /// The revision whose empty render was confirmed (`equate.dev/allow-empty`).
    pub allow_empty: Option<&'a str>,
    /// What may be pruned at once; anything without it, as where somebody said that it is meant.
    pub prune_check: Option<PruneBudgetCheck>,
    /// The kinds of the custom stage.
    pub custom_stage: &'a BTreeSet<GroupKind>,
    /// Who else holds objects and does not let go of them. What their labels name them for is theirs. One of
    /// another kind holds what it claims whatever the labels say: those of its kind are not looked at.
    pub claims: &'a BTreeSet<(ObjectId, Owner)>,
    /// Objects that another owner has or gets, whatever their labels say and also before they are there.
    pub assigned: &'a BTreeMap<ObjectId, Owner>,
    /// Of the objects that are to be pruned, those that another owner wants.
    pub contenders: &'a BTreeMap<ObjectId, Owner>,
    /// An owner of whom it is not known what it wants. What is no longer declared here may be
    /// declared there, so nothing is pruned meanwhile.
    pub awaited: Option<&'a Owner>,
    /// Of the objects that are to be pruned, those whose labels name one that has let go of them, with
    /// that one: they may be pruned though they were never applied here.
    pub released: &'a BTreeMap<ObjectId, Owner>,
    /// Objects that others would go with ([`crate::container`]), each with one that somebody needs.
    pub needed: &'a BTreeMap<ObjectId, (Owner, ObjectId)>,
    /// Objects whose drift is not to be corrected for now, with the manager that writes them.
    pub backing_off: &'a BTreeMap<ObjectId, Option<String>>,
}

impl<'a> Options<'a> {
    /// Pruning, with nothing special.
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

/// Plans. Of two desired objects with one id the first counts.
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

/// The step of one desired object. The executor asks again what it sees itself.
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
        // without a label of this kind; one of another kind may have it
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
            let Some(reason) = stale(desired, observed, remembered) else {
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

/// Why an object that is there is not even compared.
fn kept_when_present(desired: &Desired, observed: &Observed, options: &Options<'_>) -> Option<KeepReason> {
    if observed.policy.ignored() {
        return Some(KeepReason::Ignored);
    }
    // A label alone may be left over from an owner that gave the object up, or is gone; one that
    // still counts it among its own holds it.
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

/// An owner of another kind than the one who plans, that claims an object.
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

/// Why an apply would change something; `None` if it would not.
fn stale(desired: &Desired, observed: &Observed, remembered: Option<Remembered>) -> Option<PatchReason> {
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
        // whoever took it over is written on it
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

/// Whether the labels of an object name who plans, or one that let go of it for that one.
fn belongs(id: &ObjectId, observed: &Observed, options: &Options<'_>) -> bool {
    observed
        .owner
        .as_ref()
        .is_some_and(|named| named == options.owner || options.released.get(id) == Some(named))
}

/// Whether an object that is there may be pruned by an owner. The executor asks again what it sees itself.
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

/// A render is empty when all that is left is the loop itself.
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

    /// What the inventory is when every step succeeds: what is applied or kept as ours.
    ///
    /// Objects of the own loop and objects that another holds are not in it: they are not ours to
    /// prune. What is handed over stays in it until its labels name the other, and so does what may
    /// not be pruned yet: at each moment some inventory has the object, so nobody forgets it if the
    /// other never comes to take it. Where pruning has to be confirmed it is what it was.
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

    /// What is no longer declared and still in the inventory: another is to take it, or may be, or
    /// needs what would go with it, or too much would go at once.
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

    /// What must be in the inventory before anything is applied, so that a process that is killed
    /// half-way forgets no object: all that was in it, and all that will be.
    pub fn write_ahead(&self, desired: &[Desired], before: &Inventory) -> Inventory {
        before.union(&self.inventory(desired, before))
    }

    /// Objects that another owner holds and this one wants, with that owner.
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
