//! The memory of this process about a Kustomization, between runs.
//!
//! All of it may be lost: after a start everything is built once, compared with the cluster, and found
//! unchanged. State that must survive is in the status.

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
use super::inputs::substitute_from::{Stamp, Values, ValuesError};
use super::inputs::tree::Content;
use super::reasons::Failure;
use super::render::Rendered;
use crate::corrections::Corrections;
use crate::dependencies::DependencyState;
use crate::dependencies::ready::ReadyExpressions;
use crate::kit::inputs::RejectedValues;
use crate::masks::Masks;
use crate::ownership::contest::Contest;
use crate::ownership::desired::DesiredSet;
use crate::targets::remote;
use crate::targets::target::{Access, TargetCluster};

#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The last revision that was carried out, or is being.
    pub record: Option<Record>,
    /// The connection to another target cluster.
    pub remote: Option<remote::RemoteHandle>,
    pub target: Option<TargetCluster>,
    pub access: Option<Access>,
    pub applies: Arc<plan::Memory>,
    pub corrections: Corrections,
    /// The start of a wait for something missing that no status reports yet.
    pub waiting: Option<Instant>,
    pub terminating: Option<Instant>,
    /// A build that is not carried out yet, made because the others need its desired state.
    pub prepared: Option<Prepared>,
    /// Objects that are no longer declared and still held, until another takes them or they may be deleted.
    pub lingering: Inventory,
    pub rejected_values: Option<RejectedValues<ValuesError>>,
    /// The start of the wait for the others' announcements.
    pub surveying_since: Option<Instant>,
    pub ready_expressions: Option<Arc<ReadyExpressions>>,
    /// The version of the owner rules that its objects were observed under.
    pub inspected_under: owner_rules::Stamp,
    pub this_run: ThisRun,
}

/// The memory of one run. It has values of Secrets, so it ends with the run.
#[derive(Debug, Default)]
pub(crate) struct ThisRun {
    pub begun: bool,
    /// The number of plans it carried out.
    pub rounds: usize,
    pub access: Option<Access>,
    pub no_access: Option<Failure>,
    pub values: Option<Result<Arc<Values>, ValuesError>>,
    pub prerequisites: Option<ObservedPrerequisites>,
    /// Whether a build ahead failed because the API server did not answer.
    pub ahead_unreached: bool,
    /// The objects whose access reviews were requested.
    pub reviewed: BTreeSet<ObjectId>,
    /// The watched kinds of its objects.
    pub kinds: Option<Kinds>,
    /// Whether a stage defined kinds, so that unserved kinds are no longer awaited.
    pub defined: bool,
    /// The number of objects it held before it applied anything.
    pub held_before: Option<usize>,
    /// The result of all stages, with the expected state of each object.
    pub passed: Option<(Passed, Vec<Held>)>,
    pub deletion: Option<decide::seen::Prepared>,
    pub deleted: Option<Arc<plan::Plan>>,
}

impl ThisRun {
    /// Another build is applied from now on.
    pub(crate) fn begin_applying(&mut self) {
        self.kinds = None;
        self.defined = false;
        self.held_before = None;
        self.passed = None;
    }
}

/// The observed prerequisites of a build, and their generation.
#[derive(Debug, Clone)]
pub(crate) struct ObservedPrerequisites {
    pub generation: i64,
    pub prerequisites: Arc<Prerequisites>,
    pub artifact: Option<Artifact>,
}

impl Memory {
    /// The applied build also is the build of the revision that this run found: the inputs are the same.
    pub(crate) fn renew(&mut self) {
        let looked = self.this_run.prerequisites.as_ref();
        let artifact = looked.and_then(|looked| looked.artifact.as_ref());
        if let (Some(artifact), Some(record)) = (artifact, &mut self.record) {
            record.tree = artifact.tree.id();
            record.revision = artifact.revision.clone();
            record.artifact.clone_from(&artifact.digest);
        }
    }

    /// Records the declared objects: they need not be released, even if applying them fails.
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
    pub generation: i64,
    pub tree: ContentId,
    pub inputs: Option<Inputs>,
    pub values: Option<Stamp>,
    pub wants: Option<DesiredSet>,
    /// The build itself; none where it will not be carried out.
    pub outcome: Option<Result<Rendered, Failure>>,
}

impl Prepared {
    pub(crate) fn is_of(&self, generation: i64, tree: &Tree) -> bool {
        let unchanged = |inputs: &Inputs| inputs.unchanged(&Content(tree.clone()));
        self.generation == generation
            && (self.tree == tree.id() || self.inputs.as_ref().is_some_and(unchanged))
    }

    pub(crate) fn is_with(&self, values: Option<&Arc<Values>>) -> bool {
        match (&self.values, values) {
            (Some(stamp), Some(values)) => stamp.is_of(values.stamp()),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Record {
    pub generation: i64,
    pub revision: Revision,
    /// The first revision with the same build: its confirmation counts for this one.
    pub since: String,
    pub tree: ContentId,
    /// None where the build failed: then only another tree can help.
    pub inputs: Option<Inputs>,
    /// The kubeconfig that it was built for.
    pub config: Option<remote::ConfigDigest>,
    /// None without variables, or where they could not be read.
    pub values: Option<Stamp>,
    /// Values to mask. Messages about health may quote them later.
    pub masks: Vec<Arc<Masks>>,
    /// Whether some were too large to keep.
    pub masks_dropped: bool,
    pub artifact: String,
    pub wants: Option<DesiredSet>,
    pub applied: bool,
    pub digest: String,
    /// Whether the build has no objects but those of Equate's own loop.
    pub empty: bool,
    pub token: Option<String>,
    pub began: Instant,
    /// The objects to apply, until all are; later they are built anew if needed.
    pub desired: Option<Arc<Vec<Desired>>>,
    pub objects: Vec<Held>,
    /// Awaited objects without a watch, with their API versions: they are polled.
    pub asked: Vec<(ObjectId, String)>,
    pub checks: Vec<ObjectId>,
    pub dependency_states: Vec<DependencyState>,
    pub contests: Vec<Contest>,
    /// Objects that were deleted to be recreated and still existed, by uid.
    pub going: Vec<(ObjectId, String)>,
    /// Objects that proved to be left alone only when they were read. They carry no labels of Equate, so
    /// the object watcher does not see them.
    pub left: BTreeSet<ObjectId>,
    /// Whether there are changes that no status reports yet.
    pub changed: bool,
    pub failure: Option<Failure>,
    pub phase: Phase,
    pub checking: Instant,
}

impl Record {
    pub(crate) fn drop_build(&mut self) {
        self.desired = None;
        let all = self.masks.len();
        self.masks.retain(|masks| masks.is_small());
        self.masks_dropped |= self.masks.len() < all;
    }

    pub(crate) fn is_named(&self, revision: Option<&str>) -> bool {
        revision.is_some_and(|revision| revision == self.revision.revision || revision == self.since)
    }

    pub(crate) fn is_confirmed(&self, ks: &Declared) -> bool {
        self.is_named(ks.prune_confirm.as_deref()) || (self.empty && self.is_named(ks.allow_empty.as_deref()))
    }
}

/// An object that was applied, or deliberately left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub id: ObjectId,
    pub expects: Expects,
    /// Whether it deletes itself when it is done, so that its absence is no drift.
    pub leaves: bool,
    pub counts: bool,
}

/// The expected state of an object in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expects {
    /// Equate's fields have this digest.
    Owned(Digest),
    Presence,
    Nothing,
}
