//! A Kustomization as the ownership graph knows it.

use std::collections::BTreeSet;
use std::sync::Arc;

use equate_api::kustomize::{Inventory, Kustomization, KustomizationStatus, SourceReference};
use equate_api::meta::{Condition, ConditionType, Reason as Why, condition};
use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use serde::Deserialize as _;
use serde_json::Value;

use super::declared::account_of;
use super::inputs::substitute_from;
use super::{KUSTOMIZATION, applies, object_ref};
use crate::kit::mirror::Change;
use crate::kit::wake::Reason;
use crate::ownership::declaration::{Declaration, dependencies, parent_of};
use crate::ownership::graph::OwnershipGraph;
use crate::ownership::other_shards::{ReadySeen, StatusSeen};
use crate::policy::Policy;
use crate::targets::target::user;
use crate::{Key, ObjectRef};

/// Records a change in the graph. Returns the Kustomizations to wake, this one included. `ours` is whether
/// this process reconciles it.
pub(crate) fn changed(
    graph: &mut OwnershipGraph,
    change: &Change<Kustomization>,
    ours: bool,
    policy: &Policy,
) -> Vec<(ObjectRef, Reason)> {
    let reference = object_ref(&change.key);
    let now = change.after.as_deref().map(|object| {
        let before = change.before.as_deref();
        let known = graph.declaration(&reference);
        let known = known.filter(|_| before.is_some_and(|before| inventory(before) == inventory(object)));
        let holds = match known {
            // an inventory is long and seldom changes with its status
            Some(known) => Arc::clone(&known.holds),
            None => Arc::new(holds(object)),
        };
        declaration(object, holds, ours, policy)
    });
    graph.changed(&reference, change.what.reason(), now)
}

fn declaration(
    object: &Kustomization,
    holds: Arc<BTreeSet<ObjectId>>,
    ours: bool,
    policy: &Policy,
) -> Declaration {
    let (meta, spec) = (&object.metadata, &object.spec);
    let remote = spec.kube_config.is_some();
    let account = account_of(spec, policy);
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    Declaration {
        owner: &KUSTOMIZATION,
        ours,
        generation: meta.generation.unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        suspended: spec.suspend,
        source: source_of(object),
        depends_on: depends_on(object),
        uses_ready_expr: spec.depends_on.iter().any(|on| on.ready_expr.is_some()),
        inputs: substitute_from::holders(object, policy.sops_age_secret.as_ref()).collect(),
        holds,
        remote,
        impersonates: account.is_some(),
        user: account
            .filter(|_| !remote)
            .map(|account| user(namespace, account)),
        kube_config: spec.kube_config.clone(),
        parent: parent_of(&object_ref(&Key::of(meta)), meta.labels.as_ref(), &KUSTOMIZATION),
        target_namespace: spec.target_namespace.clone(),
        waits: spec.wait || !spec.health_checks.is_empty(),
        status: object.status.as_ref().map(status_seen).unwrap_or_default(),
    }
}

/// The owner kind of a declared object that is an owner itself, and the source that it declares; no source
/// where it is suspended.
pub(crate) fn applier(desired: &Desired) -> Option<(&'static str, Option<ObjectRef>)> {
    let kind = applies(&desired.id)?;
    let spec = desired.object.0.get("spec");
    let suspended = spec.and_then(|spec| spec.get("suspend")) == Some(&Value::Bool(true));
    let reference = spec.filter(|_| !suspended).and_then(|spec| spec.get("sourceRef"));
    let reference = reference.and_then(|reference| SourceReference::deserialize(reference).ok());
    let source = reference.map(|reference| {
        let namespace = reference.namespace.as_deref().unwrap_or(&desired.id.namespace);
        ObjectRef::new(reference.kind.as_str(), namespace, &*reference.name)
    });
    Some((kind, source))
}

pub(crate) fn source_of(object: &Kustomization) -> ObjectRef {
    let reference = &object.spec.source_ref;
    let own = object.metadata.namespace.as_deref().unwrap_or_default();
    let namespace = reference.namespace.as_deref().unwrap_or(own);
    ObjectRef::new(reference.kind.as_str(), namespace, &*reference.name)
}

fn depends_on(object: &Kustomization) -> Arc<[ObjectRef]> {
    let own = object.metadata.namespace.as_deref().unwrap_or_default();
    let names = object.spec.depends_on.iter();
    dependencies(names.map(|on| object_ref(&Key::new(on.namespace.as_deref().unwrap_or(own), &*on.name))))
}

fn inventory(object: &Kustomization) -> Option<&Inventory> {
    object.status.as_ref()?.inventory.as_ref()
}

/// The objects of its inventory. The Kustomization itself reports unreadable entries.
fn holds(object: &Kustomization) -> BTreeSet<ObjectId> {
    let entries = inventory(object).into_iter();
    entries
        .flat_map(|inventory| &inventory.entries)
        .filter_map(|entry| ObjectId::from_inventory(&entry.id).ok())
        .collect()
}

/// Whether a condition says that deletions are blocked. Another shard may still write its old name.
fn is_prune_blocked(condition: &Condition) -> bool {
    let names = [ConditionType::PruneBlocked.as_str(), "PruneHeld"];
    names.contains(&&*condition.type_) && condition.status == "True"
}

fn status_seen(status: &KustomizationStatus) -> StatusSeen {
    let ready = condition(&status.conditions, ConditionType::Ready);
    StatusSeen {
        observed_generation: status.observed_generation,
        attempted: status.last_attempted_revision.clone(),
        applied: status.last_applied_revision.clone(),
        ready: ready.map(|ready| ReadySeen {
            is_true: ready.status == "True",
            is_false: ready.status == "False",
            is_unhealthy: ready.status == "False" && ready.reason == Why::HealthCheckFailed.as_str(),
            reason: ready.reason.clone(),
            observed_generation: ready.observed_generation,
        }),
        prune_blocked: status.conditions.iter().any(is_prune_blocked),
    }
}
