//! What becomes of the objects of a Kustomization that is deleted.

use std::collections::BTreeMap;

use equate_api::meta::Reason as Why;
use equate_apply::cluster::Execution;
use equate_apply::id::ObjectId;
use equate_apply::owner::Owner;
use equate_apply::plan::{self, Options, Presence};
use tokio::time::Instant;

use super::Run;
use super::decide::{Finalize, deadline};
use super::declared::Declared;
use super::write::Stop;
use crate::runtime::events::Severity;
use crate::runtime::queue::Outcome;
use crate::runtime::wake::Reason;

impl Run<'_> {
    /// Deletes the objects as the policy says, then lets the Kustomization go.
    pub(super) async fn finalize(&mut self, ks: &Declared, finalize: Finalize) -> Result<Outcome, Stop> {
        if finalize != Finalize::Release {
            let waits = finalize == Finalize::DeleteAndWait;
            if let Some(outcome) = self.delete(ks, waits).await? {
                return Ok(outcome);
            }
        }
        self.set_finalizer(false).await?;
        Err(Stop::Gone)
    }

    /// Deletes what the inventory holds, in the reverse order of applying; an outcome if it is not over.
    async fn delete(&mut self, ks: &Declared, waits: bool) -> Result<Option<Outcome>, Stop> {
        let owner = Owner::new(&self.key.namespace, &self.key.name);
        if waits
            && self
                .follow(ks, &[], &ks.inventory)
                .await
                .is_ok_and(|followed| followed.starting)
        {
            return Ok(Some(Outcome::after(ks.timeout, Reason::Deadline)));
        }
        let contenders = self.contenders(&[], &ks.inventory);
        let backing_off = BTreeMap::new();
        let options = Options {
            // there is no revision that could be mistaken for empty
            allow_empty: Some(""),
            contenders: &contenders,
            backing_off: &backing_off,
            ..Options::new(&owner, "")
        };
        let live = self.live(&[], &ks.inventory);
        let plan = plan::plan(&[], &ks.inventory, &live, &self.memory.applies, &options);
        let execution = Execution::new(&options);
        if let Err((failure, _)) = self.prune(&plan.prune, &ks.inventory, &execution).await {
            let message = format!("pruning for deleted resource failed: {failure}");
            self.tell(Severity::Warning, Why::PruneFailed, message);
            return Ok(Some(Outcome::failed_within(ks.retry_interval)));
        }
        if !waits {
            return Ok(None);
        }
        let now = Instant::now();
        let until = *self
            .memory
            .terminating
            .get_or_insert_with(|| deadline(now, ks.timeout));
        let remaining: Vec<&ObjectId> = ks.inventory.ids().filter(|id| self.remains(id, &owner)).collect();
        if remaining.is_empty() {
            return Ok(None);
        }
        if until <= now {
            let names: Vec<String> = remaining.into_iter().map(ToString::to_string).collect();
            let message = format!("failed to wait for resources termination: [{}]", names.join(", "));
            self.tell(Severity::Warning, Why::PruneFailed, message);
            return Ok(None);
        }
        Ok(Some(Outcome::after(until - now, Reason::Deadline)))
    }

    /// Whether an object of ours is still on its way out.
    fn remains(&self, id: &ObjectId, owner: &Owner) -> bool {
        match self.cx.hub.get(id) {
            Presence::Present(observed) => {
                let kept = observed.policy.ignored() || !observed.policy.prune;
                observed.owner.as_ref() == Some(owner) && !kept
            }
            Presence::Absent | Presence::Unknown => false,
        }
    }
}
