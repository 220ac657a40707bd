//! The end of a run, as a status and events; pure. `status` has the texts; this file chooses among them.

use std::sync::Arc;
use std::time::Duration;

use equate_api::kustomize::KustomizationStatus;
use equate_api::meta::{ConditionType, Reason as Why, condition, is_true};
use equate_apply::inventory::Inventory;
use jiff::Timestamp;

use super::declared::Declared;
use super::inputs::artifact::Revision;
use super::reasons::{Failure, Stall, Wait, flux_duration};
use super::status::{Aspects, Attempt, Healthy, StatusDraft};
use crate::kit::controller::{Next, Notice, Report};
use crate::kit::events::Severity;
use crate::masks::Masks;

#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    pub(crate) aspects: Aspects,
    pub(crate) context: EventContext,
    pub(crate) next: Next,
}

/// The metadata of events, and the values to mask in them.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventContext {
    pub(crate) revision: Option<Revision>,
    pub(crate) masks: Vec<Arc<Masks>>,
}

impl EventContext {
    pub(crate) fn masked(&self, text: &str) -> String {
        let masks = self.masks.iter();
        masks.fold(text.to_owned(), |text, masks| masks.mask(&text))
    }

    pub(crate) fn notice(&self, severity: Severity, reason: Why, message: &str) -> Notice {
        let mut notice = Notice::new(severity, reason.as_str(), self.masked(message));
        if let Some(revision) = &self.revision {
            notice = notice.with("revision", &revision.revision);
            if let Some(origin) = &revision.origin {
                notice = notice.with("originRevision", origin);
            }
        }
        notice
    }
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Unchanged,
    Suspended,
    /// Nothing happens until a person changes something.
    Stalled(Stall),
    Waiting {
        wait: Wait,
        revision: Option<String>,
        again: Duration,
    },
    /// Others have to be built first, or an object has to disappear.
    Awaiting(String),
    Steady(Inventory),
    Checking {
        revision: Revision,
        inventory: Inventory,
    },
    Ready(Ready),
    /// It was ready, and a newer revision changes nothing.
    Renewed(Ready),
    Failed {
        failure: Failure,
        revision: Revision,
        inventory: Inventory,
        attempt: Option<Attempt>,
        same: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) revision: Revision,
    pub(crate) inventory: Inventory,
    pub(crate) attempt: Attempt,
    pub(crate) healthy: Healthy,
    /// Whether there are changes that no status reports yet.
    pub(crate) changed: bool,
    pub(crate) requested: bool,
}

pub(crate) fn report(
    ks: &Declared,
    before: &KustomizationStatus,
    done: Done,
    now: Timestamp,
) -> Report<KustomizationStatus> {
    let Done {
        outcome,
        aspects,
        context,
        next,
    } = done;
    let news = is_news(ks, before, &outcome);
    let draft = StatusDraft::new(ks, before, now);
    let draft = match &outcome {
        Outcome::Unchanged => draft,
        Outcome::Suspended => draft.suspended(),
        Outcome::Stalled(stall) => draft.stalled(stall),
        Outcome::Waiting { wait, .. } => draft.waiting(wait),
        Outcome::Awaiting(message) => draft.awaiting(message),
        Outcome::Steady(inventory) => draft.holding(inventory),
        Outcome::Checking { revision, inventory } => draft.checking(revision, inventory),
        // the status of this generation already says all this
        Outcome::Ready(ready) if !news => draft.holding(&ready.inventory),
        Outcome::Ready(ready) | Outcome::Renewed(ready) => {
            draft.ready(&ready.revision, &ready.inventory, &ready.attempt, &ready.healthy)
        }
        Outcome::Failed {
            failure,
            revision,
            inventory,
            attempt,
            ..
        } => draft.failed(failure, revision, inventory, attempt.as_ref()),
    };
    let status = draft.finish(&aspects);
    let notices = notices(ks, (before, &status), &outcome, &context, news);
    Report {
        status,
        notices,
        next,
        ended: ends(&outcome),
        failed: fails(&outcome),
    }
}

/// Whether a requested reconciliation has ended, successfully or not.
fn ends(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Unchanged | Outcome::Awaiting(_) | Outcome::Checking { .. } => false,
        Outcome::Waiting { wait, .. } => !matches!(wait, Wait::Fetching { trouble: None, .. }),
        Outcome::Suspended
        | Outcome::Stalled(_)
        | Outcome::Steady(_)
        | Outcome::Ready(_)
        | Outcome::Renewed(_)
        | Outcome::Failed { .. } => true,
    }
}

/// Whether the run failed. Waiting for others is no failure.
fn fails(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Stalled(_) | Outcome::Failed { .. } => true,
        Outcome::Waiting { wait, .. } => matches!(wait, Wait::Unfetched { .. }),
        Outcome::Unchanged
        | Outcome::Suspended
        | Outcome::Awaiting(_)
        | Outcome::Steady(_)
        | Outcome::Checking { .. }
        | Outcome::Ready(_)
        | Outcome::Renewed(_) => false,
    }
}

/// Whether readiness is new, and worth an event.
fn is_news(ks: &Declared, before: &KustomizationStatus, outcome: &Outcome) -> bool {
    let Outcome::Ready(ready) = outcome else {
        return false;
    };
    let moved = before.last_applied_revision.as_ref() != Some(&ready.revision.revision);
    ready.changed
        || moved
        || !is_true(&before.conditions, ConditionType::Ready)
        || before.observed_generation != Some(ks.generation)
        || ready.requested
}

fn notices(
    ks: &Declared,
    (before, after): (&KustomizationStatus, &KustomizationStatus),
    outcome: &Outcome,
    context: &EventContext,
    news: bool,
) -> Vec<Notice> {
    let mut notices = Vec::new();
    match outcome {
        // a person has to act
        Outcome::Stalled(stall) if after != before => {
            notices.push(context.notice(Severity::Warning, stall.reason(), &stall.to_string()));
        }
        Outcome::Waiting {
            wait,
            revision,
            again,
        } => {
            notices.extend(missing(
                (before, after),
                wait,
                revision.as_deref(),
                *again,
                context,
            ));
        }
        Outcome::Ready(ready) => {
            if let Healthy::Passed(after) = ready.healthy
                && (!is_true(&before.conditions, ConditionType::Healthy) || ready.changed)
            {
                let message = format!("Health check passed in {}", flux_duration(after));
                // as in Flux, whose events have the reason that `Ready` has at the time
                notices.push(context.notice(Severity::Normal, Why::Progressing, &message));
            }
            if news {
                let message = format!(
                    "Reconciliation finished in {}, next run in {}",
                    flux_duration(ready.attempt.took),
                    flux_duration(ks.interval)
                );
                let notice = context.notice(Severity::Normal, Why::ReconciliationSucceeded, &message);
                notices.push(notice.with("commit_status", "update"));
            }
        }
        Outcome::Failed { failure, same, .. } if !same => {
            notices.push(context.notice(Severity::Warning, failure.reason(), &failure.to_string()));
        }
        Outcome::Unchanged
        | Outcome::Suspended
        | Outcome::Stalled(_)
        | Outcome::Awaiting(_)
        | Outcome::Steady(_)
        | Outcome::Checking { .. }
        | Outcome::Renewed(_)
        | Outcome::Failed { .. } => {}
    }
    notices
}

/// An event about a missing prerequisite, unless the status already reported it.
fn missing(
    (before, after): (&KustomizationStatus, &KustomizationStatus),
    wait: &Wait,
    revision: Option<&str>,
    again: Duration,
    context: &EventContext,
) -> Option<Notice> {
    let was = condition(&before.conditions, ConditionType::Ready);
    if let Wait::Unfetched { revision, .. } = wait {
        let message = wait.to_string();
        let said = was.is_some_and(|ready| ready.message == message);
        let notice = || Notice::new(Severity::Warning, wait.reason().as_str(), message);
        return (!said).then(|| notice().with("revision", revision));
    }
    let is = condition(&after.conditions, ConditionType::Ready);
    if wait.reason() != Why::DependencyNotReady || is == was {
        return None;
    }
    let message = format!(
        "Dependencies do not meet ready condition, retrying in {}",
        flux_duration(again)
    );
    let notice = context.notice(Severity::Normal, Why::DependencyNotReady, &message);
    Some(match revision {
        Some(revision) => notice.with("revision", revision),
        None => notice,
    })
}
