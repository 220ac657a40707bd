//! The fast path of the loader, for common manifests.
//!
//! It supports block mappings and lists, plain and quoted scalars on one line, literal blocks, flow
//! collections on one line, comments. The result equals the loader's at a tenth of the cost. It gives up on
//! anything else: anchors, tags, merge keys, folded blocks, multi-line scalars, repeated keys, tabs, errors
//! and exceeded limits. The loader then starts over and reports errors.

mod skim;

pub use skim::{Keep, skim};

use super::load::{Document, Options, Watch};
use super::place::{Place, Spans};
use super::resolve::{Resolved, resolve, to_value};
use serde_json::map::Entry;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Deeper texts are left to the loader, which does not recurse.
const DEPTH_MAX: usize = 64;
/// Longer keys are left to the loader, which enforces their limit.
const KEY_BYTES_MAX: usize = 256;
/// The cost of a value, in steps of ten nanoseconds.
const VALUE_STEPS: usize = 8;
/// The values between two calls of the watch.
const WATCHED_VALUES: usize = 1_024;

/// A part of a text that consists of whole documents.
#[derive(Debug, Clone, Copy)]
pub struct Part<'t> {
    text: &'t str,
    start: usize,
    lines: usize,
}

/// Splits a text into parts of at least this many bytes. Together they give [`load`](super::load)'s
/// documents, if all can be read.
pub fn parts(text: &str, bytes: usize) -> Vec<Part<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parts = Vec::new();
    let (mut start, mut lines) = (0, 0);
    while start < text.len() {
        let from = text.floor_char_boundary(start + bytes.max(1));
        let end = match text[from..].find("\n---\n") {
            Some(at) => from + at + 1,
            None => text.len(),
        };
        let text = &text[..end];
        parts.push(Part { text, start, lines });
        lines += text.as_bytes()[start..]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        start = end;
    }
    parts
}

impl Part<'_> {
    /// The part's documents, with places in the whole text, and their number of values. `None` if the loader
    /// must read the whole text.
    pub fn read(&self, options: &Options, watch: &mut Watch<'_>) -> Option<(Vec<Document>, usize)> {
        if self.text.len() > options.bytes_max {
            return None;
        }
        read_part(self, options, Keep::All, watch)
    }
}

pub(super) fn read(text: &str, options: &Options, watch: &mut Watch<'_>) -> Option<Vec<Document>> {
    let (start, lines) = (0, 0);
    let (documents, _) = read_part(&Part { text, start, lines }, options, Keep::All, watch)?;
    Some(documents)
}

fn read_part(
    &Part { text, start, lines }: &Part<'_>,
    options: &Options,
    keep: Keep,
    watch: &mut Watch<'_>,
) -> Option<(Vec<Document>, usize)> {
    let own = &text[start..];
    if options.spans || !own.is_ascii() && !own.chars().all(is_unremarkable) {
        return None;
    }
    if own
        .bytes()
        .any(|byte| byte < b' ' && byte != b'\n' && byte != b'\t' || byte == 0x7f)
    {
        return None;
    }
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        options,
        has_tabs: own.contains('\t'),
        next: start,
        number: lines,
        current: None,
        depth: 0,
        nodes: 0,
        keep,
        watch: &mut *watch,
    };
    let documents = reader.documents()?;
    let nodes = reader.nodes;
    watch(nodes % WATCHED_VALUES * VALUE_STEPS).then_some((documents, nodes))
}

/// Whether a character has no meaning in YAML syntax.
fn is_unremarkable(character: char) -> bool {
    character.is_ascii()
        || matches!(character, '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}')
        || matches!(character, '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
}

struct Reader<'t, 'w> {
    text: &'t str,
    bytes: &'t [u8],
    options: &'t Options,
    has_tabs: bool,
    next: usize,
    number: usize,
    /// The current line; none at the end of a document.
    current: Option<Line>,
    depth: usize,
    nodes: usize,
    keep: Keep,
    watch: &'w mut Watch<'w>,
}

/// A line that is neither blank nor a comment.
#[derive(Clone, Copy)]
struct Line {
    start: usize,
    /// The start of its content, or of its rest after a dash.
    content: usize,
    end: usize,
    number: usize,
}

impl Line {
    fn indent(&self) -> usize {
        self.content - self.start
    }
}

impl<'t> Reader<'t, '_> {
    fn documents(&mut self) -> Option<Vec<Document>> {
        let mut documents = Vec::new();
        while self.next < self.bytes.len() {
            if self.at_marker(self.next) {
                let end = self.end_of_line(self.next);
                self.blank_from(self.next + 3, end)?;
                self.pass(end);
            }
            self.advance()?;
            let Some(line) = self.current else {
                continue;
            };
            let value = self.map(line.indent())?;
            if self.current.is_some() || documents.len() == self.options.documents_max {
                return None;
            }
            documents.push(Document {
                value,
                place: Place {
                    bytes: line.content..self.next,
                    line: line.number,
                    column: line.indent() + 1,
                },
                duplicates: Vec::new(),
                spans: Spans::default(),
            });
        }
        Some(documents)
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    fn end_of_line(&self, from: usize) -> usize {
        self.text[from..]
            .find('\n')
            .map_or(self.bytes.len(), |length| from + length)
    }

    fn pass(&mut self, end: usize) {
        self.next = (end + 1).min(self.bytes.len());
        self.number += 1;
    }

    fn at_marker(&self, start: usize) -> bool {
        self.bytes[start..].starts_with(b"---") && matches!(self.byte(start + 3), None | Some(b' ' | b'\n'))
    }

    fn skip_spaces(&self, from: usize, end: usize) -> usize {
        let spaces = self.bytes[from..end].iter().take_while(|byte| **byte == b' ');
        from + spaces.count()
    }

    fn advance(&mut self) -> Option<()> {
        self.current = None;
        while self.next < self.bytes.len() {
            let start = self.next;
            let end = self.end_of_line(start);
            let content = self.skip_spaces(start, end);
            if content == end || self.bytes[content] == b'#' {
                self.pass(end);
                continue;
            }
            if content == start {
                if self.at_marker(start) {
                    return Some(());
                }
                if self.bytes[start] == b'%' || self.bytes[start..end].starts_with(b"...") {
                    return None;
                }
            }
            if self.has_tabs && self.bytes[content..end].contains(&b'\t') {
                return None;
            }
            self.pass(end);
            self.current = Some(Line {
                start,
                content,
                end,
                number: self.number,
            });
            return Some(());
        }
        Some(())
    }

    /// Gives up unless only a comment follows.
    fn blank_from(&self, from: usize, end: usize) -> Option<()> {
        let at = self.skip_spaces(from, end);
        (at == end || at > from && self.bytes[at] == b'#').then_some(())
    }

    fn count(&mut self) -> Option<()> {
        self.nodes += 1;
        if self.nodes.is_multiple_of(WATCHED_VALUES) && !(self.watch)(WATCHED_VALUES * VALUE_STEPS) {
            return None;
        }
        (self.nodes <= self.options.nodes_max).then_some(())
    }

    fn enter(&mut self) -> Option<()> {
        self.count()?;
        self.depth += 1;
        (self.depth <= self.options.depth_max.min(DEPTH_MAX)).then_some(())
    }

    fn enter_list(&mut self) -> Keep {
        let outer = self.keep;
        if let Keep::Keys(_) = outer {
            self.keep = Keep::Nothing;
        }
        outer
    }

    fn is_dash(&self, at: usize, end: usize) -> bool {
        self.bytes[at] == b'-' && (at + 1 == end || self.bytes[at + 1] == b' ')
    }

    fn map(&mut self, indent: usize) -> Option<Value> {
        self.enter()?;
        let outer = self.keep;
        let mut map = Map::new();
        while let Some(line) = self.current {
            if line.indent() != indent {
                if line.indent() > indent {
                    return None;
                }
                break;
            }
            let (key, after) = self.key(line.content, line.end)?;
            self.count()?;
            self.keep = outer.below(key);
            if self.keep.is_nothing() {
                self.value(after, line.end, indent, true)?;
                continue;
            }
            let Entry::Vacant(entry) = map.entry(key.to_owned()) else {
                return None;
            };
            entry.insert(self.value(after, line.end, indent, true)?);
        }
        self.keep = outer;
        self.depth -= 1;
        Some(Value::Object(map))
    }

    fn list(&mut self, indent: usize) -> Option<Value> {
        self.enter()?;
        let outer = self.enter_list();
        let mut items = Vec::new();
        while let Some(line) = self.current {
            if line.indent() > indent {
                return None;
            }
            if line.indent() < indent || !self.is_dash(line.content, line.end) {
                break;
            }
            let at = self.skip_spaces(line.content + 1, line.end);
            let rest = Line { content: at, ..line };
            let item = if at < line.end && self.is_dash(at, line.end) {
                self.current = Some(rest);
                self.list(rest.indent())?
            } else if at < line.end && self.key(at, line.end).is_some() {
                self.current = Some(rest);
                self.map(rest.indent())?
            } else {
                self.value(line.content + 1, line.end, indent, false)?
            };
            if !self.keep.is_nothing() {
                items.push(item);
            }
        }
        self.keep = outer;
        self.depth -= 1;
        Some(Value::Array(items))
    }

    /// Parses a key at the start of a line; returns the position after its colon.
    fn key(&self, at: usize, end: usize) -> Option<(&'t str, usize)> {
        let (text, colon) = match self.bytes[at] {
            quote @ (b'"' | b'\'') => {
                let text = &self.text[at + 1..end];
                let text = &text[..text.find(char::from(quote))?];
                if text.contains('\\') {
                    return None;
                }
                (text, at + text.len() + 2)
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'/' | b'$' => {
                let colon = (at..end).find(|at| match self.bytes[*at] {
                    b':' => self.is_end_of_word(at + 1, end),
                    byte => !is_of_key(byte),
                })?;
                let text = &self.text[at..colon];
                match resolve(self.options.dialect, text) {
                    Resolved::String | Resolved::Timestamp => (text, colon),
                    _ => return None,
                }
            }
            _ => return None,
        };
        let is_key = colon < end && self.bytes[colon] == b':' && self.is_end_of_word(colon + 1, end);
        (is_key && text.len() <= KEY_BYTES_MAX).then_some((text, colon + 1))
    }

    fn is_end_of_word(&self, at: usize, end: usize) -> bool {
        at == end || self.bytes[at] == b' '
    }

    fn value(&mut self, from: usize, end: usize, indent: usize, of_map: bool) -> Option<Value> {
        let at = self.skip_spaces(from, end);
        if at == end || self.bytes[at] == b'#' {
            self.blank_from(from, end)?;
            return self.below(indent, of_map);
        }
        if self.keep.is_nothing() && !matches!(self.bytes[at], b'{' | b'[') {
            return self.pass_scalar(at, end, indent);
        }
        let value = match self.bytes[at] {
            b'|' => {
                self.count()?;
                return self.literal(at + 1, end, indent);
            }
            b'"' | b'\'' => {
                self.count()?;
                let (text, after) = self.quoted(at, end)?;
                self.blank_from(after, end)?;
                text.into()
            }
            b'{' | b'[' => {
                let (value, after) = self.flow(at, end)?;
                self.blank_from(after, end)?;
                value
            }
            _ => {
                let text = &self.text[at..end];
                let text = text.find(" #").map_or(text, |comment| &text[..comment]);
                self.plain(text.trim_end_matches(' '))?
            }
        };
        self.advance()?;
        Some(value)
    }

    fn below(&mut self, indent: usize, of_map: bool) -> Option<Value> {
        self.advance()?;
        if let Some(line) = self.current {
            let is_list = self.is_dash(line.content, line.end);
            let below = line.indent() > indent || of_map && is_list && line.indent() == indent;
            if below && is_list {
                return self.list(line.indent());
            }
            if below {
                return self.map(line.indent());
            }
        }
        self.count()?;
        Some(Value::Null)
    }

    fn plain(&mut self, text: &str) -> Option<Value> {
        self.count()?;
        let bytes = text.as_bytes();
        let sound = match bytes.first()? {
            b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"'
            | b'%' | b'@' | b'`' => false,
            b'-' | b'?' | b':' => bytes.get(1).is_some_and(|next| *next != b' '),
            _ => true,
        };
        if !sound || bytes.last() == Some(&b':') || text.contains(": ") {
            return None;
        }
        if self.keep.is_nothing() && !matches!(bytes[0], b'.' | b'+' | b'-') {
            // only texts that begin like a number can be non-JSON numbers
            return Some(Value::Null);
        }
        to_value(&resolve(self.options.dialect, text), text)
    }

    fn quoted(&self, at: usize, end: usize) -> Option<(String, usize)> {
        let quote = self.bytes[at];
        let mut out = String::new();
        let mut from = at + 1;
        loop {
            let length = self.bytes[from..end]
                .iter()
                .position(|byte| *byte == quote || *byte == b'\\' && quote == b'"')?;
            let stop = from + length;
            if !self.keep.is_nothing() {
                out.push_str(&self.text[from..stop]);
            }
            let after = self.bytes[..end].get(stop + 1);
            if self.bytes[stop] == b'\\' {
                out.push(match after? {
                    b'n' => '\n',
                    b't' => '\t',
                    b'"' => '"',
                    b'\\' => '\\',
                    _ => return None,
                });
            } else if quote == b'\'' && after == Some(&b'\'') {
                out.push('\'');
            } else {
                return Some((out, stop + 1));
            }
            from = stop + 2;
        }
    }

    fn flow(&mut self, at: usize, end: usize) -> Option<(Value, usize)> {
        self.enter()?;
        let close = if self.bytes[at] == b'{' { b'}' } else { b']' };
        let outer = if close == b'}' {
            self.keep
        } else {
            self.enter_list()
        };
        let (mut map, mut items) = (Map::new(), Vec::new());
        let mut at = self.skip_spaces(at + 1, end);
        while self.bytes[..end].get(at) != Some(&close) {
            if close == b'}' {
                let (key, after) = self.flow_key(at, end)?;
                self.count()?;
                self.keep = outer.below(&key);
                let (value, after) = self.flow_value(self.skip_spaces(after, end), end)?;
                if !self.keep.is_nothing() && map.insert(key.into_owned(), value).is_some() {
                    return None;
                }
                self.keep = outer;
                at = after;
            } else {
                let (value, after) = self.flow_value(at, end)?;
                if !self.keep.is_nothing() {
                    items.push(value);
                }
                at = after;
            }
            at = self.skip_spaces(at, end);
            match self.bytes[..end].get(at)? {
                b',' => {
                    at = self.skip_spaces(at + 1, end);
                    // a trailing comma
                    if self.bytes[..end].get(at) == Some(&close) {
                        return None;
                    }
                }
                byte if *byte == close => {}
                _ => return None,
            }
        }
        self.keep = outer;
        self.depth -= 1;
        let value = if close == b'}' {
            Value::Object(map)
        } else {
            Value::Array(items)
        };
        Some((value, at + 1))
    }

    fn flow_key(&self, at: usize, end: usize) -> Option<(Cow<'t, str>, usize)> {
        if at == end || !matches!(self.bytes[at], b'"' | b'\'') {
            let (text, after) = (at < end).then(|| self.key(at, end)).flatten()?;
            return Some((text.into(), after));
        }
        let (text, after) = self.quoted(at, end)?;
        let is_key = after < end && self.bytes[after] == b':' && text.len() <= KEY_BYTES_MAX;
        is_key.then_some((text.into(), after + 1))
    }

    fn flow_value(&mut self, at: usize, end: usize) -> Option<(Value, usize)> {
        match self.bytes[..end].get(at)? {
            b'{' | b'[' => self.flow(at, end),
            b'"' | b'\'' => {
                self.count()?;
                let (text, after) = self.quoted(at, end)?;
                Some((text.into(), after))
            }
            _ => {
                let text = &self.text[at..end];
                let text = &text[..text.find([',', '[', ']', '{', '}'])?];
                if text.contains([':', '#', '?']) {
                    return None;
                }
                let value = self.plain(text.trim_end_matches(' '))?;
                Some((value, at + text.len()))
            }
        }
    }

    fn literal(&mut self, header: usize, end: usize, indent: usize) -> Option<Value> {
        let (keeps, strips, after) = match self.bytes[..end].get(header) {
            Some(b'-') => (false, true, header + 1),
            Some(b'+') => (true, false, header + 1),
            _ => (false, false, header),
        };
        self.blank_from(after, end)?;
        let mut out = String::new();
        let (mut inner, mut breaks) = (0, 0);
        while self.next < self.bytes.len() {
            let start = self.next;
            let end = self.end_of_line(start);
            let content = self.skip_spaces(start, end);
            if content == end {
                // spaces beyond the indentation may be content: left to the loader
                let is_content = end == self.bytes.len() || inner > 0 && content - start > inner;
                if is_content && !(self.keep.is_nothing() && inner > 0) {
                    return None;
                }
                if inner == 0 && content - start > indent {
                    return None;
                }
                breaks += 1;
                self.pass(end);
                continue;
            }
            if inner == 0 {
                inner = content - start;
                // a tab may not begin the first line: left to the loader
                if inner <= indent || self.bytes[content] == b'\t' {
                    return None;
                }
            }
            if content - start < inner {
                if self.bytes[content] == b'\t' {
                    return None;
                }
                break;
            }
            if self.keep.is_nothing() {
                self.pass(end);
                continue;
            }
            if end == self.bytes.len() {
                return None;
            }
            out.extend(std::iter::repeat_n('\n', breaks));
            out.push_str(&self.text[start + inner..end]);
            breaks = 1;
            self.pass(end);
        }
        if inner == 0 {
            return None;
        }
        let kept = if keeps { breaks } else { usize::from(!strips) };
        out.extend(std::iter::repeat_n('\n', kept));
        self.advance()?;
        Some(out.into())
    }
}

fn is_of_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'$' | b':')
}
