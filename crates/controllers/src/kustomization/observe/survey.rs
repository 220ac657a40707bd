//! Asks all owners for their desired state, for one that deletes; and finds those that have to be built
//! first.
//!
//! Cost: one survey reads all n Kustomizations, each of their sources once, and those that each reader of
//! the source declares (`Surveyor::all`, counted in `Stats::prune_checks`). Without a deletion there is
//! none. All readers of a source with the same timeout share an answer (`OwnershipGraph::kept_survey`),
//! also while it waits for an announcement: 1,000 that all prune in one commit made 4 surveys.
//!
//! An answer is not shared while an owner is late, or a declared one is not applied: the graph learns nothing
//! of the clock and of the object watcher, and an outdated answer would delete wanted objects. Each of those L
//! that hold something then asks again at each of its runs: O(L * n) for each commit.
//!
//! Waiting holds no worker: the run ends, and the awaited announcement begins the next.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use equate_apply::desired::Desired;
use equate_apply::plan::Presence;
use tokio::time::Instant;

use crate::ObjectRef;
use crate::kustomization::decide::deadline;
use crate::kustomization::decide::objects::{Holders, listed};
use crate::kustomization::declared::Declared;
use crate::kustomization::memory::Memory;
use crate::kustomization::{Kustomizations, count, object_ref, owner_of};
use crate::ownership::declaration::Declaration;
use crate::ownership::desired::{Applier, DesiredSet, DesiredState, Watched};
use crate::ownership::graph::OwnershipGraph;
use crate::ownership::other_shards;
use crate::ownership::survey::Survey;
use crate::targets::target::TargetCluster;

/// The reason when an owner's time is over.
const LATE: &str = "has not been built in time";

/// The present artifact of a source.
#[derive(Debug)]
struct CurrentArtifact {
    digest: String,
    revision: String,
    /// It is the source's present one; that of an earlier process is not.
    is_checked: bool,
}

impl Kustomizations {
    fn checked_artifact(&self, graph: &OwnershipGraph, source: &ObjectRef) -> Option<CurrentArtifact> {
        let (digest, revision) = self.current_artifact(source)?;
        let is_checked = !self.kit.sources.serves(source) || graph.announcements.is_source_checked(source);
        Some(CurrentArtifact {
            digest,
            revision,
            is_checked,
        })
    }
}

/// Whether an owner could be built and has not been, with its present spec and source.
fn is_unbuilt(
    graph: &OwnershipGraph,
    key: &ObjectRef,
    object: &Declaration,
    artifact: Option<&CurrentArtifact>,
) -> bool {
    let Some(artifact) = artifact.filter(|_| !object.deleting) else {
        return false;
    };
    if graph.is_in_other_shard(key) {
        return !other_shards::is_settled(object, &artifact.revision);
    }
    let state = graph.desired_state(key);
    !artifact.is_checked || !state.is_some_and(|state| state.is_of(object.generation, &artifact.digest))
}

/// The inputs of an unbuilt owner: each gives it a new deadline.
fn unbuilt_from(object: &Declaration, artifact: Option<&CurrentArtifact>) -> (i64, String) {
    let digest = artifact.map(|artifact| artifact.digest.clone());
    (object.generation, digest.unwrap_or_default())
}

/// The answer of all owners; shared while nothing changes.
pub(super) fn survey(
    cx: &Kustomizations,
    graph: &mut OwnershipGraph,
    ks: &Declared,
    target: &TargetCluster,
) -> Arc<Survey> {
    if *target != TargetCluster::Local {
        // few are in other shards: their answer is not shared
        count(&cx.kit.tally.prune_checks, 1);
        return Arc::new(Surveyor::new(cx, graph, ks, target).all());
    }
    let source = ks.source_ref();
    let artifact = cx.kit.sources.artifact(&source).map(|artifact| artifact.digest);
    let kept = graph
        .announcements
        .kept_survey(&source, ks.timeout, artifact.as_deref());
    let now = Instant::now();
    if let Some(kept) = kept.filter(|kept| kept.until.is_none_or(|until| until > now)) {
        return kept;
    }
    count(&cx.kit.tally.prune_checks, 1);
    let survey = Arc::new(Surveyor::new(cx, graph, ks, target).all());
    // nobody would forget a survey for a source without readers
    let is_reader = |declaration: &Declaration| declaration.source == source;
    if !survey.passing && graph.declaration(&object_ref(&ks.key)).is_some_and(is_reader) {
        graph
            .announcements
            .keep_survey(source, ks.timeout, artifact, Arc::clone(&survey));
    }
    survey
}

/// The last owners of these objects that still have to observe the new state, and their changes to wait
/// for.
pub(super) fn holders(
    cx: &Kustomizations,
    graph: &mut OwnershipGraph,
    (memory, ks): (&Memory, &Declared),
    desired: &[Desired],
    now: Instant,
) -> Option<(Holders, Watched)> {
    let view = &cx.access(memory).view;
    let (me, owner) = (object_ref(&ks.key), owner_of(&ks.key));
    let mut holders: BTreeSet<ObjectRef> = BTreeSet::new();
    for Desired { id, .. } in desired {
        // one that may not write the object gains nothing by waiting
        if graph.reviews.allow(&me, id) {
            let ours = || match view.get(id) {
                Presence::Present(observed) => observed.owner.as_ref() == Some(&owner),
                Presence::Absent | Presence::Unknown => false,
            };
            // in another shard it may turn out later that it is taken
            let theirs = graph
                .holders(id, &me)
                .filter(|key| cx.may_hold(graph, key, id) && !(graph.is_in_other_shard(key) && ours()));
            holders.extend(theirs.cloned());
        }
    }
    let (mut all, mut until) = (BTreeSet::new(), None);
    for key in holders {
        let Some(object) = graph.declaration(&key) else {
            continue;
        };
        let artifact = cx.checked_artifact(graph, &object.source);
        let keeps = || graph.is_in_other_shard(&key) && other_shards::keeps(object);
        if !is_unbuilt(graph, &key, object, artifact.as_ref()) && !keeps() {
            continue;
        }
        let from = unbuilt_from(object, artifact.as_ref());
        let since = graph.announcements.awaited_since(&key, from, now);
        let its = deadline(since, ks.timeout);
        if its > now {
            until = until.max(Some(its));
            all.insert(key);
        }
    }
    let until = until?;
    let named = listed(all.iter().map(ToString::to_string));
    let watched = Watched {
        of: all,
        until: Some(until),
    };
    Some((Holders { named, until }, watched))
}

/// A survey on behalf of one that deletes.
struct Surveyor<'a> {
    cx: &'a Kustomizations,
    graph: &'a mut OwnershipGraph,
    ks: &'a Declared,
    target: &'a TargetCluster,
    now: Instant,
    /// Each source is read once: the graph is locked meanwhile, and most sources have many readers.
    artifacts: HashMap<ObjectRef, Option<CurrentArtifact>>,
    survey: Survey,
}

impl<'a> Surveyor<'a> {
    fn new(
        cx: &'a Kustomizations,
        graph: &'a mut OwnershipGraph,
        ks: &'a Declared,
        target: &'a TargetCluster,
    ) -> Self {
        Self {
            cx,
            graph,
            ks,
            target,
            now: Instant::now(),
            artifacts: HashMap::new(),
            survey: Survey::default(),
        }
    }

    fn all(mut self) -> Survey {
        let all = self.graph.declarations();
        let all: Vec<ObjectRef> = all
            .filter(|(_, declaration)| !declaration.deleting)
            .map(|(object, _)| object.clone())
            .collect();
        for object in all {
            self.one(object);
        }
        self.survey
    }

    fn one(&mut self, key: ObjectRef) {
        let Some(object) = self.graph.declaration(&key) else {
            return;
        };
        if !self.graph.may_share_target(&key, self.target) {
            // it applies to another cluster
            return;
        }
        let near = object.source == self.ks.source_ref();
        if !near && self.graph.is_in_other_shard(&key) {
            // no commit has both of them: its present desired state is its answer
            return;
        }
        if !self.artifacts.contains_key(&object.source) {
            let artifact = self.cx.checked_artifact(self.graph, &object.source);
            self.artifacts.insert(object.source.clone(), artifact);
        }
        let artifact = self.artifacts.get(&object.source).and_then(Option::as_ref);
        if is_unbuilt(self.graph, &key, object, artifact) {
            if self.graph.is_in_other_shard(&key) {
                let revision = artifact.map(|artifact| artifact.revision.clone());
                return self.leave_open(key, &revision.unwrap_or_default());
            }
            let from = unbuilt_from(object, artifact);
            // without a common commit a failed build is not awaited
            if near || !self.graph.announcements.is_unreached(&key, from.0, &from.1) {
                self.expect(key, from, near);
            }
            return;
        }
        if object.suspended || !near {
            // it was asked, but nobody waits for it
            return;
        }
        let Some(state) = self.graph.desired_state(&key).cloned() else {
            return;
        };
        match &state.wants {
            DesiredSet::Unknown(why) => self.survey.mark_unknown(key, *why),
            DesiredSet::Known(objects) => {
                for applier in &objects.appliers {
                    self.ask_declared(&key, &state, applier);
                }
            }
        }
    }

    /// The desired state of one in another shard is unknown until it has applied the present artifact. Only
    /// deletions wait for that, since it may wait for this one.
    fn leave_open(&mut self, key: ObjectRef, revision: &str) {
        self.survey.in_other_shards.insert(key.clone());
        self.survey
            .mark_unknown(key, format!("has not applied {revision} yet"));
    }

    /// Waits for one that will be built. Each of its inputs gives it the same time.
    fn expect(&mut self, key: ObjectRef, from: (i64, String), near: bool) {
        let since = self.graph.announcements.awaited_since(&key, from, self.now);
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

    /// A Kustomization that another one declares may want more once its declared form is applied.
    fn ask_declared(&mut self, by: &ObjectRef, state: &DesiredState, applier: &Applier) {
        let (key, id) = (applier.owner.clone(), &applier.id);
        let known = self.graph.declaration(&key);
        let seen = self.cx.kit.objects.get(self.graph.owner(by).kind, id);
        match seen {
            Presence::Present(observed)
                if state.applied || observed.owned == applier.digest || state.formed(id, observed.owned) =>
            {
                let generation = known.map(|object| object.generation);
                if generation.is_none_or(|generation| generation < observed.generation) {
                    // applied, and the mirror is about to report it
                    self.survey.passing = true;
                    self.expect(key, (observed.generation, String::new()), true);
                }
            }
            _ if state.applied && known.is_some() => {}
            _ => {
                self.survey.passing = true;
                self.survey.declarers.insert(by.clone());
                self.survey
                    .mark_unknown(key, format!("is not applied yet as {by} declares it"));
            }
        }
    }
}
