//! The owners that declare an object, and those to build before they are known: the input of
//! [`arbitration`].
//!
//! [`arbitration`]: crate::ownership::arbitration

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};

use equate_apply::id::ObjectId;

use super::OwnershipGraph;
use crate::ObjectRef;
use crate::kit::wake::Reason;
use crate::ownership::arbitration::{Contender, Rank, owner};
use crate::ownership::declaration::Declaration;
use crate::ownership::desired::DesiredSet;
use crate::ownership::pending::Pending;
use crate::targets::target::TargetCluster;

/// Bounds the walk to the root: labels may name each other in a cycle.
const DEPTH_MAX: usize = 32;

/// Facts that an owner knows about itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Own<'a> {
    pub(crate) holds: bool,
    pub(crate) named: Option<&'a ObjectRef>,
    pub(crate) artifact: Option<&'a str>,
}

/// Keeps which contenders wait for another of their group: objects are many, and most have the same contenders. Valid
/// while the graph is locked.
#[derive(Debug, Default)]
pub(crate) struct Waiting(HashMap<Vec<ObjectRef>, HashSet<ObjectRef>>);

impl OwnershipGraph {
    /// The other owner in this process that owns an object declared by `by`; `None` if `by` owns it.
    pub(crate) fn owned_by_other<'a>(
        &'a self,
        id: &ObjectId,
        by: &'a ObjectRef,
        own: Own<'_>,
        waiting: &mut Waiting,
    ) -> Option<&'a ObjectRef> {
        let mut claimants = self.claimants(id, by);
        if let Some(claimant) = claimants.find(|other| other.kind != by.kind && self.is_ours(other)) {
            // labels of two kinds decide nothing: the claim does
            return Some(claimant);
        }
        let mut contenders: Vec<Contender> = self.others(id, by, own).collect();
        if contenders.is_empty() {
            return None;
        }
        contenders.push(Contender {
            rank: self.rank(by),
            holds: own.holds || own.named == Some(by) || self.has_taken(by, id),
            waits: false,
            named: own.named == Some(by),
        });
        // a holder keeps it, whoever waits
        if !contenders.iter().any(|contender| contender.holds) {
            let mut all: Vec<ObjectRef> = contenders.iter().map(|each| each.rank.owner()).collect();
            all.sort_unstable();
            let waiting = match waiting.0.entry(all) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let waiting = self.waiting_among(new.key()).cloned().collect();
                    new.insert(waiting)
                }
            };
            for contender in &mut contenders {
                contender.waits = waiting.contains(&contender.rank.owner());
            }
        }
        let owner = owner(&contenders)?.owner();
        let (owner, _) = self.declarations.get_key_value(&owner)?;
        (owner != by).then_some(owner)
    }

    /// The contenders that wait for another one. Costs the owners that wait for any of them.
    fn waiting_among<'a>(&'a self, contenders: &'a [ObjectRef]) -> impl Iterator<Item = &'a ObjectRef> {
        let all: HashSet<&ObjectRef> = contenders.iter().collect();
        let mut waiting = HashSet::new();
        // from the contenders to those that wait for them. Two for each owner are enough: at
        // least one is not the owner itself
        let mut known: HashMap<&ObjectRef, [Option<&ObjectRef>; 2]> = HashMap::new();
        let mut next: Vec<(&ObjectRef, &ObjectRef)> = contenders.iter().map(|one| (one, one)).collect();
        while let Some((owner, contender)) = next.pop() {
            let dependents = self.relations.dependents.of(owner);
            waiting.extend(
                dependents
                    .clone()
                    .filter(|other| *other != contender && all.contains(other)),
            );
            // to wait for a parent with `spec.wait` is to wait for its children
            let parent = self
                .declarations
                .get(owner)
                .and_then(|known| known.parent.as_ref());
            let parent =
                parent.filter(|parent| self.declarations.get(*parent).is_some_and(|known| known.waits));
            for other in dependents.chain(parent) {
                let awaited = known.entry(other).or_default();
                let is_new = !awaited.contains(&Some(contender));
                if let Some(place) = awaited.iter_mut().find(|place| place.is_none() && is_new) {
                    *place = Some(contender);
                    next.push((other, contender));
                }
            }
        }
        waiting.into_iter()
    }

    /// All owners that an owner waits for, each once: its dependencies, theirs, and the children of
    /// those with `spec.wait`.
    fn awaited_by<'a>(&'a self, owner: &'a ObjectRef) -> impl Iterator<Item = &'a ObjectRef> {
        let mut seen = BTreeSet::from([owner]);
        let mut next: Vec<&ObjectRef> = self.depends_on(owner).collect();
        std::iter::from_fn(move || {
            loop {
                let owner = next.pop()?;
                if !seen.insert(owner) {
                    continue;
                }
                next.extend(self.depends_on(owner));
                if self.declarations.get(owner).is_some_and(|known| known.waits) {
                    next.extend(self.relations.children.of(owner));
                }
                return Some(owner);
            }
        })
    }

    /// The others that may apply an object to the same cluster and hold it, or want it from the same
    /// artifact.
    fn others<'a>(
        &'a self,
        id: &'a ObjectId,
        by: &'a ObjectRef,
        own: Own<'a>,
    ) -> impl Iterator<Item = Contender> + 'a {
        let related = self.wanting.of(id).chain(self.relations.holders.of(id));
        let related: BTreeSet<&ObjectRef> = related.chain(self.taken.by(id)).collect();
        related.into_iter().filter_map(move |other| {
            let declaration = self.declarations.get(other)?;
            let counts =
                other != by && !declaration.deleting && self.is_ours(other) && self.share_target(other, by);
            let named = own.named == Some(other);
            // labels prove that it applied the object; a want or an inventory alone gives no right
            if !counts || !(named || self.reviews.allow(other, id)) {
                return None;
            }
            let holds = self.has(other, id);
            let wants = !declaration.suspended
                && self.reads(other) == self.reads(by)
                && self.applies(other, id)
                && own
                    .artifact
                    .is_some_and(|artifact| self.is_built(other, artifact));
            (holds || wants).then(|| Contender {
                rank: self.rank(other),
                holds,
                waits: false,
                named,
            })
        })
    }

    fn is_ours(&self, owner: &ObjectRef) -> bool {
        !self.other_shards.contains(owner)
    }

    fn reads(&self, owner: &ObjectRef) -> Option<&ObjectRef> {
        self.declarations.get(owner).map(|known| &known.source)
    }

    fn applies_here(&self, owner: &ObjectRef) -> bool {
        self.target(owner) == Some(&TargetCluster::Local)
    }

    /// Whether no other owner of the same cluster has taken one of these objects.
    pub(crate) fn are_free<'a>(&self, mut ids: impl Iterator<Item = &'a ObjectId>, by: &ObjectRef) -> bool {
        let taken = |id: &ObjectId| {
            let other = self.taken.by(id);
            other
                .is_some_and(|other| other != by && self.has_taken(other, id) && self.share_target(other, by))
        };
        !ids.any(taken)
    }

    fn applies(&self, owner: &ObjectRef, id: &ObjectId) -> bool {
        let state = self.desired_states.get(owner);
        state.is_some_and(|state| state.wants(id) && !state.ignores(id))
    }

    /// Whether an owner has an object, or is about to write it.
    pub(crate) fn has(&self, owner: &ObjectRef, id: &ObjectId) -> bool {
        self.claims(owner, id) || self.has_taken(owner, id)
    }

    /// Whether an owner began to apply an object without a holder, and still wants it.
    pub(crate) fn has_taken(&self, owner: &ObjectRef, id: &ObjectId) -> bool {
        let known = self.declarations.get(owner);
        let resting = known.is_none_or(|known| known.suspended || known.deleting);
        !resting && self.taken.by(id) == Some(owner) && self.applies(owner, id)
    }

    /// An owner that has to be built from the current artifact before `first` is known to be the first
    /// that wants objects in these namespaces (`""` for cluster-scoped ones). It comes before `first`,
    /// or `first` waits for it.
    pub(crate) fn pending_before(
        &mut self,
        artifact: &str,
        first: &ObjectRef,
        namespaces: &BTreeSet<&str>,
    ) -> Option<Pending> {
        let source = self.reads(first)?.clone();
        if self.pending.artifact(&source) != Some(artifact) {
            let readers = self.relations.readers.of(&source);
            let unbuilt = readers.filter(|owner| self.is_unbuilt(owner, artifact));
            let ranks = unbuilt.map(|owner| self.rank(owner)).collect();
            self.pending.learn(&source, artifact, ranks);
        }
        let may_want = |owner: &ObjectRef| {
            let target = self.declarations.get(owner);
            let target = target.and_then(|known| known.target_namespace.as_deref());
            let within = target.is_none_or(|target| namespaces.contains(target) || namespaces.contains(""));
            within && self.may_share_access(owner, first)
        };
        let awaited = self.awaited_by(first);
        let awaited =
            awaited.filter(|owner| self.reads(owner) == Some(&source) && self.is_unbuilt(owner, artifact));
        let awaited = awaited.map(|owner| Pending {
            owner: owner.clone(),
            parent: None,
        });
        let own = self.rank(first);
        let mut pending = self.pending.before(&source, &own).chain(awaited);
        pending.find(|pending| may_want(&pending.owner))
    }

    /// Whether two owners may apply to one cluster. An owner whose cluster is unknown counts if both use
    /// the same kubeconfig: no owner waits for the cluster of another tenant.
    fn may_share_access(&self, one: &ObjectRef, other: &ObjectRef) -> bool {
        let way = |owner: &ObjectRef| {
            let known = self.declarations.get(owner)?;
            known.kube_config.as_ref()
        };
        let same_way = way(one).is_some() && one.namespace == other.namespace && way(one) == way(other);
        same_way || self.share_target(one, other)
    }

    /// Whether an owner will be built from an artifact and is not yet.
    fn is_unbuilt(&self, owner: &ObjectRef, artifact: &str) -> bool {
        let Some(known) = self.declarations.get(owner) else {
            return false;
        };
        if known.deleting || known.suspended || !self.is_ours(owner) {
            return false;
        }
        let unreached = self.announcements.is_unreached(owner, known.generation, artifact);
        !unreached && !self.is_built(owner, artifact)
    }

    fn is_built(&self, owner: &ObjectRef, artifact: &str) -> bool {
        let known = self.declarations.get(owner).zip(self.desired_states.get(owner));
        known.is_some_and(|(known, state)| state.is_of(known.generation, artifact))
    }

    fn rank(&self, owner: &ObjectRef) -> Rank {
        let parent = |owner: &ObjectRef| {
            let parent = self.declarations.get(owner)?.parent.as_ref()?;
            self.declarations.contains_key(parent).then_some(parent)
        };
        let above = std::iter::successors(parent(owner), |above| parent(above));
        Rank::new(above.take(DEPTH_MAX).count(), owner)
    }

    fn rank_of_child(&self, parent: &ObjectRef, child: &ObjectRef) -> Rank {
        Rank::new(self.rank(parent).depth() + 1, child)
    }

    /// Updates whether an owner is built from the artifact that others asked about.
    pub(super) fn refresh_pending(&mut self, owner: &ObjectRef) {
        if let Some(known) = self.declarations.get(owner)
            && let Some(artifact) = self.pending.artifact(&known.source)
        {
            let is_unbuilt = self.is_unbuilt(owner, artifact);
            let rank = self.rank(owner);
            self.pending.set(&known.source, rank, is_unbuilt);
        }
    }

    /// Notes the start of an apply: the declared children will appear. Children in another cluster are
    /// no owners here, and nothing would ever report them.
    pub(crate) fn begin_apply(&mut self, owner: &ObjectRef) {
        if !self.applies_here(owner) {
            return self.pending.begin(owner, std::iter::empty());
        }
        let state = self.desired_states.get(owner);
        let Some((state, objects)) = state.and_then(|state| match &state.wants {
            DesiredSet::Known(objects) => Some((state, objects)),
            DesiredSet::Unknown(_) => None,
        }) else {
            return self.pending.begin(owner, std::iter::empty());
        };
        let formed: BTreeSet<&ObjectId> = state.forms.iter().map(|(id, _)| id).collect();
        let coming = objects
            .appliers
            .iter()
            .filter(|child| !formed.contains(&child.id));
        let coming = coming.filter_map(|child| {
            let rank = self.rank_of_child(owner, &child.owner);
            Some((rank, child.source.clone()?))
        });
        let coming: Vec<(Rank, ObjectRef)> = coming.collect();
        self.pending.begin(owner, coming.into_iter());
    }

    pub(crate) fn child_applied(&mut self, parent: &ObjectRef, child: &ObjectRef, generation: i64) {
        if !self.applies_here(parent) {
            return;
        }
        let rank = self.rank_of_child(parent, child);
        let known = self.declarations.get(child);
        if known.is_some_and(|known| known.generation >= generation) {
            self.pending.seen(&rank, generation);
        } else {
            self.pending.applied(parent, &rank, generation);
        }
    }

    /// Notes the end of an apply. Returns the owners that waited for the children.
    pub(crate) fn end_apply(&mut self, owner: &ObjectRef) -> Vec<(ObjectRef, Reason)> {
        match self.pending.end(owner) {
            true => self.announcements.listeners_of(owner).collect(),
            false => Vec::new(),
        }
    }

    /// Updates the order and the pending builds after a change of an owner.
    pub(super) fn reorder(
        &mut self,
        owner: &ObjectRef,
        before: Option<&Declaration>,
        now: Option<&Declaration>,
    ) {
        if let Some(before) = before
            && now.is_none_or(|now| now.source != before.source)
        {
            self.pending.forget_source(&before.source);
        }
        let parent = |declaration: Option<&Declaration>| declaration.and_then(|known| known.parent.clone());
        let (old, new) = (parent(before), parent(now));
        let moved = before.is_some() && old != new;
        let leads = before.is_some() != now.is_some() && self.relations.children.of(owner).next().is_some();
        if moved || leads {
            self.pending.forget_order();
        }
        if let Some(now) = now
            && before.is_none_or(|before| before.generation != now.generation)
        {
            let rank = match &new {
                Some(parent) => self.rank_of_child(parent, owner),
                None => Rank::new(0, owner),
            };
            self.pending.seen(&rank, now.generation);
        }
    }
}

#[cfg(test)]
mod tests;
