//! What a decision needs to know, read from memory: the mirrors, the hub, the store. No request is
//! made here, so that looking costs nothing but time.

use std::sync::Arc;

use equate_api::kustomize::Kustomization;
use equate_api::meta::{ConditionType, condition, is_true};
use equate_apply::health::Health;
use equate_apply::id::ObjectId;
use equate_apply::plan::Presence;
use equate_apply::rules::OwnerRules as _;
use equate_kustomize::Inputs;
use kube::Resource as _;
use serde_json::Value;
use tokio::time::Instant;

use super::{Context, artifact};
use crate::cel::Expression;
use crate::dependencies::{self, Dependency, DependencySeen, DependencyState, cycle};
use crate::key::is_name;
use crate::kit::watcher::view::ScopedView;
use crate::kustomization::decide::{Last, Seen, Verdict, verdict};
use crate::kustomization::declaration::source_of;
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::{Artifact, SourceSeen};
use crate::kustomization::inputs::substitute_from::{Values, ValuesError};
use crate::kustomization::inputs::tree::Content;
use crate::kustomization::memory::{Expects, Held, Memory, Record};
use crate::kustomization::reasons::Stall;
use crate::kustomization::rules::ObjectRules;
use crate::kustomization::{object_ref, owner_of};
use crate::ownership::desired::DesiredSet;
use crate::targets::target::Access;
use crate::{Key, ObjectRef};

/// Sees what there is to see before a decision.
pub(super) async fn observe(
    cx: &Context,
    access: &Access,
    ks: &Declared,
    object: &Kustomization,
    memory: &Memory,
    values: Option<&Result<Arc<Values>, ValuesError>>,
) -> (Seen, Option<Artifact>) {
    let now = Instant::now();
    let denied = denied(cx, ks);
    let (source, artifact) = match denied {
        // nor is it told whether there is one
        Some(Stall::CrossNamespace(..)) => (SourceSeen::Absent, None),
        _ => artifact::source(cx, ks, object).await,
    };
    let last = match (&memory.record, &artifact) {
        (Some(record), Some(artifact)) => Some(Last {
            inputs_hold: record.config == access.config && inputs_hold(record, artifact, values),
            ..last(cx, access, ks, memory, record, now)
        }),
        _ => None,
    };
    let expressions = expressions(ks);
    let (expressions, invalid) = match expressions {
        Ok(expressions) => (expressions, None),
        Err(why) => (Vec::new(), Some(Stall::Expression(why))),
    };
    let seen = Seen {
        now,
        source,
        denied,
        invalid: invalid.or_else(|| cx.rules.problem(&ks.key)),
        dependencies: dependencies_seen(cx, ks, object, &expressions, artifact.as_ref()),
        cycle: {
            let index = cx.index();
            let way = cycle(&object_ref(&ks.key), |from| {
                index.depends_on(from).collect::<Vec<_>>()
            });
            way.map(|way| way.iter().map(ObjectRef::key).collect())
        },
        handled_at: object
            .status
            .as_ref()
            .and_then(|status| status.last_handled_reconcile_at.clone()),
        last,
    };
    (seen, artifact)
}

/// What the policy does not let it have.
fn denied(cx: &Context, ks: &Declared) -> Option<Stall> {
    if cx.kit.settings.policy.no_cross_namespace_refs && ks.source.namespace != ks.key.namespace {
        return Some(Stall::CrossNamespace(ks.source_kind, ks.source.clone()));
    }
    let account = ks.account(&cx.kit.settings.policy)?;
    (!is_name(account)).then(|| Stall::Account(account.to_owned()))
}

/// What says that dependencies are ready, in their order; the first that cannot be read, and why.
fn expressions(ks: &Declared) -> Result<Vec<Option<Expression>>, String> {
    let each = ks.ready_exprs.iter().zip(&ks.depends_on);
    dependencies::compile(each.map(|(text, key)| (text.as_deref(), key.name.as_str())))
}

/// An object as an expression sees it.
fn shown(object: &Kustomization) -> Value {
    let mut object = object.clone();
    // long, and nobody's business
    object.metadata.managed_fields = None;
    // what cannot be written has no fields
    let mut shown = serde_json::to_value(object).unwrap_or_default();
    shown["apiVersion"] = Kustomization::api_version(&()).into();
    shown["kind"] = Kustomization::kind(&()).into();
    shown
}

/// Whether what it depends on is ready.
fn dependencies_seen(
    cx: &Context,
    ks: &Declared,
    object: &Kustomization,
    expressions: &[Option<Expression>],
    artifact: Option<&Artifact>,
) -> Vec<(Key, DependencySeen)> {
    let one = |at: usize, key: &Key| {
        let Some(dependency) = cx.kustomizations.get(key) else {
            return DependencySeen::Absent;
        };
        if let Some(Some(expression)) = expressions.get(at) {
            return dependencies::evaluate(expression, &shown(&dependency), &shown(object));
        }
        let status = dependency.status.as_ref();
        let dependency = Dependency {
            source: source_of(&dependency),
            generation: dependency.metadata.generation,
            observed_generation: status.and_then(|status| status.observed_generation),
            ready: status.is_some_and(|status| is_true(&status.conditions, ConditionType::Ready)),
            applied: status.and_then(|status| status.last_applied_revision.as_deref()),
        };
        let revision = artifact.map(|artifact| artifact.revision.revision.as_str());
        dependency.seen_from(&ks.source_ref(), revision)
    };
    let all = ks.depends_on.iter().enumerate();
    all.map(|(at, key)| (key.clone(), one(at, key))).collect()
}

/// What it depends on, as far as that is a reason to try again what failed.
pub(super) fn dependency_states(cx: &Context, ks: &Declared) -> Vec<DependencyState> {
    let one = |key: &Key| {
        let dependency = cx.kustomizations.get(key)?;
        let status = dependency.status.as_ref()?;
        let ready = condition(&status.conditions, ConditionType::Ready)?;
        Some(DependencyState {
            generation: status.observed_generation,
            revision: status.last_applied_revision.clone(),
            ready: ready.status == "True",
            since: ready.last_transition_time.0,
        })
    };
    // one without a word leans on nothing: its first word is another
    ks.depends_on.iter().filter_map(one).collect()
}

/// Whether a build would read what the last one did. Variables that nobody has read now are the same.
fn inputs_hold(
    record: &Record,
    artifact: &Artifact,
    values: Option<&Result<Arc<Values>, ValuesError>>,
) -> bool {
    let same = match values {
        None => true,
        Some(Ok(values)) => record
            .values
            .as_ref()
            .is_some_and(|built| built.is_of(values.stamp())),
        // they could not be read before, either
        Some(Err(_)) => record.values.is_none(),
    };
    let unchanged = |inputs: &Inputs| inputs.unchanged(&Content(artifact.tree.clone()));
    same && (record.tree == artifact.tree.id() || record.inputs.as_ref().is_some_and(unchanged))
}

fn last(
    cx: &Context,
    access: &Access,
    ks: &Declared,
    memory: &Memory,
    record: &Record,
    now: Instant,
) -> Last {
    let freed = {
        let index = cx.index();
        record
            .contests
            .iter()
            .any(|contest| !index.claims(&contest.other, &contest.id))
    };
    let gone = |(id, uid): &(ObjectId, String)| match access.hub.get(id) {
        Presence::Absent => true,
        Presence::Present(observed) => observed.uid != *uid,
        // nobody watches it: it is tried again in its time
        Presence::Unknown => false,
    };
    Last {
        generation: record.generation,
        revision: record.revision.revision.clone(),
        token: record.token.clone(),
        inputs_hold: true,
        drifted: drifted(&access.hub, record)
            .iter()
            .any(|id| memory.corrections.due(id, now) <= now),
        freed: freed || record.going.iter().any(gone),
        hope: record.dependency_states != dependency_states(cx, ks),
        releases: {
            let lingering = &memory.lingering;
            // of a build that says nothing it is not known what it would keep
            let known = matches!(record.wants, Some(DesiredSet::Known(_)));
            known && !lingering.is_empty() && {
                let rest = cx.prune_plan(access, ks, lingering, record.is_confirmed(ks));
                rest.plan.lingering(lingering) != *lingering
            }
        },
        health: health(&access.hub, &cx.rules, ks, record),
        phase: record.phase,
    }
}

/// The objects that are not as they were applied.
pub(super) fn drifted<'a>(hub: &ScopedView, record: &'a Record) -> Vec<&'a ObjectId> {
    let differs = |held: &Held| match (held.expects, hub.get(&held.id)) {
        (Expects::Nothing, _) => false,
        (_, Presence::Unknown) => hub.lost(&held.id),
        (_, Presence::Absent) => !held.leaves,
        (Expects::Presence, Presence::Present(_)) => false,
        // one that goes is waited for: it is gone soon, or stays for its finalizers
        (Expects::Owned(owned), Presence::Present(observed)) => {
            !observed.deleting && !observed.policy.ignored() && observed.owned != owned
        }
    };
    let held = record.objects.iter();
    held.filter(|held| differs(held)).map(|held| &held.id).collect()
}

/// Whether an object is there, and how healthy it is for a Kustomization; none where that is not known
/// in its own words.
pub(super) fn healthy(
    hub: &ScopedView,
    rules: &ObjectRules,
    key: &Key,
    id: &ObjectId,
) -> (Presence, Option<Health>) {
    let judges = rules.judges(key, id);
    let presence = match judges {
        true => hub.get_for(key, id),
        false => hub.get(id),
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

/// How healthy is what has to be.
pub(super) fn health(hub: &ScopedView, rules: &ObjectRules, ks: &Declared, record: &Record) -> Verdict {
    let state = |id: &ObjectId| {
        let (presence, health) = healthy(hub, rules, &ks.key, id);
        health.unwrap_or_else(|| Health {
            status: equate_apply::health::Status::Unknown,
            message: match presence {
                Presence::Unknown => hub.why(id),
                Presence::Present(_) | Presence::Absent => None,
            }
            .unwrap_or_else(|| "not seen yet".to_owned()),
        })
    };
    // to wait for oneself is to wait for ever
    let own = |id: &ObjectId| {
        &*id.kind == "Kustomization" && *id.namespace == *ks.key.namespace && *id.name == *ks.key.name
    };
    if ks.wait {
        let ids = record.objects.iter().filter(|held| held.counts && !own(&held.id));
        let done = |held: &Held| held.leaves && matches!(hub.get(&held.id), Presence::Absent);
        verdict(
            ids.filter(|held| !done(held))
                .map(|held| (&held.id, state(&held.id))),
        )
    } else {
        let ids = record.checks.iter().filter(|id| !own(id));
        verdict(ids.map(|id| (id, state(id))))
    }
}
