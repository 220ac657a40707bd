//! The state of applied objects: drift, health, and deleted objects that still exist.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use equate_api::kustomize::Kustomization;
use equate_api::meta::{ConditionType, Reason, condition, is_true};
use equate_apply::health::{Health, Status};
use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_apply::plan::{Plan, Presence};
use equate_apply::rules::OwnerRules as _;
use tokio::time::Instant;

use super::contests;
use super::dependency_states;
use crate::kit::watcher::view::ScopedView;
use crate::kustomization::decide::health::{HealthSummary, verdict};
use crate::kustomization::decide::seen::{Deleted, Last};
use crate::kustomization::declared::Declared;
use crate::kustomization::memory::{Expects, Held, Memory, Record};
use crate::kustomization::{KUSTOMIZATION, Kustomizations, Run, object_ref, owner_of};
use crate::object_rules::ObjectRules;
use crate::targets::target::Access;
use crate::{Key, ObjectRef};

const ANSWER: Duration = Duration::from_secs(10);

/// The last work of this process.
pub(super) fn last(cx: &Kustomizations, run: &Run<'_>, ks: &Declared, now: Instant) -> Option<Last> {
    let (memory, access) = (&run.memory, cx.access(&run.memory));
    let record = memory.record.as_ref()?;
    let passed = memory.this_run.passed.as_ref();
    let objects = passed.map_or(&record.objects, |(_, objects)| objects);
    Some(Last {
        generation: record.generation,
        revision: record.revision.revision.clone(),
        since: record.since.clone(),
        token: record.token.clone(),
        inputs_hold: true,
        built: record.desired.is_some(),
        empty: record.empty,
        wants: record.wants.clone(),
        applied: record.applied,
        passed: passed.map(|(passed, _)| passed.clone()),
        changed: record.changed,
        reported: reports_ready(run.object(), &record.revision.revision),
        in_progress: reports_progress(run.object(), &record.revision.revision),
        checking_since: record.checking,
        confirmed: record.is_confirmed(ks),
        contests: {
            let others: BTreeSet<&ObjectRef> = record.contests.iter().map(|contest| &contest.other).collect();
            let near: BTreeSet<&ObjectRef> = {
                let graph = cx.kit.ownership();
                others
                    .into_iter()
                    .filter(|other| !graph.is_in_other_shard(other))
                    .collect()
            };
            let contests = record.contests.iter();
            contests
                .map(|contest| (contest.clone(), near.contains(&contest.other)))
                .collect()
        },
        drifted: drifted(&access.view, record)
            .iter()
            .any(|id| memory.corrections.due(id, now) <= now),
        freed: is_freed(cx, access, ks, record) || cx.kit.missing_kinds.is_defined(&object_ref(&ks.key)),
        hope: record.dependency_states != dependency_states(cx, ks),
        checked: ks.wait || !record.checks.is_empty(),
        health: health(cx, access, ks, objects, &record.checks),
        phase: record.phase,
    })
}

/// Whether an object of another owner was released, or an object that had to disappear did.
fn is_freed(cx: &Kustomizations, access: &Access, ks: &Declared, record: &Record) -> bool {
    let gone = |(id, uid): &(ObjectId, String)| match access.view.get(id) {
        Presence::Absent => true,
        Presence::Present(observed) => observed.uid != *uid,
        // nothing watches it: it is tried again in its time
        Presence::Unknown => false,
    };
    record.going.iter().any(gone) || contests::is_freed(cx, access, ks, record)
}

/// Whether the status says that this revision is applied and ready.
fn reports_ready(object: &Kustomization, revision: &str) -> bool {
    let status = object.status.as_ref();
    status.is_some_and(|status| {
        is_true(&status.conditions, ConditionType::Ready)
            && status.observed_generation == object.metadata.generation
            && status.last_applied_revision.as_deref() == Some(revision)
    })
}

/// Whether the status says that this revision is in progress, without health checks.
pub(in crate::kustomization) fn reports_progress(object: &Kustomization, revision: &str) -> bool {
    let Some(status) = &object.status else {
        return false;
    };
    let reconciling = condition(&status.conditions, ConditionType::Reconciling);
    let healthy = condition(&status.conditions, ConditionType::Healthy);
    reconciling.is_some_and(|reconciling| {
        reconciling.status == "True"
            && reconciling.reason == Reason::Progressing.as_str()
            && reconciling.observed_generation == object.metadata.generation
    }) && healthy.is_none_or(|healthy| healthy.status != "Unknown")
        && status.last_attempted_revision.as_deref() == Some(revision)
}

/// The objects that differ from what was applied.
pub(in crate::kustomization) fn drifted<'a>(view: &ScopedView, record: &'a Record) -> Vec<&'a ObjectId> {
    let differs = |held: &Held| match (held.expects, view.get(&held.id)) {
        (Expects::Nothing, _) => false,
        (_, Presence::Unknown) => view.lost(&held.id),
        (_, Presence::Absent) => !held.leaves,
        (Expects::Presence, Presence::Present(_)) => false,
        // a terminating object is awaited: it disappears soon, or stays for its finalizers
        (Expects::Owned(owned), Presence::Present(observed)) => {
            !observed.deleting && !observed.policy.ignored() && observed.owned != owned
        }
    };
    let held = record.objects.iter();
    held.filter(|held| differs(held)).map(|held| &held.id).collect()
}

/// Whether an object exists, and its health under the Kustomization's expressions; none where that is
/// unknown.
pub(in crate::kustomization) fn healthy(
    view: &ScopedView,
    rules: &ObjectRules,
    key: &Key,
    id: &ObjectId,
) -> (Presence, Option<Health>) {
    let judges = rules.judges(key, id);
    let presence = match judges {
        true => view.get_for(key, id),
        false => view.get(id),
    };
    let health = match &presence {
        Presence::Present(observed) if judges => {
            let owner = owner_of(key);
            let stamp = rules.stamp(&owner);
            let judged = observed.judged_by(&owner).filter(|judged| judged.stamp == stamp);
            judged.map(|judged| judged.health.clone())
        }
        Presence::Present(observed) => Some(observed.health.clone()),
        Presence::Absent => Some(Health::not_found()),
        Presence::Unknown => None,
    };
    (presence, health)
}

fn health(
    cx: &Kustomizations,
    access: &Access,
    ks: &Declared,
    objects: &[Held],
    checks: &[ObjectId],
) -> HealthSummary {
    let view = &access.view;
    let state = |id: &ObjectId| {
        let (presence, health) = healthy(view, &cx.rules, &ks.key, id);
        health.unwrap_or_else(|| Health {
            status: Status::Unknown,
            message: match presence {
                Presence::Unknown => view.why(id),
                Presence::Present(_) | Presence::Absent => None,
            }
            .unwrap_or_else(|| "not seen yet".to_owned()),
        })
    };
    // to wait for itself would never end
    let own = |id: &ObjectId| {
        &*id.kind == "Kustomization" && *id.namespace == *ks.key.namespace && *id.name == *ks.key.name
    };
    if ks.wait {
        let ids = objects.iter().filter(|held| held.counts && !own(&held.id));
        let done = |held: &Held| held.leaves && matches!(view.get(&held.id), Presence::Absent);
        verdict(
            ids.filter(|held| !done(held))
                .map(|held| (&held.id, state(&held.id))),
        )
    } else {
        let ids = checks.iter().filter(|id| !own(id) && !cx.kit.is_unreconciled(id));
        verdict(ids.map(|id| (id, state(id))))
    }
}

/// Equate's objects that are still terminating. Objects of kinds without a list permission are polled. An
/// object that cannot be read counts as existing: anything else would be a guess.
pub(super) async fn remaining(cx: &Kustomizations, run: &Run<'_>, ks: &Declared, plan: Arc<Plan>) -> Deleted {
    let (access, owner) = (cx.access(&run.memory), owner_of(&ks.key));
    let remains = |observed: &Observed| {
        let kept = observed.policy.ignored() || !observed.policy.prune;
        observed.owner.as_ref() == Some(&owner) && !kept
    };
    let (mut remaining, mut blind) = (Vec::new(), false);
    for (id, version) in ks.inventory.iter() {
        match access.view.get(id) {
            Presence::Present(observed) if remains(&observed) => remaining.push(id.clone()),
            Presence::Present(_) | Presence::Absent => {}
            Presence::Unknown => match access.cluster.get(id, version, ANSWER).await {
                Ok(None) => {}
                Ok(Some(object)) if !remains(&Observed::of(&object, &KUSTOMIZATION)) => {}
                Ok(Some(_)) | Err(_) => {
                    blind = true;
                    remaining.push(id.clone());
                }
            },
        }
    }
    Deleted {
        plan,
        remaining,
        blind,
    }
}

/// Whether a run is between its stages.
pub(in crate::kustomization) fn is_staged(memory: &Memory) -> bool {
    use crate::kustomization::decide::seen::Phase;
    let record = memory.record.as_ref();
    record.is_some_and(|record| matches!(record.phase, Phase::Staged { .. }))
}
