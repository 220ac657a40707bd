//! Applying a revision: stages, then pruning. The only file whose verbs change managed objects.
//!
//! [`Run::apply`] is begun as often as something wakes the Kustomization, and does each time what
//! can be done: it plans again with what the hub knows, so it needs no memory of how far it came.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use equate_api::meta::Reason as Why;
use equate_apply::cluster::{Action, Applied, ApplyError, Execution, ResolveError, Retry as ApplyRetry};
use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::owner::Owner;
use equate_apply::plan::{self, KeepReason, Live, Options, PatchReason, Plan, Presence, Stage, Step};
use equate_manifest::object::GroupVersionKind;
use kube::core::ApiResource;
use tokio::time::Instant;

use super::status::Stop;
use super::survey::Awaited;
use super::{Run, count, observe};
use crate::kit::events::Severity;
use crate::kit::queue::Requeue;
use crate::kit::read::chain;
use crate::kit::watcher::{Interest, Kind, WatchState};
use crate::kustomization::decide::{Phase, Verdict, deadline, verdict};
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::Revision;
use crate::kustomization::memory::{Expects, Held};
use crate::kustomization::owner_of;
use crate::kustomization::reasons::{Failure, refusal};
use crate::ownership::claims::{claimants, takers};
use crate::ownership::contest::Contest;
use crate::ownership::desired::undeclared;

/// What is followed on behalf of a revision.
pub(super) struct Followed {
    /// Kinds that are not listed yet, and why, if any: the hub wakes us when they are.
    pub(super) starting: Option<String>,
    /// Groups of kinds that the cluster does not serve, yet.
    unserved: BTreeSet<String>,
}

impl Run<'_> {
    /// Applies what was built, as far as it goes now.
    pub(super) async fn apply(&mut self, ks: &Declared) -> Result<Requeue, Stop> {
        let desired = self
            .memory
            .record
            .as_ref()
            .and_then(|record| record.desired.clone());
        let Some(desired) = desired else {
            let held = self.inventory();
            return self.check_health(ks, held).await;
        };
        self.hand_over(ks).await?;
        let owner = self.owner();
        let mut defined = false;
        loop {
            let held = self.inventory();
            let followed = match self.follow(ks, &desired, &held).await {
                Ok(followed) => followed,
                Err(failure) => return self.fail(ks, failure, None).await,
            };
            if let Some(kinds) = followed.starting {
                return match self.until(ks) {
                    until if until > Instant::now() => Ok(self.next(ks)),
                    _ => {
                        let why = format!("the API server has not listed {kinds}");
                        self.fail(ks, Failure::Unreachable(why), None).await
                    }
                };
            }
            let declared = desired.iter();
            self.review_own_access(declared.map(|desired| (&desired.id, version(desired))))
                .await;
            // whoever had an object last says first whether it lets go of it
            if let Some(awaited) = self.holders_are_unbuilt(ks, &desired) {
                return self.wait_for(ks, &awaited).await;
            }
            let claims = self.claims(&desired);
            let contenders = self.contenders(&desired, &held);
            let released = self.released(&undeclared(&desired, &held));
            let rest = self.prune_plan(ks, &undeclared(&desired, &held)).await;
            let awaited = rest.awaited();
            let backing_off = self.memory.corrections.backing_off(Instant::now());
            let revision = self.at().revision;
            let record = self.memory.record.as_ref();
            let may_be_empty = record.is_some_and(|record| record.is_named(ks.allow_empty.as_deref()));
            let options = Options {
                prune: ks.prune,
                allow_empty: may_be_empty.then_some(revision.as_str()),
                claims: &claims,
                contenders: &contenders,
                released: &released,
                awaited: awaited.as_ref(),
                backing_off: &backing_off,
                ..Options::new(&owner, &revision)
            };
            let plan = plan::plan(
                &desired,
                &held,
                &self.live(&desired, &held),
                &self.memory.applies,
                &options,
            );
            if (plan.guard.is_some() || rest.excessive)
                && let Some(awaited) = rest.waits()
            {
                // it may all have moved elsewhere
                return self.wait_for(ks, &awaited).await;
            }
            if let Some(guard) = plan.guard.as_ref().or(rest.plan.guard.as_ref()) {
                return self.require_confirmation(ks, guard).await;
            }
            self.contest(&plan);
            let ahead = plan.write_ahead(&desired, &held);
            if !ahead.is_subset(&held) {
                let at = self.at();
                self.report_status(ks, |report| report.started(&at, &ahead))
                    .await?;
            }
            let execution = Execution {
                force: ks.force,
                rules: &*self.cx.rules,
                ..Execution::new(&options)
            };
            match self
                .stages(ks, &plan, &desired, &execution, &followed, defined)
                .await
            {
                Staged::Done => {}
                Staged::Waits => return Ok(self.next(ks)),
                Staged::Leaves(awaited) => return self.wait_for(ks, &awaited).await,
                // kinds that were just defined can be followed now
                Staged::Defined => {
                    defined = true;
                    continue;
                }
                Staged::Failed(failure) => return self.fail(ks, failure, None).await,
            }
            self.applied(ks);
            return self.finish(ks, plan, &desired, &execution).await;
        }
    }

    /// How labels name it.
    pub(super) fn owner(&self) -> Owner {
        owner_of(&self.key)
    }

    /// Until when the stages may take.
    fn until(&self, ks: &Declared) -> Instant {
        match self.memory.record.as_ref().map(|record| record.phase) {
            Some(Phase::Staged { until }) => until,
            _ => deadline(self.began, ks.timeout),
        }
    }

    /// The revision that is carried out.
    fn at(&self) -> Revision {
        let record = self.memory.record.as_ref();
        record.map_or_else(Revision::default, |record| record.revision.clone())
    }

    /// Has the hub follow every kind that is applied or pruned, and every object that is waited for.
    pub(super) async fn follow(
        &mut self,
        ks: &Declared,
        desired: &[Desired],
        held: &Inventory,
    ) -> Result<Followed, Failure> {
        let (kinds, unserved) = self.kinds(desired, held).await?;
        let (checks, objects) = self.checks(ks, desired).await?;
        if let Some(record) = &mut self.memory.record {
            record.checks = checks;
            record.asked = match self.access.hub.is_narrow() {
                true => {
                    let each = objects.iter();
                    each.map(|(kind, id)| (id.clone(), kind.version.clone()))
                        .collect()
                }
                false => Vec::new(),
            };
        }
        let interest = Interest { kinds, objects };
        let waiting = self.access.hub.follow(&self.key, &interest);
        let resources = interest.kinds.iter();
        let resources = resources.chain(interest.objects.iter().map(|(resource, _)| resource));
        let versions: HashMap<Kind, &str> = resources
            .map(|resource| (resource.into(), resource.version.as_str()))
            .collect();
        let ids = desired.iter().map(|desired| &desired.id).chain(held.ids());
        self.reinspect(ids, &versions).await?;
        Ok(Followed {
            starting: starting(&waiting),
            unserved,
        })
    }

    /// The kinds of what is applied or pruned; and the groups of those that the cluster does not serve.
    async fn kinds(
        &self,
        desired: &[Desired],
        held: &Inventory,
    ) -> Result<(Vec<ApiResource>, BTreeSet<String>), Failure> {
        let mut wanted: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
        for desired in desired
            .iter()
            .filter(|desired| !desired.own_loop && !desired.policy.ignored())
        {
            let version = version(desired);
            wanted.insert((&desired.id.group, version, &desired.id.kind));
        }
        let mut unserved = BTreeSet::new();
        let mut kinds: BTreeMap<(String, String), ApiResource> = BTreeMap::new();
        for (group, version, kind) in wanted {
            let gvk = GroupVersionKind::new(group, version, kind);
            match self.access.cluster.resolve(&gvk).await {
                Ok(found) => {
                    kinds.insert((group.to_owned(), kind.to_owned()), found.resource);
                }
                Err(ResolveError::NoSuchKind { .. }) => {
                    unserved.insert(group.to_owned());
                }
                Err(error) => return Err(Failure::Unreachable(chain(&error))),
            }
        }
        for (id, version) in held.iter() {
            let key = (id.group.to_string(), id.kind.to_string());
            if kinds.contains_key(&key) {
                continue;
            }
            let gvk = GroupVersionKind::new(&*id.group, version, &*id.kind);
            match self.access.cluster.resolve_any_version(&gvk).await {
                Ok(found) => {
                    kinds.insert(key, found.resource);
                }
                Err(ResolveError::NoSuchKind { .. }) => {}
                Err(error) => return Err(Failure::Unreachable(chain(&error))),
            }
        }
        Ok((kinds.into_values().collect(), unserved))
    }

    /// The objects that are waited for by name, and those of them that are not ours.
    async fn checks(
        &self,
        ks: &Declared,
        desired: &[Desired],
    ) -> Result<(Vec<ObjectId>, Vec<(ApiResource, ObjectId)>), Failure> {
        let (mut checks, mut objects) = (Vec::new(), Vec::new());
        let wanted = if ks.wait { &[][..] } else { &ks.health_checks[..] };
        for check in wanted {
            let mut id = check.id.clone();
            let gvk = GroupVersionKind::new(&*id.group, &check.version, &*id.kind);
            match self.access.cluster.resolve(&gvk).await {
                Ok(kind) => {
                    if !kind.namespaced {
                        id.namespace = "".into();
                    }
                    let ours = desired
                        .iter()
                        .any(|desired| desired.id == id && !desired.policy.ignored());
                    if !ours {
                        objects.push((kind.resource, id.clone()));
                    }
                }
                // it is not there, and says so until the time is over
                Err(ResolveError::NoSuchKind { .. }) => {}
                Err(error) => return Err(Failure::Unreachable(chain(&error))),
            }
            checks.push(id);
        }
        Ok((checks, objects))
    }

    pub(super) fn live(&self, desired: &[Desired], held: &Inventory) -> Live {
        let ids = desired.iter().map(|desired| &desired.id).chain(held.ids());
        ids.map(|id| (id.clone(), self.access.hub.get(id))).collect()
    }

    /// Who does not let go of what is declared here.
    fn claims(&self, desired: &[Desired]) -> BTreeSet<(ObjectId, Owner)> {
        let ids = desired.iter().map(|desired| &desired.id);
        claimants(&self.cx.index(), &self.me, ids)
    }

    /// Who wants what is not declared here any more.
    pub(super) fn contenders(&self, desired: &[Desired], held: &Inventory) -> BTreeMap<ObjectId, Owner> {
        takers(&self.cx.index(), &self.me, undeclared(desired, held).ids())
    }

    /// All is applied: Kustomizations among it are as this one wants them.
    fn applied(&mut self, ks: &Declared) {
        let Some(record) = &mut self.memory.record else {
            return;
        };
        record.applied = true;
        let (artifact, wants) = (record.artifact.clone(), record.wants.clone());
        if let Some(wants) = wants {
            self.publish_desired(ks, &artifact, wants, true);
        }
    }

    /// Kustomizations among what was applied are as they are declared, also if all is not applied.
    fn formed(&self, ks: &Declared) {
        let record = self.memory.record.as_ref();
        let known = record.and_then(|record| Some((record, record.wants.clone()?)));
        if let Some((record, wants)) = known {
            self.publish_desired(ks, &record.artifact, wants, record.applied);
        }
    }

    /// Tells the others what of theirs is declared here as well, and that it is not any more.
    fn contest(&mut self, plan: &Plan) {
        let contests: Vec<Contest> = plan
            .contested()
            .map(|(id, owner)| Contest {
                id: id.clone(),
                other: owner.into(),
            })
            .collect();
        let wakes = self.cx.index().contest(&self.me, &contests);
        self.cx.wake(wakes);
        if let Some(record) = &mut self.memory.record {
            record.contests = contests;
        }
    }

    /// Applies stage after stage, each when the one before is healthy.
    async fn stages(
        &mut self,
        ks: &Declared,
        plan: &Plan,
        desired: &[Desired],
        execution: &Execution<'_>,
        followed: &Followed,
        defined: bool,
    ) -> Staged {
        if let Some(record) = &mut self.memory.record {
            record.going.clear();
        }
        for (place, stage) in plan.stages.iter().enumerate() {
            if stage.steps.iter().any(Step::acts) {
                let before = self.drifting(stage, desired);
                let applied = self.access.cluster.apply_stage(stage, desired, execution).await;
                self.took_in(&applied, &before);
                self.formed(ks);
                if let Some(failure) = failure(&applied) {
                    let leaves = self.leaves(ks, &applied, &failure);
                    return leaves.map_or(Staged::Failed(failure), Staged::Leaves);
                }
            }
            if place + 1 == plan.stages.len() {
                break;
            }
            if let Verdict::Pending(what) | Verdict::Failed(what) = self.health_of(stage) {
                if self.until(ks) <= Instant::now() {
                    let kind = stage.kind;
                    return Staged::Failed(Failure::Stage(format!("stage {kind}: {what}")));
                }
                return Staged::Waits;
            }
            if !followed.unserved.is_empty() && !defined {
                for group in &followed.unserved {
                    self.access.cluster.expect_change(group).await;
                }
                return Staged::Defined;
            }
        }
        Staged::Done
    }

    /// Notes which objects still have to go before they can be created anew; what is waited for if
    /// that is all that failed, and has its time.
    fn leaves(&mut self, ks: &Declared, applied: &Applied, failure: &Failure) -> Option<Awaited> {
        let going = applied.failures().filter_map(|failure| match &failure.error {
            ApplyError::StillThere { uid, .. } => Some((failure.id.clone(), uid.clone())),
            _ => None,
        });
        let going: Vec<(ObjectId, String)> = going.collect();
        let all = going.len() == applied.failures().count();
        if let Some(record) = &mut self.memory.record {
            record.going = going;
        }
        let until = self.until(ks);
        (all && until > Instant::now()).then(|| Awaited::new(until, format!("Waiting for {failure}")))
    }

    /// Whether what a stage applied works, so that the next may build on it.
    fn health_of(&self, stage: &Stage) -> Verdict {
        let left = self.memory.record.as_ref().map(|record| &record.left);
        let left = |id: &ObjectId| left.is_some_and(|left| left.contains(id));
        let ours = stage.steps.iter().filter(|step| counts(step) && !left(step.id()));
        verdict(ours.filter_map(|step| {
            let (_, health) = observe::healthy(&self.access.hub, &self.cx.rules, &self.key, step.id());
            // nobody watches it: to wait would be to wait for ever
            Some((step.id(), health?))
        }))
    }

    /// Objects of a stage that drifted since they were applied, and who wrote them.
    fn drifting(&self, stage: &Stage, desired: &[Desired]) -> BTreeMap<ObjectId, Option<String>> {
        let applied = |id: &ObjectId| {
            let remembered = self.memory.applies.get(id)?;
            let desired = desired.iter().find(|desired| desired.id == *id)?;
            (remembered.desired == desired.digest).then_some(())
        };
        let steps = stage.steps.iter();
        steps
            .filter_map(|step| match step {
                Step::Patch {
                    id,
                    reason: PatchReason::Drifted,
                    ..
                } => {
                    let writer = match self.access.hub.get(id) {
                        Presence::Present(observed) => observed.other_writer.clone(),
                        Presence::Absent | Presence::Unknown => None,
                    };
                    Some((id.clone(), writer))
                }
                Step::Create(id) => applied(id).map(|()| (id.clone(), None)),
                Step::Patch { .. } | Step::Recreate { .. } | Step::Prune { .. } | Step::Keep(..) => None,
            })
            .collect()
    }

    /// Notes what was done: in the hub, in memory, in the numbers.
    fn took_in(&mut self, applied: &Applied, drifting: &BTreeMap<ObjectId, Option<String>>) {
        let now = Instant::now();
        applied.note_in(&mut self.memory.applies);
        let (mut writes, mut left) = (0, Vec::new());
        for outcome in applied.outcomes() {
            let Ok(done) = outcome.result() else { continue };
            if let Some(observed) = &done.observed {
                self.access.hub.note(outcome.id(), observed.clone());
            }
            match done.action {
                Action::Kept(KeepReason::Unchanged) => {}
                // planned to be applied, then looked at and left alone
                Action::Kept(_) if done.observed.is_some() => left.push(outcome.id().clone()),
                Action::Kept(_) => {}
                _ => writes += 1,
            }
            for warning in &done.warnings {
                let message = format!("{}: {warning}", outcome.id());
                self.emit(Severity::Warning, Why::Progressing, message);
            }
        }
        count(&self.cx.kit.tally.applies, writes);
        for (id, _) in applied.changes() {
            if let Some(writer) = drifting.get(id) {
                count(&self.cx.kit.tally.corrections, 1);
                self.memory.corrections.corrected(id, writer.clone(), now);
            }
        }
        let lines: Vec<String> = applied
            .changes()
            .map(|(id, action)| format!("{id} {action}"))
            .collect();
        if !lines.is_empty() {
            self.emit(Severity::Normal, Why::Progressing, lines.join("\n"));
        }
        if let Some(record) = &mut self.memory.record {
            record.changed |= !lines.is_empty();
            record.left.extend(left);
        }
    }

    /// All stages are applied: prunes, remembers digests in place of objects, and looks at the health.
    async fn finish(
        &mut self,
        ks: &Declared,
        mut plan: Plan,
        desired: &Arc<Vec<Desired>>,
        execution: &Execution<'_>,
    ) -> Result<Requeue, Stop> {
        let before = self.inventory();
        let contests = self
            .memory
            .record
            .as_ref()
            .map(|record| record.contests.clone())
            .unwrap_or_default();
        if !contests.is_empty() {
            let inventory = self.contested_inventory(&plan, desired, &before, &contests);
            self.settle(&plan, desired);
            return self.fail(ks, Failure::Contested(contests), Some(inventory)).await;
        }
        // applying took its time: what the others want by now counts
        let rest = self.prune_plan(ks, &undeclared(desired, &before)).await;
        if let Some(awaited) = rest.waits() {
            return self.wait_for(ks, &awaited).await;
        }
        self.memory.surveying_since = None;
        plan.prune = rest.plan.prune;
        let inventory = plan.inventory(desired, &before);
        self.memory.lingering = plan.lingering(&before);
        let pruned = self.prune(&plan.prune, &before, execution).await;
        if let Err((failure, survivors)) = pruned {
            let inventory = inventory.union(&survivors);
            return self.fail(ks, failure, Some(inventory)).await;
        }
        self.settle(&plan, desired);
        let held = inventory.clone();
        if let Err(failure) = self.follow(ks, desired, &held).await {
            return self.fail(ks, failure, Some(inventory)).await;
        }
        if let Some(record) = &mut self.memory.record {
            record.desired = None;
            record.masks.clear();
            record.failure = None;
            record.checking = Instant::now();
            record.phase = Phase::Checking {
                until: deadline(record.checking, ks.timeout),
            };
        }
        let now = Instant::now();
        self.memory.applies.retain(|id| inventory.contains(id));
        self.memory.corrections.retain(now, |id| inventory.contains(id));
        self.access.hub.retain(|id| inventory.contains(id));
        self.observe_unwatched().await;
        self.check_health(ks, inventory).await
    }

    /// What is held as long as others hold some of what is declared here: nothing is pruned while it is
    /// not clear what belongs to whom.
    fn contested_inventory(
        &self,
        plan: &Plan,
        desired: &[Desired],
        before: &Inventory,
        contests: &[Contest],
    ) -> Inventory {
        let theirs: BTreeSet<&ObjectId> = {
            let index = self.cx.index();
            let near = contests
                .iter()
                .filter(|contest| !index.is_in_other_shard(&contest.other));
            near.map(|contest| &contest.id).collect()
        };
        // what another shard holds stays claimed
        let kept = before
            .iter()
            .filter(|(id, _)| !theirs.contains(id))
            .map(|(id, version)| (id.clone(), version.to_owned()))
            .collect();
        plan.inventory(desired, before).union(&kept)
    }

    /// Deletes what is not declared any more; what could not be deleted stays in the inventory.
    pub(super) async fn prune(
        &mut self,
        steps: &[Step],
        held: &Inventory,
        execution: &Execution<'_>,
    ) -> Result<Vec<ObjectId>, (Failure, Inventory)> {
        if !steps.iter().any(Step::acts) {
            return Ok(Vec::new());
        }
        let applied = self.access.cluster.prune(steps, execution).await;
        let pruned: Vec<ObjectId> = applied.changes().map(|(id, _)| id.clone()).collect();
        count(
            &self.cx.kit.tally.prunes,
            u64::try_from(pruned.len()).unwrap_or(u64::MAX),
        );
        let lines: Vec<String> = pruned.iter().map(|id| format!("{id} deleted")).collect();
        if !lines.is_empty() {
            let mut event = self.event(Severity::Normal, Why::Progressing, lines.join("\n"));
            // as in Flux, whose events have the reason that `Ready` has: nothing makes progress any more
            if self.object.metadata.deletion_timestamp.is_some()
                && let Some(ready) = self.ready_condition()
            {
                event.reason.clone_from(&ready.reason);
            }
            self.cx.kit.recorder.publish(event);
        }
        if applied.succeeded() {
            return Ok(pruned);
        }
        let survivors = applied
            .failures()
            .map(|failure| {
                (
                    failure.id.clone(),
                    held.version(&failure.id).unwrap_or_default().to_owned(),
                )
            })
            .collect();
        let lines: Vec<String> = applied.failures().map(|failure| chain(failure)).collect();
        Err((Failure::Prune(lines.join("\n")), survivors))
    }

    /// Remembers of each object what makes it differ from now on.
    fn settle(&mut self, plan: &Plan, desired: &[Desired]) {
        let digests: BTreeMap<&ObjectId, &Desired> =
            desired.iter().map(|desired| (&desired.id, desired)).collect();
        let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
        let left = self.memory.record.as_ref().map(|record| &record.left);
        let objects = steps
            .map(|step| {
                let id = step.id();
                let left = left.is_some_and(|left| left.contains(id));
                let desired = digests.get(id);
                let remembered = self.memory.applies.get(id).map(|remembered| remembered.owned);
                let owned = remembered.or(desired.map(|desired| desired.digest));
                let asks = desired.is_some_and(|desired| desired.policy.ignored());
                let expects = match step {
                    _ if left => Expects::Nothing,
                    // somebody stopped it in the cluster: when that ends it has to be as declared
                    Step::Keep(_, KeepReason::Ignored) if !asks => {
                        desired.map_or(Expects::Nothing, |desired| Expects::Owned(desired.digest))
                    }
                    Step::Keep(_, KeepReason::Ignored | KeepReason::OwnLoop | KeepReason::HeldBy(_)) => {
                        Expects::Nothing
                    }
                    Step::Keep(_, KeepReason::Present) => Expects::Presence,
                    Step::Keep(_, KeepReason::Unchanged) => {
                        self.seen(id).map_or(Expects::Nothing, Expects::Owned)
                    }
                    _ => owned.map_or(Expects::Presence, Expects::Owned),
                };
                Held {
                    id: id.clone(),
                    expects,
                    leaves: desired.is_some_and(|desired| leaves(desired)),
                    counts: !left && counts(step),
                }
            })
            .collect();
        if let Some(record) = &mut self.memory.record {
            record.objects = objects;
        }
    }

    fn seen(&self, id: &ObjectId) -> Option<equate_apply::owned::Digest> {
        match self.access.hub.get(id) {
            Presence::Present(observed) => Some(observed.owned),
            Presence::Absent | Presence::Unknown => None,
        }
    }
}

/// How far the stages came.
enum Staged {
    /// All are applied.
    Done,
    /// One is not healthy yet: the hub wakes us when it is.
    Waits,
    /// Objects have to go before they can be created anew: the hub wakes us when they have.
    Leaves(Awaited),
    /// Kinds were defined that the rest needs.
    Defined,
    Failed(Failure),
}

/// Whether an object's health is asked for: not of what was left alone on somebody's wish.
fn counts(step: &Step) -> bool {
    !matches!(
        step,
        Step::Keep(
            _,
            KeepReason::Ignored | KeepReason::OwnLoop | KeepReason::HeldBy(_)
        )
    )
}

/// Why a stage failed: transient only if nothing in it needs a change.
fn failure(applied: &Applied) -> Option<Failure> {
    let failures: Vec<_> = applied.failures().collect();
    if failures.is_empty() {
        return None;
    }
    let lines: Vec<String> = failures.iter().map(|failure| refusal(failure)).collect();
    let lines = lines.join("\n");
    let lasting = failures
        .iter()
        .any(|failure| failure.error.retry() == ApplyRetry::OnChange);
    Some(if lasting {
        Failure::Apply(lines)
    } else {
        Failure::Unreachable(lines)
    })
}

/// Whether an object goes by itself when it is done, so that its absence means nothing.
fn leaves(desired: &Desired) -> bool {
    let spec = desired.object.0.get("spec");
    let ttl = spec.and_then(|spec| spec.get("ttlSecondsAfterFinished"));
    &*desired.id.group == "batch" && &*desired.id.kind == "Job" && ttl.is_some_and(|ttl| !ttl.is_null())
}

fn version(desired: &Desired) -> &str {
    let api_version = desired.object.api_version();
    api_version
        .rsplit_once('/')
        .map_or(api_version, |(_, version)| version)
}

/// Names the kinds that are waited for. One that may not be listed is not: its objects are asked
/// for one by one.
fn starting(waiting: &[(Kind, WatchState)]) -> Option<String> {
    let kinds = waiting.iter().filter_map(|(kind, standing)| match standing {
        WatchState::Starting(None) => Some(kind.to_string()),
        WatchState::Starting(Some(trouble)) => Some(format!("{kind} ({})", chain(&**trouble))),
        WatchState::Following | WatchState::Unserved | WatchState::Refused(_) | WatchState::Troubled(_) => {
            None
        }
    });
    let kinds: BTreeSet<String> = kinds.collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
    (!kinds.is_empty()).then_some(kinds)
}
