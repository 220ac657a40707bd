//! The rest of a commit: one commit often has new values or a new spec together with a new chart. An upgrade waits
//! until the Kustomization that declares the HelmRelease has applied the commit, and until the HelmChart is built
//! from it, so that there is one revision instead of two.
//!
//! The wait has a limit of its own. It never depends on what the Kustomization waits for.

use std::time::Duration;

use equate_apply::id::ObjectId;
use equate_apply::plan::Presence;
use tokio::time::Instant;

use crate::ObjectRef;
use crate::helm_release::declared::Declared;
use crate::helm_release::{ABOUT, HelmReleases, Run, object_ref};
use crate::owner_kinds::KUSTOMIZATION;
use crate::ownership::desired::Watched;

/// The object that does not match the commit yet. Inputs that are read later are at least as new.
pub(super) fn look(cx: &HelmReleases, run: &Run<'_>, declared: &Declared) -> Option<String> {
    let waited = run
        .memory
        .held_since
        .is_some_and(|since| left(cx, since).is_zero());
    (!waited).then(|| unfinished(cx, declared)).flatten()
}

/// Begins or continues the wait. Returns its remaining time; none if it is over already.
pub(in crate::helm_release) fn hold(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
) -> Option<Duration> {
    let since = *run.memory.held_since.get_or_insert_with(Instant::now);
    // the commit may change them, and their watch may be slower than the end of its apply
    run.memory.values = None;
    run.memory.this_run.values_read = false;
    let me = object_ref(&declared.key);
    {
        let mut graph = cx.kit.ownership();
        let parent = graph.declaration(&me).and_then(|own| own.parent.clone());
        let watched = Watched {
            of: parent.into_iter().chain([declared.source.clone()]).collect(),
            until: None,
        };
        graph.announcements.watch(&me, watched);
    }
    // it may have ended before it was watched
    unfinished(cx, declared).map(|_| left(cx, since))
}

/// Ends the wait.
pub(in crate::helm_release) fn release(cx: &HelmReleases, run: &mut Run<'_>, declared: &Declared) {
    if run.memory.held_since.take().is_some() {
        let me = object_ref(&declared.key);
        cx.kit.ownership().announcements.watch(&me, Watched::default());
    }
}

fn left(cx: &HelmReleases, since: Instant) -> Duration {
    cx.kit.commit_wait.0.saturating_sub(since.elapsed())
}

fn unfinished(cx: &HelmReleases, declared: &Declared) -> Option<String> {
    unapplied(cx, declared).or_else(|| unbuilt(cx, declared))
}

/// The Kustomization, while it applies, and until its change of this HelmRelease is known.
fn unapplied(cx: &HelmReleases, declared: &Declared) -> Option<String> {
    let key = &declared.key;
    let parent = {
        let graph = cx.kit.ownership();
        let parent = graph.declaration(&object_ref(key))?.parent.clone()?;
        let source = &graph.declaration(&parent)?.source;
        let artifact = cx.kit.sources.artifact(source)?;
        if graph.is_unapplied(&parent, &artifact.revision, &artifact.digest) {
            return Some(format!("{parent} is being applied"));
        }
        parent
    };
    let id = ObjectId::new(ABOUT.group, ABOUT.kind, &key.namespace, &key.name);
    match cx.kit.objects.get(&KUSTOMIZATION, &id) {
        Presence::Present(observed) if observed.generation > declared.generation => {
            Some(format!("{parent} has changed the spec"))
        }
        Presence::Present(_) | Presence::Absent | Presence::Unknown => None,
    }
}

/// The HelmChart, until it is of the artifact that its source has in this process.
fn unbuilt(cx: &HelmReleases, declared: &Declared) -> Option<String> {
    if declared.source.kind != "HelmChart" {
        return None;
    }
    let chart = cx.charts.get(&declared.source.key())?;
    let reference = &chart.spec.source_ref;
    let source = ObjectRef::new(
        reference.kind.as_str(),
        &*declared.source.namespace,
        &*reference.name,
    );
    if chart.spec.suspend || !cx.kit.sources.serves(&source) {
        return None;
    }
    let artifact = cx.kit.sources.artifact(&source)?;
    let built = chart
        .status
        .as_ref()?
        .observed_source_artifact_revision
        .as_ref()?;
    (*built != artifact.revision).then(|| format!("{} is being built", declared.source))
}
