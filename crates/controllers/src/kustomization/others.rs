//! What the other Kustomizations want, and what that forbids: an object that has only moved is not
//! deleted.
//!
//! Nothing is deleted before every other Kustomization that could be built has been, from the
//! artifact that its source has now. So each builds as soon as there is something new, also while
//! it waits for dependencies or rests; the build is kept and carried out later. To build waits for
//! nobody, so nobody waits in a circle.
//!
//! What another one wants is handed over: it stays, and it stays in the inventory until the other
//! has taken it. One that reads the same source and cannot be built might want anything: what would
//! be deleted is kept until it can be, or is suspended or deleted, and the status says so. That it
//! holds up is the price of not guessing; it holds up deletions and nothing else.
//!
//! Waiting holds no worker: a run that has to wait ends, and the word it waits for begins the next.
//!
//! What it costs. To ask is to look at all n Kustomizations once, and at those that each reader of
//! the source declares: `Asking::all`, counted in `Stats::hearings`. Deleting nothing asks nobody.
//! The answer is kept for all who read the same source and have as much time (`Index::kept`), also
//! while it waits, until the one it waits for speaks: 1,000 that all prune in one commit asked 4
//! times. Each timeout among the readers of a source has an answer of its own. None is kept while one
//! is late, or one that is declared is not applied: that depends on the clock and on the hub, of which
//! the index is not told, and each of those L who hold something asks anew at each of its runs,
//! O(L * n) for each commit. To keep those as well the hub would have to tell of Kustomizations; an
//! answer that is kept too long deletes what is wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use equate_api::kustomize::Kustomization;
use equate_api::meta::{ConditionType, Reason as Why, condition};
use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::owned::Digest;
use equate_apply::owner::Owner;
use equate_apply::plan::{self, Brake, Guard, KeepReason, Live, Options, Plan, Presence, Step};
use tokio::time::Instant;

use super::build::Rendered;
use super::decide::{Decision, Finalize, Phase, Seen, SourceSeen, deadline};
use super::declared::Declared;
use super::foreign;
use super::hearing::{Asking, Hearing};
use super::index::{self, Index, Need};
use super::kept;
use super::memory::Prepared;
use super::observe::Artifact;
use super::reach::{Place, Reach, account_of};
use super::reasons::{self, Failure, Stall};
use super::wants::{Stand, Wants, Watched};
use super::write::Stop;
use super::{Context, Run, count};
use crate::Key;
use crate::runtime::queue::Outcome;
use crate::runtime::wake::Reason;

/// More names than this do not help anybody.
pub(super) const NAMED: usize = 10;
/// So many of other shards are named.
const FEW: usize = 3;
const UNBUILT: &str = "cannot be built at this revision";
const ASTRAY: &str = "has a kubeConfig that cannot be used";
const NOT_STORED: &str = "has a source whose artifact is not stored";
/// Waiting that is over sooner is not worth a status.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What becomes of objects that are not declared any more.
#[derive(Debug, Default)]
pub(super) struct Rest {
    pub(super) plan: Plan,
    /// Whether more would be deleted than may be, if nobody wants it of whom that is not known.
    pub(super) excessive: bool,
    pub(super) takers: BTreeMap<ObjectId, Owner>,
    pub(super) hearing: Arc<Hearing>,
    /// Who has to be built first, by name.
    waiting: String,
}

impl Rest {
    /// One of those of whom it is not known what they want.
    pub(super) fn awaited(&self) -> Option<Owner> {
        self.hearing.awaited()
    }

    /// Whether anything is deleted, now or later.
    pub(super) fn deletes(&self) -> bool {
        let later = |step: &Step| match step {
            Step::Keep(_, reason) => matches!(
                reason,
                KeepReason::Awaited(_) | KeepReason::Needed(..) | KeepReason::OverBudget
            ),
            step => step.acts(),
        };
        self.plan.prune.iter().any(later)
    }

    /// Who has to be built before anything is deleted, and what that is.
    pub(super) fn waits(&self) -> Option<Awaited> {
        let until = self.hearing.until?;
        Some(Awaited {
            until,
            message: format!(
                "Waiting for {} to be built before {} may be deleted",
                self.waiting,
                listed(self.awaiting().map(ToString::to_string))
            ),
        })
    }

    /// What is kept because nobody knows whether another wants it, and who that is.
    pub(super) fn said(&self) -> Option<String> {
        let kept = listed(self.awaiting().map(ToString::to_string));
        if kept.is_empty() || self.hearing.barred.is_empty() {
            return None;
        }
        // of many that apply the same revision each would be another text, and a status
        let elsewhere = &self.hearing.elsewhere;
        let many = elsewhere.len() > FEW;
        let barred = self.hearing.barred.iter();
        let named = barred.filter(|(key, _)| !(many && elsewhere.contains(*key)));
        let named = named.take(NAMED);
        let mut barred: Vec<String> = named
            .map(|(key, why)| format!("Kustomization/{key}, which {why}"))
            .collect();
        if let Some(why) = elsewhere.first().and_then(|key| self.hearing.barred.get(key))
            && many
        {
            barred.push(format!("a Kustomization of another shard, which {why}"));
        }
        Some(format!(
            "not deleted yet: {kept}; may have moved to {}. It goes on when that is repaired, \
             suspended or deleted",
            barred.join(", or to ")
        ))
    }

    fn awaiting(&self) -> impl Iterator<Item = &ObjectId> {
        self.plan.prune.iter().filter_map(|step| match step {
            Step::Keep(id, KeepReason::Awaited(_)) => Some(id),
            _ => None,
        })
    }
}

/// Who or what is waited for, as a sentence, and for how long.
#[derive(Debug)]
pub(super) struct Awaited {
    until: Instant,
    message: String,
}

impl Awaited {
    pub(super) fn new(until: Instant, message: String) -> Self {
        Self { until, message }
    }
}

/// The first names of a list, and how many more there are.
fn listed(mut names: impl Iterator<Item = String>) -> String {
    let named: Vec<String> = names.by_ref().take(NAMED).collect();
    let named = named.join(", ");
    match names.count() {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// What a build says of what is wanted; nothing where it only could not be finished.
pub(super) fn wants(outcome: &Result<Rendered, Failure>) -> Option<Wants> {
    match outcome {
        Ok(rendered) if !rendered.resolved && rendered.objects.have_variables() => {
            Some(Wants::Unknown(UNBUILT))
        }
        Ok(rendered) => Some(Wants::Known(Arc::clone(&rendered.objects))),
        // what is not there holds nothing
        Err(Failure::PathAbsent(_)) => Some(Wants::nothing()),
        Err(Failure::Unreachable(_)) => None,
        Err(_) => Some(Wants::Unknown(UNBUILT)),
    }
}

impl Context {
    /// The digest and the revision of the artifact that a Kustomization would be built from.
    pub(super) fn supply(&self, object: &Kustomization) -> Option<(String, String)> {
        let artifact = self.sources.artifact(&index::source(object))?;
        Some((artifact.digest, artifact.revision))
    }

    /// The digest of that artifact.
    pub(super) fn artifact(&self, object: &Kustomization) -> Option<String> {
        self.supply(object).map(|(digest, _)| digest)
    }

    /// Whether a Kustomization could be built and has not been, as it and its source are now.
    pub(super) fn is_unheard(&self, index: &Index, key: &Key, object: &Kustomization) -> bool {
        if object.metadata.deletion_timestamp.is_some() {
            return false;
        }
        if index.is_foreign(key) {
            let supply = self.supply(object);
            return supply.is_some_and(|(_, revision)| !foreign::is_settled(object, &revision));
        }
        let artifact = self.artifact(object);
        artifact.is_some_and(|artifact| {
            let stand = index.standing(key);
            let source = index::source(object);
            // what an earlier process fetched is not what the source has now
            (self.serves(&source) && !index.has_looked(&source))
                || !stand.is_some_and(|stand| stand.is_of(object, &artifact))
        })
    }

    /// What an unheard Kustomization would be built from: it has its time for each anew.
    pub(super) fn unheard_from(&self, object: &Kustomization) -> (i64, String) {
        let generation = object.metadata.generation.unwrap_or_default();
        (generation, self.artifact(object).unwrap_or_default())
    }

    /// What becomes of objects that a Kustomization does not declare any more, as things stand now;
    /// what may change that wakes it. Those who took too long are not waited for any more.
    ///
    /// More than the budget allows is deleted of a revision that is confirmed only.
    pub(super) fn rest(&self, reach: &Reach, ks: &Declared, gone: &Inventory, confirmed: bool) -> Rest {
        self.rest_of(reach, ks, gone, confirmed, true)
    }

    /// What is held to.
    fn brake(reach: &Reach, ks: &Declared) -> Brake {
        let held = ks.inventory.ids();
        Brake {
            budget: ks.prune_budget,
            // what is written down and not there is not held
            held: held.filter(|id| reach.hub.get(id) != Presence::Absent).count(),
        }
    }

    /// Whether one that has an object in its inventory may have applied it: one that impersonates has it
    /// there before it is known whether it may.
    pub(super) fn may_hold(&self, key: &Key, id: &ObjectId) -> bool {
        let Some(object) = self.kustomizations.get(key) else {
            return false;
        };
        if account_of(&object.spec, &self.policy).is_none() {
            return true;
        }
        match self.here.hub.get(id) {
            Presence::Present(observed) => observed.owner == Some(Owner::new(&key.namespace, &key.name)),
            Presence::Absent => false,
            Presence::Unknown => true,
        }
    }

    /// What the others say; asked once for all who ask while nothing changes.
    pub(super) fn hearing(&self, index: &mut Index, ks: &Declared, place: &Place) -> Arc<Hearing> {
        if *place != Place::Here {
            // few are elsewhere: what they hear is not kept
            count(&self.tally.hearings, 1);
            return Arc::new(Asking::new(self, index, ks, place).all());
        }
        let source = (ks.source_kind, ks.source.clone());
        let artifact = self.sources.artifact(&source).map(|artifact| artifact.digest);
        let kept = index.kept(&source, ks.timeout, artifact.as_deref());
        let now = Instant::now();
        if let Some(kept) = kept.filter(|kept| kept.until.is_none_or(|until| until > now)) {
            return kept;
        }
        count(&self.tally.hearings, 1);
        let hearing = Arc::new(Asking::new(self, index, ks, place).all());
        if !hearing.passing {
            index.keep(source, ks.timeout, artifact, Arc::clone(&hearing));
        }
        hearing
    }

    fn rest_of(
        &self,
        reach: &Reach,
        ks: &Declared,
        gone: &Inventory,
        confirmed: bool,
        watches: bool,
    ) -> Rest {
        let owner = Owner::new(&ks.key.namespace, &ks.key.name);
        let mut rest = Rest::default();
        let mut needed = BTreeMap::new();
        let released = self.released(reach, &ks.key, gone);
        {
            let mut index = self.index();
            let prunes = ks.prune || ks.deleting;
            if prunes && !gone.is_empty() {
                let hearing = self.hearing(&mut index, ks, &reach.place);
                rest.hearing = hearing.without_the_powerless(&index, gone);
                rest.waiting = rest.hearing.silent(&index);
                rest.takers = takers(&index, &ks.key, gone.ids());
                let presence = |id: &ObjectId| reach.hub.get(id);
                needed = kept::needed(&index, &ks.key, gone.ids(), presence, Need::Now);
            }
            if watches {
                let mut of = rest.hearing.listens_to();
                let others = rest.takers.values().chain(needed.values().map(|(by, _)| by));
                of.extend(others.map(|other| Key::new(&*other.namespace, &*other.name)));
                let until = rest.hearing.until;
                index.watch(&ks.key, Watched { of, until });
            }
        }
        let awaited = rest.hearing.awaited();
        let braked = !(confirmed || ks.deleting || gone.is_empty());
        let brake = braked.then(|| Self::brake(reach, ks));
        let options = Options {
            prune: ks.prune || ks.deleting,
            brake,
            // whether the revision is empty is asked of all of it
            allow_empty: Some(""),
            contenders: &rest.takers,
            needed: &needed,
            released: &released,
            awaited: awaited.as_ref(),
            ..Options::new(&owner, "")
        };
        let live: Live = gone.ids().map(|id| (id.clone(), reach.hub.get(id))).collect();
        rest.plan = plan::plan(&[], gone, &live, &plan::Memory::default(), &options);
        let may_go = |step: &&Step| {
            matches!(
                step,
                Step::Keep(_, KeepReason::Awaited(_) | KeepReason::OverBudget)
            ) || step.acts()
        };
        let most = rest.plan.prune.iter().filter(may_go).count();
        rest.excessive = brake.is_some_and(|brake| brake.stops(most));
        rest
    }
}

/// Who takes which of the objects.
pub(super) fn takers<'a>(
    index: &Index,
    key: &Key,
    ids: impl Iterator<Item = &'a ObjectId>,
) -> BTreeMap<ObjectId, Owner> {
    owners(ids, |id| index.taker(id, key))
}

/// Who holds which of the objects and does not let go of it.
pub(super) fn claimants<'a>(
    index: &Index,
    key: &Key,
    ids: impl Iterator<Item = &'a ObjectId>,
) -> BTreeSet<(ObjectId, Owner)> {
    let owner = |key: &Key| Owner::new(&key.namespace, &key.name);
    ids.flat_map(|id| index.claimants(id, key).map(|key| (id.clone(), owner(key))))
        .collect()
}

fn owners<'a, 'i>(
    ids: impl Iterator<Item = &'a ObjectId>,
    of: impl Fn(&ObjectId) -> Option<&'i Key>,
) -> BTreeMap<ObjectId, Owner> {
    ids.filter_map(|id| of(id).map(|key| (id.clone(), Owner::new(&key.namespace, &key.name))))
        .collect()
}

impl Run<'_> {
    /// Lets the others know what it wants, whatever becomes of it now; builds it if need be.
    pub(super) async fn declare(
        &mut self,
        ks: &Declared,
        seen: &Seen,
        artifact: Option<&Artifact>,
        decision: &Decision,
    ) {
        match decision {
            Decision::Gone | Decision::Finalize(_) | Decision::Adopt | Decision::Build(_) => return,
            Decision::Rest
            | Decision::Stall(_)
            | Decision::Wait(_)
            | Decision::Resume
            | Decision::Health
            | Decision::Halted
            | Decision::LetGo
            | Decision::Carry
            | Decision::Settled => {}
        }
        if let Decision::Stall(Stall::CrossNamespace(..)) = decision {
            // it reads nothing that it may not read, so it wants nothing
            if let Some(artifact) = self.cx.artifact(&self.object) {
                self.stand(ks, &artifact, Wants::nothing(), true);
            }
            return;
        }
        let Some(artifact) = artifact else {
            return self.declare_without(seen);
        };
        let holds = seen
            .last
            .as_ref()
            .is_some_and(|last| last.inputs_hold && last.generation == ks.generation);
        if holds {
            // carried out, or being: nothing else is kept for it
            self.memory.prepared = None;
        }
        let (wants, applied) = if self.astray.is_some() {
            (Some(Wants::Unknown(ASTRAY)), false)
        } else if let Some(record) = self.memory.record.as_ref().filter(|_| holds) {
            (record.wants.clone(), record.applied)
        } else {
            let keep = matches!(decision, Decision::Wait(_));
            (self.prepare(ks, artifact, keep).await, false)
        };
        if let Some(wants) = wants {
            self.stand(ks, &artifact.digest, wants, applied);
        } else {
            self.unreached(ks, &artifact.digest);
        }
    }

    fn declare_without(&self, seen: &Seen) {
        match (&seen.source, self.cx.artifact(&self.object)) {
            (SourceSeen::NotStored | SourceSeen::Unfetched { .. }, Some(artifact)) => {
                let ks = Declared::from(&*self.object);
                self.stand(&ks, &artifact, Wants::Unknown(NOT_STORED), false);
            }
            // it is built as soon as it is here: who waits for that goes on waiting
            (SourceSeen::Fetching { .. }, Some(_)) => {}
            _ => {
                let wakes = self.cx.index().heard(&self.key);
                self.cx.wake(wakes);
            }
        }
    }

    /// Says what it wants.
    pub(super) fn stand(&self, ks: &Declared, artifact: &str, wants: Wants, applied: bool) {
        let stand = Stand {
            generation: ks.generation,
            artifact: artifact.to_owned(),
            forms: self.forms(&wants),
            wants,
            applied,
        };
        let wakes = self.cx.index().stand(&self.key, stand);
        self.cx.wake(wakes);
    }

    /// The Kustomizations that are applied as they are wanted, and what the API server made of them.
    fn forms(&self, wants: &Wants) -> Vec<(ObjectId, Digest)> {
        let Wants::Known(objects) = wants else {
            return Vec::new();
        };
        let declared = objects.kustomizations.iter();
        declared
            .filter_map(|(id, digest)| {
                let applied = self.memory.applies.get(id)?;
                (applied.desired == *digest).then(|| (id.clone(), applied.owned))
            })
            .collect()
    }

    /// What it wants could not be found out, for the API server could not be asked.
    pub(super) fn unreached(&self, ks: &Declared, artifact: &str) {
        let from = (ks.generation, artifact.to_owned());
        let wakes = self.cx.index().unreached(&self.key, from);
        self.cx.wake(wakes);
    }

    /// Builds what cannot be carried out yet; once for the same inputs.
    async fn prepare(&mut self, ks: &Declared, artifact: &Artifact, keep: bool) -> Option<Wants> {
        if let Some(prepared) = &self.memory.prepared
            && prepared.is_of(ks.generation, &artifact.tree)
            && self
                .values
                .as_ref()
                .is_none_or(|read| prepared.is_with(read.as_ref().ok()))
        {
            return prepared.wants.clone();
        }
        let values = self.values(ks).await.ok();
        let keep = keep && values.is_some();
        let outcome = self.render(ks, values.as_ref(), artifact).await;
        let wants = wants(&outcome);
        self.memory.prepared = wants.is_some().then(|| Prepared {
            generation: ks.generation,
            tree: artifact.tree.id(),
            inputs: outcome.as_ref().ok().map(|rendered| rendered.inputs.clone()),
            values: values.map(|values| values.stamp().clone()),
            wants: wants.clone(),
            outcome: keep.then_some(outcome),
        });
        wants
    }

    /// Whether those who had one of these objects last still have to look at what is new.
    pub(super) fn holders_are_unheard(&self, ks: &Declared, desired: &[Desired]) -> Option<Awaited> {
        let mut index = self.cx.index();
        let now = Instant::now();
        let mut holders: BTreeSet<Key> = BTreeSet::new();
        for Desired { id, .. } in desired {
            // whether there is something to wait for is nothing to one that may not write it
            if index.rights.allow(&self.key, id) {
                let ours = || match self.reach.hub.get(id) {
                    Presence::Present(observed) => observed.owner == Some(self.owner()),
                    Presence::Absent | Presence::Unknown => false,
                };
                // in another shard it may be known later that it is taken
                let theirs = index
                    .holders(id, &self.key)
                    .filter(|key| self.cx.may_hold(key, id) && !(index.is_foreign(key) && ours()));
                holders.extend(theirs.cloned());
            }
        }
        let (mut all, mut until) = (BTreeSet::new(), None);
        for key in holders {
            let object = self.cx.kustomizations.get(&key);
            let unheard = object.filter(|object| {
                self.cx.is_unheard(&index, &key, object) || (index.is_foreign(&key) && foreign::keeps(object))
            });
            let Some(object) = unheard else { continue };
            let since = index.unheard_since(&key, self.cx.unheard_from(&object), now);
            let its = deadline(since, ks.timeout);
            if its > now {
                until = until.max(Some(its));
                all.insert(key);
            }
        }
        let until = until?;
        let message = format!(
            "Waiting for {} to be built before what it held is applied",
            listed(all.iter().map(|key| format!("Kustomization/{key}")))
        );
        let watched = Watched {
            of: all,
            until: Some(until),
        };
        index.watch(&self.key, watched);
        Some(Awaited { until, message })
    }

    /// Waits: a word of others, or that an object goes, begins the next run. Says so when it is not
    /// over soon.
    pub(super) async fn hear(&mut self, ks: &Declared, awaited: &Awaited) -> Result<Outcome, Stop> {
        let now = Instant::now();
        let told = *self.memory.hearing.get_or_insert(now) + PATIENCE;
        if now < told {
            return Ok(Outcome::after(told.min(awaited.until) - now, Reason::Deadline));
        }
        self.speak(ks, |report| report.hearing(&awaited.message)).await?;
        Ok(Outcome::after(awaited.until - now, Reason::Deadline))
    }

    /// What is kept for the sake of others, as the status says it.
    pub(super) fn awaited(&self, ks: &Declared) -> Option<String> {
        let (standing, staged) = (|| self.standing(Why::OthersUnknown), self.is_staged());
        let lingering = &self.memory.lingering;
        if lingering.is_empty() {
            // a run that is not over knows nothing of what it is going to keep
            return staged.then(standing).flatten();
        }
        let rest = self.look_at(ks, lingering);
        rest.awaiting().next()?;
        match staged || rest.waits().is_some() {
            // what was said stands until all have said what they want now
            true => standing().or_else(|| rest.said()),
            false => rest.said(),
        }
    }

    /// What is kept because others would go with it, as the status says it.
    pub(super) fn needed(&self, ks: &Declared) -> Option<String> {
        let lingering = &self.memory.lingering;
        match lingering.is_empty() {
            true if self.is_staged() => self.standing(Why::StillNeeded),
            true => None,
            false => kept::said(&self.look_at(ks, lingering).plan),
        }
    }

    /// What is kept because too much would be deleted at once, as the status says it.
    pub(super) fn over_budget(&self, ks: &Declared) -> Option<String> {
        let lingering = &self.memory.lingering;
        if lingering.is_empty() {
            return None;
        }
        let Some(Guard::Budget(exceeded)) = self.look_at(ks, lingering).plan.guard else {
            return None;
        };
        let record = self.memory.record.as_ref()?;
        Some(format!(
            "not deleted: {}",
            reasons::over_budget(&self.key, &record.since, &exceeded)
        ))
    }

    /// What becomes of objects that are not declared any more; what may change that wakes it.
    pub(super) async fn rest_of(&self, ks: &Declared, gone: &Inventory) -> Rest {
        self.judge(ks, gone).await;
        self.cx.rest(&self.reach, ks, gone, self.is_confirmed(ks))
    }

    /// The same, but nothing wakes it.
    fn look_at(&self, ks: &Declared, gone: &Inventory) -> Rest {
        let confirmed = self.is_confirmed(ks);
        self.cx.rest_of(&self.reach, ks, gone, confirmed, false)
    }

    /// Whether somebody said that what is carried out may delete whatever it deletes.
    pub(super) fn is_confirmed(&self, ks: &Declared) -> bool {
        let record = self.memory.record.as_ref();
        record.is_some_and(|record| record.is_confirmed(ks))
    }

    /// What another is to take and does not, as the status says it.
    pub(super) fn untaken(&self, ks: &Declared) -> Option<String> {
        let lingering = &self.memory.lingering;
        if lingering.is_empty() {
            return None;
        }
        let plan = self.look_at(ks, lingering).plan;
        let index = self.cx.index();
        kept::untaken(&plan, |id, owner| {
            let key = Key::new(&*owner.namespace, &*owner.name);
            let taker = self.cx.kustomizations.get(&key)?;
            let status = taker.status.as_ref();
            let ready = status.and_then(|status| condition(&status.conditions, ConditionType::Ready));
            match index.standing(&key) {
                _ if taker.spec.suspend => Some("is suspended"),
                Some(stand) if stand.ignores(id) => {
                    Some("leaves it alone, as its annotations there say: nobody takes it")
                }
                _ if ready.is_some_and(|ready| ready.status == "False") => Some("is not ready"),
                _ => None,
            }
        })
    }

    fn is_staged(&self) -> bool {
        let record = self.memory.record.as_ref();
        record.is_some_and(|record| matches!(record.phase, Phase::Staged { .. }))
    }

    /// What the status says of what is kept, if it is for this reason.
    fn standing(&self, why: Why) -> Option<String> {
        let status = self.object.status.as_ref()?;
        let held = condition(&status.conditions, ConditionType::PruneHeld)?;
        (held.status == "True" && held.reason == why.as_str()).then(|| held.message.clone())
    }

    /// Deletes what may be deleted by now, and forgets what others have taken. An outcome if that failed.
    pub(super) async fn let_go(&mut self, ks: &Declared) -> Result<Option<Outcome>, Stop> {
        let held = self.held();
        let lingering = std::mem::take(&mut self.memory.lingering);
        let rest = self.rest_of(ks, &lingering).await;
        let owner = self.owner();
        let released = self.released(&lingering);
        let options = Options {
            released: &released,
            ..Options::new(&owner, "")
        };
        let execution = equate_apply::cluster::Execution::new(&options);
        if let Err((failure, _)) = self.prune(&rest.plan.prune, &lingering, &execution).await {
            return self.fail(ks, failure, Some(held)).await.map(Some);
        }
        let remains = rest.plan.lingering(&lingering);
        let inventory = held.difference(&lingering.difference(&remains));
        self.memory.lingering = remains;
        self.speak(ks, |report| report.steady(&inventory)).await?;
        Ok(None)
    }

    /// Whether the objects of a Kustomization that is deleted may go; an outcome if not yet.
    pub(super) async fn hear_out(
        &mut self,
        ks: &Declared,
        finalize: Finalize,
    ) -> Result<Option<Outcome>, Stop> {
        if finalize == Finalize::Release {
            return Ok(None);
        }
        let rest = self.rest_of(ks, &ks.inventory).await;
        if rest.awaiting().next().is_none() {
            return Ok(None);
        }
        self.memory.lingering = ks.inventory.clone();
        if let Some(awaited) = rest.waits() {
            return self.hear(ks, &awaited).await.map(Some);
        }
        self.memory.hearing = None;
        let said = rest.said().unwrap_or_default();
        self.speak(ks, |report| report.hearing(&said)).await?;
        Ok(Some(Outcome::after(ks.interval, Reason::Interval)))
    }
}
