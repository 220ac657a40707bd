//! The rules of each owner for its objects: health expressions and ignored fields, compiled once for each
//! form, by a processor.
//!
//! Both need the whole object, but only digests and health are kept. So the object watcher evaluates them
//! when a watch delivers an object, and the executor when a write is answered. Owners without rules cost
//! nothing. When rules change, the state of all objects is outdated, and each is read once
//! (`Run::reinspect`).
//!
//! Expressions may take long, and watches are shared by all tenants: there, and for answers to writes, a tenant's
//! expressions are evaluated only as far as its time goes ([`SparingRules`]). Other objects are observed without
//! them, and read again by their owner's run, which evaluates on a processor.
//!
//! Refused: unreadable expressions, two for one kind, and invalid selectors and paths.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use equate_api::kustomize::{HealthCheckExpression, IgnoreRule, KustomizationSpec};
use equate_api::meta::Selector;
use equate_apply::health::{Health, Status};
use equate_apply::id::ObjectId;
use equate_apply::owner::{Owner, OwnerKind};
use equate_apply::pointer::Pointer;
use equate_apply::rules::{OwnerRules, Stamp};
use equate_kustomize::{Limits, Selection, SpecTarget};
use equate_manifest::object::Object;
use equate_priority::thread_time;
use tokio::sync::OnceCell;
use tokio_util::task::AbortOnDropHandle;

use crate::Key;
use crate::cel::{Allowance, Expression};
use crate::kit::callbacks::CallbackTime;
use crate::kit::processors::Processors;
use crate::kit::queue;

/// Bytes that one build may make: several run at once.
const BUILT_BYTES_MAX: usize = 96 << 20;
/// Each event of an object costs them.
const IGNORE_RULES_MAX: usize = 256;
const IGNORE_PATHS_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct ObjectRules {
    /// The kind of owners that they are of.
    by: &'static OwnerKind,
    // one lookup per event; written when a spec changes
    rules: RwLock<HashMap<Key, Entry>>,
    stamps: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    rules: Arc<Rules>,
    /// Ends with these rules.
    compiling: Option<AbortOnDropHandle<()>>,
}

/// An invalid rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    /// A CEL expression that cannot be read.
    #[error("{0}")]
    Expression(String),
    /// Another setting.
    #[error("{0}")]
    Setting(String),
}

/// The rules of one, and the spec they are compiled from.
#[derive(Debug)]
struct Rules {
    stamp: Stamp,
    health: Vec<HealthCheckExpression>,
    ignore: Vec<IgnoreRule>,
    compiled: OnceCell<Result<Compiled, Problem>>,
}

impl Rules {
    /// `None` while they are not compiled, or if they are invalid.
    fn valid(&self) -> Option<&Compiled> {
        self.compiled.get()?.as_ref().ok()
    }

    async fn compile(self: &Arc<Self>, key: &Key, processors: &Processors) {
        let compiling = self.compiled.get_or_init(async || {
            let (rules, pause) = (Arc::clone(self), processors.pause());
            let between = pause.clone();
            let compiling = processors.run_pausing(&key.namespace, pause, move || {
                compile(&rules.health, &rules.ignore, || between.here())
            });
            let compiled = compiling.done().await;
            compiled.unwrap_or_else(|error| {
                Err(Problem::Expression(format!(
                    "failed to compile the rules for objects: {error}"
                )))
            })
        });
        // another caller may do it
        queue::computing(compiling).await;
    }
}

#[derive(Debug)]
struct Compiled {
    /// By group and kind; an empty kind is all kinds of the group.
    judges: HashMap<(String, String), Judge>,
    ignores: Vec<Ignores>,
}

/// The health expressions of a kind.
#[derive(Debug)]
struct Judge {
    in_progress: Option<Expression>,
    failed: Option<Expression>,
    current: Expression,
}

/// The ignored fields of some objects.
#[derive(Debug)]
struct Ignores {
    paths: Vec<Pointer>,
    of: Option<Selection>,
}

impl ObjectRules {
    /// The rules of a kind of owners.
    pub(crate) fn of_kind(by: &'static OwnerKind) -> Self {
        Self {
            by,
            rules: RwLock::default(),
            stamps: AtomicU64::default(),
        }
    }

    /// Keeps the rules of a spec; an unchanged spec costs a comparison.
    pub(crate) fn set(&self, key: &Key, spec: &KustomizationSpec) {
        self.set_rules(key, &spec.health_check_exprs, &spec.ignore);
    }

    pub(crate) fn set_rules(&self, key: &Key, health: &[HealthCheckExpression], ignore: &[IgnoreRule]) {
        let known = self.of(key);
        match &known {
            None if health.is_empty() && ignore.is_empty() => return,
            Some(known) if known.health == *health && known.ignore == *ignore => return,
            _ => {}
        }
        if health.is_empty() && ignore.is_empty() {
            return self.forget(key);
        }
        let rules = Rules {
            stamp: self.stamps.fetch_add(1, Ordering::Relaxed) + 1,
            compiled: OnceCell::new(),
            health: health.to_vec(),
            ignore: ignore.to_vec(),
        };
        let entry = Entry {
            rules: Arc::new(rules),
            compiling: None,
        };
        let mut all = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(key.clone(), entry);
    }

    /// Begins to compile rules, so that watches soon know them.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn begin(&self, key: &Key, processors: &Processors) {
        let mut all = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = all.get_mut(key) else { return };
        if entry.compiling.is_some() || entry.rules.compiled.initialized() {
            return;
        }
        let (rules, key, processors) = (Arc::clone(&entry.rules), key.clone(), processors.clone());
        let compiling = tokio::spawn(async move { rules.compile(&key, &processors).await });
        entry.compiling = Some(AbortOnDropHandle::new(compiling));
    }

    /// Waits until a Kustomization's rules are compiled.
    pub(crate) async fn compiled(&self, key: &Key, processors: &Processors) {
        if let Some(rules) = self.of(key)
            && !rules.compiled.initialized()
        {
            rules.compile(key, processors).await;
        }
    }

    /// The same in this thread, for a program of one user.
    pub(crate) fn compile_now(&self, key: &Key) {
        if let Some(rules) = self.of(key)
            && !rules.compiled.initialized()
        {
            // another may have done it
            rules
                .compiled
                .set(compile(&rules.health, &rules.ignore, || ()))
                .ok();
        }
    }

    pub(crate) fn forget(&self, key: &Key) {
        let mut all = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        all.remove(key);
    }

    /// Whether a Kustomization has health expressions.
    pub(crate) fn has_health(&self, key: &Key) -> bool {
        self.of(key).is_some_and(|rules| !rules.health.is_empty())
    }

    /// The error in a Kustomization's rules. Compiles them in this thread unless [`Self::compiled`] did.
    pub(crate) fn problem(&self, key: &Key) -> Option<Problem> {
        self.compile_now(key);
        self.of(key)?.compiled.get()?.as_ref().err().cloned()
    }

    /// Whether a Kustomization has a health expression for such an object.
    pub(crate) fn judges(&self, key: &Key, id: &ObjectId) -> bool {
        let rules = self.of(key);
        let compiled = rules.as_ref().and_then(|rules| rules.valid());
        compiled.is_some_and(|compiled| compiled.judge(&id.group, &id.kind).is_some())
    }

    fn of(&self, key: &Key) -> Option<Arc<Rules>> {
        let all = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        all.get(key).map(|entry| Arc::clone(&entry.rules))
    }

    fn of_owner(&self, owner: &Owner) -> Option<Arc<Rules>> {
        // most owners have none, and events are many
        let all = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        match all.is_empty() || owner.kind != self.by {
            true => None,
            false => {
                let entry = all.get(&Key::new(&*owner.namespace, &*owner.name));
                entry.map(|entry| Arc::clone(&entry.rules))
            }
        }
    }
}

impl OwnerRules for ObjectRules {
    fn stamp(&self, owner: &Owner) -> Stamp {
        // an observation without rules is void when they are compiled
        let rules = self.of_owner(owner);
        let rules = rules.filter(|rules| rules.compiled.initialized());
        rules.map_or(0, |rules| rules.stamp)
    }

    fn ignored(&self, owner: &Owner, object: &Object) -> Vec<Pointer> {
        let rules = self.of_owner(owner);
        let compiled = rules.as_ref().and_then(|rules| rules.valid());
        let ignores = compiled.map_or(&[][..], |compiled| &compiled.ignores);
        let meant = ignores
            .iter()
            .filter(|ignores| ignores.of.as_ref().is_none_or(|of| of.selects(object)));
        meant.flat_map(|ignores| ignores.paths.iter().cloned()).collect()
    }

    fn judge(&self, owner: &Owner, object: &Object) -> Option<Health> {
        let rules = self.of_owner(owner)?;
        let compiled = rules.valid()?;
        let group = object
            .api_version()
            .split_once('/')
            .map_or("", |(group, _)| group);
        Some(compiled.judge(group, object.kind())?.health(object))
    }
}

/// The rules in callbacks of watches and for answers to writes. Without time left, no health is evaluated.
/// Ignored fields always are, for an observation without them would look like drift; they are few.
#[derive(Debug)]
pub(crate) struct SparingRules {
    pub(crate) rules: Arc<ObjectRules>,
    pub(crate) time: Arc<CallbackTime>,
}

impl SparingRules {
    fn charged<T>(&self, owner: &Owner, work: impl FnOnce() -> T) -> T {
        let before = thread_time();
        let done = work();
        let cost = thread_time().saturating_sub(before);
        if cost > Duration::ZERO {
            self.time.charge(&owner.namespace, cost);
        }
        done
    }
}

impl OwnerRules for SparingRules {
    fn stamp(&self, owner: &Owner) -> Stamp {
        self.rules.stamp(owner)
    }

    fn ignored(&self, owner: &Owner, object: &Object) -> Vec<Pointer> {
        self.charged(owner, || self.rules.ignored(owner, object))
    }

    fn judge(&self, owner: &Owner, object: &Object) -> Option<Health> {
        if !self.time.is_left(&owner.namespace) {
            return None;
        }
        self.charged(owner, || self.rules.judge(owner, object))
    }
}

impl Compiled {
    fn judge(&self, group: &str, kind: &str) -> Option<&Judge> {
        // two short strings per event of an owner with rules
        let by = |kind: &str| self.judges.get(&(group.to_owned(), kind.to_owned()));
        by(kind).or_else(|| by(""))
    }
}

impl Judge {
    /// The health in Flux's order; an object that matches none is in progress.
    fn health(&self, object: &Object) -> Health {
        let result = |status| Health {
            status,
            message: String::new(),
        };
        let number = |place: &str, field: &str| object.0.get(place)?.get(field)?.as_i64();
        if let (Some(observed), Some(generation)) = (
            number("status", "observedGeneration"),
            number("metadata", "generation"),
        ) && observed != generation
        {
            return result(Status::InProgress);
        }
        let each = [
            (self.in_progress.as_ref(), Status::InProgress),
            (self.failed.as_ref(), Status::Failed),
            (Some(&self.current), Status::Current),
        ];
        for (expression, status) in each {
            match expression.map(|expression| expression.holds_of(&object.0)) {
                None | Some(Ok(false)) => {}
                Some(Ok(true)) => return result(status),
                Some(Err(error)) => {
                    return Health {
                        status: Status::Unknown,
                        message: error.to_string(),
                    };
                }
            }
        }
        result(Status::InProgress)
    }
}

/// `pause` is called between the expressions.
fn compile(
    health: &[HealthCheckExpression],
    ignore: &[IgnoreRule],
    pause: impl Fn(),
) -> Result<Compiled, Problem> {
    let (mut judges, mut allowance) = (HashMap::with_capacity(health.len()), Allowance::default());
    for (at, check) in health.iter().enumerate() {
        pause();
        let group = check.api_version.split_once('/').map_or("", |(group, _)| group);
        let kind = check.kind.as_deref().unwrap_or_default();
        let judge = judge(check, &mut allowance).map_err(|why| {
            Problem::Expression(format!(
                "failed to create custom status evaluator for healthchecks[{at}]: {why}"
            ))
        })?;
        if judges
            .insert((group.to_owned(), kind.to_owned()), judge)
            .is_some()
        {
            let dot = if group.is_empty() { "" } else { "." };
            return Err(Problem::Expression(format!(
                "duplicate custom health check for GroupKind {kind}{dot}{group} at healthchecks[{at}]"
            )));
        }
    }
    let paths: usize = ignore.iter().map(|rule| rule.paths.len()).sum();
    if ignore.len() > IGNORE_RULES_MAX || paths > IGNORE_PATHS_MAX {
        return Err(Problem::Setting(format!(
            "spec.ignore has {} rules with {paths} paths; at most {IGNORE_RULES_MAX} with {IGNORE_PATHS_MAX} are possible",
            ignore.len()
        )));
    }
    let ignores = ignore.iter().enumerate();
    let ignores: Result<Vec<Ignores>, Problem> = ignores
        .map(|(at, rule)| {
            pause();
            ignores_of(at, rule)
        })
        .collect();
    Ok(Compiled {
        judges,
        ignores: ignores?,
    })
}

fn judge(check: &HealthCheckExpression, allowance: &mut Allowance) -> Result<Judge, String> {
    let mut read = |name: &str, text: &str| {
        let compiled = Expression::of_object(text, allowance);
        compiled.map_err(|error| format!("failed to parse the expression {name}: {error}"))
    };
    let mut optional = |name: &str, text: &Option<String>| match text.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => read(name, text).map(Some),
    };
    if check.current.is_empty() {
        return Err("expression Current not specified".to_owned());
    }
    let (failed, in_progress) = (
        optional("Failed", &check.failed),
        optional("InProgress", &check.in_progress),
    );
    Ok(Judge {
        current: read("Current", &check.current)?,
        failed: failed?,
        in_progress: in_progress?,
    })
}

fn ignores_of(at: usize, rule: &IgnoreRule) -> Result<Ignores, Problem> {
    let wrong = |why: String| Problem::Setting(format!("spec.ignore[{at}]{why}"));
    let paths = rule.paths.iter().enumerate();
    let paths: Result<Vec<Pointer>, Problem> = paths
        .map(|(place, path)| {
            path.parse()
                .map_err(|error| wrong(format!(".paths[{place}]: {error}")))
        })
        .collect();
    let of = rule
        .target
        .as_ref()
        .map(|selector| Selection::new(&spec_target(selector)));
    let of = of
        .transpose()
        .map_err(|error| wrong(format!(".target: failed to create ignore rule selector: {error}")))?;
    Ok(Ignores { paths: paths?, of })
}

/// The limits of a kustomize build: of a Kustomization, or of one post-renderer.
pub(crate) fn build_limits() -> Limits {
    Limits {
        // many builds run at once
        threads_max: 1,
        made_bytes_max: BUILT_BYTES_MAX,
        ..Limits::default()
    }
}

/// A selector of the spec, as kustomize has it.
pub(crate) fn spec_target(selector: &Selector) -> SpecTarget {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    SpecTarget {
        group: text(&selector.group),
        version: text(&selector.version),
        kind: text(&selector.kind),
        name: text(&selector.name),
        namespace: text(&selector.namespace),
        label_selector: text(&selector.label_selector),
        annotation_selector: text(&selector.annotation_selector),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::processors::Threads;
    use crate::kit::tenants::Tenants;
    use crate::owner_kinds::KUSTOMIZATION;
    use equate_apply::observed::Observed;
    use serde_json::{Value, json};

    fn spec(fields: &Value) -> KustomizationSpec {
        let mut spec = json!({
            "interval": "1m", "prune": true, "sourceRef": { "kind": "GitRepository", "name": "fleet" },
        });
        for (field, value) in fields.as_object().unwrap() {
            spec[field] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    fn key() -> Key {
        Key::new("n", "apps")
    }

    fn registry(fields: &Value) -> ObjectRules {
        let registry = ObjectRules::of_kind(&KUSTOMIZATION);
        registry.set(&key(), &spec(fields));
        registry.compile_now(&key());
        registry
    }

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    #[test]
    fn health_follows_the_owners_expressions() {
        let check = |checks: Value, of: Value, expected: Option<&str>| {
            let registry = registry(&json!({ "healthCheckExprs": checks }));
            assert_eq!(registry.problem(&key()), None);
            let object = object(of.clone());
            let health = registry.judge(&Owner::new(&KUSTOMIZATION, "n", "apps"), &object);
            let shown = health.map(|health| match health.message.as_str() {
                "" => health.status.to_string(),
                message => format!("{}: {message}", health.status),
            });
            assert_eq!(shown.as_deref(), expected, "{checks} of {of}");
            assert_eq!(
                registry.judges(&key(), &ObjectId::of(&object)),
                expected.is_some()
            );
            assert_eq!(
                registry.judge(&Owner::new(&KUSTOMIZATION, "n", "others"), &object),
                None
            );
        };
        let widget = |status: Value| {
            json!({ "apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": { "name": "a", "generation": 2 },
                "status": status })
        };
        let all = || {
            json!([{ "apiVersion": "example.com/v1", "kind": "Widget", "inProgress": "status.phase == 'Wait'",
                "failed": "status.phase.startsWith('F')", "current": "status.phase in ['Done', 'Fine']" }])
        };
        check(all(), widget(json!({ "phase": "Wait" })), Some("InProgress"));
        // the first true expression wins, in this order; only the group is compared
        check(all(), widget(json!({ "phase": "Fine" })), Some("Failed"));
        check(all(), widget(json!({ "phase": "Done" })), Some("Current"));
        check(all(), widget(json!({ "phase": "Other" })), Some("InProgress"));
        check(
            all(),
            widget(json!({ "phase": "Done", "observedGeneration": 1 })),
            Some("InProgress"),
        );
        check(
            all(),
            widget(json!({ "phase": "Done", "observedGeneration": 2 })),
            Some("Current"),
        );
        // a string is no generation
        check(
            all(),
            widget(json!({ "phase": "Done", "observedGeneration": "1" })),
            Some("Current"),
        );
        check(
            all(),
            widget(json!({})),
            Some(
                "Unknown: failed to evaluate the CEL expression 'status.phase == 'Wait'': no such key: phase",
            ),
        );
        check(
            all(),
            json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" } }),
            Some(
                "Unknown: failed to evaluate the CEL expression 'status.phase == 'Wait'': no such attribute(s): \
                 status.phase",
            ),
        );
        check(
            all(),
            json!({ "apiVersion": "example.com/v1", "kind": "Gadget", "metadata": { "name": "a" } }),
            None,
        );
        check(
            all(),
            json!({ "apiVersion": "example.org/v1", "kind": "Widget", "metadata": { "name": "a" } }),
            None,
        );
        // any kind of the group; an expression for the exact kind wins
        let group = json!([
            { "apiVersion": "example.com/v1", "current": "spec.size > 3" },
            { "apiVersion": "example.com/v1", "kind": "Gadget", "current": "data.x == 'y'" },
        ]);
        let sized = json!({ "apiVersion": "example.com/v1", "kind": "Any", "metadata": { "name": "a" }, "spec": { "size": 4 } });
        check(group.clone(), sized, Some("Current"));
        let gadget = json!({ "apiVersion": "example.com/v1", "kind": "Gadget", "metadata": { "name": "a" }, "data": { "x": "y" } });
        check(group, gadget, Some("Current"));
        // the core group, and a result that is no bool
        let map = || json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "x": "y" } });
        check(
            json!([{ "apiVersion": "v1", "kind": "ConfigMap", "current": "data.x" }]),
            map(),
            Some("Unknown: failed to evaluate the CEL expression 'data.x': it is string, not bool"),
        );
        check(
            json!([{ "apiVersion": "v1", "current": "metadata.name == 'a' && kind == 'ConfigMap'" }]),
            map(),
            Some("Current"),
        );
    }

    #[test]
    fn invalid_rules_are_named() {
        let check = |fields: Value, expected: &str| {
            let problem = registry(&fields).problem(&key()).unwrap();
            assert!(problem.to_string().contains(expected), "{fields}: {problem}");
        };
        let one = |current: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "current": current });
        check(
            json!({ "healthCheckExprs": [one("status.")] }),
            "failed to create custom status evaluator for healthchecks[0]: failed to parse the \
             expression Current: failed to parse the CEL expression 'status.': ",
        );
        check(
            json!({ "healthCheckExprs": [one("")] }),
            "healthchecks[0]: expression Current not specified",
        );
        check(
            json!({ "healthCheckExprs": [one("true"), one("false")] }),
            "duplicate custom health check for GroupKind ConfigMap at healthchecks[1]",
        );
        let many = vec![json!({ "paths": ["/a"] }); IGNORE_RULES_MAX + 1];
        check(
            json!({ "ignore": many }),
            "spec.ignore has 257 rules with 257 paths",
        );
        check(
            json!({ "ignore": [{ "paths": ["spec/replicas"] }] }),
            "spec.ignore[0].paths[0]: invalid JSON pointer \"spec/replicas\": ",
        );
        check(
            json!({ "ignore": [{ "paths": ["/a"] }, { "paths": ["/a"], "target": { "name": "(" } }] }),
            "spec.ignore[1].target: failed to create ignore rule selector: ",
        );
        check(
            json!({ "ignore": [{ "paths": ["/a"], "target": { "labelSelector": "a=b," } }] }),
            "spec.ignore[0].target: failed to create ignore rule selector: ",
        );
    }

    #[test]
    fn fields_are_ignored_of_selected_objects_only() {
        let check = |target: Value, expected: bool| {
            let registry =
                registry(&json!({ "ignore": [{ "paths": ["/spec/replicas"], "target": target }] }));
            let object = object(json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "name": "web", "namespace": "shop", "labels": { "tier": "front" }, "annotations": { "a": "b" } },
            }));
            let ignored = registry.ignored(&Owner::new(&KUSTOMIZATION, "n", "apps"), &object);
            assert_eq!(!ignored.is_empty(), expected, "{target}");
        };
        check(Value::Null, true);
        check(json!({}), true);
        check(json!({ "kind": "Deployment" }), true);
        check(json!({ "kind": "Deploy" }), false);
        check(json!({ "kind": "Deploy.*|Stateful.*" }), true);
        check(json!({ "group": "apps", "version": "v1" }), true);
        check(json!({ "group": "batch" }), false);
        check(json!({ "version": "v2" }), false);
        check(json!({ "name": "web", "namespace": "shop" }), true);
        check(json!({ "name": "we" }), false);
        check(json!({ "namespace": "other" }), false);
        check(json!({ "labelSelector": "tier in (front, back)" }), true);
        check(json!({ "labelSelector": "!tier" }), false);
        check(json!({ "annotationSelector": "a=b" }), true);
        check(json!({ "annotationSelector": "a=c" }), false);
    }

    #[test]
    fn changed_rules_have_a_new_stamp() {
        let registry = ObjectRules::of_kind(&KUSTOMIZATION);
        let owner = Owner::new(&KUSTOMIZATION, "n", "apps");
        let set = |fields: Value| {
            registry.set(&key(), &spec(&fields));
            registry.compile_now(&key());
            registry.stamp(&owner)
        };
        let ignore = |path: &str| json!({ "ignore": [{ "paths": [path] }] });
        assert_eq!(set(json!({})), 0);
        let first = set(ignore("/a"));
        assert_ne!(first, 0);
        let mut same = ignore("/a");
        same["path"] = json!("elsewhere");
        assert_eq!(set(same), first);
        let second = set(ignore("/b"));
        assert!(second != first && second != 0);
        assert_eq!(set(json!({})), 0);
        assert!(set(ignore("/a")) > second);
    }
    #[tokio::test(start_paused = true)]
    async fn rules_are_compiled_by_a_processor_alone() {
        let registry = ObjectRules::of_kind(&KUSTOMIZATION);
        let rules = json!({
            "healthCheckExprs": [{ "apiVersion": "v1", "kind": "ConfigMap", "current": "true" }],
            "ignore": [{ "paths": ["/data"] }],
        });
        let owner = Owner::new(&KUSTOMIZATION, "n", "apps");
        let map = object(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }));
        let seen = || {
            let judged = registry.judge(&owner, &map).is_some();
            (
                registry.stamp(&owner) != 0,
                judged,
                registry.ignored(&owner, &map).len(),
            )
        };
        registry.set(&key(), &spec(&rules));
        assert_eq!(seen(), (false, false, 0));
        let threads = Threads::Runtime(tokio::runtime::Handle::current());
        let processors = Processors::new(1, Tenants::default(), threads);
        registry.begin(&key(), &processors);
        registry.compiled(&key(), &processors).await;
        assert_eq!(seen(), (true, true, 1));
        // an event of the same spec forgets nothing
        registry.set(&key(), &spec(&rules));
        assert_eq!(seen(), (true, true, 1));
    }

    #[test]
    fn a_tenant_without_time_has_no_health_expressions_in_callbacks() {
        let rules =
            json!({ "healthCheckExprs": [{ "apiVersion": "v1", "kind": "ConfigMap", "current": "true" }] });
        let time = Arc::new(CallbackTime::new(Tenants::default()));
        let sparing = SparingRules {
            rules: Arc::new(registry(&rules)),
            time: Arc::clone(&time),
        };
        let owner = Owner::new(&KUSTOMIZATION, "n", "apps");
        let map = object(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "a", "labels": {
                "kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "n",
            } },
        }));
        let judged = || Observed::under(&map, &KUSTOMIZATION, &sparing).judged.len();
        assert_eq!(judged(), 1);
        time.charge("n", Duration::from_secs(3600));
        assert_eq!(judged(), 0);
        assert_ne!(
            sparing.stamp(&owner),
            0,
            "ignored fields are those of these rules"
        );
        assert_eq!(
            Observed::under(&map, &KUSTOMIZATION, &*sparing.rules)
                .judged
                .len(),
            1
        );
    }
}
