//! The time at which a declared version was applied and healthy, as the Kustomization's status remembers it.
//!
//! A status remembers its last few results. It says nothing about older ones, nor about health that the
//! Kustomization does not check.

use super::wait::{self, Clusters};
use equate_api::kustomize::KustomizationStatus;
use equate_kustomize::Tree;
use equate_release::config::Config;
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) applied: Option<Timestamp>,
    pub(super) healthy: Option<Timestamp>,
}

/// Looks at the Kustomization that applied a service. `commits` have the version; the first brought it at
/// `since`.
///
/// # Errors
/// No cluster can be read, or the status has another form; the reason.
pub(super) async fn of_service(
    clusters: &Clusters<'_>,
    tree: &dyn Tree,
    config: &Config,
    (environment, service): (&str, &str),
    (since, commits): (Timestamp, &BTreeSet<&str>),
) -> Result<Applied, String> {
    let reader = clusters.reader(config, environment).await?;
    let found = wait::kustomization(&reader, tree, config, (environment, service)).await?;
    found.map_or_else(|| Ok(Applied::default()), |value| read(&value, since, commits))
}

fn read(kustomization: &Value, since: Timestamp, commits: &BTreeSet<&str>) -> Result<Applied, String> {
    // a new Kustomization has no status
    let Some(status) = kustomization.get("status") else {
        return Ok(Applied::default());
    };
    let status = KustomizationStatus::deserialize(status);
    let status = status.map_err(|error| format!("cannot read the status of the Kustomization: {error}"))?;
    let spec = kustomization.get("spec");
    let waits = spec.and_then(|spec| spec.get("wait")).and_then(Value::as_bool);
    let checks = spec
        .and_then(|spec| spec.get("healthChecks"))
        .and_then(Value::as_array);
    let checks_health = waits == Some(true) || checks.is_some_and(|checks| !checks.is_empty());
    let mut found = Applied::default();
    for record in &status.history {
        let revision = record
            .metadata
            .get("originRevision")
            .or_else(|| record.metadata.get("revision"));
        let commit = revision.and_then(|revision| revision.rsplit(':').next());
        if !commit.is_some_and(|commit| commits.contains(commit)) {
            continue;
        }
        // the same objects may have been applied before, from an older commit
        let (first, last) = (record.first_reconciled.0, record.last_reconciled.0);
        let time = if first >= since { first } else { last };
        let earliest = |known: Option<Timestamp>| Some(known.map_or(time, |known| known.min(time)));
        match record.last_reconciled_status.as_str() {
            "ReconciliationSucceeded" => {
                found.applied = earliest(found.applied);
                if checks_health {
                    found.healthy = earliest(found.healthy);
                }
            }
            "HealthCheckFailed" => found.applied = earliest(found.applied),
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{Applied, read};
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    #[test]
    fn times_come_from_results_of_commits_with_the_version() {
        let record = |commit: &str, first: &str, last: &str, status: &str| {
            json!({
                "digest": "sha256:00", "firstReconciled": first, "lastReconciled": last,
                "lastReconciledDuration": "1s", "lastReconciledStatus": status,
                "metadata": {"revision": format!("main@sha1:{commit}")}, "totalReconciliations": 1,
            })
        };
        let history = [
            record(
                "c4",
                "2026-11-25T14:00:00Z",
                "2026-11-25T15:00:00Z",
                "ReconciliationSucceeded",
            ),
            record(
                "c3",
                "2026-11-25T12:05:00Z",
                "2026-11-25T13:00:00Z",
                "ReconciliationSucceeded",
            ),
            record(
                "c2",
                "2026-11-25T12:01:00Z",
                "2026-11-25T12:02:00Z",
                "HealthCheckFailed",
            ),
            record(
                "c1",
                "2026-11-20T12:00:00Z",
                "2026-11-24T12:00:00Z",
                "ReconciliationSucceeded",
            ),
        ];
        let seen = |spec: Value| {
            let kustomization = json!({"spec": spec, "status": {"history": history}});
            let since = "2026-11-25T12:00:00Z".parse().unwrap();
            read(&kustomization, since, &BTreeSet::from(["c2", "c3"])).unwrap()
        };
        let applied = "2026-11-25T12:01:00Z".parse().ok();
        let healthy = "2026-11-25T12:05:00Z".parse().ok();
        assert_eq!(seen(json!({"wait": true})), Applied { applied, healthy });
        let unchecked = Applied {
            applied,
            healthy: None,
        };
        assert_eq!(seen(json!({})), unchecked);
    }
}
