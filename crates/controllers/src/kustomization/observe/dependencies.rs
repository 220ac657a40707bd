//! The objects of `dependsOn`, as the mirror has them.

use std::sync::Arc;

use equate_api::meta::{ConditionType, condition, is_true};

use crate::Key;
use crate::dependencies::ready::{self, Objects};
use crate::dependencies::{Dependency, DependencySeen, DependencyState, excess};
use crate::kustomization::declaration::source_of;
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::Artifact;
use crate::kustomization::reasons::Stall;
use crate::kustomization::{Kustomizations, Run};

/// The dependencies; or the first expression that cannot be read, or that there are too many.
///
/// Expressions are compiled once for each form of the spec. That and their evaluation are work for a processor.
pub(super) async fn look(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    artifact: Option<&Artifact>,
) -> (Vec<(Key, DependencySeen)>, Option<Stall>) {
    if let Some(why) = excess(ks.depends_on.len()) {
        return (Vec::new(), Some(Stall::Setting(why)));
    }
    let plain = |key: &Key| {
        let Some(dependency) = cx.mirror.get(key) else {
            return DependencySeen::Absent;
        };
        let status = dependency.status.as_ref();
        let dependency = Dependency {
            source: source_of(&dependency),
            generation: dependency.metadata.generation,
            observed_generation: status.and_then(|status| status.observed_generation),
            ready: status.is_some_and(|status| is_true(&status.conditions, ConditionType::Ready)),
            applied: status.and_then(|status| status.last_applied_revision.as_deref()),
        };
        let revision = artifact.map(|artifact| artifact.revision.revision.as_str());
        dependency.seen_from(&ks.source_ref(), revision)
    };
    let mut answers = match ks.ready_exprs.iter().any(Option::is_some) {
        false => Vec::new(),
        true => match evaluated(cx, run, ks).await {
            Ok(answers) => answers,
            Err(why) => return (Vec::new(), Some(Stall::Expression(why))),
        },
    };
    answers.resize(ks.depends_on.len(), None);
    let all = ks.depends_on.iter().zip(answers);
    let all = all.map(|(key, answer)| (key.clone(), answer.unwrap_or_else(|| plain(key))));
    (all.collect(), None)
}

/// The answers of the expressions; none for dependencies without one.
async fn evaluated(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
) -> Result<Vec<Option<DependencySeen>>, String> {
    let texts = ks.ready_exprs.iter().zip(&ks.depends_on);
    let texts = texts.map(|(text, key)| (text.clone(), key.name.clone()));
    let is_denied = cx.kit.settings.policy.no_cross_namespace_refs;
    let dependencies = ks.depends_on.iter().map(|key| {
        let is_hidden = is_denied && key.namespace != ks.key.namespace;
        (cx.mirror.get(key), is_hidden)
    });
    let objects = Objects {
        dependencies: dependencies.collect(),
        own: Arc::clone(run.object()),
    };
    let known = &mut run.memory.ready_expressions;
    ready::answers(
        &cx.kit.processors,
        &ks.key.namespace,
        known,
        texts.collect(),
        objects,
    )
    .await
}

/// The states of the dependencies whose change retries a failed build.
pub(in crate::kustomization) fn dependency_states(
    cx: &Kustomizations,
    ks: &Declared,
) -> Vec<DependencyState> {
    let one = |key: &Key| {
        let dependency = cx.mirror.get(key)?;
        let status = dependency.status.as_ref()?;
        let ready = condition(&status.conditions, ConditionType::Ready)?;
        Some(DependencyState {
            generation: status.observed_generation,
            revision: status.last_applied_revision.clone(),
            ready: ready.status == "True",
            since: ready.last_transition_time.0,
        })
    };
    // one without a desired state supports no build; its first announcement is a change
    ks.depends_on.iter().filter_map(one).collect()
}
