//! Asks all Kustomizations what they want, for one that deletes; and waits for those who have to be built
//! before it is known.
//!
//! What it costs. To ask is to look at all n Kustomizations once, and at those that each reader of
//! the source declares: `Surveyor::all`, counted in `Stats::prune_checks`. Deleting nothing asks nobody.
//! The answer is kept for all who read the same source and have as much time (`OwnershipGraph::kept_survey`), also
//! while it waits, until the one it waits for speaks: 1,000 that all prune in one commit asked 4
//! times. Each timeout among the readers of a source has an answer of its own. None is kept while one
//! is late, or one that is declared is not applied: that depends on the clock and on the hub, of which
//! the index is not told, and each of those L who hold something asks anew at each of its runs,
//! O(L * n) for each commit. To keep those as well the hub would have to tell of Kustomizations; an
//! answer that is kept too long deletes what is wanted.
//!
//! Waiting holds no worker: a run that has to wait ends, and the word it waits for begins the next.

use std::collections::BTreeSet;
use std::sync::Arc;

use equate_api::kustomize::Kustomization;
use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::owned::Digest;
use equate_apply::plan::Presence;
use tokio::time::Instant;

use super::status::Stop;
use super::{Context, Run, count};
use crate::Key;
use crate::kit::queue::Requeue;
use crate::kit::wake::Reason;
use crate::kustomization::decide::deadline;
use crate::kustomization::declared::Declared;
use crate::ownership::desired::{DesiredSet, DesiredState, Watched};
use crate::ownership::graph::{self, OwnershipGraph};
use crate::ownership::other_shards;
use crate::ownership::survey::{NAMED, PATIENCE, Survey};
use crate::targets::target::TargetCluster;

/// Why it is not known what one wants that has had its time.
const LATE: &str = "has not been built in time";

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
pub(super) fn listed(mut names: impl Iterator<Item = String>) -> String {
    let named: Vec<String> = names.by_ref().take(NAMED).collect();
    let named = named.join(", ");
    match names.count() {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

impl Context {
    /// Whether a Kustomization could be built and has not been, as it and its source are now.
    pub(super) fn is_unbuilt(&self, index: &OwnershipGraph, key: &Key, object: &Kustomization) -> bool {
        if object.metadata.deletion_timestamp.is_some() {
            return false;
        }
        if index.is_in_other_shard(key) {
            let supply = self.current_artifact(object);
            return supply.is_some_and(|(_, revision)| !other_shards::is_settled(object, &revision));
        }
        let artifact = self.artifact_digest(object);
        artifact.is_some_and(|artifact| {
            let state = index.desired_state(key);
            let source = graph::source(object);
            // what an earlier process fetched is not what the source has now
            (self.serves(&source) && !index.has_looked(&source))
                || !state.is_some_and(|state| state.is_of(object, &artifact))
        })
    }

    /// What an unbuilt Kustomization would be built from: it has its time for each anew.
    pub(super) fn unbuilt_from(&self, object: &Kustomization) -> (i64, String) {
        let generation = object.metadata.generation.unwrap_or_default();
        (generation, self.artifact_digest(object).unwrap_or_default())
    }

    /// What the others say; asked once for all who ask while nothing changes.
    pub(super) fn survey(
        &self,
        index: &mut OwnershipGraph,
        ks: &Declared,
        target: &TargetCluster,
    ) -> Arc<Survey> {
        if *target != TargetCluster::Local {
            // few are elsewhere: what they hear is not kept
            count(&self.kit.tally.prune_checks, 1);
            return Arc::new(Surveyor::new(self, index, ks, target).all());
        }
        let source = (ks.source_kind, ks.source.clone());
        let artifact = self.kit.sources.artifact(&source).map(|artifact| artifact.digest);
        let kept = index.kept_survey(&source, ks.timeout, artifact.as_deref());
        let now = Instant::now();
        if let Some(kept) = kept.filter(|kept| kept.until.is_none_or(|until| until > now)) {
            return kept;
        }
        count(&self.kit.tally.prune_checks, 1);
        let survey = Arc::new(Surveyor::new(self, index, ks, target).all());
        if !survey.passing {
            index.keep_survey(source, ks.timeout, artifact, Arc::clone(&survey));
        }
        survey
    }
}

impl Run<'_> {
    /// Whether those who had one of these objects last still have to look at what is new.
    pub(super) fn holders_are_unbuilt(&self, ks: &Declared, desired: &[Desired]) -> Option<Awaited> {
        let mut index = self.cx.index();
        let now = Instant::now();
        let mut holders: BTreeSet<Key> = BTreeSet::new();
        for Desired { id, .. } in desired {
            // whether there is something to wait for is nothing to one that may not write it
            if index.reviews.allow(&self.key, id) {
                let ours = || match self.access.hub.get(id) {
                    Presence::Present(observed) => observed.owner == Some(self.owner()),
                    Presence::Absent | Presence::Unknown => false,
                };
                // in another shard it may be known later that it is taken
                let theirs = index
                    .holders(id, &self.key)
                    .filter(|key| self.cx.may_hold(key, id) && !(index.is_in_other_shard(key) && ours()));
                holders.extend(theirs.cloned());
            }
        }
        let (mut all, mut until) = (BTreeSet::new(), None);
        for key in holders {
            let object = self.cx.kustomizations.get(&key);
            let unbuilt = object.filter(|object| {
                self.cx.is_unbuilt(&index, &key, object)
                    || (index.is_in_other_shard(&key) && other_shards::keeps(object))
            });
            let Some(object) = unbuilt else { continue };
            let since = index.unbuilt_since(&key, self.cx.unbuilt_from(&object), now);
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
    pub(super) async fn wait_for(&mut self, ks: &Declared, awaited: &Awaited) -> Result<Requeue, Stop> {
        let now = Instant::now();
        let told = *self.memory.surveying_since.get_or_insert(now) + PATIENCE;
        if now < told {
            return Ok(Requeue::After(told.min(awaited.until) - now, Reason::Deadline));
        }
        self.report_status(ks, |report| report.awaiting(&awaited.message))
            .await?;
        Ok(Requeue::After(awaited.until - now, Reason::Deadline))
    }
}

/// Asks all Kustomizations what they want, on behalf of one that deletes.
pub(super) struct Surveyor<'a> {
    cx: &'a Context,
    index: &'a mut OwnershipGraph,
    ks: &'a Declared,
    target: &'a TargetCluster,
    now: Instant,
    survey: Survey,
}

impl<'a> Surveyor<'a> {
    pub(super) fn new(
        cx: &'a Context,
        index: &'a mut OwnershipGraph,
        ks: &'a Declared,
        target: &'a TargetCluster,
    ) -> Self {
        Self {
            cx,
            index,
            ks,
            target,
            now: Instant::now(),
            survey: Survey::default(),
        }
    }

    pub(super) fn all(mut self) -> Survey {
        for object in self.cx.kustomizations.all() {
            if object.metadata.deletion_timestamp.is_none() {
                self.one(&object);
            }
        }
        self.survey
    }

    fn one(&mut self, object: &Kustomization) {
        let key = Key::of(&object.metadata);
        if !self.index.may_share_target(&key, self.target) {
            // what it applies, it applies elsewhere
            return;
        }
        let near = graph::source(object) == (self.ks.source_kind, self.ks.source.clone());
        if !near && self.index.is_in_other_shard(&key) {
            // no commit is both theirs and ours: what it has now is its answer
            return;
        }
        if self.cx.is_unbuilt(self.index, &key, object) {
            if self.index.is_in_other_shard(&key) {
                return self.leave_open(key, object);
            }
            let from = self.cx.unbuilt_from(object);
            // one that was tried is not waited for where no commit is both theirs and ours
            if near || !self.index.is_unreached(&key, &from) {
                self.expect(key, from, near);
            }
            return;
        }
        if object.spec.suspend || !near {
            // it was asked, but its answer is not waited for
            return;
        }
        let Some(state) = self.index.desired_state(&key).cloned() else {
            return;
        };
        match &state.wants {
            DesiredSet::Unknown(why) => self.survey.mark_unknown(key, *why),
            DesiredSet::Known(objects) => {
                for (id, digest) in &objects.kustomizations {
                    self.ask_declared(&key, &state, id, *digest);
                }
            }
        }
    }

    /// What one of another shard wants is open until it has applied what is there now. Nothing but a
    /// deletion waits for that: it may wait for this one.
    fn leave_open(&mut self, key: Key, object: &Kustomization) {
        let (_, revision) = self.cx.current_artifact(object).unwrap_or_default();
        self.survey.in_other_shards.insert(key.clone());
        self.survey
            .mark_unknown(key, format!("has not applied {revision} yet"));
    }

    /// Waits for one that is going to be built; each of its inputs gives it the same time.
    fn expect(&mut self, key: Key, from: (i64, String), near: bool) {
        let since = self.index.unbuilt_since(&key, from, self.now);
        let until = deadline(since, self.ks.timeout);
        if until > self.now {
            self.survey.unbuilt.insert(key, since);
            self.survey.until = self.survey.until.max(Some(until));
            return;
        }
        self.survey.passing = true;
        if near {
            self.survey.mark_unknown(key, LATE);
        }
    }

    /// One that another declares may want something only once it is as it is declared.
    fn ask_declared(&mut self, by: &Key, state: &DesiredState, id: &ObjectId, digest: Digest) {
        let key = Key::new(&*id.namespace, &*id.name);
        let known = self.cx.kustomizations.get(&key);
        match self.cx.here.hub.get(id) {
            Presence::Present(observed)
                if state.applied || observed.owned == digest || state.formed(id, observed.owned) =>
            {
                let generation = known.and_then(|object| object.metadata.generation);
                if generation.is_none_or(|generation| generation < observed.generation) {
                    // applied, and the mirror is about to tell
                    self.survey.passing = true;
                    self.expect(key, (observed.generation, String::new()), true);
                }
            }
            _ if state.applied && known.is_some() => {}
            _ => {
                self.survey.passing = true;
                self.survey.declarers.insert(by.clone());
                self.survey.mark_unknown(
                    key,
                    format!("is not applied yet as Kustomization/{by} declares it"),
                );
            }
        }
    }
}
