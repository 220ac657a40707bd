//! Field specifications: the fields of each kind that a transformer changes.
//!
//! A path descends maps by name. A list on the way is entered item by item without a segment of its own,
//! unless the segment ends in `[]`, which requires a list. Null ends the walk silently.

mod spec_tree;
mod tables;

pub(crate) use spec_tree::{ByType, SpecFault, SpecTree};
pub(crate) use tables::{Reference, Tables};

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
        change: &mut dyn FnMut(&mut Value) -> Result<(), FieldProblem>,
    ) -> Result<(), Fault> {
        let object = &resource.object;
        let (group, version) = split_api_version(object.api_version());
        if !self.selects(group, version, object.kind()) {
            return Ok(());
        }
        self.visit_any(resource, creates, change)
    }

    pub(crate) fn visit_any(
        &self,
        resource: &mut Resource,
        creates: Creation,
        change: &mut dyn FnMut(&mut Value) -> Result<(), FieldProblem>,
    ) -> Result<(), Fault> {
        let creates = if self.create { creates } else { Creation::Nothing };
        let mut indexes = Vec::new();
        let object = &mut resource.object.0;
        let visited = visit_map(object, &self.segments, creates, &mut indexes, &mut |value, _| {
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
    /// Those for all kinds are in every list, in their order.
    by_kind: HashMap<&'s str, Vec<&'s FieldSpec>>,
    for_all: Vec<&'s FieldSpec>,
}

impl<'s> Selection<'s> {
    pub(crate) fn new(specs: &'s [FieldSpec]) -> Self {
        let mut by_kind: HashMap<&str, Vec<&FieldSpec>> = HashMap::new();
        for spec in specs {
            by_kind.entry(&spec.kind).or_default();
        }
        for spec in specs {
            if spec.kind.is_empty() {
                by_kind.values_mut().for_each(|list| list.push(spec));
            } else {
                by_kind.entry(&spec.kind).or_default().push(spec);
            }
        }
        Self {
            for_all: by_kind.remove("").unwrap_or_default(),
            by_kind,
        }
    }

    pub(crate) fn of(&self, resource: &Resource) -> Vec<&'s FieldSpec> {
        let kind = resource.kind();
        let (group, version) = resource.group_version();
        let listed = self.by_kind.get(kind).unwrap_or(&self.for_all);
        let selected = listed.iter().filter(|spec| spec.selects(group, version, kind));
        selected.copied().collect()
    }

    pub(crate) fn spec_tree<'k>(
        &self,
        known: &'k mut ByType<SpecTree<'s>>,
        resource: &Resource,
    ) -> &'k SpecTree<'s> {
        known.of(resource.object.api_version(), resource.kind(), || {
            SpecTree::new(self.of(resource))
        })
    }
}

/// Adds specifications to a list. One whose kind and path are covered already adds nothing; a different
/// `create` is an error.
pub(crate) fn merge(list: &mut Vec<FieldSpec>, more: &[FieldSpec]) -> Result<(), Fault> {
    for spec in more {
        let same = list
            .iter()
            .find(|other| other.path == spec.path && spec.selects(&other.group, &other.version, &other.kind));
        match same {
            None => list.push(spec.clone()),
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

fn visit(
    value: &mut Value,
    path: &[String],
    creates: Creation,
    indexes: &mut Vec<usize>,
    change: Change<'_>,
) -> Result<(), FieldProblem> {
    if path.is_empty() {
        return change(value, indexes);
    }
    match value {
        Value::Null => Ok(()),
        Value::Array(items) => items.iter_mut().enumerate().try_for_each(|(index, item)| {
            indexes.push(index);
            let visited = visit(item, path, creates, indexes, change);
            indexes.pop();
            visited
        }),
        Value::Object(map) => visit_map(map, path, creates, indexes, change),
        _ => Err(FieldProblem::NotCollection),
    }
}

fn visit_map(
    map: &mut Map<String, Value>,
    path: &[String],
    creates: Creation,
    indexes: &mut Vec<usize>,
    change: Change<'_>,
) -> Result<(), FieldProblem> {
    let Some((segment, rest)) = path.split_first() else {
        return Ok(());
    };
    let (name, demands_list) = match segment.strip_suffix("[]") {
        Some(name) => (name, true),
        None => (segment.as_str(), false),
    };
    if name.is_empty() {
        return Err(FieldProblem::EmptyName);
    }
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
    visit(field, rest, creates, indexes, change)
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
        spec.visit(&mut resource, Creation::Scalar, &mut |value| {
            *value = "X".into();
            Ok(())
        })
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

    #[test]
    fn a_path_through_a_scalar_is_an_error() {
        let Value::Object(map) = json!({"kind": "K", "metadata": {"name": "n"}, "a": 1}) else {
            panic!("no object");
        };
        let mut resource = Resource::new(map, crate::Origin::default());
        let spec = FieldSpec::new("", "", "", "a/b", false);
        let error = spec
            .visit(&mut resource, Creation::Nothing, &mut |_| Ok(()))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "considering field 'a/b' of object K.[noVer].[noGrp]/n.[noNs]: expected sequence or mapping node"
        );
    }
}
