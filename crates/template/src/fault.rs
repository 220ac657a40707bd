//! Errors of functions and templates.

use crate::limits::Limit;
use std::fmt;

/// Why a function or method failed.
#[derive(Debug)]
pub enum Fault {
    /// The error of Go's function, or its panic.
    Message(String),
    /// A chart author's message, from `fail` or `required`.
    Rejected(String),
    /// A limit was reached; the render ends.
    Limit(Limit),
    /// A template that the function ran failed.
    Template {
        /// The function's text before it.
        prefix: String,
        /// The template's error.
        error: Box<Error>,
    },
}

impl Fault {
    /// A fault with a message.
    pub fn message(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }
}

impl From<Limit> for Fault {
    fn from(limit: Limit) -> Self {
        Self::Limit(limit)
    }
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The text is not a template.
    Parse,
    /// Running the template failed.
    Exec,
    /// The chart's author stopped it with `fail` or `required`.
    Rejected,
    /// It reached a limit.
    Limit(Limit),
}

/// Why a template cannot be parsed or run. Displays as Go's error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind of the failure.
    pub kind: ErrorKind,
    /// Go's message: `template: NAME:LINE:COLUMN: executing "NAME" at <EXPRESSION>: ...`.
    pub message: String,
    /// The text that contains the fault (a file), not the one that included it.
    pub template: String,
    /// Its line, from 1.
    pub line: usize,
    /// Its column in bytes, from 0 as in Go; none for parse errors.
    pub column: Option<usize>,
    /// The innermost fault's text without its place.
    pub reason: String,
    pub(crate) chain: Chain,
}

/// The nesting of template messages in the message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Chain {
    /// The lengths of the nested messages, which all end the message; the innermost first.
    pub(crate) inner: Vec<usize>,
    /// Whether a function or `tpl` added text to them.
    pub(crate) is_foreign: bool,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
