//! Selectors of patches and replacements.

use crate::budget::{BYTES_PER_STEP, Budget, Expression};
use crate::error::Fault;
use crate::kustomization::Selector;
use crate::resource::Resource;
use crate::schema::Schema;
use crate::spec::{Limits, SpecTarget};
use equate_manifest::object::Object;
use serde_json::{Map, Value};

/// The steps to find the original and the current namespace.
const NAMESPACE_STEPS: usize = 20;

#[derive(Debug)]
pub(crate) struct Matcher {
    group: Pattern,
    version: Pattern,
    kind: Pattern,
    name: Pattern,
    namespace: Pattern,
    labels: Vec<Requirement>,
    annotations: Vec<Requirement>,
    /// The steps to compare the metadata of one object.
    metadata_steps: usize,
    budget: Budget,
}

impl Matcher {
    pub(crate) fn new(selector: &Selector, budget: &Budget) -> Result<Self, Fault> {
        let labels = requirements(&selector.label_selector, budget)?;
        let annotations = requirements(&selector.annotation_selector, budget)?;
        let steps = labels.iter().chain(&annotations).map(Requirement::steps);
        Ok(Self {
            metadata_steps: steps.sum(),
            budget: budget.clone(),
            group: Pattern::anchored(&selector.group, budget)?,
            version: Pattern::anchored(&selector.version, budget)?,
            kind: Pattern::anchored(&selector.kind, budget)?,
            name: Pattern::anchored(&selector.name, budget)?,
            namespace: Pattern::anchored(&selector.namespace, budget)?,
            labels,
            annotations,
        })
    }

    pub(crate) fn matches(&self, resource: &Resource, schema: &Schema) -> bool {
        let (group, version) = resource.group_version();
        let budget = &self.budget;
        if !self.namespace.is_any() {
            budget.owe(NAMESPACE_STEPS);
        }
        self.matches_kind(group, version, resource.kind())
            && self
                .name
                .matches_either(resource.original_name(), || resource.name(), budget)
            && (self.namespace.is_any()
                || self.namespace.matches_either(
                    resource.original_namespace(schema),
                    || resource.effective_namespace(schema),
                    budget,
                ))
            && self.matches_metadata(resource)
    }

    /// The only name it can match, if there is one.
    pub(crate) fn only_name(&self) -> Option<&str> {
        self.name.only()
    }

    /// The only kind it can match, if there is one.
    pub(crate) fn only_kind(&self) -> Option<&str> {
        self.kind.only()
    }

    pub(crate) fn matches_kind(&self, group: &str, version: &str, kind: &str) -> bool {
        let budget = &self.budget;
        budget.owe(8);
        self.kind.matches(kind, budget)
            && self.group.matches(group, budget)
            && self.version.matches(version, budget)
    }

    pub(crate) fn matches_names(&self, name: &str, namespace: &str) -> bool {
        self.name.matches(name, &self.budget) && self.namespace.matches(namespace, &self.budget)
    }

    pub(crate) fn matches_metadata(&self, resource: &Resource) -> bool {
        self.budget.owe(self.metadata_steps);
        self.labels
            .iter()
            .all(|requirement| requirement.matches(resource.texts("labels")))
            && self
                .annotations
                .iter()
                .all(|requirement| requirement.matches(resource.texts("annotations")))
    }

    pub(crate) fn selects_metadata(&self) -> bool {
        !self.labels.is_empty() || !self.annotations.is_empty()
    }
}

/// A selector for use outside a build.
#[derive(Debug)]
pub struct Selection(Matcher);

impl Selection {
    /// Compiles a selector.
    ///
    /// # Errors
    /// When an expression or label selector is invalid or too large.
    pub fn new(target: &SpecTarget) -> Result<Self, Fault> {
        let selector = crate::patch::selector(target);
        Matcher::new(&selector, &Budget::new(&Limits::default())).map(Self)
    }

    /// Whether the selector matches an object.
    pub fn selects(&self, object: &Object) -> bool {
        let api_version = object.api_version();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let texts = |field: &str| {
            object
                .metadata()
                .and_then(|metadata| metadata.get(field)?.as_object())
        };
        let hold = |requirements: &[Requirement], field: &str| {
            requirements.iter().all(|one| one.matches(texts(field)))
        };
        self.0.matches_kind(group, version, object.kind())
            && self.0.matches_names(object.name(), object.namespace())
            && hold(&self.0.labels, "labels")
            && hold(&self.0.annotations, "annotations")
    }
}

/// An expression that must match the whole text.
#[derive(Debug)]
enum Pattern {
    /// The empty expression, which matches everything.
    Any,
    /// An expression without special characters: comparing is far cheaper than matching.
    Text(String),
    Expression(Expression),
}

impl Pattern {
    fn anchored(pattern: &str, budget: &Budget) -> Result<Self, Fault> {
        if pattern.is_empty() {
            return Ok(Self::Any);
        }
        if pattern
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/'))
        {
            return Ok(Self::Text(pattern.to_owned()));
        }
        match budget.pattern(&format!("^(?:{pattern})$"), pattern)? {
            Ok(expression) => Ok(Self::Expression(expression)),
            Err(problem) => Err(Fault::Pattern {
                pattern: pattern.to_owned(),
                problem,
            }),
        }
    }

    fn is_any(&self) -> bool {
        matches!(self, Self::Any)
    }

    fn only(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Any | Self::Expression(_) => None,
        }
    }

    fn matches(&self, text: &str, budget: &Budget) -> bool {
        match self {
            Self::Any => true,
            Self::Text(wanted) => {
                budget.owe(wanted.len().min(text.len()) / BYTES_PER_STEP);
                wanted == text
            }
            Self::Expression(expression) => expression.is_match(text, budget),
        }
    }

    fn matches_either<'t>(&self, first: &'t str, second: impl FnOnce() -> &'t str, budget: &Budget) -> bool {
        self.matches(first, budget) || {
            let second = second();
            second != first && self.matches(second, budget)
        }
    }
}

#[derive(Debug)]
enum Requirement {
    Exists(String),
    Absent(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Greater(String, i64),
    Less(String, i64),
}

impl Requirement {
    fn steps(&self) -> usize {
        const STEPS: usize = 10;
        match self {
            Self::In(_, values) | Self::NotIn(_, values) => STEPS + values.len(),
            Self::Exists(_) | Self::Absent(_) | Self::Greater(..) | Self::Less(..) => STEPS,
        }
    }

    fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        let value = |key: &String| {
            labels
                .and_then(|labels| labels.get(key))
                .and_then(crate::resource::scalar_text)
        };
        let number = |key: &String| value(key).and_then(|text| text.parse::<i64>().ok());
        match self {
            Self::Exists(key) => value(key).is_some(),
            Self::Absent(key) => value(key).is_none(),
            Self::In(key, values) => value(key).is_some_and(|text| values.contains(&text)),
            Self::NotIn(key, values) => value(key).is_none_or(|text| !values.contains(&text)),
            Self::Greater(key, bound) => number(key).is_some_and(|number| number > *bound),
            Self::Less(key, bound) => number(key).is_some_and(|number| number < *bound),
        }
    }
}

/// Parses a label selector like `k8s.io/apimachinery/pkg/labels`: `a`, `!a`, `a=b`, `a!=b`, `a in (b,c)`, `a
/// notin (b)`, `a>1`, `a<1`, joined by commas.
fn requirements(selector: &str, budget: &Budget) -> Result<Vec<Requirement>, Fault> {
    budget.spend(selector.len())?;
    let wrong = |problem: String| Fault::Selector {
        selector: selector.to_owned(),
        problem,
    };
    let mut requirements = Vec::new();
    let mut rest = selector.trim();
    while !rest.is_empty() {
        let (requirement, after) = requirement(rest).map_err(wrong)?;
        requirements.push(requirement);
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(after) if after.trim().is_empty() => {
                return Err(wrong("found '', expected: identifier after ','".to_owned()));
            }
            Some(after) => rest = after.trim_start(),
            None if rest.is_empty() => {}
            None => return Err(wrong(format!("found '{rest}', expected: ',' or 'end of string'"))),
        }
    }
    Ok(requirements)
}

fn requirement(text: &str) -> Result<(Requirement, &str), String> {
    if let Some(text) = text.strip_prefix('!') {
        let (key, rest) = word(text.trim_start())?;
        return Ok((Requirement::Absent(key.to_owned()), rest));
    }
    let (key, rest) = word(text)?;
    let key = key.to_owned();
    let rest = rest.trim_start();
    if rest.is_empty() || rest.starts_with(',') {
        return Ok((Requirement::Exists(key), rest));
    }
    for (operator, negated) in [("!=", true), ("==", false), ("=", false)] {
        if let Some(rest) = rest.strip_prefix(operator) {
            let (value, rest) = value(rest.trim_start());
            let values = vec![value.to_owned()];
            let requirement = if negated {
                Requirement::NotIn(key, values)
            } else {
                Requirement::In(key, values)
            };
            return Ok((requirement, rest));
        }
    }
    for (operator, greater) in [('>', true), ('<', false)] {
        if let Some(rest) = rest.strip_prefix(operator) {
            let (bound, rest) = value(rest.trim_start());
            let bound = bound
                .parse()
                .map_err(|_| format!("values[0]: Invalid value: {bound:?}: for 'Gt', 'Lt' operators, the value must be an integer"))?;
            let requirement = if greater {
                Requirement::Greater(key, bound)
            } else {
                Requirement::Less(key, bound)
            };
            return Ok((requirement, rest));
        }
    }
    for (operator, negated) in [("notin", true), ("in", false)] {
        if let Some(rest) = rest.strip_prefix(operator) {
            let inner = rest
                .trim_start()
                .strip_prefix('(')
                .ok_or_else(|| format!("found '{}' expected: '('", rest.trim()))?;
            let (inner, rest) = inner.split_once(')').ok_or("found '', expected: ',' or ')'")?;
            let values = inner.split(',').map(|value| value.trim().to_owned()).collect();
            let requirement = if negated {
                Requirement::NotIn(key, values)
            } else {
                Requirement::In(key, values)
            };
            return Ok((requirement, rest));
        }
    }
    Err(format!("found '{rest}', expected: in, notin, =, ==, !=, gt, lt"))
}

fn word(text: &str) -> Result<(&str, &str), String> {
    let (word, rest) = value(text);
    if word.is_empty() {
        return Err(format!(
            "found '{text}', expected: !, identifier, or 'end of string'"
        ));
    }
    Ok((word, rest))
}

fn value(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| c.is_whitespace() || "=!<>(),".contains(c))
        .unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn label_selectors() {
        let labels = json!({"app": "web", "tier": "front", "n": "3"});
        for (selector, expected) in [
            ("app", true),
            ("!app", false),
            ("app=web,tier==front", true),
            ("app!=web", false),
            ("none!=web", true),
            ("app in (db, web)", true),
            ("app notin (db,web)", false),
            ("n>2, n<4", true),
            (" app = web ", true),
        ] {
            let requirements = requirements(selector, &Budget::default()).unwrap();
            let holds = requirements
                .iter()
                .all(|requirement| requirement.matches(labels.as_object()));
            assert_eq!(holds, expected, "{selector}");
        }
        for selector in ["app=web,", "=x", "app web", "app in db", "n>x"] {
            assert!(requirements(selector, &Budget::default()).is_err(), "{selector}");
        }
    }

    #[test]
    fn names_are_anchored_expressions() {
        for (pattern, name, expected) in [
            ("web", "web", true),
            ("web", "web-1", false),
            ("a|b.*", "b1", true),
            ("web.1", "web-1", true),
        ] {
            assert_eq!(
                Pattern::anchored(pattern, &Budget::default())
                    .unwrap()
                    .matches(name, &Budget::default()),
                expected,
                "{pattern}"
            );
        }
        assert!(Pattern::anchored("(", &Budget::default()).is_err());
    }
}
