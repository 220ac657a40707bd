//! Field specifications: the fields of each kind that a transformer changes.
//!
//! A path descends maps by name. A list on the way is entered item by item without a segment of its own,
//! unless the segment ends in `[]`, which requires a list. Null ends the walk silently.

mod spec_tree;
mod tables;

pub(crate) use spec_tree::{ByType, SpecFault, SpecTree};
pub(crate) use tables::{Reference, Tables};

use crate::budget::Budget;
use crate::error::{Fault, FieldProblem, node_kind};
use crate::kustomization::FieldSpecField;
use crate::resource::{Resource, split_api_version};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FieldSpec {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) path: String,
    pub(crate) create: bool,
    pub(crate) segments: Arc<[String]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Creation {
    Nothing,
    Scalar,
    Map,
}

impl FieldSpec {
    pub(crate) fn new(group: &str, version: &str, kind: &str, path: &str, create: bool) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            path: path.to_owned(),
            create,
            segments: split(path).into(),
        }
    }

    pub(crate) fn from_field(field: &FieldSpecField) -> Self {
        Self::new(
            &field.group,
            &field.version,
            &field.kind,
            &field.path,
            field.create,
        )
    }

    pub(crate) fn selects(&self, group: &str, version: &str, kind: &str) -> bool {
        (self.kind.is_empty() || self.kind == kind)
            && (self.group.is_empty() || self.group == group)
            && (self.version.is_empty() || self.version == version)
    }

    pub(crate) fn visit(
        &self,
        resource: &mut Resource,
        creates: Creation,
        budget: &Budget,
        change: &mut dyn FnMut(&mut Value) -> Result<(), FieldProblem>,
    ) -> Result<(), Fault> {
        let object = &resource.object;
        let (group, version) = split_api_version(object.api_version());
        if !self.selects(group, version, object.kind()) {
            return Ok(());
        }
        self.visit_any(resource, creates, budget, change)
    }

    pub(crate) fn visit_any(
        &self,
        resource: &mut Resource,
        creates: Creation,
        budget: &Budget,
        change: &mut dyn FnMut(&mut Value) -> Result<(), FieldProblem>,
    ) -> Result<(), Fault> {
        let mut indexes = Vec::new();
        let object = &mut resource.object.0;
        let visited = self.visit_object(object, creates, budget, &mut indexes, &mut |value, _| {
            change(value)
        });
        visited.map_err(|problem| Fault::Field {
            path: self.path.clone(),
            id: resource.id().to_string(),
            problem,
        })
    }
}

#[derive(Debug)]
pub(crate) struct Selection<'s> {
    /// By kind, with their places in the list; the empty kind means all.
    by_kind: HashMap<&'s str, Vec<(usize, &'s FieldSpec)>>,
    budget: Budget,
}

impl<'s> Selection<'s> {
    pub(crate) fn new(specs: &'s [FieldSpec], budget: &Budget) -> Self {
        budget.owe(10 * specs.len());
        let mut by_kind: HashMap<&str, Vec<_>> = HashMap::new();
        for (at, spec) in specs.iter().enumerate() {
            by_kind.entry(&spec.kind).or_default().push((at, spec));
        }
        Self {
            by_kind,
            budget: budget.clone(),
        }
    }

    pub(crate) fn of(&self, resource: &Resource) -> Vec<&'s FieldSpec> {
        let kind = resource.kind();
        let (group, version) = resource.group_version();
        let listed = |kind| self.by_kind.get(kind).map_or(&[][..], Vec::as_slice);
        let listed = listed(kind).iter().chain(listed(""));
        let selected = listed.filter(|(_, spec)| spec.selects(group, version, kind));
        let mut selected: Vec<_> = selected.copied().collect();
        self.budget.owe(10 + 4 * selected.len());
        selected.sort_unstable_by_key(|(at, _)| *at);
        selected.into_iter().map(|(_, spec)| spec).collect()
    }

    pub(crate) fn spec_tree<'k>(
        &self,
        known: &'k mut ByType<SpecTree<'s>>,
        resource: &Resource,
    ) -> &'k SpecTree<'s> {
        known.of(resource.object.api_version(), resource.kind(), || {
            SpecTree::new(self.of(resource), &self.budget)
        })
    }
}

/// The steps to find and copy one specification.
const MERGE_STEPS: usize = 20;

/// Adds specifications to a list. One whose kind and path are covered already adds nothing; a different
/// `create` is an error.
pub(crate) fn merge(list: &mut Vec<FieldSpec>, more: &[FieldSpec], budget: &Budget) -> Result<(), Fault> {
    if more.is_empty() {
        return Ok(());
    }
    budget.spend(MERGE_STEPS * (list.len() + more.len()))?;
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, spec) in list.iter().enumerate() {
        places.entry(spec.path.clone()).or_default().push(at);
    }
    for spec in more {
        let known = places.entry(spec.path.clone()).or_default();
        budget.spend(2 * known.len())?;
        let same = known
            .iter()
            .map(|at| &list[*at])
            .find(|other| spec.selects(&other.group, &other.version, &other.kind));
        match same {
            None => {
                budget.charge(size_of::<FieldSpec>() + spec.path.len())?;
                known.push(list.len());
                list.push(spec.clone());
            }
            Some(other) if other.create == spec.create => {}
            Some(_) => {
                return Err(Fault::FieldSpecConflict {
                    path: spec.path.clone(),
                });
            }
        }
    }
    Ok(())
}

/// Splits at `/`; `\/` is a slash.
fn split(path: &str) -> Vec<String> {
    let mut segments = vec![String::new()];
    let mut rest = path.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' if rest.peek() == Some(&'/') => {
                rest.next();
                push(&mut segments, '/');
            }
            '/' => segments.push(String::new()),
            other => push(&mut segments, other),
        }
    }
    if segments.first().is_some_and(String::is_empty) {
        segments.remove(0);
    }
    segments
}

fn push(segments: &mut [String], c: char) {
    if let Some(last) = segments.last_mut() {
        last.push(c);
    }
}

/// Changes a field; the numbers are the list indexes on the way.
type Change<'c> = &'c mut dyn FnMut(&mut Value, &[usize]) -> Result<(), FieldProblem>;

impl FieldSpec {
    fn visit_object(
        &self,
        object: &mut Map<String, Value>,
        creates: Creation,
        budget: &Budget,
        indexes: &mut Vec<usize>,
        change: Change<'_>,
    ) -> Result<(), FieldProblem> {
        Budget::check_depth(self.segments.len())?;
        let creates = if self.create { creates } else { Creation::Nothing };
        visit_map(object, &self.segments, creates, budget, indexes, change)
    }
}

fn visit(
    value: &mut Value,
    path: &[String],
    creates: Creation,
    budget: &Budget,
    indexes: &mut Vec<usize>,
    change: Change<'_>,
) -> Result<(), FieldProblem> {
    if path.is_empty() {
        return change(value, indexes);
    }
    match value {
        Value::Null => Ok(()),
        Value::Array(items) => items.iter_mut().enumerate().try_for_each(|(index, item)| {
            budget.spend(2)?;
            indexes.push(index);
            let visited = visit(item, path, creates, budget, indexes, change);
            indexes.pop();
            visited
        }),
        Value::Object(map) => visit_map(map, path, creates, budget, indexes, change),
        _ => Err(FieldProblem::NotCollection),
    }
}

fn visit_map(
    map: &mut Map<String, Value>,
    path: &[String],
    creates: Creation,
    budget: &Budget,
    indexes: &mut Vec<usize>,
    change: Change<'_>,
) -> Result<(), FieldProblem> {
    budget.spend(4)?;
    let Some((segment, rest)) = path.split_first() else {
        return Ok(());
    };
    let (name, demands_list) = match segment.strip_suffix("[]") {
        Some(name) => (name, true),
        None => (segment.as_str(), false),
    };
    check_name(name)?;
    let created = match creates {
        Creation::Nothing => None,
        _ if demands_list => None,
        Creation::Scalar if rest.is_empty() => Some(Value::from("")),
        Creation::Scalar | Creation::Map => Some(Value::Object(Map::new())),
    };
    let field = match map.get_mut(name) {
        Some(field) => {
            if field.is_null() && demands_list {
                *field = Value::Array(Vec::new());
            } else if field.is_null()
                && let Some(created) = created
            {
                *field = created;
            }
            field
        }
        None => match created {
            Some(created) => map.entry(name.to_owned()).or_insert(created),
            None => return Ok(()),
        },
    };
    visit(field, rest, creates, budget, indexes, change)
}

/// Refuses the names with which kustomize selects items of a list: a map has no such field, and a list is
/// entered without a segment.
fn check_name(name: &str) -> Result<(), FieldProblem> {
    match name {
        "" => Err(FieldProblem::EmptyName),
        "-" => Err(FieldProblem::NotList),
        "*" => Err(FieldProblem::Wildcard),
        _ if name.starts_with('[') && name.ends_with(']') => match name.contains('=') {
            true => Err(FieldProblem::NotList),
            false => Err(FieldProblem::ElementSyntax),
        },
        _ => match name.parse::<i64>() {
            Ok(0..) => Err(FieldProblem::NotList),
            Ok(index) => Err(FieldProblem::NegativeIndex(index)),
            Err(_) => Ok(()),
        },
    }
}

pub(crate) fn set_entry(value: &mut Value, key: &str, text: &str) -> Result<bool, FieldProblem> {
    match value {
        Value::Object(map) => Ok(map.insert(key.to_owned(), text.into()).is_none()),
        other => Err(FieldProblem::NotMap(node_kind(other))),
    }
}

pub(crate) fn set_scalar(value: &mut Value, scalar: Value) -> Result<(), FieldProblem> {
    if value.is_object() || value.is_array() {
        return Err(FieldProblem::NotScalar(node_kind(value)));
    }
    *value = scalar;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(path: &str, create: bool, object: Value, expected: &Value) {
        let Value::Object(map) = object else {
            panic!("no object");
        };
        let mut resource = Resource::new(map, crate::Origin::default());
        let spec = FieldSpec::new("", "", "", path, create);
        spec.visit(
            &mut resource,
            Creation::Scalar,
            &Budget::default(),
            &mut |value| {
                *value = "X".into();
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(&resource.object.into_value(), expected, "{path}");
    }

    #[test]
    fn a_path_enters_lists_and_creates_maps() {
        for (path, create, object, expected) in [
            ("a/b", false, json!({}), json!({})),
            ("a/b", true, json!({}), json!({"a": {"b": "X"}})),
            ("a/b", true, json!({"a": null}), json!({"a": {"b": "X"}})),
            (
                "a/b",
                false,
                json!({"a": [{"b": 1}, {"c": 1}]}),
                json!({"a": [{"b": "X"}, {"c": 1}]}),
            ),
            ("a[]/b", true, json!({}), json!({})),
            ("a/x\\/y", true, json!({}), json!({"a": {"x/y": "X"}})),
        ] {
            check(path, create, object, &expected);
        }
    }

    fn refusal(path: &str, create: bool) -> Option<String> {
        let object =
            json!({"kind": "K", "metadata": {"name": "n"}, "a": 1, "b": {"0": "x"}, "c": [{"d": 1}]});
        let Value::Object(map) = object else {
            panic!("no object");
        };
        let mut resource = Resource::new(map, crate::Origin::default());
        let spec = FieldSpec::new("", "", "", path, create);
        let budget = Budget::default();
        let visited = spec.visit(&mut resource, Creation::Scalar, &budget, &mut |_| Ok(()));
        visited.err().map(|error| error.to_string())
    }

    #[test]
    fn a_path_through_a_scalar_is_an_error() {
        let of = "of object K.[noVer].[noGrp]/n.[noNs]";
        let expected = format!("considering field 'a/b' {of}: expected sequence or mapping node");
        assert_eq!(refusal("a/b", false), Some(expected));
    }

    #[test]
    fn selectors_of_items_are_refused_in_maps() {
        let of = "of object K.[noVer].[noGrp]/n.[noNs]";
        let not_list = "wrong node kind: expected SequenceNode but got MappingNode";
        for (path, problem) in [
            ("b/0", not_list),
            ("b/+1", not_list),
            ("b/-", not_list),
            ("c/-/d", not_list),
            ("c/0/d", not_list),
            ("c/[d=1]", not_list),
            ("c/[d=1]/d", not_list),
            (
                "c/[d]/d",
                "list path element must contain fieldName=fieldValue for element to match",
            ),
            ("b/*", "wildcard is not supported in PathGetter"),
            ("c/*/d", "wildcard is not supported in PathGetter"),
            ("b/-1", "array index -1 cannot be negative"),
        ] {
            let expected = format!("considering field '{path}' {of}: {problem}");
            assert_eq!(refusal(path, false), Some(expected.clone()), "{path}");
            assert_eq!(refusal(path, true), Some(expected), "{path}, created");
        }
        // not reached
        assert_eq!(refusal("e/0", false), None);
        assert_eq!(refusal("b/0x1", false), None);
    }
}
