//! Several field specifications, walked at once.
//!
//! The fields of a kind share prefixes: a Deployment has thirty that may name an object, most below
//! `spec/template/spec`. Their paths form a tree, so each map is visited once.
//!
//! Changes and errors are the same as with one walk per specification. Where they could differ, the walks
//! stay separate: one path is a prefix of another, only one requires a list, or only one creates its field.

use super::{Creation, FieldSpec, check_name};
use crate::budget::Budget;
use crate::error::{Fault, FieldProblem};
use crate::resource::Resource;
use equate_manifest::object::{Object, field_mut};
use serde_json::{Map, Value};
use std::collections::HashMap;

#[derive(Debug)]
pub(crate) struct SpecTree<'s> {
    specs: Vec<&'s FieldSpec>,
    /// `None` where specifications must be visited one by one.
    tree: Option<Vec<Branch<'s>>>,
}

#[derive(Debug)]
struct Branch<'s> {
    name: &'s str,
    demands_list: bool,
    creates: bool,
    first: usize,
    /// The specifications that end here; nothing is below them.
    ends: Vec<usize>,
    below: Vec<Branch<'s>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpecFault {
    pub(crate) at: usize,
    pub(crate) problem: FieldProblem,
}

/// Changes a field of the numbered specification; the slice holds the list indexes on the way.
type Change<'c> = dyn FnMut(usize, &mut Value, &[usize]) -> Result<(), FieldProblem> + 'c;

impl<'s> SpecTree<'s> {
    pub(crate) fn new(specs: Vec<&'s FieldSpec>, budget: &Budget) -> Self {
        Self {
            tree: tree(&specs, budget),
            specs,
        }
    }

    pub(crate) fn spec(&self, at: usize) -> &'s FieldSpec {
        self.specs[at]
    }

    /// Calls `change` once per matching specification for every matching field. Continues after an error.
    pub(crate) fn visit(
        &self,
        object: &mut Object,
        creates: Creation,
        budget: &Budget,
        change: &mut Change<'_>,
    ) -> Result<(), SpecFault> {
        let Some(tree) = &self.tree else {
            return self.visit_in_turn(object, creates, budget, change);
        };
        let mut walk = Walk {
            creates,
            budget,
            ended: false,
            indexes: Vec::new(),
            wrong: None,
            change,
        };
        walk.map(&mut object.0, tree);
        walk.wrong.map_or(Ok(()), Err)
    }

    fn visit_in_turn(
        &self,
        object: &mut Object,
        creates: Creation,
        budget: &Budget,
        change: &mut Change<'_>,
    ) -> Result<(), SpecFault> {
        for (at, spec) in self.specs.iter().enumerate() {
            let mut change = |value: &mut Value, indexes: &[usize]| change(at, value, indexes);
            spec.visit_object(&mut object.0, creates, budget, &mut Vec::new(), &mut change)
                .map_err(|problem| SpecFault { at, problem })?;
        }
        Ok(())
    }

    pub(crate) fn fault(&self, wrong: SpecFault, resource: &Resource) -> Fault {
        Fault::Field {
            path: self.specs[wrong.at].path.clone(),
            id: resource.id().to_string(),
            problem: wrong.problem,
        }
    }
}

/// Builds the tree if the order of visits makes no difference.
fn tree<'s>(specs: &[&'s FieldSpec], budget: &Budget) -> Option<Vec<Branch<'s>>> {
    let mut tree = Vec::new();
    for (at, spec) in specs.iter().enumerate() {
        Budget::check_depth(spec.segments.len()).ok()?;
        let mut branches = &mut tree;
        for (depth, segment) in spec.segments.iter().enumerate() {
            budget.spend(10 + branches.len()).ok()?;
            let branch = branch(branches, segment, at)?;
            let is_end = depth + 1 == spec.segments.len();
            let is_known = !branch.ends.is_empty();
            match is_end {
                true if !branch.below.is_empty() || is_known && branch.creates != spec.create => return None,
                true => branch.ends.push(at),
                false if is_known => return None,
                false => {}
            }
            branch.creates |= spec.create;
            branches = &mut branch.below;
        }
    }
    Some(tree)
}

fn branch<'b, 's>(
    branches: &'b mut Vec<Branch<'s>>,
    segment: &'s str,
    first: usize,
) -> Option<&'b mut Branch<'s>> {
    let (name, demands_list) = match segment.strip_suffix("[]") {
        Some(name) => (name, true),
        None => (segment, false),
    };
    let found = match branches.iter().position(|branch| branch.name == name) {
        Some(found) if branches[found].demands_list != demands_list => return None,
        Some(found) => found,
        // an error, but only where the walk gets this far
        None if check_name(name).is_err() => return None,
        None => {
            branches.push(Branch {
                name,
                demands_list,
                creates: false,
                first,
                ends: Vec::new(),
                below: Vec::new(),
            });
            branches.len() - 1
        }
    };
    branches.get_mut(found)
}

struct Walk<'c, 'f> {
    creates: Creation,
    budget: &'c Budget,
    /// Whether the budget is exhausted.
    ended: bool,
    indexes: Vec<usize>,
    /// The error of the first specification that has one.
    wrong: Option<SpecFault>,
    change: &'c mut Change<'f>,
}

impl Walk<'_, '_> {
    fn map(&mut self, map: &mut Map<String, Value>, branches: &[Branch<'_>]) {
        if self.ended {
            return;
        }
        if let Err(exhausted) = self.budget.spend(4 * branches.len()) {
            self.ended = true;
            self.note(0, exhausted.into());
            return;
        }
        for branch in branches {
            let created = self.created(branch);
            let field = match field_mut(map, branch.name) {
                Some(field) => field,
                None => match created {
                    Some(created) => {
                        let field = map.entry(branch.name.to_owned()).or_insert(created);
                        self.value(field, branch);
                        continue;
                    }
                    None => continue,
                },
            };
            if field.is_null() {
                if branch.demands_list {
                    *field = Value::Array(Vec::new());
                } else if let Some(created) = created {
                    *field = created;
                }
            }
            self.value(field, branch);
        }
    }

    fn created(&self, branch: &Branch<'_>) -> Option<Value> {
        if !branch.creates || branch.demands_list {
            return None;
        }
        match self.creates {
            Creation::Nothing => None,
            Creation::Scalar if branch.below.is_empty() => Some(Value::from("")),
            Creation::Scalar | Creation::Map => Some(Value::Object(Map::new())),
        }
    }

    fn value(&mut self, value: &mut Value, branch: &Branch<'_>) {
        for at in &branch.ends {
            if let Err(problem) = (self.change)(*at, value, &self.indexes) {
                self.note(*at, problem);
            }
        }
        if !branch.below.is_empty() {
            self.below(value, branch);
        }
    }

    fn below(&mut self, value: &mut Value, branch: &Branch<'_>) {
        match value {
            Value::Null => {}
            Value::Array(items) => {
                self.budget.owe(items.len());
                for (index, item) in items.iter_mut().enumerate() {
                    self.indexes.push(index);
                    self.below(item, branch);
                    self.indexes.pop();
                }
            }
            Value::Object(map) => self.map(map, &branch.below),
            _ => self.note(branch.first, FieldProblem::NotCollection),
        }
    }

    fn note(&mut self, at: usize, problem: FieldProblem) {
        if self.wrong.as_ref().is_none_or(|wrong| at < wrong.at) {
            self.wrong = Some(SpecFault { at, problem });
        }
    }
}

/// A value per type of object, created on demand.
#[derive(Debug)]
pub(crate) struct ByType<T> {
    made: Vec<T>,
    /// Places in the list by `apiVersion`, then by kind.
    places: HashMap<String, HashMap<String, usize>>,
}

impl<T> ByType<T> {
    pub(crate) fn new() -> Self {
        Self {
            made: Vec::new(),
            places: HashMap::new(),
        }
    }

    pub(crate) fn of(&mut self, api_version: &str, kind: &str, make: impl FnOnce() -> T) -> &T {
        let known = self.places.get(api_version).and_then(|kinds| kinds.get(kind));
        let at = known.copied().unwrap_or_else(|| {
            let kinds = self.places.entry(api_version.to_owned()).or_default();
            kinds.insert(kind.to_owned(), self.made.len());
            self.made.push(make());
            self.made.len() - 1
        });
        &self.made[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;
    use serde_json::json;

    /// The effect of specifications on an object, as a tree and one by one. Each field receives the number of
    /// its calls; `bad` is an error.
    fn outcome(spec_tree: &SpecTree<'_>, object: &Value, creates: Creation) -> (Value, Option<String>) {
        let Value::Object(map) = object.clone() else {
            panic!("no object");
        };
        let mut resource = Resource::new(map, Origin::default());
        let budget = Budget::default();
        let visited = spec_tree.visit(
            &mut resource.object,
            creates,
            &budget,
            &mut |at, value, indexes| {
                if *value == "bad" {
                    return Err(FieldProblem::EmptyName);
                }
                let before = std::mem::take(value);
                *value = match before {
                    Value::Object(mut map) => {
                        map.insert(format!("by {at}"), json!(indexes));
                        map.into()
                    }
                    scalar => format!("{scalar} by {at} in {indexes:?}").into(),
                };
                Ok(())
            },
        );
        let error = visited
            .err()
            .map(|wrong| spec_tree.fault(wrong, &resource).to_string());
        (resource.object.into_value(), error)
    }

    /// A path with a leading `+` is created.
    fn check(paths: &[&str], is_tree: bool, object: &Value) {
        let specs: Vec<FieldSpec> = paths
            .iter()
            .map(|path| FieldSpec::new("", "", "", path.trim_start_matches('+'), path.starts_with('+')))
            .collect();
        let spec_tree = SpecTree::new(specs.iter().collect(), &Budget::default());
        assert_eq!(spec_tree.tree.is_some(), is_tree, "{paths:?}");
        let in_turn = SpecTree {
            specs: spec_tree.specs.clone(),
            tree: None,
        };
        for creates in [Creation::Nothing, Creation::Scalar, Creation::Map] {
            let (one, other) = (
                outcome(&spec_tree, object, creates),
                outcome(&in_turn, object, creates),
            );
            assert_eq!(one.1, other.1, "{paths:?} {creates:?} {object}");
            // after an error the object does not matter
            if one.1.is_none() {
                assert_eq!(one.0, other.0, "{paths:?} {creates:?} {object}");
            }
        }
    }

    #[test]
    fn tree_equals_separate_walks() {
        let objects = [
            json!({}),
            json!({"a": null}),
            json!({"a": "bad"}),
            json!({"a": 1, "d": {"e": "bad"}}),
            json!({"a": {"b": null, "c": null}, "d": null}),
            json!({"a": {"b": 1, "c": [{"x": "bad"}, {"x": 1}]}, "d": {"e": 2}}),
            json!({"a": {"b": {}, "c": [{"x": 1, "y": 2}, [{"x": 3}], null, {}]}, "d": {"e": {}}}),
            json!({"a": {"c": [{"x": 1, "y": 2}, 7, {"x": "bad"}]}, "d": {"e": "bad"}}),
            json!({"a": [{"b": 1, "c": {"x": 1}}, {"b": 2, "c": {"y": 2}}], "d": [{"e": 1}]}),
        ];
        for object in &objects {
            for (paths, is_tree) in [
                (&[][..], true),
                (&["", "a/b"], true),
                (&["a/b", "a/c/x", "d/e", "a/c/y"], true),
                (&["d/e", "a/c/y", "a/c/x", "a/b"], true),
                (&["+a/b", "a/c/x", "+d/e", "+a/c/y"], true),
                (&["a/b", "+a/c/x", "d/e", "+a/f/y"], true),
                (&["a/c[]/x", "+a/c[]/y", "+d/e"], true),
                (&["a/b", "d/e", "a/b"], true),
                (&["+a/b", "d/e", "+a/b"], true),
                // visited one by one
                (&["a/b", "d/e", "+a/b"], false),
                (&["a", "a/b"], false),
                (&["+a/b/c", "+a/b"], false),
                (&["a/c[]/x", "+a/c/y"], false),
                (&["a//x", "d/e"], false),
                (&["a/[]", "d/e"], false),
                (&["a/0", "d/e"], false),
                (&["a/c/[x=1]/x", "d/e"], false),
                (&["a/*/x", "d/e"], false),
            ] {
                check(paths, is_tree, object);
            }
        }
    }

    #[test]
    fn values_are_created_once_per_type() {
        let mut known = ByType::new();
        let mut made = 0;
        for (api_version, kind) in [("v1", "A"), ("v1", "B"), ("v2", "A"), ("v1", "A"), ("v2", "A")] {
            let found = known.of(api_version, kind, || {
                made += 1;
                format!("{api_version} {kind}")
            });
            assert_eq!(*found, format!("{api_version} {kind}"));
        }
        assert_eq!(made, 3);
    }
}
