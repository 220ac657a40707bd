//! A HelmRelease as the ownership graph knows it.

use std::collections::BTreeSet;
use std::sync::Arc;

use equate_api::helm::{HelmRelease, HelmReleaseStatus};
use equate_api::kustomize::Inventory;
use equate_api::meta::{ConditionType, condition};
use equate_apply::id::ObjectId;

use super::decide::seen::{Chart, Seen, Source};
use super::declared::{Declared, holders, source};
use super::objects::Target;
use super::{HELM_RELEASE, HelmReleases, object_ref};
use crate::kit::mirror::Change;
use crate::kit::wake::Reason;
use crate::owner_kinds::KUSTOMIZATION;
use crate::ownership::declaration::{Declaration, dependencies, parent_of};
use crate::ownership::desired::{BuiltObjects, DesiredSet, DesiredState};
use crate::ownership::graph::OwnershipGraph;
use crate::ownership::other_shards::{ReadySeen, StatusSeen};
use crate::policy::Policy;
use crate::targets::target::{account, user};
use crate::{Key, ObjectRef};

/// Records a change in the graph. Returns the objects to wake, this one included. `ours` is whether this
/// process reconciles it.
pub(crate) fn changed(
    graph: &mut OwnershipGraph,
    change: &Change<HelmRelease>,
    ours: bool,
    policy: &Policy,
) -> Vec<(ObjectRef, Reason)> {
    let reference = object_ref(&change.key);
    let now = change.after.as_deref().map(|object| {
        let before = change.before.as_deref();
        let known = graph.declaration(&reference);
        let known = known.filter(|_| before.is_some_and(|before| inventory(before) == inventory(object)));
        let holds = match known {
            Some(known) => Arc::clone(&known.holds),
            None => Arc::new(holds(object)),
        };
        declaration(object, holds, ours, policy)
    });
    graph.changed(&reference, change.what.reason(), now)
}

fn declaration(
    object: &HelmRelease,
    holds: Arc<BTreeSet<ObjectId>>,
    ours: bool,
    policy: &Policy,
) -> Declaration {
    let (meta, spec) = (&object.metadata, &object.spec);
    let remote = spec.kube_config.is_some();
    let account = account(spec.service_account_name.as_deref(), policy);
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let names = spec.depends_on.iter();
    let names =
        names.map(|on| object_ref(&Key::new(on.namespace.as_deref().unwrap_or(namespace), &*on.name)));
    Declaration {
        owner: &HELM_RELEASE,
        ours,
        generation: meta.generation.unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        suspended: spec.suspend,
        source: source(object),
        depends_on: dependencies(names),
        uses_ready_expr: spec.depends_on.iter().any(|on| on.ready_expr.is_some()),
        inputs: holders(object).collect(),
        holds,
        remote,
        impersonates: account.is_some(),
        user: account
            .filter(|_| !remote)
            .map(|account| user(namespace, account)),
        kube_config: spec.kube_config.clone(),
        parent: parent_of(&object_ref(&Key::of(meta)), meta.labels.as_ref(), &KUSTOMIZATION),
        target_namespace: spec.target_namespace.clone(),
        waits: true,
        status: object.status.as_ref().map(status_seen).unwrap_or_default(),
    }
}

fn inventory(object: &HelmRelease) -> Option<&Inventory> {
    object.status.as_ref()?.inventory.as_ref()
}

fn holds(object: &HelmRelease) -> BTreeSet<ObjectId> {
    let entries = inventory(object).into_iter();
    entries
        .flat_map(|inventory| &inventory.entries)
        .filter_map(|entry| ObjectId::from_inventory(&entry.id).ok())
        .collect()
}

fn status_seen(status: &HelmReleaseStatus) -> StatusSeen {
    let ready = condition(&status.conditions, ConditionType::Ready);
    // the version of a chart in an OCI artifact is not the revision of that
    let digest = status.last_attempted_revision_digest.clone();
    let revision = digest.or_else(|| status.last_attempted_revision.clone());
    StatusSeen {
        observed_generation: status.observed_generation,
        attempted: revision.clone(),
        applied: revision,
        ready: ready.map(|ready| ReadySeen {
            is_true: ready.status == "True",
            is_false: ready.status == "False",
            is_unhealthy: false,
            reason: ready.reason.clone(),
            observed_generation: ready.observed_generation,
        }),
        prune_blocked: false,
    }
}

/// Announces the objects that a release has: nobody waits for one that is not rendered now.
pub(super) fn announce(cx: &HelmReleases, declared: &Declared, seen: &Seen) {
    let artifact = match &seen.source {
        Source::Ready(chart) => Some(chart.artifact.clone()),
        _ => cx
            .kit
            .sources
            .artifact(&declared.source)
            .map(|artifact| artifact.digest),
    };
    let Some(artifact) = artifact else {
        let wakes = cx
            .kit
            .ownership()
            .announcements
            .announced(&object_ref(&declared.key));
        return cx.kit.waker.wake_all(wakes);
    };
    let entries = seen
        .status
        .inventory
        .iter()
        .flat_map(|inventory| &inventory.entries);
    let ids = entries.filter_map(|entry| ObjectId::from_inventory(&entry.id).ok());
    set(cx, declared, artifact, ids.collect());
}

/// Announces the objects of a rendered chart, before they are applied.
pub(super) fn announce_targets(
    cx: &HelmReleases,
    declared: &Declared,
    chart: Option<&Chart>,
    targets: &[Target],
) {
    if let Some(chart) = chart {
        let ids = targets.iter().map(|target| target.id.clone()).collect();
        set(cx, declared, chart.artifact.clone(), ids);
    }
}

fn set(cx: &HelmReleases, declared: &Declared, artifact: String, ids: Vec<ObjectId>) {
    let state = DesiredState {
        generation: declared.generation,
        artifact,
        wants: DesiredSet::Known(Arc::new(BuiltObjects::of_ids(ids))),
        applied: true,
        forms: Vec::new(),
    };
    let wakes = cx.kit.ownership().set_desired(&object_ref(&declared.key), state);
    cx.kit.waker.wake_all(wakes);
}
