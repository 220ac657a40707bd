//! Decides the next step of a HelmRelease: pure, from the spec and the observations to one action with a
//! reason. The rules are those of fluxcd/helm-controller 1.6 (`internal/reconcile/atomic_release.go`),
//! except that an interrupted operation of the same inputs is resumed, and a change of the inputs ends an
//! operation that waits.

pub(crate) mod seen;
pub(crate) mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

use equate_api::helm::{DriftMode, ReleaseAction, RemediationStrategy, Snapshot};
use equate_api::meta::Reason;
use equate_helm::release::Status;

use self::seen::{
    Access, Basis, Dependencies, OwnChart, Previous, Seen, Source, Storage, UnnamedChart, Values,
};
use self::state::State;
use super::declared::{Action, Class, Declared};
use super::status::latest;

/// The next step of a run, and its reason.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) step: Step,
    /// The reason, for `equate explain` and logs.
    pub(crate) reason: String,
    /// Why the failure counters are reset first.
    pub(crate) reset: Option<&'static str>,
    /// Whether a request forced the action.
    pub(crate) forced: bool,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Let go of a deleted HelmRelease.
    Release,
    /// Apply the HelmChart of the template.
    ApplyChart,
    /// Delete the HelmChart with this namespace and name.
    DeleteChart(String),
    /// End the run without a change of the status; a change wakes the object.
    Await,
    /// Something is missing; a change of it wakes the object.
    Wait(Obstacle),
    /// Nothing but a change of the spec helps.
    Stall(Reason, String),
    /// Something failed before the release was looked at.
    Fail(Obstacle),
    /// Continue the operation in progress.
    Continue,
    /// End the operation in progress as failed, because its inputs changed.
    Preempt,
    /// Resume an interrupted operation of the same inputs.
    Resume(Basis),
    /// Begin an action.
    Begin(Action),
    /// Report drift.
    ReportDrift,
    /// Everything is as declared.
    Settle,
    /// This attempt ran the action already: try again.
    TryAgain(Again),
    /// The next attempt of the retry strategy is later.
    Rest(Duration),
    /// Wait for the rest of a commit, which may change the chart, the values or the spec.
    Hold,
    /// No retries are left.
    Exhausted(Reason, String),
}

/// When an attempt is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// After the interval of the retry strategy.
    After(Duration),
    /// With growing delays.
    Soon,
    /// Not before the interval.
    Interval,
}

/// Why a release is not looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Obstacle {
    pub(crate) reason: Reason,
    pub(crate) message: String,
    /// The text of a warning event; none if the wait is normal.
    pub(crate) event: Option<String>,
}

impl Obstacle {
    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            event: None,
        }
    }

    fn with_event(mut self, text: impl Into<String>) -> Self {
        self.event = Some(text.into());
        self
    }
}

fn plan(step: Step, reason: impl Into<String>) -> Plan {
    Plan {
        step,
        reason: reason.into(),
        reset: None,
        forced: false,
    }
}

pub(crate) fn decide(declared: &Declared, seen: &Seen) -> Plan {
    match declared.deleting {
        true => deletion(declared, seen),
        false => running(declared, seen),
    }
}

fn deletion(declared: &Declared, seen: &Seen) -> Plan {
    if declared.spec.suspend {
        return plan(
            Step::Release,
            "a suspended HelmRelease leaves its release when it is deleted",
        );
    }
    let uses_cluster = seen.status.storage_namespace.is_some();
    match &seen.access {
        // not even the outcome of an operation can be stored
        Access::Failed(_, true) if uses_cluster => {
            return let_go(
                seen,
                "the kubeconfig of the target cluster does not exist any more",
            );
        }
        Access::NoAccount(account) if uses_cluster => {
            return let_go(seen, format!("ServiceAccount {account} does not exist any more"));
        }
        _ => {}
    }
    if let Some(basis) = &seen.operation {
        return match basis.action {
            Action::Uninstall => plan(Step::Continue, "uninstalling for the deleted HelmRelease"),
            // uninstalling removes whatever it has made
            _ => plan(Step::Preempt, "the HelmRelease is deleted"),
        };
    }
    if uses_cluster {
        if let Access::Failed(why, _) = &seen.access {
            let message = format!("failed to build REST client getter to uninstall release: {why}");
            return plan(
                Step::Fail(Obstacle::new(Reason::UninstallFailed, message.clone())),
                message,
            );
        }
        if latest(&seen.status.history).is_some() {
            return plan(Step::Begin(Action::Uninstall), "the HelmRelease is deleted");
        }
    }
    let_go(seen, "there is nothing to uninstall")
}

fn let_go(seen: &Seen, reason: impl Into<String>) -> Plan {
    match (&seen.status.helm_chart, &seen.unnamed_chart) {
        (Some(chart), _) | (None, UnnamedChart::Exists(chart)) => {
            plan(Step::DeleteChart(chart.clone()), "the HelmRelease is deleted")
        }
        (None, UnnamedChart::Unlisted) => plan(Step::Await, "HelmCharts are not listed yet"),
        (None, UnnamedChart::None) => plan(Step::Release, reason),
    }
}

fn running(declared: &Declared, seen: &Seen) -> Plan {
    if let Some(problem) = &seen.problem {
        return plan(
            Step::Stall(Reason::InvalidCelExpression, problem.clone()),
            "the rules for its objects are invalid",
        );
    }
    if let Some(step) = about_chart_object(declared, seen) {
        return step;
    }
    let obstacle = about_inputs(declared, seen);
    if let Some(basis) = &seen.operation {
        return in_progress(declared, seen, basis, obstacle.is_some());
    }
    match obstacle {
        Some(obstacle) => obstacle,
        None => after_apply(seen, about_release(declared, seen)),
    }
}

/// An upgrade waits for the other objects of its commit.
fn after_apply(seen: &Seen, next: Plan) -> Plan {
    match &seen.applying {
        Some(applying) if next.step == Step::Begin(Action::Upgrade) && !next.forced => {
            plan(Step::Hold, format!("{applying}: {}", next.reason))
        }
        Some(_) | None => next,
    }
}

/// The HelmChart comes first: the release is made of its artifact.
fn about_chart_object(declared: &Declared, seen: &Seen) -> Option<Plan> {
    if let Source::Denied(why) = &seen.source {
        return Some(plan(Step::Stall(Reason::AccessDenied, why.clone()), why.clone()));
    }
    let own = format!("{}/{}", declared.source.namespace, declared.source.name);
    let named = seen.status.helm_chart.as_ref();
    if let Some(other) = named.filter(|named| !declared.owns_chart || **named != own) {
        return Some(plan(
            Step::DeleteChart(other.clone()),
            "the spec refers to another chart",
        ));
    }
    match seen.own_chart {
        OwnChart::Differs => Some(plan(Step::ApplyChart, "the HelmChart differs from the template")),
        OwnChart::Unlisted => Some(plan(Step::Await, "HelmCharts are not listed yet")),
        OwnChart::AsDeclared if named.is_none() => Some(plan(Step::ApplyChart, "the HelmChart is new")),
        OwnChart::None | OwnChart::AsDeclared => None,
    }
}

fn about_inputs(declared: &Declared, seen: &Seen) -> Option<Plan> {
    let wait = |obstacle: Obstacle| {
        let reason = obstacle.message.clone();
        Some(plan(Step::Wait(obstacle), reason))
    };
    let fail = |obstacle: Obstacle| {
        let reason = obstacle.message.clone();
        Some(plan(Step::Fail(obstacle), reason))
    };
    match &seen.dependencies {
        Dependencies::Ready => {}
        Dependencies::NotReady(why) => {
            return wait(Obstacle::new(Reason::DependencyNotReady, why));
        }
        Dependencies::Invalid(reason, why) => {
            return Some(plan(Step::Stall(*reason, why.clone()), why.clone()));
        }
    }
    match &seen.source {
        Source::NotLooked => return Some(plan(Step::Await, "the source is not known yet")),
        Source::Denied(_) | Source::Ready(_) => {}
        Source::Absent(why) => {
            let message = format!("could not get Source object: {why}");
            return wait(Obstacle::new(Reason::ArtifactFailed, message));
        }
        Source::NotReady(why) => return wait(Obstacle::new(Reason::SourceNotReady, why)),
        Source::Loading(None) => return Some(plan(Step::Await, "the chart is being fetched")),
        Source::Loading(Some(why)) => {
            return wait(Obstacle::new(
                Reason::ArtifactFailed,
                format!("Could not load chart: {why}"),
            ));
        }
        Source::Failed(why) => {
            let message = format!("Could not load chart: {why}");
            return fail(Obstacle::new(Reason::ArtifactFailed, message).with_event(why));
        }
        Source::Mismatch(why) => return fail(Obstacle::new(Reason::ChartMutateError, why)),
    }
    match &seen.values {
        Values::Failed(why) => return fail(Obstacle::new(Reason::ValuesError, why).with_event(why)),
        Values::NotLooked | Values::Ready(_) => {}
    }
    match &seen.access {
        Access::Failed(why, _) => return fail(Obstacle::new(Reason::RestClientError, why)),
        // an account that does not exist may do nothing: the API server says so
        Access::NotLooked | Access::Open | Access::NoAccount(_) => {}
    }
    if declared.spec.chart.is_none() && declared.spec.chart_ref.is_none() {
        let why = "either spec.chart or spec.chartRef must be set";
        return Some(plan(Step::Stall(Reason::Unsupported, why.to_owned()), why));
    }
    None
}

/// An operation goes on while its inputs are the same, also while one of them cannot be read.
fn in_progress(declared: &Declared, seen: &Seen, basis: &Basis, unknown: bool) -> Plan {
    let name = basis.action.name();
    if unknown && basis.generation == declared.generation {
        return plan(Step::Continue, format!("the {name} is in progress"));
    }
    let chart = match &seen.source {
        Source::Ready(chart) => &chart.version,
        _ => &basis.chart_version,
    };
    let config = match &seen.values {
        Values::Ready(digest) => digest,
        Values::NotLooked | Values::Failed(_) => &basis.config_digest,
    };
    let same = basis.generation == declared.generation
        && *chart == basis.chart_version
        && *config == basis.config_digest;
    // a removal ends the same way, whatever comes next
    match same || basis.action == Action::Uninstall {
        true => plan(Step::Continue, format!("the {name} is in progress")),
        false => plan(
            Step::Preempt,
            format!("the chart, the values or the spec changed during the {name}"),
        ),
    }
}

fn about_release(declared: &Declared, seen: &Seen) -> Plan {
    if let Some(why) = target_changed(declared, seen) {
        let reason = format!("release target configuration changed ({why})");
        return plan(Step::Begin(Action::Uninstall), reason);
    }
    let reset = must_reset(declared, seen);
    if let Storage::Last(last) = &seen.storage
        && let Some(interrupted) = &last.interrupted
    {
        let reason = format!("the {} was interrupted", interrupted.action.name());
        return Plan {
            // none, if the status of its begin was written
            reset,
            ..plan(Step::Resume(interrupted.clone()), reason)
        };
    }
    let mut counted = seen.clone();
    if reset.is_some() {
        counted.status.failures = None;
        counted.status.install_failures = None;
        counted.status.upgrade_failures = None;
    }
    let state = state::determine(declared, &counted);
    let mut next = next(declared, &counted, &state);
    next.reset = reset;
    next
}

/// The part of the release's identity that changed: the old release has to go first.
fn target_changed(declared: &Declared, seen: &Seen) -> Option<&'static str> {
    let storage = seen.status.storage_namespace.as_ref()?;
    let current = latest(&seen.status.history)?;
    let Source::Ready(chart) = &seen.source else {
        return None;
    };
    if declared.storage != *storage {
        Some("storage namespace")
    } else if declared.namespace != current.namespace {
        Some("release namespace")
    } else if declared.name != current.name {
        Some("release name")
    } else if chart.name != current.chart_name && declared.reinstalls() {
        Some("chart name")
    } else {
        None
    }
}

fn must_reset(declared: &Declared, seen: &Seen) -> Option<&'static str> {
    let status = &seen.status;
    let (Source::Ready(chart), Values::Ready(digest)) = (&seen.source, &seen.values) else {
        return None;
    };
    let differs = |last: &Option<String>, now: &str| last.as_ref().is_some_and(|last| last != now);
    if status.last_attempted_generation != Some(declared.generation) {
        Some("generation differs from last attempt")
    } else if status.last_attempted_revision.as_ref() != Some(&chart.version) {
        Some("chart version differs from last attempt")
    } else if differs(&status.last_attempted_config_digest, digest) {
        Some("values differ from last attempt")
    } else if is_requested(
        declared,
        declared.reset_at.as_ref(),
        status.last_handled_reset_at.as_ref(),
    ) {
        Some("reset requested through annotation")
    } else if seen.kind_defined {
        Some("a kind that was missing is defined")
    } else {
        None
    }
}

/// Whether a request by annotation is of the requested run, and new.
pub(crate) fn is_requested(declared: &Declared, asked: Option<&String>, handled: Option<&String>) -> bool {
    asked.is_some() && asked != handled && asked == declared.requested_at.as_ref()
}

fn next(declared: &Declared, seen: &Seen, state: &State) -> Plan {
    let status = &seen.status;
    let forced = is_requested(
        declared,
        declared.force_at.as_ref(),
        status.last_handled_force_at.as_ref(),
    );
    let reason = state.to_string();
    let because = |why: &str| format!("{why}: {reason}");
    let begin = |action: Action, reason: String| {
        if let Some(left) = seen
            .retry_in
            .filter(|_| !forced && action.class() == Class::Release)
        {
            return plan(Step::Rest(left), format!("waits for the next attempt: {reason}"));
        }
        let mut next = begin(declared, seen, action, reason);
        next.forced = forced;
        next
    };
    let exhausted = |what: &str| {
        let (action, count) = attempts(declared, seen);
        plan(
            Step::Exhausted(
                Reason::RetriesExceeded,
                format!("Failed to {action} after {count} attempt(s)"),
            ),
            format!("no retries are left: cannot {what}"),
        )
    };
    match state {
        State::InSync if forced => begin(Action::Upgrade, because("force requested through annotation")),
        State::InSync => plan(Step::Settle, reason),
        State::Locked(_) => begin(Action::Unlock, reason),
        State::Uninstalling => begin(Action::UninstallFailed, reason),
        State::Absent(_) => {
            let remediation = declared.remediation(ReleaseAction::Install, status);
            match remediation.is_exhausted() && !forced {
                true => exhausted("install release"),
                false => begin(Action::Install, reason),
            }
        }
        State::Unmanaged(_) => begin(Action::Upgrade, reason),
        State::OutOfSync(_) => {
            let remediation = declared.remediation(ReleaseAction::Upgrade, status);
            match remediation.is_exhausted() && !forced {
                true => exhausted("upgrade release"),
                false => begin(Action::Upgrade, reason),
            }
        }
        State::Drifted if declared.drift == DriftMode::Enabled => begin(Action::CorrectDrift, reason),
        State::Drifted => plan(Step::ReportDrift, reason),
        State::Untested => begin(Action::Test, reason),
        State::Failed(_) => {
            if declared.active_retry(status).is_some() {
                return begin(Action::Upgrade, because("retry"));
            }
            let Some(remediation) = declared.active_remediation(status) else {
                return begin(Action::Upgrade, because("no remediation is active"));
            };
            if remediation.failures <= 0 {
                return begin(
                    Action::Upgrade,
                    because("conditions have changed since last failure"),
                );
            }
            if forced {
                return begin(Action::Upgrade, because("force requested through annotation"));
            }
            if remediation.is_exhausted() && !remediation.last {
                return exhausted("remediate failed release");
            }
            match (remediation.strategy, previous(seen)) {
                (RemediationStrategy::Uninstall, _) => begin(Action::UninstallFailed, reason),
                (RemediationStrategy::Rollback, Previous::Intact(_)) => begin(Action::Rollback, reason),
                (RemediationStrategy::Rollback, Previous::None) => plan(
                    Step::Exhausted(
                        Reason::MissingRollbackTarget,
                        "Failed to perform remediation: missing target release for rollback: cannot remediate \
                         failed release"
                            .to_owned(),
                    ),
                    "there is no earlier release to roll back to",
                ),
                // an upgrade is the best remediation without a sound target
                (RemediationStrategy::Rollback, Previous::Changed(why)) => {
                    begin(Action::Upgrade, format!("unable to verify previous release: {why}"))
                }
                (RemediationStrategy::Rollback, Previous::Unread(why)) => plan(
                    Step::Fail(Obstacle::new(
                        Reason::StateError,
                        format!("cannot verify previous release to roll back to: {why}"),
                    )),
                    "the earlier release cannot be read",
                ),
            }
        }
        State::Unknown(why) => plan(
            Step::Fail(Obstacle::new(
                Reason::StateError,
                format!("Could not determine release state: {why}"),
            )),
            reason,
        ),
    }
}

fn previous(seen: &Seen) -> Previous {
    match &seen.storage {
        Storage::Last(last) => last.previous.clone(),
        Storage::NotLooked | Storage::Failed(_) | Storage::Empty => Previous::None,
    }
}

/// One attempt runs each class of actions once.
fn begin(declared: &Declared, seen: &Seen, action: Action, reason: String) -> Plan {
    if !seen.attempted.contains(&action.class()) {
        return plan(Step::Begin(action), reason);
    }
    let again = match (
        declared.active_retry(&seen.status),
        declared.active_remediation(&seen.status),
    ) {
        (Some(interval), _) => Again::After(interval),
        (None, Some(remediation)) if remediation.is_exhausted() => Again::Interval,
        (None, _) => Again::Soon,
    };
    plan(Step::TryAgain(again), reason)
}

/// The outcome of a remediation that ended.
pub(crate) fn after_remediation(declared: &Declared, seen: &equate_api::helm::HelmReleaseStatus) -> Step {
    if let Some(interval) = declared.active_retry(seen) {
        return Step::TryAgain(Again::After(interval));
    }
    match declared.active_remediation(seen) {
        Some(remediation)
            if remediation.is_exhausted()
                && !(remediation.of_upgrade && remediation.strategy == RemediationStrategy::Uninstall) =>
        {
            let action = seen
                .last_attempted_release_action
                .map_or("", ReleaseAction::as_str);
            let message = format!("Failed to {action} after {} attempt(s)", remediation.failures);
            Step::Exhausted(Reason::RetriesExceeded, message)
        }
        _ => Step::TryAgain(Again::Soon),
    }
}

fn attempts(declared: &Declared, seen: &Seen) -> (&'static str, i64) {
    let status = &seen.status;
    let action = status
        .last_attempted_release_action
        .map_or("", ReleaseAction::as_str);
    let count = declared
        .active_remediation(status)
        .map_or(0, |remediation| remediation.failures);
    (action, count)
}

/// Whether a failed test counts as a failure of the release.
pub(crate) fn test_failure_counts(declared: &Declared, seen: &equate_api::helm::HelmReleaseStatus) -> bool {
    declared
        .active_remediation(seen)
        .is_some_and(|remediation| !remediation.ignores_tests)
}

/// Whether a record is of a snapshot that a rollback may restore.
pub(crate) fn may_restore(snapshot: &Snapshot, status: &Status) -> bool {
    matches!(status, Status::Deployed | Status::Superseded) && !snapshot.name.is_empty()
}
