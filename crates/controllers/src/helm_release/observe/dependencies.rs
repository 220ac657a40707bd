//! The HelmReleases of `dependsOn`, as the mirror has them. Texts are upstream's.

use equate_api::helm::HelmRelease;
use equate_api::meta::{ConditionType, is_true};
use kube::Resource as _;
use serde_json::Value;

use crate::dependencies::{DependencySeen, compile, evaluate};
use crate::helm_release::decide::seen::Dependencies;
use crate::helm_release::declared::Declared;
use crate::helm_release::{HelmReleases, Run};

pub(super) fn look(cx: &HelmReleases, run: &Run<'_>, declared: &Declared) -> Dependencies {
    if declared.depends_on.is_empty() {
        return Dependencies::Ready;
    }
    let each = declared.ready_exprs.iter().zip(&declared.depends_on);
    let expressions = match compile(each.map(|(text, key)| (text.as_deref(), key.name.as_str()))) {
        Ok(expressions) => expressions,
        Err(why) => return Dependencies::Invalid(why),
    };
    for (key, expression) in declared.depends_on.iter().zip(&expressions) {
        let Some(dependency) = cx.mirror.get(key) else {
            return Dependencies::NotReady(format!(
                "unable to get '{key}' dependency: helmreleases.helm.toolkit.fluxcd.io {:?} not found",
                key.name
            ));
        };
        if let Some(expression) = expression {
            let elsewhere = key.namespace != declared.key.namespace;
            let hides = elsewhere && cx.kit.settings.policy.no_cross_namespace_refs;
            match evaluate(
                expression,
                &shown(&dependency, hides),
                &shown(run.object(), false),
            ) {
                DependencySeen::Ready => continue,
                DependencySeen::Unanswered(why) => return Dependencies::NotReady(why),
                _ => {
                    return Dependencies::NotReady(format!(
                        "dependency '{key}' is not ready according to readyExpr eval"
                    ));
                }
            }
        }
        let status = dependency.status.as_ref();
        let observed = status.and_then(|status| status.observed_generation);
        let ready = status.is_some_and(|status| is_true(&status.conditions, ConditionType::Ready));
        if observed != dependency.metadata.generation || !ready {
            return Dependencies::NotReady(format!("dependency '{key}' is not ready"));
        }
    }
    Dependencies::Ready
}

/// The object as an expression sees it; of another tenant, only its name and status.
fn shown(object: &HelmRelease, hides: bool) -> Value {
    let mut shown = match hides {
        true => serde_json::json!({
            "metadata": {
                "name": object.metadata.name,
                "namespace": object.metadata.namespace,
                "generation": object.metadata.generation,
            },
            "status": object.status,
        }),
        false => {
            let mut object = object.clone();
            object.metadata.managed_fields = None;
            // an object that does not serialize has no fields
            serde_json::to_value(object).unwrap_or_default()
        }
    };
    shown["apiVersion"] = HelmRelease::api_version(&()).into();
    shown["kind"] = HelmRelease::kind(&()).into();
    shown
}
