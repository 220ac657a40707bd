//! Paths into one object, in the syntax of replacements and variables:
//! `spec.template.spec.containers.[name=web].image`, `a.0.b`, `a.*.b`, `data.[a.b/c]`.

use crate::budget::{Budget, Expression};
use crate::error::Exhausted;
use serde_json::{Map, Value};

/// The steps to look at one item of a list.
const ITEM_STEPS: usize = 18;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewField {
    Scalar,
    Map,
    List,
}

impl NewField {
    pub(crate) fn like(value: &Value) -> Self {
        match value {
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Map,
            _ => Self::Scalar,
        }
    }

    fn value(self) -> Value {
        match self {
            // null stands for a scalar without a type
            Self::Scalar => Value::Null,
            Self::Map => Value::Object(Map::new()),
            Self::List => Value::Array(Vec::new()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathMismatch {
    Invalid(String),
    Mistyped(String),
    Exhausted(Exhausted),
}

impl From<Exhausted> for PathMismatch {
    fn from(exhausted: Exhausted) -> Self {
        Self::Exhausted(exhausted)
    }
}

pub(crate) struct Visitor<'v> {
    /// The kind of field to create on the way; `None` creates none.
    pub(crate) makes: Option<NewField>,
    pub(crate) budget: &'v Budget,
    pub(crate) set: &'v mut dyn FnMut(&mut Value) -> Result<(), PathMismatch>,
}

/// Splits at dots. `\.` is a literal dot; brackets keep their content together.
pub(crate) fn split(path: &str) -> Vec<String> {
    let mut plain: Vec<String> = Vec::new();
    for part in path.split('.') {
        match plain
            .last_mut()
            .and_then(|last| last.strip_suffix('\\').map(str::to_owned))
        {
            Some(head) => {
                let joined = format!("{head}.{part}");
                plain.pop();
                plain.push(joined);
            }
            None => plain.push(part.to_owned()),
        }
    }
    if plain.len() > 1 && plain.first().is_some_and(String::is_empty) {
        plain.remove(0);
    }
    let mut segments = Vec::new();
    let mut rest = plain.into_iter();
    while let Some(part) = rest.next() {
        if !part.starts_with('[') || part.ends_with(']') {
            segments.push(part);
            continue;
        }
        let mut whole = part;
        for more in rest.by_ref() {
            whole.push('.');
            whole.push_str(&more);
            if more.ends_with(']') {
                break;
            }
        }
        if whole.contains('=') {
            segments.push(whole);
        } else {
            segments.push(whole.trim_matches(['[', ']']).to_owned());
        }
    }
    segments
}

/// Parses `[name=value]`; the name is empty in `[=value]`.
fn index_by(segment: &str) -> Option<(&str, &str)> {
    segment.strip_prefix('[')?.strip_suffix(']')?.split_once('=')
}

fn index_of(segment: &str) -> Option<usize> {
    segment.parse().ok()
}

pub(crate) fn get_in<'v>(
    object: &'v Map<String, Value>,
    path: &[String],
    budget: &Budget,
) -> Option<&'v Value> {
    let (first, rest) = path.split_first()?;
    get(object.get(first.as_str())?, rest, budget)
}

/// The value at a path. Lists are indexed by number, `-` for the last, or `[name=value]`.
pub(crate) fn get<'v>(value: &'v Value, path: &[String], budget: &Budget) -> Option<&'v Value> {
    let Some((segment, rest)) = path.split_first() else {
        return Some(value);
    };
    let next = match value {
        Value::Object(map) => map.get(segment.as_str())?,
        Value::Array(items) => match (index_by(segment), segment.as_str()) {
            (Some((name, wanted)), _) => items.iter().find(|item| {
                let field = if name.is_empty() {
                    Some(*item)
                } else {
                    item.get(name)
                };
                budget.owe(ITEM_STEPS);
                field
                    .and_then(crate::resource::scalar_str)
                    .is_some_and(|text| text == wanted)
            })?,
            (None, "-") => items.last()?,
            (None, number) => items.get(index_of(number)?)?,
        },
        _ => return None,
    };
    get(next, rest, budget)
}

pub(crate) fn visit(
    value: &mut Value,
    path: &[String],
    visitor: &mut Visitor<'_>,
) -> Result<usize, PathMismatch> {
    let Some((segment, rest)) = path.split_first() else {
        return (visitor.set)(value).map(|()| 1);
    };
    visitor.budget.spend(ITEM_STEPS)?;
    if value.is_null() {
        return Ok(0);
    }
    if let Some(at) = index_of(segment) {
        return visit_index(value, at, rest, visitor);
    }
    if let Some((name, wanted)) = index_by(segment) {
        return visit_named(value, name, wanted, rest, visitor);
    }
    if segment.starts_with('[') && segment.ends_with(']') {
        let why = "list path element must contain fieldName=fieldValue for element to match";
        return Err(PathMismatch::Invalid(why.to_owned()));
    }
    if segment.is_empty() && (value.is_object() || value.is_array()) {
        return Err(wrong_kind("ScalarNode", value));
    }
    if segment == "*" {
        let Value::Array(items) = value else {
            return Err(wrong_kind("SequenceNode", value));
        };
        return items
            .iter_mut()
            .try_fold(0, |count, item| Ok(count + visit(item, rest, visitor)?));
    }
    let Value::Object(map) = value else {
        return Err(wrong_kind("MappingNode", value));
    };
    if !map.contains_key(segment) {
        let Some(makes) = visitor.makes else {
            return Ok(0);
        };
        map.insert(segment.clone(), part(rest, makes).value());
    }
    match map.get_mut(segment) {
        Some(field) => visit(field, rest, visitor),
        None => Ok(0),
    }
}

fn wrong_kind(expected: &str, found: &Value) -> PathMismatch {
    PathMismatch::Invalid(format!(
        "wrong node kind: expected {expected} but got {}",
        crate::error::node_kind(found)
    ))
}

fn part(rest: &[String], makes: NewField) -> NewField {
    match rest.first() {
        None => makes,
        Some(next) if index_of(next).is_some() || index_by(next).is_some() || next == "*" => NewField::List,
        Some(_) => NewField::Map,
    }
}

fn visit_index(
    value: &mut Value,
    at: usize,
    rest: &[String],
    visitor: &mut Visitor<'_>,
) -> Result<usize, PathMismatch> {
    let Value::Array(items) = value else {
        return Err(wrong_kind("SequenceNode", value));
    };
    if let Some(makes) = visitor.makes
        && items.len() == at
    {
        items.push(part(rest, makes).value());
    }
    let count = items.len();
    match items.get_mut(at) {
        Some(item) => visit(item, rest, visitor),
        None => Err(PathMismatch::Invalid(format!(
            "index {at} specified but only {count} elements found"
        ))),
    }
}

/// An expression that matches anywhere in a text.
enum ItemPattern<'p> {
    /// Without special characters.
    Text(&'p str),
    Expression(Expression),
}

impl<'p> ItemPattern<'p> {
    fn new(pattern: &'p str, budget: &Budget) -> Result<Self, PathMismatch> {
        let is_text = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/');
        if pattern.bytes().all(is_text) {
            return Ok(Self::Text(pattern));
        }
        let compiled = budget.pattern(pattern, pattern)?;
        compiled
            .map(Self::Expression)
            .map_err(|error| PathMismatch::Invalid(error.to_string()))
    }

    fn is_match(&self, text: &str, budget: &Budget) -> bool {
        match self {
            Self::Text(part) => {
                budget.owe(text.len() / 8);
                text.contains(part)
            }
            Self::Expression(expression) => expression.is_match(text, budget),
        }
    }
}

fn visit_named(
    value: &mut Value,
    name: &str,
    wanted: &str,
    rest: &[String],
    visitor: &mut Visitor<'_>,
) -> Result<usize, PathMismatch> {
    let Value::Array(items) = value else {
        return Err(wrong_kind("SequenceNode", value));
    };
    let pattern = ItemPattern::new(wanted, visitor.budget)?;
    let mut count = 0;
    for item in items.iter_mut() {
        let text = if name.is_empty() {
            Some(&*item)
        } else {
            item.get(name)
        };
        visitor.budget.spend(ITEM_STEPS)?;
        let fits = text
            .and_then(crate::resource::scalar_str)
            .is_some_and(|text| pattern.is_match(&text, visitor.budget));
        if fits {
            count += if name.is_empty() {
                visit(item, &[], visitor)?
            } else {
                visit(item, rest, visitor)?
            };
        }
    }
    if visitor.makes.is_none() || count > 0 {
        return Ok(count);
    }
    let mut item = if name.is_empty() {
        Value::from(wanted)
    } else {
        let mut map = Map::new();
        map.insert(name.to_owned(), wanted.into());
        Value::Object(map)
    };
    let made = visit(&mut item, if name.is_empty() { &[] } else { rest }, visitor)?;
    items.push(item);
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn brackets_protect_dots() {
        for (path, expected) in [
            ("a.b", vec!["a", "b"]),
            ("a\\.b.c", vec!["a.b", "c"]),
            ("a.[name=x.y].c", vec!["a", "[name=x.y]", "c"]),
            ("data.[a.b/c]", vec!["data", "a.b/c"]),
        ] {
            assert_eq!(split(path), expected, "{path}");
        }
    }

    #[test]
    fn path_finds_and_creates_fields() {
        let check = |path: &str, makes: Option<NewField>, mut value: Value, count: usize, expected: Value| {
            let found = visit(
                &mut value,
                &split(path),
                &mut Visitor {
                    makes,
                    budget: &Budget::default(),
                    set: &mut |field| {
                        *field = "X".into();
                        Ok(())
                    },
                },
            );
            assert_eq!((found, value), (Ok(count), expected), "{path}");
        };
        check(
            "a.[n=y].v",
            None,
            json!({"a": [{"n": "x"}, {"n": "y", "v": 1}]}),
            1,
            json!({"a": [{"n": "x"}, {"n": "y", "v": "X"}]}),
        );
        check(
            "a.*.v",
            None,
            json!({"a": [{"v": 1}, {"v": 2}]}),
            2,
            json!({"a": [{"v": "X"}, {"v": "X"}]}),
        );
        check("a.0", None, json!({"a": [1]}), 1, json!({"a": ["X"]}));
        check("a.b", None, json!({}), 0, json!({}));
        check(
            "a.[n=y].v",
            Some(NewField::Scalar),
            json!({}),
            1,
            json!({"a": [{"n": "y", "v": "X"}]}),
        );
    }
}
