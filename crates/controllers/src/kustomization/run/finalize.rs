//! What becomes of the objects of a Kustomization that is deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use equate_api::meta::Reason as Why;
use equate_apply::cluster::Execution;
use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_apply::owner::Owner;
use equate_apply::plan::{self, Options, Plan, Presence};
use tokio::time::Instant;

use super::Run;
use super::status::Stop;
use crate::kit::events::Severity;
use crate::kit::queue::Requeue;
use crate::kit::wake::Reason;
use crate::kustomization::decide::{Finalize, deadline};
use crate::kustomization::declared::Declared;
use crate::kustomization::{KUSTOMIZATION, owner_of};
use crate::ownership::claims;
use crate::ownership::graph::Need;
use crate::ownership::retained;

/// How often objects are looked for that cannot be watched.
const LOOK: Duration = Duration::from_secs(2);
/// How long an answer about one of them may take.
const ANSWER: Duration = Duration::from_secs(10);

/// How it is known of an object that it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeletionState {
    /// Its going wakes us.
    Watched,
    /// It has to be asked for again.
    Asked,
}

impl Run<'_> {
    /// Deletes the objects as the policy says, then lets the Kustomization go.
    pub(super) async fn finalize(&mut self, ks: &Declared, finalize: Finalize) -> Result<Requeue, Stop> {
        if finalize != Finalize::Release && !self.account_exists().await {
            // as in Flux: nobody may delete them, and nobody waits for ever
            let objects: Vec<String> = ks.inventory.ids().map(ToString::to_string).collect();
            let message = format!("unable to prune objects: \n{}", objects.join("\n"));
            self.emit(Severity::Warning, Why::PruneFailed, message);
        } else if finalize != Finalize::Release {
            let waits = finalize == Finalize::DeleteAndWait;
            if let Some(outcome) = self.delete(ks, waits).await? {
                return Ok(outcome);
            }
        }
        self.set_finalizer(false).await?;
        Err(Stop::Gone)
    }

    /// Whether objects are to be deleted and there is no way to them.
    pub(super) fn cannot_delete(&self, finalize: Finalize) -> bool {
        finalize != Finalize::Release && self.access_failure.is_some()
    }

    /// As in Flux it stays until they can be deleted, or it is suspended, which leaves them.
    pub(super) fn finalize_later(&self, ks: &Declared) -> Requeue {
        if let Some(failure) = &self.access_failure {
            let message = format!("pruning for deleted resource failed: {failure}");
            self.emit(Severity::Warning, Why::PruneFailed, message);
        }
        Requeue::BackoffWithin(ks.retry_interval)
    }

    /// Deletes what the inventory holds, in the reverse order of applying; an outcome if it is not over.
    async fn delete(&mut self, ks: &Declared, waits: bool) -> Result<Option<Requeue>, Stop> {
        let owner = owner_of(&self.key);
        if waits
            && self
                .follow(ks, &[], &ks.inventory)
                .await
                .is_ok_and(|followed| followed.starting.is_some())
        {
            return Ok(Some(Requeue::After(ks.timeout, Reason::Deadline)));
        }
        let contenders = self.contenders(&[], &ks.inventory);
        let backing_off = BTreeMap::new();
        let released = self.released(&ks.inventory);
        let options = Options {
            // there is no revision that could be mistaken for empty
            allow_empty: Some(""),
            contenders: &contenders,
            released: &released,
            backing_off: &backing_off,
            ..Options::new(&owner, "")
        };
        let needed = {
            let presence = |id: &ObjectId| self.access.hub.get(id);
            let ids = ks.inventory.ids();
            claims::needed(&self.cx.index(), &self.me, ids, presence, Need::Now)
        };
        let options = Options {
            needed: &needed,
            ..options
        };
        let live = self.live(&[], &ks.inventory);
        let plan = plan::plan(&[], &ks.inventory, &live, &self.memory.applies, &options);
        let execution = Execution::new(&options);
        if let Err((failure, _)) = self.prune(&plan.prune, &ks.inventory, &execution).await {
            let message = format!("pruning for deleted resource failed: {failure}");
            self.emit(Severity::Warning, Why::PruneFailed, message);
            return Ok(Some(Requeue::BackoffWithin(ks.retry_interval)));
        }
        if retained::holds(&plan) {
            // who needs it goes on; the word that it is not needed any more begins the next run
            let remains = plan.lingering(&ks.inventory);
            self.memory.lingering = remains.clone();
            self.report_status(ks, |report| report.steady(&remains)).await?;
            return Ok(Some(Requeue::After(ks.interval, Reason::Interval)));
        }
        if !waits {
            self.emit_left(&plan);
            return Ok(None);
        }
        let now = Instant::now();
        let until = *self
            .memory
            .terminating
            .get_or_insert_with(|| deadline(now, ks.timeout));
        let remaining = self.remaining(ks, &owner).await;
        if remaining.is_empty() {
            self.emit_left(&plan);
            return Ok(None);
        }
        if until <= now {
            let names: Vec<String> = remaining.iter().map(|(id, _)| id.to_string()).collect();
            let message = format!("failed to wait for resources termination: [{}]", names.join(", "));
            self.emit(Severity::Warning, Why::PruneFailed, message);
            self.emit_left(&plan);
            return Ok(None);
        }
        let blind = remaining.iter().any(|(_, seen)| *seen == DeletionState::Asked);
        let wait = if blind { LOOK.min(until - now) } else { until - now };
        Ok(Some(Requeue::After(wait, Reason::Deadline)))
    }

    /// Tells what stays: from now on no inventory may have it.
    fn emit_left(&self, plan: &Plan) {
        if let Some(left) = retained::left(plan) {
            self.emit(Severity::Normal, Why::Progressing, format!("not deleted: {left}"));
        }
    }

    /// The objects of ours that are still on their way out. Those of a kind that nobody may list
    /// are asked for; one that cannot be asked for either counts as there, for to say that it is
    /// gone would be a guess.
    async fn remaining<'k>(&self, ks: &'k Declared, owner: &Owner) -> Vec<(&'k ObjectId, DeletionState)> {
        let remains = |observed: &Observed| {
            let kept = observed.policy.ignored() || !observed.policy.prune;
            observed.owner.as_ref() == Some(owner) && !kept
        };
        let mut remaining = Vec::new();
        for (id, version) in ks.inventory.iter() {
            match self.access.hub.get(id) {
                Presence::Present(observed) if remains(&observed) => {
                    remaining.push((id, DeletionState::Watched));
                }
                Presence::Present(_) | Presence::Absent => {}
                Presence::Unknown => match self.access.cluster.get(id, version, ANSWER).await {
                    Ok(None) => {}
                    Ok(Some(object)) if !remains(&Observed::of(&object, &KUSTOMIZATION)) => {}
                    Ok(Some(_)) | Err(_) => remaining.push((id, DeletionState::Asked)),
                },
            }
        }
        remaining
    }
}
