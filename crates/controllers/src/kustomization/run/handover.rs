//! Handing objects over between shards: with inventories alone, for nothing else is known there.
//!
//! | | who | when |
//! |---|---|---|
//! | claims | whoever wants it puts it into its inventory | as soon as it is built, also while it waits |
//! | lets go | whoever holds it and does not want it takes it out of its own | as soon as it sees the claim |
//! | takes | the first applies it, and its labels name it | as soon as nobody else holds it |
//!
//! At each moment an inventory has the object, and no step waits for anything else of the other: two that
//! take from each other do, and so does one that depends on the other. A process that is killed finds
//! in the inventories how far it came. Who holds an object and wants it keeps it: the other is then
//! `Contested`, and its claim stands for when that changes.
//!
//! It deletes nothing: that is done when all who read the same source have applied its revision, or
//! hold the object ([`super::prune`]). A claim that is given up before the object was taken leaves
//! it with the labels of one that has let go of it; the claimant may delete it nevertheless.
//!
//! Costs, where there are other shards: one look at each object of a Kustomization for each of its runs,
//! one status for a claim and one for letting go. Within a process nothing of this is needed.

use std::collections::BTreeMap;

use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::owner::Owner;
use equate_apply::plan::Presence;

use super::status::Stop;
use super::{Context, Run};
use crate::ObjectRef;
use crate::kustomization::declared::Declared;
use crate::ownership::desired::DesiredSet;
use crate::ownership::graph::OwnershipGraph;
use crate::targets::target::{Access, TargetCluster};

/// What crosses the border of the shard.
#[derive(Debug, Default)]
struct Exchange {
    /// With the versions that their holders have them in.
    claims: Inventory,
    /// What somebody else claims.
    released: Inventory,
}

impl Run<'_> {
    /// Claims what it wants and other shards hold, lets go of what they claim and it does not want.
    /// Whether that was news.
    pub(super) async fn hand_over(&mut self, ks: &Declared) -> Result<bool, Stop> {
        let crossing = self.exchange(ks);
        if crossing.claims.is_empty() && crossing.released.is_empty() {
            return Ok(false);
        }
        // a want without the right to it counts for nothing
        self.review_own_access(crossing.claims.iter()).await;
        self.review_access(ks, &crossing.released).await;
        let Exchange { claims, released } = self.exchange(ks);
        let held = self.inventory();
        let inventory = held.difference(&released).union(&claims);
        if inventory == held {
            return Ok(false);
        }
        self.memory.lingering = self.memory.lingering.difference(&released);
        self.report_status(ks, |report| report.holding(&inventory))
            .await?;
        Ok(true)
    }

    fn exchange(&self, ks: &Declared) -> Exchange {
        let index = self.cx.index();
        let mut crossing = Exchange::default();
        if !index.has_other_shards() {
            return crossing;
        }
        let Some(state) = index.desired_state(&self.me) else {
            return crossing;
        };
        let current = self.cx.artifact_digest(&ks.source_ref());
        let DesiredSet::Known(wanted) = &state.wants else {
            return crossing;
        };
        if !current.is_some_and(|artifact| state.is_of(ks.generation, &artifact)) {
            return crossing;
        }
        for id in wanted.ids() {
            if !ks.inventory.contains(id)
                && index.reviews.allow(&self.me, id)
                && let Some(version) = self.claimed(&index, id)
            {
                crossing.claims.insert(id.clone(), version);
            }
        }
        for (id, version) in ks.inventory.iter() {
            let taker = || index.taker(id, &self.me);
            if !wanted.contains(id) && taker().is_some_and(|taker| index.is_in_other_shard(taker)) {
                crossing.released.insert(id.clone(), version);
            }
        }
        crossing
    }

    /// The version in which another shard holds an object that is to be taken from it.
    fn claimed(&self, index: &OwnershipGraph, id: &ObjectId) -> Option<String> {
        let mut holders = index.holders(id, &self.me);
        holders.find_map(|key| {
            if !index.is_in_other_shard(key) || !index.claims(key, id) || !self.cx.may_hold(index, key, id) {
                return None;
            }
            // of another kind nobody here knows the versions: it is not claimed
            let holder = Declared::from(&*self.cx.kustomization(key)?);
            holder.inventory.version(id).map(str::to_owned)
        })
    }

    /// Of objects that are not declared any more, those that were let go of for this one, which never
    /// took them.
    pub(super) fn released(&self, gone: &Inventory) -> BTreeMap<ObjectId, Owner> {
        self.cx.released(&self.access, &self.me, gone)
    }
}

impl Context {
    /// Whether one that has an object in its inventory may have applied it: one that impersonates has it
    /// there before it is known whether it may.
    pub(super) fn may_hold(&self, index: &OwnershipGraph, key: &ObjectRef, id: &ObjectId) -> bool {
        let Some(declaration) = index.declaration(key) else {
            return false;
        };
        if !declaration.impersonates {
            return true;
        }
        let owner = index.owner(key);
        match self.kit.objects.get(owner.kind, id) {
            Presence::Present(observed) => observed.owner == Some(owner),
            Presence::Absent => false,
            Presence::Unknown => true,
        }
    }

    /// The same, of any Kustomization.
    pub(super) fn released(
        &self,
        access: &Access,
        of: &ObjectRef,
        gone: &Inventory,
    ) -> BTreeMap<ObjectId, Owner> {
        let index = self.index();
        if !index.has_other_shards() {
            return BTreeMap::new();
        }
        // one that impersonates may not see itself what names another
        let seen = |id: &ObjectId| match access.target {
            TargetCluster::Local => self.here.hub.get(id),
            TargetCluster::Remote(_) | TargetCluster::Unknown => access.hub.get(id),
        };
        let named = gone.ids().filter_map(|id| match seen(id) {
            Presence::Present(observed) => Some((id, observed.owner.clone()?)),
            Presence::Absent | Presence::Unknown => None,
        });
        named
            .filter(|(id, owner)| {
                let key = ObjectRef::from(owner);
                key != *of && index.has_let_go(&key, id, of)
            })
            .map(|(id, owner)| (id.clone(), owner))
            .collect()
    }
}
