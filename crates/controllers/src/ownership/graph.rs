//! Which owners have to run after a change of an owner or a source. Pure; kept beside the mirrors.
//!
//! The relations between owners, sources and managed objects are indexed by their other end, so one
//! artifact wakes only its readers. Owners are of any kind: a HelmRelease and a Kustomization may want
//! the same object.
//!
//! An owner *holds* the objects of its inventory and *wants* those of its last build. If it is known not
//! to want an object that it holds, it has released it: another may take it, although the labels still
//! name the first.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use equate_apply::container::Container;
use equate_apply::id::ObjectId;
use equate_apply::owner::{Owner, OwnerKind};

use super::access_reviews::AccessReviews;
use super::announcements::{Announcements, BuiltFrom};
use super::contest::{AllContests, Contests};
use super::declaration::Declaration;
use super::desired::{DesiredSet, DesiredState};
use super::other_shards::is_at;
use super::pending::PendingBuilds;
use super::relations::{Relation, Relations};
use super::taken::TakenObjects;
use crate::ObjectRef;
use crate::kit::inputs::InputRef;
use crate::kit::shrink::shrink;
use crate::kit::wake::Reason;
use crate::targets::target::TargetCluster;

/// How long an object is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// While it may exist: objects that its holder is about to delete go first.
    Now,
    /// After all desired changes are done.
    Lasting,
}

/// The relations between owners.
#[derive(Debug, Default)]
pub struct OwnershipGraph {
    /// Owners that other processes reconcile. They are never woken.
    other_shards: HashSet<ObjectRef>,
    declarations: HashMap<ObjectRef, Declaration>,
    /// How each kind of owner marks its objects.
    owner_kinds: BTreeMap<&'static str, &'static OwnerKind>,
    relations: Relations,
    contests: AllContests,
    desired_states: BTreeMap<ObjectRef, DesiredState>,
    wanting: Relation<ObjectId>,
    pub(crate) announcements: Announcements,
    targets: HashMap<ObjectRef, TargetCluster>,
    pub(crate) reviews: AccessReviews,
    pub(crate) pending: PendingBuilds,
    pub(crate) taken: TakenObjects,
}

impl OwnershipGraph {
    /// Whether another process reconciles an owner.
    pub fn is_in_other_shard(&self, key: &ObjectRef) -> bool {
        self.other_shards.contains(key)
    }

    /// Whether other processes reconcile any owners.
    pub fn has_other_shards(&self) -> bool {
        !self.other_shards.is_empty()
    }

    /// Whether an owner of another shard exists and does not hold an object any more.
    pub fn has_let_go(&self, key: &ObjectRef, id: &ObjectId, for_whom: &ObjectRef) -> bool {
        let known = self.declarations.get(key);
        let free = known.is_some_and(|declaration| !declaration.holds.contains(id));
        free && self.is_in_other_shard(key) && self.share_target(key, for_whom)
    }

    /// The declaration of an owner.
    pub fn declaration(&self, object: &ObjectRef) -> Option<&Declaration> {
        self.declarations.get(object)
    }

    /// All owners with their declarations, unordered.
    pub fn declarations(&self) -> impl Iterator<Item = (&ObjectRef, &Declaration)> {
        self.declarations.iter()
    }

    /// The user that an owner impersonates in this cluster.
    pub fn user(&self, object: &ObjectRef) -> Option<&str> {
        self.declarations.get(object)?.user.as_deref()
    }

    /// The owner of objects that this reference names.
    ///
    /// A kind without declarations is still an owner: its objects must not be deleted because little is
    /// known.
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

    /// Replaces the declaration of an owner (`None` if it is gone) and returns the owners to run. `why`
    /// is the reason for the owner itself, if it has to run.
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
            // gone without our finalizer: its memory goes with it
            wakes.push((object.clone(), Reason::Deleted));
        }
        let before = self.declarations.get(object);
        let change = DeclarationChange::between(before, now.as_ref());
        let dependents = self.relations.dependents.of(object);
        // a `readyExpr` may read any field
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
            // its status is its only announcement; the awaited announcement stays
            self.announcements.forget_surveys();
            wakes.extend(self.announcements.listeners_of(object));
        } else if change.differs() && !change.gone {
            // its inventory matters to owners that keep a container for it, and its state to owners that
            // hand objects over to it
            wakes.extend(self.announcements.listeners_of(object));
        }
        for contender in self.contenders(&freed) {
            wakes.push((contender, Reason::Object));
        }
        if change.gone {
            wakes.extend(self.forget(object));
        } else if change.deletion || change.spec {
            // a deleted owner announces nothing more and releases its objects; a suspended one wants no
            // free objects; one with dependencies comes after them
            wakes.extend(self.announcements.announced(object));
            wakes.extend(self.contesting(object));
        }
    }

    /// The owners that hold an object which is now in the inventory of another shard's owner.
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

    pub(crate) fn impersonates(&self, owner: &ObjectRef, user: &str) -> bool {
        self.user(owner) == Some(user)
    }

    /// Forgets a deleted owner. Returns the owners that waited for its announcement.
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
        let mut wakes = self.contest(key, BTreeMap::new());
        wakes.extend(self.announcements.announced(key));
        wakes.extend(self.contesting(key));
        wakes
    }

    /// Notes the desired objects of an owner. Returns the owners that waited for that.
    pub fn set_desired(&mut self, key: &ObjectRef, state: DesiredState) -> Vec<(ObjectRef, Reason)> {
        let before = self.desired_states.get(key);
        if before == Some(&state) {
            // the awaited announcement may have been withdrawn
            return match self.announcements.is_awaited(key) {
                true => self.announcements.announced(key),
                false => Vec::new(),
            };
        }
        let same = before.is_some_and(|before| before.wants == state.wants);
        let from = |state: &DesiredState| (state.generation, state.artifact.clone());
        let declares = matches!(&state.wants, DesiredSet::Known(objects) if !objects.appliers.is_empty());
        // `applied` matters only to those that wait for declared owners
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
        let mut wakes = self.announcements.announced(key);
        if !same {
            wakes.extend(self.contesting(key));
        }
        wakes
    }

    /// The last known desired state of an owner.
    pub fn desired_state(&self, key: &ObjectRef) -> Option<&DesiredState> {
        self.desired_states.get(key)
    }

    /// Whether an owner of this process still has to apply an artifact of its source, known by its revision and
    /// digest. One that failed with it is through.
    pub(crate) fn is_unapplied(&self, owner: &ObjectRef, revision: &str, digest: &str) -> bool {
        let Some(known) = self.declarations.get(owner) else {
            return false;
        };
        if !known.ours || known.suspended || known.deleting {
            return false;
        }
        let status = &known.status;
        let failed = status
            .ready
            .as_ref()
            .is_some_and(|ready| ready.is_false && ready.observed_generation == Some(known.generation));
        if failed && is_at(status.attempted.as_deref(), revision) {
            return false;
        }
        match self.desired_states.get(owner) {
            Some(state) if state.is_of(known.generation, digest) => {
                !state.applied && matches!(state.wants, DesiredSet::Known(_))
            }
            Some(_) | None => true,
        }
    }

    /// Notes that an owner could not be built because the API server did not answer. Returns the owners
    /// that waited for it.
    pub fn unreached(&mut self, key: &ObjectRef, from: BuiltFrom) -> Vec<(ObjectRef, Reason)> {
        if !self.announcements.unreached(key, from) {
            return Vec::new();
        }
        self.refresh_pending(key);
        self.announcements.announced(key)
    }

    /// Notes that this process fetched a source, so its status is current. Returns the owners that
    /// waited for that.
    pub fn source_checked(&mut self, source: &ObjectRef) -> Vec<(ObjectRef, Reason)> {
        if !self.announcements.source_checked(source) {
            return Vec::new();
        }
        let readers = self.relations.readers.of(source);
        readers
            .flat_map(|key| self.announcements.announced(key))
            .collect()
    }

    /// The owners that declare an object of this one: it may have let go of it.
    fn contesting(&self, key: &ObjectRef) -> impl Iterator<Item = (ObjectRef, Reason)> {
        let contesting = self.contests.against(key);
        contesting.map(|other| (other.clone(), Reason::Object))
    }

    /// The other holders of an object, whether or not they still want it.
    pub fn holders<'a>(&'a self, id: &ObjectId, but: &'a ObjectRef) -> impl Iterator<Item = &'a ObjectRef> {
        let holders = self.relations.holders.of(id);
        holders.filter(move |key| *key != but && self.share_target(key, but))
    }

    /// Notes the target cluster of an owner.
    pub fn set_target(&mut self, key: &ObjectRef, target: &TargetCluster) {
        let before = match target {
            TargetCluster::Local | TargetCluster::Unknown => self.targets.remove(key),
            TargetCluster::Remote(_) => self.targets.insert(key.clone(), target.clone()),
        };
        if before.as_ref().unwrap_or(&TargetCluster::Local) != target {
            self.announcements.outdate_surveys();
        }
    }

    fn target(&self, key: &ObjectRef) -> Option<&TargetCluster> {
        match self.declarations.get(key) {
            Some(declaration) if declaration.remote => self.targets.get(key),
            _ => Some(&TargetCluster::Local),
        }
    }

    /// Whether two owners apply to the same cluster. Otherwise equal names are different objects.
    fn share_target(&self, one: &ObjectRef, other: &ObjectRef) -> bool {
        let target = self.target(one);
        target.is_some() && target == self.target(other)
    }

    pub(crate) fn may_share_target(&self, key: &ObjectRef, target: &TargetCluster) -> bool {
        match self.target(key) {
            Some(its) => its == target,
            None => *target != TargetCluster::Local,
        }
    }

    /// Whether an owner holds an object and has not released it.
    pub fn claims(&self, key: &ObjectRef, id: &ObjectId) -> bool {
        let declaration = self.declarations.get(key);
        let holds =
            declaration.is_some_and(|declaration| !declaration.deleting && declaration.holds.contains(id));
        holds && !self.desired_states.get(key).is_some_and(|state| state.leaves(id))
    }

    /// The other owners that hold an object and have not released it. If several have it in the
    /// inventory, the labels decide.
    ///
    /// Labels of two kinds on one object decide nothing: then the first kind in order gets it.
    pub fn claimants<'a>(&'a self, id: &ObjectId, but: &'a ObjectRef) -> impl Iterator<Item = &'a ObjectRef> {
        let held = self.holders(id, but);
        let (id, claimed) = (id.clone(), self.claims(but, id));
        held.filter(move |other| {
            let behind = claimed && other.kind != but.kind && but < other;
            !behind && self.claims(other, &id)
        })
    }

    /// The owners that need objects inside a container, with these objects: held by another, or wanted
    /// by any owner. Walks all wanted and held objects.
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

    /// The other owner that wants an object, and so takes it from an owner that does not.
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

    /// The other owners that want or claim an object, authorized or not.
    pub fn rivals<'a>(&'a self, id: &ObjectId, but: &'a ObjectRef) -> impl Iterator<Item = &'a ObjectRef> {
        let wanting = self.wanting.of(id);
        let wanting = wanting.filter(move |key| *key != but && self.share_target(key, but));
        wanting.chain(self.claimants(id, but))
    }

    /// The owners of this process that read a source.
    pub fn readers(&self, source: &ObjectRef) -> Vec<ObjectRef> {
        self.ours(self.relations.readers.of(source))
    }

    /// The owners of this process that read any source of a kind.
    pub fn readers_of(&self, kind: &str) -> Vec<ObjectRef> {
        let readers = self.relations.readers.iter();
        let readers = readers.filter(|(source, _)| source.kind == kind);
        readers.flat_map(|(_, keys)| self.ours(keys.iter())).collect()
    }

    /// The owners of this process that take values from a ConfigMap or Secret.
    pub fn fed_by(&self, holder: &InputRef) -> Vec<ObjectRef> {
        self.ours(self.relations.input_readers.of(holder))
    }

    fn ours<'a>(&self, all: impl IntoIterator<Item = &'a ObjectRef>) -> Vec<ObjectRef> {
        let ours = all.into_iter().filter(|key| !self.other_shards.contains(*key));
        ours.cloned().collect()
    }

    /// Replaces the contests of an owner, by the other owners. Returns those that have to report them.
    pub fn contest(
        &mut self,
        key: &ObjectRef,
        contests: BTreeMap<ObjectRef, Contests>,
    ) -> Vec<(ObjectRef, Reason)> {
        let concerned = self.contests.replace(key, contests);
        let concerned = concerned
            .into_iter()
            .filter(|other| !self.other_shards.contains(other));
        concerned.map(|other| (other, Reason::Object)).collect()
    }

    /// The objects that an owner holds and others want.
    pub fn contested(&self, key: &ObjectRef) -> Contests {
        self.contests.of(key)
    }

    /// The dependencies of an owner.
    pub fn depends_on(&self, key: &ObjectRef) -> impl Iterator<Item = &ObjectRef> {
        self.declarations
            .get(key)
            .into_iter()
            .flat_map(|declaration| &*declaration.depends_on)
    }

    /// The dependencies of some owners, for a search that does not keep the graph.
    pub fn dependencies_of(&self, owners: &[&ObjectRef]) -> Vec<Arc<[ObjectRef]>> {
        let of = |owner: &&ObjectRef| {
            let declaration = self.declarations.get(*owner);
            declaration.map_or_else(Arc::default, |declaration| Arc::clone(&declaration.depends_on))
        };
        owners.iter().map(of).collect()
    }

    /// Whether each of some owners depends on the next.
    pub fn is_way(&self, owners: &[ObjectRef]) -> bool {
        let next = owners.iter().skip(1);
        owners.iter().zip(next).all(|(one, next)| {
            let declaration = self.declarations.get(one);
            declaration.is_some_and(|declaration| declaration.depends_on.contains(next))
        })
    }

    /// Replaces the declaration of an owner. Returns the objects that it released.
    fn replace(&mut self, object: &ObjectRef, now: Option<Declaration>) -> Vec<ObjectId> {
        let before = self.declarations.remove(object);
        let inputs = before.as_ref().map(Declaration::build_inputs);
        if inputs != now.as_ref().map(Declaration::build_inputs) {
            self.announcements.outdate_surveys();
            // the awaited announcement is of another build
            self.announcements.stop_awaiting(object);
            self.reviews.forget(object);
        }
        let freed = self.relations.replace(object, before.as_ref(), now.as_ref());
        if let Some(before) = &before
            && self.relations.readers.of(&before.source).next().is_none()
        {
            self.announcements.forget_surveys_of(&before.source);
        }
        if let Some(now) = &now {
            self.taken.recorded(object, &now.holds);
        }
        self.reorder(object, before.as_ref(), now.as_ref());
        match now {
            Some(now) => drop(self.declarations.insert(object.clone(), now)),
            None => shrink(&mut self.declarations),
        }
        freed
    }

    /// The owners that want one of these objects, and declare objects of others.
    fn contenders(&self, freed: &[ObjectId]) -> BTreeSet<ObjectRef> {
        if self.contests.is_empty() {
            return BTreeSet::new();
        }
        let wanting = freed.iter().flat_map(|id| self.wanting.of(id));
        wanting
            .filter(|owner| self.contests.are_by(owner))
            .cloned()
            .collect()
    }
}

struct DeclarationChange {
    gone: bool,
    deletion: bool,
    as_dependency: bool,
    /// For owners that know only its status.
    announcement: bool,
    holds: bool,
    suspended: bool,
    /// Its spec changed, and it was known before.
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
pub(crate) use self::contenders::{Own, Waiting};

#[cfg(test)]
pub(crate) mod tests;
