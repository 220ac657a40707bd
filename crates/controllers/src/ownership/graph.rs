//! Who has to run when a Kustomization or a source changes: pure, kept beside the mirrors.
//!
//! Relations, each looked up from its other end: what reads a source, what depends on a
//! Kustomization, what holds an object, what wants it, and what would hold it if another did not. A
//! change is answered with the keys to wake, so that one artifact wakes those that read it and
//! nobody else.
//!
//! To hold an object is to have it in the inventory; to want it, in the last build. Who holds an
//! object and is known not to want it any more has let go of it: another may take it, though its
//! labels still name the first.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use equate_api::kustomize::{Inventory, Kustomization, SourceKind};
use equate_api::meta::{ConditionType, is_true};
use equate_apply::container::Container;
use equate_apply::id::ObjectId;
use tokio::time::Instant;

use super::access_reviews::AccessReviews;
use super::desired::{DesiredSet, DesiredState, Watched};
use super::other_shards;
use super::survey::Survey;
use crate::kit::mirror::Change;
use crate::kit::wake::Reason;
use crate::kustomization::declared::ValuesRef;
use crate::kustomization::inputs::substitute_from;
use crate::kustomization::reasons::Contest;
use crate::targets::target::TargetCluster;
use crate::{Key, Shards};

/// For so many different times that readers of one source have, a survey is kept.
const TIMEOUTS: usize = 8;

/// A source by kind and name.
pub type Source = (SourceKind, Key);

/// What a Kustomization is built from: its generation and the digest of the artifact.
pub type BuiltFrom = (i64, String);

/// When an object is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// As long as it may be there: what its holder is about to delete as well is gone first.
    Now,
    /// When all is done that is wanted.
    Lasting,
}

/// What a survey found, and when that holds.
#[derive(Debug)]
struct KeptSurvey {
    version: u64,
    timeout: Duration,
    artifact: Option<String>,
    survey: Arc<Survey>,
}

/// The relations.
#[derive(Debug, Default)]
pub struct OwnershipGraph {
    shards: Shards,
    /// Those that other processes reconcile: seen, never woken.
    other_shards: HashSet<Key>,
    references: HashMap<Key, References>,
    readers: HashMap<Source, BTreeSet<Key>>,
    dependents: HashMap<Key, BTreeSet<Key>>,
    /// Who takes values from a ConfigMap or Secret.
    fed: HashMap<ValuesRef, BTreeSet<Key>>,
    holders: HashMap<ObjectId, BTreeSet<Key>>,
    /// What each Kustomization wants and another holds.
    contests: BTreeMap<Key, Vec<Contest>>,
    /// What each Kustomization wants, as far as it is known.
    desired_states: BTreeMap<Key, DesiredState>,
    /// Who is known to want an object.
    wanting: HashMap<ObjectId, BTreeSet<Key>>,
    /// Who waits for a word of others.
    watched: HashMap<Key, Watched>,
    /// Who waits for a word of this one.
    listeners: HashMap<Key, BTreeSet<Key>>,
    /// The last survey for those who read a source: the latest for each time they have.
    surveys: HashMap<Source, Vec<KeptSurvey>>,
    /// Raised with all that may change what a survey finds.
    version: u64,
    /// Since when it is waited for what a Kustomization wants, and from what it will be built.
    unbuilt: HashMap<Key, (BuiltFrom, Instant)>,
    /// From what a Kustomization could not be built, for the API server could not be asked.
    unreached: HashMap<Key, BuiltFrom>,
    /// The clusters of those that apply elsewhere, as far as they are known.
    targets: HashMap<Key, TargetCluster>,
    /// Who may write what it wants.
    pub(crate) reviews: AccessReviews,
    /// The sources that this process has looked at.
    looked: HashSet<Source>,
    shared_keys: Option<Key>,
}

#[derive(Debug, Default, PartialEq)]
struct References {
    source: Option<Source>,
    depends_on: BTreeSet<Key>,
    /// Whether it has a test of its own for one of those.
    asks: bool,
    fed_by: BTreeSet<ValuesRef>,
    holds: Arc<BTreeSet<ObjectId>>,
    /// Whether it applies to another cluster.
    away: bool,
    deleting: bool,
    suspended: bool,
    generation: i64,
}

/// What a dependent sees of a Kustomization.
#[derive(Debug, PartialEq)]
struct DependencyView<'a> {
    ready: bool,
    current: bool,
    applied: Option<&'a str>,
    source: Source,
}

impl OwnershipGraph {
    /// Relations of which only those in some shards are woken.
    pub fn of(shards: Shards) -> Self {
        Self {
            shards,
            ..Self::default()
        }
    }

    /// Those who decrypt and name no Secret take keys from this one.
    #[must_use]
    pub fn shared_keys(self, shared_keys: Option<Key>) -> Self {
        Self { shared_keys, ..self }
    }

    /// Whether another process reconciles a Kustomization.
    pub fn is_in_other_shard(&self, key: &Key) -> bool {
        self.other_shards.contains(key)
    }

    /// Whether there are any of those.
    pub fn has_other_shards(&self) -> bool {
        !self.other_shards.is_empty()
    }

    /// Whether one of another shard is there and does not hold an object any more.
    pub fn has_let_go(&self, key: &Key, id: &ObjectId, for_whom: &Key) -> bool {
        let known = self.references.get(key);
        let free = known.is_some_and(|references| !references.holds.contains(id));
        free && self.is_in_other_shard(key) && self.share_target(key, for_whom)
    }

    /// Takes in a change of a Kustomization: who has to run, itself included.
    pub fn changed(&mut self, change: &Change<Kustomization>) -> Vec<(Key, Reason)> {
        let key = &change.key;
        let was_ours = !self.other_shards.remove(key) && change.before.is_some();
        let object = change.after.as_deref();
        if object.is_some_and(|object| !self.shards.own(&object.metadata)) {
            self.other_shards.insert(key.clone());
        }
        let mut wakes = self.affected_keys(change);
        // one that was ours runs once more, to be forgotten
        wakes.retain(|(woken, _)| !self.other_shards.contains(woken) || (woken == key && was_ours));
        wakes
    }

    fn affected_keys(&mut self, change: &Change<Kustomization>) -> Vec<(Key, Reason)> {
        let key = &change.key;
        let mut wakes: Vec<(Key, Reason)> = change
            .what
            .reason()
            .map(|why| (key.clone(), why))
            .into_iter()
            .collect();
        if change.after.is_none() {
            // gone without our finalizer: what is remembered of it goes with it
            wakes.push((key.clone(), Reason::Deleted));
        }
        let before = change.before.as_deref().map(dependency_view);
        let after = change.after.as_deref().map(dependency_view);
        let dependents = self.dependents.get(key).into_iter().flatten();
        // who asks in own words may ask for anything
        let affected_keys = dependents.filter(|dependent| {
            before != after
                || self
                    .references
                    .get(*dependent)
                    .is_some_and(|references| references.asks)
        });
        wakes.extend(affected_keys.map(|dependent| (dependent.clone(), Reason::Dependency)));
        let now = match change.after.as_deref() {
            Some(object) => {
                let known = self.references.get(key);
                let same = change.before.as_deref().is_some_and(|b| {
                    inventory(b) == inventory(object)
                        && b.spec.kube_config.is_some() == object.spec.kube_config.is_some()
                });
                let holds = match known {
                    // an inventory is long and seldom changes with its status
                    Some(known) if same => Arc::clone(&known.holds),
                    _ => Arc::new(holds(object)),
                };
                References {
                    source: Some(source(object)),
                    depends_on: depends_on(object),
                    asks: object.spec.depends_on.iter().any(|on| on.ready_expr.is_some()),
                    fed_by: substitute_from::holders(object, self.shared_keys.as_ref()).collect(),
                    holds,
                    away: object.spec.kube_config.is_some(),
                    deleting: object.metadata.deletion_timestamp.is_some(),
                    suspended: object.spec.suspend,
                    generation: object.metadata.generation.unwrap_or_default(),
                }
            }
            None => References::default(),
        };
        let known = self.references.get(key).map(|known| Arc::clone(&known.holds));
        if self.other_shards.contains(key) {
            wakes.extend(self.claimed(known.as_deref(), &now.holds));
        }
        let holds_others = known.is_some_and(|known| known != now.holds);
        let rests = |object: &Option<Arc<Kustomization>>| object.as_ref().is_some_and(|o| o.spec.suspend);
        let freed = self.replace(key, now);
        let differs = holds_others || before != after || rests(&change.before) != rests(&change.after);
        // of one that is gone everybody is told below
        let word = |object: &Option<Arc<Kustomization>>| object.as_deref().map(other_shards::StatusSeen::of);
        if self.other_shards.contains(key) && word(&change.before) != word(&change.after) {
            // its status is its word; what it is waited for with stays
            self.version += 1;
            self.surveys.clear();
            wakes.extend(self.listeners_of(key));
        } else if differs && change.after.is_some() {
            // what it has matters to whom it keeps from deleting what that is in, and how it is to
            // whom it is to take something from
            wakes.extend(self.listeners_of(key));
        }
        for contender in self.contenders(&freed) {
            wakes.push((contender, Reason::Object));
        }
        match change.after.as_deref() {
            None => wakes.extend(self.forget(key)),
            // it says no more: nobody waits for it, and what it held is free
            Some(object) if object.metadata.deletion_timestamp.is_some() => {
                if change
                    .before
                    .as_deref()
                    .is_none_or(|b| b.metadata.deletion_timestamp.is_none())
                {
                    wakes.extend(self.wake_on_release(key));
                }
            }
            Some(_) => {}
        }
        wakes
    }

    /// Who holds what another shard's has in its inventory by now.
    fn claimed(
        &self,
        before: Option<&BTreeSet<ObjectId>>,
        now: &BTreeSet<ObjectId>,
    ) -> BTreeSet<(Key, Reason)> {
        let claims = now
            .iter()
            .filter(|id| before.is_none_or(|before| !before.contains(*id)));
        let holders = claims.flat_map(|id| self.ours(self.holders.get(id)));
        holders.map(|key| (key, Reason::Dependency)).collect()
    }

    /// Forgets what a Kustomization that is gone said: who waited for a word of it.
    pub fn forget(&mut self, key: &Key) -> Vec<(Key, Reason)> {
        self.version += 1;
        if let Some(state) = self.desired_states.remove(key) {
            unlink(&mut self.wanting, state.wanted().iter(), key);
        }
        self.watch(key, Watched::default());
        self.unbuilt.remove(key);
        self.unreached.remove(key);
        self.reviews.forget(key);
        self.targets.remove(key);
        let mut wakes = self.contest(key, &[]);
        wakes.extend(self.wake_on_release(key));
        wakes
    }

    /// Notes what a Kustomization wants: who waited for that.
    pub fn set_desired(&mut self, key: &Key, state: DesiredState) -> Vec<(Key, Reason)> {
        let before = self.desired_states.get(key);
        if before == Some(&state) {
            // what it was waited for with may have been taken back
            return match self.unbuilt.contains_key(key) {
                true => self.wake_waiting(key),
                false => Vec::new(),
            };
        }
        let same = before.is_some_and(|before| before.wants == state.wants);
        let from = |state: &DesiredState| (state.generation, state.artifact.clone());
        let declares =
            matches!(&state.wants, DesiredSet::Known(objects) if !objects.kustomizations.is_empty());
        // that all is applied is news of those only who declare Kustomizations
        if !same || declares || before.map(from) != Some(from(&state)) {
            self.version += 1;
        }
        if !same {
            if let Some(before) = before {
                let left = before.wanted().iter().filter(|id| !state.wants(id));
                unlink(&mut self.wanting, left, key);
            }
            link(&mut self.wanting, state.wanted().iter(), key);
        }
        self.desired_states.insert(key.clone(), state);
        self.unbuilt.remove(key);
        self.unreached.remove(key);
        match same {
            true => self.wake_waiting(key),
            false => self.wake_on_release(key),
        }
    }

    /// What a Kustomization was last known to want.
    pub fn desired_state(&self, key: &Key) -> Option<&DesiredState> {
        self.desired_states.get(key)
    }

    /// From now on the key is woken by a word of these, and of nobody else.
    pub fn watch(&mut self, key: &Key, watched: Watched) {
        if let Some(before) = self.watched.remove(key) {
            unlink(&mut self.listeners, before.of.iter(), key);
        }
        link(&mut self.listeners, watched.of.iter(), key);
        if !watched.is_empty() {
            self.watched.insert(key.clone(), watched);
        }
    }

    /// The last survey for those who read a source, if it still holds: nothing has changed, or the one
    /// that is waited for has not spoken.
    pub(crate) fn kept_survey(
        &self,
        source: &Source,
        timeout: Duration,
        artifact: Option<&str>,
    ) -> Option<Arc<Survey>> {
        let mut all = self.surveys.get(source)?.iter();
        let kept = all.find(|kept| kept.timeout == timeout)?;
        if kept.artifact.as_deref() != artifact {
            return None;
        }
        let silent = || {
            let (key, since) = kept.survey.waits_for()?;
            Some(self.is_silent(key, since))
        };
        (kept.version == self.version || silent() == Some(true)).then(|| Arc::clone(&kept.survey))
    }

    /// Whether one has not spoken that is waited for since then.
    pub(crate) fn is_silent(&self, key: &Key, since: Instant) -> bool {
        self.unbuilt.get(key).is_some_and(|(_, known)| *known == since)
    }

    /// Keeps a survey for others who read the same source and have as much time.
    pub(crate) fn keep_survey(
        &mut self,
        source: Source,
        timeout: Duration,
        artifact: Option<String>,
        survey: Arc<Survey>,
    ) {
        let kept = KeptSurvey {
            version: self.version,
            timeout,
            artifact,
            survey,
        };
        let all = self.surveys.entry(source).or_default();
        all.retain(|other| other.timeout != timeout);
        if all.len() == TIMEOUTS {
            all.remove(0);
        }
        all.push(kept);
    }

    /// Notes that what a source makes available is another.
    pub fn artifact_changed(&mut self) {
        self.version += 1;
    }

    /// Until when a Kustomization waits for the last of those it waits for.
    pub fn waits_until(&self, key: &Key) -> Option<Instant> {
        self.watched.get(key).and_then(|watched| watched.until)
    }

    /// Since when it is waited for what a Kustomization wants that is built from this; from now on
    /// if nobody has waited for it so far.
    pub fn unbuilt_since(&mut self, key: &Key, from: BuiltFrom, now: Instant) -> Instant {
        match self.unbuilt.get(key) {
            Some((known, since)) if *known == from => *since,
            _ => {
                self.unbuilt.insert(key.clone(), (from, now));
                now
            }
        }
    }

    /// Notes that a Kustomization could not be built from this, for the API server could not be
    /// asked: who waited for it.
    pub fn unreached(&mut self, key: &Key, from: BuiltFrom) -> Vec<(Key, Reason)> {
        if self.unreached.get(key) == Some(&from) {
            return Vec::new();
        }
        self.version += 1;
        self.unreached.insert(key.clone(), from);
        self.wake_waiting(key)
    }

    /// Whether a Kustomization could not be built from this, for the API server could not be asked.
    pub fn is_unreached(&self, key: &Key, from: &BuiltFrom) -> bool {
        self.unreached.get(key) == Some(from)
    }

    /// Notes that this process has looked at a source: what its status names is what it has now.
    /// Who waited for that.
    pub fn looked(&mut self, source: Source) -> Vec<(Key, Reason)> {
        let readers = self.readers.get(&source).cloned().unwrap_or_default();
        if !self.looked.insert(source) {
            return Vec::new();
        }
        self.version += 1;
        readers.iter().flat_map(|key| self.wake_waiting(key)).collect()
    }

    /// Forgets a source that is gone: another of its name has to be looked at.
    pub fn lost(&mut self, source: &Source) {
        self.version += 1;
        self.surveys.remove(source);
        self.looked.remove(source);
    }

    /// Whether this process has looked at a source.
    pub fn has_looked(&self, source: &Source) -> bool {
        self.looked.contains(source)
    }

    /// There is a word of a Kustomization: who waited for it.
    pub fn wake_waiting(&mut self, of: &Key) -> Vec<(Key, Reason)> {
        self.unbuilt.remove(of);
        self.listeners_of(of).collect()
    }

    /// Who listens to each word of a Kustomization.
    fn listeners_of(&self, of: &Key) -> impl Iterator<Item = (Key, Reason)> {
        let listening = self.listeners.get(of).into_iter().flatten();
        listening.map(|key| (key.clone(), Reason::Dependency))
    }

    /// It may want less than before: also those look who contest something of it.
    fn wake_on_release(&mut self, key: &Key) -> Vec<(Key, Reason)> {
        let mut wakes = self.wake_waiting(key);
        let contesting = self
            .contests
            .iter()
            .filter(|(_, list)| list.iter().any(|contest| contest.other == *key));
        wakes.extend(contesting.map(|(other, _)| (other.clone(), Reason::Object)));
        wakes
    }

    /// Who holds an object beside this one, whether or not it still wants it.
    pub fn holders<'a>(&'a self, id: &ObjectId, but: &'a Key) -> impl Iterator<Item = &'a Key> {
        let holders = self.holders.get(id).into_iter().flatten();
        holders.filter(move |key| *key != but && self.share_target(key, but))
    }

    /// Notes in which cluster a Kustomization applies.
    pub fn set_target(&mut self, key: &Key, target: &TargetCluster) {
        let before = match target {
            TargetCluster::Local | TargetCluster::Unknown => self.targets.remove(key),
            TargetCluster::Remote(_) => self.targets.insert(key.clone(), target.clone()),
        };
        if before.as_ref().unwrap_or(&TargetCluster::Local) != target {
            self.version += 1;
        }
    }

    /// In which cluster a Kustomization applies, if that is known.
    fn target(&self, key: &Key) -> Option<&TargetCluster> {
        match self.references.get(key) {
            Some(references) if references.away => self.targets.get(key),
            _ => Some(&TargetCluster::Local),
        }
    }

    /// Whether two apply to the same cluster: else objects of one name are not the same.
    fn share_target(&self, one: &Key, other: &Key) -> bool {
        let target = self.target(one);
        target.is_some() && target == self.target(other)
    }

    /// Whether a Kustomization applies to a cluster, or may.
    pub(crate) fn may_share_target(&self, key: &Key, target: &TargetCluster) -> bool {
        match self.target(key) {
            Some(its) => its == target,
            None => *target != TargetCluster::Local,
        }
    }

    /// Whether a Kustomization holds an object and has not let go of it.
    pub fn claims(&self, key: &Key, id: &ObjectId) -> bool {
        let references = self.references.get(key);
        let holds =
            references.is_some_and(|references| !references.deleting && references.holds.contains(id));
        holds && !self.desired_states.get(key).is_some_and(|state| state.leaves(id))
    }

    /// Who else holds an object and does not let go of it. More than one may have it in the
    /// inventory; whose it is, its labels say.
    pub fn claimants<'a>(&'a self, id: &ObjectId, but: &'a Key) -> impl Iterator<Item = &'a Key> {
        let held = self.holders(id, but);
        let id = id.clone();
        held.filter(move |key| self.claims(key, &id))
    }

    /// Who needs objects that would go with a container, and which: those that another holds, or
    /// that another or this one wants. A walk over all that is wanted and held.
    pub fn needs<'a>(
        &'a self,
        container: &'a Container,
        by: &'a Key,
        need: Need,
    ) -> impl Iterator<Item = (&'a Key, &'a ObjectId)> {
        let deleting = |key: &Key| {
            self.references
                .get(key)
                .is_none_or(|references| references.deleting)
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
        let others = self.references.iter();
        let others = others.filter(move |(key, _)| *key != by && self.share_target(key, by));
        let held = others.flat_map(move |(key, references)| {
            let counts = move |id: &&ObjectId| need == Need::Now || self.claims(key, id);
            references.holds.iter().filter(counts).map(move |id| (key, id))
        });
        let within =
            |(key, id): &(&Key, &ObjectId)| container.contains(id) && self.reviews.allow_within(key, id);
        wanted.chain(held).filter(within)
    }

    /// Who else wants an object, and so takes it from one who does not.
    pub fn taker<'a>(&'a self, id: &ObjectId, but: &'a Key) -> Option<&'a Key> {
        let deleting = |key: &Key| {
            self.references
                .get(key)
                .is_none_or(|references| references.deleting)
        };
        let may = |key: &&Key| self.reviews.allow(key, id);
        let mut wanting = self.wanting.get(id).into_iter().flatten();
        let wanting =
            wanting.find(|key| *key != but && self.share_target(key, but) && !deleting(key) && may(key));
        wanting.or_else(|| self.claimants(id, but).find(may))
    }

    /// Who else wants an object or claims it, whether or not it may.
    pub fn rivals<'a>(&'a self, id: &ObjectId, but: &'a Key) -> impl Iterator<Item = &'a Key> {
        let wanting = self.wanting.get(id).into_iter().flatten();
        let wanting = wanting.filter(move |key| *key != but && self.share_target(key, but));
        wanting.chain(self.claimants(id, but))
    }

    /// Who of ours reads a source.
    pub fn readers(&self, kind: SourceKind, key: &Key) -> Vec<Key> {
        self.ours(self.readers.get(&(kind, key.clone())))
    }

    /// Who of ours reads any source of a kind.
    pub fn readers_of(&self, kind: SourceKind) -> Vec<Key> {
        let readers = self.readers.iter().filter(|((of, _), _)| *of == kind);
        readers.flat_map(|(_, keys)| self.ours(Some(keys))).collect()
    }

    /// Who of ours takes values from a ConfigMap or Secret.
    pub fn fed_by(&self, holder: &ValuesRef) -> Vec<Key> {
        self.ours(self.fed.get(holder))
    }

    fn ours(&self, all: Option<&BTreeSet<Key>>) -> Vec<Key> {
        let all = all.into_iter().flatten();
        all.filter(|key| !self.other_shards.contains(*key))
            .cloned()
            .collect()
    }

    /// Notes what a Kustomization wants and others hold, all of it: which others have to say so.
    pub fn contest(&mut self, key: &Key, contests: &[Contest]) -> Vec<(Key, Reason)> {
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

    /// What a Kustomization holds and others want.
    pub fn contested(&self, key: &Key) -> Vec<Contest> {
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

    /// What a Kustomization depends on.
    pub fn depends_on(&self, key: &Key) -> impl Iterator<Item = &Key> {
        self.references
            .get(key)
            .into_iter()
            .flat_map(|references| &references.depends_on)
    }

    /// Puts a Kustomization's references in place of the old ones; the objects it let go of.
    fn replace(&mut self, key: &Key, now: References) -> Vec<ObjectId> {
        let before = self.references.remove(key).unwrap_or_default();
        if before == now {
            self.references.insert(key.clone(), before);
            return Vec::new();
        }
        let what = |r: &References| (r.source.clone(), r.deleting, r.suspended, r.generation);
        if what(&before) != what(&now) {
            self.version += 1;
            // what it is waited for with is another
            self.unbuilt.remove(key);
            self.reviews.forget(key);
        }
        let freed: Vec<ObjectId> = before.holds.difference(&now.holds).cloned().collect();
        unlink(&mut self.readers, before.source.iter(), key);
        link(&mut self.readers, now.source.iter(), key);
        unlink(&mut self.dependents, before.depends_on.iter(), key);
        link(&mut self.dependents, now.depends_on.iter(), key);
        unlink(&mut self.fed, before.fed_by.iter(), key);
        link(&mut self.fed, now.fed_by.iter(), key);
        unlink(&mut self.holders, freed.iter(), key);
        link(&mut self.holders, now.holds.iter(), key);
        if now != References::default() {
            self.references.insert(key.clone(), now);
        }
        freed
    }

    fn contenders(&self, freed: &[ObjectId]) -> BTreeSet<Key> {
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

fn link<'a, T>(relation: &mut HashMap<T, BTreeSet<Key>>, ends: impl Iterator<Item = &'a T>, key: &Key)
where
    T: Clone + Eq + std::hash::Hash + 'a,
{
    for end in ends {
        relation.entry(end.clone()).or_default().insert(key.clone());
    }
}

fn unlink<'a, T>(relation: &mut HashMap<T, BTreeSet<Key>>, ends: impl Iterator<Item = &'a T>, key: &Key)
where
    T: Clone + Eq + std::hash::Hash + 'a,
{
    for end in ends {
        if let Some(keys) = relation.get_mut(end) {
            keys.remove(key);
            if keys.is_empty() {
                relation.remove(end);
            }
        }
    }
}

/// What a Kustomization reads.
pub(crate) fn source(object: &Kustomization) -> Source {
    let reference = &object.spec.source_ref;
    let own = object.metadata.namespace.as_deref().unwrap_or_default();
    let namespace = reference.namespace.as_deref().unwrap_or(own);
    (reference.kind, Key::new(namespace, &reference.name))
}

fn depends_on(object: &Kustomization) -> BTreeSet<Key> {
    let own = object.metadata.namespace.as_deref().unwrap_or_default();
    let keys = object.spec.depends_on.iter();
    keys.map(|on| Key::new(on.namespace.as_deref().unwrap_or(own), &on.name))
        .collect()
}

fn inventory(object: &Kustomization) -> Option<&Inventory> {
    object.status.as_ref()?.inventory.as_ref()
}

/// What its inventory names; entries that name nothing are reported by the Kustomization itself.
fn holds(object: &Kustomization) -> BTreeSet<ObjectId> {
    let entries = inventory(object)
        .into_iter()
        .flat_map(|inventory| &inventory.entries);
    entries
        .filter_map(|entry| ObjectId::from_inventory(&entry.id).ok())
        .collect()
}

fn dependency_view(object: &Kustomization) -> DependencyView<'_> {
    let status = object.status.as_ref();
    DependencyView {
        ready: status.is_some_and(|status| is_true(&status.conditions, ConditionType::Ready)),
        current: status.and_then(|status| status.observed_generation) == object.metadata.generation,
        applied: status.and_then(|status| status.last_applied_revision.as_deref()),
        source: source(object),
    }
}

#[cfg(test)]
mod tests;
