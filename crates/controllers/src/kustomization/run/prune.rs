//! What becomes of objects that are not declared any more: an object that has only moved is not deleted.
//!
//! Nothing is deleted before every other Kustomization that could be built has been, from the
//! artifact that its source has now (`publish`, `survey`).
//!
//! What another one wants is handed over: it stays, and it stays in the inventory until the other
//! has taken it. One that reads the same source and cannot be built might want anything: what would
//! be deleted is kept until it can be, or is suspended or deleted, and the status says so. That it
//! holds up is the price of not guessing; it holds up deletions and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use equate_api::meta::{ConditionType, Reason as Why, condition};
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::owner::Owner;
use equate_apply::plan::{self, Guard, KeepReason, Live, Options, Plan, Presence, PruneBudgetCheck, Step};

use super::status::Stop;
use super::survey::{Awaited, listed};
use super::{Context, Run};
use crate::ObjectRef;
use crate::kit::queue::Requeue;
use crate::kit::wake::Reason;
use crate::kustomization::decide::{Finalize, Phase};
use crate::kustomization::declared::Declared;
use crate::kustomization::{object_ref, owner_of, reasons};
use crate::ownership::claims;
use crate::ownership::claims::takers;
use crate::ownership::desired::Watched;
use crate::ownership::graph::Need;
use crate::ownership::retained;
use crate::ownership::survey::{NAMED, Survey};
use crate::targets::target::Access;

/// So many of other shards are named.
const FEW: usize = 3;

/// What becomes of objects that are not declared any more.
#[derive(Debug, Default)]
pub(super) struct PrunePlan {
    pub(super) plan: Plan,
    /// Whether more would be deleted than may be, if nobody wants it of whom that is not known.
    pub(super) excessive: bool,
    pub(super) takers: BTreeMap<ObjectId, Owner>,
    pub(super) survey: Arc<Survey>,
    /// Who has to be built first, by name.
    waiting: String,
    awaited: Option<Owner>,
}

impl PrunePlan {
    /// One of those of whom it is not known what they want.
    pub(super) fn awaited(&self) -> Option<Owner> {
        self.awaited.clone()
    }

    /// Whether anything is deleted, now or later.
    pub(super) fn deletes(&self) -> bool {
        let later = |step: &Step| match step {
            Step::Keep(_, reason) => matches!(
                reason,
                KeepReason::Awaited(_) | KeepReason::Needed(..) | KeepReason::OverBudget
            ),
            step => step.acts(),
        };
        self.plan.prune.iter().any(later)
    }

    /// Who has to be built before anything is deleted, and what that is.
    pub(super) fn waits(&self) -> Option<Awaited> {
        let until = self.survey.until?;
        Some(Awaited::new(
            until,
            format!(
                "Waiting for {} to be built before {} may be deleted",
                self.waiting,
                listed(self.awaiting().map(ToString::to_string))
            ),
        ))
    }

    /// What is kept because nobody knows whether another wants it, and who that is.
    pub(super) fn said(&self) -> Option<String> {
        let kept = listed(self.awaiting().map(ToString::to_string));
        if kept.is_empty() || self.survey.unknown.is_empty() {
            return None;
        }
        // of many that apply the same revision each would be another text, and a status
        let elsewhere = &self.survey.in_other_shards;
        let many = elsewhere.len() > FEW;
        let barred = self.survey.unknown.iter();
        let named = barred.filter(|(key, _)| !(many && elsewhere.contains(*key)));
        let named = named.take(NAMED);
        let mut barred: Vec<String> = named.map(|(key, why)| format!("{key}, which {why}")).collect();
        if let Some(why) = elsewhere.first().and_then(|key| self.survey.unknown.get(key))
            && many
        {
            barred.push(format!("a Kustomization of another shard, which {why}"));
        }
        Some(format!(
            "not deleted yet: {kept}; may have moved to {}. It goes on when that is repaired, \
             suspended or deleted",
            barred.join(", or to ")
        ))
    }

    fn awaiting(&self) -> impl Iterator<Item = &ObjectId> {
        self.plan.prune.iter().filter_map(|step| match step {
            Step::Keep(id, KeepReason::Awaited(_)) => Some(id),
            _ => None,
        })
    }
}

impl Context {
    /// What becomes of objects that a Kustomization does not declare any more, as things stand now;
    /// what may change that wakes it. Those who took too long are not waited for any more.
    ///
    /// More than the budget allows is deleted of a revision that is confirmed only.
    pub(super) fn prune_plan(
        &self,
        access: &Access,
        ks: &Declared,
        gone: &Inventory,
        confirmed: bool,
    ) -> PrunePlan {
        self.plan_pruning(access, ks, gone, confirmed, true)
    }

    /// What is held to.
    fn prune_check(access: &Access, ks: &Declared) -> PruneBudgetCheck {
        let held = ks.inventory.ids();
        PruneBudgetCheck {
            budget: ks.prune_budget,
            // what is written down and not there is not held
            held: held.filter(|id| access.hub.get(id) != Presence::Absent).count(),
        }
    }

    fn plan_pruning(
        &self,
        access: &Access,
        ks: &Declared,
        gone: &Inventory,
        confirmed: bool,
        watches: bool,
    ) -> PrunePlan {
        let owner = owner_of(&ks.key);
        let mut rest = PrunePlan::default();
        let mut needed = BTreeMap::new();
        let me = object_ref(&ks.key);
        let released = self.released(access, &me, gone);
        {
            let mut index = self.index();
            let prunes = ks.prune || ks.deleting;
            if prunes && !gone.is_empty() {
                let survey = self.survey(&mut index, ks, &access.target);
                rest.survey = survey.without_unauthorized(&index.reviews, gone);
                rest.awaited = rest.survey.awaited().map(|object| index.owner(object));
                rest.waiting = rest.survey.silent(|key, since| index.is_silent(key, since));
                rest.takers = takers(&index, &me, gone.ids());
                let presence = |id: &ObjectId| access.hub.get(id);
                needed = claims::needed(&index, &me, gone.ids(), presence, Need::Now);
            }
            if watches {
                let mut of = rest.survey.listens_to();
                let others = rest.takers.values().chain(needed.values().map(|(by, _)| by));
                of.extend(others.map(ObjectRef::from));
                let until = rest.survey.until;
                index.watch(&me, Watched { of, until });
            }
        }
        let braked = !(confirmed || ks.deleting || gone.is_empty());
        let prune_check = braked.then(|| Self::prune_check(access, ks));
        let options = Options {
            prune: ks.prune || ks.deleting,
            prune_check,
            // whether the revision is empty is asked of all of it
            allow_empty: Some(""),
            contenders: &rest.takers,
            needed: &needed,
            released: &released,
            awaited: rest.awaited.as_ref(),
            ..Options::new(&owner, "")
        };
        let live: Live = gone.ids().map(|id| (id.clone(), access.hub.get(id))).collect();
        rest.plan = plan::plan(&[], gone, &live, &plan::Memory::default(), &options);
        let may_go = |step: &&Step| {
            matches!(
                step,
                Step::Keep(_, KeepReason::Awaited(_) | KeepReason::OverBudget)
            ) || step.acts()
        };
        let most = rest.plan.prune.iter().filter(may_go).count();
        rest.excessive = prune_check.is_some_and(|prune_check| prune_check.stops(most));
        rest
    }
}

impl Run<'_> {
    /// What is kept for the sake of others, as the status says it.
    pub(super) fn awaited(&self, ks: &Declared) -> Option<String> {
        let (so_far, staged) = (|| self.held_back_so_far(Why::OthersUnknown), self.is_staged());
        let lingering = &self.memory.lingering;
        if lingering.is_empty() {
            // a run that is not over knows nothing of what it is going to keep
            return staged.then(so_far).flatten();
        }
        let rest = self.look_at(ks, lingering);
        rest.awaiting().next()?;
        match staged || rest.waits().is_some() {
            // what was said stands until all have said what they want now
            true => so_far().or_else(|| rest.said()),
            false => rest.said(),
        }
    }

    /// What is kept because others would go with it, as the status says it.
    pub(super) fn needed(&self, ks: &Declared) -> Option<String> {
        let lingering = &self.memory.lingering;
        match lingering.is_empty() {
            true if self.is_staged() => self.held_back_so_far(Why::StillNeeded),
            true => None,
            false => retained::said(&self.look_at(ks, lingering).plan),
        }
    }

    /// What is kept because too much would be deleted at once, as the status says it.
    pub(super) fn over_budget(&self, ks: &Declared) -> Option<String> {
        let lingering = &self.memory.lingering;
        if lingering.is_empty() {
            return None;
        }
        let Some(Guard::Budget(exceeded)) = self.look_at(ks, lingering).plan.guard else {
            return None;
        };
        let record = self.memory.record.as_ref()?;
        Some(format!(
            "not deleted: {}",
            reasons::over_budget(&self.key, &record.since, &exceeded)
        ))
    }

    /// What becomes of objects that are not declared any more; what may change that wakes it.
    pub(super) async fn prune_plan(&self, ks: &Declared, gone: &Inventory) -> PrunePlan {
        self.review_access(ks, gone).await;
        self.cx.prune_plan(&self.access, ks, gone, self.is_confirmed(ks))
    }

    /// The same, but nothing wakes it.
    fn look_at(&self, ks: &Declared, gone: &Inventory) -> PrunePlan {
        let confirmed = self.is_confirmed(ks);
        self.cx.plan_pruning(&self.access, ks, gone, confirmed, false)
    }

    /// Whether somebody said that what is carried out may delete whatever it deletes.
    pub(super) fn is_confirmed(&self, ks: &Declared) -> bool {
        let record = self.memory.record.as_ref();
        record.is_some_and(|record| record.is_confirmed(ks))
    }

    /// What another is to take and does not, as the status says it.
    pub(super) fn untaken(&self, ks: &Declared) -> Option<String> {
        let lingering = &self.memory.lingering;
        if lingering.is_empty() {
            return None;
        }
        let plan = self.look_at(ks, lingering).plan;
        let index = self.cx.index();
        retained::untaken(&plan, |id, owner| {
            let key = ObjectRef::from(owner);
            let taker = index.declaration(&key)?;
            let ready = taker.status.ready.as_ref();
            match index.desired_state(&key) {
                _ if taker.suspended => Some("is suspended"),
                Some(state) if state.ignores(id) => {
                    Some("leaves it alone, as its annotations there say: nobody takes it")
                }
                _ if ready.is_some_and(|ready| ready.is_false) => Some("is not ready"),
                _ => None,
            }
        })
    }

    fn is_staged(&self) -> bool {
        let record = self.memory.record.as_ref();
        record.is_some_and(|record| matches!(record.phase, Phase::Staged { .. }))
    }

    /// What the status says of what is kept, if it is for this reason.
    fn held_back_so_far(&self, why: Why) -> Option<String> {
        let status = self.object.status.as_ref()?;
        let held = condition(&status.conditions, ConditionType::PruneHeld)?;
        (held.status == "True" && held.reason == why.as_str()).then(|| held.message.clone())
    }

    /// Deletes what may be deleted by now, and forgets what others have taken. An outcome if that failed.
    pub(super) async fn release_objects(&mut self, ks: &Declared) -> Result<Option<Requeue>, Stop> {
        let held = self.inventory();
        let lingering = std::mem::take(&mut self.memory.lingering);
        let rest = self.prune_plan(ks, &lingering).await;
        let owner = self.owner();
        let released = self.released(&lingering);
        let options = Options {
            released: &released,
            ..Options::new(&owner, "")
        };
        let execution = equate_apply::cluster::Execution::new(&options);
        if let Err((failure, _)) = self.prune(&rest.plan.prune, &lingering, &execution).await {
            return self.fail(ks, failure, Some(held)).await.map(Some);
        }
        let remains = rest.plan.lingering(&lingering);
        let inventory = held.difference(&lingering.difference(&remains));
        self.memory.lingering = remains;
        self.report_status(ks, |report| report.steady(&inventory)).await?;
        Ok(None)
    }

    /// Whether the objects of a Kustomization that is deleted may go; an outcome if not yet.
    pub(super) async fn survey_before_deletion(
        &mut self,
        ks: &Declared,
        finalize: Finalize,
    ) -> Result<Option<Requeue>, Stop> {
        if finalize == Finalize::Release {
            return Ok(None);
        }
        let rest = self.prune_plan(ks, &ks.inventory).await;
        if rest.awaiting().next().is_none() {
            return Ok(None);
        }
        self.memory.lingering = ks.inventory.clone();
        if let Some(awaited) = rest.waits() {
            return self.wait_for(ks, &awaited).await.map(Some);
        }
        self.memory.surveying_since = None;
        let said = rest.said().unwrap_or_default();
        self.report_status(ks, |report| report.awaiting(&said)).await?;
        Ok(Some(Requeue::After(ks.interval, Reason::Interval)))
    }
}
