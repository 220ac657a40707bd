//! The facts about an owner that other owners need. Its controller hands them over with each change, so
//! that one graph has owners of several kinds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use equate_api::meta::KubeConfigReference;
use equate_apply::id::ObjectId;
use equate_apply::owner::OwnerKind;

use super::other_shards::StatusSeen;
use crate::ObjectRef;
use crate::dependencies::DEPENDENCIES_MAX;
use crate::kit::inputs::InputRef;

/// An object that applies others, as other objects see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// How its kind marks the objects that it applies.
    pub owner: &'static OwnerKind,
    /// Whether this process reconciles it.
    pub ours: bool,
    /// The generation of its spec.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it is suspended.
    pub suspended: bool,
    /// Its source.
    pub source: ObjectRef,
    /// Its dependencies. Shared: a search for cycles takes those of many owners.
    pub depends_on: Arc<[ObjectRef]>,
    /// Whether a dependency has a `readyExpr`, which may read any field.
    pub uses_ready_expr: bool,
    /// The ConfigMaps and Secrets that it reads.
    pub inputs: BTreeSet<InputRef>,
    /// The objects in its inventory. Shared: an inventory is long and seldom changes.
    pub holds: Arc<BTreeSet<ObjectId>>,
    /// Whether it applies to another cluster.
    pub remote: bool,
    /// Whether it impersonates a user, in any cluster.
    pub impersonates: bool,
    /// The user that it impersonates in this cluster.
    pub user: Option<String>,
    /// The kubeconfig of the other cluster.
    pub kube_config: Option<KubeConfigReference>,
    /// The owner that its labels name: the one that applied it.
    pub parent: Option<ObjectRef>,
    /// The namespace of all its namespaced objects (`spec.targetNamespace`).
    pub target_namespace: Option<String>,
    /// Whether it is ready only when its children are (`spec.wait`).
    pub waits: bool,
    /// Its status.
    pub status: StatusSeen,
}

/// Dependencies in order, each once. Those over the limit are left out: their object is refused.
pub(crate) fn dependencies(names: impl Iterator<Item = ObjectRef>) -> Arc<[ObjectRef]> {
    let names: BTreeSet<ObjectRef> = names.take(DEPENDENCIES_MAX).collect();
    names.into_iter().collect()
}

/// The owner of this kind that the object's labels name; `None` if the object applies itself.
pub fn parent_of(
    object: &ObjectRef,
    labels: Option<&BTreeMap<String, String>>,
    kind: &OwnerKind,
) -> Option<ObjectRef> {
    let label = |name: &str| labels?.get(name).map(String::as_str);
    let parent = ObjectRef::new(kind.kind, label(kind.namespace_label)?, label(kind.name_label)?);
    (parent != *object).then_some(parent)
}

/// The fields that matter to its dependents.
#[derive(Debug, PartialEq)]
pub(super) struct DependencyView<'a> {
    ready: bool,
    current: bool,
    applied: Option<&'a str>,
    source: &'a ObjectRef,
}

impl Declaration {
    pub(super) fn as_dependency(&self) -> DependencyView<'_> {
        DependencyView {
            ready: self.status.ready.as_ref().is_some_and(|ready| ready.is_true),
            current: self.status.observed_generation == Some(self.generation),
            applied: self.status.applied.as_deref(),
            source: &self.source,
        }
    }

    /// The fields that matter to other owners if only its status is known.
    pub(super) fn announcement(&self) -> (i64, bool, &StatusSeen) {
        (self.generation, self.suspended, &self.status)
    }

    /// The inputs of its build. A change of these outdates the last build.
    pub(super) fn build_inputs(&self) -> (&ObjectRef, bool, bool, i64) {
        (&self.source, self.deleting, self.suspended, self.generation)
    }
}
