//! The last record of a release, compared with the status.

use std::sync::Arc;

use equate_helm::release::{Status, config_digest, digest};
use equate_helm::values::merge;

use crate::helm_release::decide::may_restore;
use crate::helm_release::decide::seen::{Basis, Last, Previous, Seen, Source, Storage, Values};
use crate::helm_release::declared::{Action, Declared};
use crate::helm_release::memory::{LastRecord, Records};
use crate::helm_release::status::{SNAPSHOT_VERSION, has_test_in, latest, previous};
use crate::helm_release::storage::{self, StorageError, Stored};
use crate::helm_release::{HelmReleases, Run, operation_owner};

pub(super) async fn look(cx: &HelmReleases, run: &mut Run<'_>, declared: &Declared, seen: &Seen) -> Storage {
    match read(cx, run, declared, seen).await {
        Ok(None) => Storage::Empty,
        Ok(Some(last)) => Storage::Last(last),
        Err(error) => Storage::Failed(error.to_string()),
    }
}

async fn read(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    seen: &Seen,
) -> Result<Option<Last>, StorageError> {
    let Some(access) = run.memory.access.clone() else {
        return Err(StorageError::Cluster(
            "the target cluster is not known".to_owned(),
        ));
    };
    let storage = storage::Storage::of(cx, declared, &access);
    let current = latest(&seen.status.history);
    let oci_digest = current
        .and_then(|current| current.oci_digest.clone())
        .unwrap_or_default();
    let rereads =
        !run.memory.this_run.has_looked && run.reasons.iter().any(|reason| super::refreshes(reason, false));
    let keeps = declared.upgrade.preserve_values;
    let of = (oci_digest.as_str(), keeps);
    let known = run.memory.records.clone().filter(|records| {
        let same = |last: &LastRecord| is_of(last, of);
        !rereads && records.last.as_ref().is_none_or(same)
    });
    let records = match known {
        Some(known) => known,
        None => {
            let known = run.memory.records.as_ref();
            let (all, records) = reread(&storage, known, of).await?;
            run.memory.this_run.listed = Some(all);
            records
        }
    };
    run.memory.this_run.has_looked = true;
    run.memory.records = Some(records.clone());
    let Some(last) = records.last else {
        return Ok(None);
    };
    let own = run.memory.values.as_ref().map(|own| Arc::clone(&own.values));
    Ok(Some(
        compared(&storage, declared, (seen, own.as_deref()), last).await,
    ))
}

/// Compares the last record with the status, and with the declared values.
pub(in crate::helm_release) async fn compared(
    storage: &storage::Storage<'_>,
    declared: &Declared,
    (seen, own): (&Seen, Option<&equate_helm::Values>),
    last: LastRecord,
) -> Last {
    let observed = latest(&seen.status.history).is_some_and(|current| {
        current.name == declared.name
            && u64::try_from(current.version) == Ok(last.version)
            && current.digest == last.digest.1
    });
    let kept = last.config.as_ref().zip(own);
    let kept_values = kept.map(|(config, own)| config_digest(&merge((**config).clone(), own.clone())));
    Last {
        version: last.version,
        observed,
        interrupted: interrupted(declared, seen, &last, kept_values.as_deref())
            .filter(|_| last.status.is_pending() || !observed),
        previous: earlier(storage, declared, seen, &last).await,
        status: last.status,
        chart_name: last.chart_name,
        chart_version: last.chart_version,
        kept_values,
    }
}

/// Whether a record was read with this OCI digest, and with its values if they are needed.
fn is_of(last: &LastRecord, (oci_digest, keeps_values): (&str, bool)) -> bool {
    last.digest.0 == oci_digest && last.config.is_some() == keeps_values
}

/// Lists the records, and reads the last one if it changed.
pub(in crate::helm_release) async fn reread(
    storage: &storage::Storage<'_>,
    known: Option<&Records>,
    of: (&str, bool),
) -> Result<(Vec<Stored>, Records), StorageError> {
    let all = storage.list().await?;
    let Some(newest) = all.last() else {
        return Ok((all, Records { last: None }));
    };
    let known = known.and_then(|known| known.last.clone()).filter(|last| {
        last.version == newest.revision.version
            && last.resource_version == newest.resource_version
            && is_of(last, of)
    });
    let last = match known {
        Some(known) => Some(known),
        None => match storage.get(newest.revision.version).await? {
            Some(record) => {
                let ((oci, keeps), version) = ((of.0.to_owned(), of.1), newest.resource_version.clone());
                let digesting = storage.work_on(move || {
                    LastRecord::of(&record.release, record.operation, &oci, &version, keeps)
                });
                Some(digesting.await?)
            }
            None => None,
        },
    };
    Ok((all, Records { last }))
}

/// The operation of this HelmRelease, with the same inputs as now, that made a record. A pending record is
/// of one that was interrupted.
fn interrupted(
    declared: &Declared,
    seen: &Seen,
    last: &LastRecord,
    kept_values: Option<&str>,
) -> Option<Basis> {
    let owner = last.operation.as_deref()?;
    let made = |action: &Action| owner == operation_owner(declared, *action);
    let action = match last.status {
        Status::PendingInstall => Action::Install,
        Status::PendingUpgrade => Action::Upgrade,
        Status::PendingRollback => Action::Rollback,
        Status::Deployed | Status::Failed => [Action::Install, Action::Upgrade, Action::Rollback]
            .into_iter()
            .find(made)?,
        _ => return None,
    };
    let (Source::Ready(chart), Values::Ready(config)) = (&seen.source, &seen.values) else {
        return None;
    };
    let same = made(&action)
        && (action == Action::Rollback
            || (last.chart_version == chart.version && last.config_digest == kept_values.unwrap_or(config)));
    same.then(|| Basis {
        action,
        generation: declared.generation,
        chart_version: chart.version.clone(),
        config_digest: config.clone(),
    })
}

/// The record that a rollback restores. It is only read after a failure.
async fn earlier(
    storage: &storage::Storage<'_>,
    declared: &Declared,
    seen: &Seen,
    last: &LastRecord,
) -> Previous {
    let current = latest(&seen.status.history);
    let failed =
        last.status == Status::Failed || current.is_some_and(|current| has_test_in(current, "Failed"));
    let remediation = declared.active_remediation(&seen.status);
    let (true, Some(remediation)) = (failed, remediation) else {
        return Previous::None;
    };
    let Some(snapshot) = previous(&seen.status.history, remediation.ignores_tests) else {
        return Previous::None;
    };
    let version = u64::try_from(snapshot.version).unwrap_or_default();
    match storage.get(version).await {
        Ok(None) => Previous::Changed("release disappeared from storage".to_owned()),
        Ok(Some(record)) => {
            let oci_digest = snapshot.oci_digest.as_deref().unwrap_or_default();
            let is = digest(&record.release, oci_digest).unwrap_or_default();
            // snapshots of older formats have digests of another kind
            let same = snapshot.api_version.as_deref() != Some(SNAPSHOT_VERSION) || is == snapshot.digest;
            match same && may_restore(snapshot, &record.release.info.status) {
                true => Previous::Intact(version),
                false => Previous::Changed("release not observed to be made for object".to_owned()),
            }
        }
        Err(error) => Previous::Unread(error.to_string()),
    }
}
