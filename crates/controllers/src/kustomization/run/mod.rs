//! One run of a Kustomization, from what woke it to its next wake-up.
//!
//! A run is `observe` (from memory, no request), `decide::admit`, then one of the steps below, then a
//! `report`. Nothing is waited for inside a run: a kind that is not listed yet, a stage that is not
//! healthy, a dependency that is not ready end it, and their change begins the next one.
//!
//! | step | does |
//! |---|---|
//! | `connect` | finds the cluster it applies to, and as whom |
//! | `observe`, `artifact` | looks at what there is: dependencies, drift, health; the source's artifact |
//! | `publish` | tells the others what it wants, built ahead if need be |
//! | `handover` | gives objects to other shards, and claims theirs |
//! | `build` | builds a revision |
//! | `apply` | applies it, stage by stage, then prunes |
//! | `prune` | decides what becomes of objects that are not declared any more |
//! | `survey`, `access_reviews` | what all others want, and whether they may, before anything is deleted |
//! | `prune_budget` | applies nothing of a revision that would delete too much, until that is confirmed |
//! | `reinspect` | reads objects again when its rules for health and drift change |
//! | `outcome` | ends it: healthy, waiting for that, or why not |
//! | `finalize` | what becomes of the objects of a Kustomization that is deleted |
//! | `status` | writes status and finalizer, publishes events |
//!
//! All of them are methods of [`Run`], and call each other: a failure in any ends in `outcome`, and what
//! `status` says asks `prune` what is held back.

mod access_reviews;
mod apply;
mod artifact;
mod build;
mod connect;
mod finalize;
mod handover;
mod observe;
mod outcome;
mod prune;
mod prune_budget;
mod publish;
mod reinspect;
mod status;
mod survey;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use equate_api::kustomize::Kustomization;
use equate_api::meta::Reason as Why;
use tokio::time::Instant;

use self::status::Stop;
use crate::kit::events::Severity;
use crate::kit::mirror::Mirror;
use crate::kit::queue::{Queue, Requeue};
use crate::kit::read::chain;
use crate::kit::services::Kit;
use crate::kit::wake::{Reason, Reasons};
use crate::kustomization::decide::{Cause, Decision, Phase, admit};
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::Artifact;
use crate::kustomization::inputs::substitute_from::{Values, ValuesError};
use crate::kustomization::inputs::vault_transit::Transits;
use crate::kustomization::memory::Memory;
use crate::kustomization::reasons::{self, Failure, Stall, Wait, go};
use crate::kustomization::report::Report;
use crate::kustomization::rules::ObjectRules;
use crate::kustomization::{KUSTOMIZATION, object_ref};
use crate::ownership::graph::OwnershipGraph;
use crate::sources::artifacts::GONE_PAUSE;
use crate::targets::target::Access;
use crate::{Key, ObjectRef};

/// The metadata of an artifact that names the revision it was made from.
const ORIGIN_REVISION: &str = "org.opencontainers.image.revision";
/// What is usually over sooner than this is not worth two statuses.
const GRACE: Duration = Duration::from_secs(2);

/// What all runs share.
pub(crate) struct Context {
    pub(crate) kit: Arc<Kit>,
    pub(crate) kustomizations: Mirror<Kustomization>,
    /// How each Kustomization looks at its objects.
    pub(crate) rules: Arc<ObjectRules>,
    /// This cluster, with this process's own rights.
    pub(crate) here: Access,
    /// No cluster: for one whose way is not known.
    pub(crate) nowhere: Access,
    /// Opens data keys that somebody else keeps.
    pub(crate) transits: Transits,
    pub(crate) queue: Queue<Key>,
    // a run takes its key's entry out and puts it back: nobody else reads it meanwhile
    pub(crate) memories: Mutex<HashMap<Key, Memory>>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("tally", &self.kit.tally)
            .finish_non_exhaustive()
    }
}

/// Counts one more; nobody orders anything by these numbers.
pub(crate) fn count(number: &AtomicU64, more: u64) {
    number.fetch_add(more, Ordering::Relaxed);
}

impl Context {
    fn index(&self) -> MutexGuard<'_, OwnershipGraph> {
        self.kit.ownership()
    }

    /// Whether another process reconciles a Kustomization.
    pub(crate) fn is_in_other_shard(&self, key: &Key) -> bool {
        self.index().is_in_other_shard(&object_ref(key))
    }

    fn memories(&self) -> MutexGuard<'_, HashMap<Key, Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A Kustomization by what it is called among objects of other kinds.
    fn kustomization(&self, object: &ObjectRef) -> Option<Arc<Kustomization>> {
        let ours = object.kind == KUSTOMIZATION.kind;
        ours.then(|| self.kustomizations.get(&object.key())).flatten()
    }

    fn wake(&self, wakes: Vec<(ObjectRef, Reason)>) {
        self.kit.waker.wake_all(wakes);
    }

    fn forget(&self, key: &Key) {
        self.here.hub.forget(key);
        self.kit.artifacts.release(&object_ref(key));
        let memory = self.memories().remove(key);
        if let Some(access) = memory.and_then(|memory| memory.access) {
            access.hub.forget(key);
        }
        self.queue.forget(key);
        let wakes = self.index().forget(&object_ref(key));
        self.wake(wakes);
    }
}

/// Runs one Kustomization.
pub(crate) async fn reconcile(cx: Arc<Context>, key: Key, reasons: Reasons) -> Requeue {
    let Some(object) = cx.kustomizations.get(&key) else {
        cx.forget(&key);
        return Requeue::Wait;
    };
    if cx.is_in_other_shard(&key) {
        // it was ours until its labels said otherwise
        cx.forget(&key);
        return Requeue::Wait;
    }
    let memory = cx.memories().remove(&key).unwrap_or_default();
    let mut run = Run {
        cx: &cx,
        me: object_ref(&key),
        key: key.clone(),
        access: cx.nowhere.clone(),
        access_failure: None,
        object,
        memory,
        values: None,
        began: Instant::now(),
    };
    let ended = run.go(reasons).await;
    let outcome = match ended {
        Ok(outcome) => outcome,
        Err(Stop::Gone) => {
            run.access.hub.forget(&key);
            cx.forget(&key);
            return Requeue::Wait;
        }
        Err(Stop::Failed(error)) => {
            tracing::warn!(%key, %reasons, error = %chain(&error), "a Kustomization could not be written");
            Requeue::BackoffWithin(run.object.spec.retry_interval())
        }
    };
    cx.memories().insert(key, run.memory);
    outcome
}

/// Whether it is a reason to ask for what nobody tells of.
fn observes_unwatched(reason: Reason) -> bool {
    match reason {
        Reason::Requested
        | Reason::Appeared
        | Reason::Changed
        | Reason::Interval
        | Reason::Deadline
        | Reason::Retry => true,
        Reason::Source
        | Reason::Input
        | Reason::Deleted
        | Reason::Dependency
        | Reason::Object
        | Reason::Push
        | Reason::Deferred => false,
    }
}

/// Whether it is a reason to read a ConfigMap or Secret again; not all are, if changes of it are told of.
fn refreshes_values(reason: Reason, told: bool) -> bool {
    match reason {
        Reason::Requested | Reason::Appeared | Reason::Changed => true,
        Reason::Source | Reason::Input | Reason::Interval | Reason::Retry => !told,
        Reason::Deleted
        | Reason::Dependency
        | Reason::Object
        | Reason::Push
        | Reason::Deadline
        | Reason::Deferred => false,
    }
}

/// Whether something is handed over before a decision is carried out: not where it is built first.
fn hands_over(decision: &Decision) -> bool {
    match decision {
        Decision::Wait(_)
        | Decision::Resume
        | Decision::Health
        | Decision::Unconfirmed
        | Decision::ReleaseObjects
        | Decision::NewRevision
        | Decision::Settled => true,
        Decision::Gone
        | Decision::Finalize(_)
        | Decision::AddFinalizer
        | Decision::Suspended
        | Decision::Stall(_)
        | Decision::Build(_) => false,
    }
}

/// One run.
struct Run<'a> {
    cx: &'a Context,
    key: Key,
    /// The same among objects of other kinds.
    me: ObjectRef,
    object: Arc<Kustomization>,
    /// Where it applies, and as whom.
    access: Access,
    /// Why it reaches nothing, if it should.
    access_failure: Option<Failure>,
    memory: Memory,
    /// The variables, if this run has read them.
    values: Option<Result<Arc<Values>, ValuesError>>,
    began: Instant,
}

impl Run<'_> {
    async fn go(&mut self, reasons: Reasons) -> Result<Requeue, Stop> {
        self.retry_status().await?;
        self.cx.rules.set(&self.key, &self.object.spec);
        self.connect(reasons).await;
        if reasons.iter().any(observes_unwatched) {
            self.observe_unwatched().await;
        }
        self.refresh_values(reasons).await;
        loop {
            let ks = Declared::from(&*self.object);
            let (seen, artifact) = observe::observe(
                self.cx,
                &self.access,
                &ks,
                &self.object,
                &self.memory,
                self.values.as_ref(),
            )
            .await;
            let decision = admit(&ks, &seen);
            tracing::debug!(key = %self.key, place = ?self.access.target, ?decision, "decided");
            if !matches!(decision, Decision::Wait(_)) {
                self.memory.waiting = None;
            }
            self.publish(&ks, &seen, artifact.as_ref(), &decision).await;
            if hands_over(&decision) && self.hand_over(&ks).await? {
                continue;
            }
            return match (decision, artifact) {
                (Decision::Gone, _) => Err(Stop::Gone),
                (Decision::Finalize(finalize), _) if self.cannot_delete(finalize) => {
                    Ok(self.finalize_later(&ks))
                }
                (
                    Decision::Resume | Decision::Health | Decision::ReleaseObjects | Decision::NewRevision,
                    _,
                ) if self.access_failure.is_some() => {
                    self.report_status(&ks, |report| report).await?;
                    Ok(self.next(&ks))
                }
                (Decision::Finalize(finalize), _) => {
                    match self.survey_before_deletion(&ks, finalize).await? {
                        Some(outcome) => Ok(outcome),
                        None => self.finalize(&ks, finalize).await,
                    }
                }
                (Decision::AddFinalizer, _) => {
                    self.set_finalizer(true).await?;
                    continue;
                }
                (Decision::Suspended, _) => self.suspended(&ks).await,
                (Decision::Stall(stall), _) => self.stall(&ks, &stall).await,
                (Decision::Wait(wait), artifact) => {
                    let revision = artifact.map(|artifact| artifact.revision.revision);
                    self.wait(&ks, &wait, revision).await
                }
                (Decision::Build(cause), Some(artifact)) => self.build(&ks, &artifact, cause).await,
                (Decision::Resume, Some(artifact)) => {
                    self.renew(&artifact);
                    self.apply(&ks).await
                }
                (Decision::Health, Some(artifact)) => {
                    self.renew(&artifact);
                    let held = self.inventory();
                    self.check_health(&ks, held).await
                }
                (Decision::Unconfirmed, Some(artifact)) => match self.still_unconfirmed(&ks).await? {
                    Some(outcome) => Ok(outcome),
                    None => self.build(&ks, &artifact, Cause::Requested).await,
                },
                (Decision::ReleaseObjects, Some(_)) => match self.release_objects(&ks).await? {
                    Some(outcome) => Ok(outcome),
                    None => continue,
                },
                // of a thousand that read a revision few have more to do with it than to say so
                (Decision::NewRevision, Some(_))
                    if reasons.contains(Reason::Source) && !reasons.contains(Reason::Deferred) =>
                {
                    Ok(Requeue::After(Duration::ZERO, Reason::Deferred))
                }
                (Decision::NewRevision, Some(artifact)) => {
                    count(&self.cx.kit.tally.builds_skipped, 1);
                    self.renew(&artifact);
                    self.report_new_revision(&ks).await
                }
                (Decision::Settled, Some(artifact)) => {
                    self.renew(&artifact);
                    self.report_status(&ks, |report| report).await?;
                    Ok(self.next(&ks))
                }
                // without an artifact only the decisions above the builds are made
                (
                    Decision::Build(_)
                    | Decision::Resume
                    | Decision::Health
                    | Decision::Unconfirmed
                    | Decision::ReleaseObjects
                    | Decision::NewRevision
                    | Decision::Settled,
                    None,
                ) => Ok(Requeue::Backoff),
            };
        }
    }

    /// The same inputs at a newer revision.
    fn renew(&mut self, artifact: &Artifact) {
        if let Some(record) = &mut self.memory.record {
            record.revision = artifact.revision.clone();
            record.tree = artifact.tree.id();
            record.artifact.clone_from(&artifact.digest);
        }
    }

    async fn suspended(&mut self, ks: &Declared) -> Result<Requeue, Stop> {
        // what happens meanwhile is not known: it begins anew
        self.memory.record = None;
        self.access.hub.forget(&self.key);
        self.report_status(ks, Report::suspended).await?;
        Ok(Requeue::Wait)
    }

    async fn stall(&mut self, ks: &Declared, stall: &Stall) -> Result<Requeue, Stop> {
        let before = self.object.status.clone();
        self.report_status(ks, |report| report.stalled(stall)).await?;
        if self.object.status != before {
            // people have to come and look
            self.emit(Severity::Warning, stall.reason(), stall.to_string());
        }
        Ok(Requeue::Wait)
    }

    /// Says what is missing, unless it was all well and the want is of the kind that passes at once.
    async fn wait(&mut self, ks: &Declared, wait: &Wait, at: Option<String>) -> Result<Requeue, Stop> {
        let since = *self.memory.waiting.get_or_insert(self.began);
        let told = since
            + match wait {
                // whose status another process wrote: it is about to be fetched for the first time,
                // and nothing that was well before is worse for that
                Wait::NotStored(kind, key)
                    if !self.cx.index().has_looked(&ObjectRef::of(kind.as_str(), key)) =>
                {
                    ks.timeout
                }
                _ => GRACE,
            };
        let silent = wait.passing() && (self.is_ready() || matches!(wait, Wait::Fetching { .. }));
        if silent && self.began < told {
            let again =
                (told - self.began).min(wait.look_again(self.cx.kit.settings.dependency_retry).max(GRACE));
            return Ok(Requeue::After(again, Reason::Deadline));
        }
        if let Wait::Unfetched { revision, .. } = wait {
            self.emit_wait(wait, revision);
        }
        let before = self.ready_condition().cloned();
        self.report_status(ks, |report| report.waiting(wait)).await?;
        if wait.reason() == Why::DependencyNotReady && self.ready_condition() != before.as_ref() {
            let again = go(self.cx.kit.settings.dependency_retry);
            let message = format!("Dependencies do not meet ready condition, retrying in {again}");
            let event = self.event(Severity::Normal, Why::DependencyNotReady, message);
            let event = at.into_iter().fold(event, |event, at| event.with("revision", at));
            self.cx.kit.recorder.publish(event);
        }
        let again = match wait {
            Wait::Unfetched { gone: false, .. } => ks.retry_interval,
            Wait::Unfetched { gone: true, .. } => ks.retry_interval.min(GONE_PAUSE),
            wait => wait.look_again(self.cx.kit.settings.dependency_retry),
        };
        Ok(Requeue::After(again, Reason::Interval))
    }

    /// When to look again if nothing happens.
    fn next(&self, ks: &Declared) -> Requeue {
        let now = Instant::now();
        let Some(record) = &self.memory.record else {
            return Requeue::Wait;
        };
        let interval = || {
            (
                now + self
                    .cx
                    .kit
                    .settings
                    .jitter
                    .spread(ks.interval, self.cx.kit.settings.interval_jitter),
                Reason::Interval,
            )
        };
        let mut due = match record.phase {
            Phase::Staged { until } | Phase::Checking { until } | Phase::Ready { until: Some(until) } => {
                (until, Reason::Deadline)
            }
            Phase::Ready { until: None } | Phase::Failed { retry: None } | Phase::Unconfirmed => interval(),
            Phase::Unhealthy { retry } | Phase::Failed { retry: Some(retry) } => (retry, Reason::Retry),
        };
        let corrections = observe::drifted(&self.access.hub, record)
            .into_iter()
            .map(|id| self.memory.corrections.due(id, now))
            .chain(self.memory.corrections.calm_at(now))
            .min();
        if let Some(correction) = corrections
            && correction < due.0
        {
            due = (correction, Reason::Deadline);
        }
        if let Some(look) = self.observe_again_after(record)
            && now + look < due.0
        {
            due = (now + look, Reason::Deadline);
        }
        // those who are waited for have their time, whatever else happens
        if let Some(until) = self.cx.index().waits_until(&self.me)
            && !self.memory.lingering.is_empty()
            && now < until
            && until < due.0
        {
            due = (until, Reason::Deadline);
        }
        let delay = due.0.saturating_duration_since(now);
        match &record.failure {
            Some(failure) if failure.retry() == reasons::Retry::Backoff => {
                Requeue::BackoffWithin(ks.retry_interval)
            }
            _ => Requeue::After(delay, due.1),
        }
    }
}
