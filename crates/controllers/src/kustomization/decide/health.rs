//! Whether the applied objects are healthy, and the status about it.

use equate_apply::health::{Health, Status};
use equate_apply::id::ObjectId;
use tokio::time::Instant;

use super::seen::{Last, Phase};
use super::{GRACE, deadline};
use crate::kustomization::declared::Declared;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HealthSummary {
    Healthy,
    Pending(String),
    /// An object failed for good.
    Failed(String),
}

impl HealthSummary {
    pub(crate) fn pending(&self) -> bool {
        matches!(self, HealthSummary::Pending(_))
    }
}

/// The status about health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Conclusion {
    Healthy(Passed),
    /// An object is unhealthy, or took too long.
    Unhealthy(String),
    /// It was healthy. It has as long as a new revision to recover, without a new status.
    Degraded {
        until: Instant,
        /// Whether its time begins now.
        begins: bool,
    },
    /// After a start: all is as the status says, and has this time to become healthy.
    AsBefore {
        until: Instant,
    },
    Checking,
    /// The same, for less than [`GRACE`]: the status already says that the revision is in progress.
    CheckingWithoutStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    NotChecked,
    Still,
    Now,
}

pub(super) fn conclude(ks: &Declared, last: &Last, phase: Phase, now: Instant) -> Conclusion {
    match (&last.health, phase) {
        (HealthSummary::Healthy, _) if !last.checked => Conclusion::Healthy(Passed::NotChecked),
        (HealthSummary::Healthy, Phase::Ready { .. }) => Conclusion::Healthy(Passed::Still),
        (HealthSummary::Healthy, _) => Conclusion::Healthy(Passed::Now),
        (HealthSummary::Failed(what), _) => Conclusion::Unhealthy(what.clone()),
        (HealthSummary::Pending(what), Phase::Checking { until } | Phase::Ready { until: Some(until) })
            if until <= now =>
        {
            Conclusion::Unhealthy(what.clone())
        }
        (HealthSummary::Pending(_), Phase::Ready { until }) => Conclusion::Degraded {
            until: until.unwrap_or_else(|| deadline(now, ks.timeout)),
            begins: until.is_none(),
        },
        (HealthSummary::Pending(_), Phase::Checking { until }) if !last.changed && last.reported => {
            Conclusion::AsBefore { until }
        }
        (HealthSummary::Pending(_), _) if status_can_wait(last, now) => Conclusion::CheckingWithoutStatus,
        (HealthSummary::Pending(_), _) => Conclusion::Checking,
    }
}

/// Whether a status about health checks can wait. Most new objects are healthy within [`GRACE`], and the
/// status from before they were made says that the revision is in progress.
fn status_can_wait(last: &Last, now: Instant) -> bool {
    let since = match last.phase {
        Phase::Checking { .. } => last.checking_since,
        Phase::Staged { .. }
        | Phase::Ready { .. }
        | Phase::Unhealthy { .. }
        | Phase::Failed { .. }
        | Phase::Unconfirmed => now,
    };
    last.in_progress && now < since + GRACE
}

pub(super) fn is_news(last: &Last, now: Instant) -> bool {
    let health = &last.health;
    match last.phase {
        Phase::Unhealthy { .. } => *health == HealthSummary::Healthy,
        Phase::Checking { until } => {
            until <= now || !health.pending() || (last.in_progress && !status_can_wait(last, now))
        }
        // a ready Kustomization needs no status about health while it is healthy or has time left
        Phase::Ready { until } => match (health, until) {
            (HealthSummary::Healthy, until) => until.is_some(),
            (HealthSummary::Pending(_), Some(until)) => until <= now,
            (HealthSummary::Pending(_), None) | (HealthSummary::Failed(_), _) => true,
        },
        Phase::Staged { .. } | Phase::Failed { .. } | Phase::Unconfirmed => false,
    }
}

/// The health of all checked objects. One failed object is enough to fail, as in Flux: it does not recover
/// by waiting.
pub(crate) fn verdict<'a>(checked: impl IntoIterator<Item = (&'a ObjectId, Health)>) -> HealthSummary {
    let (mut failed, mut pending) = (Vec::new(), Vec::new());
    for (id, health) in checked {
        let list = match health.status {
            Status::Current => continue,
            Status::Failed => &mut failed,
            Status::InProgress | Status::Terminating | Status::NotFound | Status::Unknown => &mut pending,
        };
        let mut line = format!("{id} status: '{}'", health.status);
        if !health.message.is_empty() {
            line.push_str(": ");
            line.push_str(&health.message);
        }
        list.push(line);
    }
    if !failed.is_empty() {
        let failed = failed.join(", ");
        HealthSummary::Failed(format!("failed early due to stalled resources: [{failed}]"))
    } else if !pending.is_empty() {
        HealthSummary::Pending(format!("timeout waiting for: [{}]", pending.join(", ")))
    } else {
        HealthSummary::Healthy
    }
}
