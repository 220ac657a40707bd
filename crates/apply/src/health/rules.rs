//! The rules of single kinds. Checks follow upstream's order, so that messages name the same cause.

use super::Health;
use super::fields::{Condition, Malformed, at, conditions, count, generation, observed_generation, text};
use equate_manifest::object::Object;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The time until an unscheduled pod counts as failed.
const SCHEDULE_WINDOW: SignedDuration = SignedDuration::from_secs(15);
/// The value of `progressDeadlineSeconds` without a deadline; then no condition reports progress.
const NO_DEADLINE: i64 = i32::MAX as i64;

/// A LoadBalancer without a cluster IP is in progress. Its external address does not count.
pub(super) fn service(object: &Object) -> Health {
    let is_balancer = text(object, &["spec", "type"], "ClusterIP") == "LoadBalancer";
    if is_balancer && text(object, &["spec", "clusterIP"], "").is_empty() {
        return Health::in_progress("ClusterIP not set. Service type: LoadBalancer");
    }
    Health::current("Service is ready")
}

pub(super) fn volume_claim(object: &Object) -> Health {
    match text(object, &["status", "phase"], "unknown") {
        "Bound" => Health::current("PVC is Bound"),
        phase => Health::in_progress(format!("PVC is not Bound. phase: {phase}")),
    }
}

pub(super) fn pod(object: &Object, now: Option<Timestamp>) -> Result<Health, Malformed> {
    let conditions = conditions(object)?;
    let has = |kind: &str, status: &str| conditions.iter().find(|c| c.kind == kind && c.status == status);
    Ok(match text(object, &["status", "phase"], "") {
        "Succeeded" => Health::current("Pod has completed successfully"),
        "Failed" => Health::current("Pod has completed, but not successfully"),
        "Running" if has("Ready", "True").is_some() => Health::current("Pod is Ready"),
        "Running" => running_unready(object),
        "Pending" => match has("PodScheduled", "False") {
            Some(condition) if condition.reason == "Unschedulable" => unschedulable(object, now),
            _ => Health::in_progress("Pod is in the Pending phase"),
        },
        "" => Health::in_progress("Pod phase not available"),
        other => return Err(Malformed::Phase(other.to_owned())),
    })
}

fn running_unready(object: &Object) -> Health {
    let statuses = at(object, &["status", "containerStatuses"]).and_then(Value::as_array);
    let crashing: Vec<&str> = statuses
        .into_iter()
        .flatten()
        .filter(|s| s.pointer("/state/waiting/reason").and_then(Value::as_str) == Some("CrashLoopBackOff"))
        .filter_map(|s| s.get("name").and_then(Value::as_str))
        .collect();
    if crashing.is_empty() {
        return Health::in_progress("Pod is running but is not Ready");
    }
    Health::failed(format!("Containers in CrashLoop state: {}", crashing.join(",")))
}

fn unschedulable(object: &Object, now: Option<Timestamp>) -> Health {
    let created: Option<Timestamp> = text(object, &["metadata", "creationTimestamp"], "").parse().ok();
    let waited_long = now.is_some_and(|now| match created {
        Some(created) => now.duration_since(created) >= SCHEDULE_WINDOW,
        None => true,
    });
    if waited_long {
        Health::failed("Pod could not be scheduled")
    } else {
        Health::in_progress("Pod has not been scheduled")
    }
}

pub(super) fn stateful_set(object: &Object) -> Health {
    if text(object, &["spec", "updateStrategy", "type"], "") == "OnDelete" {
        return Health::current("StatefulSet is using the ondelete update strategy");
    }
    let status = |key: &str| count(object, &["status", key], 0);
    let wanted = count(object, &["spec", "replicas"], 1);
    let (replicas, ready) = (status("replicas"), status("readyReplicas"));
    let (current, updated) = (status("currentReplicas"), status("updatedReplicas"));
    if wanted > replicas {
        return Health::in_progress(format!("Replicas: {replicas}/{wanted}"));
    }
    if wanted > ready {
        return Health::in_progress(format!("Ready: {ready}/{wanted}"));
    }
    if replicas > wanted {
        return Health::in_progress(format!("Pending termination: {}", replicas - wanted));
    }
    let partition = count(
        object,
        &["spec", "updateStrategy", "rollingUpdate", "partition"],
        -1,
    );
    if partition != -1 {
        let due = wanted.saturating_sub(partition);
        if updated < due {
            return Health::in_progress(format!("updated: {updated}/{due}"));
        }
        return Health::current(format!("Partition rollout complete. updated: {updated}"));
    }
    if wanted > current {
        return Health::in_progress(format!("current: {current}/{wanted}"));
    }
    let revision = |key: &str| text(object, &["status", key], "");
    if revision("currentRevision") != revision("updateRevision") {
        return Health::in_progress("Waiting for updated revision to match current");
    }
    Health::current(format!(
        "All replicas scheduled as expected. Replicas: {replicas}"
    ))
}

pub(super) fn daemon_set(object: &Object) -> Result<Health, Malformed> {
    // Its controller always sets both: without them it has not run yet.
    let kind = object.kind();
    if generation(object)?.is_none() {
        return Ok(Health::in_progress(format!(
            "{kind} metadata.generation not found"
        )));
    }
    if observed_generation(object)?.is_none() {
        return Ok(Health::in_progress(format!(
            "{kind} status.observedGeneration not found"
        )));
    }
    let status = |key: &str| count(object, &["status", key], 0);
    let wanted = count(object, &["status", "desiredNumberScheduled"], -1);
    if wanted == -1 {
        return Ok(Health::in_progress("Missing .status.desiredNumberScheduled"));
    }
    let asked = [
        ("Current", status("currentNumberScheduled")),
        ("Updated", status("updatedNumberScheduled")),
        ("Available", status("numberAvailable")),
        ("Ready", status("numberReady")),
    ];
    let short = asked.into_iter().find(|(_, have)| wanted > *have);
    Ok(match short {
        Some((what, have)) => Health::in_progress(format!("{what}: {have}/{wanted}")),
        None => Health::current(format!("All replicas scheduled as expected. Replicas: {wanted}")),
    })
}

pub(super) fn deployment(object: &Object) -> Result<Health, Malformed> {
    let mut progressed = count(object, &["spec", "progressDeadlineSeconds"], NO_DEADLINE) == NO_DEADLINE;
    let mut available = false;
    for Condition {
        kind, status, reason, ..
    } in conditions(object)?
    {
        match kind {
            "Progressing" if reason == "ProgressDeadlineExceeded" => {
                return Ok(Health::failed("Progress deadline exceeded"));
            }
            "Progressing" => progressed |= status == "True" && reason == "NewReplicaSetAvailable",
            "Available" => available |= status == "True",
            _ => {}
        }
    }
    let status = |key: &str| count(object, &["status", key], 0);
    let wanted = count(object, &["spec", "replicas"], 1);
    let (replicas, updated) = (status("replicas"), status("updatedReplicas"));
    let (ready, reachable) = (status("readyReplicas"), status("availableReplicas"));
    Ok(if wanted > replicas {
        Health::in_progress(format!("Replicas: {replicas}/{wanted}"))
    } else if wanted > updated {
        Health::in_progress(format!("Updated: {updated}/{wanted}"))
    } else if replicas > wanted {
        Health::in_progress(format!("Pending termination: {}", replicas - wanted))
    } else if updated > reachable {
        Health::in_progress(format!("Available: {reachable}/{updated}"))
    } else if wanted > ready {
        Health::in_progress(format!("Ready: {ready}/{wanted}"))
    } else if !progressed {
        Health::in_progress("ReplicaSet not Available")
    } else if !available {
        Health::in_progress("Deployment not Available")
    } else {
        Health::current(format!("Deployment is available. Replicas: {replicas}"))
    })
}

pub(super) fn replica_set(object: &Object) -> Result<Health, Malformed> {
    let failed = |c: &Condition<'_>| c.kind == "ReplicaFailure" && c.status == "True";
    if conditions(object)?.iter().any(failed) {
        return Ok(Health::in_progress("Replica Failure condition. Check Pods"));
    }
    let status = |key: &str| count(object, &["status", key], 0);
    let wanted = count(object, &["spec", "replicas"], 1);
    let asked = [
        ("Labelled", status("fullyLabeledReplicas")),
        ("Available", status("availableReplicas")),
        ("Ready", status("readyReplicas")),
    ];
    let replicas = status("replicas");
    Ok(
        if let Some((what, have)) = asked.into_iter().find(|(_, have)| wanted > *have) {
            Health::in_progress(format!("{what}: {have}/{wanted}"))
        } else if replicas > wanted {
            Health::in_progress(format!("Pending termination: {}", replicas - wanted))
        } else {
            Health::current(format!("ReplicaSet is available. Replicas: {replicas}"))
        },
    )
}

/// Flux's rule: a running Job is in progress.
pub(super) fn job(object: &Object) -> Result<Health, Malformed> {
    let parallelism = count(object, &["spec", "parallelism"], 1);
    let completions = count(object, &["spec", "completions"], parallelism);
    for condition in conditions(object)?.iter().filter(|c| c.status == "True") {
        match condition.kind {
            "Complete" => {
                let succeeded = count(object, &["status", "succeeded"], 0);
                return Ok(Health::current(format!(
                    "Job Completed. succeeded: {succeeded}/{completions}"
                )));
            }
            "Failed" => {
                let failed = count(object, &["status", "failed"], 0);
                return Ok(Health::failed(format!(
                    "Job Failed. failed: {failed}/{completions}"
                )));
            }
            _ => {}
        }
    }
    Ok(Health::in_progress("Job in progress"))
}

pub(super) fn definition(object: &Object) -> Result<Health, Malformed> {
    for Condition {
        kind,
        status,
        reason,
        message,
    } in conditions(object)?
    {
        match (kind, status) {
            ("NamesAccepted", "False") => return Ok(Health::failed(message)),
            ("Established", "False") if reason != "Installing" => return Ok(Health::failed(message)),
            ("Established", "True") => return Ok(Health::current("CRD is established")),
            _ => {}
        }
    }
    Ok(Health::in_progress("Install in progress"))
}
