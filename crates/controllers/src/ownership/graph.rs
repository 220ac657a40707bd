//! Who has to run when an object that applies others, or a source, changes: pure, kept beside the mirrors.
//!
//! Relations, each looked up from its other end: what reads a source, what depends on an object, what
//! holds a managed object, what wants it, and what would hold it if another did not. A change is answered
//! with the objects to wake, so that one artifact wakes those that read it and nobody else. They are of
//! all kinds that apply objects: a HelmRelease and a Kustomization may want the same.
//!
//! To hold an object is to have it in the inventory; to want it, in the last build. Who holds an
//! object and is known not to want it any more has let go of it: another may take it, though its
//! labels still name the first.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use equate_apply::container::Container;
use equate_apply::id::ObjectId;
use equate_apply::owner::{Owner, OwnerKind};

use super::access_reviews::AccessReviews;
use super::announcements::{Announcements, BuiltFrom};
use super::contest::Contest;
use super::declaration::Declaration;
use super::desired::{DesiredSet, DesiredState};
use super::pending::PendingBuilds;
use super::relations::{Relation, Relations};
use super::taken::TakenObjects;
use crate::ObjectRef;
use crate::kit::inputs::InputRef;
use crate::kit::wake::Reason;
use crate::targets::target::TargetCluster;

/// When an object is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// As long as it may be there: what its holder is about to delete as well is gone first.
    Now,
    /// When all is done that is wanted.
    Lasting,
}

/// The relations.
#[derive(Debug, Default)]
pub struct OwnershipGraph {
    /// Those that other processes reconcile: seen, never woken.
    other_shards: HashSet<ObjectRef>,
    declarations: HashMap<ObjectRef, Declaration>,
    /// How the objects of each kind mark what they apply.
    owner_kinds: BTreeMap<&'static str, &'static OwnerKind>,
    relations: Relations,
    /// What each object wants and another holds.
    contests: BTreeMap<ObjectRef, Vec<Contest>>,
    /// What each object wants, as far as it is known.
    desired_states: BTreeMap<ObjectRef, DesiredState>,
    /// Who is known to want an object.
    wanting: Relation<ObjectId>,
    /// Who waits to learn what others want.
    pub(crate) announcements: Announcements,
    /// The clusters of those that apply elsewhere, as far as they are known.
    targets: HashMap<ObjectRef, TargetCluster>,
    /// Who may write what it wants.
    pub(crate) reviews: AccessReviews,
    /// Who has to be built before it is known who has an object that nobody holds.
    pub(crate) pending: PendingBuilds,
    /// Objects that nobody held when an owner began to apply them.
    pub(crate) taken: TakenObjects,
}

impl OwnershipGraph {
    /// Whether another process reconciles an object.
    pub fn is_in_other_shard(&self, key: &ObjectRef) -> bool {
        self.other_shards.contains(key)
    }

    /// Whether there are any of those.
    pub fn has_other_shards(&self) -> bool {
        !self.other_shards.is_empty()
    }

    /// Whether one of another shard is there and does not hold an object any more.
    pub fn has_let_go(&self, key: &ObjectRef, id: &ObjectId, for_whom: &ObjectRef) -> bool {
        let known = self.declarations.get(key);
        let free = known.is_some_and(|declaration| !declaration.holds.contains(id));
        free && self.is_in_other_shard(key) && self.share_target(key, for_whom)
    }

    /// What an object says of itself.
    pub fn declaration(&self, object: &ObjectRef) -> Option<&Declaration> {
        self.declarations.get(object)
    }

    /// All objects that apply others, with what they say of themselves; in no order.
    pub fn declarations(&self) -> impl Iterator<Item = (&ObjectRef, &Declaration)> {
        self.declarations.iter()
    }

    /// The user that an object acts as in this cluster, if it impersonates one.
    pub fn user(&self, object: &ObjectRef) -> Option<&str> {
        self.declarations.get(object)?.user.as_deref()
    }

    /// An object as the owner of others.
    ///
    /// One of a kind that nobody has declared yet is an owner all the same: what is kept for it must not
    /// be deleted because little is known of it.
    pub fn owner(&self, object: &ObjectRef) -> Owner {
        static UNDECLARED: OwnerKind = OwnerKind {
            kind: "object",
            field_manager: "",
            name_label: "",
            namespace_label: "",
        };
        let kind = self.owner_kinds.get(object.kind).copied().unwrap_or(&UNDECLARED);
        Owner::new(kind, &*object.namespace, &*object.name)
    }

    /// Takes in what an object says of itself by now, nothing if it is gone: who has to run. `why` it runs
    /// itself, if it has to.
    pub fn changed(
        &mut self,
        object: &ObjectRef,
        why: Option<Reason>,
        now: Option<Declaration>,
    ) -> Vec<(ObjectRef, Reason)> {
        let known = self.declarations.contains_key(object);
        let was_ours = !self.other_shards.remove(object) && known;
        if let Some(now) = &now {
            self.owner_kinds.insert(object.kind, now.owner);
            if !now.ours {
                self.other_shards.insert(object.clone());
            }
        }
        let mut wakes: Vec<_> = why.map(|why| (object.clone(), why)).into_iter().collect();
        self.wake_affected(object, now, &mut wakes);
        self.refresh_pending(object);
        // one that was ours runs once more, to be forgotten
        wakes.retain(|(woken, _)| !self.other_shards.contains(woken) || (woken == object && was_ours));
        wakes
    }

    fn wake_affected(
        &mut self,
        object: &ObjectRef,
        now: Option<Declaration>,
        wakes: &mut Vec<(ObjectRef, Reason)>,
    ) {
        if now.is_none() {
            // gone without our finalizer: what is remembered of it goes with it
            wakes.push((object.clone(), Reason::Deleted));
        }
        let before = self.declarations.get(object);
        let change = DeclarationChange::between(before, now.as_ref());
        let dependents = self.relations.dependents.of(object);
        // who asks in own words may ask for anything
        let affected = dependents.filter(|dependent| {
            let depends = || self.declarations.get(*dependent);
            change.as_dependency || depends().is_some_and(|declaration| declaration.uses_ready_expr)
        });
        wakes.extend(affected.map(|dependent| (dependent.clone(), Reason::Dependency)));
        let elsewhere = self.other_shards.contains(object);
        if elsewhere && let Some(now) = &now {
            let before = before.map(|before| &*before.holds);
            wakes.extend(self.claimed(before, &now.holds));
        }
        let freed = self.replace(object, now);
        if elsewhere && change.announcement {
            // its status is all it says; what it is waited for with stays
            self.announcements.forget_surveys();
            wakes.extend(self.announcements.listeners_of(object));
        } else if change.differs() && !change.gone {
            // what it has matters to whom it keeps from deleting what that is in, and how it is to
            // whom it is to take something from
            wakes.extend(self.announcements.listeners_of(object));
        }
        for contender in self.contenders(&freed) {
            wakes.push((contender, Reason::Object));
        }
        if change.gone {
            wakes.extend(self.forget(object));
        } else if change.deletion || change.spec {
            // deleted it says no more: nobody waits for it, and what it held is free; suspended it wants
            // nothing that nobody holds, and one that waits for others comes after them
            wakes.extend(self.wake_on_release(object));
        }
    }

    /// Who holds what another shard's has in its inventory by now.
    fn claimed(
        &self,
        before: Option<&BTreeSet<ObjectId>>,
        now: &BTreeSet<ObjectId>,
    ) -> BTreeSet<(ObjectRef, Reason)> {
        let claims = now
            .iter()
            .filter(|id| before.is_none_or(|before| !before.contains(*id)));
        let holders = claims.flat_map(|id| self.ours(self.relations.holders.of(id)));
        holders.map(|key| (key, Reason::Dependency)).collect()
    }

    /// Forgets what an object that is gone said: who waited for a word of it.
    pub fn forget(&mut self, key: &ObjectRef) -> Vec<(ObjectRef, Reason)> {
        self.announcements.outdate_surveys();
        if let Some(state) = self.desired_states.remove(key) {
            self.wanting.unlink(state.wanted().iter(), key);
        }
        self.announcements.forget(key);
        self.reviews.forget(key);
        self.targets.remove(key);
        self.taken.forget(key);
        self.pending.forget(key);
        self.refresh_pending(key);
        let mut wakes = self.contest(key, &[]);
        wakes.extend(self.wake_on_release(key));
        wakes
    }

    /// Notes what an object wants: who waited for that.
    pub fn set_desired(&mut self, key: &ObjectRef, state: DesiredState) -> Vec<(ObjectRef, Reason)> {
        let before = self.desired_states.get(key);
        if before == Some(&state) {
            // what it was waited for with may have been taken back
            return match self.announcements.is_awaited(key) {
                true => self.announcements.spoken(key),
                false => Vec::new(),
            };
        }
        let same = before.is_some_and(|before| before.wants == state.wants);
        let from = |state: &DesiredState| (state.generation, state.artifact.clone());
        let declares = matches!(&state.wants, DesiredSet::Known(objects) if !objects.appliers.is_empty());
        // that all is applied is news of those only who declare owners of others
        if !same || declares || before.map(from) != Some(from(&state)) {
            self.announcements.outdate_surveys();
        }
        if !same {
            if let Some(before) = before {
                let left = before.wanted().iter().filter(|id| !state.wants(id));
                self.wanting.unlink(left, key);
            }
            self.wanting.link(state.wanted().iter(), key);
        }
        self.desired_states.insert(key.clone(), state);
        self.announcements.built(key);
        self.refresh_pending(key);
        if self.pending.is_applying(key) {
            self.begin_apply(key);
        }
        match same {
            true => self.announcements.spoken(key),
            false => self.wake_on_release(key),
        }
    }

    /// What an object was last known to want.
    pub fn desired_state(&self, key: &ObjectRef) -> Option<&DesiredState> {
        self.desired_states.get(key)
    }

    /// Notes that an object could not be built from this, for the API server could not be
    /// asked: who waited for it.
    pub fn unreached(&mut self, key: &ObjectRef, from: BuiltFrom) -> Vec<(ObjectRef, Reason)> {
        if !self.announcements.unreached(key, from) {
            return Vec::new();
        }
        self.refresh_pending(key);
        self.announcements.spoken(key)
    }

    /// Notes that this process has looked at a source: what its status names is what it has now.
    /// Who waited for that.
    pub fn looked(&mut self, source: ObjectRef) -> Vec<(ObjectRef, Reason)> {
        if !self.announcements.looked(&source) {
            return Vec::new();
        }
        let readers = self.relations.readers.of(&source);
        readers.flat_map(|key| self.announcements.spoken(key)).collect()
    }

    /// It may want less than before: also those look who contest something of it.
    fn wake_on_release(&mut self, key: &ObjectRef) -> Vec<(ObjectRef, Reason)> {
        let mut wakes = self.announcements.spoken(key);
        let contesting = self
            .contests
            .iter()
            .filter(|(_, list)| list.iter().any(|contest| contest.other == *key));
        wakes.extend(contesting.map(|(other, _)| (other.clone(), Reason::Object)));
        wakes
    }

    /// Who holds an object beside this one, whether or not it still wants it.
    pub fn holders<'a>(&'a self, id: &ObjectId, but: &'a ObjectRef) -> impl Iterator<Item = &'a ObjectRef> {
        let holders = self.relations.holders.of(id);
        holders.filter(move |key| *key != but && self.share_target(key, but))
    }

    /// Notes in which cluster an object applies.
    pub fn set_target(&mut self, key: &ObjectRef, target: &TargetCluster) {
        let before = match target {
            TargetCluster::Local | TargetCluster::Unknown => self.targets.remove(key),
            TargetCluster::Remote(_) => self.targets.insert(key.clone(), target.clone()),
        };
        if before.as_ref().unwrap_or(&TargetCluster::Local) != target {
            self.announcements.outdate_surveys();
        }
    }

    /// In which cluster an object applies, if that is known.
    fn target(&self, key: &ObjectRef) -> Option<&TargetCluster> {
        match self.declarations.get(key) {
            Some(declaration) if declaration.remote => self.targets.get(key),
            _ => Some(&TargetCluster::Local),
        }
    }

    /// Whether two apply to the same cluster: else objects of one name are not the same.
    fn share_target(&self, one: &ObjectRef, other: &ObjectRef) -> bool {
        let target = self.target(one);
        target.is_some() && target == self.target(other)
    }

    /// Whether an object applies to a cluster, or may.
    pub(crate) fn may_share_target(&self, key: &ObjectRef, target: &TargetCluster) -> bool {
        match self.target(key) {
            Some(its) => its == target,
            None => *target != TargetCluster::Local,
        }
    }

    /// Whether an owner holds an object and has not let go of it.
    pub fn claims(&self, key: &ObjectRef, id: &ObjectId) -> bool {
        let declaration = self.declarations.get(key);
        let holds =
            declaration.is_some_and(|declaration| !declaration.deleting && declaration.holds.contains(id));
        holds && !self.desired_states.get(key).is_some_and(|state| state.leaves(id))
    }

    /// Who else holds an object and does not let go of it. More than one may have it in the
    /// inventory; whose it is, its labels say.
    ///
    /// Labels of two kinds may be on one object, and say nothing then: of two kinds that both claim it,
    /// the first in order has it.
    pub fn claimants<'a>(&'a self, id: &ObjectId, but: &'a ObjectRef) -> impl Iterator<Item = &'a ObjectRef> {
        let held = self.holders(id, but);
        let (id, claimed) = (id.clone(), self.claims(but, id));
        held.filter(move |other| {
            let behind = claimed && other.kind != but.kind && but < other;
            !behind && self.claims(other, &id)
        })
    }

    /// Who needs objects that would go with a container, and which: those that another holds, or
    /// that another or this one wants. A walk over all that is wanted and held.
    pub fn needs<'a>(
        &'a self,
        container: &'a Container,
        by: &'a ObjectRef,
        need: Need,
    ) -> impl Iterator<Item = (&'a ObjectRef, &'a ObjectId)> {
        let deleting = |key: &ObjectRef| {
            self.declarations
                .get(key)
                .is_none_or(|declaration| declaration.deleting)
        };
        let desired_states = self.desired_states.iter();
        let desired_states =
            desired_states.filter(move |(key, _)| !deleting(key) && self.share_target(key, by));
        let wanted = desired_states.flat_map(|(key, state)| {
            let wanted = match &state.wants {
                DesiredSet::Known(objects) => Some(objects.ids().iter()),
                DesiredSet::Unknown(_) => None,
            };
            wanted.into_iter().flatten().map(move |id| (key, id))
        });
        let others = self.declarations.iter();
        let others = others.filter(move |(key, _)| *key != by && self.share_target(key, by));
        let held = others.flat_map(move |(key, declaration)| {
            let counts = move |id: &&ObjectId| need == Need::Now || self.claims(key, id);
            declaration.holds.iter().filter(counts).map(move |id| (key, id))
        });
        let within = |(key, id): &(&ObjectRef, &ObjectId)| {
            container.contains(id) && self.reviews.allow_within(key, id)
        };
        wanted.chain(held).filter(within)
    }

    /// Who else wants an object, and so takes it from one who does not.
    pub fn taker<'a>(&'a self, id: &ObjectId, but: &'a ObjectRef) -> Option<&'a ObjectRef> {
        let deleting = |key: &ObjectRef| {
            self.declarations
                .get(key)
                .is_none_or(|declaration| declaration.deleting)
        };
        let may = |key: &&ObjectRef| self.reviews.allow(key, id);
        let mut wanting = self.wanting.of(id);
        let wanting =
            wanting.find(|key| *key != but && self.share_target(key, but) && !deleting(key) && may(key));
        wanting.or_else(|| self.claimants(id, but).find(may))
    }

    /// Who else wants an object or claims it, whether or not it may.
    pub fn rivals<'a>(&'a self, id: &ObjectId, but: &'a ObjectRef) -> impl Iterator<Item = &'a ObjectRef> {
        let wanting = self.wanting.of(id);
        let wanting = wanting.filter(move |key| *key != but && self.share_target(key, but));
        wanting.chain(self.claimants(id, but))
    }

    /// Who of ours reads a source.
    pub fn readers(&self, source: &ObjectRef) -> Vec<ObjectRef> {
        self.ours(self.relations.readers.of(source))
    }

    /// Who of ours reads any source of a kind.
    pub fn readers_of(&self, kind: &str) -> Vec<ObjectRef> {
        let readers = self.relations.readers.iter();
        let readers = readers.filter(|(source, _)| source.kind == kind);
        readers.flat_map(|(_, keys)| self.ours(keys)).collect()
    }

    /// Who of ours takes values from a ConfigMap or Secret.
    pub fn fed_by(&self, holder: &InputRef) -> Vec<ObjectRef> {
        self.ours(self.relations.input_readers.of(holder))
    }

    fn ours<'a>(&self, all: impl IntoIterator<Item = &'a ObjectRef>) -> Vec<ObjectRef> {
        let ours = all.into_iter().filter(|key| !self.other_shards.contains(*key));
        ours.cloned().collect()
    }

    /// Notes what an owner wants and others hold, all of it: which others have to say so.
    pub fn contest(&mut self, key: &ObjectRef, contests: &[Contest]) -> Vec<(ObjectRef, Reason)> {
        let others = |list: &[Contest]| {
            list.iter()
                .map(|contest| contest.other.clone())
                .collect::<BTreeSet<_>>()
        };
        let before = match contests.is_empty() {
            true => self.contests.remove(key),
            false => self.contests.insert(key.clone(), contests.to_vec()),
        };
        let before = before.unwrap_or_default();
        if before == contests {
            return Vec::new();
        }
        let told = &others(&before) | &others(contests);
        let told = told
            .into_iter()
            .filter(|other| !self.other_shards.contains(other));
        told.map(|other| (other, Reason::Object)).collect()
    }

    /// What an owner holds and others want.
    pub fn contested(&self, key: &ObjectRef) -> Vec<Contest> {
        let mut contested: Vec<Contest> = self
            .contests
            .iter()
            .flat_map(|(other, list)| {
                let ours = list.iter().filter(|contest| contest.other == *key);
                ours.map(|contest| Contest {
                    id: contest.id.clone(),
                    other: other.clone(),
                })
            })
            .collect();
        contested.sort();
        contested
    }

    /// What an object depends on.
    pub fn depends_on(&self, key: &ObjectRef) -> impl Iterator<Item = &ObjectRef> {
        self.declarations
            .get(key)
            .into_iter()
            .flat_map(|declaration| &declaration.depends_on)
    }

    /// Puts what an object says of itself in place of what it said before; the objects it let go of.
    fn replace(&mut self, object: &ObjectRef, now: Option<Declaration>) -> Vec<ObjectId> {
        let before = self.declarations.remove(object);
        let inputs = before.as_ref().map(Declaration::build_inputs);
        if inputs != now.as_ref().map(Declaration::build_inputs) {
            self.announcements.outdate_surveys();
            // what it is waited for with is another
            self.announcements.stop_awaiting(object);
            self.reviews.forget(object);
        }
        let freed = self.relations.replace(object, before.as_ref(), now.as_ref());
        if let Some(now) = &now {
            self.taken.recorded(object, &now.holds);
        }
        self.reorder(object, before.as_ref(), now.as_ref());
        if let Some(now) = now {
            self.declarations.insert(object.clone(), now);
        }
        freed
    }

    fn contenders(&self, freed: &[ObjectId]) -> BTreeSet<ObjectRef> {
        if freed.is_empty() || self.contests.is_empty() {
            return BTreeSet::new();
        }
        let freed: BTreeSet<&ObjectId> = freed.iter().collect();
        let wanting = self
            .contests
            .iter()
            .filter(|(_, list)| list.iter().any(|c| freed.contains(&c.id)));
        wanting.map(|(key, _)| key.clone()).collect()
    }
}

/// What is different about what an object says of itself.
struct DeclarationChange {
    gone: bool,
    /// Its deletion was asked for just now.
    deletion: bool,
    /// For those who depend on it.
    as_dependency: bool,
    /// For those to whom its status is all there is.
    announcement: bool,
    holds: bool,
    suspended: bool,
    /// Its spec, of one that was known.
    spec: bool,
}

impl DeclarationChange {
    fn between(before: Option<&Declaration>, now: Option<&Declaration>) -> Self {
        let deleting = |declaration: Option<&Declaration>| declaration.is_some_and(|d| d.deleting);
        let suspended = |declaration: Option<&Declaration>| declaration.is_some_and(|d| d.suspended);
        Self {
            gone: now.is_none(),
            deletion: deleting(now) && !deleting(before),
            as_dependency: before.map(Declaration::as_dependency) != now.map(Declaration::as_dependency),
            announcement: before.map(Declaration::announcement) != now.map(Declaration::announcement),
            holds: before.is_some_and(|before| now.is_none_or(|now| before.holds != now.holds)),
            suspended: suspended(before) != suspended(now),
            spec: before.is_some_and(|before| now.is_some_and(|now| before.generation != now.generation)),
        }
    }

    fn differs(&self) -> bool {
        self.holds || self.as_dependency || self.suspended
    }
}

mod contenders;
pub(crate) use self::contenders::Own;

#[cfg(test)]
pub(crate) mod tests;
