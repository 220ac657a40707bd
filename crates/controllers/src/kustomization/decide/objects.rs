//! What becomes of objects: the one place that asks `equate_apply` for a plan.
//!
//! A run that applies, one that deletes what is not declared any more, one of a Kustomization that is itself
//! deleted, and a preview differ in what was seen, and in nothing else.

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

/// So many of other shards are named.
const FEW: usize = 3;

/// Objects that a plan is about, and all that is known of them.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    /// Who plans.
    pub(crate) owner: Owner,
    /// The revision that declares them.
    pub(crate) revision: String,
    /// What is declared; nothing where it is only about what is not declared any more.
    pub(crate) desired: Arc<Vec<Desired>>,
    /// What is held.
    pub(crate) held: Inventory,
    /// What the cluster has of both.
    pub(crate) live: Live,
    /// Our own applies.
    pub(crate) applies: Arc<plan::Memory>,
    /// Whether anything may be deleted at all.
    pub(crate) prune: bool,
    /// Whether it may declare nothing.
    pub(crate) may_be_empty: bool,
    /// How much may be deleted at once; anything without it.
    pub(crate) prune_check: Option<PruneBudgetCheck>,
    /// Who does not let go of what is declared here.
    pub(crate) claims: BTreeSet<(ObjectId, Owner)>,
    /// What another owner has or gets of what is declared here.
    pub(crate) assigned: BTreeMap<ObjectId, Owner>,
    /// The declared objects that nobody has: applying takes them.
    pub(crate) unclaimed: Vec<ObjectId>,
    /// Who wants what is not declared here any more.
    pub(crate) takers: BTreeMap<ObjectId, Owner>,
    /// What would take with it what somebody needs.
    pub(crate) needed: BTreeMap<ObjectId, (Owner, ObjectId)>,
    /// What was let go of for this one, which never took it.
    pub(crate) released: BTreeMap<ObjectId, Owner>,
    /// What is not corrected for now.
    pub(crate) backing_off: BTreeMap<ObjectId, Option<String>>,
    /// What the others say of what they want.
    pub(crate) others: Others,
    /// What its cluster has to list, or to serve, before anything is applied.
    pub(crate) kinds: Kinds,
}

/// What the other Kustomizations say.
#[derive(Debug, Clone, Default)]
pub(crate) struct Others {
    /// What is not known of what they want.
    pub(crate) survey: Arc<Survey>,
    /// One of those of whom it is not known.
    pub(crate) awaited: Option<Owner>,
    /// Who has to be built first, by name.
    pub(crate) unbuilt: String,
    /// Who had one of the declared objects last and has not been built from what is there now.
    pub(crate) holders: Option<Holders>,
    /// Who comes before and has to be built, before it is known who has objects that nobody holds.
    pub(crate) earlier: Option<Earlier>,
    /// Who has to be asked for, before what they say counts.
    pub(crate) questions: Questions,
    /// Whether it may write itself what another holds, before anything else is asked.
    pub(crate) own_questions: Questions,
}

/// Those who had declared objects last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holders {
    /// By name.
    pub(crate) named: String,
    /// When the last of them has had its time.
    pub(crate) until: Instant,
}

/// One that comes before with what it declares, and is not built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Earlier {
    /// Which.
    pub(crate) named: String,
    /// When it has had its time.
    pub(crate) until: Instant,
}

/// The kinds of objects, as far as they hold up applying them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    /// Those that are not listed yet, by name; the watcher wakes the Kustomization when they are.
    pub(crate) starting: Option<String>,
    /// Groups that the cluster does not serve, until a stage defines them.
    pub(crate) unserved: BTreeSet<String>,
    /// Why they could not be looked up, if that is so.
    pub(crate) trouble: Option<Failure>,
}

/// A plan, and what stands in its way.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    /// What is kept because nobody knows whether another wants it.
    pub(crate) awaiting: Vec<ObjectId>,
    /// Whether more would be deleted than may be, if nobody wants it of whom that is not known.
    pub(crate) excessive: bool,
}

impl Objects {
    /// What else a plan depends on; the executor judges by it what was not seen.
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

    /// What to do with each of them.
    pub(crate) fn plan(&self) -> Planned {
        let plan = self.plan_where(self.may_be_empty);
        let without_guard = match plan.guard {
            // such a plan keeps nothing of what it would keep
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
    /// Who has to be built before anything is deleted, and what that is.
    pub(crate) fn waits_for(&self, others: &Others) -> Option<(Instant, String)> {
        let until = others.survey.until?;
        let message = format!(
            "Waiting for {} to be built before {} may be deleted",
            others.unbuilt,
            listed(self.awaiting.iter().map(ToString::to_string))
        );
        Some((until, message))
    }

    /// Whether anything is deleted, now or later.
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

    /// What is kept because nobody knows whether another wants it, and who that is.
    pub(crate) fn kept_for(&self, survey: &Survey) -> Option<String> {
        let kept = listed(self.awaiting.iter().map(ToString::to_string));
        if kept.is_empty() || survey.unknown.is_empty() {
            return None;
        }
        // of many that apply the same revision each would be another text, and a status
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
            "not deleted yet: {kept}; may have moved to {}. Pruning continues when that \
             is repaired, suspended or deleted",
            barred.join(", or to ")
        ))
    }
}

/// The first names of a list, and how many more there are.
pub(crate) fn listed(mut names: impl Iterator<Item = String>) -> String {
    let named: Vec<String> = names.by_ref().take(NAMED).collect();
    let named = named.join(", ");
    match names.count() {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
