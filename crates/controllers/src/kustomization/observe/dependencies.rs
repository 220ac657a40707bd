//! The objects of `dependsOn`, as the mirror has them.

use std::sync::Arc;

use equate_api::kustomize::Kustomization;
use equate_api::meta::{ConditionType, condition, is_true};
use kube::Resource as _;
use serde_json::Value;

use crate::Key;
use crate::cel::{Allowance, Expression};
use crate::dependencies::{self, Dependency, DependencySeen, DependencyState};
use crate::kustomization::declaration::source_of;
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::Artifact;
use crate::kustomization::reasons::Stall;
use crate::kustomization::{Kustomizations, Run};

/// The compiled `readyExpr` expressions of a Kustomization, in the order of its dependencies.
#[derive(Debug)]
pub(crate) struct ReadyExpressions {
    texts: Vec<(Option<String>, String)>,
    compiled: Result<Vec<Option<Expression>>, String>,
}

impl ReadyExpressions {
    fn compile(texts: Vec<(Option<String>, String)>, pause: impl Fn()) -> Self {
        let each = texts.iter().map(|(text, name)| (text.as_deref(), name.as_str()));
        let compiled = dependencies::compile_pausing(each, pause);
        Self { texts, compiled }
    }
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

/// The dependencies; or the first expression that cannot be read.
///
/// Expressions are compiled once for each form of the spec. That and their evaluation are work for a processor.
pub(super) async fn look(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    artifact: Option<&Artifact>,
) -> (Vec<(Key, DependencySeen)>, Option<Stall>) {
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
    let texts: Vec<_> = texts
        .map(|(text, key)| (text.clone(), key.name.clone()))
        .collect();
    let known = run.memory.ready_expressions.take();
    let known = known.filter(|known| known.texts == texts);
    let is_denied = cx.kit.settings.policy.no_cross_namespace_refs;
    let with_rights = ks.depends_on.iter().map(|key| {
        let is_hidden = is_denied && key.namespace != ks.key.namespace;
        (cx.mirror.get(key), is_hidden)
    });
    let (objects, own): (Vec<_>, _) = (with_rights.collect(), Arc::clone(run.object()));
    let pause = cx.kit.processors.pause();
    let between = pause.clone();
    let working = cx.kit.processors.run_pausing(&ks.key.namespace, pause, move || {
        let pause = || between.here();
        let expressions = known.unwrap_or_else(|| Arc::new(ReadyExpressions::compile(texts, pause)));
        let answers = match &expressions.compiled {
            Ok(compiled) => Ok(answers(compiled, &objects, &own, pause)),
            Err(why) => Err(why.clone()),
        };
        (expressions, answers)
    });
    let done = working.done().await;
    let (expressions, answers) =
        done.map_err(|error| format!("failed to evaluate the expressions of the dependencies: {error}"))?;
    run.memory.ready_expressions = Some(expressions);
    answers
}

fn answers(
    expressions: &[Option<Expression>],
    objects: &[(Option<Arc<Kustomization>>, bool)],
    own: &Kustomization,
    pause: impl Fn(),
) -> Vec<Option<DependencySeen>> {
    let (own, mut allowance) = (shown(own), Allowance::default());
    let each = expressions.iter().zip(objects);
    let answers = each.map(|(expression, (object, is_hidden))| {
        let expression = expression.as_ref()?;
        pause();
        let Some(object) = object else {
            return Some(DependencySeen::Absent);
        };
        let dependency = match is_hidden {
            true => shown_elsewhere(object),
            false => shown(object),
        };
        Some(dependencies::evaluate_within(
            expression,
            &dependency,
            &own,
            &mut allowance,
        ))
    });
    answers.collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(name: &str) -> Kustomization {
        let object = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": { "namespace": "other", "name": name, "generation": 2, "labels": { "a": "b" } },
            "spec": {
                "interval": "1m", "prune": true, "sourceRef": { "kind": "GitRepository", "name": "fleet" },
                "postBuild": { "substitute": { "password": "hunter2" } },
            },
            "status": { "observedGeneration": 2 },
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn expressions_see_the_status_alone_of_another_namespace_under_the_lockdown() {
        let check = |text: &str, is_hidden: bool, expected: bool| {
            let texts = vec![(Some(text.to_owned()), "a".to_owned()), (None, "b".to_owned())];
            let expressions = ReadyExpressions::compile(texts, || ());
            let compiled = expressions.compiled.as_ref().unwrap();
            let objects = [(Some(Arc::new(object("a"))), is_hidden), (None, false)];
            let answers = answers(compiled, &objects, &object("own"), || ());
            assert!(answers[1].is_none());
            let is_ready = answers[0] == Some(DependencySeen::Ready);
            assert_eq!(is_ready, expected, "{text} {is_hidden}: {answers:?}");
        };
        let secret = "dep.spec.postBuild.substitute.password.startsWith('h')";
        check(secret, false, true);
        check(secret, true, false);
        check("has(dep.spec)", true, false);
        check("has(dep.metadata.labels)", true, false);
        check(
            "dep.status.observedGeneration == dep.metadata.generation",
            true,
            true,
        );
        check("dep.metadata.name == 'a'", true, true);
        check("self.spec.prune == true", true, true);
    }

    #[test]
    fn all_expressions_of_a_kustomization_share_their_steps() {
        let nested = (0..11).fold("true".to_owned(), |inner, n| {
            format!("[1, 1, 1].all(v{n}, {inner})")
        });
        let texts: Vec<_> = (0..60).map(|n| (Some(nested.clone()), n.to_string())).collect();
        let paused = std::cell::Cell::new(0);
        let pause = || paused.set(paused.get() + 1);
        let expressions = ReadyExpressions::compile(texts, pause);
        let objects: Vec<_> = (0..60).map(|_| (Some(Arc::new(object("a"))), false)).collect();
        let answers = answers(
            expressions.compiled.as_ref().unwrap(),
            &objects,
            &object("own"),
            pause,
        );
        assert_eq!(paused.get(), 120, "others go first between expressions");
        let Some(Some(DependencySeen::Unanswered(why))) = answers.last() else {
            panic!("{:?}", answers.last());
        };
        assert!(why.contains("all expressions of the object"), "{why}");
    }
}
