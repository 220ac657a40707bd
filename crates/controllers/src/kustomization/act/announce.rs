//! Tells the other Kustomizations what this one wants, so that what moved to it is not deleted elsewhere. To
//! build waits for nobody, so nobody waits in a circle.

use equate_apply::id::ObjectId;
use equate_apply::owned::Digest;

use crate::kustomization::decide::Announcement;
use crate::kustomization::declared::Declared;
use crate::kustomization::memory::Memory;
use crate::kustomization::{Kustomizations, Run, object_ref};
use crate::ownership::desired::{DesiredSet, DesiredState};

/// Tells them what a plan says.
pub(super) fn announce(cx: &Kustomizations, run: &Run<'_>, ks: &Declared, announcement: Announcement) {
    match announcement {
        Announcement::None => {}
        Announcement::NoWord => {
            let wakes = cx.kit.ownership().announcements.announced(&object_ref(&ks.key));
            cx.kit.waker.wake_all(wakes);
        }
        Announcement::Unreached(artifact) => unreached(cx, ks, &artifact),
        Announcement::Wants {
            artifact,
            wants,
            applied,
        } => tell(cx, &run.memory, ks, &artifact, wants, applied),
    }
}

/// Says what it wants.
pub(super) fn tell(
    cx: &Kustomizations,
    memory: &Memory,
    ks: &Declared,
    artifact: &str,
    wants: DesiredSet,
    applied: bool,
) {
    let state = DesiredState {
        generation: ks.generation,
        artifact: artifact.to_owned(),
        forms: forms(memory, &wants),
        wants,
        applied,
    };
    let wakes = cx.kit.ownership().set_desired(&object_ref(&ks.key), state);
    cx.kit.waker.wake_all(wakes);
}

/// Says what it wants of what is being carried out.
pub(super) fn tell_of_record(cx: &Kustomizations, memory: &Memory, ks: &Declared) {
    let record = memory.record.as_ref();
    let known = record.and_then(|record| Some((record, record.wants.clone()?)));
    if let Some((record, wants)) = known {
        tell(cx, memory, ks, &record.artifact, wants, record.applied);
    }
}

/// The Kustomizations that are applied as they are wanted, and what the API server made of them.
fn forms(memory: &Memory, wants: &DesiredSet) -> Vec<(ObjectId, Digest)> {
    let DesiredSet::Known(objects) = wants else {
        return Vec::new();
    };
    let declared = objects.appliers.iter();
    declared
        .filter_map(|applier| {
            let applied = memory.applies.get(&applier.id)?;
            (applied.desired == applier.digest).then(|| (applier.id.clone(), applied.owned))
        })
        .collect()
}

/// What it wants could not be found out, for the API server could not be asked.
pub(super) fn unreached(cx: &Kustomizations, ks: &Declared, artifact: &str) {
    let from = (ks.generation, artifact.to_owned());
    let wakes = cx.kit.ownership().unreached(&object_ref(&ks.key), from);
    cx.kit.waker.wake_all(wakes);
}
