//! Hands objects over between shards. Only inventories are known there.
//!
//! | step | actor and action | time |
//! |---|---|---|
//! | claim | the claimant adds the object to its inventory | when it is built, even while it waits |
//! | release | the holder removes the object from its inventory | when it sees the claim, unless it wants it |
//! | take | the claimant applies it, and its labels name it | when nobody else holds it |
//!
//! At each moment an inventory has the object. No step waits for anything else of the other, so two that take from each
//! other make progress. A killed process finds the progress in the inventories. A holder that wants the object keeps
//! it: the claimant is then `OwnershipConflict`, and its claim remains.
//!
//! It deletes nothing. Deletions wait until all readers of the same source have applied its revision, or
//! hold the object (`survey`). A claim that is given up early leaves the labels of the former holder; the claimant may
//! still delete the object.
//!
//! Cost with several shards: one lookup per object and run, one status for a claim and one for a release.
//! Within a process none of this is needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use equate_api::kustomize::Kustomization;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::owner::Owner;
use equate_apply::plan::Presence;

use super::OwnWants;
use super::questions::{own_questions, questions};
use super::survey::survey;
use crate::ObjectRef;
use crate::kustomization::decide::seen::{Exchange, Questions};
use crate::kustomization::declared::Declared;
use crate::kustomization::memory::Memory;
use crate::kustomization::{KUSTOMIZATION, Kustomizations, object_ref};
use crate::ownership::desired::{BuiltObjects, DesiredSet};
use crate::ownership::graph::OwnershipGraph;
use crate::targets::target::{Access, TargetCluster};

/// Objects to claim from other shards, and objects to release to them.
pub(super) fn exchange(
    cx: &Kustomizations,
    memory: &Memory,
    ks: &Declared,
    own: impl FnOnce() -> OwnWants,
) -> Exchange {
    let mut graph = cx.kit.ownership();
    if !graph.has_other_shards() {
        return Exchange::default();
    }
    let wants = match own() {
        OwnWants::Unknown => None,
        OwnWants::Are(wants) => wants,
        OwnWants::AsAnnounced => {
            let state = graph.desired_state(&object_ref(&ks.key));
            let current = cx.artifact_digest(&ks.source_ref());
            let state = state.filter(|state| current.is_some_and(|now| state.is_of(ks.generation, &now)));
            state.map(|state| state.wants.clone())
        }
    };
    match wants {
        Some(DesiredSet::Known(wanted)) => crossing(cx, &mut graph, (memory, ks), &wanted),
        Some(DesiredSet::Unknown(_)) | None => Exchange::default(),
    }
}

fn crossing(
    cx: &Kustomizations,
    graph: &mut OwnershipGraph,
    (memory, ks): (&Memory, &Declared),
    wanted: &BuiltObjects,
) -> Exchange {
    let (mut claims, mut released) = (Inventory::default(), Inventory::default());
    let me = object_ref(&ks.key);
    for id in wanted.ids() {
        if !ks.inventory.contains(id)
            && graph.reviews.allow(&me, id)
            && let Some(version) = claimed(cx, graph, &me, id)
        {
            claims.insert(id.clone(), version);
        }
    }
    for (id, version) in ks.inventory.iter() {
        let taker = || graph.taker(id, &me);
        if !wanted.contains(id) && taker().is_some_and(|taker| graph.is_in_other_shard(taker)) {
            released.insert(id.clone(), version);
        }
    }
    // a claim without the permission to write does not count
    let own = own_questions(cx, graph, memory, &ks.key, claims.iter());
    let theirs = match released.is_empty() || !(ks.prune || ks.deleting) {
        true => Questions::default(),
        false => {
            let survey = survey(cx, graph, ks, &cx.access(memory).target);
            questions(cx, graph, (memory, ks), &released, &survey)
        }
    };
    Exchange {
        claims,
        released,
        questions: own.and(theirs),
    }
}

/// The API version in which another shard holds an object.
fn claimed(cx: &Kustomizations, graph: &OwnershipGraph, of: &ObjectRef, id: &ObjectId) -> Option<String> {
    let mut holders = graph.holders(id, of);
    holders.find_map(|key| {
        if !graph.is_in_other_shard(key) || !graph.claims(key, id) || !cx.may_hold(graph, key, id) {
            return None;
        }
        // the versions of other kinds are unknown here: no claim
        let holder = Declared::from(&*cx.kustomization(key)?);
        holder.inventory.version(id).map(str::to_owned)
    })
}

impl Kustomizations {
    fn kustomization(&self, object: &ObjectRef) -> Option<Arc<Kustomization>> {
        let ours = object.kind == KUSTOMIZATION.kind;
        ours.then(|| self.mirror.get(&object.key())).flatten()
    }

    /// Whether the holder of an object in an inventory may have applied it. An impersonating one has it
    /// there before its permission is known.
    pub(super) fn may_hold(&self, graph: &OwnershipGraph, key: &ObjectRef, id: &ObjectId) -> bool {
        let Some(declaration) = graph.declaration(key) else {
            return false;
        };
        if !declaration.impersonates {
            return true;
        }
        let owner = graph.owner(key);
        match self.kit.objects.get(owner.kind, id) {
            Presence::Present(observed) => observed.owner == Some(owner),
            Presence::Absent => false,
            Presence::Unknown => true,
        }
    }
}

/// Undeclared objects that were released for a Kustomization which never took them.
pub(super) fn released(
    cx: &Kustomizations,
    graph: &OwnershipGraph,
    access: &Access,
    of: &ObjectRef,
    gone: &Inventory,
) -> BTreeMap<ObjectId, Owner> {
    if !graph.has_other_shards() {
        return BTreeMap::new();
    }
    // an impersonating one may not see which owner an object names
    let seen = |id: &ObjectId| match access.target {
        TargetCluster::Local => cx.here.view.get(id),
        TargetCluster::Remote(_) | TargetCluster::Unknown => access.view.get(id),
    };
    let named = gone.ids().filter_map(|id| match seen(id) {
        Presence::Present(observed) => Some((id, observed.owner.clone()?)),
        Presence::Absent | Presence::Unknown => None,
    });
    named
        .filter(|(id, owner)| {
            let key = ObjectRef::from(owner);
            key != *of && graph.has_let_go(&key, id, of)
        })
        .map(|(id, owner)| (id.clone(), owner))
        .collect()
}
