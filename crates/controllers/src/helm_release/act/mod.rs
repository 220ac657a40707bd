//! Carries out the step of a plan. An operation ends the run where it has to wait; the watch of what it
//! waits for begins the next.
//!
//! | file | does |
//! |---|---|
//! | `chart_object` | applies and deletes the HelmChart of the template |
//! | `prepare`, `crds` | prepares an operation, up to its stored record |
//! | `operation`, `hooks`, `objects` | works off its stages |
//! | `outcome` | ends it: record, status, events |
//! | `drift` | corrects the objects |

mod chart_object;
pub(super) mod crds;
mod drift;
pub(super) mod hooks;
pub(super) mod objects;
pub(crate) mod operation;
mod outcome;
mod prepare;

use std::collections::BTreeMap;
use std::time::Duration;

use equate_api::helm::{DriftMode, HelmReleaseStatus, ReleaseAction};
use equate_api::kustomize::{Inventory, InventoryEntry};
use equate_api::meta::{ConditionStatus, ConditionType, Reason as Why};
use jiff::Timestamp;
use tokio::time::{Instant, timeout};

use self::operation::{Operation, Progress};
use self::prepare::{PrepareError, Prepared};
use super::decide::seen::{Basis, Seen, Source, Values};
use super::decide::{Again, Obstacle, Plan, Step, is_requested};
use super::declared::{Action, Declared};
use super::memory::{NextAttempt, ThisRun};
use super::report::Done;
use super::status::{Draft, clear_failures, full_name, latest};
use super::{HelmReleases, Run, declaration, object_ref, observe};
use crate::kit::controller::{Acted, Next, Notice, ROUNDS_MAX};
use crate::kit::events::Severity;
use crate::kit::missing_kinds::MissingKinds;
use crate::kit::reconciliation::Stop;
use crate::kit::wake::Reason;
use crate::targets::target::Access;

/// The message of a release that does not run an action yet.
const PREREQUISITES: &str = "Fulfilling prerequisites";
/// If a preparation or a new HelmChart takes longer, the status is written meanwhile.
const STATUS_DELAY_MAX: Duration = Duration::from_secs(1);
/// Upstream's text around an error that only a change of the spec can fix.
const TERMINAL: &str = "Reconciliation failed terminally due to configuration error";

pub(super) async fn act(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    seen: Seen,
    plan: Plan,
) -> Result<Acted<Done>, Stop> {
    let mut draft = Draft::new(run.status(), declared.generation, Timestamp::now());
    if is_about_release(&plan.step) && !declared.deleting {
        attempt(&mut draft, declared, &seen, &plan);
    }
    if plan.step != Step::Hold {
        observe::applying::release(cx, run, declared);
    }
    declaration::announce(cx, declared, &seen);
    let acted = step(cx, run, declared, &seen, plan, draft).await;
    run.memory.this_run.rounds += 1;
    let goes_on = matches!(acted, Ok(Acted::Again)) && run.memory.this_run.rounds < ROUNDS_MAX;
    if !goes_on {
        run.memory.this_run = ThisRun::default();
    }
    acted
}

/// Whether the release itself was looked at.
fn is_about_release(step: &Step) -> bool {
    match step {
        Step::Resume(_)
        | Step::Begin(_)
        | Step::ReportDrift
        | Step::Settle
        | Step::TryAgain(_)
        | Step::Exhausted(..) => true,
        Step::Release
        | Step::ApplyChart
        | Step::DeleteChart(_)
        | Step::Await
        | Step::Rest(_)
        | Step::Hold
        | Step::Wait(_)
        | Step::Stall(..)
        | Step::Fail(_)
        | Step::Continue
        | Step::Preempt => false,
    }
}

/// The inputs of the attempt, and the requests that it answers.
fn attempt(draft: &mut Draft, declared: &Declared, seen: &Seen, plan: &Plan) {
    if plan.reset.is_some() {
        clear_failures(&mut draft.status);
    }
    let retargets = matches!(plan.step, Step::Begin(Action::Uninstall));
    let status = &mut draft.status;
    if is_requested(
        declared,
        declared.reset_at.as_ref(),
        status.last_handled_reset_at.as_ref(),
    ) {
        status.last_handled_reset_at.clone_from(&declared.reset_at);
    }
    if retargets {
        return;
    }
    if plan.forced {
        status.last_handled_force_at.clone_from(&declared.force_at);
    }
    status.storage_namespace = Some(declared.storage.clone());
    status.last_attempted_generation = Some(declared.generation);
    if let Source::Ready(chart) = &seen.source {
        status.last_attempted_revision = Some(chart.version.clone());
        status
            .last_attempted_revision_digest
            .clone_from(&chart.oci_digest);
    }
    if let Values::Ready(digest) = &seen.values {
        status.last_attempted_config_digest = Some(digest.clone());
    }
    status.last_attempted_values_checksum = None;
    status.last_release_revision = None;
}

async fn step(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    seen: &Seen,
    plan: Plan,
    mut draft: Draft,
) -> Result<Acted<Done>, Stop> {
    match plan.step {
        Step::Release => Ok(Acted::Released),
        Step::ApplyChart => chart_object::apply(cx, run, declared, draft).await,
        Step::DeleteChart(chart) => chart_object::delete(cx, run, declared, draft, &chart).await,
        Step::Await => Ok(Acted::Unreported(Next::After(
            cx.kit.settings.dependency_retry,
            Reason::Retry,
        ))),
        Step::Wait(obstacle) => Ok(wait(cx, run, declared, draft, &obstacle)),
        Step::Stall(reason, message) => Ok(stall(draft, reason, &message)),
        Step::Fail(obstacle) => Ok(fail(draft, &obstacle)),
        Step::Settle => Ok(settle(cx, run, declared, draft).await),
        Step::ReportDrift => Ok(report_drift(declared, seen, draft)),
        Step::TryAgain(again) => Ok(try_again(run, declared, draft, again, Vec::new())),
        Step::Hold => Ok(match observe::applying::hold(cx, run, declared) {
            Some(left) => Acted::Unreported(Next::Pause(left, Reason::Deadline)),
            None => Acted::Again,
        }),
        Step::Rest(left) => Ok(Acted::Unreported(Next::Pause(left, Reason::Retry))),
        Step::Exhausted(reason, message) => Ok(exhausted(run, draft, reason, &message, Vec::new())),
        Step::Continue => match (run.memory.operation.take(), run.memory.access.clone()) {
            (Some(operation), Some(access)) => work(cx, run, declared, operation, &access).await,
            _ => Ok(Acted::Unreported(Next::Backoff)),
        },
        Step::Preempt => match (run.memory.operation.take(), run.memory.access.clone()) {
            (Some(operation), Some(access)) => {
                let name = operation.action().name();
                let why = format!("canceled: the chart, the values or the spec changed during the {name}");
                run.emit(Notice::new(
                    Severity::Normal,
                    Why::HealthCheckCanceled.as_str(),
                    format!(
                        "Health checks canceled due to new reconciliation triggered by {}",
                        object_ref(&declared.key)
                    ),
                ));
                let ended = outcome::finish(cx, run, declared, operation, Err(why), &access).await;
                // the change is no further attempt of the old inputs
                run.memory.attempted.clear();
                ended
            }
            _ => Ok(Acted::Unreported(Next::Backoff)),
        },
        Step::Resume(basis) => resume(cx, run, declared, &basis, draft).await,
        Step::Begin(action) => {
            let Some(access) = run.memory.access.clone() else {
                return Ok(Acted::Unreported(Next::Backoff));
            };
            tracing::info!(release = %declared.key, action = action.name(), reason = plan.reason, "begins an action");
            // a resume makes this status again, from the record; but not what counts failures or answers requests
            let can_be_restored = matches!(action, Action::Install | Action::Upgrade) && !plan.forced;
            match action {
                Action::Unlock => outcome::unlock(cx, run, declared, draft, &access).await,
                Action::CorrectDrift => {
                    draft.running(declared, action);
                    drift::correct(cx, run, declared, seen, draft, &access).await
                }
                action => {
                    note_attempt(&mut draft, action);
                    if !declared.deleting {
                        draft.running(declared, action);
                    }
                    match can_be_restored {
                        true => run.hold_status(draft.status),
                        false => run.write_status(draft.status).await?,
                    }
                    begin(cx, run, declared, action, &access).await
                }
            }
        }
    }
}

fn wait(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    mut draft: Draft,
    obstacle: &Obstacle,
) -> Acted<Done> {
    draft.reconciling(Why::Progressing, PREREQUISITES);
    draft.not_ready(obstacle.reason, &obstacle.message);
    if let Some(left) = chart_wait_left(run, declared, obstacle) {
        run.postpone_status(draft.status);
        return Acted::Unreported(Next::Pause(left, Reason::Deadline));
    }
    let is_news = draft.status != run.status();
    let notice = (is_news && obstacle.reason == Why::DependencyNotReady)
        .then(|| Notice::new(Severity::Normal, obstacle.reason.as_str(), &obstacle.message));
    Acted::Done(Done {
        status: draft.status,
        notices: notice.into_iter().collect(),
        next: Next::After(cx.kit.settings.dependency_retry, Reason::Retry),
        ended: true,
        failed: false,
    })
}

/// How long the wait for a new HelmChart, which is usually short, stays unwritten.
fn chart_wait_left(run: &Run<'_>, declared: &Declared, obstacle: &Obstacle) -> Option<Duration> {
    let created = run.memory.chart_created.filter(|_| declared.owns_chart)?;
    let left = STATUS_DELAY_MAX.checked_sub(created.elapsed())?;
    (obstacle.reason == Why::SourceNotReady && run.request().is_none() && !left.is_zero()).then_some(left)
}

fn stall(mut draft: Draft, reason: Why, message: &str) -> Acted<Done> {
    let shown = match reason {
        Why::InvalidCelExpression => format!("{TERMINAL}: {message}"),
        _ => message.to_owned(),
    };
    let before = draft.status.clone();
    draft.stalled(reason, &shown);
    draft.not_ready(reason, &shown);
    draft.observed();
    let notice = (draft.status != before).then(|| Notice::new(Severity::Warning, reason.as_str(), message));
    Acted::Done(Done {
        status: draft.status,
        notices: notice.into_iter().collect(),
        next: Next::Await,
        ended: true,
        failed: true,
    })
}

fn fail(mut draft: Draft, obstacle: &Obstacle) -> Acted<Done> {
    let before = draft.status.clone();
    draft.reconciling(Why::Progressing, PREREQUISITES);
    draft.not_ready(obstacle.reason, &obstacle.message);
    let event = obstacle.event.as_ref().filter(|_| draft.status != before);
    let notice = event.map(|event| Notice::new(Severity::Warning, obstacle.reason.as_str(), event));
    Acted::Done(Done {
        status: draft.status,
        notices: notice.into_iter().collect(),
        next: Next::Backoff,
        ended: true,
        failed: true,
    })
}

/// Everything is as declared.
async fn settle(cx: &HelmReleases, run: &mut Run<'_>, declared: &Declared, mut draft: Draft) -> Acted<Done> {
    let status = &draft.status;
    match declared.active_retry(status) {
        Some(_) => draft.shorten_history(),
        None => {
            let remediation = declared.active_remediation(status);
            let ignores = remediation.map_or(declared.test.ignore_failures, |remediation| {
                remediation.ignores_tests
            });
            draft.truncate_history(ignores);
        }
    }
    draft.in_sync(declared);
    if declared.drift != DriftMode::Disabled {
        draft.set(
            ConditionType::Drifted,
            ConditionStatus::False,
            Why::NoDriftDetected,
            "No drift detected against the cluster state",
        );
    }
    draft.clear(ConditionType::Reconciling);
    draft.summarize(declared);
    draft.observed();
    let memory = &mut run.memory;
    memory.attempted.clear();
    memory.loaded = None;
    memory.definitions = None;
    if declared.drift == DriftMode::Disabled
        && let Some(access) = &memory.access
    {
        access.view.forget(&declared.key);
        memory.expected.clear();
    }
    let _ = cx;
    Acted::Done(Done {
        status: draft.status,
        notices: Vec::new(),
        next: Next::Interval,
        ended: true,
        failed: false,
    })
}

fn report_drift(declared: &Declared, seen: &Seen, mut draft: Draft) -> Acted<Done> {
    let before = draft.status.clone();
    let message = drift_message(&draft.status, seen);
    draft.set(
        ConditionType::Drifted,
        ConditionStatus::True,
        Why::DriftDetected,
        &message,
    );
    draft.clear(ConditionType::Reconciling);
    draft.summarize(declared);
    draft.observed();
    let notice = (draft.status != before)
        .then(|| Notice::new(Severity::Warning, Why::DriftDetected.as_str(), message));
    Acted::Done(Done {
        status: draft.status,
        notices: notice.into_iter().collect(),
        next: Next::Interval,
        ended: true,
        failed: false,
    })
}

fn drift_message(status: &HelmReleaseStatus, seen: &Seen) -> String {
    let lines: Vec<String> = seen.drift.iter().map(super::decide::seen::Drift::line).collect();
    format!(
        "Cluster state of release {} has drifted from the desired state:\n{}",
        latest(&status.history).map(full_name).unwrap_or_default(),
        lines.join("\n")
    )
}

/// The attempt is over without success.
fn try_again(
    run: &mut Run<'_>,
    declared: &Declared,
    mut draft: Draft,
    again: Again,
    notices: Vec<Notice>,
) -> Acted<Done> {
    run.memory.attempted.clear();
    let next = match again {
        Again::After(interval) => {
            let shown = equate_api::meta::Duration::from(interval);
            draft.reconciling(Why::ProgressingWithRetry, &format!("retrying after {shown}"));
            draft.observed();
            run.memory.retry = Some(NextAttempt {
                at: Instant::now() + interval,
                inputs: run.memory.attempt_inputs(declared),
            });
            Next::After(interval, Reason::Retry)
        }
        Again::Soon => {
            let message = draft.get(ConditionType::Ready).map(|ready| ready.message.clone());
            draft.reconciling(Why::ProgressingWithRetry, &message.unwrap_or_default());
            Next::Backoff
        }
        Again::Interval => {
            draft.clear(ConditionType::Reconciling);
            draft.observed();
            Next::Interval
        }
    };
    Acted::Done(Done {
        status: draft.status,
        notices,
        next,
        ended: true,
        failed: true,
    })
}

fn exhausted(
    run: &mut Run<'_>,
    mut draft: Draft,
    reason: Why,
    message: &str,
    notices: Vec<Notice>,
) -> Acted<Done> {
    run.memory.attempted.clear();
    run.memory.loaded = None;
    draft.stalled(reason, message);
    draft.observed();
    Acted::Done(Done {
        status: draft.status,
        notices,
        next: Next::Await,
        ended: true,
        failed: true,
    })
}

/// Begins an operation. A held status is written with the inventory, before anything is applied; alone, if
/// the preparation takes longer.
async fn begin(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    action: Action,
    access: &Access,
) -> Result<Acted<Done>, Stop> {
    let began = Instant::now();
    let me = object_ref(&declared.key);
    cx.kit.missing_kinds.attempted(&me);
    let held = run.held_status();
    let (prepared, written) = {
        let mut preparing = Box::pin(prepare::prepare(cx, run, declared, action, access));
        match timeout(STATUS_DELAY_MAX, &mut preparing).await {
            Ok(prepared) => (prepared, None),
            Err(_elapsed) => {
                let (prepared, written) = tokio::join!(preparing, held.write());
                (prepared, Some(written))
            }
        }
    };
    match written {
        Some(Ok(object)) => run.was_written(object),
        Some(Err(stop)) => {
            // it may have stored one
            run.memory.records = None;
            run.memory.this_run = ThisRun::default();
            return Err(stop);
        }
        None => {}
    }
    match prepared {
        Ok(Prepared::Waits(again)) => Ok(Acted::Unreported(Next::Pause(again, Reason::Deferred))),
        Ok(Prepared::Ready(operation)) => {
            cx.kit.missing_kinds.forget(&me);
            if matches!(action, Action::Install | Action::Upgrade | Action::Rollback) {
                let mut draft = Draft::new(run.status(), declared.generation, Timestamp::now());
                let definitions = definitions(cx, run, declared).await;
                draft.status.inventory = Some(inventory(&operation, definitions));
                if action == Action::Upgrade && draft.status.history.is_empty() {
                    // an adopted release has no history here
                    draft.status.failures = None;
                }
                run.write_status(draft.status).await?;
                declaration::announce_targets(cx, declared, run.memory.chart.as_ref(), &operation.targets);
            }
            work(cx, run, declared, operation, access).await
        }
        // the next run uninstalls
        Err(PrepareError::Deleted) => Ok(Acted::Unreported(Next::After(Duration::ZERO, Reason::Changed))),
        Err(error) => {
            note_undefined(cx, declared, &error);
            outcome::not_begun(cx, run, declared, action, &error.to_string(), began, access).await
        }
    }
}

/// Notes the beginning of an action in a status.
fn note_attempt(draft: &mut Draft, action: Action) {
    match action {
        Action::Install => {
            draft.status.last_attempted_release_action = Some(ReleaseAction::Install);
            // nothing from before an install may be restored
            draft.status.history.clear();
        }
        Action::Upgrade => {
            draft.status.last_attempted_release_action = Some(ReleaseAction::Upgrade);
        }
        _ => return,
    }
    draft.clear(ConditionType::TestSuccess);
    draft.clear(ConditionType::Remediated);
}

/// Notes the kinds that this cluster lacks, for the program that may define them.
fn note_undefined(cx: &HelmReleases, declared: &Declared, error: &PrepareError) {
    let kinds = match error {
        PrepareError::Undefined(kinds) if declared.kube_config.is_none() => kinds.clone(),
        PrepareError::Undefined(_) | PrepareError::Refused(_) | PrepareError::Deleted => BTreeMap::new(),
    };
    let missing = MissingKinds {
        kinds,
        only: true,
        resolved: false,
    };
    cx.kit.missing_kinds.set(&object_ref(&declared.key), missing);
}

/// The CRDs of the chart: they are part of the inventory.
async fn definitions(cx: &HelmReleases, run: &Run<'_>, declared: &Declared) -> Vec<InventoryEntry> {
    let (Some(chart), Some(values)) = (&run.memory.loaded, &run.memory.values) else {
        return Vec::new();
    };
    let objects = crds::objects(cx, declared, (chart, &values.values)).await;
    let objects = objects.unwrap_or_default();
    objects
        .into_iter()
        .map(|object| {
            let (id, v) = super::objects::Target::of(object).entry();
            InventoryEntry { id, v }
        })
        .collect()
}

fn inventory(operation: &Operation, definitions: Vec<InventoryEntry>) -> Inventory {
    let entries = operation.targets.iter().map(|target| {
        let (id, v) = target.entry();
        InventoryEntry { id, v }
    });
    Inventory {
        entries: entries.chain(definitions).collect(),
    }
}

async fn resume(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    basis: &Basis,
    mut draft: Draft,
) -> Result<Acted<Done>, Stop> {
    let Some(access) = run.memory.access.clone() else {
        return Ok(Acted::Unreported(Next::Backoff));
    };
    // the status of its begin may be lost
    note_attempt(&mut draft, basis.action);
    draft.running(declared, basis.action);
    run.write_status(draft.status).await?;
    // its CRDs are part of the inventory
    if let Err(why) = observe::chart::chart(cx, run, declared).await {
        tracing::warn!(release = %declared.key, why, "cannot read the chart of an interrupted operation");
    }
    match prepare::resume(cx, run, declared, basis, &access).await {
        Ok(operation) => {
            let mut draft = Draft::new(run.status(), declared.generation, Timestamp::now());
            draft.status.inventory = Some(inventory(&operation, definitions(cx, run, declared).await));
            run.write_status(draft.status).await?;
            declaration::announce_targets(cx, declared, run.memory.chart.as_ref(), &operation.targets);
            work(cx, run, declared, operation, &access).await
        }
        Err(why) => {
            let draft = Draft::new(run.status(), declared.generation, Timestamp::now());
            let message = format!("Could not determine release state: {why}");
            let obstacle = Obstacle {
                reason: Why::StateError,
                message,
                event: None,
            };
            Ok(fail(draft, &obstacle))
        }
    }
}

/// Continues an operation until it waits or ends.
async fn work(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    mut operation: Box<Operation>,
    access: &Access,
) -> Result<Acted<Done>, Stop> {
    let progress = Box::pin(operation::advance(cx, run, declared, &mut operation, access)).await;
    let result = match progress {
        Progress::Waits(again) => {
            let now = Instant::now();
            let left = operation.until.map(|until| until.saturating_duration_since(now));
            let next = match (left, again) {
                (Some(left), Some(again)) => left.min(again),
                (Some(left), None) => left,
                (None, Some(again)) => again,
                (None, None) => declared.timeout(),
            };
            run.memory.operation = Some(operation);
            // never at once: a deadline that has passed is seen in the next run
            let next = next.max(Duration::from_millis(50));
            return Ok(Acted::Unreported(Next::Pause(next, Reason::Deadline)));
        }
        Progress::Done if operation.troubles.is_empty() => Ok(()),
        Progress::Done => {
            let troubles = &operation.troubles;
            Err(format!(
                "uninstallation completed with {} error(s): {}",
                troubles.len(),
                troubles.join("; ")
            ))
        }
        Progress::Failed(why) => Err(why),
    };
    outcome::finish(cx, run, declared, operation, result, access).await
}
