//! What others have to know of an object that applies others: handed over by its controller with each
//! change of it, so that one graph holds objects of several kinds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use equate_api::meta::KubeConfigReference;
use equate_apply::id::ObjectId;
use equate_apply::owner::OwnerKind;

use super::other_shards::StatusSeen;
use crate::ObjectRef;
use crate::kit::inputs::InputRef;

/// An object that applies others, as far as other objects depend on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// How objects of its kind mark what they apply.
    pub owner: &'static OwnerKind,
    /// Whether this process reconciles it.
    pub ours: bool,
    /// The generation of its spec.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it is suspended.
    pub suspended: bool,
    /// What it is built from.
    pub source: ObjectRef,
    /// The objects that have to be ready first.
    pub depends_on: BTreeSet<ObjectRef>,
    /// Whether it has a test of its own (`readyExpr`) for one of those, which may read any field.
    pub uses_ready_expr: bool,
    /// The ConfigMaps and Secrets that it reads.
    pub inputs: BTreeSet<InputRef>,
    /// The objects in its inventory. Shared, because an inventory is long and seldom changes.
    pub holds: Arc<BTreeSet<ObjectId>>,
    /// Whether it applies to another cluster.
    pub remote: bool,
    /// Whether it impersonates somebody, in whichever cluster.
    pub impersonates: bool,
    /// The user that it impersonates in this cluster.
    pub user: Option<String>,
    /// How it reaches that other cluster.
    pub kube_config: Option<KubeConfigReference>,
    /// The owner that its labels name: the one that applied it.
    pub parent: Option<ObjectRef>,
    /// The namespace that all of its objects are in which have one, if the spec says so.
    pub target_namespace: Option<String>,
    /// Whether it is ready only when its children are.
    pub waits: bool,
    /// What its status says.
    pub status: StatusSeen,
}

/// The owner of a kind that the labels of an object name; one that applies itself has none.
pub fn parent_of(
    object: &ObjectRef,
    labels: Option<&BTreeMap<String, String>>,
    kind: &OwnerKind,
) -> Option<ObjectRef> {
    let label = |name: &str| labels?.get(name).map(String::as_str);
    let parent = ObjectRef::new(kind.kind, label(kind.namespace_label)?, label(kind.name_label)?);
    (parent != *object).then_some(parent)
}

/// What those who depend on an object see of it.
#[derive(Debug, PartialEq)]
pub(super) struct DependencyView<'a> {
    ready: bool,
    current: bool,
    applied: Option<&'a str>,
    source: &'a ObjectRef,
}

impl Declaration {
    /// As those who depend on it see it.
    pub(super) fn as_dependency(&self) -> DependencyView<'_> {
        DependencyView {
            ready: self.status.ready.as_ref().is_some_and(|ready| ready.is_true),
            current: self.status.observed_generation == Some(self.generation),
            applied: self.status.applied.as_deref(),
            source: &self.source,
        }
    }

    /// What others listen to, where nothing is known of it but its status.
    pub(super) fn announcement(&self) -> (i64, bool, &StatusSeen) {
        (self.generation, self.suspended, &self.status)
    }

    /// What it is built from and whether that is going to happen: a change makes what is known of it old.
    pub(super) fn build_inputs(&self) -> (&ObjectRef, bool, bool, i64) {
        (&self.source, self.deleting, self.suspended, self.generation)
    }
}
