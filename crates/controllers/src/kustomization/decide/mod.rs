//! What to do, from what was seen: values in, a plan out. No client, no tree, no clock.
//!
//! [`decide`] serves runs, deletions, pruning and previews. It asks for what it needs and does not know (a
//! build, answers about access) by a step that fetches just that; then it is asked again.
//!
//! | file | decides |
//! |---|---|
//! | `seen` | nothing: it is what the others decide from |
//! | `objects` | what becomes of each object, by `equate_apply` |
//! | `apply` | how far a build is applied, and what ends that |
//! | `deletion` | what becomes of the objects of a Kustomization that is deleted |
//! | `health` | whether what was applied works |

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

/// What is usually over sooner than this is not worth two statuses.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
const NO_ACCESS: &str = "has a kubeConfig that cannot be used";
const NOT_STORED: &str = "has a source whose artifact is not stored";

/// What to do, with no choice left.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// What the other Kustomizations are told first.
    pub(crate) announce: Announcement,
    /// What is done then.
    pub(crate) step: Step,
}

/// What the other Kustomizations are told of what this one wants, so that what moved to it is not deleted
/// elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Announcement {
    /// Nothing now: the step itself tells them, or there is nothing new.
    None,
    /// That nothing is to be expected: nobody waits for a word of it.
    NoWord,
    /// That it could not be built from this artifact, for the API server could not be asked.
    Unreached(String),
    /// What it wants.
    Wants {
        /// The digest of the artifact that says so.
        artifact: String,
        /// What that is.
        wants: DesiredSet,
        /// Whether all of it is applied.
        applied: bool,
    },
}

/// What is done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Nothing; the status may say why.
    Idle(Idle),
    /// A revision is built, to be applied.
    Build(Cause),
    /// It is built only so that the others know what it wants; kept if it is going to be applied.
    BuildAhead { keep: bool },
    /// What was built is tried again.
    Restart,
    /// The API server is asked who may write what.
    Survey(Questions),
    /// Objects go to other shards and come from them, by inventories alone.
    HandOver(Exchange),
    /// A build is applied.
    Apply(Application),
    /// A build is not applied until somebody confirms it; the plan says what it would delete.
    Confirm { plan: plan::Plan, stall: Stall },
    /// All stages are applied: what is not declared any more goes, and the result is said.
    Finish(Finish),
    /// All stages are applied, but for what others hold: that is said, and nothing is deleted. What is held
    /// then.
    OwnershipConflict(Inventory),
    /// Nothing is applied: how healthy it is is said.
    Conclude(Conclusion),
    /// The build that was applied failed.
    Fail(Failure),
    /// What was kept after it was not declared any more may go by now, or was taken.
    Release(plan::Plan),
    /// It is looked whether the objects of a deleted Kustomization can be deleted.
    PrepareDeletion { account: bool, waits: bool },
    /// They are deleted.
    Delete { plan: plan::Plan, then: AfterDeletion },
    /// Nothing of it is left to do: its finalizer goes. What stays in the cluster, and why that is said.
    Farewell(Farewell),
}

impl Step {
    /// What it would do to objects, or would if it were confirmed or known.
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
            | Self::Farewell(_) => None,
        }
    }
}

/// Why nothing is done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Idle {
    /// It is suspended.
    Suspended,
    /// Until somebody changes something.
    Stalled(Stall),
    /// Something is missing, and its coming wakes it; or it looks again after this time.
    Waiting { wait: Wait, again: Duration },
    /// The same, and usually over so soon that it is not said.
    WaitingSilently { again: Duration },
    /// Others have to be built first, or something has to go.
    Awaiting(Awaiting),
    /// Its kinds are not listed yet.
    KindsUnlisted,
    /// What was refused until it is confirmed is not confirmed.
    Unconfirmed,
    /// There is no way to its target cluster, and nothing to build for it.
    NoAccess,
    /// Others go first.
    Deferred,
    /// A new revision with the same inputs: it is said.
    NewRevision,
    /// Nothing to do, nothing to say.
    Settled,
    /// It is deleted, and there is no way to its objects.
    DeletionUnreached(Failure),
    /// It is deleted, and others may want its objects: it says so.
    DeletionHeld { plan: plan::Plan, why: String },
    /// It is deleted, and the kinds of its objects are not listed yet.
    DeletionUnlisted,
    /// It is deleted, and its objects are on their way out until then.
    Terminating { until: Instant, blind: bool },
}

/// What others have to say or do first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Awaiting {
    /// What that is, as a sentence.
    pub(crate) message: String,
    /// When it is not waited for any more.
    pub(crate) until: Instant,
    /// It is not said before then: mostly it is over.
    pub(crate) silent_until: Option<Instant>,
    /// What is held meanwhile without being declared, where that is news.
    pub(crate) lingering: Option<Inventory>,
}

impl Awaiting {
    /// Waits until then; says so when it is not over soon.
    pub(crate) fn new((until, message): (Instant, String), since: Option<Instant>, now: Instant) -> Self {
        let told = since.unwrap_or(now) + PATIENCE;
        Self {
            message,
            until,
            silent_until: (now < told).then_some(told),
            lingering: None,
        }
    }
}

/// Why something is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// This process has not built it yet.
    First,
    /// The spec changed.
    Spec,
    /// The artifact's content changed where it matters.
    Inputs,
    /// Somebody asked.
    Requested,
    /// What it would delete was confirmed, or is less by now.
    Confirmed,
    /// The cluster differs.
    Drift,
    /// What failed is tried again.
    Retry,
}

/// How a build is applied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Application {
    /// What becomes of each object.
    pub(crate) plan: plan::Plan,
    /// What is written down before anything is applied, where it is not already.
    pub(crate) write_ahead: Option<Inventory>,
    /// A stage that does not become healthy by then fails.
    pub(crate) until: Instant,
    /// Groups that the cluster did not serve: a stage may define them, then the rest is planned anew.
    pub(crate) unserved: BTreeSet<String>,
}

/// What remains when all stages are applied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finish {
    /// What becomes of objects that are not declared any more.
    pub(crate) prune: Vec<plan::Step>,
    /// What is held then.
    pub(crate) inventory: Inventory,
    /// What of it is not declared any more.
    pub(crate) lingering: Inventory,
    /// How healthy it is.
    pub(crate) conclusion: Conclusion,
}

/// What comes after the objects of a Kustomization were deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AfterDeletion {
    /// It goes.
    Farewell,
    /// It is looked whether they have gone.
    Look,
    /// It stays, for some are needed; what it still holds.
    Hold(Inventory),
}

/// How a Kustomization goes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Farewell {
    /// Its objects stay.
    Orphaned,
    /// Nobody may delete its objects: they stay.
    Forsaken(Vec<ObjectId>),
    /// What could be deleted is.
    Deleted(Arc<plan::Plan>),
    /// The same, but these took too long to go.
    Overdue(Vec<ObjectId>, Arc<plan::Plan>),
}

/// Decides what a Kustomization needs.
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
        // what crosses the border comes first: the rest is decided with what is held then
        true if seen.exchange.questions.is_empty() => Step::HandOver(seen.exchange.clone()),
        true => Step::Survey(seen.exchange.questions.clone()),
    };
    Plan { announce, step }
}

/// What it would do if there were no others.
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
        // of a thousand that read a revision few have more to do with it than to say so
        Step::Idle(Idle::NewRevision) if seen.deferrable => Step::Idle(Idle::Deferred),
        // what was built is still here: only the applying failed
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

/// The revision that there is to build; or what stands in the way.
fn readable<'s>(ks: &Declared, seen: &'s Seen) -> Result<&'s str, Obstacle> {
    let stall = |stall| Err(Obstacle::Stall(stall));
    if let Some(unreadable) = &ks.unreadable {
        return stall(Stall::Inventory(unreadable.to_string()));
    }
    if let Some(why) = &ks.misread {
        return stall(Stall::Setting(why.clone()));
    }
    let decryption = ks.decryption.as_ref();
    if decryption.is_some_and(|decryption| decryption.service_account_name.is_some()) {
        return stall(Stall::Gated {
            field: "spec.decryption.serviceAccountName",
            purpose: "decryption authentication",
            gate: "ObjectLevelWorkloadIdentity",
        });
    }
    let prerequisites = &seen.prerequisites;
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
        SourceSeen::NoArtifact => source(Wait::NoArtifact),
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

/// What is missing is said, unless it was all well and the want is of the kind that passes at once.
fn waiting(ks: &Declared, seen: &Seen, wait: Wait) -> Idle {
    let grace = match &wait {
        // whose status another process wrote: it is about to be fetched for the first time, and nothing
        // that was well before is worse for that
        Wait::NotStored(..) if !seen.prerequisites.looked => ks.timeout,
        _ => GRACE,
    };
    let told = seen.since.missing.unwrap_or(seen.began) + grace;
    let silent = wait.passing() && (seen.ready || matches!(wait, Wait::Fetching { .. }));
    let look_again = wait.look_again(seen.dependency_retry);
    if silent && seen.began < told {
        return Idle::WaitingSilently {
            again: (told - seen.began).min(look_again.max(GRACE)),
        };
    }
    let again = match &wait {
        Wait::Unfetched { gone: false, .. } => ks.retry_interval,
        Wait::Unfetched { gone: true, .. } => ks.retry_interval.min(GONE_PAUSE),
        _ => look_again,
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

/// Whether a step carries out something new, for which dependencies have to be ready. What is applied already
/// stays so, is corrected, and stays ready, whatever becomes of what it built on.
fn begins(step: &Step) -> bool {
    match step {
        Step::Build(Cause::Drift | Cause::Confirmed) => false,
        Step::Build(_) | Step::Idle(Idle::NewRevision) => true,
        _ => false,
    }
}

/// Nothing stands in the way; what is left to do?
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
        // what the same manifests are refused for may be repaired elsewhere: by this revision, or by what
        // they build on. Each is tried once.
        Phase::Failed { retry: Some(at) } if due(at) || newer || last.freed || hopes(seen) => {
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

/// How healthy it is, where its cluster can be reached.
fn conclude(ks: &Declared, seen: &Seen, now: Instant) -> Step {
    match (&seen.no_access, &seen.last) {
        (None, Some(last)) => Step::Conclude(health::conclude(ks, last, last.phase, now)),
        (Some(_), _) | (None, None) => Step::Idle(Idle::NoAccess),
    }
}

/// Whether what failed may work now, because of what it depends on. One that is not ready is no hope.
fn hopes(seen: &Seen) -> bool {
    let ready = |(_, seen): &(Key, DependencySeen)| *seen == DependencySeen::Ready;
    let changed = seen.last.as_ref().is_some_and(|last| last.hope);
    changed && seen.prerequisites.dependencies.iter().all(ready)
}

/// Whether something is handed over before a step is carried out: not where it is built first.
fn hands_over(step: &Step) -> bool {
    match step {
        Step::Idle(idle) => match idle {
            Idle::Waiting { .. }
            | Idle::WaitingSilently { .. }
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
        // what is applied is not given away half-way
        Step::Finish(_) | Step::OwnershipConflict(_) => false,
        Step::Build(cause) => *cause == Cause::Confirmed,
        Step::BuildAhead { .. }
        | Step::Restart
        | Step::HandOver(_)
        | Step::PrepareDeletion { .. }
        | Step::Delete { .. }
        | Step::Farewell(_) => false,
    }
}

/// What it wants is not known before it is built; kept if that is going to be applied.
struct Unbuilt {
    keep: bool,
}

/// What the others are told before a step.
fn announcement(ks: &Declared, seen: &Seen, step: &Step) -> Result<Announcement, Unbuilt> {
    if speaks_itself(ks, step) {
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
        // it is built as soon as it is here: who waits for that goes on waiting
        (SourceSeen::Fetching { .. }, Some(_)) => return Ok(Announcement::None),
        _ => return Ok(Announcement::NoWord),
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
                    Step::Idle(Idle::Waiting { .. } | Idle::WaitingSilently { .. })
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

/// Whether a step needs no word before it: it has its own, or what is deleted wants nothing.
fn speaks_itself(ks: &Declared, step: &Step) -> bool {
    match step {
        Step::Build(cause) => *cause != Cause::Confirmed,
        Step::BuildAhead { .. } | Step::Restart => true,
        Step::Idle(Idle::Stalled(_)) => false,
        _ => ks.deleting,
    }
}

/// When something that takes this long is given up.
pub(crate) fn deadline(now: Instant, timeout: Duration) -> Instant {
    now.checked_add(timeout).unwrap_or(now)
}
