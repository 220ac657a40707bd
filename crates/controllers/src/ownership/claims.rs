//! Who of the other Kustomizations takes, claims or needs objects, as the plan wants to know it: by the
//! owner that labels would name.

use std::collections::{BTreeMap, BTreeSet};

use equate_apply::container::Container;
use equate_apply::id::ObjectId;
use equate_apply::owner::Owner;
use equate_apply::plan::Presence;

use super::graph::{Need, OwnershipGraph};
use crate::Key;
use crate::kustomization::owner_of;

/// Who takes which of the objects.
pub(crate) fn takers<'a>(
    index: &OwnershipGraph,
    key: &Key,
    ids: impl Iterator<Item = &'a ObjectId>,
) -> BTreeMap<ObjectId, Owner> {
    owners(ids, |id| index.taker(id, key))
}

/// Who holds which of the objects and does not let go of it.
pub(crate) fn claimants<'a>(
    index: &OwnershipGraph,
    key: &Key,
    ids: impl Iterator<Item = &'a ObjectId>,
) -> BTreeSet<(ObjectId, Owner)> {
    ids.flat_map(|id| index.claimants(id, key).map(|key| (id.clone(), owner_of(key))))
        .collect()
}

fn owners<'a, 'i>(
    ids: impl Iterator<Item = &'a ObjectId>,
    of: impl Fn(&ObjectId) -> Option<&'i Key>,
) -> BTreeMap<ObjectId, Owner> {
    ids.filter_map(|id| of(id).map(|key| (id.clone(), owner_of(key))))
        .collect()
}

/// Which of the objects would take with them what somebody needs.
pub(crate) fn needed<'a>(
    index: &OwnershipGraph,
    key: &Key,
    ids: impl Iterator<Item = &'a ObjectId>,
    presence: impl Fn(&ObjectId) -> Presence,
    need: Need,
) -> BTreeMap<ObjectId, (Owner, ObjectId)> {
    ids.filter_map(|id| {
        // most objects are none: the cluster is not looked at for them
        Container::of(id, &Presence::Unknown)?;
        let container = Container::of(id, &presence(id))?;
        let (by, object) = index.needs(&container, key, need).next()?;
        Some((id.clone(), (owner_of(by), object.clone())))
    })
    .collect()
}
