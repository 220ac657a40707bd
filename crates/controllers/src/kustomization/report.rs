//! How a run ended, as a status and events: pure. What the status says stands in `status`; here is which of it
//! is said, and what of that is news.

use std::sync::Arc;
use std::time::Duration;

use equate_api::kustomize::KustomizationStatus;
use equate_api::meta::{ConditionType, Reason as Why, condition, is_true};
use equate_apply::inventory::Inventory;
use jiff::Timestamp;

use super::declared::Declared;
use super::inputs::artifact::Revision;
use super::inputs::masks::Masks;
use super::reasons::{Failure, Stall, Wait, go};
use super::status::{Aspects, Attempt, Healthy, StatusDraft};
use crate::kit::controller::{Next, Notice, Report};
use crate::kit::events::Severity;

/// What was done, and what is known of it then.
#[derive(Debug)]
pub(crate) struct Done {
    /// What it came to.
    pub(crate) outcome: Outcome,
    /// What holds whatever it came to.
    pub(crate) aspects: Aspects,
    /// What its events are about.
    pub(crate) context: EventContext,
    /// When it runs next.
    pub(crate) next: Next,
}

/// What events say beside what happened, and what they must not say.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventContext {
    /// The revision that is carried out.
    pub(crate) revision: Option<Revision>,
    /// Values of Secrets.
    pub(crate) masks: Vec<Arc<Masks>>,
}

impl EventContext {
    /// A text that may quote what was built, without values of Secrets.
    pub(crate) fn masked(&self, text: &str) -> String {
        let masks = self.masks.iter();
        masks.fold(text.to_owned(), |text, masks| masks.mask(&text))
    }

    /// An event of the revision that is carried out.
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

/// What a run came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Nothing that was not so before.
    Unchanged,
    /// It is suspended.
    Suspended,
    /// Nothing happens until somebody changes something.
    Stalled(Stall),
    /// Something is missing.
    Waiting {
        wait: Wait,
        /// The revision that there is.
        revision: Option<String>,
        /// How often it looks by itself.
        again: Duration,
    },
    /// Others have to be built first, or something has to go.
    Awaiting(String),
    /// It holds this, and nothing else may be new.
    Steady(Inventory),
    /// All is applied, and what has to be healthy is waited for.
    Checking {
        revision: Revision,
        inventory: Inventory,
    },
    /// All is as declared.
    Ready(Ready),
    /// It was ready, and is at a newer revision that changes nothing.
    Renewed(Ready),
    /// It failed.
    Failed {
        failure: Failure,
        revision: Revision,
        inventory: Inventory,
        /// What goes into the history, if anything was built.
        attempt: Option<Attempt>,
        /// Whether it failed in the same way before.
        same: bool,
    },
}

/// All is as declared.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) revision: Revision,
    pub(crate) inventory: Inventory,
    pub(crate) attempt: Attempt,
    pub(crate) healthy: Healthy,
    /// Whether anything was changed that no status tells of yet.
    pub(crate) changed: bool,
    /// Whether the run answers a request.
    pub(crate) requested: bool,
}

/// Says how a run ended.
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
        // a status that says all this already, of this generation, is not written again
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

/// Whether what was asked for has ended, well or badly.
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

/// Whether the run failed. One that waits for others did not.
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

/// Whether being ready is news.
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
        // people have to come and look
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
                let message = format!("Health check passed in {}", go(after));
                // as in Flux, whose events have the reason that `Ready` has at the time
                notices.push(context.notice(Severity::Normal, Why::Progressing, &message));
            }
            if news {
                let message = format!(
                    "Reconciliation finished in {}, next run in {}",
                    go(ready.attempt.took),
                    go(ks.interval)
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

/// Tells of what is missing, unless the status said it already.
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
        go(again)
    );
    let notice = context.notice(Severity::Normal, Why::DependencyNotReady, &message);
    Some(match revision {
        Some(revision) => notice.with("revision", revision),
        None => notice,
    })
}
