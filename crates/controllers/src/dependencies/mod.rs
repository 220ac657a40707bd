//! Evaluates `spec.dependsOn` for any controller. Pure. The [ownership graph](crate::ownership) wakes
//! dependents.

pub(crate) mod ready;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

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

/// The entries of one `spec.dependsOn`.
pub const DEPENDENCIES_MAX: usize = 1_000;

/// Why a `spec.dependsOn` with this number of entries is refused.
pub(crate) fn excess(entries: usize) -> Option<String> {
    (entries > DEPENDENCIES_MAX).then(|| {
        format!(
            "spec.dependsOn has {entries} entries; the limit is {DEPENDENCIES_MAX}. Depend on one object that depends \
             on the others"
        )
    })
}

/// The dependencies that one step of a search follows: they are looked up while the graph is locked.
const STEP: usize = 1_024;

/// Searches for the shortest cycle from an object back to itself, in steps. Costs the dependencies that it reaches, each
/// once.
#[derive(Debug)]
pub struct CycleSearch {
    start: ObjectRef,
    /// The object that led to each one with dependencies.
    reached_from: HashMap<ObjectRef, ObjectRef>,
    // breadth first, so that the cycle is the shortest
    open: VecDeque<Edges>,
    followed: usize,
}

/// The dependencies of an object, from the first that is not followed yet.
#[derive(Debug)]
struct Edges {
    from: ObjectRef,
    to: Arc<[ObjectRef]>,
    at: usize,
}

impl CycleSearch {
    /// A search from an object with these dependencies.
    pub fn new(start: ObjectRef, depends_on: Arc<[ObjectRef]>) -> Self {
        Self {
            open: VecDeque::from([Edges {
                from: start.clone(),
                to: depends_on,
                at: 0,
            }]),
            reached_from: HashMap::new(),
            start,
            followed: 0,
        }
    }

    /// Whether it followed few dependencies so far, in less than a millisecond.
    pub fn is_short(&self) -> bool {
        self.followed < STEP
    }

    /// One step. `depends_on` returns the dependencies of each of some objects. Breaks with the cycle, whose first
    /// and last object is the start, or with `None` if there is none.
    pub fn step(
        &mut self,
        depends_on: impl FnOnce(&[&ObjectRef]) -> Vec<Arc<[ObjectRef]>>,
    ) -> ControlFlow<Option<Vec<ObjectRef>>> {
        let parts = self.next_edges();
        if parts.is_empty() {
            return ControlFlow::Break(None);
        }
        let edges = parts
            .iter()
            .flat_map(|(from, to, part)| to[part.clone()].iter().map(move |to| (from, to)));
        let (from, to): (Vec<&ObjectRef>, Vec<&ObjectRef>) = edges
            .filter(|(_, to)| !self.reached_from.contains_key(to))
            .unzip();
        for ((from, to), depends_on) in from.into_iter().zip(&to).zip(depends_on(&to)) {
            if **to == self.start {
                return ControlFlow::Break(Some(self.way_to(from)));
            }
            if !depends_on.is_empty()
                && let Entry::Vacant(new) = self.reached_from.entry((*to).clone())
            {
                new.insert(from.clone());
                self.open.push_back(Edges {
                    from: (*to).clone(),
                    to: depends_on,
                    at: 0,
                });
            }
        }
        ControlFlow::Continue(())
    }

    /// The dependencies to follow next: of each object, those in a range.
    fn next_edges(&mut self) -> Vec<(ObjectRef, Arc<[ObjectRef]>, Range<usize>)> {
        let (mut parts, mut left) = (Vec::new(), STEP);
        while left > 0
            && let Some(first) = self.open.front_mut()
        {
            let part = first.at..first.to.len().min(first.at + left);
            (left, first.at) = (left - part.len(), part.end);
            parts.push((first.from.clone(), Arc::clone(&first.to), part));
            if first.at == first.to.len() {
                self.open.pop_front();
            }
        }
        self.followed += STEP - left;
        parts
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
        let depends_on = |object: &ObjectRef| -> Arc<[ObjectRef]> { depends_on(object).into() };
        let mut search = CycleSearch::new(start.clone(), depends_on(start));
        for steps in 1.. {
            let step = search.step(|asked| asked.iter().map(|object| depends_on(object)).collect());
            if let ControlFlow::Break(way) = step {
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
        assert_eq!(none, (None, chain.len()));
        let next = |from: &ObjectRef| vec![chain.get(at(from) + 1).unwrap_or(&chain[0]).clone()];
        let (found, _) = cycle(&chain[0], next);
        assert_eq!(found.map(|way| way.len()), Some(chain.len() + 1));
    }

    #[test]
    fn a_step_follows_few_dependencies_of_wide_objects() {
        let names = |prefix: &str, count: usize| -> Arc<[ObjectRef]> {
            let name = |at| object("Kustomization", &format!("{prefix}{at:05}"));
            (0..count).map(name).collect()
        };
        let (wide, absent) = (names("wide", 16), names("absent", 20_000));
        let start = object("Kustomization", "apps");
        let mut search = CycleSearch::new(start.clone(), Arc::clone(&wide));
        let (mut asked, mut most, mut steps) = (0, 0, 0);
        let mut depends_on = |objects: &[&ObjectRef]| -> Vec<Arc<[ObjectRef]>> {
            (asked, most) = (asked + objects.len(), most.max(objects.len()));
            let on = |one: &&ObjectRef| match one.name.starts_with("wide") {
                true => Arc::clone(&absent),
                false => Arc::default(),
            };
            objects.iter().map(on).collect()
        };
        assert!(search.step(&mut depends_on).is_continue());
        assert!(search.is_short());
        while search.step(&mut depends_on).is_continue() {
            steps += 1;
        }
        assert!(!search.is_short());
        assert_eq!(most, STEP);
        assert_eq!(asked, wide.len() * (1 + absent.len()));
        assert_eq!(steps, (wide.len() * absent.len()).div_ceil(STEP));
        // names that depend on nothing are not kept
        assert_eq!(search.reached_from.len(), wide.len());
    }

    #[test]
    fn a_cycle_through_a_wide_object_is_found() {
        let start = object("Kustomization", "apps");
        let mut on: Vec<ObjectRef> = (0..3 * STEP)
            .map(|at| object("Kustomization", &format!("k{at}")))
            .collect();
        on.push(start.clone());
        let wide = object("Kustomization", "wide");
        let depends_on = |from: &ObjectRef| match &*from.name {
            "apps" => vec![wide.clone()],
            "wide" => on.clone(),
            _ => Vec::new(),
        };
        let (found, _) = cycle(&start, depends_on);
        assert_eq!(found, Some(vec![start.clone(), wide.clone(), start.clone()]));
    }

    #[test]
    fn too_many_dependencies_are_refused() {
        assert_eq!(excess(DEPENDENCIES_MAX), None);
        let why = excess(DEPENDENCIES_MAX + 1).unwrap();
        assert!(
            why.starts_with("spec.dependsOn has 1001 entries; the limit is 1000."),
            "{why}"
        );
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
