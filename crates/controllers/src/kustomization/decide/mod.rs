//! Decides from observations: values in, a plan out. No client, no tree, no clock.
//!
//! [`decide`] serves runs, deletions, pruning and previews. Where it lacks a build or an answer about
//! access, it returns a step that fetches just that; then it is asked again.
//!
//! | file | decides |
//! |---|---|
//! | `seen` | nothing: the others' input |
//! | `objects` | the action for each object, by `equate_apply` |
//! | `apply` | how far a build is applied, and how that ends |
//! | `deletion` | what happens to the objects of a deleted Kustomization |
//! | `health` | whether the applied objects are healthy |

mod apply;
pub(crate) mod deletion;
pub(crate) mod health;
pub(crate) mod objects;
pub(crate) mod seen;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use equate_api::kustomize::SourceKind;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::plan;
use tokio::time::Instant;

use self::health::Conclusion;
use self::seen::{Ahead, Exchange, Phase, Questions, Seen};
use super::declared::Declared;
use super::inputs::artifact::SourceSeen;
use super::reasons::{Failure, Stall, Wait};
use crate::Key;
use crate::dependencies::DependencySeen;
use crate::ownership::desired::DesiredSet;
use crate::ownership::survey::PATIENCE;
use crate::sources::artifacts::GONE_PAUSE;

/// A state that is usually over sooner is not worth two statuses.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
const NO_ACCESS: &str = "has a kubeConfig that cannot be used";
const NOT_STORED: &str = "has a source whose artifact is not stored";

/// The decision, with no choice left.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// For the other Kustomizations, before the step.
    pub(crate) announce: Announcement,
    pub(crate) step: Step,
}

/// This Kustomization's desired state for the others, so that objects that moved to it are
/// not deleted elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Announcement {
    /// Nothing now: the step announces itself, or there is nothing new.
    None,
    /// They need not wait for an announcement of this one.
    NotExpected,
    /// It could not be built from this artifact, because the API server did not answer.
    Unreached(String),
    Wants {
        /// The digest of the artifact that it comes from.
        artifact: String,
        wants: DesiredSet,
        applied: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Nothing; the status may say why.
    Idle(Idle),
    /// Build a revision in order to apply it.
    Build(Cause),
    /// Build it so that the others know its desired state; keep the build if it will be applied.
    BuildAhead {
        keep: bool,
    },
    Restart,
    /// Ask the API server who may write which objects.
    Survey(Questions),
    /// Exchange objects with other shards, through inventories alone.
    HandOver(Exchange),
    Apply(Application),
    /// Apply nothing until the deletions of the plan are confirmed.
    Confirm {
        plan: plan::Plan,
        stall: Stall,
    },
    /// All stages are applied: prune, and report the result.
    Finish(Finish),
    /// All stages are applied except objects of other owners: report them, delete nothing. The value is the
    /// inventory then.
    OwnershipConflict(Inventory),
    Conclude(Conclusion),
    Fail(Failure),
    /// Delete objects that were kept after they were no longer declared, or forget those that were taken.
    Release(plan::Plan),
    /// Check whether the objects of a deleted Kustomization can be deleted.
    PrepareDeletion {
        account: bool,
        waits: bool,
    },
    Delete {
        plan: plan::Plan,
        then: AfterDeletion,
    },
    /// Remove the finalizer: nothing is left to do.
    Removal(Removal),
}

impl Step {
    /// The plan for objects, whether it is carried out now or waits for confirmation or knowledge.
    pub(crate) fn objects(&self) -> Option<&plan::Plan> {
        match self {
            Self::Apply(Application { plan, .. })
            | Self::Confirm { plan, .. }
            | Self::Delete { plan, .. }
            | Self::Idle(Idle::DeletionHeld { plan, .. }) => Some(plan),
            Self::Idle(_)
            | Self::Build(_)
            | Self::BuildAhead { .. }
            | Self::Restart
            | Self::Survey(_)
            | Self::HandOver(_)
            | Self::Finish(_)
            | Self::OwnershipConflict(_)
            | Self::Conclude(_)
            | Self::Fail(_)
            | Self::Release(_)
            | Self::PrepareDeletion { .. }
            | Self::Removal(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Idle {
    Suspended,
    Stalled(Stall),
    /// Something is missing. Its arrival wakes the Kustomization; else it checks again after this time.
    Waiting {
        wait: Wait,
        again: Duration,
    },
    /// The same, usually over so soon that no status is written.
    WaitingWithoutStatus {
        again: Duration,
    },
    /// Others have to be built first, or an object has to disappear.
    Awaiting(Awaiting),
    KindsUnlisted,
    Unconfirmed,
    /// Its target cluster cannot be reached, and there is nothing to build for it.
    NoAccess,
    /// Objects with more work to do go first.
    Deferred,
    /// A new revision with the same inputs: only the status changes.
    NewRevision,
    Settled,
    DeletionUnreached(Failure),
    /// Being deleted, and others may want its objects.
    DeletionHeld {
        plan: plan::Plan,
        why: String,
    },
    DeletionUnlisted,
    /// Being deleted, and its objects have until then to disappear.
    Terminating {
        until: Instant,
        blind: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Awaiting {
    pub(crate) message: String,
    pub(crate) until: Instant,
    /// No status before then: mostly the wait is over.
    pub(crate) no_status_before: Option<Instant>,
    /// The objects that are held meanwhile without being declared, where they changed.
    pub(crate) lingering: Option<Inventory>,
}

impl Awaiting {
    /// A wait until then, with a status if it is not over soon.
    pub(crate) fn new((until, message): (Instant, String), since: Option<Instant>, now: Instant) -> Self {
        let report_at = since.unwrap_or(now) + PATIENCE;
        Self {
            message,
            until,
            no_status_before: (now < report_at).then_some(report_at),
            lingering: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    First,
    Spec,
    /// The artifact changed in a place that the build reads.
    Inputs,
    Requested,
    /// Its deletions were confirmed, or became fewer.
    Confirmed,
    Drift,
    Retry,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Application {
    pub(crate) plan: plan::Plan,
    /// The inventory to write before anything is applied, where it is not written already.
    pub(crate) write_ahead: Option<Inventory>,
    /// A stage that is not healthy by then fails.
    pub(crate) until: Instant,
    /// API groups that the cluster does not serve: a stage may define them, then the rest is planned anew.
    pub(crate) unserved: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finish {
    pub(crate) prune: Vec<plan::Step>,
    pub(crate) inventory: Inventory,
    /// The part of it that is no longer declared.
    pub(crate) lingering: Inventory,
    pub(crate) conclusion: Conclusion,
}

/// The step after the deletion of a Kustomization's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AfterDeletion {
    Removal,
    Check,
    /// Keep these: others need them.
    Hold(Inventory),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Removal {
    Orphaned,
    /// No account may delete its objects: they stay.
    Abandoned(Vec<ObjectId>),
    /// Its objects are deleted, as far as possible.
    Deleted(Arc<plan::Plan>),
    /// The same, but these took too long to disappear.
    Overdue(Vec<ObjectId>, Arc<plan::Plan>),
}

pub(crate) fn decide(ks: &Declared, seen: &Seen, now: Instant) -> Plan {
    let step = intend(ks, seen, now);
    let announce = match announcement(ks, seen, &step) {
        Ok(announce) => announce,
        Err(Unbuilt { keep }) => {
            return Plan {
                announce: Announcement::None,
                step: Step::BuildAhead { keep },
            };
        }
    };
    let step = match hands_over(&step) && !seen.exchange.is_empty() {
        false => step,
        // the exchange with other shards comes first: the rest is decided with the inventory after it
        true if seen.exchange.questions.is_empty() => Step::HandOver(seen.exchange.clone()),
        true => Step::Survey(seen.exchange.questions.clone()),
    };
    Plan { announce, step }
}

/// The step if there were no other Kustomizations.
fn intend(ks: &Declared, seen: &Seen, now: Instant) -> Step {
    if ks.deleting {
        return deletion::decide(ks, seen, now);
    }
    if ks.suspend {
        return Step::Idle(Idle::Suspended);
    }
    let revision = match readable(ks, seen) {
        Ok(revision) => revision,
        Err(Obstacle::Stall(stall)) => return Step::Idle(Idle::Stalled(stall)),
        Err(Obstacle::Wait(wait)) => return Step::Idle(waiting(ks, seen, wait)),
    };
    let step = proceed(ks, seen, revision, now);
    if begins(&step)
        && let Some(wait) = missing_dependency(seen)
    {
        return Step::Idle(waiting(ks, seen, wait));
    }
    match step {
        Step::Idle(Idle::NewRevision) if seen.no_access.is_some() => Step::Idle(Idle::NoAccess),
        // of a thousand that read a revision, few have to do more than report it
        Step::Idle(Idle::NewRevision) if seen.deferrable => Step::Idle(Idle::Deferred),
        // the build is still here: only applying failed
        Step::Build(Cause::Retry) if seen.no_access.is_none() && is_built(seen) => Step::Restart,
        step => step,
    }
}

fn is_built(seen: &Seen) -> bool {
    seen.last.as_ref().is_some_and(|last| last.built)
}

enum Obstacle {
    Stall(Stall),
    Wait(Wait),
}

/// The revision to build, or the obstacle.
fn readable<'s>(ks: &Declared, seen: &'s Seen) -> Result<&'s str, Obstacle> {
    let stall = |stall| Err(Obstacle::Stall(stall));
    if let Some(unreadable) = &ks.unreadable {
        return stall(Stall::Inventory(unreadable.to_string()));
    }
    if let Some(why) = &ks.misread {
        return stall(Stall::Setting(why.clone()));
    }
    let prerequisites = &seen.prerequisites;
    let decryption = ks.decryption.as_ref();
    let has_account = decryption.is_some_and(|decryption| decryption.service_account_name.is_some());
    if has_account && !prerequisites.identity_gate {
        return stall(Stall::Gated {
            field: "spec.decryption.serviceAccountName",
            purpose: "decryption authentication",
            gate: "ObjectLevelWorkloadIdentity",
        });
    }
    if let Some(other) = prerequisites.denied.as_ref().or(prerequisites.invalid.as_ref()) {
        return stall(other.clone());
    }
    if let Some(way) = &prerequisites.cycle {
        return stall(Stall::Cycle(way.clone()));
    }
    let source = |missing: fn(SourceKind, Key) -> Wait| {
        Err(Obstacle::Wait(missing(ks.source_kind, ks.source.clone())))
    };
    match &prerequisites.source {
        SourceSeen::Denied(why) => stall(Stall::AccessDenied(why.clone())),
        SourceSeen::Unserved => source(Wait::SourceUnserved),
        SourceSeen::Absent => source(Wait::SourceAbsent),
        SourceSeen::NoArtifact { served: true } => source(Wait::NoArtifact),
        SourceSeen::NoArtifact { served: false } => source(Wait::NoArtifactElsewhere),
        SourceSeen::NotStored => source(Wait::NotStored),
        SourceSeen::Unlisted(why) => Err(Obstacle::Wait(Wait::SourceUnlisted(
            ks.source.clone(),
            why.clone(),
        ))),
        SourceSeen::Fetching { revision, trouble } => Err(Obstacle::Wait(Wait::Fetching {
            revision: revision.clone(),
            trouble: trouble.clone(),
        })),
        SourceSeen::Unfetched { revision, gone, why } => Err(Obstacle::Wait(Wait::Unfetched {
            revision: revision.clone(),
            gone: *gone,
            why: why.clone(),
        })),
        SourceSeen::Stored { revision } => Ok(revision),
    }
}

/// Reports what is missing, unless all was well and the wait is usually short.
fn waiting(ks: &Declared, seen: &Seen, wait: Wait) -> Idle {
    let grace = match &wait {
        // another process wrote its status: the artifact is about to be fetched for the first time, and
        // nothing became worse
        Wait::NotStored(..) if !seen.prerequisites.looked => ks.timeout,
        _ => GRACE,
    };
    let report_at = seen.since.missing.unwrap_or(seen.began) + grace;
    let without_status = wait.passing() && (seen.ready || matches!(wait, Wait::Fetching { .. }));
    let recheck_after = wait.recheck_after(seen.dependency_retry);
    if without_status && seen.began < report_at {
        return Idle::WaitingWithoutStatus {
            again: (report_at - seen.began).min(recheck_after.max(GRACE)),
        };
    }
    let again = match &wait {
        Wait::Unfetched { gone: false, .. } => ks.retry_interval,
        Wait::Unfetched { gone: true, .. } => ks.retry_interval.min(GONE_PAUSE),
        _ => recheck_after,
    };
    Idle::Waiting { wait, again }
}

fn missing_dependency(seen: &Seen) -> Option<Wait> {
    let mut dependencies = seen.prerequisites.dependencies.iter();
    dependencies.find_map(|(key, seen)| match seen {
        DependencySeen::Ready => None,
        DependencySeen::Absent => Some(Wait::DependencyAbsent(key.clone())),
        DependencySeen::NotReady => Some(Wait::DependencyNotReady(key.clone())),
        DependencySeen::Behind => Some(Wait::DependencyBehind(key.clone())),
        DependencySeen::Unmet => Some(Wait::DependencyUnmet(key.clone())),
        DependencySeen::Unanswered(why) => Some(Wait::DependencyUnanswered(key.clone(), why.clone())),
    })
}

/// Whether a step applies something new, for which dependencies must be ready. Applied objects stay
/// applied, corrected and ready, whatever happens to the dependencies.
fn begins(step: &Step) -> bool {
    match step {
        Step::Build(Cause::Drift | Cause::Confirmed) => false,
        Step::Build(_) | Step::Idle(Idle::NewRevision) => true,
        _ => false,
    }
}

/// The remaining work, when there is no obstacle.
fn proceed(ks: &Declared, seen: &Seen, revision: &str, now: Instant) -> Step {
    let Some(last) = &seen.last else {
        return Step::Build(Cause::First);
    };
    let asked = seen.request.is_some() && seen.request != last.token;
    if last.generation != ks.generation {
        return Step::Build(Cause::Spec);
    }
    if !last.inputs_hold {
        return Step::Build(Cause::Inputs);
    }
    if asked {
        return Step::Build(Cause::Requested);
    }
    let due = |at: Instant| at <= now;
    let newer = last.revision != revision;
    let settled = || match newer {
        true => Step::Idle(Idle::NewRevision),
        false => Step::Idle(Idle::Settled),
    };
    match last.phase {
        // the same inputs fail the same way
        Phase::Failed { retry: None } => settled(),
        // this revision, or a dependency, may repair the cause elsewhere: each is tried once
        Phase::Failed { retry: Some(at) } if due(at) || newer || last.freed || may_succeed_now(seen) => {
            Step::Build(Cause::Retry)
        }
        Phase::Unconfirmed => apply::unconfirmed(ks, seen, last, now),
        Phase::Staged { until } => apply::staged(ks, seen, last, until, now),
        Phase::Failed { .. } | Phase::Unhealthy { .. } | Phase::Checking { .. } | Phase::Ready { .. } => {
            if let Some(release) = apply::release(seen, last) {
                return release;
            }
            match last.phase {
                _ if last.drifted => Step::Build(Cause::Drift),
                Phase::Unhealthy { retry } if due(retry) => Step::Build(Cause::Retry),
                Phase::Failed { .. } => Step::Idle(Idle::Settled),
                _ if health::is_news(last, now) => conclude(ks, seen, now),
                _ => settled(),
            }
        }
    }
}

/// Reports health, where its cluster can be reached.
fn conclude(ks: &Declared, seen: &Seen, now: Instant) -> Step {
    match (&seen.no_access, &seen.last) {
        (None, Some(last)) => Step::Conclude(health::conclude(ks, last, last.phase, now)),
        (Some(_), _) | (None, None) => Step::Idle(Idle::NoAccess),
    }
}

/// Whether a change of a dependency may help a failed build. A dependency that is not ready does not.
fn may_succeed_now(seen: &Seen) -> bool {
    let ready = |(_, seen): &(Key, DependencySeen)| *seen == DependencySeen::Ready;
    let changed = seen.last.as_ref().is_some_and(|last| last.hope);
    changed && seen.prerequisites.dependencies.iter().all(ready)
}

/// Whether objects are handed over before a step: not where a build comes first.
fn hands_over(step: &Step) -> bool {
    match step {
        Step::Idle(idle) => match idle {
            Idle::Waiting { .. }
            | Idle::WaitingWithoutStatus { .. }
            | Idle::Awaiting(_)
            | Idle::KindsUnlisted
            | Idle::Unconfirmed
            | Idle::NoAccess
            | Idle::Deferred
            | Idle::NewRevision
            | Idle::Settled => true,
            Idle::Suspended
            | Idle::Stalled(_)
            | Idle::DeletionUnreached(_)
            | Idle::DeletionHeld { .. }
            | Idle::DeletionUnlisted
            | Idle::Terminating { .. } => false,
        },
        Step::Survey(_)
        | Step::Apply(_)
        | Step::Confirm { .. }
        | Step::Conclude(_)
        | Step::Fail(_)
        | Step::Release(_) => true,
        // nothing is given away half-way
        Step::Finish(_) | Step::OwnershipConflict(_) => false,
        Step::Build(cause) => *cause == Cause::Confirmed,
        Step::BuildAhead { .. }
        | Step::Restart
        | Step::HandOver(_)
        | Step::PrepareDeletion { .. }
        | Step::Delete { .. }
        | Step::Removal(_) => false,
    }
}

/// Its desired state is unknown before it is built; the build is kept if it will be applied.
struct Unbuilt {
    keep: bool,
}

fn announcement(ks: &Declared, seen: &Seen, step: &Step) -> Result<Announcement, Unbuilt> {
    if announces_itself(ks, step) {
        return Ok(Announcement::None);
    }
    let wants = |artifact: &String, wants, applied| Announcement::Wants {
        artifact: artifact.clone(),
        wants,
        applied,
    };
    let prerequisites = &seen.prerequisites;
    let published = prerequisites.published.as_ref();
    if let Step::Idle(Idle::Stalled(Stall::CrossNamespace(..))) = step {
        // it reads nothing that it may not read, so it wants nothing
        let nothing = published.map(|artifact| wants(artifact, DesiredSet::nothing(), true));
        return Ok(nothing.unwrap_or(Announcement::None));
    }
    let artifact = match (&prerequisites.source, published) {
        (SourceSeen::Stored { .. }, Some(artifact)) => artifact,
        (SourceSeen::NotStored | SourceSeen::Unfetched { .. }, Some(artifact)) => {
            return Ok(wants(artifact, DesiredSet::Unknown(NOT_STORED), false));
        }
        // it is built as soon as the artifact is here: those who wait for it continue to wait
        (SourceSeen::Fetching { .. }, Some(_)) => return Ok(Announcement::None),
        _ => return Ok(Announcement::NotExpected),
    };
    if seen.no_access.is_some() {
        return Ok(wants(artifact, DesiredSet::Unknown(NO_ACCESS), false));
    }
    let known = match seen.current(ks) {
        Some(last) => last.wants.as_ref().map(|wants| (wants, last.applied)),
        None => match &seen.ahead {
            Ahead::Wants(wants) => Some((wants, false)),
            Ahead::Unreached => None,
            Ahead::Missing => {
                let keep = matches!(
                    step,
                    Step::Idle(Idle::Waiting { .. } | Idle::WaitingWithoutStatus { .. })
                );
                return Err(Unbuilt { keep });
            }
        },
    };
    Ok(match known {
        Some((known, applied)) => wants(artifact, known.clone(), applied),
        None => Announcement::Unreached(artifact.clone()),
    })
}

/// Whether a step makes its own announcement, or needs none because the Kustomization is deleted.
fn announces_itself(ks: &Declared, step: &Step) -> bool {
    match step {
        Step::Build(cause) => *cause != Cause::Confirmed,
        Step::BuildAhead { .. } | Step::Restart => true,
        Step::Idle(Idle::Stalled(_)) => false,
        _ => ks.deleting,
    }
}

pub(crate) fn deadline(now: Instant, timeout: Duration) -> Instant {
    now.checked_add(timeout).unwrap_or(now)
}
