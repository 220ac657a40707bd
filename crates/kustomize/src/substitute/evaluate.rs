//! Evaluates `${...}`.

use super::SubstituteError;
use super::parse::Node;
use super::pattern::{MatchLength, Pattern};
use crate::Derived;
use crate::budget::Budget;
use crate::error::Exhausted;
use std::collections::BTreeMap;

/// The longest text of an object. An API server takes three MiB.
const TEXT_BYTES_MAX: usize = 16 << 20;

pub(crate) struct Substituter<'v> {
    pub(crate) variables: &'v BTreeMap<&'v str, String>,
    pub(crate) strict: bool,
    pub(crate) budget: &'v Budget,
    pub(crate) derived: Option<Derived<'v>>,
}

impl Substituter<'_> {
    pub(super) fn all(&self, nodes: &[Node]) -> Result<String, SubstituteError> {
        let mut out = String::new();
        for node in nodes {
            let made = self.one(node)?;
            if out.len().saturating_add(made.len()) > TEXT_BYTES_MAX {
                return Err(SubstituteError::Exhausted(Exhausted::Text(TEXT_BYTES_MAX)));
            }
            out.push_str(&made);
        }
        Ok(out)
    }

    fn one(&self, node: &Node) -> Result<String, SubstituteError> {
        match node {
            Node::Text(text) => Ok(text.clone()),
            Node::Variable {
                name,
                operator,
                arguments,
            } => {
                let arguments = arguments
                    .iter()
                    .map(|argument| self.one(argument))
                    .collect::<Result<Vec<_>, _>>()?;
                let value = self.variables.get(name.as_str());
                let has_default = matches!(
                    operator.as_str(),
                    "-" | "+" | "=" | "?" | ":-" | ":+" | ":=" | ":?"
                );
                if value.is_none() && self.strict && !has_default {
                    return Err(SubstituteError::NotSet(name.clone()));
                }
                let value = value.map_or("", String::as_str);
                let bytes = bound(operator, value, &arguments);
                self.budget.charge(bytes).map_err(SubstituteError::Exhausted)?;
                self.budget
                    .spend(20 + bytes / 16)
                    .map_err(SubstituteError::Exhausted)?;
                let made =
                    apply(operator, value, &arguments, self.budget).map_err(SubstituteError::Exhausted)?;
                let is_length = operator == "#" && arguments.is_empty();
                if let Some(derived) = self.derived
                    && !value.is_empty()
                    && !is_length
                    && made != value
                {
                    derived(value, &made);
                }
                Ok(made)
            }
        }
    }
}

/// An upper bound for the result's length.
fn bound(operator: &str, value: &str, arguments: &[String]) -> usize {
    let all = arguments
        .iter()
        .fold(value.len(), |sum, argument| sum.saturating_add(argument.len()));
    match (operator, arguments) {
        ("//", [old, rest @ ..]) => {
            let times = value.matches(old.as_str()).count();
            all.saturating_add(times.saturating_mul(with(rest).len()))
        }
        _ => all,
    }
}

fn apply(operator: &str, value: &str, arguments: &[String], budget: &Budget) -> Result<String, Exhausted> {
    let shortest = |value: &str, pattern: &str| trim(value, pattern, MatchLength::Shortest, budget);
    let longest = |value: &str, pattern: &str| trim(value, pattern, MatchLength::Longest, budget);
    Ok(match (operator, arguments) {
        ("#", []) => value.len().to_string(),
        (",", _) => first(value, |c| c.to_lowercase().collect()),
        (",,", _) => value.to_lowercase(),
        ("^", _) => first(value, |c| c.to_uppercase().collect()),
        ("^^", _) => value.to_uppercase(),
        ("#", [pattern, ..]) => shortest(value, pattern)?,
        ("##", [pattern, ..]) => longest(value, pattern)?,
        ("%", [pattern, ..]) => reversed(&shortest(&reversed(value), &reversed(pattern))?),
        ("%%", [pattern, ..]) => reversed(&longest(&reversed(value), &reversed(pattern))?),
        (":", [offset, rest @ ..]) => substring(value, offset, rest.first().map(String::as_str)),
        ("/", [old, rest @ ..]) => value.replacen(old.as_str(), with(rest), 1),
        ("//", [old, rest @ ..]) => value.replace(old.as_str(), with(rest)),
        ("/#", [old, new]) if value.starts_with(old.as_str()) => value.replacen(old.as_str(), new, 1),
        ("/%", [old, new]) => match value.strip_suffix(old.as_str()) {
            Some(head) => format!("{head}{new}"),
            None => value.to_owned(),
        },
        ("/#", _) => value.to_owned(),
        _ if value.is_empty() => arguments.concat(),
        _ => value.to_owned(),
    })
}

fn with(rest: &[String]) -> &str {
    rest.first().map_or("", String::as_str)
}

fn first(value: &str, change: impl Fn(char) -> String) -> String {
    let mut rest = value.chars();
    match rest.next() {
        None => String::new(),
        Some(c) => change(c) + rest.as_str(),
    }
}

/// Counts bytes; an offset inside a character moves to its end. Invalid numbers leave the value unchanged.
fn substring(value: &str, offset: &str, length: Option<&str>) -> String {
    let size = i64::try_from(value.len()).unwrap_or(i64::MAX);
    let Ok(offset) = offset.parse::<i64>() else {
        return value.to_owned();
    };
    let from = if offset < 0 {
        size.saturating_add(offset).max(0)
    } else {
        offset
    };
    let to = match length.map(str::parse::<i64>) {
        None => size,
        Some(Err(_)) => return value.to_owned(),
        Some(Ok(length)) if length < 0 => size.saturating_add(length),
        Some(Ok(length)) => from.saturating_add(length).min(size),
    };
    if from >= size || to < from {
        return String::new();
    }
    let boundary = |at: i64| {
        let at = usize::try_from(at).unwrap_or_default().min(value.len());
        (at..=value.len())
            .find(|at| value.is_char_boundary(*at))
            .unwrap_or(value.len())
    };
    value[boundary(from)..boundary(to)].to_owned()
}

/// Removes the shortest or longest matching prefix of a value. An invalid pattern removes nothing.
fn trim(value: &str, pattern: &str, which: MatchLength, budget: &Budget) -> Result<String, Exhausted> {
    let Some(pattern) = Pattern::new(pattern) else {
        return Ok(value.to_owned());
    };
    let end = pattern.beginning(value, which, budget)?.unwrap_or_default();
    Ok(value[end..].to_owned())
}

fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}
