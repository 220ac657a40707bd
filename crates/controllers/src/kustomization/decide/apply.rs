//! How far a build is applied, how that ends, and what happens to objects that are no longer declared. An
//! object that only moved is not deleted.
//!
//! Nothing is deleted before every other Kustomization that can be built has been, from the present
//! artifact of its source. An object that another one wants is handed over: it stays, in the inventory too,
//! until the other has taken it.
//!
//! A Kustomization of the same source that cannot be built might want any object. So deletions wait until
//! it can be built, is suspended or deleted, and the status says so. This blocks deletions only; the
//! alternative would be to guess.

use std::collections::BTreeSet;

use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::plan::{Guard, Plan};
use tokio::time::Instant;

use super::health::Conclusion;
use super::objects::{Objects, Planned};
use super::seen::{Last, Passed, Phase, Seen};
use super::{Application, Awaiting, Cause, Finish, Idle, Step, deadline, health};
use crate::kustomization::declared::Declared;
use crate::kustomization::reasons::{Failure, Stall};
use crate::ownership::desired::DesiredSet;

/// Continues the build: a stage may be ready, or its time over.
pub(super) fn staged(ks: &Declared, seen: &Seen, last: &Last, until: Instant, now: Instant) -> Step {
    if seen.no_access.is_some() {
        return Step::Idle(Idle::NoAccess);
    }
    let Some(objects) = seen.objects.as_ref().filter(|_| last.built) else {
        return Step::Conclude(health::conclude(ks, last, last.phase, now));
    };
    if let Some(passed) = &last.passed {
        return finish(ks, seen, (last, passed, objects), now);
    }
    if let Some(missing_knowledge) = missing_knowledge(seen, objects, until, now) {
        return missing_knowledge;
    }
    let planned = objects.plan();
    if planned.plan.guard.is_some() || planned.excessive {
        // all of it may have moved elsewhere
        if let Some(awaiting) = waits(seen, objects, &planned, now) {
            return Step::Idle(Idle::Awaiting(awaiting));
        }
    }
    if let Some(guard) = planned.plan.guard.clone() {
        return Step::Confirm {
            stall: unconfirmed_stall(ks, last, guard),
            plan: planned.plan,
        };
    }
    let ahead = planned.plan.write_ahead(&objects.desired, &objects.held);
    Step::Apply(Application {
        write_ahead: (!ahead.is_subset(&objects.held)).then_some(ahead),
        plan: planned.plan,
        until,
        unserved: objects.kinds.unserved.clone(),
    })
}

/// A step to learn what must be known before anything is applied.
fn missing_knowledge(seen: &Seen, objects: &Objects, until: Instant, now: Instant) -> Option<Step> {
    let (kinds, others) = (&objects.kinds, &objects.others);
    if let Some(failure) = &kinds.trouble {
        return Some(Step::Fail(failure.clone()));
    }
    if let Some(starting) = &kinds.starting {
        return Some(match until > now {
            true => Step::Idle(Idle::KindsUnlisted),
            false => Step::Fail(Failure::Unreachable(format!(
                "the API server has not listed {starting}"
            ))),
        });
    }
    if !others.own_questions.is_empty() {
        let own = others.own_questions.clone();
        return Some(Step::Survey(own.and(others.questions.clone())));
    }
    // the last owner of an object says first whether it releases it
    if let Some(holders) = &others.holders {
        let message = format!(
            "Waiting for {} to be built before the objects that it held are applied",
            holders.named
        );
        let awaiting = Awaiting::new((holders.until, message), seen.since.others, now);
        return Some(Step::Idle(Idle::Awaiting(awaiting)));
    }
    if let Some(earlier) = &others.earlier {
        let message = format!(
            "Waiting for {} to be built: it has precedence for the objects that it declares",
            earlier.named
        );
        let awaiting = Awaiting::new((earlier.until, message), seen.since.others, now);
        return Some(Step::Idle(Idle::Awaiting(awaiting)));
    }
    (!others.questions.is_empty()).then(|| Step::Survey(others.questions.clone()))
}

fn waits(seen: &Seen, objects: &Objects, planned: &Planned, now: Instant) -> Option<Awaiting> {
    let awaited = planned.waits_for(&objects.others)?;
    Some(Awaiting::new(awaited, seen.since.others, now))
}

/// All stages are applied. Applying took time: the others' present desired state counts.
fn finish(ks: &Declared, seen: &Seen, known: (&Last, &Passed, &Objects), now: Instant) -> Step {
    let (last, passed, objects) = known;
    if !last.contests.is_empty() {
        return Step::OwnershipConflict(contested_inventory(ks, last, passed));
    }
    let planned = objects.plan();
    if let Some(awaiting) = waits(seen, objects, &planned, now) {
        return Step::Idle(Idle::Awaiting(awaiting));
    }
    let rest = Plan {
        prune: planned.plan.prune,
        ..Plan::default()
    };
    let lingering = rest.lingering(&ks.inventory);
    let declared = passed.plan.inventory(&passed.desired, &Inventory::default());
    let checking = Phase::Checking {
        until: deadline(now, ks.timeout),
    };
    let inventory = declared.union(&lingering);
    let conclusion = match health::conclude(ks, last, checking, now) {
        // the status has to show the inventory
        Conclusion::CheckingWithoutStatus if inventory != ks.inventory => Conclusion::Checking,
        conclusion => conclusion,
    };
    Step::Finish(Finish {
        prune: rest.prune,
        inventory,
        lingering,
        conclusion,
    })
}

/// The inventory while others own declared objects: nothing is pruned while ownership is unclear.
fn contested_inventory(ks: &Declared, last: &Last, passed: &Passed) -> Inventory {
    let near = last.contests.iter().filter(|(_, near)| *near);
    let theirs: BTreeSet<&ObjectId> = near.map(|(contest, _)| &contest.id).collect();
    // objects of another shard stay claimed
    let kept = ks.inventory.iter().filter(|(id, _)| !theirs.contains(id));
    let kept = kept.map(|(id, version)| (id.clone(), version.to_owned()));
    let planned = passed.plan.inventory(&passed.desired, &ks.inventory);
    planned.union(&kept.collect())
}

/// Builds when the deletions are confirmed by now, or have become fewer.
pub(super) fn unconfirmed(ks: &Declared, seen: &Seen, last: &Last, now: Instant) -> Step {
    let build = Step::Build(Cause::Confirmed);
    let known = matches!(last.wants, Some(DesiredSet::Known(_)));
    let Some(objects) = seen.objects.as_ref().filter(|_| known && !last.confirmed) else {
        return build;
    };
    if !objects.others.questions.is_empty() {
        return Step::Survey(objects.others.questions.clone());
    }
    let planned = objects.plan();
    if last.empty {
        // the message stays true as long as anything would be deleted
        return match planned.deletes() {
            true => Step::Idle(Idle::Unconfirmed),
            false => build,
        };
    }
    if planned.excessive
        && let Some(awaiting) = waits(seen, objects, &planned, now)
    {
        return Step::Idle(Idle::Awaiting(awaiting));
    }
    match planned.plan.guard {
        Some(guard @ Guard::Budget(_)) => Step::Idle(Idle::Stalled(unconfirmed_stall(ks, last, guard))),
        Some(Guard::EmptyRender(_)) | None => build,
    }
}

fn unconfirmed_stall(ks: &Declared, last: &Last, guard: Guard) -> Stall {
    let (key, revision) = (ks.key.clone(), last.since.clone());
    match guard {
        Guard::EmptyRender(empty) => Stall::EmptyRender {
            key,
            revision,
            held: empty.objects,
        },
        Guard::Budget(exceeded) => Stall::PruneBudget {
            key,
            revision,
            exceeded,
        },
    }
}

/// Releases objects that are no longer declared and need not be held.
pub(super) fn release(seen: &Seen, last: &Last) -> Option<Step> {
    // without a known build it is unknown which objects it would keep
    let known = matches!(last.wants, Some(DesiredSet::Known(_)));
    let objects = seen.objects.as_ref().filter(|_| known)?;
    let plan = objects.plan().plan;
    if plan.lingering(&objects.held) == objects.held {
        return None;
    }
    Some(if seen.no_access.is_some() {
        Step::Idle(Idle::NoAccess)
    } else if !objects.others.questions.is_empty() {
        Step::Survey(objects.others.questions.clone())
    } else {
        Step::Release(plan)
    })
}
