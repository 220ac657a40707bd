//! Decides from observations: pure, no client, no clock.

use std::collections::BTreeMap;

use equate_api::extensions::ArtifactGeneratorStatus;
use equate_api::meta::{ConditionType, condition, is_true};

use super::declared::Declared;
use crate::kit::controller::Failure;
use crate::sources::SourceArtifact;

#[derive(Debug)]
pub(crate) enum Seen {
    /// The object alone decides, with its status.
    Unobserved {
        status: ArtifactGeneratorStatus,
        refused: Option<Failure>,
    },
    Observed(Box<Observed>),
}

#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) status: ArtifactGeneratorStatus,
    /// The artifacts of the sources, by alias.
    pub(crate) sources: Result<BTreeMap<String, SourceArtifact>, Failure>,
    /// A digest of them.
    pub(crate) digest: String,
    /// The ExternalArtifacts by name, with their digests if the store has them.
    pub(crate) live: Result<BTreeMap<String, Option<String>>, Failure>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Remove the ExternalArtifacts and their archives, then the finalizer.
    Delete,
    /// It is disabled, and says so.
    Nothing,
    /// It is disabled from the beginning.
    Disable,
    Fail(Failure),
    /// All artifacts are up to date.
    Keep,
    Build(Why),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The last run did not succeed, or had another spec.
    Spec,
    Sources,
    /// An ExternalArtifact or its archive is missing, or was changed.
    Artifacts,
}

/// Decides from the object, then from the sources, the cluster and the store.
pub(crate) fn decide(declared: &Declared, seen: &Seen) -> Plan {
    if declared.deleting {
        return Plan::Delete;
    }
    match seen {
        Seen::Unobserved { status, .. } if declared.disabled => {
            match condition(&status.conditions, ConditionType::Ready) {
                Some(_) => Plan::Nothing,
                None => Plan::Disable,
            }
        }
        Seen::Unobserved { refused, .. } => refused.clone().map_or(Plan::Nothing, Plan::Fail),
        Seen::Observed(observed) => compare(declared, observed),
    }
}

fn compare(declared: &Declared, seen: &Observed) -> Plan {
    let status = &seen.status;
    if let Err(failure) = &seen.sources {
        return Plan::Fail(failure.clone());
    }
    let live = match &seen.live {
        Ok(live) => live,
        Err(failure) => return Plan::Fail(failure.clone()),
    };
    let ready = condition(&status.conditions, ConditionType::Ready);
    let generation = ready.and_then(|ready| ready.observed_generation);
    if !is_true(&status.conditions, ConditionType::Ready) || generation != Some(declared.generation) {
        return Plan::Build(Why::Spec);
    }
    if status.observed_sources_digest.as_ref() != Some(&seen.digest) {
        return Plan::Build(Why::Sources);
    }
    let mut inventory = status.inventory.iter();
    let is_whole = live.len() == status.inventory.len()
        && inventory.all(|made| {
            live.get(&made.name)
                .is_some_and(|digest| digest.as_ref() == Some(&made.digest))
        });
    match is_whole {
        true => Plan::Keep,
        false => Plan::Build(Why::Artifacts),
    }
}
