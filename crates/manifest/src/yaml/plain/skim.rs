//! Reads parts of a text.
//!
//! Unwanted values are not built, and unwanted multi-line scalars, on which the fast path otherwise gives up,
//! are skipped. Errors are still detected and left to the loader.

use super::{Part, Reader, read_part};
use crate::yaml::Options;
use serde_json::Value;

/// The wanted part of a document.
#[derive(Debug, Clone, Copy)]
pub enum Keep {
    /// The whole value.
    All,
    /// These keys of a mapping, compared like Go's JSON decoder: ASCII case is ignored. Lists are skipped.
    Keys(&'static [(&'static str, Keep)]),
    /// Nothing: the value is checked and dropped.
    Nothing,
}

impl Keep {
    pub(super) fn below(self, key: &str) -> Self {
        match self {
            Self::Keys(keys) => keys
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(key))
                .map_or(Self::Nothing, |(_, keep)| *keep),
            all_or_nothing => all_or_nothing,
        }
    }

    pub(super) fn is_nothing(self) -> bool {
        matches!(self, Self::Nothing)
    }
}

/// Reads a text of one document and keeps the wanted part, several times faster than
/// [`load`](crate::yaml::load). Null if there is none. `None` if the loader must read the text. Repeated keys
/// go unnoticed among skipped ones.
pub fn skim(text: &str, options: &Options, keep: Keep) -> Option<Value> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > options.bytes_max {
        return None;
    }
    let (start, lines) = (0, 0);
    let (documents, _) = read_part(&Part { text, start, lines }, options, keep, &mut |_| true)?;
    let mut documents = documents.into_iter().map(|document| document.value);
    let value = documents.next().unwrap_or(Value::Null);
    documents.next().is_none().then_some(value)
}

impl Reader<'_, '_> {
    pub(super) fn pass_scalar(&mut self, at: usize, end: usize, indent: usize) -> Option<Value> {
        self.count()?;
        match self.bytes[at] {
            b'|' | b'>' => return self.literal(at + 1, end, indent),
            b'"' | b'\'' => self.pass_quoted(at, end, indent)?,
            _ => self.pass_plain(at, end, indent)?,
        }
        self.advance()?;
        Some(Value::Null)
    }

    fn pass_plain(&mut self, at: usize, end: usize, indent: usize) -> Option<()> {
        let text = &self.text[at..end];
        if let Some(comment) = text.find(" #") {
            return self.plain(text[..comment].trim_end_matches(' ')).map(drop);
        }
        self.plain(text.trim_end_matches(' '))?;
        while let Some((content, end)) = self.line_below(indent)? {
            let text = self.text[content..end].trim_end_matches(' ');
            // a comment would end the scalar, and a colon would make it a key, which is invalid here
            if text.starts_with('#') || text.contains(" #") || text.contains(": ") || text.ends_with(':') {
                return None;
            }
            self.pass(end);
        }
        Some(())
    }

    fn pass_quoted(&mut self, at: usize, end: usize, indent: usize) -> Option<()> {
        let quote = self.bytes[at];
        let (mut from, mut end) = (at + 1, end);
        loop {
            let Some(length) = self.bytes[from..end]
                .iter()
                .position(|byte| *byte == quote || *byte == b'\\')
            else {
                (from, end) = self.line_below(indent)??;
                self.pass(end);
                continue;
            };
            let stop = from + length;
            let after = self.bytes[..end].get(stop + 1);
            from = stop + 2;
            if self.bytes[stop] == b'\\' && quote == b'"' {
                // a line break or character is skipped; other escapes are unknown here
                match after {
                    None => from = end,
                    Some(b'n' | b't' | b'"' | b'\\' | b' ') => {}
                    Some(_) => return None,
                }
            } else if self.bytes[stop] == b'\\' || quote == b'\'' && after == Some(&b'\'') {
                from = stop + if self.bytes[stop] == b'\\' { 1 } else { 2 };
            } else {
                return self.blank_from(stop + 1, end);
            }
        }
    }

    /// The next line of a multi-line scalar; the inner `None` at its end. Skips blank lines before it.
    fn line_below(&mut self, indent: usize) -> Option<Option<(usize, usize)>> {
        while self.next < self.bytes.len() {
            let start = self.next;
            let end = self.end_of_line(start);
            if self.has_tabs && self.bytes[start..end].contains(&b'\t') {
                return None;
            }
            let content = self.skip_spaces(start, end);
            if content == end {
                self.pass(end);
                continue;
            }
            return Some((content - start > indent).then_some((content, end)));
        }
        Some(None)
    }
}
