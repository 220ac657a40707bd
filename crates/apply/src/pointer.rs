//! JSON pointers (RFC 6901), and objects without the values at some of them.

use serde_json::{Map, Value};
use std::fmt;
use std::str::FromStr;

/// A pointer below the root.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pointer {
    steps: Vec<String>,
}

/// An invalid pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    /// It is the root, or does not start there.
    #[error("invalid JSON pointer {0:?}: a pointer to a field starts with a slash, as in /spec/replicas")]
    Start(String),
    /// An invalid `~` escape.
    #[error("invalid JSON pointer {0:?}: write ~ as ~0, and / in a name as ~1")]
    Tilde(String),
}

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, PointerError> {
        let Some(rest) = text.strip_prefix('/').filter(|rest| !rest.is_empty()) else {
            return Err(PointerError::Start(text.to_owned()));
        };
        let mut pairs = rest.split('~').skip(1);
        if pairs.any(|after| !after.starts_with(['0', '1'])) {
            return Err(PointerError::Tilde(text.to_owned()));
        }
        let step = |step: &str| step.replace("~1", "/").replace("~0", "~");
        Ok(Self {
            steps: rest.split('/').map(step).collect(),
        })
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps
            .iter()
            .try_for_each(|step| write!(f, "/{}", step.replace('~', "~0").replace('/', "~1")))
    }
}

/// An array index: `01` is none, as in a patch.
pub(crate) fn index(step: &str) -> Option<usize> {
    let plain = step == "0" || !step.starts_with(['0', '+']);
    plain.then(|| step.parse().ok()).flatten()
}

impl Pointer {
    /// The keys and indices of the path.
    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    /// The value at the pointer.
    pub fn get<'v>(&self, object: &'v Map<String, Value>) -> Option<&'v Value> {
        let (first, rest) = self.steps.split_first()?;
        rest.iter().try_fold(object.get(first)?, |at, step| match at {
            Value::Object(map) => map.get(step),
            Value::Array(items) => items.get(index(step)?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
    }

    fn get_mut<'v>(&self, object: &'v mut Map<String, Value>) -> Option<&'v mut Value> {
        let (first, rest) = self.steps.split_first()?;
        rest.iter().try_fold(object.get_mut(first)?, |at, step| match at {
            Value::Object(map) => map.get_mut(step),
            Value::Array(items) => items.get_mut(index(step)?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
    }

    /// Replaces the value at the pointer, if there is one.
    pub fn replace(&self, object: &mut Map<String, Value>, value: Value) {
        if let Some(place) = self.get_mut(object) {
            *place = value;
        }
    }

    /// Removes the value at the pointer.
    pub fn remove(&self, object: &mut Map<String, Value>) {
        let Some((last, way)) = self.steps.split_last() else {
            return;
        };
        if way.is_empty() {
            object.remove(last);
            return;
        }
        let parent = Pointer { steps: way.to_vec() };
        match parent.get_mut(object) {
            Some(Value::Object(map)) => drop(map.remove(last)),
            Some(Value::Array(items)) => {
                if let Some(at) = index(last).filter(|at| *at < items.len()) {
                    items.remove(at);
                }
            }
            _ => {}
        }
    }
}

/// Ignored pointers during a walk: the remaining path of each.
pub(crate) type Left<'p> = Vec<&'p [String]>;

pub(crate) fn left(pointers: &[Pointer]) -> Left<'_> {
    pointers.iter().map(Pointer::steps).collect()
}

/// The pointers that continue through a step; `None` if one ends there.
pub(crate) fn through<'p>(left: &[&'p [String]], step: &str) -> Option<Left<'p>> {
    let mut further = Vec::new();
    for way in left {
        match way.split_first() {
            Some((first, rest)) if first == step => match rest {
                [] => return None,
                rest => further.push(rest),
            },
            _ => {}
        }
    }
    Some(further)
}

/// A value without the ignored parts; `None` if nothing remains. Empty maps are removed too: an owner
/// that lost all fields of a map does not own the map.
pub(crate) fn without(value: &Value, left: &[&[String]]) -> Option<Value> {
    if left.is_empty() {
        return Some(value.clone());
    }
    match value {
        Value::Object(map) => {
            let map = without_in(map, left);
            (!map.is_empty()).then_some(Value::Object(map))
        }
        Value::Array(items) => {
            let each = items.iter().enumerate();
            let items: Vec<Value> = each
                .filter_map(|(at, item)| without(item, &through(left, &at.to_string())?))
                .collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value.clone()),
    }
}

pub(crate) fn without_in(map: &Map<String, Value>, left: &[&[String]]) -> Map<String, Value> {
    let each = map.iter();
    each.filter_map(|(key, value)| Some((key.clone(), without(value, &through(left, key)?)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn pointers_are_parsed() {
        for good in [
            "/spec/replicas",
            "/metadata/annotations/a.b~1c",
            "/a/0/b~0c",
            "/a//b",
        ] {
            assert_eq!(good.parse::<Pointer>().unwrap().to_string(), good);
        }
        for wrong in ["", "/", "spec/replicas", "$.spec", "/a~2b", "/a~"] {
            assert!(wrong.parse::<Pointer>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_at_pointers_are_found_replaced_and_removed() {
        let list = json!([{ "name": "a", "image": "x" }, { "name": "b" }]);
        let spec = |list: &Value| json!({ "spec": { "replicas": 3, "list": list, "only": { "one": 1 } } });
        let original = map(spec(&list));
        let check = |pointer: &str, found: Option<Value>, removed: Value, left_out: Value| {
            let pointer: Pointer = pointer.parse().unwrap();
            assert_eq!(pointer.get(&original), found.as_ref(), "{pointer}");
            let mut changed = original.clone();
            pointer.replace(&mut changed, json!("other"));
            let other = json!("other");
            assert_eq!(pointer.get(&changed), found.as_ref().map(|_| &other), "{pointer}");
            pointer.remove(&mut changed);
            assert_eq!(Value::Object(changed), removed, "{pointer}");
            let rest = without_in(&original, &left(std::slice::from_ref(&pointer)));
            assert_eq!(Value::Object(rest), left_out, "{pointer}");
        };
        let same = |pointer: &str, found: Value, rest: Value| check(pointer, Some(found), rest.clone(), rest);
        same(
            "/spec/replicas",
            json!(3),
            json!({ "spec": { "list": list, "only": { "one": 1 } } }),
        );
        same(
            "/spec/list/0/image",
            json!("x"),
            spec(&json!([{ "name": "a" }, { "name": "b" }])),
        );
        same(
            "/spec/list/1",
            json!({ "name": "b" }),
            spec(&json!([{ "name": "a", "image": "x" }])),
        );
        // empty maps are removed too
        check(
            "/spec/only/one",
            Some(json!(1)),
            json!({ "spec": { "replicas": 3, "list": list, "only": {} } }),
            json!({ "spec": { "replicas": 3, "list": list } }),
        );
        for nothing in [
            "/spec/none",
            "/spec/list/2",
            "/spec/list/01",
            "/spec/replicas/x",
            "/other",
        ] {
            check(nothing, None, spec(&list), spec(&list));
        }
    }
}
