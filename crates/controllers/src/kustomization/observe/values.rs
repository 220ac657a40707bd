//! Reads the ConfigMaps and Secrets of a Kustomization: once for a run, where its reason calls for it.

use std::sync::Arc;

use crate::kit::inputs::{RejectedValues, Versions};
use crate::kit::wake::Reason;
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::substitute_from::{self, Stamp, Values, ValuesError};
use crate::kustomization::{Kustomizations, Run};

/// Whether the run's reason calls for reading ConfigMaps and Secrets again; fewer reasons do if they are
/// watched.
pub(super) fn refreshes_values(reason: Reason, watched: bool) -> bool {
    match reason {
        Reason::Requested | Reason::Appeared | Reason::Changed => true,
        Reason::Source | Reason::Input | Reason::Interval | Reason::Retry => !watched,
        Reason::Deleted
        | Reason::Dependency
        | Reason::Object
        | Reason::Push
        | Reason::Deadline
        | Reason::Deferred => false,
    }
}

/// Whether the reason seldom leads to a build, which needs the values themselves.
fn builds_seldom(reason: Reason) -> bool {
    match reason {
        Reason::Input
        | Reason::Interval
        | Reason::Appeared
        | Reason::Dependency
        | Reason::Object
        | Reason::Push
        | Reason::Deadline
        | Reason::Deferred => true,
        Reason::Requested | Reason::Changed | Reason::Source | Reason::Retry | Reason::Deleted => false,
    }
}

pub(in crate::kustomization) async fn read(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
) -> Result<Arc<Values>, ValuesError> {
    if let Some(read) = &run.memory.this_run.values {
        return read.clone();
    }
    if ks.reads_values() {
        cx.kit.inputs.begin();
    }
    let (namespace, decryption) = (&ks.key.namespace, ks.decryption.as_ref());
    let shared_keys = cx.kit.settings.policy.sops_age_secret.as_ref();
    let (client, references) = (&cx.kit.client, &*ks.substitute_from);
    if let Some(rejected) = &run.memory.rejected_values
        && rejected.holds(ks.generation, client).await
    {
        let error = rejected.error.clone();
        return run.memory.this_run.values.insert(Err(error)).clone();
    }
    let mut versions = Versions::default();
    let from = (references, decryption, shared_keys);
    let by = (client, Some(&cx.kit.processors));
    let read = substitute_from::read_with_versions(by, namespace, from, &mut versions).await;
    let error = read.as_ref().err().filter(|error| error.is_repeatable());
    run.memory.rejected_values = error.map(|error| RejectedValues {
        generation: ks.generation,
        versions,
        error: error.clone(),
    });
    run.memory.this_run.values.insert(read.map(Arc::new)).clone()
}

/// Checks whether the variables changed, where the run's reason calls for it.
pub(super) async fn refresh(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared) {
    let Some(record) = &run.memory.record else { return };
    if !ks.reads_values() || ks.deleting || ks.suspend {
        return;
    }
    let versions = record.values.as_ref().map(Stamp::versions);
    let is_watched = |versions: &Versions| versions.are_current(|holder| cx.kit.inputs.version(holder));
    let watched = versions.is_some_and(is_watched);
    if !run.reasons.iter().any(|reason| refreshes_values(reason, watched)) {
        return;
    }
    let shared_keys = cx.kit.settings.policy.sops_age_secret.as_ref();
    let from = (&*ks.substitute_from, ks.decryption.as_ref(), shared_keys);
    if run.reasons.iter().all(builds_seldom)
        && !record.masks_dropped
        && let Some(versions) = versions
        && versions.are_of(substitute_from::read_by(&ks.key.namespace, from))
        && versions.are_unchanged(&cx.kit.client).await
    {
        return;
    }
    let read = read(cx, run, ks).await;
    // the same values in other versions
    if let (Ok(values), Some(record)) = (read, &mut run.memory.record)
        && let Some(stamp) = &mut record.values
        && stamp.is_of(values.stamp())
    {
        stamp.clone_from(values.stamp());
    }
}
