//! Builds a revision from the ConfigMaps and Secrets that were read, or takes what was built ahead. The
//! build itself is in `render`.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::announce::{announce_desired, announce_record, unreached};
use super::finish::fail;
use super::unplanned;
use crate::kit::controller::{Acted, Next};
use crate::kit::wake::Reason;
use crate::kustomization::decide::deadline;
use crate::kustomization::decide::seen::Phase;
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::Artifact;
use crate::kustomization::inputs::substitute_from::{Values, ValuesError};
use crate::kustomization::memory::{Prepared, Record};
use crate::kustomization::observe::{dependency_states, values};
use crate::kustomization::reasons::Failure;
use crate::kustomization::render::{Rendered, Rendering, desired_of};
use crate::kustomization::report::Done;
use crate::kustomization::{Kustomizations, Run, count};
use crate::ownership::desired::DesiredSet;

fn artifact(run: &Run<'_>) -> Option<Artifact> {
    let looked = run.memory.this_run.prerequisites.as_ref()?;
    looked.artifact.clone()
}

pub(super) async fn build(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared) -> Acted<Done> {
    let Some(artifact) = artifact(run) else {
        return unplanned();
    };
    let values = values::read(cx, run, ks).await;
    let Some(rendered) = rendered(cx, run, ks, &artifact, &values).await else {
        return deleted_meanwhile();
    };
    let wants = desired_of(&rendered);
    match &wants {
        Some(wants) => {
            announce_desired(cx, &run.memory, ks, &artifact.digest, wants.clone(), false);
            run.memory.declare(wants);
        }
        None => unreached(cx, ks, &artifact.digest),
    }
    run.memory.surveying_since = None;
    run.memory.this_run.begin_applying();
    let before = run.memory.record.take();
    let mut record = new_record(cx, run, ks, &artifact, values.as_deref().ok());
    record.wants = wants;
    match rendered {
        Ok(rendered) => {
            take_in(cx, &mut record, rendered, before);
            run.memory.record = Some(record);
            Acted::Again
        }
        Err(failure) => {
            run.memory.record = Some(record);
            fail(cx, run, ks, failure, None)
        }
    }
}

/// The next run deletes; the build that is not needed any more would delay it.
fn deleted_meanwhile() -> Acted<Done> {
    Acted::Unreported(Next::After(Duration::ZERO, Reason::Changed))
}

/// The prepared build if its inputs are the same, else a new build. `None` if the Kustomization is deleted
/// meanwhile.
async fn rendered(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    artifact: &Artifact,
    values: &Result<Arc<Values>, ValuesError>,
) -> Option<Result<Rendered, Failure>> {
    let prepared = run.memory.prepared.take();
    if let Some(failure) = &run.memory.this_run.no_access {
        return Some(Err(failure.clone()));
    }
    let values = match values {
        Ok(values) => values,
        Err(error) => return Some(Err(Failure::from(error.clone()))),
    };
    let prepared = prepared
        .filter(|prepared| prepared.is_of(ks.generation, &artifact.tree) && prepared.is_with(Some(values)));
    match prepared.and_then(|prepared| prepared.outcome) {
        Some(outcome) => Some(outcome),
        None => render(cx, run, ks, Some(values), artifact).await,
    }
}

fn take_in(cx: &Kustomizations, record: &mut Record, rendered: Rendered, before: Option<Record>) {
    record.masks = vec![rendered.opened];
    record.inputs = Some(rendered.inputs);
    record.digest = rendered.digest;
    if let Some(before) = before {
        // changes of this very run from before the spec changed are still to be reported
        record.changed = before.changed && before.began == record.began;
        if before.digest == record.digest {
            record.since = before.since;
        }
    }
    record.empty = rendered.desired.iter().all(|desired| desired.own_loop);
    record.desired = Some(rendered.desired);
    if let Some(files) = rendered.own_files {
        let own_files = cx.kit.own_files.lock();
        *own_files.unwrap_or_else(PoisonError::into_inner) = files;
    }
}

/// The memory of a revision whose reconciliation begins.
fn new_record(
    cx: &Kustomizations,
    run: &Run<'_>,
    ks: &Declared,
    artifact: &Artifact,
    values: Option<&Values>,
) -> Record {
    let now = Instant::now();
    Record {
        generation: ks.generation,
        revision: artifact.revision.clone(),
        since: artifact.revision.revision.clone(),
        config: cx.access(&run.memory).config,
        tree: artifact.tree.id(),
        inputs: None,
        values: values.map(|values| values.stamp().clone()),
        masks_dropped: false,
        masks: values
            .map(|values| Arc::clone(values.masks()))
            .into_iter()
            .collect(),
        artifact: artifact.digest.clone(),
        wants: None,
        applied: false,
        digest: String::new(),
        empty: false,
        token: run.request().map(str::to_owned),
        began: run.began,
        desired: None,
        objects: Vec::new(),
        asked: Vec::new(),
        checks: Vec::new(),
        dependency_states: dependency_states(cx, ks),
        contests: Vec::new(),
        going: Vec::new(),
        left: BTreeSet::new(),
        changed: false,
        failure: None,
        phase: Phase::Staged {
            until: deadline(now, ks.timeout),
        },
        checking: now,
    }
}

/// `None` if the Kustomization is deleted meanwhile: then the build is stopped.
async fn render(
    cx: &Kustomizations,
    run: &Run<'_>,
    ks: &Declared,
    values: Option<&Arc<Values>>,
    artifact: &Artifact,
) -> Option<Result<Rendered, Failure>> {
    count(&cx.kit.tally.builds, 1);
    tracing::debug!(key = %ks.key, revision = artifact.revision.revision, "building");
    let rendering = Rendering {
        cluster: &cx.access(&run.memory).cluster,
        processors: &cx.kit.processors,
        timeout_max: cx.kit.settings.timeout_max,
        throttled: &|| run.throttled(),
        root: cx.kit.settings.root.as_ref(),
        default_namespace: cx.kit.settings.default_namespace.as_deref(),
        transits: &cx.transits,
        rules: &cx.rules,
    };
    let rendering = rendering.render(ks, values.map(Arc::as_ref), &artifact.tree);
    tokio::select! {
        biased;
        rendered = rendering => Some(rendered),
        () = run.deleted(ks.deleting) => None,
    }
}

/// Builds a revision that cannot be applied yet; once for the same inputs.
pub(super) async fn build_ahead(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    keep: bool,
) -> Acted<Done> {
    let Some(artifact) = artifact(run) else {
        return unplanned();
    };
    let values = values::read(cx, run, ks).await.ok();
    let keep = keep && values.is_some();
    let Some(outcome) = render(cx, run, ks, values.as_ref(), &artifact).await else {
        return deleted_meanwhile();
    };
    let wants: Option<DesiredSet> = desired_of(&outcome);
    run.memory.this_run.ahead_unreached = wants.is_none();
    run.memory.prepared = wants.is_some().then(|| Prepared {
        generation: ks.generation,
        tree: artifact.tree.id(),
        inputs: outcome.as_ref().ok().map(|rendered| rendered.inputs.clone()),
        values: values.map(|values| values.stamp().clone()),
        wants: wants.clone(),
        outcome: keep.then_some(outcome),
    });
    Acted::Again
}

pub(super) fn restart(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared) -> Acted<Done> {
    run.memory.renew();
    run.memory.this_run.begin_applying();
    let began = run.began;
    let token = run.request().map(str::to_owned);
    if let Some(record) = &mut run.memory.record {
        record.began = began;
        record.token = token;
        record.dependency_states = dependency_states(cx, ks);
        record.phase = Phase::Staged {
            until: deadline(began, ks.timeout),
        };
    }
    announce_record(cx, &run.memory, ks);
    Acted::Again
}
