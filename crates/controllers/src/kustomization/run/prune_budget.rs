//! A revision that would delete so much that somebody has to say that it is meant.
//!
//! Nothing of it is applied: what runs stays the last revision as a whole, so that a mistake is undone
//! by a commit and leaves nothing half done. Of the build only names are kept. Each wake asks with
//! them, without a build, whether it is confirmed by now, or deletes less because others took what is
//! dropped here.
//!
//! It refuses to guess what is meant: who confirms names the revision.

use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::plan::{Exceeded, Guard};

use super::Run;
use super::status::Stop;
use crate::kit::queue::Requeue;
use crate::kustomization::decide::Phase;
use crate::kustomization::declared::Declared;
use crate::kustomization::reasons::Stall;
use crate::ownership::desired::DesiredSet;

impl Run<'_> {
    /// Applies nothing, and says what has to be confirmed.
    pub(super) async fn require_confirmation(
        &mut self,
        ks: &Declared,
        guard: &Guard,
    ) -> Result<Requeue, Stop> {
        let Some(record) = &mut self.memory.record else {
            return Ok(Requeue::Backoff);
        };
        record.phase = Phase::Unconfirmed;
        record.desired = None;
        record.masks.clear();
        let stall = match guard {
            Guard::EmptyRender(empty) => Stall::EmptyRender {
                key: self.key.clone(),
                revision: record.since.clone(),
                held: empty.objects,
            },
            Guard::Budget(exceeded) => self.budget_exceeded(exceeded.clone()),
        };
        self.stall(ks, &stall).await
    }

    /// Whether it still has to be confirmed; an outcome if so.
    pub(super) async fn still_unconfirmed(&mut self, ks: &Declared) -> Result<Option<Requeue>, Stop> {
        let Some(record) = &self.memory.record else {
            return Ok(None);
        };
        if record.is_confirmed(ks) {
            return Ok(None);
        }
        let Some(DesiredSet::Known(wanted)) = &record.wants else {
            return Ok(None);
        };
        let undeclared = |(id, _): &(&ObjectId, &str)| !wanted.contains(id);
        let gone: Inventory = ks
            .inventory
            .iter()
            .filter(undeclared)
            .map(|(id, version)| (id.clone(), version.to_owned()))
            .collect();
        let empty = record.empty;
        let rest = self.prune_plan(ks, &gone).await;
        if empty {
            // what was said stays true as long as anything would go
            return Ok(rest.deletes().then_some(Requeue::Wait));
        }
        if let Some(awaited) = rest.waits().filter(|_| rest.excessive) {
            return self.wait_for(ks, &awaited).await.map(Some);
        }
        match rest.plan.guard {
            Some(Guard::Budget(exceeded)) => {
                let stall = self.budget_exceeded(exceeded);
                self.stall(ks, &stall).await.map(Some)
            }
            Some(Guard::EmptyRender(_)) | None => Ok(None),
        }
    }

    fn budget_exceeded(&self, exceeded: Exceeded) -> Stall {
        let record = self.memory.record.as_ref();
        Stall::PruneBudget {
            key: self.key.clone(),
            revision: record.map(|record| record.since.clone()).unwrap_or_default(),
            exceeded,
        }
    }
}
