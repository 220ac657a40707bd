//! Health of an object, computed from the object alone.
//!
//! The rules are kstatus's (fluxcd/cli-utils 1.2, `pkg/kstatus/status`), with the Job rule of Flux's
//! controllers (fluxcd/pkg `runtime/statusreaders`): a Job is current when it has completed, not when it
//! has started. Messages are theirs too: alerts and tests match on them.
//!
//! This module sends no request, does not wait and keeps no state. A kind without its own rule is judged
//! by its `Reconciling`, `Stalled` and `Ready` conditions, and is current without them. APIService is
//! such a kind: its `Available` condition is not read.

mod fields;
mod rules;
#[cfg(test)]
mod tests;

use equate_manifest::object::Object;
use fields::{Condition, Malformed, conditions, generation, observed_generation};
use jiff::Timestamp;
use std::fmt;

/// The status of an object, in kstatus's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// The object matches its spec.
    Current,
    /// Its controller is working, or has not started.
    InProgress,
    /// Its controller has failed.
    Failed,
    /// It is being deleted.
    Terminating,
    /// It does not exist. [`compute`] never returns it.
    NotFound,
    /// Its status does not have the shape of its kind.
    Unknown,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Current => "Current",
            Self::InProgress => "InProgress",
            Self::Failed => "Failed",
            Self::Terminating => "Terminating",
            Self::NotFound => "NotFound",
            Self::Unknown => "Unknown",
        })
    }
}

/// A status and its message; empty if a controller's own condition has no message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Health {
    /// The status.
    pub status: Status,
    /// The message.
    pub message: String,
}

impl Health {
    /// The health of a missing object.
    pub fn not_found() -> Self {
        Self::new(Status::NotFound, "Resource not found")
    }

    fn new(status: Status, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    fn current(message: impl Into<String>) -> Self {
        Self::new(Status::Current, message)
    }

    fn in_progress(message: impl Into<String>) -> Self {
        Self::new(Status::InProgress, message)
    }

    fn failed(message: impl Into<String>) -> Self {
        Self::new(Status::Failed, message)
    }
}

/// The health of an object.
///
/// An unschedulable pod is `InProgress` at any age; [`compute_at`] takes the time into account.
pub fn compute(object: &Object) -> Health {
    judge(object, None)
}

/// The health of an object at a time: a pod that was unschedulable for 15 seconds is `Failed`. All other
/// results are those of [`compute`].
pub fn compute_at(object: &Object, now: Timestamp) -> Health {
    judge(object, Some(now))
}

fn judge(object: &Object, now: Option<Timestamp>) -> Health {
    generic(object)
        .and_then(|decided| match decided {
            Some(health) => Ok(health),
            None => by_kind(object, now),
        })
        .unwrap_or_else(|malformed| Health::new(Status::Unknown, malformed.to_string()))
}

/// The rules for every kind; `None` if they do not decide.
fn generic(object: &Object) -> Result<Option<Health>, Malformed> {
    if fields::deleting(object)? {
        return Ok(Some(Health::new(
            Status::Terminating,
            "Resource scheduled for deletion",
        )));
    }
    // Kinds without the field are exempt; Flux's kinds start at -1.
    if let (Some(generation), Some(observed)) = (generation(object)?, observed_generation(object)?)
        && generation != observed
    {
        let kind = object.kind();
        return Ok(Some(Health::in_progress(format!(
            "{kind} generation is {generation}, but latest observed generation is {observed}"
        ))));
    }
    let decided = conditions(object)?
        .into_iter()
        .find_map(|condition| match condition.kind {
            "Reconciling" if condition.status == "True" => Some(Health::in_progress(condition.message)),
            "Stalled" if condition.status == "True" => Some(Health::failed(condition.message)),
            _ => None,
        });
    Ok(decided)
}

fn by_kind(object: &Object, now: Option<Timestamp>) -> Result<Health, Malformed> {
    let api_version = object.api_version();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    match (group, object.kind()) {
        ("", "ConfigMap" | "Secret") | ("batch", "CronJob") => {
            Ok(Health::current("Resource is always ready"))
        }
        ("", "Service") => Ok(rules::service(object)),
        ("", "Pod") => rules::pod(object, now),
        ("", "PersistentVolumeClaim") => Ok(rules::volume_claim(object)),
        ("apps", "StatefulSet") => Ok(rules::stateful_set(object)),
        ("apps" | "extensions", "DaemonSet") => rules::daemon_set(object),
        ("apps" | "extensions", "Deployment") => rules::deployment(object),
        ("apps" | "extensions", "ReplicaSet") => rules::replica_set(object),
        // Only its observed generation counts.
        ("policy", "PodDisruptionBudget") => Ok(Health::current("AllowedDisruptions has been computed.")),
        ("batch", "Job") => rules::job(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => rules::definition(object),
        _ => ready_condition(object),
    }
}

/// Kinds without a rule: their `Ready` condition, and current without one.
fn ready_condition(object: &Object) -> Result<Health, Malformed> {
    let health = conditions(object)?.into_iter().find_map(|condition| {
        let Condition {
            kind: "Ready",
            status,
            message,
            ..
        } = condition
        else {
            return None;
        };
        match status {
            "True" => Some(Health::current("Resource is Ready")),
            "False" | "Unknown" => Some(Health::in_progress(message)),
            _ => None,
        }
    });
    Ok(health.unwrap_or_else(|| Health::current("Resource is current")))
}
