//! The HelmReleases of `dependsOn`, as the mirror has them. Texts are upstream's.

use std::sync::Arc;

use equate_api::helm::HelmRelease;
use equate_api::meta::{ConditionType, Reason, is_true};

use crate::Key;
use crate::dependencies::ready::{self, Objects};
use crate::dependencies::{DependencySeen, excess};
use crate::helm_release::decide::seen::Dependencies;
use crate::helm_release::declared::Declared;
use crate::helm_release::{HelmReleases, Run};

pub(super) async fn look(cx: &HelmReleases, run: &mut Run<'_>, declared: &Declared) -> Dependencies {
    if let Some(why) = excess(declared.depends_on.len()) {
        return Dependencies::Invalid(Reason::Unsupported, why);
    }
    let mut answers = match declared.ready_exprs.iter().any(Option::is_some) {
        false => Vec::new(),
        true => match evaluated(cx, run, declared).await {
            Ok(answers) => answers,
            Err(why) => return Dependencies::Invalid(Reason::InvalidCelExpression, why),
        },
    };
    answers.resize(declared.depends_on.len(), None);
    for (key, answer) in declared.depends_on.iter().zip(answers) {
        let dependency = cx.mirror.get(key);
        let Some(dependency) = dependency.as_deref() else {
            return Dependencies::NotReady(absent(key));
        };
        match answer {
            Some(DependencySeen::Ready) => continue,
            Some(DependencySeen::Unanswered(why)) => return Dependencies::NotReady(why),
            Some(_) => {
                return Dependencies::NotReady(format!(
                    "dependency '{key}' is not ready according to readyExpr eval"
                ));
            }
            None => {}
        }
        if !is_ready(dependency) {
            return Dependencies::NotReady(unready(key));
        }
    }
    Dependencies::Ready
}

pub(in crate::helm_release) fn absent(key: &Key) -> String {
    format!(
        "unable to get '{key}' dependency: helmreleases.helm.toolkit.fluxcd.io {:?} not found",
        key.name
    )
}

pub(in crate::helm_release) fn unready(key: &Key) -> String {
    format!("dependency '{key}' is not ready")
}

/// Whether a dependency without an expression is ready.
pub(in crate::helm_release) fn is_ready(dependency: &HelmRelease) -> bool {
    let status = dependency.status.as_ref();
    let observed = status.and_then(|status| status.observed_generation);
    let ready = status.is_some_and(|status| is_true(&status.conditions, ConditionType::Ready));
    observed == dependency.metadata.generation && ready
}

/// The answers of the expressions; none for dependencies without one.
async fn evaluated(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
) -> Result<Vec<Option<DependencySeen>>, String> {
    let texts = declared.ready_exprs.iter().zip(&declared.depends_on);
    let texts = texts.map(|(text, key)| (text.clone(), key.name.clone()));
    let (is_denied, own) = (
        cx.kit.settings.policy.no_cross_namespace_refs,
        &declared.key.namespace,
    );
    let dependencies = declared.depends_on.iter().map(|key| {
        let is_hidden = is_denied && key.namespace != *own;
        (cx.mirror.get(key), is_hidden)
    });
    let objects = Objects {
        dependencies: dependencies.collect(),
        own: Arc::clone(run.object()),
    };
    let known = &mut run.memory.ready_expressions;
    ready::answers(&cx.kit.processors, own, known, texts.collect(), objects).await
}
