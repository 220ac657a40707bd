//! Tells the other Kustomizations which objects this one wants, so that objects that moved to it are not
//! deleted elsewhere. A build waits for nobody, so there is no circular wait.

use equate_apply::id::ObjectId;
use equate_apply::owned::Digest;

use crate::kustomization::decide::Announcement;
use crate::kustomization::declared::Declared;
use crate::kustomization::memory::Memory;
use crate::kustomization::{Kustomizations, Run, object_ref};
use crate::ownership::desired::{DesiredSet, DesiredState};

pub(super) fn announce(cx: &Kustomizations, run: &Run<'_>, ks: &Declared, announcement: Announcement) {
    match announcement {
        Announcement::None => {}
        Announcement::NotExpected => {
            let wakes = cx.kit.ownership().announcements.announced(&object_ref(&ks.key));
            cx.kit.waker.wake_all(wakes);
        }
        Announcement::Unreached(artifact) => unreached(cx, ks, &artifact),
        Announcement::Wants {
            artifact,
            wants,
            applied,
        } => announce_desired(cx, &run.memory, ks, &artifact, wants, applied),
    }
}

pub(super) fn announce_desired(
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

/// Announces the desired state of the build that is carried out.
pub(super) fn announce_record(cx: &Kustomizations, memory: &Memory, ks: &Declared) {
    let record = memory.record.as_ref();
    let known = record.and_then(|record| Some((record, record.wants.clone()?)));
    if let Some((record, wants)) = known {
        announce_desired(cx, memory, ks, &record.artifact, wants, record.applied);
    }
}

/// The declared Kustomizations that are applied as wanted, with the digest of their form in the cluster.
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

/// Announces that the desired state is unknown, because the API server did not answer.
pub(super) fn unreached(cx: &Kustomizations, ks: &Declared, artifact: &str) {
    let from = (ks.generation, artifact.to_owned());
    let wakes = cx.kit.ownership().unreached(&object_ref(&ks.key), from);
    cx.kit.waker.wake_all(wakes);
}
