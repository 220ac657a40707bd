//! The objects of a plan: declared and held ones, their state in the cluster, and the other Kustomizations'
//! claims, as a snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::owner::Owner;
use equate_apply::plan::{Live, Presence, PruneBudgetCheck};
use tokio::time::Instant;

use super::contests::assign;
use super::exchange::released;
use super::follow::version;
use super::questions::{own_questions, questions, rival_questions};
use super::survey::{holders, survey};
use crate::ObjectRef;
use crate::kustomization::decide::objects::{Objects, Others};
use crate::kustomization::declared::Declared;
use crate::kustomization::memory::Memory;
use crate::kustomization::{Kustomizations, Run, object_ref, owner_of};
use crate::ownership::claims::{claimants, needed, takers};
use crate::ownership::desired::{Watched, undeclared};
use crate::ownership::graph::{Need, OwnershipGraph};

/// The declared objects, and those that are held without being declared.
pub(super) fn of_build(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    desired: Arc<Vec<Desired>>,
    now: Instant,
) -> Objects {
    let gone = undeclared(&desired, &ks.inventory);
    let me = object_ref(&ks.key);
    let memory = &run.memory;
    let record = memory.record.as_ref();
    let revision = record.map(|record| record.revision.revision.clone());
    let mut objects = Objects {
        revision: revision.unwrap_or_default(),
        may_be_empty: record.is_some_and(|record| record.is_named(ks.allow_empty.as_deref())),
        applies: Arc::clone(&memory.applies),
        backing_off: memory.corrections.backing_off(now),
        kinds: memory.this_run.kinds.clone().unwrap_or_default(),
        ..of_gone(cx, memory, ks, &gone)
    };
    {
        let mut graph = cx.kit.ownership();
        let declared = || desired.iter().map(|desired| (&desired.id, version(desired)));
        let own_questions = own_questions(cx, &graph, memory, &ks.key, declared());
        let own_questions = own_questions.and(rival_questions(cx, &graph, (memory, ks), &desired));
        let holders = holders(cx, &mut graph, (memory, ks), &desired, now);
        match holders {
            // the last owner of an object says first whether it releases it: only its announcement wakes
            // this one
            Some((holders, watched)) => {
                graph.announcements.watch(&me, watched);
                objects.others.holders = Some(holders);
            }
            None => {
                let assignment = assign(cx, &mut graph, (memory, ks), &desired, now);
                objects.assigned = assignment.assigned;
                match assignment.earlier {
                    Some((earlier, watched)) => {
                        graph.announcements.watch(&me, watched);
                        objects.others.earlier = Some(earlier);
                    }
                    None => {
                        objects.unclaimed = assignment.open;
                        look_at_others(
                            cx,
                            &mut graph,
                            (memory, ks),
                            &gone,
                            &mut objects,
                            Subscription::Wakes,
                        );
                    }
                }
            }
        }
        objects.others.own_questions = own_questions;
        objects.claims = claimants(&graph, &me, desired.iter().map(|desired| &desired.id));
    }
    let view = &cx.access(memory).view;
    let ids = desired
        .iter()
        .map(|desired| &desired.id)
        .chain(ks.inventory.ids());
    objects.live = ids.map(|id| (id.clone(), view.get(id))).collect();
    objects.desired = desired;
    objects.held = ks.inventory.clone();
    if let Some(check) = &objects.prune_check {
        run.memory.this_run.held_before = Some(check.held);
    }
    objects
}

/// The objects that are no longer declared. Changes that matter to them wake the Kustomization.
pub(super) fn of_undeclared(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    gone: Inventory,
) -> Objects {
    look(cx, &run.memory, ks, gone, Subscription::Wakes)
}

/// The same for a status: without wake-ups and questions.
pub(in crate::kustomization) fn of_lingering(cx: &Kustomizations, memory: &Memory, ks: &Declared) -> Objects {
    look(cx, memory, ks, memory.lingering.clone(), Subscription::Nothing)
}

/// Whether observing others subscribes to their changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subscription {
    Wakes,
    Nothing,
}

fn look(
    cx: &Kustomizations,
    memory: &Memory,
    ks: &Declared,
    gone: Inventory,
    subscription: Subscription,
) -> Objects {
    let mut objects = of_gone(cx, memory, ks, &gone);
    {
        let mut graph = cx.kit.ownership();
        look_at_others(cx, &mut graph, (memory, ks), &gone, &mut objects, subscription);
    }
    let view = &cx.access(memory).view;
    objects.live = gone.ids().map(|id| (id.clone(), view.get(id))).collect();
    objects.held = gone;
    objects
}

fn of_gone(cx: &Kustomizations, memory: &Memory, ks: &Declared, gone: &Inventory) -> Objects {
    let confirmed = memory
        .record
        .as_ref()
        .is_some_and(|record| record.is_confirmed(ks));
    let braked = !(confirmed || ks.deleting || gone.is_empty());
    Objects {
        owner: owner_of(&ks.key),
        revision: String::new(),
        desired: Arc::default(),
        held: Inventory::default(),
        live: Live::default(),
        applies: Arc::default(),
        prune: ks.prune || ks.deleting,
        // whether a revision is empty is a question about all of it
        may_be_empty: true,
        prune_check: braked.then(|| prune_check(cx, memory, ks)),
        claims: BTreeSet::new(),
        assigned: BTreeMap::new(),
        unclaimed: Vec::new(),
        takers: BTreeMap::new(),
        needed: BTreeMap::new(),
        released: released_to(cx, memory, ks, gone),
        backing_off: BTreeMap::new(),
        others: Others::default(),
        kinds: Default::default(),
    }
}

fn released_to(
    cx: &Kustomizations,
    memory: &Memory,
    ks: &Declared,
    gone: &Inventory,
) -> BTreeMap<ObjectId, Owner> {
    released(
        cx,
        &cx.kit.ownership(),
        cx.access(memory),
        &object_ref(&ks.key),
        gone,
    )
}

fn prune_check(cx: &Kustomizations, memory: &Memory, ks: &Declared) -> PruneBudgetCheck {
    let view = &cx.access(memory).view;
    // an object that is only written down and does not exist is not held
    let held = || {
        ks.inventory
            .ids()
            .filter(|id| view.get(id) != Presence::Absent)
            .count()
    };
    PruneBudgetCheck {
        budget: ks.prune_budget,
        held: memory.this_run.held_before.unwrap_or_else(held),
    }
}

/// The others' claims on objects that are no longer declared, if anything may be deleted.
fn look_at_others(
    cx: &Kustomizations,
    graph: &mut OwnershipGraph,
    (memory, ks): (&Memory, &Declared),
    gone: &Inventory,
    objects: &mut Objects,
    subscription: Subscription,
) {
    let (access, me) = (cx.access(memory), object_ref(&ks.key));
    if objects.prune && !gone.is_empty() {
        let survey = survey(cx, graph, ks, &access.target);
        if subscription == Subscription::Wakes {
            objects.others.questions = questions(cx, graph, (memory, ks), gone, &survey);
        }
        let survey = survey.without_unauthorized(&graph.reviews, gone);
        objects.others.unbuilt =
            survey.unannounced(|key, since| graph.announcements.is_unannounced(key, since));
        objects.others.awaited = survey.awaited().map(|object| graph.owner(object));
        objects.others.survey = survey;
        objects.takers = takers(graph, &me, gone.ids());
        let presence = |id: &ObjectId| access.view.get(id);
        objects.needed = needed(graph, &me, gone.ids(), presence, Need::Now);
    }
    if subscription == Subscription::Wakes {
        let mut of = objects.others.survey.listens_to();
        let needing = objects.needed.values().map(|(by, _)| by);
        of.extend(objects.takers.values().chain(needing).map(ObjectRef::from));
        let until = objects.others.survey.until;
        graph.announcements.watch(&me, Watched { of, until });
    }
}
