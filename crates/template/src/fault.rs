//! What goes wrong in a function, and in a template.

use crate::limits::Limit;
use std::fmt;

/// Why a function or method has no result.
#[derive(Debug)]
pub enum Fault {
    /// What Go's function would return as its error, or panic with.
    Message(String),
    /// What the author of a chart has to say, with `fail` or `required`.
    Said(String),
    /// A limit was reached: the render ends, whatever is around it.
    Limit(Limit),
    /// A template that the function ran failed.
    Template {
        /// What the function says before it.
        prefix: String,
        /// Its failure.
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

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The text is not a template.
    Parse,
    /// It failed while it ran.
    Exec,
    /// It refused to go on, with `fail` or `required`: the reason is its author's.
    Said,
    /// It reached a limit.
    Limit(Limit),
}

/// Why a template could not be read or run. Displays as Go's error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What kind of failure it was.
    pub kind: ErrorKind,
    /// Go's message: `template: NAME:LINE:COLUMN: executing "NAME" at <EXPRESSION>: ...`.
    pub message: String,
    /// The text the fault itself was in (a file), not who included it.
    pub template: String,
    /// The line of it, from 1.
    pub line: usize,
    /// The column in bytes, from 0 as Go counts; none for a text that could not be read.
    pub column: Option<usize>,
    /// What the innermost fault says, without where.
    pub reason: String,
    pub(crate) chain: Chain,
}

/// How the message holds those of the templates it came through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Chain {
    /// How long the messages are with which the message ends, the innermost first.
    pub(crate) inner: Vec<usize>,
    /// Whether words are among them that are no template's: those of a function, or of `tpl`.
    pub(crate) is_foreign: bool,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
