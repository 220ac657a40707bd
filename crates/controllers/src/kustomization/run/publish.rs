//! Tells the other Kustomizations what this one wants: builds it if need be, also while it waits or rests,
//! so that what moved to it is not deleted elsewhere.
//!
//! The build is kept where it is going to be carried out. To build waits for nobody, so nobody waits in a
//! circle.

use equate_apply::id::ObjectId;
use equate_apply::owned::Digest;

use super::Run;
use crate::kustomization::decide::{Decision, Seen};
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::{Artifact, SourceSeen};
use crate::kustomization::memory::Prepared;
use crate::kustomization::reasons::Stall;
use crate::kustomization::render::desired_of;
use crate::ownership::desired::{DesiredSet, DesiredState};

const NO_ACCESS: &str = "has a kubeConfig that cannot be used";
const NOT_STORED: &str = "has a source whose artifact is not stored";

impl Run<'_> {
    /// Lets the others know what it wants, whatever becomes of it now; builds it if need be.
    pub(super) async fn publish(
        &mut self,
        ks: &Declared,
        seen: &Seen,
        artifact: Option<&Artifact>,
        decision: &Decision,
    ) {
        match decision {
            Decision::Gone | Decision::Finalize(_) | Decision::AddFinalizer | Decision::Build(_) => return,
            Decision::Suspended
            | Decision::Stall(_)
            | Decision::Wait(_)
            | Decision::Resume
            | Decision::Health
            | Decision::Unconfirmed
            | Decision::ReleaseObjects
            | Decision::NewRevision
            | Decision::Settled => {}
        }
        if let Decision::Stall(Stall::CrossNamespace(..)) = decision {
            // it reads nothing that it may not read, so it wants nothing
            if let Some(artifact) = self.cx.artifact_digest(&ks.source_ref()) {
                self.publish_desired(ks, &artifact, DesiredSet::nothing(), true);
            }
            return;
        }
        let Some(artifact) = artifact else {
            return self.publish_without_artifact(ks, seen);
        };
        let holds = seen
            .last
            .as_ref()
            .is_some_and(|last| last.inputs_hold && last.generation == ks.generation);
        if holds {
            // carried out, or being: nothing else is kept for it
            self.memory.prepared = None;
        }
        let (wants, applied) = if self.access_failure.is_some() {
            (Some(DesiredSet::Unknown(NO_ACCESS)), false)
        } else if let Some(record) = self.memory.record.as_ref().filter(|_| holds) {
            (record.wants.clone(), record.applied)
        } else {
            let keep = matches!(decision, Decision::Wait(_));
            (self.prepare(ks, artifact, keep).await, false)
        };
        if let Some(wants) = wants {
            self.publish_desired(ks, &artifact.digest, wants, applied);
        } else {
            self.unreached(ks, &artifact.digest);
        }
    }

    fn publish_without_artifact(&self, ks: &Declared, seen: &Seen) {
        match (&seen.source, self.cx.artifact_digest(&ks.source_ref())) {
            (SourceSeen::NotStored | SourceSeen::Unfetched { .. }, Some(artifact)) => {
                self.publish_desired(ks, &artifact, DesiredSet::Unknown(NOT_STORED), false);
            }
            // it is built as soon as it is here: who waits for that goes on waiting
            (SourceSeen::Fetching { .. }, Some(_)) => {}
            _ => {
                let wakes = self.cx.index().wake_waiting(&self.me);
                self.cx.wake(wakes);
            }
        }
    }

    /// Says what it wants.
    pub(super) fn publish_desired(&self, ks: &Declared, artifact: &str, wants: DesiredSet, applied: bool) {
        let state = DesiredState {
            generation: ks.generation,
            artifact: artifact.to_owned(),
            forms: self.forms(&wants),
            wants,
            applied,
        };
        let wakes = self.cx.index().set_desired(&self.me, state);
        self.cx.wake(wakes);
    }

    /// The Kustomizations that are applied as they are wanted, and what the API server made of them.
    fn forms(&self, wants: &DesiredSet) -> Vec<(ObjectId, Digest)> {
        let DesiredSet::Known(objects) = wants else {
            return Vec::new();
        };
        let declared = objects.appliers.iter();
        declared
            .filter_map(|applier| {
                let applied = self.memory.applies.get(&applier.id)?;
                (applied.desired == applier.digest).then(|| (applier.id.clone(), applied.owned))
            })
            .collect()
    }

    /// What it wants could not be found out, for the API server could not be asked.
    pub(super) fn unreached(&self, ks: &Declared, artifact: &str) {
        let from = (ks.generation, artifact.to_owned());
        let wakes = self.cx.index().unreached(&self.me, from);
        self.cx.wake(wakes);
    }

    /// Builds what cannot be carried out yet; once for the same inputs.
    async fn prepare(&mut self, ks: &Declared, artifact: &Artifact, keep: bool) -> Option<DesiredSet> {
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
        let wants = desired_of(&outcome);
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
}
