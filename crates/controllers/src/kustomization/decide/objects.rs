//! The action for each object: the one place that asks `equate_apply` for a plan.
//!
//! Applying, pruning, deleting a Kustomization and a preview differ in their observations only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::owner::Owner;
use equate_apply::plan::{self, Guard, KeepReason, Live, Options, Plan, PruneBudgetCheck, Step};
use tokio::time::Instant;

use super::seen::Questions;
use crate::kustomization::reasons::Failure;
use crate::ownership::survey::{NAMED, Survey};

/// Above this, Kustomizations of other shards are named together.
const FEW: usize = 3;

/// The objects of a plan, with all that is known about them.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    pub(crate) owner: Owner,
    pub(crate) revision: String,
    /// The declared objects; none where the plan is only about objects that are no longer declared.
    pub(crate) desired: Arc<Vec<Desired>>,
    pub(crate) held: Inventory,
    pub(crate) live: Live,
    pub(crate) applies: Arc<plan::Memory>,
    pub(crate) prune: bool,
    /// Whether an empty build is accepted.
    pub(crate) may_be_empty: bool,
    /// The limit for deletions; none without it.
    pub(crate) prune_check: Option<PruneBudgetCheck>,
    /// Owners that do not release objects that are declared here.
    pub(crate) claims: BTreeSet<(ObjectId, Owner)>,
    /// The declared objects that another owner has or gets.
    pub(crate) assigned: BTreeMap<ObjectId, Owner>,
    /// The declared objects without an owner: applying takes them.
    pub(crate) unclaimed: Vec<ObjectId>,
    /// The owners that want objects that are no longer declared here.
    pub(crate) takers: BTreeMap<ObjectId, Owner>,
    /// The objects whose deletion would delete an object that another owner needs.
    pub(crate) needed: BTreeMap<ObjectId, (Owner, ObjectId)>,
    /// The objects that were released for this one, which never took them.
    pub(crate) released: BTreeMap<ObjectId, Owner>,
    /// The objects that are not corrected for now.
    pub(crate) backing_off: BTreeMap<ObjectId, Option<String>>,
    pub(crate) others: Others,
    pub(crate) kinds: Kinds,
}

/// The other Kustomizations, as far as known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Others {
    pub(crate) survey: Arc<Survey>,
    /// One of those with an unknown desired state.
    pub(crate) awaited: Option<Owner>,
    /// The names of those that have to be built first.
    pub(crate) unbuilt: String,
    /// The last owners of declared objects that are not built from the present state.
    pub(crate) holders: Option<Holders>,
    /// One with precedence that has to be built before objects without an owner are assigned.
    pub(crate) earlier: Option<Earlier>,
    /// Questions to the API server before the others' claims count.
    pub(crate) questions: Questions,
    /// Questions about its own permission to write objects of others, asked first.
    pub(crate) own_questions: Questions,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holders {
    pub(crate) named: String,
    /// When the last of them has had its time.
    pub(crate) until: Instant,
}

/// One that has precedence for declared objects and is not built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Earlier {
    pub(crate) named: String,
    pub(crate) until: Instant,
}

/// The kinds of objects that delay applying.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    /// Kinds that are not listed yet, by name; the watcher wakes the Kustomization when they are.
    pub(crate) starting: Option<String>,
    /// API groups that the cluster does not serve, until a stage defines them.
    pub(crate) unserved: BTreeSet<String>,
    pub(crate) trouble: Option<Failure>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    /// Objects that are kept because it is unknown whether another wants them.
    pub(crate) awaiting: Vec<ObjectId>,
    /// Whether the plan would exceed the budget if none of them is wanted.
    pub(crate) excessive: bool,
}

impl Objects {
    /// The options of the plan; the executor uses them for objects that were not observed.
    pub(crate) fn options(&self) -> Options<'_> {
        self.options_where(self.may_be_empty)
    }

    fn options_where(&self, may_be_empty: bool) -> Options<'_> {
        let Self {
            owner,
            revision,
            desired: _,
            held: _,
            live: _,
            applies: _,
            prune,
            may_be_empty: _,
            prune_check,
            claims,
            assigned,
            unclaimed: _,
            takers,
            needed,
            released,
            backing_off,
            others,
            kinds: _,
        } = self;
        Options {
            prune: *prune,
            allow_empty: may_be_empty.then_some(revision.as_str()),
            prune_check: *prune_check,
            claims,
            assigned,
            contenders: takers,
            awaited: others.awaited.as_ref(),
            released,
            needed,
            backing_off,
            ..Options::new(owner, revision)
        }
    }

    pub(crate) fn plan(&self) -> Planned {
        let plan = self.plan_where(self.may_be_empty);
        let without_guard = match plan.guard {
            // a refused plan does not list the objects it would keep
            Some(Guard::EmptyRender(_)) => Some(self.plan_where(true)),
            Some(Guard::Budget(_)) | None => None,
        };
        let prune = &without_guard.as_ref().unwrap_or(&plan).prune;
        let awaiting: Vec<ObjectId> = awaiting(prune).cloned().collect();
        let excessive = self.prune_check.is_some_and(|check| {
            let may_go = |step: &&Step| {
                step.acts()
                    || matches!(
                        step,
                        Step::Keep(_, KeepReason::Awaited(_) | KeepReason::OverBudget)
                    )
            };
            check.stops(prune.iter().filter(may_go).count())
        });
        Planned {
            plan,
            awaiting,
            excessive,
        }
    }

    fn plan_where(&self, may_be_empty: bool) -> Plan {
        let options = self.options_where(may_be_empty);
        plan::plan(&self.desired, &self.held, &self.live, &self.applies, &options)
    }
}

fn awaiting(prune: &[Step]) -> impl Iterator<Item = &ObjectId> {
    prune.iter().filter_map(|step| match step {
        Step::Keep(id, KeepReason::Awaited(_)) => Some(id),
        _ => None,
    })
}

impl Planned {
    /// A message about the Kustomizations that have to be built before anything is deleted, and the end of
    /// the wait.
    pub(crate) fn waits_for(&self, others: &Others) -> Option<(Instant, String)> {
        let until = others.survey.until?;
        let message = format!(
            "Waiting for {} to be built before {} may be deleted",
            others.unbuilt,
            listed(self.awaiting.iter().map(ToString::to_string))
        );
        Some((until, message))
    }

    pub(crate) fn deletes(&self) -> bool {
        let later = |step: &Step| match step {
            Step::Keep(_, reason) => matches!(
                reason,
                KeepReason::Awaited(_) | KeepReason::Needed(..) | KeepReason::OverBudget
            ),
            step => step.acts(),
        };
        self.plan.prune.iter().any(later)
    }

    /// A message about objects that are kept because it is unknown whether another wants them.
    pub(crate) fn kept_for(&self, survey: &Survey) -> Option<String> {
        let kept = listed(self.awaiting.iter().map(ToString::to_string));
        if kept.is_empty() || survey.unknown.is_empty() {
            return None;
        }
        // naming each of many that apply the same revision would write a status for every change
        let elsewhere = &survey.in_other_shards;
        let many = elsewhere.len() > FEW;
        let barred = survey.unknown.iter();
        let named = barred.filter(|(key, _)| !(many && elsewhere.contains(*key)));
        let named = named.take(NAMED);
        let mut barred: Vec<String> = named.map(|(key, why)| format!("{key}, which {why}")).collect();
        if let Some(why) = elsewhere.first().and_then(|key| survey.unknown.get(key))
            && many
        {
            barred.push(format!("a Kustomization of another shard, which {why}"));
        }
        Some(format!(
            "not deleted yet: {kept}; may have moved to {}. Pruning continues when that Kustomization \
             is repaired, suspended or deleted",
            barred.join(", or to ")
        ))
    }
}

/// The first names of a list, and the number of the others.
pub(crate) fn listed(mut names: impl Iterator<Item = String>) -> String {
    let named: Vec<String> = names.by_ref().take(NAMED).collect();
    let named = named.join(", ");
    match names.count() {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
