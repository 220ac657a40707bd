//! What this process remembers of a Kustomization between runs.
//!
//! All of it may be lost: after a start everything is built once, held against the cluster, and
//! found as it should be. What must not be lost is in the status.

use std::collections::BTreeSet;
use std::sync::Arc;

use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::owned::Digest;
use equate_apply::{plan, rules as owner_rules};
use equate_kustomize::Inputs;
use equate_source::{ContentId, Tree};
use tokio::time::Instant;

use super::decide;
use super::decide::objects::Kinds;
use super::decide::seen::{Passed, Phase, Prerequisites};
use super::declared::Declared;
use super::inputs::artifact::{Artifact, Revision};
use super::inputs::masks::Masks;
use super::inputs::substitute_from::{Stamp, Values, ValuesError};
use super::inputs::tree::Content;
use super::reasons::Failure;
use super::render::Rendered;
use crate::corrections::Corrections;
use crate::dependencies::DependencyState;
use crate::ownership::contest::Contest;
use crate::ownership::desired::DesiredSet;
use crate::targets::remote;
use crate::targets::target::{Access, TargetCluster};

/// Between runs.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The last revision that was carried out, or is being.
    pub record: Option<Record>,
    /// The other cluster that they are in, if they are.
    pub remote: Option<remote::RemoteHandle>,
    /// The cluster that all of this is about.
    pub target: Option<TargetCluster>,
    /// How its objects are reached.
    pub access: Option<Access>,
    /// Our applies, by object.
    pub applies: Arc<plan::Memory>,
    /// Corrections of drift.
    pub corrections: Corrections,
    /// Since when something is missing that has not been told yet.
    pub waiting: Option<Instant>,
    /// Until when objects of a deleted Kustomization are waited for.
    pub terminating: Option<Instant>,
    /// What was built without being carried out yet, because the others have to know of it.
    pub prepared: Option<Prepared>,
    /// What is not declared any more and still held, until another takes it or it may be deleted.
    pub lingering: Inventory,
    /// Since when the others are waited for, that have not said yet what they want.
    pub surveying_since: Option<Instant>,
    /// Under which terms its objects were looked at.
    pub inspected_under: owner_rules::Stamp,
    /// What belongs to the present run alone.
    pub this_run: ThisRun,
}

/// What belongs to one run, and is forgotten when it ends: values of Secrets are among it.
#[derive(Debug, Default)]
pub(crate) struct ThisRun {
    /// Whether its surroundings were looked at.
    pub begun: bool,
    /// How many plans it carried out.
    pub rounds: usize,
    /// Where it applies, and as whom.
    pub access: Option<Access>,
    /// Why it reaches nothing, if it should.
    pub no_access: Option<Failure>,
    /// The variables, if it has read them.
    pub values: Option<Result<Arc<Values>, ValuesError>>,
    /// What has to be there before anything is built.
    pub prerequisites: Option<Looked>,
    /// Whether what it wants could not be built ahead, for the API server could not be asked.
    pub ahead_unreached: bool,
    /// The objects for whose sake it was asked who may write them.
    pub reviewed: BTreeSet<ObjectId>,
    /// The kinds that are followed for what it applies.
    pub kinds: Option<Kinds>,
    /// Whether a stage defined kinds, so that those that are still not served are not waited for.
    pub defined: bool,
    /// How many objects it held before it applied anything.
    pub held_before: Option<usize>,
    /// What it applied to the last stage, and what is expected of each object then.
    pub passed: Option<(Passed, Vec<Held>)>,
    /// What was found out before its objects are deleted.
    pub deletion: Option<decide::seen::Prepared>,
    /// What it deleted.
    pub deleted: Option<Arc<plan::Plan>>,
}

impl ThisRun {
    /// What is applied from now on is another build than before.
    pub(crate) fn begin_applying(&mut self) {
        self.kinds = None;
        self.defined = false;
        self.held_before = None;
        self.passed = None;
    }
}

/// What a build needs, as a run saw it, and the generation that it was seen for.
#[derive(Debug, Clone)]
pub(crate) struct Looked {
    pub generation: i64,
    pub prerequisites: Arc<Prerequisites>,
    pub artifact: Option<Artifact>,
}

impl Memory {
    /// What is carried out is at the revision that this run found: the inputs are the same.
    pub(crate) fn renew(&mut self) {
        let looked = self.this_run.prerequisites.as_ref();
        let artifact = looked.and_then(|looked| looked.artifact.as_ref());
        if let (Some(artifact), Some(record)) = (artifact, &mut self.record) {
            record.tree = artifact.tree.id();
            record.revision = artifact.revision.clone();
            record.artifact.clone_from(&artifact.digest);
        }
    }

    /// Notes what is declared by now: that need not be let go of any more, also if applying it fails.
    pub(crate) fn declare(&mut self, wants: &DesiredSet) {
        if let DesiredSet::Known(objects) = wants {
            let lingering = std::mem::take(&mut self.lingering);
            let still = lingering.into_iter().filter(|(id, _)| !objects.contains(id));
            self.lingering = still.collect();
        }
    }
}

/// A build that was not carried out yet.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The generation of the spec.
    pub generation: i64,
    /// The artifact's tree.
    pub tree: ContentId,
    /// What the build read; none where it failed.
    pub inputs: Option<Inputs>,
    /// The variables it was built with.
    pub values: Option<Stamp>,
    /// What it says is wanted.
    pub wants: Option<DesiredSet>,
    /// The build itself; none where it is not going to be carried out.
    pub outcome: Option<Result<Rendered, Failure>>,
}

impl Prepared {
    /// Whether a build of this tree would be the same.
    pub(crate) fn is_of(&self, generation: i64, tree: &Tree) -> bool {
        let unchanged = |inputs: &Inputs| inputs.unchanged(&Content(tree.clone()));
        self.generation == generation
            && (self.tree == tree.id() || self.inputs.as_ref().is_some_and(unchanged))
    }

    /// Whether it was built with these variables.
    pub(crate) fn is_with(&self, values: Option<&Arc<Values>>) -> bool {
        match (&self.values, values) {
            (Some(stamp), Some(values)) => stamp.is_of(values.stamp()),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

/// A revision that was carried out, or is being.
#[derive(Debug)]
pub(crate) struct Record {
    /// The generation of the spec.
    pub generation: i64,
    /// The revision.
    pub revision: Revision,
    /// The first revision of which the same was built: who confirmed that has confirmed this.
    pub since: String,
    /// The artifact's tree.
    pub tree: ContentId,
    /// What the build read; none where it failed, and then only another tree can help.
    pub inputs: Option<Inputs>,
    /// The kubeconfig it was built for, if there was one.
    pub config: Option<remote::ConfigDigest>,
    /// The variables it was built with; none where they could not be read, or it has none.
    pub values: Option<Stamp>,
    /// What of them, and of what was decrypted, must not be shown, as long as it is applied.
    pub masks: Vec<Arc<Masks>>,
    /// The digest of the artifact.
    pub artifact: String,
    /// What it says is wanted; none if that could not be found out yet.
    pub wants: Option<DesiredSet>,
    /// Whether all of it was applied.
    pub applied: bool,
    /// The digest of what was built.
    pub digest: String,
    /// Whether nothing was built but this very loop.
    pub empty: bool,
    /// The token of the request it answers.
    pub token: Option<String>,
    /// When it began.
    pub began: Instant,
    /// The objects to apply, until all are; then they are forgotten and built anew if need be.
    pub desired: Option<Arc<Vec<Desired>>>,
    /// What was applied, object by object.
    pub objects: Vec<Held>,
    /// Those of the next that nobody tells it of, each with its version: they are asked for.
    pub asked: Vec<(ObjectId, String)>,
    /// The objects that are waited for by name.
    pub checks: Vec<ObjectId>,
    /// What it depended on when this was tried last.
    pub dependency_states: Vec<DependencyState>,
    /// Objects that another Kustomization holds.
    pub contests: Vec<Contest>,
    /// Objects that were deleted to be created anew and had not gone, by uid.
    pub going: Vec<(ObjectId, String)>,
    /// Objects that turned out to be left alone only when they were looked at: they carry no
    /// labels of ours, so the hub does not see them.
    pub left: BTreeSet<ObjectId>,
    /// Whether anything was changed that no status tells of yet.
    pub changed: bool,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// How far it came.
    pub phase: Phase,
    /// Since when health is waited for.
    pub checking: Instant,
}

impl Record {
    /// Whether an annotation names what this was built from.
    pub(crate) fn is_named(&self, revision: Option<&str>) -> bool {
        revision.is_some_and(|revision| revision == self.revision.revision || revision == self.since)
    }

    /// Whether somebody said that it may delete whatever it deletes.
    pub(crate) fn is_confirmed(&self, ks: &Declared) -> bool {
        self.is_named(ks.prune_confirm.as_deref()) || (self.empty && self.is_named(ks.allow_empty.as_deref()))
    }
}

/// An object that was applied, or left alone on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    /// Which.
    pub id: ObjectId,
    /// What makes it differ from what was applied.
    pub expects: Expects,
    /// Whether it goes by itself when it is done, so that its absence means nothing.
    pub leaves: bool,
    /// Whether it counts when everything has to be healthy.
    pub counts: bool,
}

/// What is expected of an object in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expects {
    /// That our fields are these.
    Owned(Digest),
    /// That it is there.
    Presence,
    /// Nothing.
    Nothing,
}
