//! Decides about the objects of a deleted Kustomization.

use std::sync::Arc;

use equate_api::kustomize::DeletionPolicy;
use tokio::time::Instant;

use super::seen::{Deleted, Seen};
use super::{AfterDeletion, Awaiting, Idle, Removal, Step, deadline};
use crate::kustomization::declared::Declared;
use crate::kustomization::reasons::Stall;
use crate::ownership::retained;

/// The deletion policy, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeletionAction {
    /// They stay; only the finalizer is removed.
    Stay,
    Go,
    /// They are deleted, and the finalizer stays until they are gone.
    GoFirst,
}

fn fate(ks: &Declared) -> DeletionAction {
    match ks.deletion {
        _ if ks.suspend || (ks.inventory.is_empty() && ks.unreadable.is_none()) => DeletionAction::Stay,
        DeletionPolicy::Orphan => DeletionAction::Stay,
        DeletionPolicy::MirrorPrune if ks.prune => DeletionAction::Go,
        DeletionPolicy::MirrorPrune => DeletionAction::Stay,
        DeletionPolicy::Delete => DeletionAction::Go,
        DeletionPolicy::WaitForTermination => DeletionAction::GoFirst,
    }
}

pub(crate) fn deletes(ks: &Declared) -> bool {
    fate(ks) != DeletionAction::Stay
}

pub(super) fn decide(ks: &Declared, seen: &Seen, now: Instant) -> Step {
    let waits = match fate(ks) {
        DeletionAction::Stay => return Step::Removal(Removal::Orphaned),
        DeletionAction::Go => false,
        DeletionAction::GoFirst => true,
    };
    if let Some(unreadable) = &ks.unreadable {
        return Step::Idle(Idle::Stalled(Stall::Inventory(unreadable.to_string())));
    }
    if let Some(failure) = &seen.no_access {
        return Step::Idle(Idle::DeletionUnreached(failure.clone()));
    }
    if let Some(deleted) = &seen.deletion.deleted {
        return after(ks, seen, deleted, now);
    }
    let Some(objects) = &seen.objects else {
        return Step::Idle(Idle::DeletionUnlisted);
    };
    let others = &objects.others;
    if !others.questions.is_empty() {
        return Step::Survey(others.questions.clone());
    }
    let planned = objects.plan();
    if !planned.awaiting.is_empty() {
        let Some(awaited) = planned.waits_for(others) else {
            let why = planned.kept_for(&others.survey).unwrap_or_default();
            let plan = planned.plan;
            return Step::Idle(Idle::DeletionHeld { plan, why });
        };
        return Step::Idle(Idle::Awaiting(Awaiting {
            lingering: Some(ks.inventory.clone()),
            ..Awaiting::new(awaited, seen.since.others, now)
        }));
    }
    let plan = planned.plan;
    match seen.deletion.prepared {
        None if seen.deletion.acts_as || waits => {
            return Step::PrepareDeletion {
                account: seen.deletion.acts_as,
                waits,
            };
        }
        // as in Flux: no account may delete them, and waiting would never end
        Some(prepared) if !prepared.account => {
            let left = ks.inventory.ids().cloned().collect();
            return Step::Removal(Removal::Abandoned(left));
        }
        Some(prepared) if prepared.starting => return Step::Idle(Idle::DeletionUnlisted),
        None | Some(_) => {}
    }
    let then = if retained::holds(&plan) {
        AfterDeletion::Hold(plan.lingering(&ks.inventory))
    } else if waits {
        AfterDeletion::Check
    } else {
        AfterDeletion::Removal
    };
    Step::Delete { plan, then }
}

/// They are deleted, and may still be terminating.
fn after(ks: &Declared, seen: &Seen, deleted: &Deleted, now: Instant) -> Step {
    let until = seen.since.terminating_until;
    let until = until.unwrap_or_else(|| deadline(now, ks.timeout));
    let plan = Arc::clone(&deleted.plan);
    if deleted.remaining.is_empty() {
        Step::Removal(Removal::Deleted(plan))
    } else if until <= now {
        Step::Removal(Removal::Overdue(deleted.remaining.clone(), plan))
    } else {
        Step::Idle(Idle::Terminating {
            until,
            blind: deleted.blind,
        })
    }
}
