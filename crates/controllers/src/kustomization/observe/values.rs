//! Reads the ConfigMaps and Secrets of a Kustomization: once for a run, where its reason calls for it.

use std::sync::Arc;

use crate::kit::wake::Reason;
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::substitute_from::{self, Values, ValuesError};
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
    let (client, references) = (&cx.kit.client, &ks.substitute_from);
    let read = substitute_from::read(client, namespace, references, decryption, shared_keys).await;
    run.memory.this_run.values.insert(read.map(Arc::new)).clone()
}

/// Checks whether the variables changed, where the run's reason calls for it.
pub(super) async fn refresh(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared) {
    let Some(record) = &run.memory.record else { return };
    if !ks.reads_values() || ks.deleting || ks.suspend {
        return;
    }
    let watched = record.values.as_ref();
    let watched = watched.is_some_and(|stamp| stamp.is_current(|holder| cx.kit.inputs.version(holder)));
    if !run.reasons.iter().any(|reason| refreshes_values(reason, watched)) {
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
