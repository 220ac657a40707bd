//! Does nothing, and reports the reason where it matters.

use std::time::Duration;

use equate_api::meta::Reason as Why;
use tokio::time::Instant;

use super::finish::report_new_revision;
use super::status::{emit, end_run, next};
use crate::kit::controller::{Acted, Next};
use crate::kit::events::Severity;
use crate::kit::wake::Reason;
use crate::kustomization::decide::{Awaiting, Idle};
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::SourceSeen;
use crate::kustomization::reasons::Stall;
use crate::kustomization::report::{Done, Outcome};
use crate::kustomization::{Kustomizations, Run};

/// Poll interval for objects that cannot be watched.
const LOOK: Duration = Duration::from_secs(2);

pub(super) fn idle(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared, idle: Idle) -> Acted<Done> {
    match idle {
        Idle::Suspended => {
            // the cluster may change unseen meanwhile: the next run starts over
            run.memory.record = None;
            cx.access(&run.memory).view.forget(&ks.key);
            end_run(cx, run, ks, Outcome::Suspended, Next::Await)
        }
        Idle::Stalled(stalled) => stall(cx, run, ks, stalled),
        Idle::Waiting { wait, again } => {
            run.memory.waiting.get_or_insert(run.began);
            let outcome = Outcome::Waiting {
                wait,
                revision: stored_revision(run),
                again: cx.kit.settings.dependency_retry,
            };
            end_run(cx, run, ks, outcome, Next::After(again, Reason::Interval))
        }
        Idle::WaitingWithoutStatus { again } => {
            run.memory.waiting.get_or_insert(run.began);
            Acted::Unreported(Next::After(again, Reason::Deadline))
        }
        Idle::Awaiting(awaiting) => await_others(cx, run, ks, awaiting),
        Idle::KindsUnlisted => Acted::Unreported(next(cx, run, ks)),
        Idle::Unconfirmed => Acted::Unreported(Next::Await),
        Idle::NoAccess => unchanged(cx, run, ks),
        Idle::Deferred => Acted::Unreported(Next::After(Duration::ZERO, Reason::Deferred)),
        Idle::NewRevision => report_new_revision(cx, run, ks),
        Idle::Settled => {
            run.memory.renew();
            unchanged(cx, run, ks)
        }
        Idle::DeletionUnreached(failure) => {
            // as in Flux, the Kustomization stays until they can be deleted, or until it is suspended,
            // which keeps them
            let message = format!("pruning for deleted resource failed: {failure}");
            emit(run, Severity::Warning, Why::PruneFailed, &message);
            Acted::Unreported(Next::BackoffWithin(ks.retry_interval))
        }
        Idle::DeletionHeld { plan: _, why } => {
            run.memory.lingering = ks.inventory.clone();
            run.memory.surveying_since = None;
            let next = Next::After(ks.interval, Reason::Interval);
            end_run(cx, run, ks, Outcome::Awaiting(why), next)
        }
        Idle::DeletionUnlisted => Acted::Unreported(Next::After(ks.timeout, Reason::Deadline)),
        Idle::Terminating { until, blind } => {
            run.memory.terminating = Some(until);
            let left = until.saturating_duration_since(Instant::now());
            let again = if blind { LOOK.min(left) } else { left };
            Acted::Unreported(Next::After(again, Reason::Deadline))
        }
    }
}

fn stored_revision(run: &Run<'_>) -> Option<String> {
    let looked = run.memory.this_run.prerequisites.as_ref()?;
    match &looked.prerequisites.source {
        SourceSeen::Stored { revision } => Some(revision.clone()),
        _ => None,
    }
}

fn unchanged(cx: &Kustomizations, run: &Run<'_>, ks: &Declared) -> Acted<Done> {
    let next = next(cx, run, ks);
    end_run(cx, run, ks, Outcome::Unchanged, next)
}

pub(super) fn stall(cx: &Kustomizations, run: &Run<'_>, ks: &Declared, stall: Stall) -> Acted<Done> {
    end_run(cx, run, ks, Outcome::Stalled(stall), Next::Await)
}

/// Waits: an announcement of another Kustomization, or the end of an object, begins the next run.
pub(super) fn await_others(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    awaiting: Awaiting,
) -> Acted<Done> {
    let Awaiting {
        message,
        until,
        no_status_before,
        lingering,
    } = awaiting;
    if let Some(lingering) = lingering {
        run.memory.lingering = lingering;
    }
    let now = Instant::now();
    run.memory.surveying_since.get_or_insert(now);
    let after = |at: Instant| Next::After(at.saturating_duration_since(now), Reason::Deadline);
    match no_status_before {
        Some(report_at) => Acted::Unreported(after(report_at.min(until))),
        None => end_run(cx, run, ks, Outcome::Awaiting(message), after(until)),
    }
}
