//! Differences between two normalised answers, as text.
//!
//! Tokens are compared by renaming: `<uid:3>` of one side may be `<uid:5>` of the other while the pairing
//! holds in the scenario. So one missing object does not change every later answer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::wire::Answer;

/// Differences shown per answer; the others are counted.
const SHOWN_MAX: usize = 12;

const VALUE_CHARS_MAX: usize = 240;

/// Characters shown before the first difference of long texts.
const CONTEXT_CHARS: usize = 60;

/// One difference between two answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `status`, `warning`, `content-type`, or a path into the body.
    pub at: String,
    /// The reference's value.
    pub expected: String,
    /// The other side's value.
    pub actual: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n      expected {}\n      got      {}",
            self.at, self.expected, self.actual
        )
    }
}

/// The first lines in which two texts differ.
pub fn texts(at: &str, expected: &str, actual: &str) -> Option<Difference> {
    if expected == actual {
        return None;
    }
    let (mut left, mut right) = (expected.lines(), actual.lines());
    let mut line = 0;
    loop {
        line += 1;
        let (expected, actual) = (left.next(), right.next());
        if expected != actual || expected.is_none() {
            let shown = |line: Option<&str>| line.map_or("the end".to_owned(), |line| format!("{line:?}"));
            let at = format!("{at} line {line}");
            return Some(Difference {
                at,
                expected: shown(expected),
                actual: shown(actual),
            });
        }
    }
}

/// The differences, shortened.
pub fn report(differences: &[Difference]) -> String {
    let mut lines: Vec<String> = differences
        .iter()
        .take(SHOWN_MAX)
        .map(|difference| format!("    {difference}"))
        .collect();
    if differences.len() > SHOWN_MAX {
        lines.push(format!("    and {} more", differences.len() - SHOWN_MAX));
    }
    lines.join("\n")
}

/// The token pairs of a scenario so far.
#[derive(Debug, Clone, Default)]
pub struct Pairs {
    forward: BTreeMap<String, String>,
    backward: BTreeMap<String, String>,
}

impl Pairs {
    /// Compares two answers; equal ones add their tokens to the pairs.
    pub fn compare(&mut self, expected: &Answer, actual: &Answer) -> Vec<Difference> {
        let mut attempt = self.clone();
        let mut found = Vec::new();
        let shown = |value: &dyn fmt::Debug| format!("{value:?}");
        if expected.status != actual.status {
            found.push(Difference {
                at: "status".to_owned(),
                expected: expected.status.to_string(),
                actual: actual.status.to_string(),
            });
        }
        if expected.content_type != actual.content_type {
            found.push(Difference {
                at: "content-type".to_owned(),
                expected: shown(&expected.content_type),
                actual: shown(&actual.content_type),
            });
        }
        if expected.warnings != actual.warnings {
            found.push(Difference {
                at: "warning".to_owned(),
                expected: shown(&expected.warnings),
                actual: shown(&actual.warnings),
            });
        }
        attempt.values("$", &expected.body, &actual.body, &mut found);
        if found.is_empty() {
            *self = attempt;
        }
        found
    }

    fn values(&mut self, at: &str, expected: &Value, actual: &Value, found: &mut Vec<Difference>) {
        match (expected, actual) {
            (Value::Object(left), Value::Object(right)) => {
                for (key, value) in left {
                    let at = format!("{at}.{key}");
                    match right.get(key) {
                        Some(other) => self.values(&at, value, other, found),
                        None => found.push(difference(at, Some(value), None)),
                    }
                }
                for (key, value) in right.iter().filter(|(key, _)| !left.contains_key(*key)) {
                    found.push(difference(format!("{at}.{key}"), None, Some(value)));
                }
            }
            (Value::Array(left), Value::Array(right)) => {
                for (index, (value, other)) in left.iter().zip(right).enumerate() {
                    self.values(&format!("{at}[{index}]"), value, other, found);
                }
                for (index, value) in left.iter().enumerate().skip(right.len()) {
                    found.push(difference(format!("{at}[{index}]"), Some(value), None));
                }
                for (index, value) in right.iter().enumerate().skip(left.len()) {
                    found.push(difference(format!("{at}[{index}]"), None, Some(value)));
                }
            }
            (Value::String(left), Value::String(right)) if self.texts(left, right) => {}
            _ if expected == actual => {}
            _ => found.push(difference(at.to_owned(), Some(expected), Some(actual))),
        }
    }

    /// Whether two texts are equal after renaming tokens by the pairs.
    fn texts(&mut self, expected: &str, actual: &str) -> bool {
        if TOKEN.replace_all(expected, "<$kind>") != TOKEN.replace_all(actual, "<$kind>") {
            return false;
        }
        TOKEN
            .find_iter(expected)
            .zip(TOKEN.find_iter(actual))
            .all(|(left, right)| {
                let forward = self
                    .forward
                    .entry(left.as_str().to_owned())
                    .or_insert(right.as_str().to_owned());
                let backward = self
                    .backward
                    .entry(right.as_str().to_owned())
                    .or_insert(left.as_str().to_owned());
                forward == right.as_str() && backward == left.as_str()
            })
    }
}

static TOKEN: LazyLock<Regex> = LazyLock::new(|| match Regex::new(r"<(?P<kind>uid|rv):\d+>") {
    Ok(regex) => regex,
    Err(error) => unreachable!("the pattern is a constant: {error}"),
});

fn difference(at: String, expected: Option<&Value>, actual: Option<&Value>) -> Difference {
    if let (Some(Value::String(left)), Some(Value::String(right))) = (expected, actual)
        && left.chars().count().max(right.chars().count()) > VALUE_CHARS_MAX
    {
        // long texts are shown from shortly before their difference
        let same = left
            .chars()
            .zip(right.chars())
            .take_while(|(left, right)| left == right)
            .count();
        let from = same.saturating_sub(CONTEXT_CHARS);
        let tail = |text: &str| shown(Some(&Value::String(text.chars().skip(from).collect())));
        return Difference {
            at: format!("{at} from character {from}"),
            expected: tail(left),
            actual: tail(right),
        };
    }
    Difference {
        at,
        expected: shown(expected),
        actual: shown(actual),
    }
}

fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "nothing".to_owned();
    };
    let text = value.to_string();
    if text.chars().count() <= VALUE_CHARS_MAX {
        return text;
    }
    text.chars().take(VALUE_CHARS_MAX).chain(" ...".chars()).collect()
}
