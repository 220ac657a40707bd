//! The JSONPath dialect of printer columns, which is kubectl's.
//!
//! Relaxed against the RFC: keys need no quotes, dots inside quoted keys separate unless escaped, a missing
//! key yields nothing, an index out of range or a comparison of unlike types fails the whole path. `range`
//! and templates are refused: columns do not need them.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unrecognized column definition {0:?}")]
pub(crate) struct PathError(String);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Recursive,
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: Option<i64>,
    },
    Index(i64),
    Union(Vec<Vec<Step>>),
    Exists(Vec<Step>),
    Compare {
        left: Vec<Step>,
        operator: Operator,
        right: Vec<Step>,
    },
    Literal(Value),
    /// A bare word; it parses and yields a failure.
    Word,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Evaluation failed: the cell is empty.
struct Failed;

impl JsonPath {
    /// Parses a path without braces: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`.
    pub(crate) fn parse(path: &str) -> Result<Self, PathError> {
        let steps = parse(path).ok_or_else(|| PathError(path.to_owned()))?;
        Ok(Self { steps })
    }

    pub(crate) fn first(&self, object: &Value) -> Option<Value> {
        let found = evaluate(&self.steps, vec![object]).ok()?;
        found.into_iter().next().map(std::borrow::Cow::into_owned)
    }
}

struct Parser<'p> {
    rest: &'p str,
    steps: Vec<Step>,
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut parser = Parser {
        rest: path,
        steps: Vec::new(),
    };
    while let Some(next) = parser.rest.chars().next() {
        match next {
            ' ' | '\t' | '@' | '$' => parser.rest = &parser.rest[1..],
            '[' => parser.bracket()?,
            '"' | '\'' => parser.quoted(next)?,
            '.' => parser.field()?,
            '+' | '-' | '0'..='9' => parser.number()?,
            next if next.is_alphanumeric() || next == '_' => parser.word(),
            _ => return None,
        }
    }
    Some(parser.steps)
}

impl Parser<'_> {
    fn field(&mut self) -> Option<()> {
        self.rest = &self.rest[1..];
        if self.rest.starts_with('.') {
            self.steps.push(Step::Recursive);
            // the second dot starts a field, or is alone
            let after = &self.rest[1..];
            if after.is_empty() || after.starts_with(is_terminator) {
                self.rest = after;
                return Some(());
            }
        }
        let text = self.rest.strip_prefix('.').unwrap_or(self.rest);
        let (mut name, mut length, mut escaped) = (String::new(), 0, false);
        for character in text.chars() {
            if escaped {
                name.push(character);
                escaped = false;
            } else if character == '\\' {
                escaped = true;
            } else if is_terminator(character) {
                break;
            } else {
                name.push(character);
            }
            length += character.len_utf8();
        }
        self.rest = &text[length..];
        self.steps.push(if name == "*" {
            Step::Wildcard
        } else {
            Step::Field(name)
        });
        Some(())
    }

    fn quoted(&mut self, quote: char) -> Option<()> {
        let (text, rest) = split_quoted(self.rest, quote)?;
        self.steps.push(Step::Literal(text.into()));
        self.rest = rest;
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        let end = self
            .rest
            .find(|character: char| !character.is_ascii_digit() && !matches!(character, '.' | '+' | '-'))
            .unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        let value = text
            .parse::<i64>()
            .map(Value::from)
            .ok()
            .or_else(|| text.parse::<f64>().ok().map(Value::from))?;
        self.steps.push(Step::Literal(value));
        self.rest = rest;
        Some(())
    }

    fn word(&mut self) {
        let end = self.rest.find(is_terminator).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.steps.push(match word {
            "true" => Step::Literal(true.into()),
            "false" => Step::Literal(false.into()),
            _ => Step::Word,
        });
        self.rest = rest;
    }

    fn bracket(&mut self) -> Option<()> {
        let inside = &self.rest[1..];
        if let Some(filter) = inside.strip_prefix("?(") {
            let end = filter_end(filter)?;
            self.rest = filter[end..].strip_prefix(")]")?;
            self.steps.push(parse_filter(&filter[..end])?);
            return Some(());
        }
        let mut quote = None;
        let end = inside.char_indices().find_map(|(at, character)| {
            match (quote, character) {
                (None, ']') => return Some(at),
                (None, '\'') => quote = Some(character),
                (Some(_), '\'') => quote = None,
                _ => {}
            }
            None
        })?;
        self.rest = &inside[end + 1..];
        let text = inside[..end].trim();
        let step = if text == "*" {
            Step::Slice {
                start: None,
                end: None,
                step: None,
            }
        } else if text.contains(',') && !text.starts_with('\'')
            || text.starts_with('\'') && text.contains("',")
        {
            let parts = text.split(',').map(|part| parse(&format!("[{}]", part.trim())));
            Step::Union(parts.collect::<Option<_>>()?)
        } else if let Some(key) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
            // the dialect reads the key as a path of its own
            self.steps.extend(parse(&format!(".{key}"))?);
            return Some(());
        } else {
            slice(text)?
        };
        self.steps.push(step);
        Some(())
    }
}

fn slice(text: &str) -> Option<Step> {
    let number = |text: &str| match text {
        "" => Some(None),
        text => text.parse::<i64>().ok().map(Some),
    };
    let mut parts = text.split(':');
    let first = number(parts.next()?)?;
    match (first, parts.next(), parts.next(), parts.next()) {
        (Some(index), None, ..) => Some(Step::Index(index)),
        (start, end, step, None) => Some(Step::Slice {
            start,
            end: number(end.unwrap_or(""))?,
            step: number(step.unwrap_or(""))?,
        }),
        _ => None,
    }
}

fn filter_end(text: &str) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), character) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => return Some(at),
            (None, ')') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn parse_filter(text: &str) -> Option<Step> {
    let operator_at = |character: char| matches!(character, '!' | '<' | '>' | '=');
    let Some(start) = text.find(operator_at) else {
        return Some(Step::Exists(parse(text)?));
    };
    let (left, rest) = text.split_at(start);
    let length = rest.find(|character| !operator_at(character))?;
    let operator = match &rest[..length] {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        _ => return None,
    };
    Some(Step::Compare {
        left: parse(left)?,
        operator,
        right: parse(&rest[length..])?,
    })
}

fn split_quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        if escaped {
            value.push(character);
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == quote {
            return Some((value, &text[at + 1..]));
        } else {
            value.push(character);
        }
    }
    None
}

fn is_terminator(character: char) -> bool {
    matches!(
        character,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

type Found<'v> = Vec<std::borrow::Cow<'v, Value>>;

fn evaluate<'v>(steps: &[Step], input: Vec<&'v Value>) -> Result<Found<'v>, Failed> {
    let mut current: Found<'v> = input.into_iter().map(std::borrow::Cow::Borrowed).collect();
    for step in steps {
        let mut next: Found<'v> = Vec::new();
        if let Step::Literal(value) = step {
            next.push(std::borrow::Cow::Owned(value.clone()));
        }
        for value in &current {
            // only literals are owned, and they have no members
            if let std::borrow::Cow::Borrowed(value) = value {
                apply(step, value, &mut next)?;
            }
        }
        current = next;
    }
    Ok(current)
}

fn apply<'v>(step: &Step, value: &'v Value, next: &mut Found<'v>) -> Result<(), Failed> {
    use std::borrow::Cow::Borrowed;
    match step {
        Step::Literal(_) => {}
        Step::Word => return Err(Failed),
        Step::Field(name) => next.extend(value.as_object().and_then(|map| map.get(name)).map(Borrowed)),
        Step::Wildcard => match value {
            Value::Object(map) => next.extend(map.values().map(Borrowed)),
            Value::Array(items) => next.extend(items.iter().map(Borrowed)),
            _ => {}
        },
        Step::Recursive => descend(value, next),
        Step::Index(index) => {
            let items = list(value)?;
            if !value.is_null() {
                next.push(Borrowed(items.get(position(*index, items.len())?).ok_or(Failed)?));
            }
        }
        Step::Slice { start, end, step } => {
            let items = list(value)?;
            let length = items.len();
            let start = start.map_or(Ok(0), |start| position(start, length))?;
            let end = end.map_or(Ok(length), |end| position(end, length))?;
            let step = usize::try_from(step.unwrap_or(1)).map_err(|_| Failed)?;
            if start == end {
                return Ok(());
            }
            if start >= length || end > length || start > end || step == 0 {
                return Err(Failed);
            }
            next.extend(items[start..end].iter().step_by(step).map(Borrowed));
        }
        Step::Union(paths) => {
            for path in paths {
                next.extend(evaluate(path, vec![value])?);
            }
        }
        Step::Exists(path) => {
            for item in list(value)? {
                if !evaluate(path, vec![item])?.is_empty() {
                    next.push(Borrowed(item));
                }
            }
        }
        Step::Compare {
            left,
            operator,
            right,
        } => {
            for item in list(value)? {
                let (left, right) = (evaluate(left, vec![item])?, evaluate(right, vec![item])?);
                match (&left[..], &right[..]) {
                    ([], _) | (_, []) => {}
                    ([left], [right]) => {
                        if compare(left, *operator, right)? {
                            next.push(Borrowed(item));
                        }
                    }
                    _ => return Err(Failed),
                }
            }
        }
    }
    Ok(())
}

fn list(value: &Value) -> Result<&[Value], Failed> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Null => Ok(&[]),
        _ => Err(Failed),
    }
}

fn position(index: i64, length: usize) -> Result<usize, Failed> {
    let length = i64::try_from(length).map_err(|_| Failed)?;
    usize::try_from(if index < 0 { index + length } else { index }).map_err(|_| Failed)
}

fn descend<'v>(value: &'v Value, next: &mut Found<'v>) {
    next.push(std::borrow::Cow::Borrowed(value));
    match value {
        Value::Object(map) => map.values().for_each(|value| descend(value, next)),
        Value::Array(items) => items.iter().for_each(|value| descend(value, next)),
        _ => {}
    }
}

fn compare(left: &Value, operator: Operator, right: &Value) -> Result<bool, Failed> {
    use std::cmp::Ordering;
    let ordering = match (left, right) {
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => {
            let equal = left == right;
            return match operator {
                Operator::Equal => Ok(equal),
                Operator::NotEqual => Ok(!equal),
                _ => Err(Failed),
            };
        }
        (Value::Number(one), Value::Number(other)) if one.is_f64() == other.is_f64() => {
            match (one.as_i64(), other.as_i64()) {
                (Some(one), Some(other)) => one.cmp(&other),
                _ => one.as_f64().partial_cmp(&other.as_f64()).ok_or(Failed)?,
            }
        }
        _ => return Err(Failed),
    };
    Ok(match operator {
        Operator::Equal => ordering == Ordering::Equal,
        Operator::NotEqual => ordering != Ordering::Equal,
        Operator::Less => ordering == Ordering::Less,
        Operator::LessOrEqual => ordering != Ordering::Greater,
        Operator::Greater => ordering == Ordering::Greater,
        Operator::GreaterOrEqual => ordering != Ordering::Less,
    })
}
