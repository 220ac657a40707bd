//! Errors in Helm's format.
//!
//! Helm splits Go's single line into places, unless a function's own text is among them, which it cannot tell
//! from places. A chart author's `fail` or `required` is shown alone.

use crate::fault::{Error, ErrorKind};

const PREFIX: &str = "template: ";

/// One place on an error's way.
#[derive(Debug, Default, PartialEq, Eq)]
struct Place<'a> {
    location: &'a str,
    running: Option<(&'a str, &'a str)>,
    reason: &'a str,
}

impl Error {
    /// The error as Helm 4 prints it: `parse error at (FILE:LINE): ...`, `execution error at
    /// (FILE:LINE:COLUMN): ...` for an author's message, otherwise one place per line with the reason below.
    /// A limit, which Helm lacks, is formatted like an author's message.
    pub fn helm_text(&self) -> String {
        // `template`, the place, the rest
        let location = self.message.split(": ").nth(1).unwrap_or_default();
        match &self.kind {
            ErrorKind::Parse => {
                let reason = self.message.rsplit(": ").next().unwrap_or_default();
                format!("parse error at ({location}): {reason}")
            }
            ErrorKind::Rejected => format!("execution error at ({location}): {}", self.reason),
            ErrorKind::Limit(limit) => format!("execution error at ({location}): {limit}"),
            ErrorKind::Exec => self.places().unwrap_or_else(|| self.message.clone()),
        }
    }

    fn places(&self) -> Option<String> {
        if self.chain.is_foreign {
            return None;
        }
        let inner = self.chain.inner.iter().rev();
        let mut places: Vec<Place<'_>> = Vec::new();
        for length in std::iter::once(&self.message.len()).chain(inner) {
            let start = self.message.len().checked_sub(*length)?;
            let place = place(self.message.get(start..)?)?;
            if places.last() != Some(&place) {
                places.push(place);
            }
        }
        let mut text = String::new();
        for place in places {
            place.write(&mut text);
        }
        Some(text.trim().to_owned())
    }
}

fn place(message: &str) -> Option<Place<'_>> {
    let rest = message.strip_prefix(PREFIX)?;
    if rest.starts_with("no template ") {
        return Some(Place {
            reason: message,
            ..Place::default()
        });
    }
    // the next place reports its own reason
    let own = |reason: &'_ str| reason.find(" template:").unwrap_or(reason.len());
    if let Some((location, after)) = rest.split_once(": executing ")
        && let Some((name, after)) = after.strip_prefix('"').and_then(|after| after.split_once('"'))
        && let Some((part, reason)) = after
            .strip_prefix(" at <")
            .and_then(|after| after.split_once(">: "))
    {
        return Some(Place {
            location,
            running: Some((name, part)),
            reason: &reason[..own(reason)],
        });
    }
    let (location, reason) = rest.rsplit_once(": ")?;
    Some(Place {
        location,
        running: None,
        reason: &reason[..own(reason)],
    })
}

impl Place<'_> {
    fn write(&self, text: &mut String) {
        if !self.location.is_empty() {
            text.push_str(self.location);
            text.push_str("\n  ");
        }
        if let Some((name, part)) = self.running {
            text.push_str("executing \"");
            text.push_str(name);
            text.push_str("\" at <");
            text.push_str(part);
            text.push_str(">:\n    ");
        }
        if !self.reason.is_empty() {
            text.push_str(self.reason);
            text.push('\n');
        }
    }
}
