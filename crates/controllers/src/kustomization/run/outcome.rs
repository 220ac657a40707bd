//! How a run ends, once everything is applied or something failed: healthy, waiting for it, or why not.

use std::time::Duration;

use equate_api::kustomize::Kustomization;
use equate_api::meta::{ConditionType, Reason as Why, is_true};
use equate_apply::inventory::Inventory;
use tokio::time::Instant;

use super::status::Stop;
use super::{Run, observe};
use crate::kit::events::Severity;
use crate::kit::queue::Requeue;
use crate::kustomization::decide::{Phase, Verdict, deadline};
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::Revision;
use crate::kustomization::reasons::{Failure, Retry, go};
use crate::kustomization::report::{Attempt, Healthy};

impl Run<'_> {
    /// All is applied: is it healthy?
    pub(super) async fn check_health(
        &mut self,
        ks: &Declared,
        inventory: Inventory,
    ) -> Result<Requeue, Stop> {
        let now = Instant::now();
        let Some(record) = &mut self.memory.record else {
            return Ok(Requeue::Backoff);
        };
        let asked = ks.wait || !record.checks.is_empty();
        let (revision, waited) = (
            record.revision.clone(),
            now.saturating_duration_since(record.checking),
        );
        match (
            observe::health(&self.access.hub, &self.cx.rules, ks, record),
            record.phase,
        ) {
            (Verdict::Healthy, before) => {
                record.phase = Phase::Ready { until: None };
                record.failure = None;
                let healthy = match before {
                    _ if !asked => Healthy::Unasked,
                    Phase::Ready { .. } => Healthy::Still,
                    _ => Healthy::Passed(waited),
                };
                self.ready(ks, inventory, healthy).await
            }
            (Verdict::Failed(what), _) => {
                self.fail(ks, Failure::Health(waited, what), Some(inventory))
                    .await
            }
            (Verdict::Pending(what), Phase::Checking { until } | Phase::Ready { until: Some(until) })
                if until <= now =>
            {
                self.fail(ks, Failure::Health(waited, what), Some(inventory))
                    .await
            }
            (Verdict::Pending(_), Phase::Ready { until }) => {
                // it was healthy: it has as long as a new revision to become so again, without a word
                if until.is_none() {
                    record.checking = now;
                    record.phase = Phase::Ready {
                        until: Some(deadline(now, ks.timeout)),
                    };
                }
                self.report_status(ks, |report| report).await?;
                Ok(self.next(ks))
            }
            // after a start: all is as it was, and has the same time
            (Verdict::Pending(_), Phase::Checking { until })
                if !record.changed && says(&self.object, &revision) =>
            {
                record.phase = Phase::Ready { until: Some(until) };
                self.report_status(ks, |report| report.steady(&inventory)).await?;
                Ok(self.next(ks))
            }
            (Verdict::Pending(_), _) => {
                self.report_status(ks, |report| report.checking(&revision, &inventory))
                    .await?;
                Ok(self.next(ks))
            }
        }
    }

    async fn ready(
        &mut self,
        ks: &Declared,
        inventory: Inventory,
        healthy: Healthy,
    ) -> Result<Requeue, Stop> {
        let (was_ready, was_healthy) = (self.is_ready(), self.is_healthy());
        let Some(record) = &mut self.memory.record else {
            return Ok(Requeue::Backoff);
        };
        let changed = std::mem::take(&mut record.changed);
        let (revision, attempt) = (record.revision.clone(), attempt(record, self.began));
        let moved = self
            .object
            .status
            .as_ref()
            .and_then(|status| status.last_applied_revision.as_ref())
            != Some(&revision.revision);
        // a status that says all this already, of this generation, is not written again
        let judged = self
            .object
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        let news = changed || moved || !was_ready || judged != Some(ks.generation) || self.unanswered(ks);
        if news {
            self.report_status(ks, |report| {
                report.ready(&revision, &inventory, &attempt, &healthy)
            })
            .await?;
        } else {
            self.report_status(ks, |report| report.steady(&inventory)).await?;
        }
        if let Healthy::Passed(after) = healthy
            && (!was_healthy || changed)
        {
            let message = format!("Health check passed in {}", go(after));
            // as in Flux, whose events have the reason that `Ready` has at the time
            self.emit(Severity::Normal, Why::Progressing, message);
        }
        if news {
            let message = format!(
                "Reconciliation finished in {}, next run in {}",
                go(attempt.took),
                go(ks.interval)
            );
            let event = self.event(Severity::Normal, Why::ReconciliationSucceeded, message);
            self.cx
                .kit
                .recorder
                .publish(event.with("commit_status", "update"));
        }
        Ok(self.next(ks))
    }

    fn unanswered(&self, ks: &Declared) -> bool {
        let status = self.object.status.as_ref();
        ks.requested_at.is_some()
            && status.and_then(|s| s.last_handled_reconcile_at.as_ref()) != ks.requested_at.as_ref()
    }

    /// The same inputs at a newer revision: one status.
    pub(super) async fn report_new_revision(&mut self, ks: &Declared) -> Result<Requeue, Stop> {
        let held = self.inventory();
        let Some(record) = &self.memory.record else {
            return Ok(Requeue::Backoff);
        };
        let (revision, failure) = (record.revision.clone(), record.failure.clone());
        let attempt = Attempt {
            digest: record.digest.clone(),
            took: Duration::ZERO,
        };
        let built = !attempt.digest.is_empty();
        match record.phase {
            Phase::Ready { .. } => {
                let healthy = if ks.wait || !record.checks.is_empty() {
                    Healthy::Still
                } else {
                    Healthy::Unasked
                };
                self.report_status(ks, |report| report.ready(&revision, &held, &attempt, &healthy))
                    .await?;
            }
            Phase::Checking { .. } => {
                self.report_status(ks, |report| report.checking(&revision, &held))
                    .await?;
            }
            Phase::Unhealthy { .. } | Phase::Failed { .. } | Phase::Staged { .. } | Phase::Unconfirmed => {
                if let Some(failure) = &failure {
                    self.report_status(ks, |report| {
                        report.failed(failure, &revision, &held, built.then_some(&attempt))
                    })
                    .await?;
                }
            }
        }
        Ok(self.next(ks))
    }

    /// Says why it failed, and when it is tried again.
    pub(super) async fn fail(
        &mut self,
        ks: &Declared,
        failure: Failure,
        inventory: Option<Inventory>,
    ) -> Result<Requeue, Stop> {
        let now = Instant::now();
        let failure = failure.reworded(|text| self.masked(text));
        let inventory = inventory.unwrap_or_else(|| self.inventory());
        let Some(record) = &mut self.memory.record else {
            return Ok(Requeue::Backoff);
        };
        let again = deadline(now, ks.retry_interval);
        record.phase = match (&failure, failure.retry()) {
            (Failure::Health(..), _) => Phase::Unhealthy { retry: again },
            (_, Retry::Never) => Phase::Failed { retry: None },
            (_, Retry::Interval) => Phase::Failed { retry: Some(again) },
            // the queue says when
            (_, Retry::Backoff) => Phase::Failed { retry: Some(now) },
        };
        if failure.retry() != Retry::Backoff {
            record.desired = None;
            record.masks.clear();
        }
        let same = record.failure.as_ref() == Some(&failure);
        record.failure = Some(failure.clone());
        let (revision, attempt) = (record.revision.clone(), attempt(record, self.began));
        let built = !attempt.digest.is_empty();
        let (reason, message) = (failure.reason(), failure.to_string());
        self.report_status(ks, |report| {
            report.failed(&failure, &revision, &inventory, built.then_some(&attempt))
        })
        .await?;
        if !same {
            self.emit(Severity::Warning, reason, message);
        }
        Ok(self.next(ks))
    }
}

/// Whether the status says that this revision is applied and ready.
fn says(object: &Kustomization, revision: &Revision) -> bool {
    let status = object.status.as_ref();
    status.is_some_and(|status| {
        is_true(&status.conditions, ConditionType::Ready)
            && status.observed_generation == object.metadata.generation
            && status.last_applied_revision.as_ref() == Some(&revision.revision)
    })
}

fn attempt(record: &crate::kustomization::memory::Record, began: Instant) -> Attempt {
    let now = Instant::now();
    Attempt {
        digest: record.digest.clone(),
        took: now.saturating_duration_since(record.began.min(began)),
    }
}
