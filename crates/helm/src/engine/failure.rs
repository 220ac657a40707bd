//! Why a chart has no texts, in Helm's words.
//!
//! Helm takes apart what Go's templates say: the place where the author of a chart refused (`fail`,
//! `required`), or the chain of includes, one line each.

use equate_template::{Error, ErrorKind, Limit};

/// Why a chart could not be rendered. Displays as Helm's error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A template cannot be read.
    #[error("parse error at ({place}): {reason}")]
    Parse {
        /// The file and line.
        place: String,
        /// What is wrong there.
        reason: String,
    },
    /// The author of the chart refuses: `fail`, `required`.
    #[error("execution error at ({place}): {reason}")]
    Said {
        /// The file, line and column of the outermost template.
        place: String,
        /// What the author says.
        reason: String,
    },
    /// A template failed while it ran.
    #[error("{text}")]
    Run {
        /// The chain of calls and the fault, as Helm writes it.
        text: String,
        /// The file the fault is in, and its line.
        at: (String, usize),
    },
    /// A render would take more than it may.
    #[error("rendering {template} takes too much: {limit}")]
    Limit {
        /// The template that was run.
        template: String,
        /// The limit that was reached.
        limit: Limit,
    },
}

impl RenderError {
    pub(super) fn parse(name: &str, error: &Error) -> Self {
        let parts: Vec<&str> = error.message.split(": ").collect();
        let place = parts.get(1).copied().unwrap_or(name).to_owned();
        let reason = parts.last().copied().unwrap_or(&error.reason).to_owned();
        Self::Parse { place, reason }
    }

    pub(super) fn run(name: &str, error: Error) -> Self {
        if let ErrorKind::Limit(limit) = error.kind {
            return Self::Limit {
                template: name.to_owned(),
                limit,
            };
        }
        if error.kind == ErrorKind::Said {
            let place = error.message.split(": ").nth(1).unwrap_or(name).to_owned();
            return Self::Said {
                place,
                reason: error.reason,
            };
        }
        let text = chain(&error.message).unwrap_or(error.message);
        Self::Run {
            text,
            at: (error.template, error.line),
        }
    }
}

/// The calls that led to a fault, one below the other; nothing where Helm leaves Go's line as it is:
/// when a function said what is wrong, or the template came from `tpl`.
fn chain(message: &str) -> Option<String> {
    const INCLUDED: &str = "error calling include: ";
    let mut lines = String::new();
    let mut rest = message;
    let mut last = None;
    loop {
        let level = Level::parse(rest)?;
        let reason = level.reason;
        if last.as_ref() != Some(&level) {
            level.write(&mut lines);
        }
        last = Some(level);
        if let Some(inner) = reason_of(rest).strip_prefix(INCLUDED) {
            rest = inner;
        } else if reason.starts_with("error calling ") {
            return None;
        } else {
            return Some(lines.trim().to_owned());
        }
    }
}

/// What follows the place in a line of Go's: the whole of it, with what is nested.
fn reason_of(message: &str) -> &str {
    match message.split_once(": executing ") {
        Some((_, after)) => after.split_once(">: ").map_or("", |(_, reason)| reason),
        None => "",
    }
}

/// One call.
#[derive(Debug, PartialEq, Eq)]
struct Level<'m> {
    place: &'m str,
    executing: Option<(&'m str, &'m str)>,
    reason: &'m str,
}

impl<'m> Level<'m> {
    fn parse(message: &'m str) -> Option<Self> {
        let rest = message.strip_prefix("template: ")?;
        if rest.starts_with("no template ") {
            return Some(Self {
                place: "",
                executing: None,
                reason: message,
            });
        }
        let cut = |reason: &'m str| reason.find(" template:").map_or(reason, |at| &reason[..at]);
        if let Some((place, after)) = rest.split_once(": executing ") {
            let (function, after) = after.strip_prefix('"')?.split_once('"')?;
            let (expression, reason) = after.strip_prefix(" at <")?.split_once(">: ")?;
            return Some(Self {
                place,
                executing: Some((function, expression)),
                reason: cut(reason),
            });
        }
        let (place, reason) = rest.rsplit_once(": ")?;
        Some(Self {
            place,
            executing: None,
            reason: cut(reason),
        })
    }

    fn write(&self, out: &mut String) {
        if !self.place.is_empty() {
            out.push_str(self.place);
            out.push_str("\n  ");
        }
        if let Some((function, expression)) = self.executing {
            out.push_str(&format!("executing \"{function}\" at <{expression}>:\n    "));
        }
        if !self.reason.is_empty() {
            out.push_str(self.reason);
            out.push('\n');
        }
    }
}
