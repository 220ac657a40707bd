//! Applies a build stage by stage, each when the one before is healthy. The only file whose verbs create
//! and change managed objects.
//!
//! Each wake-up plans again from the present state and does as much as it can. So no progress has to be
//! remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use equate_api::meta::Reason as Why;
use equate_apply::cluster::{Action, Applied, ApplyError, Execution, Retry as ApplyRetry};
use equate_apply::desired::Desired;
use equate_apply::difference::drifted;
use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_apply::owned::Digest;
use equate_apply::plan::{KeepReason, Live, PatchReason, Plan, Presence, Stage, Step};
use futures::future::join_all;
use tokio::time::Instant;

use super::announce::announce_record;
use super::finish::fail;
use super::status::{emit, next, write};
use super::{execution, idle, planned};
use crate::ObjectRef;
use crate::corrections::describe;
use crate::kit::controller::Acted;
use crate::kit::events::Severity;
use crate::kit::missing_kinds::MissingKinds;
use crate::kit::reconciliation::Stop;
use crate::kustomization::decide::health::{HealthSummary, verdict};
use crate::kustomization::decide::objects::Objects;
use crate::kustomization::decide::seen::Passed;
use crate::kustomization::decide::{Application, Awaiting};
use crate::kustomization::declared::Declared;
use crate::kustomization::memory::{Expects, Held, Memory};
use crate::kustomization::observe::{reinspect, state};
use crate::kustomization::reasons::{Failure, refusal};
use crate::kustomization::report::Done;
use crate::kustomization::{KUSTOMIZATION, Kustomizations, Run, applies, count, object_ref};
use crate::ownership::contest::{Contest, as_others_see};

/// Corrections of one stage that events describe, and the time limit to read each object.
const CORRECTIONS_NAMED: usize = 16;
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

enum Staged {
    Done,
    /// A stage is not healthy yet. The object watcher wakes the Kustomization when it is.
    Waits,
    /// Objects have to disappear before they can be recreated. The object watcher wakes the Kustomization
    /// then.
    Leaves(Instant, String),
    /// A stage defined kinds that later stages need.
    Defined,
    Failed(Failure),
}

pub(super) async fn apply(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    objects: Objects,
    application: Application,
) -> Result<Acted<Done>, Stop> {
    let objects = planned(objects);
    if !take(cx, run, &objects.unclaimed) {
        // another owner took an object since they were observed
        return Ok(Acted::Again);
    }
    contest(cx, run, ks, &application.plan);
    if let Some(ahead) = &application.write_ahead {
        let revision = run.memory.record.as_ref().map(|record| record.revision.clone());
        let revision = revision.unwrap_or_default();
        write(cx, run, ks, |draft| draft.started(&revision, ahead)).await?;
    }
    let options = objects.options();
    let execution = execution(cx, ks, &options);
    let mut missing = MissingKinds::default();
    let desired = (objects.desired.as_slice(), &mut missing);
    let staged = stages(cx, run, ks, &application, desired, &execution).await;
    Ok(match staged {
        Staged::Done => {
            cx.kit.missing_kinds.resolve(&object_ref(&ks.key));
            passed(cx, run, ks, application.plan, &objects);
            Acted::Again
        }
        Staged::Waits => Acted::Unreported(next(cx, run, ks)),
        Staged::Leaves(until, message) => {
            let since = run.memory.surveying_since;
            let awaiting = Awaiting::new((until, message), since, Instant::now());
            idle::await_others(cx, run, ks, awaiting)
        }
        Staged::Defined => {
            // kinds that were just defined can be watched now
            run.memory.this_run.defined = true;
            run.memory.this_run.kinds = None;
            Acted::Again
        }
        Staged::Failed(failure) => {
            let failed = fail(cx, run, ks, failure, None);
            cx.kit.missing_kinds.set(&object_ref(&ks.key), missing);
            failed
        }
    })
}

/// Claims objects without an owner, before any inventory names them. Returns whether they still have none.
fn take(cx: &Kustomizations, run: &Run<'_>, unclaimed: &[ObjectId]) -> bool {
    let me = object_ref(run.key());
    let mut graph = cx.kit.ownership();
    let free = graph.are_free(unclaimed.iter(), &me);
    if free {
        graph.taken.take(&me, unclaimed.iter().cloned());
    }
    free
}

/// Tells the other owners which of their objects are declared here too, and which no longer are.
fn contest(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared, plan: &Plan) {
    let contests: Vec<Contest> = plan
        .contested()
        .map(|(id, owner)| Contest {
            id: id.clone(),
            other: owner.into(),
        })
        .collect();
    let me = object_ref(&ks.key);
    let by_owner = as_others_see(&me, &contests);
    let wakes = cx.kit.ownership().contest(&me, by_owner);
    cx.kit.waker.wake_all(wakes);
    if let Some(record) = &mut run.memory.record {
        record.contests = contests;
    }
}

/// All stages are applied: the Kustomizations among the objects have their desired form.
fn passed(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared, plan: Plan, objects: &Objects) {
    if let Some(record) = &mut run.memory.record {
        record.applied = true;
    }
    announce_record(cx, &run.memory, ks);
    let held = expected(cx, &run.memory, &plan, objects);
    let passed = Passed {
        plan: Arc::new(plan),
        desired: Arc::clone(&objects.desired),
    };
    run.memory.this_run.passed = Some((passed, held));
}

async fn stages(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    application: &Application,
    (desired, missing): (&[Desired], &mut MissingKinds),
    execution: &Execution<'_>,
) -> Staged {
    if let Some(record) = &mut run.memory.record {
        record.going.clear();
    }
    let Application {
        plan,
        until,
        unserved,
        write_ahead: _,
    } = application;
    let cluster = cx.access(&run.memory).cluster.clone();
    for (place, stage) in plan.stages.iter().enumerate() {
        if stage.steps.iter().any(Step::acts) {
            let before = drifting(cx, &run.memory, stage, desired);
            let corrections = corrections(cx, &run.memory, stage, desired).await;
            let applied = cluster.apply_stage(stage, desired, execution).await;
            take_in(cx, run, &applied, &before, &corrections);
            // a failed stage may have applied Kustomizations, too
            announce_record(cx, &run.memory, ks);
            if let Some(failure) = failure(&applied) {
                *missing = missing_kinds(&applied);
                return leaves(run, &applied, failure, *until);
            }
        }
        if place + 1 == plan.stages.len() {
            break;
        }
        let ids = stage.steps.iter().map(Step::id);
        if let Err(failure) = reinspect::judge(cx, run, ks, ids).await {
            return Staged::Failed(failure);
        }
        if let HealthSummary::Pending(what) | HealthSummary::Failed(what) =
            health_of(cx, &run.memory, ks, stage)
        {
            return match *until <= Instant::now() {
                true => Staged::Failed(Failure::Stage(format!("stage {}: {what}", stage.kind))),
                false => Staged::Waits,
            };
        }
        if !unserved.is_empty() {
            for group in unserved {
                cluster.expect_change(group);
            }
            return Staged::Defined;
        }
    }
    Staged::Done
}

/// Records the objects that have to disappear before they can be recreated. The run waits for them if
/// nothing else failed and time is left.
fn leaves(run: &mut Run<'_>, applied: &Applied, failure: Failure, until: Instant) -> Staged {
    let going = applied.failures().filter_map(|failure| match &failure.error {
        ApplyError::StillThere { uid, .. } => Some((failure.id.clone(), uid.clone())),
        _ => None,
    });
    let going: Vec<(ObjectId, String)> = going.collect();
    let all = going.len() == applied.failures().count();
    if let Some(record) = &mut run.memory.record {
        record.going = going;
    }
    match all && until > Instant::now() {
        true => Staged::Leaves(until, format!("Waiting for {failure}")),
        false => Staged::Failed(failure),
    }
}

/// Whether the objects of a stage are healthy, so that the next may be applied.
fn health_of(cx: &Kustomizations, memory: &Memory, ks: &Declared, stage: &Stage) -> HealthSummary {
    let left = memory.record.as_ref().map(|record| &record.left);
    let left = |id: &ObjectId| left.is_some_and(|left| left.contains(id));
    let view = &cx.access(memory).view;
    let ours = stage.steps.iter();
    let ours = ours.filter(|step| counts(cx, step) && !left(step.id()));
    verdict(ours.filter_map(|step| {
        let (_, health) = state::healthy(view, &cx.rules, &ks.key, step.id());
        // nothing watches it, so waiting would never end
        Some((step.id(), health?))
    }))
}

/// The objects of a stage that drifted since they were applied, and the writers.
fn drifting(
    cx: &Kustomizations,
    memory: &Memory,
    stage: &Stage,
    desired: &[Desired],
) -> BTreeMap<ObjectId, Option<String>> {
    let applied = |id: &ObjectId| {
        let remembered = memory.applies.get(id)?;
        let desired = desired.iter().find(|desired| desired.id == *id)?;
        (remembered.desired == desired.digest).then_some(())
    };
    let steps = stage.steps.iter();
    steps
        .filter_map(|step| match step {
            Step::Patch {
                id,
                reason: PatchReason::Drifted,
                ..
            } => {
                let writer = match cx.access(memory).view.get(id) {
                    Presence::Present(observed) => observed.other_writer.clone(),
                    Presence::Absent | Presence::Unknown => None,
                };
                Some((id.clone(), writer))
            }
            Step::Create(id) => applied(id).map(|()| (id.clone(), None)),
            Step::Patch { .. } | Step::Recreate { .. } | Step::Prune { .. } | Step::Keep(..) => None,
        })
        .collect()
}

/// The events' words about the objects of a stage that were changed by others since they were applied.
///
/// Reads them once more: the watcher keeps digests. A change by kubectl is taken over, which is a correction
/// if git still declares what was applied.
async fn corrections(
    cx: &Kustomizations,
    memory: &Memory,
    stage: &Stage,
    desired: &[Desired],
) -> BTreeMap<ObjectId, String> {
    let access = cx.access(memory);
    let found = stage.steps.iter().filter_map(|step| {
        let reason = match step {
            Step::Patch { reason, .. } => Some(*reason),
            Step::Create(_) => None,
            Step::Recreate { .. } | Step::Prune { .. } | Step::Keep(..) => return None,
        };
        let remembered = memory.applies.get(step.id())?;
        let desired = desired.iter().find(|desired| desired.id == *step.id())?;
        (remembered.desired == desired.digest).then_some((desired, reason))
    });
    let found = found.take(CORRECTIONS_NAMED).map(|(desired, reason)| async move {
        match reason {
            None => Some((desired.id.clone(), "corrected, it was deleted".to_owned())),
            Some(PatchReason::Drifted | PatchReason::Takeover) => {
                let version = desired.object.gvk().map(|gvk| gvk.version).unwrap_or_default();
                // without the answer the event names no fields
                let live = access
                    .cluster
                    .get(&desired.id, &version, LOOK_TIMEOUT)
                    .await
                    .ok()??;
                let fields = drifted(&live, desired, KUSTOMIZATION.field_manager);
                let writer = Observed::of(&live, &KUSTOMIZATION).other_writer;
                Some((desired.id.clone(), describe(&fields, writer.as_deref())?))
            }
            Some(PatchReason::Changed | PatchReason::NotSeen) => None,
        }
    });
    join_all(found).await.into_iter().flatten().collect()
}

/// Records that an object was applied which is an owner itself, before the watch reports it.
fn note_child(cx: &Kustomizations, run: &Run<'_>, id: &ObjectId, generation: i64) {
    if let Some(kind) = applies(id) {
        let child = ObjectRef::new(kind, &*id.namespace, &*id.name);
        let mut graph = cx.kit.ownership();
        graph.child_applied(&object_ref(run.key()), &child, generation);
    }
}

/// Records the results in the watcher, the memory and the counters.
fn take_in(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    applied: &Applied,
    drifting: &BTreeMap<ObjectId, Option<String>>,
    corrections: &BTreeMap<ObjectId, String>,
) {
    let now = Instant::now();
    applied.remember_in(Arc::make_mut(&mut run.memory.applies));
    let (mut writes, mut left) = (0, Vec::new());
    for outcome in applied.outcomes() {
        let Ok(done) = outcome.result() else { continue };
        if let Some(observed) = &done.observed {
            cx.access(&run.memory).view.note(outcome.id(), observed.clone());
            note_child(cx, run, outcome.id(), observed.generation);
        }
        match done.action {
            Action::Kept(KeepReason::Unchanged) => {}
            // planned to be applied, but left alone after it was read
            Action::Kept(_) if done.observed.is_some() => left.push(outcome.id().clone()),
            Action::Kept(_) => {}
            _ => writes += 1,
        }
        for warning in &done.warnings {
            let message = format!("{}: {warning}", outcome.id());
            emit(run, Severity::Warning, Why::Progressing, &message);
        }
    }
    count(&cx.kit.tally.applies, writes);
    for (id, _) in applied.changes() {
        if let Some(writer) = drifting.get(id) {
            count(&cx.kit.tally.corrections, 1);
            run.memory.corrections.corrected(id, writer.clone(), now);
        }
    }
    let lines: Vec<String> = applied
        .changes()
        .map(|(id, action)| match corrections.get(id) {
            Some(corrected) => format!("{id} {action}: {corrected}"),
            None => format!("{id} {action}"),
        })
        .collect();
    if !lines.is_empty() {
        emit(run, Severity::Normal, Why::Progressing, &lines.join("\n"));
    }
    if let Some(record) = &mut run.memory.record {
        record.changed |= !lines.is_empty();
        record.left.extend(left);
    }
}

/// The condition under which each object counts as drifted from now on.
fn expected(cx: &Kustomizations, memory: &Memory, plan: &Plan, objects: &Objects) -> Vec<Held> {
    let desired = &objects.desired;
    let digests: BTreeMap<&ObjectId, &Desired> =
        desired.iter().map(|desired| (&desired.id, desired)).collect();
    let none = BTreeSet::new();
    let left = memory.record.as_ref().map_or(&none, |record| &record.left);
    let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
    steps
        .map(|step| {
            let id = step.id();
            let left = left.contains(id);
            let desired = digests.get(id).copied();
            Held {
                id: id.clone(),
                expects: match left {
                    true => Expects::Nothing,
                    false => expects(&objects.live, memory, step, desired),
                },
                leaves: desired.is_some_and(goes_by_itself),
                counts: !left && counts(cx, step),
            }
        })
        .collect()
}

fn expects(live: &Live, memory: &Memory, step: &Step, desired: Option<&Desired>) -> Expects {
    let id = step.id();
    let remembered = memory.applies.get(id).map(|remembered| remembered.owned);
    let owned = remembered.or(desired.map(|desired| desired.digest));
    let asks = desired.is_some_and(|desired| desired.policy.ignored());
    match step {
        // a person excluded it in the cluster: when that ends, it must match the declaration again
        Step::Keep(_, KeepReason::Ignored) if !asks => {
            desired.map_or(Expects::Nothing, |desired| Expects::Owned(desired.digest))
        }
        Step::Keep(_, KeepReason::Ignored | KeepReason::OwnLoop | KeepReason::HeldBy(_)) => Expects::Nothing,
        Step::Keep(_, KeepReason::Present) => Expects::Presence,
        Step::Keep(_, KeepReason::Unchanged) => {
            live_digest(live, id).map_or(Expects::Nothing, Expects::Owned)
        }
        _ => owned.map_or(Expects::Presence, Expects::Owned),
    }
}

/// The digest by which the plan found an object unchanged. The watcher may have seen a change since: that
/// is drift, and a digest read now would hide it for good.
fn live_digest(live: &Live, id: &ObjectId) -> Option<Digest> {
    match live.get(id) {
        Presence::Present(observed) => Some(observed.owned),
        Presence::Absent | Presence::Unknown => None,
    }
}

/// Whether an object's health is checked. Objects that a person excluded, or that nothing reconciles, are not.
fn counts(cx: &Kustomizations, step: &Step) -> bool {
    let left = matches!(
        step,
        Step::Keep(
            _,
            KeepReason::Ignored | KeepReason::OwnLoop | KeepReason::HeldBy(_)
        )
    );
    !left && !cx.kit.is_unreconciled(step.id())
}

fn missing_kinds(applied: &Applied) -> MissingKinds {
    let (mut kinds, mut only) = (BTreeMap::new(), true);
    for failure in applied.failures() {
        match &failure.error {
            ApplyError::NoSuchKind { gvk } => {
                *kinds.entry(gvk.clone()).or_default() |= !failure.id.namespace.is_empty();
            }
            _ => only = false,
        }
    }
    let resolved = false;
    MissingKinds {
        kinds,
        only,
        resolved,
    }
}

/// The failure of a stage; transient only if no object in it needs a change.
fn failure(applied: &Applied) -> Option<Failure> {
    let failures: Vec<_> = applied.failures().collect();
    if failures.is_empty() {
        return None;
    }
    let lines: Vec<String> = failures.iter().map(|failure| refusal(failure)).collect();
    let lines = lines.join("\n");
    let lasting = failures
        .iter()
        .any(|failure| failure.error.retry() == ApplyRetry::OnChange);
    Some(if lasting {
        Failure::Apply(lines)
    } else {
        Failure::Unreachable(lines)
    })
}

/// Whether an object deletes itself when it is done, so that its absence is no drift.
fn goes_by_itself(desired: &Desired) -> bool {
    let spec = desired.object.0.get("spec");
    let ttl = spec.and_then(|spec| spec.get("ttlSecondsAfterFinished"));
    &*desired.id.group == "batch" && &*desired.id.kind == "Job" && ttl.is_some_and(|ttl| !ttl.is_null())
}
