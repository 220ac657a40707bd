//! Whether an object does what it was applied for, read from the object alone.
//!
//! The rules are kstatus's (fluxcd/cli-utils 1.2, `pkg/kstatus/status`), with
//! the Job rule of Flux's controllers (fluxcd/pkg `runtime/statusreaders`): a
//! Job is current when it has completed, not when it has started. Messages are
//! theirs too, because alerts and tests are written against them.
//!
//! Nothing here asks the cluster, waits or keeps state. A kind without a rule
//! of its own is judged by the conditions every controller may set
//! (`Reconciling`, `Stalled`, `Ready`), and is current when it has none:
//! APIService is such a kind, its `Available` condition is not read.

mod fields;
mod rules;
#[cfg(test)]
mod tests;

use equate_manifest::object::Object;
use fields::{Condition, Malformed, conditions, generation, observed_generation};
use jiff::Timestamp;
use std::fmt;

/// What kstatus calls the state of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// It is as its specification says.
    Current,
    /// Its controller is on the way, or has not begun.
    InProgress,
    /// Its controller gave up, or cannot get there.
    Failed,
    /// It is being deleted.
    Terminating,
    /// It does not exist. [`compute`] never says so: it is given an object.
    NotFound,
    /// It cannot be read: its status does not have the shape of its kind.
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

/// A status and the sentence that explains it; the sentence may be empty where a controller's
/// own condition has no message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Health {
    /// The verdict.
    pub status: Status,
    /// Why.
    pub message: String,
}

impl Health {
    /// The health of an object that is not there.
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
/// A pod that no node takes is `InProgress` here, however old it is: whether it has waited too
/// long is a matter of time, see [`compute_at`].
pub fn compute(object: &Object) -> Health {
    judge(object, None)
}

/// The health of an object at a time: a pod that no node has taken for 15 seconds is `Failed`.
/// All other verdicts are those of [`compute`].
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

/// What holds for every kind; `None` when it decides nothing.
fn generic(object: &Object) -> Result<Option<Health>, Malformed> {
    if fields::deleting(object)? {
        return Ok(Some(Health::new(
            Status::Terminating,
            "Resource scheduled for deletion",
        )));
    }
    // A kind without the field is not asked to have it; Flux's kinds start at -1.
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
        // Its observed generation is all there is to see.
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
