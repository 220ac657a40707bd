//! The end of a run, as a status; pure. Messages are those of Flux's source-watcher (v2.2).

use equate_api::extensions::ArtifactGeneratorStatus;
use equate_api::meta::{ConditionStatus, ConditionType, Reason, set_condition};
use jiff::Timestamp;

use super::INTERVAL;
use super::act::{Done, Published};
use super::declared::Declared;
use crate::kit::StandardConditions;
use crate::kit::controller::{Next, Notice, Report};
use crate::kit::events::Severity;

/// The end of a run as status, events and the time of the next run.
pub(super) fn report(
    declared: &Declared,
    before: &ArtifactGeneratorStatus,
    done: Done,
    now: Timestamp,
) -> Report<ArtifactGeneratorStatus> {
    let mut status = before.clone();
    let mut report = match done {
        Done::Kept => ended(status, None, Next::Interval),
        Done::Disabled => {
            set_condition(
                &mut status.conditions,
                ConditionType::Ready,
                ConditionStatus::True,
                Reason::ReconciliationDisabled,
                "Initialized with reconciliation suspended",
                declared.generation,
                now,
            );
            ended(status, None, Next::Await)
        }
        Done::Published(Published { inventory, digest }) => {
            let changed = inventory.iter().filter(|made| !before.inventory.contains(made));
            let changed: Vec<String> = changed
                .map(|made| format!("{}/{} ({})", made.namespace, made.name, made.digest))
                .collect();
            let message = format!(
                "reconciliation succeeded, generated {} artifact(s)",
                inventory.len()
            );
            status.inventory = inventory;
            status.observed_sources_digest = Some(digest);
            StandardConditions::new(&mut status, declared.generation, now).ready(Reason::Succeeded, &message);
            let notice = (!changed.is_empty()).then(|| {
                let message = format!("external artifacts reconciled: {}", changed.join("\n"));
                Notice::new(Severity::Normal, ConditionType::Ready.as_str(), message)
            });
            ended(status, notice, Next::Interval)
        }
        Done::Failed(failure) => {
            StandardConditions::new(&mut status, declared.generation, now).failed(&failure);
            let notice = Notice::new(Severity::Warning, failure.reason.as_str(), &failure.message);
            Report {
                failed: true,
                ..ended(status, Some(notice), failure.next(INTERVAL))
            }
        }
    };
    // the kind has no such field: that of the conditions counts
    report.status.observed_generation = None;
    report
}

fn ended(
    status: ArtifactGeneratorStatus,
    notice: Option<Notice>,
    next: Next,
) -> Report<ArtifactGeneratorStatus> {
    Report {
        status,
        notices: notice.into_iter().collect(),
        next,
        ended: true,
        failed: false,
    }
}
