//! Evaluates `spec.dependsOn` for any controller. Pure. The [ownership graph](crate::ownership) wakes
//! dependents.

pub(crate) mod ready;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

use jiff::Timestamp;
use serde_json::Value;

use crate::ObjectRef;
use crate::cel::{Allowance, Expression};

/// A dependency, as its dependent sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DependencySeen {
    /// It is ready, at the dependent's revision if both have the same source.
    Ready,
    /// It does not exist.
    Absent,
    /// It is not ready, or its status describes an older spec.
    NotReady,
    /// It is ready, but at another revision of the common source.
    Behind,
    /// Its `readyExpr` is false.
    Unmet,
    /// Its `readyExpr` fails, with the reason.
    Unanswered(String),
}

/// The facts about a dependency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency<'a> {
    /// Its source.
    pub source: ObjectRef,
    /// The generation of its spec.
    pub generation: Option<i64>,
    /// Its `status.observedGeneration`.
    pub observed_generation: Option<i64>,
    /// Whether its condition `Ready` is true.
    pub ready: bool,
    /// Its `status.lastAppliedRevision`.
    pub applied: Option<&'a str>,
}

impl Dependency<'_> {
    /// The view of a dependent that is built from this revision of its own source. Two objects of one
    /// source are for the same commit: the dependent waits until the dependency has applied it.
    pub fn seen_from(&self, source: &ObjectRef, revision: Option<&str>) -> DependencySeen {
        if !self.ready || self.observed_generation != self.generation {
            DependencySeen::NotReady
        } else if self.source == *source && self.applied != revision {
            DependencySeen::Behind
        } else {
            DependencySeen::Ready
        }
    }
}

/// A dependency at one moment: a failed reconciliation may succeed after a change of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DependencyState {
    /// Its observed generation.
    pub generation: Option<i64>,
    /// Its applied revision.
    pub revision: Option<String>,
    /// Whether it was ready.
    pub ready: bool,
    /// The last transition of `ready`.
    pub since: Timestamp,
}

/// Compiles the `readyExpr` of dependencies, each with the dependency's name. `pause` is called between them.
///
/// # Errors
///
/// The first invalid one, and why.
pub fn compile_pausing<'a>(
    expressions: impl IntoIterator<Item = (Option<&'a str>, &'a str)>,
    pause: impl Fn(),
) -> Result<Vec<Option<Expression>>, String> {
    let (each, mut allowance) = (expressions.into_iter(), Allowance::default());
    each.map(|(text, name)| {
        let Some(text) = text else { return Ok(None) };
        pause();
        let compiled = Expression::compile(text, &["dep", "self"], &mut allowance);
        compiled
            .map(Some)
            .map_err(|error| format!("failed to evaluate dependency {name}: {error}"))
    })
    .collect()
}

/// Evaluates a `readyExpr` with the manifests of both objects, and steps that several expressions share.
pub fn evaluate_within(
    expression: &Expression,
    dependency: &Value,
    dependent: &Value,
    allowance: &mut Allowance,
) -> DependencySeen {
    match expression.holds(&[dependency, dependent], allowance) {
        Ok(true) => DependencySeen::Ready,
        Ok(false) => DependencySeen::Unmet,
        Err(error) => DependencySeen::Unanswered(error.to_string()),
    }
}

/// The owners that one step of a search asks about: their dependencies are copied while the graph is locked.
const STEP: usize = 256;

/// Searches for the shortest cycle from an object back to itself, in steps. Costs the dependencies that it reaches, each
/// once.
#[derive(Debug)]
pub struct CycleSearch {
    start: ObjectRef,
    /// The object that led to each one.
    reached_from: HashMap<ObjectRef, ObjectRef>,
    // breadth first, so that the cycle is the shortest
    open: VecDeque<ObjectRef>,
    asked: usize,
}

impl CycleSearch {
    /// A search from an object.
    pub fn new(start: ObjectRef) -> Self {
        Self {
            open: VecDeque::from([start.clone()]),
            reached_from: HashMap::new(),
            start,
            asked: 0,
        }
    }

    /// Whether it asked about few owners so far, in less than a millisecond.
    pub fn is_short(&self) -> bool {
        self.asked < STEP
    }

    /// One step. `depends_on` returns the dependencies of each of some objects. Breaks with the cycle, whose first
    /// and last object is the start, or with `None` if there is none.
    pub fn step(
        &mut self,
        depends_on: impl FnOnce(&[ObjectRef]) -> Vec<Vec<ObjectRef>>,
    ) -> ControlFlow<Option<Vec<ObjectRef>>> {
        let asked: Vec<ObjectRef> = self.open.drain(..self.open.len().min(STEP)).collect();
        if asked.is_empty() {
            return ControlFlow::Break(None);
        }
        self.asked += asked.len();
        let found = depends_on(&asked);
        for (here, all) in asked.iter().zip(found) {
            for next in all {
                if next == self.start {
                    return ControlFlow::Break(Some(self.way_to(here)));
                }
                if let Entry::Vacant(new) = self.reached_from.entry(next) {
                    self.open.push_back(new.key().clone());
                    new.insert(here.clone());
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn way_to(&self, last: &ObjectRef) -> Vec<ObjectRef> {
        // back to the start, whose predecessor is unknown
        let mut way = vec![self.start.clone()];
        way.extend(std::iter::successors(Some(last), |object| self.reached_from.get(object)).cloned());
        way.reverse();
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(kind: &'static str, name: &str) -> ObjectRef {
        ObjectRef::new(kind, "n", name)
    }

    /// Searches to the end. Returns the cycle and the number of steps.
    fn cycle(
        start: &ObjectRef,
        depends_on: impl Fn(&ObjectRef) -> Vec<ObjectRef>,
    ) -> (Option<Vec<ObjectRef>>, usize) {
        let mut search = CycleSearch::new(start.clone());
        for steps in 1.. {
            if let ControlFlow::Break(way) = search.step(|asked| asked.iter().map(&depends_on).collect()) {
                return (way, steps);
            }
        }
        unreachable!("each step reaches new objects, or is the last")
    }

    #[test]
    fn dependency_cycles_are_found() {
        let check = |edges: &[(&str, &str)], expected: Option<&str>| {
            let apps = |name: &str| object("Kustomization", name);
            let edges: Vec<_> = edges.iter().map(|(a, b)| (apps(a), apps(b))).collect();
            let next = |from: &ObjectRef| {
                let from_here = edges.iter().filter(|(a, _)| a == from);
                from_here.map(|(_, b)| b.clone()).collect::<Vec<_>>()
            };
            let (found, _) = cycle(&apps("apps"), next);
            let shown = found.map(|way| {
                let names: Vec<&str> = way.iter().map(|object| object.name.as_str()).collect();
                names.join(" ")
            });
            assert_eq!(shown.as_deref(), expected);
        };
        check(&[], None);
        check(&[("apps", "b"), ("b", "c"), ("apps", "c")], None);
        check(&[("apps", "apps")], Some("apps apps"));
        check(&[("apps", "b"), ("b", "c"), ("c", "apps")], Some("apps b c apps"));
        // a cycle among others is theirs to report
        check(&[("apps", "b"), ("b", "c"), ("c", "b")], None);
    }

    #[test]
    fn a_long_chain_is_searched_in_linear_time() {
        let chain: Vec<ObjectRef> = (0..20_000)
            .map(|at| object("Kustomization", &format!("k{at:05}")))
            .collect();
        let at = |from: &ObjectRef| from.name[1..].parse::<usize>().unwrap();
        let none = cycle(&chain[0], |from| {
            chain.get(at(from) + 1).cloned().into_iter().collect()
        });
        assert_eq!(none, (None, chain.len() + 1));
        let next = |from: &ObjectRef| vec![chain.get(at(from) + 1).unwrap_or(&chain[0]).clone()];
        let (found, _) = cycle(&chain[0], next);
        assert_eq!(found.map(|way| way.len()), Some(chain.len() + 1));
    }

    #[test]
    fn a_step_asks_about_few_objects() {
        let many: Vec<ObjectRef> = (0..1_000)
            .map(|at| object("Kustomization", &format!("k{at}")))
            .collect();
        let start = object("Kustomization", "apps");
        let mut search = CycleSearch::new(start.clone());
        let mut most = 0;
        let mut depends_on = |asked: &[ObjectRef]| -> Vec<Vec<ObjectRef>> {
            most = most.max(asked.len());
            let on = |one: &ObjectRef| if *one == start { many.clone() } else { Vec::new() };
            asked.iter().map(on).collect()
        };
        assert!(search.step(&mut depends_on).is_continue());
        assert!(search.is_short());
        while search.step(&mut depends_on).is_continue() {}
        assert!(!search.is_short());
        assert_eq!(most, STEP);
    }

    #[test]
    fn equal_names_of_two_kinds_are_no_cycle() {
        let (kustomization, release) = (object("Kustomization", "a"), object("HelmRelease", "a"));
        let next = |from: &ObjectRef| match from.kind {
            "Kustomization" => vec![release.clone()],
            _ => Vec::new(),
        };
        assert_eq!(cycle(&kustomization, next).0, None);
    }

    #[test]
    fn a_dependency_is_ready_at_the_revision_of_a_common_source() {
        let (fleet, other) = (object("GitRepository", "fleet"), object("OCIRepository", "fleet"));
        let ready = Dependency {
            source: fleet.clone(),
            generation: Some(2),
            observed_generation: Some(2),
            ready: true,
            applied: Some("main@sha1:1"),
        };
        let check = |dependency: &Dependency<'_>, source: &ObjectRef, expected: DependencySeen| {
            let seen = dependency.seen_from(source, Some("main@sha1:2"));
            assert_eq!(seen, expected, "{dependency:?}");
        };
        check(&ready, &other, DependencySeen::Ready);
        check(&ready, &fleet, DependencySeen::Behind);
        let applied = Some("main@sha1:2");
        check(
            &Dependency {
                applied,
                ..ready.clone()
            },
            &fleet,
            DependencySeen::Ready,
        );
        let older = Dependency {
            observed_generation: Some(1),
            ..ready.clone()
        };
        check(&older, &other, DependencySeen::NotReady);
        check(
            &Dependency {
                ready: false,
                ..ready
            },
            &other,
            DependencySeen::NotReady,
        );
    }

    #[test]
    fn ready_expr_replaces_the_condition() {
        let compile = |each: &[(Option<&str>, &str)]| compile_pausing(each.iter().copied(), || ());
        let expressions = compile(&[(None, "a"), (Some("dep.status.size > self.size"), "b")]).unwrap();
        let [None, Some(expression)] = &expressions[..] else {
            panic!("{expressions:?}")
        };
        let dependent = json!({ "size": 2 });
        let check = |dependency: Value, expected: DependencySeen| {
            let seen = evaluate_within(expression, &dependency, &dependent, &mut Allowance::default());
            assert_eq!(seen, expected);
        };
        check(json!({ "status": { "size": 3 } }), DependencySeen::Ready);
        check(json!({ "status": { "size": 1 } }), DependencySeen::Unmet);
        let unread = compile(&[(Some("dep."), "b")]).unwrap_err();
        assert!(
            unread.starts_with("failed to evaluate dependency b: "),
            "{unread}"
        );
    }
}
