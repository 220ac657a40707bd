//! What to do, from what was seen: values in, a decision out. No client, no tree, no clock.
//!
//! A run is decided in pieces, because building and applying stand between them: [`admit`] says
//! whether anything is to be built, `equate_apply::plan` what happens to each object, [`verdict`]
//! whether it works.

use std::time::Duration;

use equate_api::kustomize::{DeletionPolicy, SourceKind};
use equate_apply::health::{Health, Status};
use equate_apply::id::ObjectId;
use tokio::time::Instant;

use super::declared::Declared;
use super::inputs::artifact::SourceSeen;
use super::reasons::{Stall, Wait};
use crate::Key;
use crate::dependencies::DependencySeen;

/// What was seen before anything is built.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// When it was seen.
    pub now: Instant,
    /// The source and its artifact.
    pub source: SourceSeen,
    /// The Kustomizations this one depends on, as they are declared.
    pub dependencies: Vec<(Key, DependencySeen)>,
    /// The way from this Kustomization back to itself through `dependsOn`, if there is one.
    pub cycle: Option<Vec<Key>>,
    /// What the policy does not let it have.
    pub denied: Option<Stall>,
    /// What in its spec cannot be read, and why.
    pub invalid: Option<Stall>,
    /// The token of the last request that was answered, as the status says.
    pub handled_at: Option<String>,
    /// What this process did last; nothing after a start.
    pub last: Option<Last>,
}

/// What this process did last for a Kustomization.
#[derive(Debug, Clone, PartialEq)]
pub struct Last {
    /// The generation of the spec that was carried out.
    pub generation: i64,
    /// The revision.
    pub revision: String,
    /// The token of the request that was taken up.
    pub token: Option<String>,
    /// Whether the present artifact holds what was built from, unchanged.
    pub inputs_hold: bool,
    /// Whether the cluster differs from what was applied and the time to correct it has come.
    pub drifted: bool,
    /// Whether an object that another Kustomization held is free now, or one that had to go is gone.
    pub freed: bool,
    /// Whether a dependency is another than it was when this was tried.
    pub hope: bool,
    /// Whether something that is not declared any more was taken by another, or may be deleted by now.
    pub releases: bool,
    /// Whether the objects that have to be healthy are.
    pub health: Verdict,
    /// How far it came.
    pub phase: Phase,
}

/// How far a Kustomization came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A stage is applied, and the next waits for it until then.
    Staged {
        /// When waiting becomes failing.
        until: Instant,
    },
    /// All is applied; what has to be healthy is waited for until then.
    Checking {
        /// When waiting becomes failing.
        until: Instant,
    },
    /// All is as it should be.
    Ready {
        /// Something has stopped being healthy, and has this long to become so again.
        until: Option<Instant>,
    },
    /// All is applied, but something is not healthy.
    Unhealthy {
        /// When it is applied again.
        retry: Instant,
    },
    /// Something failed.
    Failed {
        /// When to try again; never where only other inputs can help.
        retry: Option<Instant>,
    },
    /// Nothing was applied, for it would delete too much.
    Unconfirmed,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is being deleted and is not ours to hold: nothing.
    Gone,
    /// It is being deleted.
    Finalize(Finalize),
    /// It has no finalizer yet: set it, then decide again.
    AddFinalizer,
    /// It is suspended: nothing.
    Suspended,
    /// Nothing happens until somebody changes something.
    Stall(Stall),
    /// Something is missing, and its coming wakes us.
    Wait(Wait),
    /// Build and apply.
    Build(Cause),
    /// Go on with what was built: a stage may be ready, or its time over.
    Resume,
    /// Nothing to apply; say how healthy it is.
    Health,
    /// What would be deleted has to be confirmed: is it by now, or is it less? Then build.
    Unconfirmed,
    /// Something that is not declared any more need not be held any longer; then decide again.
    ReleaseObjects,
    /// A new revision with the same inputs: say so.
    NewRevision,
    /// Nothing to do, nothing to say.
    Settled,
}

/// Why something is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// This process has not built it yet.
    First,
    /// The spec changed.
    Spec,
    /// The artifact's content changed where it matters.
    Inputs,
    /// Somebody asked.
    Requested,
    /// The cluster differs.
    Drift,
    /// What failed is tried again.
    Retry,
}

/// What becomes of the objects of a Kustomization that is being deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finalize {
    /// They stay; only the finalizer goes.
    Release,
    /// They are deleted.
    Delete,
    /// They are deleted, and the finalizer stays until they are gone.
    DeleteAndWait,
}

/// Decides what a Kustomization needs, before anything is built.
pub fn admit(ks: &Declared, seen: &Seen) -> Decision {
    if ks.deleting {
        return deletion(ks);
    }
    if !ks.finalizer {
        return Decision::AddFinalizer;
    }
    if ks.suspend {
        return Decision::Suspended;
    }
    if let Some(unreadable) = &ks.unreadable {
        return Decision::Stall(Stall::Inventory(unreadable.to_string()));
    }
    if let Some(why) = &ks.misread {
        return Decision::Stall(Stall::Setting(why.clone()));
    }
    let decryption = ks.decryption.as_ref();
    if decryption.is_some_and(|decryption| decryption.service_account_name.is_some()) {
        return Decision::Stall(Stall::Gated {
            field: "spec.decryption.serviceAccountName",
            purpose: "decryption authentication",
            gate: "ObjectLevelWorkloadIdentity",
        });
    }
    if let Some(denied) = &seen.denied {
        return Decision::Stall(denied.clone());
    }
    if let Some(stall) = &seen.invalid {
        return Decision::Stall(stall.clone());
    }
    if let Some(way) = &seen.cycle {
        return Decision::Stall(Stall::Cycle(way.clone()));
    }
    let source =
        |missing: fn(SourceKind, Key) -> Wait| Decision::Wait(missing(ks.source_kind, ks.source.clone()));
    let revision = match &seen.source {
        SourceSeen::Denied(why) => return Decision::Stall(Stall::AccessDenied(why.clone())),
        SourceSeen::Unserved => return source(Wait::SourceUnserved),
        SourceSeen::Absent => return source(Wait::SourceAbsent),
        SourceSeen::NoArtifact => return source(Wait::NoArtifact),
        SourceSeen::NotStored => return source(Wait::NotStored),
        SourceSeen::Unlisted(why) => {
            return Decision::Wait(Wait::SourceUnlisted(ks.source.clone(), why.clone()));
        }
        SourceSeen::Fetching { revision, trouble } => {
            return Decision::Wait(Wait::Fetching {
                revision: revision.clone(),
                trouble: trouble.clone(),
            });
        }
        SourceSeen::Unfetched { revision, gone, why } => {
            return Decision::Wait(Wait::Unfetched {
                revision: revision.clone(),
                gone: *gone,
                why: why.clone(),
            });
        }
        SourceSeen::Stored { revision } => revision,
    };
    let decision = proceed(ks, seen, revision);
    if !begins(&decision) {
        return decision;
    }
    let missing = seen.dependencies.iter().find_map(|(key, seen)| match seen {
        DependencySeen::Ready => None,
        DependencySeen::Absent => Some(Wait::DependencyAbsent(key.clone())),
        DependencySeen::NotReady => Some(Wait::DependencyNotReady(key.clone())),
        DependencySeen::Behind => Some(Wait::DependencyBehind(key.clone())),
        DependencySeen::Unmet => Some(Wait::DependencyUnmet(key.clone())),
        DependencySeen::Unanswered(why) => Some(Wait::DependencyUnanswered(key.clone(), why.clone())),
    });
    missing.map_or(decision, Decision::Wait)
}

/// Whether a decision carries out something new, for which dependencies have to be ready. What is
/// applied already stays so, is corrected, and stays ready, whatever becomes of what it built on.
fn begins(decision: &Decision) -> bool {
    match decision {
        Decision::Build(Cause::Drift) => false,
        Decision::Build(_) | Decision::NewRevision => true,
        Decision::Unconfirmed
        | Decision::Resume
        | Decision::Health
        | Decision::ReleaseObjects
        | Decision::Settled => false,
        Decision::Gone
        | Decision::Finalize(_)
        | Decision::AddFinalizer
        | Decision::Suspended
        | Decision::Stall(_)
        | Decision::Wait(_) => false,
    }
}

/// What becomes of one that is being deleted.
pub(super) fn deletion(ks: &Declared) -> Decision {
    if !ks.finalizer {
        return Decision::Gone;
    }
    let finalize = match ks.deletion {
        _ if ks.suspend || (ks.inventory.is_empty() && ks.unreadable.is_none()) => Finalize::Release,
        DeletionPolicy::Orphan => Finalize::Release,
        DeletionPolicy::MirrorPrune if ks.prune => Finalize::Delete,
        DeletionPolicy::MirrorPrune => Finalize::Release,
        DeletionPolicy::Delete => Finalize::Delete,
        DeletionPolicy::WaitForTermination => Finalize::DeleteAndWait,
    };
    if let Some(unreadable) = ks.unreadable.as_ref().filter(|_| finalize != Finalize::Release) {
        return Decision::Stall(Stall::Inventory(unreadable.to_string()));
    }
    Decision::Finalize(finalize)
}

/// Nothing stands in the way; what is left to do?
fn proceed(ks: &Declared, seen: &Seen, revision: &str) -> Decision {
    let Some(last) = &seen.last else {
        return Decision::Build(Cause::First);
    };
    let asked =
        ks.requested_at.is_some() && ks.requested_at != seen.handled_at && ks.requested_at != last.token;
    let due = |at: Instant| at <= seen.now;
    if last.generation != ks.generation {
        Decision::Build(Cause::Spec)
    } else if !last.inputs_hold {
        Decision::Build(Cause::Inputs)
    } else if asked {
        Decision::Build(Cause::Requested)
    } else {
        let newer = last.revision != revision;
        match last.phase {
            // the same inputs fail the same way
            Phase::Failed { retry: None } if newer => Decision::NewRevision,
            Phase::Failed { retry: None } => Decision::Settled,
            // what the same manifests are refused for may be repaired elsewhere: by this revision, or
            // by what they build on. Each is tried once.
            Phase::Failed { retry: Some(at) } if due(at) || newer || last.freed || hopes(last, seen) => {
                Decision::Build(Cause::Retry)
            }
            Phase::Unconfirmed => Decision::Unconfirmed,
            Phase::Staged { .. } => Decision::Resume,
            _ if last.releases => Decision::ReleaseObjects,
            _ if last.drifted => Decision::Build(Cause::Drift),
            Phase::Unhealthy { retry } if due(retry) => Decision::Build(Cause::Retry),
            Phase::Unhealthy { .. } if last.health == Verdict::Healthy => Decision::Health,
            Phase::Checking { until } if due(until) || !last.health.pending() => Decision::Health,
            Phase::Ready { until } if !degrading(last, until, seen.now) => Decision::Health,
            Phase::Failed { .. } => Decision::Settled,
            _ if newer => Decision::NewRevision,
            Phase::Unhealthy { .. } | Phase::Checking { .. } | Phase::Ready { .. } => Decision::Settled,
        }
    }
}

/// Whether what failed may work now, because of what it depends on. One that is not ready is no hope.
fn hopes(last: &Last, seen: &Seen) -> bool {
    let ready = |(_, seen): &(Key, DependencySeen)| *seen == DependencySeen::Ready;
    last.hope && seen.dependencies.iter().all(ready)
}

/// Whether a ready Kustomization's health needs no word: it is well, or has time left.
fn degrading(last: &Last, until: Option<Instant>, now: Instant) -> bool {
    match (&last.health, until) {
        (Verdict::Healthy, until) => until.is_none(),
        (Verdict::Pending(_), Some(until)) => until > now,
        (Verdict::Pending(_), None) | (Verdict::Failed(_), _) => false,
    }
}

/// Whether what has to be healthy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is, or nothing has to be.
    Healthy,
    /// Not yet; the sentence says what is waited for.
    Pending(String),
    /// Something is not and will not be.
    Failed(String),
}

impl Verdict {
    /// Whether time may change it.
    pub fn pending(&self) -> bool {
        matches!(self, Verdict::Pending(_))
    }
}

/// Judges what has to be healthy. One object that has failed is enough to fail, as in Flux: what
/// has failed does not become current while one waits.
pub fn verdict<'a>(checked: impl IntoIterator<Item = (&'a ObjectId, Health)>) -> Verdict {
    let (mut failed, mut pending) = (Vec::new(), Vec::new());
    for (id, health) in checked {
        let list = match health.status {
            Status::Current => continue,
            Status::Failed => &mut failed,
            Status::InProgress | Status::Terminating | Status::NotFound | Status::Unknown => &mut pending,
        };
        let mut line = format!("{id} status: '{}'", health.status);
        if !health.message.is_empty() {
            line.push_str(": ");
            line.push_str(&health.message);
        }
        list.push(line);
    }
    if !failed.is_empty() {
        let failed = failed.join(", ");
        Verdict::Failed(format!("failed early due to stalled resources: [{failed}]"))
    } else if !pending.is_empty() {
        Verdict::Pending(format!("timeout waiting for: [{}]", pending.join(", ")))
    } else {
        Verdict::Healthy
    }
}

/// When a run that takes this long is given up.
pub fn deadline(now: Instant, timeout: Duration) -> Instant {
    now.checked_add(timeout).unwrap_or(now)
}
