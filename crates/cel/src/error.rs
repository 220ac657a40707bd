//! Errors of compilation and evaluation, with cel-go's texts.

use std::fmt;
use std::rc::Rc;

/// Why a text is no expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It is too long.
    #[error("the expression has {bytes} bytes; the limit is {max}")]
    Long {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// It nests too deep.
    #[error("the expression is nested more than {max} levels deep")]
    Deep {
        /// The limit.
        max: usize,
    },
    /// It is not valid.
    #[error("{0}")]
    Invalid(String),
}

/// Problems of a text, by offset.
#[derive(Debug)]
pub struct Issues<'s> {
    text: &'s str,
    found: Vec<(usize, String)>,
}

impl<'s> Issues<'s> {
    /// No problems yet.
    pub fn new(text: &'s str) -> Self {
        Self {
            text,
            found: Vec::new(),
        }
    }

    /// Adds a problem at an offset.
    pub fn add(&mut self, at: usize, why: String) {
        self.found.push((at, why));
    }

    /// The problems, as cel-go shows them: sorted, each with its line.
    pub fn finish(mut self) -> Result<(), CompileError> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|(at, _)| *at);
        let each = self.found.iter().map(|(at, why)| shown(self.text, *at, why));
        Err(CompileError::Invalid(each.collect::<Vec<_>>().join("\n")))
    }
}

fn shown(text: &str, at: usize, why: &str) -> String {
    if text.is_empty() {
        return format!("ERROR: <input>:1:0: {why}");
    }
    let at = at.min(text.len());
    let line = text[..at].matches('\n').count() + 1;
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let before = &text[start..at];
    let column = before.chars().count() + 1;
    let snippet = text[start..]
        .lines()
        .next()
        .unwrap_or_default()
        .replace('\t', " ");
    // letters beyond ASCII are shown as wide
    let dots: String = before
        .chars()
        .map(|c| if c.is_ascii() { '.' } else { '．' })
        .collect();
    let mark = match text[at..].chars().next() {
        Some(c) if !c.is_ascii() => '＾',
        _ => '^',
    };
    format!("ERROR: <input>:{line}:{column}: {why}\n | {snippet}\n | {dots}{mark}")
}

/// Why an evaluation has no result.
#[derive(Debug, Clone, PartialEq)]
pub enum Fail {
    /// The budget is spent.
    Cost,
    /// The new values are too large.
    Memory,
    /// The caller interrupts.
    Stopped,
    /// Any other error: `&&`, `||` and macros may absorb it.
    Error(Rc<Failure>),
}

/// An error of the evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// cel-go's text. It may quote values.
    pub text: String,
}

/// The kind of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureKind {
    /// A variable is absent.
    Attribute,
    /// A field named in the expression is absent.
    Field,
    /// A computed key is absent.
    Key,
    /// A list has no such index.
    Index,
    /// A number is divided by zero.
    Zero,
    /// A result is too large for its type.
    Overflow,
    /// Values have the wrong type.
    Overload,
    /// Another reason, or a function's.
    Other(Option<&'static str>),
}

impl Fail {
    /// An error of a kind.
    pub fn of(kind: FailureKind, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Error(Rc::new(Failure { kind, text }))
    }

    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self::of(FailureKind::Other(None), text)
    }

    /// The error about an absent variable.
    pub fn absent(name: &str) -> Self {
        Self::of(FailureKind::Attribute, format!("no such attribute(s): {name}"))
    }

    /// Adds a field to the name of an absent variable.
    pub(crate) fn with_field(self, field: &str) -> Self {
        match &self {
            Self::Error(failure) if failure.kind == FailureKind::Attribute => {
                Self::of(FailureKind::Attribute, format!("{}.{field}", failure.text))
            }
            _ => self,
        }
    }

    pub(crate) fn no_field(name: &str) -> Self {
        Self::of(FailureKind::Field, format!("no such key: {name}"))
    }

    pub(crate) fn no_overload() -> Self {
        Self::of(FailureKind::Overload, "no such overload")
    }

    pub(crate) fn overflow() -> Self {
        Self::of(FailureKind::Overflow, "integer overflow")
    }

    pub(crate) fn unsigned_overflow() -> Self {
        Self::of(FailureKind::Overflow, "unsigned integer overflow")
    }

    /// Whether the run ends, whatever the expression.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Error(_))
    }

    /// Names the function in an error without a kind.
    pub(crate) fn in_function(self, name: &'static str) -> Self {
        match &self {
            Self::Error(failure) if failure.kind == FailureKind::Other(None) => {
                Self::of(FailureKind::Other(Some(name)), failure.text.clone())
            }
            _ => self,
        }
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cost => f.write_str("operation cancelled: actual cost limit exceeded"),
            Self::Memory => f.write_str("operation cancelled: its values are too large"),
            Self::Stopped => f.write_str("operation interrupted"),
            Self::Error(failure) => f.write_str(&failure.text),
        }
    }
}
