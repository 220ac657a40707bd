//! The grammar of label selectors in `--watch-label-selector`: `a`, `!a`, `a=b`, `a==b`, `a!=b`, `a in
//! (b,c)`, `a notin (b,c)`, joined by commas.
//!
//! The messages are apimachinery's (`labels.Parse`, `metav1.ParseToLabelSelector`), which also refuse
//! `<` and `>` here. Matching is kube's.

use std::collections::BTreeSet;

use kube::core::{Expression, Selector};

/// A longer one is a mistake.
const BYTES_MAX: usize = 4096;

/// Why a text is no label selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The grammar, a key or a value is wrong.
    #[error("{selector:?} is not a label selector: {problem}")]
    Invalid {
        /// The whole selector.
        selector: String,
        /// The problem.
        problem: String,
    },
    /// It is too long.
    #[error("the label selector has {0} bytes; the limit is {BYTES_MAX}")]
    Long(usize),
}

/// Parses a selector; an empty one matches everything.
pub(super) fn parse(text: &str) -> Result<Selector, SelectorError> {
    if text.len() > BYTES_MAX {
        return Err(SelectorError::Long(text.len()));
    }
    let invalid = |problem: String| SelectorError::Invalid {
        selector: text.to_owned(),
        problem,
    };
    let mut expressions = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (expression, after) = expression(rest).map_err(invalid)?;
        expressions.push(expression);
        rest = after;
        match rest.strip_prefix(',').map(str::trim_start) {
            Some("") => return Err(invalid("found '', expected: identifier after ','".to_owned())),
            Some(after) => rest = after,
            None if rest.is_empty() => {}
            None => {
                return Err(invalid(format!(
                    "found '{rest}', expected: ',' or 'end of string'"
                )));
            }
        }
    }
    Ok(expressions.into_iter().collect())
}

fn expression(text: &str) -> Result<(Expression, &str), String> {
    if let Some(text) = text.strip_prefix('!') {
        let (key, rest) = key(text.trim_start())?;
        return Ok((Expression::DoesNotExist(key), rest));
    }
    let (key, rest) = key(text)?;
    if rest.is_empty() || rest.starts_with(',') {
        return Ok((Expression::Exists(key), rest));
    }
    if let Some(rest) = rest.strip_prefix("!=") {
        let (value, rest) = value(&key, rest)?;
        return Ok((Expression::NotEqual(key, value), rest));
    }
    if let Some(rest) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
        let (value, rest) = value(&key, rest)?;
        return Ok((Expression::Equal(key, value), rest));
    }
    let (operator, after) = word(rest);
    match operator {
        "in" => {
            let (values, rest) = values(&key, after)?;
            Ok((Expression::In(key, values), rest))
        }
        "notin" => {
            let (values, rest) = values(&key, after)?;
            Ok((Expression::NotIn(key, values), rest))
        }
        _ if rest.starts_with(['<', '>']) => {
            Err(format!("{:?} is not a valid label selector operator", &rest[..1]))
        }
        _ => Err(format!("found '{rest}', expected: in, notin, =, ==, !=")),
    }
}

/// `(b, c)`; nothing between commas is the empty value.
fn values<'a>(key: &str, text: &'a str) -> Result<(BTreeSet<String>, &'a str), String> {
    let Some(mut rest) = text.strip_prefix('(') else {
        return Err(format!("found '{text}', expected: '('"));
    };
    let mut values = BTreeSet::new();
    loop {
        let (value, after) = value(key, rest)?;
        values.insert(value);
        if let Some(after) = after.strip_prefix(')') {
            return Ok((values, after.trim_start()));
        }
        rest = after
            .strip_prefix(',')
            .ok_or_else(|| format!("found '{after}', expected: ',' or ')'"))?;
    }
}

fn key(text: &str) -> Result<(String, &str), String> {
    let (key, rest) = word(text);
    if key.is_empty() {
        return Err(format!(
            "found '{text}', expected: !, identifier, or 'end of string'"
        ));
    }
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let domain = |prefix: &str| {
        let label = |label: &str| edges(label) && !label.contains(['_', '.']) && label.len() <= 63;
        prefix.len() <= 253 && prefix.split('.').all(label) && !prefix.contains(char::is_uppercase)
    };
    if !edges(name) || name.len() > 63 || !prefix.is_none_or(domain) {
        return Err(format!(
            "key: Invalid value: {key:?}: name part must consist of at most 63 alphanumeric \
             characters, '-', '_' or '.', and must start and end with an alphanumeric character, with an \
             optional DNS subdomain prefix and '/'"
        ));
    }
    Ok((key.to_owned(), rest))
}

fn value<'a>(key: &str, text: &'a str) -> Result<(String, &'a str), String> {
    let (value, rest) = word(text.trim_start());
    if !value.is_empty() && (!edges(value) || value.len() > 63) {
        return Err(format!(
            "values[0][{key}]: Invalid value: {value:?}: a valid label must be an empty string or consist of at \
             most 63 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
        ));
    }
    Ok((value.to_owned(), rest))
}

fn edges(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().next_back()];
    text.bytes().all(inner)
        && ends
            .iter()
            .all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
}

/// The text before the next sign or space, and the rest after the spaces.
fn word(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| c.is_whitespace() || "=!<>(),".contains(c))
        .unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_start())
}
