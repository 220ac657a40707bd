//! Statuses and events of a run: the aspects, which are independent of its outcome, and the time of the
//! next run.

use std::sync::Arc;
use std::time::Duration;

use equate_api::meta::{ConditionType, Reason as Why, condition};
use equate_apply::inventory::Inventory;
use equate_apply::plan::Guard;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::ObjectRef;
use crate::kit::controller::{Acted, Next};
use crate::kit::events::Severity;
use crate::kit::reconciliation::Stop;
use crate::kit::wake::Reason;
use crate::kustomization::decide::GRACE;
use crate::kustomization::decide::objects::{Objects, Planned};
use crate::kustomization::decide::seen::Phase;
use crate::kustomization::declared::{self, Declared};
use crate::kustomization::memory::{Memory, Record};
use crate::kustomization::observe::objects::of_lingering;
use crate::kustomization::observe::state;
use crate::kustomization::reasons::{Retry, over_budget};
use crate::kustomization::report::{Done, EventContext, Outcome};
use crate::kustomization::status::{Aspects, StatusDraft};
use crate::kustomization::{Kustomizations, Run, object_ref};
use crate::ownership::retained;

/// Poll interval for awaited objects that no watch covers.
const LOOK: Duration = Duration::from_secs(2);

pub(super) fn end_run(
    cx: &Kustomizations,
    run: &Run<'_>,
    ks: &Declared,
    outcome: Outcome,
    next: Next,
) -> Acted<Done> {
    Acted::Done(Done {
        outcome,
        aspects: aspects(cx, run, ks),
        context: event_context(&run.memory),
        next,
    })
}

/// Writes a status before a step that takes long.
pub(super) async fn write<'k>(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &'k Declared,
    what: impl FnOnce(StatusDraft<'k>) -> StatusDraft<'k>,
) -> Result<(), Stop> {
    let draft = what(StatusDraft::new(ks, &run.status(), Timestamp::now()));
    let status = draft.finish(&aspects(cx, run, ks));
    run.write_status(status).await
}

pub(super) fn emit(run: &Run<'_>, severity: Severity, reason: Why, message: &str) {
    run.emit(event_context(&run.memory).notice(severity, reason, message));
}

/// The metadata of this run's events, and the values to mask in them.
pub(super) fn event_context(memory: &Memory) -> EventContext {
    let read = memory.this_run.values.iter().flatten();
    let read = read.map(|values| Arc::clone(values.masks()));
    let record = memory.record.as_ref();
    let kept = record.into_iter().flat_map(|record| record.masks.iter().cloned());
    EventContext {
        revision: record.map(|record| record.revision.clone()),
        masks: read.chain(kept).collect(),
    }
}

pub(super) fn inventory(run: &Run<'_>) -> Inventory {
    // an unreadable inventory stalls
    declared::inventory(run.object()).unwrap_or_default()
}

/// The conditions that are independent of the run's outcome.
fn aspects(cx: &Kustomizations, run: &Run<'_>, ks: &Declared) -> Aspects {
    let context = event_context(&run.memory);
    unmasked_aspects(cx, run, ks).map_messages(|text| context.masked(text))
}

fn unmasked_aspects(cx: &Kustomizations, run: &Run<'_>, ks: &Declared) -> Aspects {
    let memory = &run.memory;
    let mut contests = cx.kit.ownership().contested(&object_ref(&ks.key));
    let record = memory.record.as_ref();
    contests.merge(&record.iter().flat_map(|record| &record.contests).collect());
    let aspects = Aspects {
        contested: (!contests.is_empty()).then(|| contests.to_string()),
        drifting: memory.corrections.message(Instant::now()),
        ..Aspects::default()
    };
    let staged = state::is_staged(memory);
    if memory.lingering.is_empty() {
        // an unfinished run does not know which objects it will keep
        let so_far = |why| held_back_so_far(run, why).filter(|_| staged);
        return Aspects {
            awaited: so_far(Why::OthersUnknown),
            needed: so_far(Why::StillNeeded),
            ..aspects
        };
    }
    let objects = of_lingering(cx, memory, ks);
    let planned = objects.plan();
    Aspects {
        awaited: awaited(run, &objects, &planned, staged),
        needed: retained::containers_kept(&planned.plan),
        over_budget: record.and_then(|record| exceeded(ks, record, &planned)),
        untaken: untaken(cx, &planned),
        ..aspects
    }
}

/// The objects that are kept for other Kustomizations.
fn awaited(run: &Run<'_>, objects: &Objects, planned: &Planned, staged: bool) -> Option<String> {
    planned.awaiting.first()?;
    let others = &objects.others;
    match staged || planned.waits_for(others).is_some() {
        // the old message stays until all have announced their desired state
        true => held_back_so_far(run, Why::OthersUnknown).or_else(|| planned.kept_for(&others.survey)),
        false => planned.kept_for(&others.survey),
    }
}

/// The objects that are kept because of the prune budget.
fn exceeded(ks: &Declared, record: &Record, planned: &Planned) -> Option<String> {
    let Some(Guard::Budget(exceeded)) = &planned.plan.guard else {
        return None;
    };
    let what = over_budget(&ks.key, &record.since, exceeded);
    Some(format!("not deleted: {what}"))
}

/// The objects that were handed over to another Kustomization that does not take them.
fn untaken(cx: &Kustomizations, planned: &Planned) -> Option<String> {
    let graph = cx.kit.ownership();
    retained::untaken(&planned.plan, |id, owner| {
        let key = ObjectRef::from(owner);
        let taker = graph.declaration(&key)?;
        let ready = taker.status.ready.as_ref();
        match graph.desired_state(&key) {
            _ if taker.suspended => Some("is suspended"),
            Some(state) if state.ignores(id) => {
                Some("ignores it because of its annotations there, so nothing takes it")
            }
            _ if ready.is_some_and(|ready| ready.is_false) => Some("is not ready"),
            _ => None,
        }
    })
}

/// The message of `PruneBlocked`, if it has this reason.
fn held_back_so_far(run: &Run<'_>, why: Why) -> Option<String> {
    let status = run.object().status.as_ref()?;
    let held = condition(&status.conditions, ConditionType::PruneBlocked)?;
    (held.status == "True" && held.reason == why.as_str()).then(|| held.message.clone())
}

/// The latest time of the next run.
pub(super) fn next(cx: &Kustomizations, run: &Run<'_>, ks: &Declared) -> Next {
    let (now, memory) = (Instant::now(), &run.memory);
    let Some(record) = &memory.record else {
        return Next::Await;
    };
    if let Some(failure) = &record.failure
        && failure.retry() == Retry::Backoff
    {
        return Next::BackoffWithin(ks.retry_interval);
    }
    let mut due = match record.phase {
        Phase::Staged { until } | Phase::Checking { until } | Phase::Ready { until: Some(until) } => {
            (until, Reason::Deadline)
        }
        Phase::Ready { until: None } | Phase::Failed { retry: None } | Phase::Unconfirmed => {
            (now + cx.kit.spread(ks.interval), Reason::Interval)
        }
        Phase::Unhealthy { retry } | Phase::Failed { retry: Some(retry) } => (retry, Reason::Retry),
    };
    let mut sooner = |at: Instant| {
        if at < due.0 {
            due = (at, Reason::Deadline);
        }
    };
    let drifted = state::drifted(&cx.access(memory).view, record).into_iter();
    drifted
        .map(|id| memory.corrections.due(id, now))
        .chain(memory.corrections.calm_at(now))
        .for_each(&mut sooner);
    if asks_again(record) {
        sooner(now + LOOK);
    }
    if let Phase::Checking { .. } = record.phase
        && state::reports_progress(run.object(), &record.revision.revision)
    {
        sooner(record.checking + GRACE);
    }
    // awaited Kustomizations have their time, whatever else happens
    let waits = cx.kit.ownership().announcements.waits_until(&object_ref(&ks.key));
    waits
        .filter(|until| !memory.lingering.is_empty() && now < *until)
        .into_iter()
        .for_each(&mut sooner);
    Next::After(due.0.saturating_duration_since(now), due.1)
}

/// Whether it waits for objects that no watch covers.
fn asks_again(record: &Record) -> bool {
    let waits = matches!(
        record.phase,
        Phase::Checking { .. } | Phase::Ready { until: Some(_) }
    );
    waits && !record.asked.is_empty()
}
