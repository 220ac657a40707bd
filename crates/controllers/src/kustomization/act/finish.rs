//! Ends an apply: prunes, and records and reports the result.

use equate_api::meta::{ConditionType, Reason as Why, condition};
use equate_apply::cluster::Execution;
use equate_apply::inventory::Inventory;
use equate_apply::plan;
use tokio::time::Instant;

use super::status::{emit, end_run, event_context, inventory, next, write};
use super::{execution, planned};
use crate::kit::controller::Acted;
use crate::kit::events::Severity;
use crate::kit::read::chain;
use crate::kit::reconciliation::Stop;
use crate::kustomization::decide::health::{Conclusion, Passed};
use crate::kustomization::decide::objects::Objects;
use crate::kustomization::decide::seen::Phase;
use crate::kustomization::decide::{Finish, deadline};
use crate::kustomization::declared::Declared;
use crate::kustomization::memory::Record;
use crate::kustomization::observe::follow::follow;
use crate::kustomization::reasons::{Failure, Retry, Stall};
use crate::kustomization::report::{Done, Outcome, Ready};
use crate::kustomization::status::{Attempt, Healthy};
use crate::kustomization::{Kustomizations, Run, count, object_ref};
use crate::ownership::contest::Contests;

use super::unplanned;

/// All stages are applied: prunes, replaces objects in memory by digests, and reports health.
pub(super) async fn finish(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    objects: Objects,
    end: Finish,
) -> Acted<Done> {
    let Some((passed, held)) = run.memory.this_run.passed.take() else {
        return unplanned();
    };
    let Finish {
        prune: steps,
        inventory,
        lingering,
        conclusion,
    } = end;
    let objects = planned(objects);
    run.memory.surveying_since = None;
    run.memory.lingering = lingering;
    let options = objects.options();
    let pruned = prune(cx, run, &steps, &ks.inventory, &execution(cx, ks, &options)).await;
    if let Err((failure, survivors)) = pruned {
        return fail(cx, run, ks, failure, Some(inventory.union(&survivors)));
    }
    if let Some(record) = &mut run.memory.record {
        record.objects = held;
    }
    if let Err(failure) = follow(cx, run, ks, &passed.desired, &inventory).await {
        return fail(cx, run, ks, failure, Some(inventory));
    }
    let now = Instant::now();
    if let Some(record) = &mut run.memory.record {
        record.drop_build();
        record.failure = None;
        record.checking = now;
        record.phase = Phase::Checking {
            until: deadline(now, ks.timeout),
        };
    }
    let memory = &mut run.memory;
    std::sync::Arc::make_mut(&mut memory.applies).retain(|id| inventory.contains(id));
    memory.corrections.retain(now, |id| inventory.contains(id));
    cx.access(memory).view.retain(|id| inventory.contains(id));
    conclude(cx, run, ks, inventory, conclusion)
}

/// Deletes objects that are no longer declared. Those that could not be deleted stay in the inventory.
pub(super) async fn prune(
    cx: &Kustomizations,
    run: &Run<'_>,
    steps: &[plan::Step],
    held: &Inventory,
    execution: &Execution<'_>,
) -> Result<(), (Failure, Inventory)> {
    if !steps.iter().any(plan::Step::acts) {
        return Ok(());
    }
    let applied = cx.access(&run.memory).cluster.prune(steps, execution).await;
    let lines: Vec<String> = applied.changes().map(|(id, _)| format!("{id} deleted")).collect();
    count(
        &cx.kit.tally.prunes,
        u64::try_from(lines.len()).unwrap_or(u64::MAX),
    );
    if !lines.is_empty() {
        let context = event_context(&run.memory);
        let mut notice = context.notice(Severity::Normal, Why::Progressing, &lines.join("\n"));
        // as in Flux, whose events have the reason of `Ready`: nothing makes progress any more
        let status = run.object().status.as_ref();
        let ready = status.and_then(|status| condition(&status.conditions, ConditionType::Ready));
        if run.object().metadata.deletion_timestamp.is_some()
            && let Some(ready) = ready
        {
            notice.reason.clone_from(&ready.reason);
        }
        run.emit(notice);
    }
    if applied.succeeded() {
        return Ok(());
    }
    let survivors = applied.failures().map(|failure| {
        let version = held.version(&failure.id).unwrap_or_default();
        (failure.id.clone(), version.to_owned())
    });
    let survivors = survivors.collect();
    let lines: Vec<String> = applied.failures().map(|failure| chain(failure)).collect();
    Err((Failure::Prune(lines.join("\n")), survivors))
}

/// Deletes the objects that may be deleted by now, and forgets those that others have taken.
pub(super) async fn release(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    objects: &Objects,
    plan: plan::Plan,
) -> Result<Acted<Done>, Stop> {
    let held = ks.inventory.clone();
    let lingering = std::mem::take(&mut run.memory.lingering);
    let options = objects.options();
    let pruned = prune(cx, run, &plan.prune, &lingering, &execution(cx, ks, &options)).await;
    if let Err((failure, _)) = pruned {
        return Ok(fail(cx, run, ks, failure, Some(held)));
    }
    let remains = plan.lingering(&lingering);
    let inventory = held.difference(&lingering.difference(&remains));
    run.memory.lingering = remains;
    write(cx, run, ks, |draft| draft.holding(&inventory)).await?;
    Ok(Acted::Again)
}

pub(super) fn conclude(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    inventory: Inventory,
    conclusion: Conclusion,
) -> Acted<Done> {
    let (now, began) = (Instant::now(), run.began);
    let Some(record) = &mut run.memory.record else {
        return unplanned();
    };
    let waited = now.saturating_duration_since(record.checking);
    let outcome = match conclusion {
        Conclusion::Healthy(passed) => {
            record.phase = Phase::Ready { until: None };
            record.failure = None;
            Outcome::Ready(Ready {
                revision: record.revision.clone(),
                inventory,
                attempt: attempt(record, began),
                healthy: match passed {
                    Passed::NotChecked => Healthy::NotChecked,
                    Passed::Still => Healthy::Still,
                    Passed::Now => Healthy::Passed(waited),
                },
                changed: std::mem::take(&mut record.changed),
                requested: run.request().is_some(),
            })
        }
        Conclusion::Unhealthy(what) => {
            return fail(cx, run, ks, Failure::Health(waited, what), Some(inventory));
        }
        Conclusion::Degraded { until, begins } => {
            if begins {
                record.checking = now;
                record.phase = Phase::Ready { until: Some(until) };
            }
            Outcome::Unchanged
        }
        Conclusion::AsBefore { until } => {
            record.phase = Phase::Ready { until: Some(until) };
            Outcome::Steady(inventory)
        }
        Conclusion::Checking => Outcome::Checking {
            revision: record.revision.clone(),
            inventory,
        },
        Conclusion::CheckingWithoutStatus => return Acted::Unreported(next(cx, run, ks)),
    };
    let next = next(cx, run, ks);
    end_run(cx, run, ks, outcome, next)
}

/// Reports a newer revision with the same inputs; one status.
pub(super) fn report_new_revision(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared) -> Acted<Done> {
    count(&cx.kit.tally.builds_skipped, 1);
    run.memory.renew();
    let Some(record) = &run.memory.record else {
        return unplanned();
    };
    let (revision, inventory) = (record.revision.clone(), ks.inventory.clone());
    let attempt = Attempt {
        digest: record.digest.clone(),
        took: std::time::Duration::ZERO,
    };
    let next = next(cx, run, ks);
    let outcome = match record.phase {
        Phase::Ready { .. } => Outcome::Renewed(Ready {
            revision,
            inventory,
            attempt,
            healthy: match ks.wait || !record.checks.is_empty() {
                true => Healthy::Still,
                false => Healthy::NotChecked,
            },
            changed: false,
            requested: run.request().is_some(),
        }),
        Phase::Checking { .. } => Outcome::Checking { revision, inventory },
        Phase::Unhealthy { .. } | Phase::Failed { .. } | Phase::Staged { .. } | Phase::Unconfirmed => {
            let Some(failure) = record.failure.clone() else {
                return Acted::Unreported(next);
            };
            Outcome::Failed {
                failure,
                revision,
                inventory,
                attempt: (!attempt.digest.is_empty()).then_some(attempt),
                same: true,
            }
        }
    };
    end_run(cx, run, ks, outcome, next)
}

/// Applies nothing, and reports which deletions need confirmation.
pub(super) fn confirm(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared, stall: Stall) -> Acted<Done> {
    if let Some(record) = &mut run.memory.record {
        record.phase = Phase::Unconfirmed;
        record.drop_build();
    }
    super::idle::stall(cx, run, ks, stall)
}

/// Reports that all is applied except the objects of other owners.
pub(super) fn contested(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    inventory: Inventory,
) -> Acted<Done> {
    let passed = run.memory.this_run.passed.take();
    let contests = match &mut run.memory.record {
        Some(record) => {
            record.objects = passed.map(|(_, held)| held).unwrap_or_default();
            record.contests.iter().collect()
        }
        None => Contests::default(),
    };
    fail(cx, run, ks, Failure::OwnershipConflict(contests), Some(inventory))
}

/// Reports a failure, and when it is retried.
pub(super) fn fail(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    failure: Failure,
    held: Option<Inventory>,
) -> Acted<Done> {
    cx.kit.missing_kinds.forget(&object_ref(&ks.key));
    let (now, began) = (Instant::now(), run.began);
    let context = event_context(&run.memory);
    let failure = failure.map_message(|text| context.masked(text));
    let inventory = held.unwrap_or_else(|| inventory(run));
    let Some(record) = &mut run.memory.record else {
        return unplanned();
    };
    let again = deadline(now, ks.retry_interval);
    record.phase = match (&failure, failure.retry()) {
        (Failure::Health(..), _) => Phase::Unhealthy { retry: again },
        (_, Retry::Never) => Phase::Failed { retry: None },
        (_, Retry::Interval) => Phase::Failed { retry: Some(again) },
        // the queue decides the time
        (_, Retry::Backoff) => Phase::Failed { retry: Some(now) },
    };
    if failure.retry() != Retry::Backoff {
        record.drop_build();
    }
    let same = record.failure.as_ref() == Some(&failure);
    record.failure = Some(failure.clone());
    let attempt = attempt(record, began);
    let outcome = Outcome::Failed {
        failure,
        revision: record.revision.clone(),
        inventory,
        attempt: (!attempt.digest.is_empty()).then_some(attempt),
        same,
    };
    let next = next(cx, run, ks);
    end_run(cx, run, ks, outcome, next)
}

fn attempt(record: &Record, began: Instant) -> Attempt {
    let now = Instant::now();
    Attempt {
        digest: record.digest.clone(),
        took: now.saturating_duration_since(record.began.min(began)),
    }
}

/// Reports the objects that stay: no inventory may name them from now on.
pub(super) fn emit_kept_objects(run: &Run<'_>, plan: &plan::Plan) {
    if let Some(left) = crate::ownership::retained::left(plan) {
        emit(
            run,
            Severity::Normal,
            Why::Progressing,
            &format!("not deleted: {left}"),
        );
    }
}
