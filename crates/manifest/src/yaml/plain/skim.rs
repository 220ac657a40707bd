//! A text read for a part of it.
//!
//! What is not wanted is not built, and scalars of several lines, which the short cut leaves to the
//! loader otherwise, are passed over. What is wrong is still found: then it is left to the loader.

use super::{Part, Reader, read_part};
use crate::yaml::Options;
use serde_json::Value;

/// What of a document is wanted.
#[derive(Debug, Clone, Copy)]
pub enum Keep {
    /// All of a value.
    All,
    /// These keys of a mapping, as Go's JSON decoder matches them: ASCII case does not count.
    /// What is in a list there is not wanted.
    Keys(&'static [(&'static str, Keep)]),
    /// Nothing: the value is read, so that what is wrong in it is known, and left out.
    Nothing,
}

impl Keep {
    /// What is wanted below a key.
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

/// Reads a text of one document and keeps what is wanted of it: several times the speed of
/// [`load`](crate::yaml::load), for who needs the head of a long document. Null where there is none. None where
/// the loader has to read it: there is something remarkable or wrong in it. Keys that are left out may
/// be there twice.
pub fn skim(text: &str, options: &Options, keep: Keep) -> Option<Value> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > options.bytes_max {
        return None;
    }
    let (start, lines) = (0, 0);
    let (documents, _) = read_part(&Part { text, start, lines }, options, keep)?;
    let mut documents = documents.into_iter().map(|document| document.value);
    let value = documents.next().unwrap_or(Value::Null);
    documents.next().is_none().then_some(value)
}

impl Reader<'_> {
    /// Leaves behind a scalar that is not wanted, which may have several lines.
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
            // a comment would end it, and a colon make it a key, which is wrong here
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
                // a line break or a character that is left out; what others stand for is not known here
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

    /// Where the next line of a scalar of several lines begins and ends: none where the scalar ends. Blank
    /// lines before it are left behind.
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
