//! Finds which declared objects another owner has, before any of them is written.
//!
//! Holders and known desired states are at hand. For objects without an owner, Kustomizations with
//! precedence that are not built are awaited: the run ends, and their build begins the next.
//! `ownership::arbitration` and `ownership::pending` have the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::owner::Owner;
use equate_apply::plan::Presence;
use equate_apply::segment::segment;
use tokio::time::Instant;

use crate::ObjectRef;
use crate::kustomization::decide::deadline;
use crate::kustomization::decide::objects::Earlier;
use crate::kustomization::declared::Declared;
use crate::kustomization::memory::{Memory, Record};
use crate::kustomization::{KUSTOMIZATION, Kustomizations, object_ref};
use crate::ownership::desired::Watched;
use crate::ownership::graph::{Own, OwnershipGraph, Waiting};
use crate::ownership::pending::Pending;
use crate::targets::target::Access;

/// A build that takes longer waits for a host, and nobody waits with it.
const BUILDING: Duration = Duration::from_secs(60);

/// The objects whose owners are compared while the graph is locked.
const CONTESTS_AT_ONCE: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Assignment {
    /// Objects that another owner has or gets.
    pub(super) assigned: BTreeMap<ObjectId, Owner>,
    /// Objects without an owner: this one takes them when it begins to apply.
    pub(super) open: Vec<ObjectId>,
    /// The Kustomization that has to be built before that is known.
    pub(super) earlier: Option<(Earlier, Watched)>,
}

pub(super) fn assign(
    cx: &Kustomizations,
    graph: &mut OwnershipGraph,
    (memory, ks): (&Memory, &Declared),
    desired: &[Desired],
    now: Instant,
) -> Assignment {
    let (me, access) = (object_ref(&ks.key), cx.access(memory));
    let artifact = cx.artifact_digest(&ks.source_ref());
    let (mut assigned, mut open, mut unsure) = (BTreeMap::new(), Vec::new(), None);
    let mut waiting = Waiting::default();
    for Desired { id, .. } in desired.iter().filter(|desired| is_written(desired)) {
        if !graph.reviews.allow(&me, id) {
            // it is refused, so no other owner learns of it
            continue;
        }
        let named = named(access, id);
        let own = Own {
            holds: ks.inventory.contains(id),
            named: named.as_ref(),
            artifact: artifact.as_deref(),
        };
        if let Some(other) = graph.owned_by_other(id, &me, own, &mut waiting).cloned() {
            if unsure.is_none() && !graph.has(&other, id) {
                // another may have precedence over that one
                unsure = pending_before(graph, artifact.as_deref(), &other, &[id]);
            }
            assigned.insert(id.clone(), graph.owner(&other));
        } else if !own.holds && named.as_ref() != Some(&me) {
            open.push(id.clone());
        }
    }
    let unknown: Vec<&ObjectId> = open.iter().filter(|id| !graph.has_taken(&me, id)).collect();
    let pending = unsure.or_else(|| pending_before(graph, artifact.as_deref(), &me, &unknown));
    let earlier = pending.and_then(|pending| {
        let since = memory.surveying_since.unwrap_or(now);
        let until = deadline(since, ks.timeout.min(BUILDING));
        (until > now).then(|| waited_for(pending, until))
    });
    Assignment {
        assigned,
        open,
        earlier,
    }
}

/// An unbuilt Kustomization with precedence over the presumed owner, which may want objects that nobody
/// has.
fn pending_before(
    graph: &mut OwnershipGraph,
    artifact: Option<&str>,
    first: &ObjectRef,
    ids: &[&ObjectId],
) -> Option<Pending> {
    let artifact = artifact.filter(|_| !ids.is_empty())?;
    let namespaces: BTreeSet<&str> = ids.iter().map(|id| &*id.namespace).collect();
    graph.pending_before(artifact, first, &namespaces)
}

fn waited_for(Pending { owner, parent }: Pending, until: Instant) -> (Earlier, Watched) {
    let earlier = Earlier {
        named: owner.to_string(),
        until,
    };
    let watched = Watched {
        of: std::iter::once(owner).chain(parent).collect(),
        until: Some(until),
    };
    (earlier, watched)
}

/// Whether an object that another owner had may be applied by now.
pub(super) fn is_freed(cx: &Kustomizations, access: &Access, ks: &Declared, record: &Record) -> bool {
    let artifact = cx.artifact_digest(&ks.source_ref());
    let me = object_ref(&ks.key);
    record.contests.chunks(CONTESTS_AT_ONCE).any(|contests| {
        let names: Vec<Option<ObjectRef>> = contests
            .iter()
            .map(|contest| named(access, &contest.id))
            .collect();
        let (graph, mut waiting) = (cx.kit.ownership(), Waiting::default());
        contests.iter().zip(&names).any(|(contest, named)| {
            if graph.is_in_other_shard(&contest.other) {
                return !graph.claims(&contest.other, &contest.id);
            }
            let own = Own {
                holds: ks.inventory.contains(&contest.id),
                named: named.as_ref(),
                artifact: artifact.as_deref(),
            };
            graph.owned_by_other(&contest.id, &me, own, &mut waiting) != Some(&contest.other)
        })
    })
}

/// Whether an object is written at all. A name that no request can have has no owner.
pub(in crate::kustomization) fn is_written(desired: &Desired) -> bool {
    let addressed = segment("resource name", &desired.id.name).is_ok();
    addressed && !desired.own_loop && !desired.policy.ignored()
}

fn named(access: &Access, id: &ObjectId) -> Option<ObjectRef> {
    let Presence::Present(observed) = access.view.get(id) else {
        return None;
    };
    let owner = observed.owner.as_ref()?;
    (owner.kind == &KUSTOMIZATION).then(|| ObjectRef::from(owner))
}
