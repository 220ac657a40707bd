//! Which other owners take, claim or need objects, as the plan wants to know it: by the owner that labels
//! would name.

use std::collections::{BTreeMap, BTreeSet};

use equate_apply::container::Container;
use equate_apply::id::ObjectId;
use equate_apply::owner::Owner;
use equate_apply::plan::Presence;

use super::graph::{Need, OwnershipGraph};
use crate::ObjectRef;

/// Who takes which of the objects.
pub(crate) fn takers<'a>(
    graph: &OwnershipGraph,
    owner: &ObjectRef,
    ids: impl Iterator<Item = &'a ObjectId>,
) -> BTreeMap<ObjectId, Owner> {
    ids.filter_map(|id| Some((id.clone(), graph.owner(graph.taker(id, owner)?))))
        .collect()
}

/// Who holds which of the objects and does not let go of it.
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

/// Which of the objects would take with them what somebody needs.
pub(crate) fn needed<'a>(
    graph: &OwnershipGraph,
    owner: &ObjectRef,
    ids: impl Iterator<Item = &'a ObjectId>,
    presence: impl Fn(&ObjectId) -> Presence,
    need: Need,
) -> BTreeMap<ObjectId, (Owner, ObjectId)> {
    ids.filter_map(|id| {
        // most objects are none: the cluster is not looked at for them
        Container::of(id, &Presence::Unknown)?;
        let container = Container::of(id, &presence(id))?;
        let (by, object) = graph.needs(&container, owner, need).next()?;
        Some((id.clone(), (graph.owner(by), object.clone())))
    })
    .collect()
}
