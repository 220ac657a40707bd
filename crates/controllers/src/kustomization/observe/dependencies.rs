//! The objects of `dependsOn`, as the mirror has them.

use equate_api::kustomize::Kustomization;
use equate_api::meta::{ConditionType, condition, is_true};
use kube::Resource as _;
use serde_json::Value;

use crate::Key;
use crate::cel::Expression;
use crate::dependencies::{self, Dependency, DependencySeen, DependencyState};
use crate::kustomization::Kustomizations;
use crate::kustomization::declaration::source_of;
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::Artifact;

/// The `readyExpr` expressions, in the order of the dependencies; or the first that cannot be read.
pub(super) fn expressions(ks: &Declared) -> Result<Vec<Option<Expression>>, String> {
    let each = ks.ready_exprs.iter().zip(&ks.depends_on);
    dependencies::compile(each.map(|(text, key)| (text.as_deref(), key.name.as_str())))
}

/// The object of another namespace as an expression sees it, if references to other namespaces are denied:
/// its author may not learn the rest from the answers of an expression.
fn shown_elsewhere(object: &Kustomization) -> Value {
    let metadata = &object.metadata;
    serde_json::json!({
        "apiVersion": Kustomization::api_version(&()),
        "kind": Kustomization::kind(&()),
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "generation": metadata.generation,
        },
        "status": object.status,
    })
}

/// The object as an expression sees it.
fn shown(object: &Kustomization) -> Value {
    let mut object = object.clone();
    // long, and irrelevant to readiness
    object.metadata.managed_fields = None;
    // an object that does not serialize has no fields
    let mut shown = serde_json::to_value(object).unwrap_or_default();
    shown["apiVersion"] = Kustomization::api_version(&()).into();
    shown["kind"] = Kustomization::kind(&()).into();
    shown
}

pub(super) fn look(
    cx: &Kustomizations,
    ks: &Declared,
    object: &Kustomization,
    expressions: &[Option<Expression>],
    artifact: Option<&Artifact>,
) -> Vec<(Key, DependencySeen)> {
    let one = |at: usize, key: &Key| {
        let Some(dependency) = cx.mirror.get(key) else {
            return DependencySeen::Absent;
        };
        if let Some(Some(expression)) = expressions.get(at) {
            let is_elsewhere = key.namespace != ks.key.namespace;
            let dependency = match is_elsewhere && cx.kit.settings.policy.no_cross_namespace_refs {
                true => shown_elsewhere(&dependency),
                false => shown(&dependency),
            };
            return dependencies::evaluate(expression, &dependency, &shown(object));
        }
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
    let all = ks.depends_on.iter().enumerate();
    all.map(|(at, key)| (key.clone(), one(at, key))).collect()
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
