//! The rules for which values of a document are encrypted.
//!
//! A document has one rule. A rule over keys matches any key that leads to a value. A rule over comments
//! matches the comments above a value and above its parents. Each key and comment is matched once, and the
//! result is kept.

use equate_manifest::regexp::is_simple;
use regex::{Regex, RegexBuilder};

use crate::tree::Text;

/// Sizes of a compiled expression, and its steps: to compile it, and for each byte searched unless it is
/// simple. Most need the smallest.
const REGEXES: [(usize, u64, u64); 4] = [
    (4 << 10, 5_000, 100),
    (16 << 10, 10_000, 250),
    (64 << 10, 40_000, 700),
    (256 << 10, 150_000, 2_000),
];
const SIMPLE_STEPS: u64 = 2;

/// The rule of a document that names none.
const DEFAULT_UNENCRYPTED_SUFFIX: &str = "_unencrypted";

#[derive(Debug, Clone)]
pub(crate) enum Rule {
    UnencryptedSuffix(String),
    EncryptedSuffix(String),
    UnencryptedRegex(Expression),
    EncryptedRegex(Expression),
    UnencryptedComment(Expression),
    EncryptedComment(Expression),
}

#[derive(Debug, Clone)]
pub(crate) struct Expression {
    regex: Regex,
    compiled_steps: u64,
    steps_per_byte: u64,
}

impl Default for Rule {
    fn default() -> Self {
        Self::UnencryptedSuffix(DEFAULT_UNENCRYPTED_SUFFIX.to_owned())
    }
}

impl Rule {
    fn expression(&self) -> Option<&Expression> {
        match self {
            Self::UnencryptedSuffix(_) | Self::EncryptedSuffix(_) => None,
            Self::UnencryptedRegex(expression)
            | Self::EncryptedRegex(expression)
            | Self::UnencryptedComment(expression)
            | Self::EncryptedComment(expression) => Some(expression),
        }
    }

    pub(crate) fn compiled_steps(&self) -> u64 {
        self.expression()
            .map_or(0, |expression| expression.compiled_steps)
    }

    /// The steps to match a key or comment of this length.
    pub(crate) fn steps(&self, bytes: usize) -> u64 {
        let of = |expression: &Expression| (bytes as u64).saturating_mul(expression.steps_per_byte);
        1 + self.expression().map_or(0, of)
    }

    pub(crate) fn needs_comments(&self) -> bool {
        matches!(self, Self::UnencryptedComment(_) | Self::EncryptedComment(_))
    }

    fn matches_key(&self, key: &str) -> bool {
        match self {
            Self::UnencryptedSuffix(suffix) | Self::EncryptedSuffix(suffix) => key.ends_with(suffix),
            Self::UnencryptedRegex(expression) | Self::EncryptedRegex(expression) => {
                expression.regex.is_match(key)
            }
            Self::UnencryptedComment(_) | Self::EncryptedComment(_) => false,
        }
    }

    fn matches_comment(&self, comment: &Text) -> bool {
        match self {
            Self::UnencryptedComment(expression) | Self::EncryptedComment(expression) => comment
                .as_str()
                .is_some_and(|text| expression.regex.is_match(text)),
            Self::UnencryptedSuffix(_)
            | Self::EncryptedSuffix(_)
            | Self::UnencryptedRegex(_)
            | Self::EncryptedRegex(_) => false,
        }
    }
}

/// The position in a document, and the rule's result for it.
pub(crate) struct Place<'r> {
    rule: &'r Rule,
    keys: Vec<Key>,
    /// The keys that lead here, each with a trailing colon: a value's additional data.
    joined: String,
    /// For each open collection, whether a comment above it matches.
    comments: Vec<bool>,
    matched: usize,
}

struct Key {
    /// The length of `joined` before it.
    begins: usize,
    matched: bool,
}

impl<'r> Place<'r> {
    pub(crate) fn new(rule: &'r Rule) -> Self {
        Self {
            rule,
            keys: Vec::new(),
            joined: String::new(),
            comments: Vec::new(),
            matched: 0,
        }
    }

    pub(crate) fn enter_key(&mut self, key: &str) {
        let matched = self.rule.matches_key(key);
        self.matched += usize::from(matched);
        self.keys.push(Key {
            begins: self.joined.len(),
            matched,
        });
        self.joined.push_str(key);
        self.joined.push(':');
    }

    pub(crate) fn leave_key(&mut self) {
        if let Some(key) = self.keys.pop() {
            self.matched -= usize::from(key.matched);
            self.joined.truncate(key.begins);
        }
    }

    pub(crate) fn enter_collection(&mut self) {
        self.comments.push(false);
    }

    pub(crate) fn leave_collection(&mut self) {
        self.clear_comments();
        self.comments.pop();
    }

    /// Comments above a value apply to it and its content, not to the next value.
    pub(crate) fn clear_comments(&mut self) {
        if let Some(last) = self.comments.last_mut() {
            self.matched -= usize::from(std::mem::take(last));
        }
    }

    /// Returns whether the comment itself is encrypted. A comment that matches stays readable.
    pub(crate) fn comment(&mut self, comment: &Text) -> bool {
        let before = self.seals();
        if let Some(last) = self.comments.last_mut()
            && !*last
            && self.rule.matches_comment(comment)
        {
            *last = true;
            self.matched += 1;
        }
        match self.rule {
            Rule::EncryptedComment(_) => before,
            _ => self.seals(),
        }
    }

    pub(crate) fn seals(&self) -> bool {
        let matched = self.matched > 0;
        match self.rule {
            Rule::EncryptedSuffix(_) | Rule::EncryptedRegex(_) | Rule::EncryptedComment(_) => matched,
            Rule::UnencryptedSuffix(_) | Rule::UnencryptedRegex(_) | Rule::UnencryptedComment(_) => !matched,
        }
    }

    /// Not empty, even at the top.
    pub(crate) fn additional(&self) -> &str {
        if self.keys.is_empty() { ":" } else { &self.joined }
    }

    pub(crate) fn path(&self) -> Vec<String> {
        let ends = self.keys.iter().skip(1).map(|key| key.begins);
        let ends = ends.chain([self.joined.len()]);
        let keys = self.keys.iter().zip(ends);
        keys.map(|(key, end)| self.joined[key.begins..end - 1].to_owned())
            .collect()
    }
}

pub(crate) fn regex(text: &str) -> Result<Expression, regex::Error> {
    let mut last = regex::Error::CompiledTooBig(0);
    let is_simple = is_simple(text);
    for (bytes, compiled_steps, steps_per_byte) in REGEXES {
        let steps_per_byte = if is_simple { SIMPLE_STEPS } else { steps_per_byte };
        match RegexBuilder::new(text).size_limit(bytes).build() {
            Ok(regex) => {
                return Ok(Expression {
                    regex,
                    compiled_steps,
                    steps_per_byte,
                });
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
