//! The other owners that take, claim or need objects, in the form that a plan needs: by labels.

use std::collections::{BTreeMap, BTreeSet};

use equate_apply::container::Container;
use equate_apply::id::ObjectId;
use equate_apply::owner::Owner;
use equate_apply::plan::Presence;

use super::graph::{Need, OwnershipGraph};
use crate::ObjectRef;

/// The objects that other owners take.
pub(crate) fn takers<'a>(
    graph: &OwnershipGraph,
    owner: &ObjectRef,
    ids: impl Iterator<Item = &'a ObjectId>,
) -> BTreeMap<ObjectId, Owner> {
    ids.filter_map(|id| Some((id.clone(), graph.owner(graph.taker(id, owner)?))))
        .collect()
}

/// The objects that other owners hold and still want.
pub(crate) fn claimants<'a>(
    graph: &OwnershipGraph,
    owner: &ObjectRef,
    ids: impl Iterator<Item = &'a ObjectId>,
) -> BTreeSet<(ObjectId, Owner)> {
    ids.flat_map(|id| {
        let claimants = graph.claimants(id, owner);
        claimants.map(|other| (id.clone(), graph.owner(other)))
    })
    .collect()
}

/// The objects whose deletion would delete an object that an owner needs.
pub(crate) fn needed<'a>(
    graph: &OwnershipGraph,
    owner: &ObjectRef,
    ids: impl Iterator<Item = &'a ObjectId>,
    presence: impl Fn(&ObjectId) -> Presence,
    need: Need,
) -> BTreeMap<ObjectId, (Owner, ObjectId)> {
    ids.filter_map(|id| {
        // most objects are no containers: no lookup in the cluster
        Container::of(id, &Presence::Unknown)?;
        let container = Container::of(id, &presence(id))?;
        let (by, object) = graph.needs(&container, owner, need).next()?;
        Some((id.clone(), (graph.owner(by), object.clone())))
    })
    .collect()
}
