//! Evaluates the `readyExpr` of dependencies on a processor: their authors choose how much work that is.

use std::sync::Arc;

use kube::Resource;
use serde::Serialize;
use serde_json::{Value, json};

use super::{DependencySeen, compile_pausing, evaluate_within};
use crate::cel::{Allowance, Expression};
use crate::kit::processors::Processors;

/// The compiled expressions of one object, in the order of its dependencies; kept in its memory.
#[derive(Debug)]
pub(crate) struct ReadyExpressions {
    texts: Vec<(Option<String>, String)>,
    compiled: Result<Vec<Option<Expression>>, String>,
}

impl ReadyExpressions {
    fn compile(texts: Vec<(Option<String>, String)>, pause: impl Fn()) -> Self {
        let each = texts.iter().map(|(text, name)| (text.as_deref(), name.as_str()));
        let compiled = compile_pausing(each, pause);
        Self { texts, compiled }
    }
}

/// The objects that expressions see.
#[derive(Debug)]
pub(crate) struct Objects<K> {
    /// The dependencies. Of one that is hidden, expressions see the status alone.
    pub(crate) dependencies: Vec<(Option<Arc<K>>, bool)>,
    /// The dependent.
    pub(crate) own: Arc<K>,
}

/// The answers of the expressions; none for dependencies without one.
///
/// `texts` has the expression and the name of each dependency. Expressions are compiled once for each form of
/// the spec.
///
/// # Errors
///
/// The first expression that cannot be read, and why.
pub(crate) async fn answers<K>(
    processors: &Processors,
    namespace: &str,
    known: &mut Option<Arc<ReadyExpressions>>,
    texts: Vec<(Option<String>, String)>,
    objects: Objects<K>,
) -> Result<Vec<Option<DependencySeen>>, String>
where
    K: Resource<DynamicType = ()> + Serialize + Send + Sync + 'static,
{
    let current = known.take().filter(|known| known.texts == texts);
    let pause = processors.pause();
    let between = pause.clone();
    let working = processors.run_pausing(namespace, pause, move || {
        let pause = || between.here();
        let expressions = current.unwrap_or_else(|| Arc::new(ReadyExpressions::compile(texts, pause)));
        let answers = match &expressions.compiled {
            Ok(compiled) => Ok(evaluated(compiled, &objects, pause)),
            Err(why) => Err(why.clone()),
        };
        (expressions, answers)
    });
    let done = working.done().await;
    let (expressions, answers) =
        done.map_err(|error| format!("failed to evaluate the expressions of the dependencies: {error}"))?;
    *known = Some(expressions);
    answers
}

fn evaluated<K>(
    expressions: &[Option<Expression>],
    objects: &Objects<K>,
    pause: impl Fn(),
) -> Vec<Option<DependencySeen>>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let (own, mut allowance) = (shown(&*objects.own), Allowance::default());
    let each = expressions.iter().zip(&objects.dependencies);
    let answers = each.map(|(expression, (object, is_hidden))| {
        let expression = expression.as_ref()?;
        pause();
        let Some(object) = object else {
            return Some(DependencySeen::Absent);
        };
        let dependency = match is_hidden {
            true => shown_elsewhere(&**object),
            false => shown(&**object),
        };
        Some(evaluate_within(expression, &dependency, &own, &mut allowance))
    });
    answers.collect()
}

/// The object as an expression sees it.
fn shown<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Value {
    // an object that does not serialize has no fields
    let mut shown = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = shown["metadata"].as_object_mut() {
        // long, and irrelevant to readiness
        metadata.remove("managedFields");
    }
    shown["apiVersion"] = K::api_version(&()).into();
    shown["kind"] = K::kind(&()).into();
    shown
}

/// The object of another namespace as an expression sees it, if references to other namespaces are denied:
/// its author may not learn the rest from the answers of an expression.
fn shown_elsewhere<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Value {
    let mut whole = shown(object);
    let metadata = object.meta();
    json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "generation": metadata.generation,
        },
        "status": whole["status"].take(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use equate_api::kustomize::Kustomization;

    fn object(name: &str) -> Arc<Kustomization> {
        let object = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": { "namespace": "other", "name": name, "generation": 2, "labels": { "a": "b" } },
            "spec": {
                "interval": "1m", "prune": true, "sourceRef": { "kind": "GitRepository", "name": "fleet" },
                "postBuild": { "substitute": { "password": "hunter2" } },
            },
            "status": { "observedGeneration": 2 },
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn expressions_see_the_status_alone_of_another_namespace_under_the_lockdown() {
        let check = |text: &str, is_hidden: bool, expected: bool| {
            let texts = vec![(Some(text.to_owned()), "a".to_owned()), (None, "b".to_owned())];
            let expressions = ReadyExpressions::compile(texts, || ());
            let compiled = expressions.compiled.as_ref().unwrap();
            let objects = Objects {
                dependencies: vec![(Some(object("a")), is_hidden), (None, false)],
                own: object("own"),
            };
            let answers = evaluated(compiled, &objects, || ());
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
    fn all_expressions_of_an_object_share_their_steps() {
        let nested = (0..11).fold("true".to_owned(), |inner, n| {
            format!("[1, 1, 1].all(v{n}, {inner})")
        });
        let texts: Vec<_> = (0..60).map(|n| (Some(nested.clone()), n.to_string())).collect();
        let paused = std::cell::Cell::new(0);
        let pause = || paused.set(paused.get() + 1);
        let expressions = ReadyExpressions::compile(texts, pause);
        let objects = Objects {
            dependencies: (0..60).map(|_| (Some(object("a")), false)).collect(),
            own: object("own"),
        };
        let answers = evaluated(expressions.compiled.as_ref().unwrap(), &objects, pause);
        assert_eq!(paused.get(), 120, "others go first between expressions");
        let Some(Some(DependencySeen::Unanswered(why))) = answers.last() else {
            panic!("{:?}", answers.last());
        };
        assert!(why.contains("all expressions of the object"), "{why}");
    }
}
