//! Ends an operation: its records, the status and the events. Texts and counters are upstream's.

use std::time::Duration;

use equate_api::helm::{ReleaseAction, Snapshot};
use equate_api::meta::{ConditionStatus, ConditionType, Reason as Why};
use equate_helm::release::{Release, Status};
use jiff::Timestamp;
use tokio::time::Instant;

use super::operation::Operation;
use super::{exhausted, objects as cluster, try_again};
use crate::helm_release::HelmReleases;
use crate::helm_release::Run;
use crate::helm_release::decide::{Again, Step, after_remediation, test_failure_counts};
use crate::helm_release::declared::{Action, Class, Declared};
use crate::helm_release::memory::{LastRecord, Records};
use crate::helm_release::report::Done;
use crate::helm_release::status::{
    Draft, chart_of, clear_failures, count_attempt, count_failure, full_name, is_tested, latest, observe,
    previous, succeeded,
};
use crate::helm_release::storage::{Record, Storage, StorageError};
use crate::kit::controller::{Acted, Next, Notice};
use crate::kit::events::Severity;
use crate::kit::reconciliation::Stop;
use crate::targets::target::Access;

/// Ends an operation that changed the release, or tried to.
pub(super) async fn finish(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    mut operation: Box<Operation>,
    result: Result<(), String>,
    access: &Access,
) -> Result<Acted<Done>, Stop> {
    let result = result.map_err(|why| operation.masks.mask(why.trim()));
    let (namespace, name) = identity(run, declared, &operation);
    let storage = Storage::of(cx, declared, access).named(&namespace, &name);
    let (changed, version) = match record(declared, &storage, &mut operation, &result, access).await {
        Ok(stored) => stored,
        // the next run decides anew, from the records that are left
        Err(StorageError::Gone) => {
            tracing::warn!(release = %declared.key, "the record of an operation was deleted during it");
            run.memory.records = None;
            run.memory.this_run.has_looked = false;
            return Ok(Acted::Unreported(Next::Backoff));
        }
        Err(error) => {
            // all stages are done: the next run only stores the outcome
            tracing::warn!(release = %declared.key, %error, "cannot store the outcome of an operation");
            operation.stages.clear();
            operation.failed = result.err();
            run.memory.operation = Some(operation);
            return Ok(Acted::Unreported(Next::Backoff));
        }
    };
    run.memory.records = match version {
        Some(version) => known(&storage, declared, &operation, version).await,
        None => None,
    };
    run.memory.this_run.has_looked = false;
    run.memory.this_run.listed = None;
    run.memory.attempted.insert(operation.action().class());
    let mut draft = Draft::new(run.status(), declared.generation, Timestamp::now());
    let taken = equate_api::meta::Duration::from(round(operation.began.elapsed()));
    let release = operation.record.release.clone();
    let notice = match operation.action() {
        Action::Install | Action::Upgrade => {
            draft.status.last_attempted_release_action_duration = Some(taken);
            released(declared, &mut draft, &operation, &release, &changed, &result)
        }
        Action::Rollback => rolled_back(declared, &mut draft, &operation, &release, &changed, &result),
        Action::UninstallFailed => uninstalled_failed(&mut draft, &release, &changed, &result),
        Action::Uninstall => {
            for record in &changed {
                draft.update_snapshot(record, Some("uninstall"));
            }
            uninstalled(&mut draft, &release, &result)
        }
        Action::Test => tested(declared, &mut draft, &release, &result),
        Action::Unlock | Action::CorrectDrift => None,
    };
    // a removed release is still one that failed: Ready says why
    if operation.action() != Action::UninstallFailed {
        draft.summarize(declared);
    }
    conclude(run, declared, draft, notice, &operation, result).await
}

/// The release that an operation is about: the status may have another name than the spec.
fn identity(run: &Run<'_>, declared: &Declared, operation: &Operation) -> (String, String) {
    let status = run.status();
    match operation.action() {
        Action::Uninstall | Action::UninstallFailed => (
            status
                .storage_namespace
                .unwrap_or_else(|| declared.storage.clone()),
            operation.record.release.name.clone(),
        ),
        _ => (declared.storage.clone(), declared.name.clone()),
    }
}

/// Go prints durations to the nanosecond; nobody needs them.
fn round(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Stores the outcome. Returns the earlier revisions that changed with it, and the version of the stored object.
async fn record(
    declared: &Declared,
    storage: &Storage<'_>,
    operation: &mut Operation,
    result: &Result<(), String>,
    access: &Access,
) -> Result<(Vec<Release>, Option<String>), StorageError> {
    let action = operation.action();
    let name = operation.record.release.name.clone();
    let mut changed = Vec::new();
    match (action, result) {
        (Action::Install, Ok(())) => set(operation, Status::Deployed, "Install complete"),
        (Action::Install, Err(why)) => set(
            operation,
            Status::Failed,
            &format!("Release {name:?} failed: {why}"),
        ),
        (Action::Upgrade, Ok(())) => {
            if let Some(mut base) = operation.base.clone() {
                base.info.status = Status::Superseded;
                update(storage, &base).await?;
                changed.push(base);
            }
            set(operation, Status::Deployed, "Upgrade complete");
        }
        (Action::Upgrade, Err(why)) => set(
            operation,
            Status::Failed,
            &format!("Upgrade {name:?} failed: {why}"),
        ),
        (Action::Rollback, Ok(())) => {
            let version = operation.record.release.version;
            changed.extend(supersede(storage, operation, version).await?);
            let description = operation.record.release.info.description.clone();
            set(operation, Status::Deployed, &description);
        }
        (Action::Rollback, Err(why)) => set(
            operation,
            Status::Failed,
            &format!("Release {name:?} failed: {why}"),
        ),
        (Action::Test, _) => {}
        (Action::Uninstall | Action::UninstallFailed, Err(_)) => {
            return Ok((changed, None));
        }
        (Action::Uninstall | Action::UninstallFailed, Ok(())) => {
            set(operation, Status::Uninstalled, "Uninstallation complete");
            if declared.uninstall.keep_history {
                storage.update(&operation.record).await?;
                let version = operation.record.release.version;
                changed.extend(supersede(storage, operation, version).await?);
            } else {
                for stored in storage.list().await? {
                    storage.delete(stored.revision.version).await?;
                }
            }
            return Ok((changed, None));
        }
        (Action::Unlock | Action::CorrectDrift, _) => return Ok((changed, None)),
    }
    let version = storage.update(&operation.record).await?;
    if result.is_err() && declared.cleans_up(action) && !operation.created.is_empty() {
        let cleaned = cluster::clean_up(operation, access).await;
        if let Err(why) = cleaned {
            tracing::warn!(release = %declared.key, why, "cannot clean up after a failure");
        }
    }
    Ok((changed, version))
}

/// The record that was just stored: it need not be read.
async fn known(
    storage: &Storage<'_>,
    declared: &Declared,
    operation: &Operation,
    version: String,
) -> Option<Records> {
    let keeps = declared.upgrade.preserve_values;
    let (record, oci_digest) = (operation.record.clone(), operation.oci_digest.clone());
    let digesting = storage.work_on(move || {
        let oci_digest = oci_digest.unwrap_or_default();
        LastRecord::of(&record.release, record.operation, &oci_digest, &version, keeps)
    });
    let last = Some(digesting.await.ok()?);
    Some(Records { last })
}

fn set(operation: &mut Operation, status: Status, description: &str) {
    operation.record.release.info.status = status;
    description.clone_into(&mut operation.record.release.info.description);
}

async fn update(storage: &Storage<'_>, release: &Release) -> Result<(), StorageError> {
    let record = Record {
        release: release.clone(),
        operation: None,
    };
    storage.update(&record).await.map(drop)
}

/// Supersedes all deployed revisions but one.
async fn supersede(
    storage: &Storage<'_>,
    operation: &Operation,
    version: u64,
) -> Result<Vec<Release>, StorageError> {
    let deployed = operation
        .known
        .iter()
        .filter(|stored| stored.revision.status == Status::Deployed && stored.revision.version != version);
    let mut changed = Vec::new();
    for stored in deployed {
        if let Some(record) = storage.get(stored.revision.version).await? {
            let mut release = record.release;
            release.info.status = Status::Superseded;
            update(storage, &release).await?;
            changed.push(release);
        }
    }
    Ok(changed)
}

pub(super) fn about(severity: Severity, reason: &str, message: &str, snapshot: &Snapshot) -> Notice {
    let mut notice = Notice::new(severity, reason, message)
        .with("revision", &snapshot.chart_version)
        .with("token", &snapshot.config_digest);
    if let Some(version) = &snapshot.app_version {
        notice = notice.with("app-version", version);
    }
    if let Some(digest) = &snapshot.oci_digest {
        notice = notice.with("oci-digest", digest);
    }
    notice
}

fn words(action: Action) -> (&'static str, Why, Why, ReleaseAction) {
    match action {
        Action::Install => (
            "install",
            Why::InstallSucceeded,
            Why::InstallFailed,
            ReleaseAction::Install,
        ),
        _ => (
            "upgrade",
            Why::UpgradeSucceeded,
            Why::UpgradeFailed,
            ReleaseAction::Upgrade,
        ),
    }
}

fn released(
    declared: &Declared,
    draft: &mut Draft,
    operation: &Operation,
    release: &Release,
    changed: &[Release],
    result: &Result<(), String>,
) -> Option<Notice> {
    use ConditionType::{Released, TestSuccess};
    let (word, success, failure, of) = words(operation.action());
    for record in changed {
        draft.update_snapshot(record, None);
    }
    draft.snapshot(release, Some(word), operation.oci_digest.as_deref());
    let snapshot = observe(release, operation.oci_digest.clone(), None);
    match result {
        Ok(()) => {
            let current = latest(&draft.status.history).cloned()?;
            let message = succeeded(word, &current);
            draft.set(Released, ConditionStatus::True, success, &message);
            if declared.test.enable && !is_tested(&current) {
                let waiting = format!(
                    "Helm release {} with chart {} is awaiting tests",
                    full_name(&current),
                    chart_of(&current)
                );
                draft.set(
                    TestSuccess,
                    ConditionStatus::Unknown,
                    Why::AwaitingTests,
                    &waiting,
                );
            }
            if declared.retry(of).is_some() {
                clear_failures(&mut draft.status);
            }
            Some(about(Severity::Normal, success.as_str(), &message, &current))
        }
        Err(why) => {
            let message = format!(
                "Helm {word} failed for release {}/{} with chart {}: {why}",
                release.namespace,
                release.name,
                chart_of(&snapshot)
            );
            count_failure(&mut draft.status);
            draft.set(Released, ConditionStatus::False, failure, &message);
            count_attempt(&mut draft.status, of);
            Some(about(Severity::Warning, failure.as_str(), &message, &snapshot))
        }
    }
}

fn rolled_back(
    declared: &Declared,
    draft: &mut Draft,
    operation: &Operation,
    release: &Release,
    changed: &[Release],
    result: &Result<(), String>,
) -> Option<Notice> {
    let ignores_tests = declared
        .active_remediation(&draft.status)
        .is_some_and(|remediation| remediation.ignores_tests);
    let restored = previous(&draft.status.history, ignores_tests).cloned();
    for record in changed {
        draft.update_snapshot(record, Some("rollback"));
    }
    draft.snapshot(release, Some("rollback"), operation.oci_digest.as_deref());
    let previous = restored.unwrap_or_else(|| observe(release, operation.oci_digest.clone(), None));
    let head = format!(
        "Helm rollback to previous release {} with chart {}",
        full_name(&previous),
        chart_of(&previous)
    );
    let (severity, is, reason, message) = match result {
        Ok(()) => (
            Severity::Normal,
            ConditionStatus::True,
            Why::RollbackSucceeded,
            format!("{head} succeeded"),
        ),
        Err(why) => {
            count_failure(&mut draft.status);
            (
                Severity::Warning,
                ConditionStatus::False,
                Why::RollbackFailed,
                format!("{head} failed: {why}"),
            )
        }
    };
    draft.set(ConditionType::Remediated, is, reason, &message);
    Some(about(severity, reason.as_str(), &message, &previous))
}

fn uninstalled_failed(
    draft: &mut Draft,
    release: &Release,
    changed: &[Release],
    result: &Result<(), String>,
) -> Option<Notice> {
    for record in changed {
        draft.update_snapshot(record, Some("uninstall-remediation"));
    }
    draft.update_snapshot(release, Some("uninstall-remediation"));
    let current = latest(&draft.status.history).cloned()?;
    let head = format!(
        "Helm uninstall remediation for release {} with chart {}",
        full_name(&current),
        chart_of(&current)
    );
    let (severity, is, reason, message) = match result {
        Ok(()) => (
            Severity::Normal,
            ConditionStatus::True,
            Why::UninstallSucceeded,
            format!("{head} succeeded"),
        ),
        Err(why) => {
            count_failure(&mut draft.status);
            (
                Severity::Warning,
                ConditionStatus::False,
                Why::UninstallFailed,
                format!("{head} failed: {why}"),
            )
        }
    };
    draft.set(ConditionType::Remediated, is, reason, &message);
    Some(about(severity, reason.as_str(), &message, &current))
}

fn uninstalled(draft: &mut Draft, release: &Release, result: &Result<(), String>) -> Option<Notice> {
    draft.update_snapshot(release, Some("uninstall"));
    let current = latest(&draft.status.history).cloned()?;
    let (name, chart) = (full_name(&current), chart_of(&current));
    let (severity, reason, message) = match result {
        Ok(()) => {
            draft.status.inventory = None;
            (
                Severity::Normal,
                Why::UninstallSucceeded,
                format!("Helm uninstall succeeded for release {name} with chart {chart}"),
            )
        }
        Err(why) => {
            count_failure(&mut draft.status);
            (
                Severity::Warning,
                Why::UninstallFailed,
                format!("Helm uninstall failed for release {name} with chart {chart}: {why}"),
            )
        }
    };
    draft.set(ConditionType::Released, ConditionStatus::False, reason, &message);
    Some(about(severity, reason.as_str(), &message, &current))
}

fn tested(
    declared: &Declared,
    draft: &mut Draft,
    release: &Release,
    result: &Result<(), String>,
) -> Option<Notice> {
    draft.tested(release, declared);
    let current = latest(&draft.status.history).cloned()?;
    let (name, chart) = (full_name(&current), chart_of(&current));
    let (severity, is, reason, message) = match result {
        Ok(()) => {
            let count = current
                .test_hooks
                .as_ref()
                .map_or(0, std::collections::BTreeMap::len);
            let hooks = match count {
                0 => "no test hooks".to_owned(),
                1 => "1 test hook completed successfully".to_owned(),
                count => format!("{count} test hooks completed successfully"),
            };
            (
                Severity::Normal,
                ConditionStatus::True,
                Why::TestSucceeded,
                format!("Helm test succeeded for release {name} with chart {chart}: {hooks}"),
            )
        }
        Err(why) => {
            count_failure(&mut draft.status);
            if is_tested(&current) && test_failure_counts(declared, &draft.status) {
                let of = draft.status.last_attempted_release_action.unwrap_or_default();
                count_attempt(&mut draft.status, of);
            }
            (
                Severity::Warning,
                ConditionStatus::False,
                Why::TestFailed,
                format!("Helm test failed for release {name} with chart {chart}: {why}"),
            )
        }
    };
    draft.set(ConditionType::TestSuccess, is, reason, &message);
    Some(about(severity, reason.as_str(), &message, &current))
}

/// Writes the status, and goes on or ends the attempt.
async fn conclude(
    run: &mut Run<'_>,
    declared: &Declared,
    mut draft: Draft,
    notice: Option<Notice>,
    operation: &Operation,
    result: Result<(), String>,
) -> Result<Acted<Done>, Stop> {
    let action = operation.action();
    if action == Action::Uninstall {
        return match result {
            Ok(()) => {
                forget_release(&mut draft);
                run.memory.attempted.clear();
                write(run, draft, notice).await?;
                Ok(Acted::Again)
            }
            Err(_) => Ok(Acted::Done(Done {
                status: draft.status,
                notices: notice.into_iter().collect(),
                next: Next::Backoff,
                ended: false,
                failed: true,
            })),
        };
    }
    if action.class() == Class::Remediate {
        let notices = notice.into_iter().collect();
        return Ok(match after_remediation(declared, &draft.status) {
            Step::Exhausted(reason, message) => exhausted(run, draft, reason, &message, notices),
            Step::TryAgain(again) => try_again(run, declared, draft, again, notices),
            _ => try_again(run, declared, draft, Again::Soon, notices),
        });
    }
    write(run, draft, notice).await?;
    Ok(Acted::Again)
}

/// The old release is gone: a new one, or none, follows.
fn forget_release(draft: &mut Draft) {
    draft.status.history.clear();
    clear_failures(&mut draft.status);
    draft.status.storage_namespace = None;
}

async fn write(run: &mut Run<'_>, draft: Draft, notice: Option<Notice>) -> Result<(), Stop> {
    run.write_status(draft.status).await?;
    if let Some(notice) = notice {
        run.emit(notice);
    }
    Ok(())
}

/// An action failed before it stored a record: there is nothing to remediate.
pub(super) async fn not_begun(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    action: Action,
    why: &str,
    began: Instant,
    access: &Access,
) -> Result<Acted<Done>, Stop> {
    let masks = run
        .memory
        .values
        .as_ref()
        .map(|values| std::sync::Arc::clone(&values.masks));
    let why = match &masks {
        Some(masks) => masks.mask(why.trim()),
        None => why.trim().to_owned(),
    };
    let mut draft = Draft::new(run.status(), declared.generation, Timestamp::now());
    let chart = run.memory.chart.clone();
    let (chart_name, chart_version) = chart
        .as_ref()
        .map(|chart| (chart.name.as_str(), chart.version.as_str()))
        .unwrap_or_default();
    let config = run.memory.values.as_ref().map(|values| values.digest.clone());
    let mut notices = Vec::new();
    match action {
        Action::Install | Action::Upgrade => {
            let (word, _, failure, _) = words(action);
            let message = format!(
                "Helm {word} failed for release {}/{} with chart {chart_name}@{chart_version}: {why}",
                declared.namespace, declared.name
            );
            let taken = equate_api::meta::Duration::from(round(began.elapsed()));
            draft.status.last_attempted_release_action_duration = Some(taken);
            count_failure(&mut draft.status);
            draft.set(ConditionType::Released, ConditionStatus::False, failure, &message);
            let mut notice = Notice::new(Severity::Warning, failure.as_str(), &message)
                .with("revision", chart_version)
                .with("token", config.unwrap_or_default());
            if let Some(chart) = chart.as_ref().filter(|chart| !chart.app_version.is_empty()) {
                notice = notice.with("app-version", &chart.app_version);
            }
            notices.push(notice);
        }
        Action::Uninstall => return uninstall_not_begun(cx, run, declared, draft, &why, access).await,
        Action::UninstallFailed | Action::Rollback => {
            let (reason, head) = match action {
                Action::Rollback => (Why::RollbackFailed, "Helm rollback failed"),
                _ => (Why::UninstallFailed, "Helm uninstall remediation failed"),
            };
            let message = format!(
                "{head} for release {}/{}: {why}",
                declared.namespace, declared.name
            );
            count_failure(&mut draft.status);
            draft.set(
                ConditionType::Remediated,
                ConditionStatus::False,
                reason,
                &message,
            );
            notices.push(Notice::new(Severity::Warning, reason.as_str(), message));
        }
        Action::Test => {
            let current = latest(&draft.status.history).cloned();
            let of = current
                .as_ref()
                .map(|current| (full_name(current), chart_of(current)));
            let (name, chart) = of.unwrap_or_default();
            let message = format!("Helm test failed for release {name} with chart {chart}: {why}");
            count_failure(&mut draft.status);
            draft.set(
                ConditionType::TestSuccess,
                ConditionStatus::False,
                Why::TestFailed,
                &message,
            );
            notices.push(Notice::new(Severity::Warning, Why::TestFailed.as_str(), message));
        }
        Action::Unlock | Action::CorrectDrift => {}
    }
    draft.summarize(declared);
    if draft.is_true(ConditionType::Ready) {
        draft.not_ready(Why::ReconcileError, &why);
    }
    run.memory.attempted.clear();
    if let Some(interval) = declared.active_retry(&draft.status) {
        return Ok(try_again(run, declared, draft, Again::After(interval), notices));
    }
    Ok(Acted::Done(Done {
        status: draft.status,
        notices,
        next: Next::Backoff,
        ended: true,
        failed: true,
    }))
}

/// A release that is not there counts as uninstalled.
async fn uninstall_not_begun(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    mut draft: Draft,
    why: &str,
    access: &Access,
) -> Result<Acted<Done>, Stop> {
    let current = latest(&draft.status.history).cloned();
    let name = current.as_ref().map(full_name).unwrap_or_default();
    let gone = match why {
        "release: not found" => Some(format!(
            "Release {name} was not found, assuming it is uninstalled"
        )),
        why if why.contains("is already deleted") => {
            if !declared.uninstall.keep_history
                && let (Some(current), Some(namespace)) = (&current, draft.status.storage_namespace.clone())
            {
                let storage = Storage::of(cx, declared, access).named(&namespace, &current.name);
                if let Err(error) = purge(&storage).await {
                    tracing::warn!(release = %declared.key, %error, "cannot delete the records of a release");
                    return Ok(Acted::Unreported(Next::Backoff));
                }
            }
            Some(format!("Release {name} was already uninstalled"))
        }
        _ => None,
    };
    match gone {
        Some(message) => {
            draft.set(
                ConditionType::Released,
                ConditionStatus::False,
                Why::UninstallSucceeded,
                &message,
            );
            draft.summarize(declared);
            forget_release(&mut draft);
            draft.status.inventory = None;
            run.memory.attempted.clear();
            run.write_status(draft.status).await?;
            Ok(Acted::Again)
        }
        None => {
            let chart = current.as_ref().map(chart_of).unwrap_or_default();
            let message = format!("Helm uninstall failed for release {name} with chart {chart}: {why}");
            count_failure(&mut draft.status);
            draft.set(
                ConditionType::Released,
                ConditionStatus::False,
                Why::UninstallFailed,
                &message,
            );
            draft.summarize(declared);
            let notice = Notice::new(Severity::Warning, Why::UninstallFailed.as_str(), message);
            Ok(Acted::Done(Done {
                status: draft.status,
                notices: vec![notice],
                next: Next::Backoff,
                ended: false,
                failed: true,
            }))
        }
    }
}

async fn purge(storage: &Storage<'_>) -> Result<(), StorageError> {
    for stored in storage.list().await? {
        storage.delete(stored.revision.version).await?;
    }
    Ok(())
}

/// Marks a pending record as failed: nothing works on it any more.
pub(super) async fn unlock(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    mut draft: Draft,
    access: &Access,
) -> Result<Acted<Done>, Stop> {
    draft.running(declared, Action::Unlock);
    run.write_status(draft.status).await?;
    let storage = Storage::of(cx, declared, access);
    let mut draft = Draft::new(run.status(), declared.generation, Timestamp::now());
    let unlocked = last_pending(&storage).await;
    let (mut record, status) = match unlocked {
        Ok(Some(found)) => found,
        Ok(None) => {
            run.memory.records = None;
            run.memory.this_run.has_looked = false;
            return Ok(Acted::Again);
        }
        Err(error) => return Ok(state_error(draft, &error)),
    };
    record.release.info.status = Status::Failed;
    record.release.info.description = format!("Release unlocked from stale '{status}' state");
    record.operation = None;
    let current = observe(&record.release, None, None);
    let head = format!("{} with chart {}", full_name(&current), chart_of(&current));
    run.memory.records = None;
    run.memory.this_run.has_looked = false;
    match storage.update(&record).await {
        Ok(_) => {
            draft.update_snapshot(&record.release, None);
            let message = format!("Unlocked Helm release {head} in {status} state");
            draft.set(
                ConditionType::Released,
                ConditionStatus::False,
                Why::PendingRelease,
                &message,
            );
            draft.summarize(declared);
            run.memory.attempted.insert(Class::Unlock);
            let notice = about(Severity::Normal, Why::PendingRelease.as_str(), &message, &current);
            write(run, draft, Some(notice)).await?;
            Ok(Acted::Again)
        }
        Err(error) => {
            let message = format!("Unlock of Helm release {head} in {status} state failed: {error}");
            count_failure(&mut draft.status);
            draft.set(
                ConditionType::Released,
                ConditionStatus::False,
                Why::PendingRelease,
                &message,
            );
            draft.summarize(declared);
            Ok(Acted::Done(Done {
                status: draft.status,
                notices: vec![about(
                    Severity::Warning,
                    Why::PendingRelease.as_str(),
                    &message,
                    &current,
                )],
                next: Next::Backoff,
                ended: true,
                failed: true,
            }))
        }
    }
}

async fn last_pending(storage: &Storage<'_>) -> Result<Option<(Record, Status)>, StorageError> {
    let known = storage.list().await?;
    let Some(last) = known.last() else { return Ok(None) };
    let Some(record) = storage.get(last.revision.version).await? else {
        return Ok(None);
    };
    let status = record.release.info.status.clone();
    Ok(status.is_pending().then_some((record, status)))
}

fn state_error(mut draft: Draft, error: &StorageError) -> Acted<Done> {
    let message = format!("Could not determine release state: {error}");
    draft.not_ready(Why::StateError, &message);
    Acted::Done(Done {
        status: draft.status,
        notices: Vec::new(),
        next: Next::Backoff,
        ended: true,
        failed: true,
    })
}
