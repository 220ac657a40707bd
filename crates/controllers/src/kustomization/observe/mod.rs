//! Observes the facts for a decision. Most come from memory: mirrors, watches, the store, the ownership graph. A
//! run begins with the few requests; from then on watches report changes.
//!
//! | file | observes |
//! |---|---|
//! | `access` | the target cluster and the identity |
//! | `values` | ConfigMaps and Secrets |
//! | `artifact` | the artifact of the source |
//! | `dependencies` | the dependencies |
//! | `state` | applied objects: drift, health |
//! | `follow`, `reinspect` | the kinds of the objects, and objects observed under other rules |
//! | `objects` | the objects of a plan |
//! | `survey`, `questions` | the others' desired states, and questions about their permissions |
//! | `contests` | declared objects that another owner has |
//! | `exchange` | objects to exchange with other shards |
//!
//! It writes nothing. Observing others subscribes to their changes: these wake the Kustomization.

pub(super) mod access;
mod artifact;
pub(super) mod contests;
mod dependencies;
pub(super) mod exchange;
pub(super) mod follow;
pub(super) mod objects;
pub(super) mod questions;
pub(super) mod reinspect;
pub(super) mod state;
pub(super) mod survey;
pub(super) mod values;

use std::ops::ControlFlow;
use std::sync::Arc;

use equate_api::meta::{ConditionType, is_true};
use equate_apply::inventory::Inventory;
use tokio::time::Instant;

use super::decide::deletion::deletes;
use super::decide::objects::{Kinds, Objects};
use super::decide::seen::{Ahead, Deletion, Last, Phase, Prerequisites, Seen, Since};
use super::declared::Declared;
use super::inputs::artifact::{Artifact, SourceSeen};
use super::memory::{Memory, ObservedPrerequisites, Record};
use super::reasons::Stall;
use super::{Kustomizations, Run, object_ref};
use crate::Key;
use crate::ObjectRef;
use crate::dependencies::CycleSearch;
use crate::key::is_name;
use crate::kit::wake::Reason;
use crate::ownership::desired::{DesiredSet, undeclared};

pub(super) use dependencies::dependency_states;

pub(super) async fn observe(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared) -> Seen {
    if !run.memory.this_run.begun {
        begin(cx, run, ks).await;
    }
    let looked = prerequisites(cx, run, ks).await;
    let artifact = looked.artifact.as_ref();
    let holds = artifact.is_some_and(|artifact| inputs_hold(&run.memory, artifact));
    let current = holds && is_of(&run.memory, ks) && !ks.deleting && !ks.suspend;
    let staged = current && run.memory.this_run.no_access.is_none() && is_built(&run.memory);
    if staged {
        run.memory.renew();
    }
    if staged && run.memory.this_run.passed.is_some() {
        // checked objects that no watch covers
        access::observe_unwatched(cx, run).await;
    } else if staged && run.memory.this_run.kinds.is_none() {
        follow_build(cx, run, ks).await;
    }
    if let Err(failure) = reinspect::judge(cx, run, ks, std::iter::empty()).await {
        // its health counts as unknown
        tracing::debug!(key = %ks.key, %failure, "cannot read an object again");
    }
    let deletion = deletion(cx, run, ks).await;
    let now = Instant::now();
    let last = artifact.and_then(|_| {
        let last = state::last(cx, run, ks, now)?;
        Some(Last {
            inputs_hold: holds,
            ..last
        })
    });
    let objects = match (ks.deleting, current) {
        (true, _) => deleted_objects(cx, run, ks),
        (false, true) => objects(cx, run, ks, now),
        (false, false) => None,
    };
    let status = run.object().status.as_ref();
    let memory = &run.memory;
    Seen {
        began: run.began,
        deferrable: run.reasons.contains(Reason::Source) && !run.reasons.contains(Reason::Deferred),
        no_access: memory.this_run.no_access.clone(),
        request: run.request().map(str::to_owned),
        ready: status.is_some_and(|status| is_true(&status.conditions, ConditionType::Ready)),
        exchange: exchange::exchange(cx, memory, ks, || own_wants(cx, ks, memory, &looked, current)),
        last,
        ahead: ahead(memory, ks, artifact),
        since: Since {
            missing: memory.waiting,
            others: memory.surveying_since,
            terminating_until: memory.terminating,
        },
        dependency_retry: cx.kit.settings.dependency_retry,
        objects,
        deletion,
        prerequisites: looked.prerequisites,
    }
}

/// Observations once in a run, with requests where the reason of the run calls for them.
async fn begin(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared) {
    cx.rules.set(run.key(), &run.object().spec);
    cx.rules.compiled(run.key(), &cx.kit.processors).await;
    access::connect(cx, run, ks).await;
    run.memory.this_run.begun = true;
    if run.reasons.iter().any(observes_unwatched) {
        access::observe_unwatched(cx, run).await;
    }
    values::refresh(cx, run, ks).await;
}

/// Whether the run's reason calls for polling objects that no watch covers.
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

/// The prerequisites of a build; observed once in a run for one spec.
async fn prerequisites(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared) -> ObservedPrerequisites {
    let known = run.memory.this_run.prerequisites.as_ref();
    if let Some(known) = known.filter(|known| known.generation == ks.generation) {
        return known.clone();
    }
    let denied = denied(cx, ks);
    let (source, artifact) = match denied {
        // a reference that the policy denies does not reveal whether its object exists
        Some(Stall::CrossNamespace(..)) => (SourceSeen::Absent, None),
        _ => artifact::source(cx, ks, run.request()).await,
    };
    let (dependencies, invalid) = dependencies::look(cx, run, ks, artifact.as_ref()).await;
    let looked = {
        let graph = cx.kit.ownership();
        let source = ks.source_ref();
        !cx.kit.sources.serves(&source) || graph.announcements.is_source_checked(&source)
    };
    let looked = ObservedPrerequisites {
        generation: ks.generation,
        prerequisites: Arc::new(Prerequisites {
            source,
            // facts about a tree belong to its artifact, even if the source has a newer one by now
            published: match &artifact {
                Some(artifact) => Some(artifact.digest.clone()),
                None => cx.artifact_digest(&ks.source_ref()),
            },
            looked,
            dependencies,
            cycle: cycle(cx, ks).await,
            denied,
            identity_gate: cx.kit.settings.policy.workload_identity.enabled,
            invalid: invalid.or_else(|| cx.rules.problem(&ks.key).map(Stall::from)),
        }),
        artifact,
    };
    run.memory.this_run.prerequisites = Some(looked.clone());
    looked
}

/// The cycle of dependencies through a Kustomization. A long search is work for a processor, and locks the graph
/// for a step at a time.
async fn cycle(cx: &Kustomizations, ks: &Declared) -> Option<Vec<Key>> {
    if ks.depends_on.is_empty() {
        return None;
    }
    let (kit, me) = (Arc::clone(&cx.kit), object_ref(&ks.key));
    let mut own = kit.ownership().dependencies_of(&[&me]);
    let mut search = CycleSearch::new(me, own.pop().unwrap_or_default());
    let step = move |search: &mut CycleSearch| search.step(|owners| kit.ownership().dependencies_of(owners));
    let mut end = ControlFlow::Continue(());
    while end.is_continue() && search.is_short() {
        end = step(&mut search);
    }
    let found = match end {
        ControlFlow::Break(way) => way,
        ControlFlow::Continue(()) => {
            let work = move |go_on: &dyn Fn() -> bool| {
                while go_on() {
                    if let ControlFlow::Break(way) = step(&mut search) {
                        return way;
                    }
                }
                None
            };
            let (processors, limit) = (&cx.kit.processors, cx.kit.settings.timeout_max);
            // without an answer there is no cycle to report; its members wait for each other
            let searched = processors.paced(&ks.key.namespace, limit, work).await;
            searched.unwrap_or_default()
        }
    };
    // dependencies may have changed between two steps; the next look finds another cycle
    let way = found.filter(|way| cx.kit.ownership().is_way(way))?;
    Some(way.iter().map(ObjectRef::key).collect())
}

fn denied(cx: &Kustomizations, ks: &Declared) -> Option<Stall> {
    let policy = &cx.kit.settings.policy;
    if policy.no_cross_namespace_refs && ks.source.namespace != ks.key.namespace {
        return Some(Stall::CrossNamespace(ks.source_kind, ks.source.clone()));
    }
    let account = ks.account(policy)?;
    (!is_name(account)).then(|| Stall::Account(account.to_owned()))
}

/// Whether a build would have the last one's inputs. Variables that were not read again count as the same.
fn inputs_hold(memory: &Memory, artifact: &Artifact) -> bool {
    let Some(record) = &memory.record else {
        return false;
    };
    let config = memory.this_run.access.as_ref().and_then(|access| access.config);
    let same = match &memory.this_run.values {
        None => true,
        Some(Ok(values)) => record
            .values
            .as_ref()
            .is_some_and(|built| built.is_of(values.stamp())),
        // they could not be read before, either
        Some(Err(_)) => record.values.is_none(),
    };
    record.config == config && same && record.reads_the_same(&artifact.tree)
}

fn is_of(memory: &Memory, ks: &Declared) -> bool {
    let record = memory.record.as_ref();
    record.is_some_and(|record| record.generation == ks.generation)
}

fn is_built(memory: &Memory) -> bool {
    let record = memory.record.as_ref();
    record.is_some_and(|record| record.desired.is_some() && matches!(record.phase, Phase::Staged { .. }))
}

/// Watches the kinds of a build.
async fn follow_build(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared) {
    let desired = run
        .memory
        .record
        .as_ref()
        .and_then(|record| record.desired.clone());
    let desired = desired.unwrap_or_default();
    let kinds = match follow::follow(cx, run, ks, &desired, &ks.inventory).await {
        Ok(kinds) => kinds,
        Err(failure) => Kinds {
            trouble: Some(failure),
            ..Kinds::default()
        },
    };
    run.memory.this_run.kinds = Some(match run.memory.this_run.defined {
        true => Kinds {
            unserved: Default::default(),
            ..kinds
        },
        false => kinds,
    });
}

/// The build that this process made without carrying it out.
fn ahead(memory: &Memory, ks: &Declared, artifact: Option<&Artifact>) -> Ahead {
    if memory.this_run.ahead_unreached {
        return Ahead::Unreached;
    }
    let prepared = memory.prepared.as_ref().zip(artifact);
    let prepared = prepared.filter(|(prepared, artifact)| {
        let values = memory.this_run.values.as_ref();
        prepared.is_of(ks.generation, &artifact.tree)
            && values.is_none_or(|read| prepared.is_with(read.as_ref().ok()))
    });
    let wants = prepared.and_then(|(prepared, _)| prepared.wants.clone());
    wants.map_or(Ahead::Missing, Ahead::Wants)
}

/// Its known desired state for its source's present artifact.
fn own_wants(
    cx: &Kustomizations,
    ks: &Declared,
    memory: &Memory,
    looked: &ObservedPrerequisites,
    current: bool,
) -> OwnWants {
    let is_newest = || looked.prerequisites.published == cx.artifact_digest(&ks.source_ref());
    if memory.this_run.no_access.is_some() || !is_newest() {
        return OwnWants::Unknown;
    }
    match (&looked.artifact, current) {
        (Some(_), true) => {
            let record = memory.record.as_ref();
            OwnWants::Are(record.and_then(|record| record.wants.clone()))
        }
        (Some(_), false) => OwnWants::Are(memory.prepared.as_ref().and_then(|built| built.wants.clone())),
        // the announcement for the same artifact remains valid
        (None, _) if matches!(looked.prerequisites.source, SourceSeen::Fetching { .. }) => {
            OwnWants::AsAnnounced
        }
        (None, _) => OwnWants::Unknown,
    }
}

/// A Kustomization's own desired state, for its claims.
pub(super) enum OwnWants {
    Unknown,
    Are(Option<DesiredSet>),
    /// The last announcement.
    AsAnnounced,
}

/// The objects of a plan for the build that is carried out.
fn objects(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared, now: Instant) -> Option<Objects> {
    let record = run.memory.record.as_ref()?;
    match (record.phase, &record.wants) {
        (Phase::Staged { .. }, _) => {
            let desired = Arc::clone(record.desired.as_ref()?);
            match run.memory.this_run.no_access.is_some() {
                true => None,
                false if run.memory.this_run.passed.is_some() => {
                    let gone = undeclared(&desired, &ks.inventory);
                    Some(objects::of_undeclared(cx, run, ks, gone))
                }
                false => Some(objects::of_build(cx, run, ks, desired, now)),
            }
        }
        (Phase::Failed { retry: None }, _) => None,
        (Phase::Unconfirmed, Some(DesiredSet::Known(wanted))) if !record.is_confirmed(ks) => {
            let gone = ks.inventory.iter().filter(|(id, _)| !wanted.contains(id));
            let gone: Inventory = gone
                .map(|(id, version)| (id.clone(), version.to_owned()))
                .collect();
            Some(objects::of_undeclared(cx, run, ks, gone))
        }
        (Phase::Unconfirmed, _) => None,
        (_, Some(DesiredSet::Known(_))) if !run.memory.lingering.is_empty() => {
            let lingering = run.memory.lingering.clone();
            Some(objects::of_undeclared(cx, run, ks, lingering))
        }
        _ => None,
    }
}

/// The objects that are deleted with a Kustomization.
fn deleted_objects(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared) -> Option<Objects> {
    let this_run = &run.memory.this_run;
    let asked = deletes(ks) && ks.unreadable.is_none();
    let asked = asked && this_run.no_access.is_none() && this_run.deleted.is_none();
    asked.then(|| objects::of_undeclared(cx, run, ks, ks.inventory.clone()))
}

async fn deletion(cx: &Kustomizations, run: &Run<'_>, ks: &Declared) -> Deletion {
    let this_run = &run.memory.this_run;
    Deletion {
        acts_as: ks.account(&cx.kit.settings.policy).is_some(),
        prepared: this_run.deletion,
        deleted: match &this_run.deleted {
            Some(plan) => Some(state::remaining(cx, run, ks, Arc::clone(plan)).await),
            None => None,
        },
    }
}

impl Record {
    /// Whether a build of a tree would have the same inputs.
    fn reads_the_same(&self, tree: &equate_source::Tree) -> bool {
        let content = || super::inputs::tree::Content(tree.clone());
        let unchanged = |inputs: &equate_kustomize::Inputs| inputs.unchanged(&content());
        self.tree == tree.id() || self.inputs.as_ref().is_some_and(unchanged)
    }
}
