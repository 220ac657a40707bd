//! Label and field selectors.
//!
//! Errors have apimachinery's texts (`labels.Parse`, `fields.ParseSelector`, 1.36); the caller answers 400
//! with them.

use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// All requirements must match.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    Exists,
    Absent,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// `a=b,c!=d,e in (f,g),!h`; empty selects everything.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        Parser {
            tokens: lex(text),
            at: 0,
        }
        .selector()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `label` has the value of a label, if an object has it.
    pub(crate) fn matches<'a>(&self, label: impl Fn(&str) -> Option<Cow<'a, str>>) -> bool {
        self.0.iter().all(|r| r.matches(label(&r.key).as_deref()))
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        match (&self.test, value) {
            (Test::Exists, v) => v.is_some(),
            (Test::Absent, v) => v.is_none(),
            (Test::In(set), v) => v.is_some_and(|v| set.contains(v)),
            (Test::NotIn(set), v) => v.is_none_or(|v| !set.contains(v)),
            (Test::Greater(n), v) => v.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *n),
            (Test::Less(n), v) => v.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *n),
        }
    }
}

/// The selector as a query parameter; empty if it selects everything or is absent.
pub(crate) fn text_of(selector: Option<&Value>) -> String {
    let Some(selector) = selector else {
        return String::new();
    };
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let mut terms: Vec<(&str, String)> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            (
                key.as_str(),
                format!("{key}={}", value.as_str().unwrap_or_default()),
            )
        })
        .collect();
    for expression in selector
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let key = expression.get("key").and_then(Value::as_str).unwrap_or_default();
        let mut values: Vec<&str> = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match expression.get("operator").and_then(Value::as_str) {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("Exists") => key.to_owned(),
            Some("DoesNotExist") => format!("!{key}"),
            _ => return "<invalid>".to_owned(),
        };
        terms.push((key, term));
    }
    terms.sort_by_key(|(key, _)| *key);
    terms
        .into_iter()
        .map(|(_, term)| term)
        .collect::<Vec<_>>()
        .join(",")
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn literal(&self) -> &str {
        match self {
            Self::Word(w) => w,
            Self::Symbol(s) => s,
            Self::End => "",
        }
    }
}

fn lex(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(&c) = chars.peek() {
        if c.is_whitespace() {
            chars.next();
            continue;
        }
        let symbol = match c {
            ',' => Some(","),
            '(' => Some("("),
            ')' => Some(")"),
            '=' | '!' | '<' | '>' => None,
            _ => {
                let mut word = String::new();
                while let Some(&c) = chars.peek() {
                    if c.is_whitespace() || matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<') {
                        break;
                    }
                    word.push(c);
                    chars.next();
                }
                tokens.push(Token::Word(word));
                continue;
            }
        };
        chars.next();
        tokens.push(Token::Symbol(match symbol {
            Some(s) => s,
            None => {
                let doubled = chars.peek() == Some(&'=');
                let symbol = match (c, doubled) {
                    ('=', true) => "==",
                    ('=', false) => "=",
                    ('!', true) => "!=",
                    ('!', false) => "!",
                    ('<', _) => "<",
                    _ => ">",
                };
                if symbol.len() == 2 {
                    chars.next();
                }
                symbol
            }
        }));
    }
    tokens.push(Token::End);
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn selector(mut self) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Symbol("!") => {
                    let requirement = self.requirement();
                    requirements.push(requirement.map_err(|e| format!("unable to parse requirement: {e}"))?);
                    match self.next() {
                        Token::End => return Ok(LabelSelector(requirements)),
                        Token::Symbol(",") => {
                            if !matches!(self.peek(), Token::Word(_) | Token::Symbol("!")) {
                                return Err(format!(
                                    "found '{}', expected: identifier after ','",
                                    self.peek().literal()
                                ));
                            }
                        }
                        other => {
                            return Err(format!(
                                "found '{}', expected: ',' or 'end of string'",
                                other.literal()
                            ));
                        }
                    }
                }
                Token::End => return Ok(LabelSelector(requirements)),
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.literal()
                    ));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == &Token::Symbol("!");
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => return Err(format!("found '{}', expected: identifier", other.literal())),
        };
        label_key(&key)?;
        if absent {
            return Ok(Requirement {
                key,
                test: Test::Absent,
            });
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Requirement {
                key,
                test: Test::Exists,
            });
        }
        let operator = self.next();
        let test = match &operator {
            Token::Symbol("=" | "==") => Test::In(BTreeSet::from([self.exact_value(&key)?])),
            Token::Symbol("!=") => Test::NotIn(BTreeSet::from([self.exact_value(&key)?])),
            Token::Symbol(">") => Test::Greater(self.number(&key)?),
            Token::Symbol("<") => Test::Less(self.number(&key)?),
            Token::Word(w) if w == "in" => Test::In(self.values(&key)?),
            Token::Word(w) if w == "notin" => Test::NotIn(self.values(&key)?),
            other => {
                return Err(format!(
                    "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                    other.literal()
                ));
            }
        };
        Ok(Requirement { key, test })
    }

    fn exact_value(&mut self, key: &str) -> Result<String, String> {
        match self.peek() {
            // `a=` compares with the empty string.
            Token::End | Token::Symbol(",") => Ok(String::new()),
            _ => match self.next() {
                Token::Word(word) => {
                    label_value(key, &word)?;
                    Ok(word)
                }
                other => Err(format!("found '{}', expected: identifier", other.literal())),
            },
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, String> {
        let text = self.exact_value(key)?;
        text.parse().map_err(|_| {
            format!("values[0][{key}]: Invalid value: \"{text}\": for 'Gt', 'Lt' operators, the value must be an integer")
        })
    }

    fn values(&mut self, key: &str) -> Result<BTreeSet<String>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.literal())),
        }
        let mut set = BTreeSet::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    label_value(key, &word)?;
                    set.insert(word);
                    match self.next() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => return Ok(set),
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.literal())),
                    }
                }
                Token::Symbol(",") => {
                    set.insert(String::new());
                }
                Token::Symbol(")") => {
                    set.insert(String::new());
                    return Ok(set);
                }
                other => {
                    return Err(format!(
                        "found '{}', expected: ',', ')' or identifier",
                        other.literal()
                    ));
                }
            }
        }
    }
}

const LABEL_PART: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

fn label_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.last().is_none_or(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn label_value(key: &str, value: &str) -> Result<(), String> {
    if value.len() > 63 {
        return Err(format!(
            "values[0][{key}]: Invalid value: \"{value}\": must be no more than 63 bytes"
        ));
    }
    if label_part(value) {
        return Ok(());
    }
    Err(format!(
        "values[0][{key}]: Invalid value: \"{value}\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{LABEL_PART}')"
    ))
}

fn label_key(key: &str) -> Result<(), String> {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    if !name.is_empty() && name.len() <= 63 && label_part(name) && key.matches('/').count() <= 1 {
        return Ok(());
    }
    Err(format!(
        "<nil>: Invalid value: \"{key}\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    ))
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FieldSelector(Vec<FieldTest>);

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldTest {
    pub field: String,
    pub equal: bool,
    pub value: String,
}

impl FieldSelector {
    /// `metadata.name=a,spec.nodeName!=b`; empty selects everything.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut tests = Vec::new();
        for term in split_unescaped(text) {
            if term.is_empty() {
                continue;
            }
            let (field, equal, value) = split_operator(&term)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            tests.push(FieldTest {
                field: field.to_owned(),
                equal,
                value: unescape(value)?,
            });
        }
        Ok(Self(tests))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn tests(&self) -> &[FieldTest] {
        &self.0
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.0
            .iter()
            .find(|t| t.equal && t.field == "metadata.name")
            .map(|t| t.value.as_str())
    }

    pub(crate) fn matches(&self, get: impl Fn(&str) -> String) -> bool {
        self.0.iter().all(|t| (get(&t.field) == t.value) == t.equal)
    }
}

fn split_operator(term: &str) -> Option<(&str, bool, &str)> {
    for (at, c) in term.char_indices() {
        let rest = &term[at..];
        if let Some(value) = rest.strip_prefix("!=") {
            return Some((&term[..at], false, value));
        }
        if let Some(value) = rest.strip_prefix("==") {
            return Some((&term[..at], true, value));
        }
        if c == '=' {
            return Some((&term[..at], true, &rest[1..]));
        }
    }
    None
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = terms.last_mut() {
            last.push(c);
        }
    }
    terms
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(format!("invalid field selector: invalid escape sequence: \\{c}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {c}"
                ));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check_labels(selector: &str, labels: &[(&str, &str)], expected: Result<bool, &str>) {
        let map: serde_json::Map<String, Value> =
            labels.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
        let object = json!({ "metadata": { "labels": map } });
        let label = |name: &str| object["metadata"]["labels"][name].as_str().map(Cow::Borrowed);
        let got = LabelSelector::parse(selector).map(|s| s.matches(label));
        assert_eq!(got, expected.map_err(str::to_owned), "{selector}");
    }

    #[test]
    fn labels() {
        let l = [("n", "1"), ("par", "x")];
        check_labels("", &l, Ok(true));
        check_labels("n", &l, Ok(true));
        check_labels("!n", &l, Ok(false));
        check_labels("n=1,par==x", &l, Ok(true));
        check_labels("n!=1", &l, Ok(false));
        check_labels("z!=1", &l, Ok(true));
        check_labels("n in (1,2)", &l, Ok(true));
        check_labels("z notin (1,2)", &l, Ok(true));
        check_labels("n>0,n<2", &l, Ok(true));
        check_labels("a,,b=", &l, Err("found ',', expected: identifier after ','"));
        check_labels(
            "a in b",
            &l,
            Err("unable to parse requirement: found 'b' expected: '('"),
        );
        check_labels(
            "a in (b,c",
            &l,
            Err("unable to parse requirement: found '', expected: ',' or ')'"),
        );
        check_labels(
            "a b",
            &l,
            Err("unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        );
        check_labels(
            "-x",
            &l,
            Err(
                "unable to parse requirement: <nil>: Invalid value: \"-x\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
        );
    }

    #[test]
    fn fields() {
        let get = |f: &str| {
            if f == "metadata.name" {
                "a".to_owned()
            } else {
                String::new()
            }
        };
        assert!(FieldSelector::parse("metadata.name=a").unwrap().matches(get));
        assert!(!FieldSelector::parse("metadata.name!=a").unwrap().matches(get));
        assert!(FieldSelector::parse("metadata.name=a,x=").unwrap().matches(get));
        assert_eq!(
            FieldSelector::parse("abc").unwrap_err(),
            "invalid selector: 'abc'; can't understand 'abc'"
        );
        assert_eq!(FieldSelector::parse(r"x=a\,b").unwrap().0[0].value, "a,b");
    }
}
