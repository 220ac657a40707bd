//! Writes YAML as SOPS does: go-yaml v3 with an indentation of four.
//!
//! The output must match byte for byte: it becomes a Secret's value, and any difference would change a
//! generator's name suffix. Scalars lose their style; comments are written above their node or behind it.

use base64::Engine as _;
use zeroize::Zeroizing;

use super::scalar::{self, Style};
use crate::tree::{Comment, Entry, Node, Text};

const INDENT: usize = 4;
/// Longer keys and those with line breaks are written as `? key`.
const SIMPLE_KEY_BYTES_MAX: usize = 128;

pub(super) fn write(documents: &[Vec<Entry>]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(String::new());
    for (at, document) in documents.iter().enumerate() {
        if at > 0 {
            out.push_str("---\n");
        }
        let mut writer = Writer { out: &mut out };
        if document.iter().any(|entry| matches!(entry, Entry::Pair { .. })) {
            writer.map(document, 0, true);
        } else {
            writer.heads(&comments(document), 0);
            writer.out.push_str("{}\n");
        }
    }
    Zeroizing::new(std::mem::take(&mut *out).into_bytes())
}

fn comments(entries: &[Entry]) -> Vec<&Comment> {
    let all = entries.iter().filter_map(|entry| match entry {
        Entry::Comment(comment) => Some(comment),
        Entry::Pair { .. } => None,
    });
    all.collect()
}

struct Writer<'o> {
    out: &'o mut String,
}

impl Writer<'_> {
    /// The first line is begun already unless `new_line` is set.
    fn map(&mut self, entries: &[Entry], indent: usize, mut new_line: bool) {
        let mut heads = Vec::new();
        let mut inline = Vec::new();
        for entry in entries {
            match entry {
                Entry::Comment(comment) if comment.inline => inline.push(comment),
                Entry::Comment(comment) => heads.push(comment),
                Entry::Pair { key, value } => {
                    let is_scalar = is_empty(value);
                    if !is_scalar {
                        heads.append(&mut inline);
                    }
                    self.begin(&std::mem::take(&mut heads), indent, &mut new_line);
                    let simple = self.key(key, indent);
                    if !simple && !is_scalar {
                        // on the colon's line, with the indentation of its own line
                        self.indent(deeper(indent) - indent - 1);
                    }
                    self.value(value, deeper(indent), simple, &std::mem::take(&mut inline));
                }
            }
        }
        heads.append(&mut inline);
        self.heads(&heads, indent);
    }

    /// Returns whether it is a simple key.
    fn key(&mut self, key: &str, indent: usize) -> bool {
        let simple = key.len() <= SIMPLE_KEY_BYTES_MAX && !key.contains('\n');
        if simple {
            match scalar::style(key) {
                Style::Quoted(quoted) => self.out.push_str(&quoted),
                Style::Plain | Style::Literal => self.plain(key),
            }
        } else {
            self.out.push_str("? ");
            self.text(key, deeper(indent), &[]);
            self.indent(indent);
        }
        self.out.push(':');
        simple
    }

    fn value(&mut self, value: &Node, indent: usize, new_line: bool, inline: &[&Comment]) {
        let is_empty = is_empty(value);
        if new_line && !is_empty {
            self.out.push('\n');
        }
        match value {
            Node::Map(entries) if !is_empty => self.map(entries, indent, new_line),
            Node::List(items) if !is_empty => self.list(items, indent, new_line),
            value => {
                self.out.push(' ');
                self.scalar(value, indent, inline);
            }
        }
    }

    fn list(&mut self, items: &[Node], indent: usize, mut new_line: bool) {
        let mut heads = Vec::new();
        let mut inline = Vec::new();
        for item in items {
            match item {
                Node::Comment(comment) if comment.inline => inline.push(comment),
                Node::Comment(comment) => heads.push(comment),
                item => {
                    self.begin(&std::mem::take(&mut heads), indent, &mut new_line);
                    self.out.push_str("- ");
                    self.item(item, indent + 2, &std::mem::take(&mut inline));
                }
            }
        }
        heads.append(&mut inline);
        self.heads(&heads, indent);
    }

    fn item(&mut self, item: &Node, indent: usize, inline: &[&Comment]) {
        match item {
            Node::Map(entries) if !is_empty(item) => self.map(entries, indent, false),
            Node::List(items) if !is_empty(item) => self.list(items, indent, false),
            item => self.scalar(item, indent, inline),
        }
    }

    fn scalar(&mut self, value: &Node, indent: usize, inline: &[&Comment]) {
        let text = match value {
            Node::Text(text) => return self.bytes(text, indent, inline),
            Node::Null | Node::Comment(_) => "null".to_owned(),
            Node::Bool(flag) => flag.to_string(),
            Node::Int(number) => number.to_string(),
            Node::Float(number) => scalar::float(*number),
            Node::Time(time) => time.clone(),
            Node::List(_) => "[]".to_owned(),
            Node::Map(_) => "{}".to_owned(),
        };
        self.out.push_str(&text);
        self.inline(inline);
    }

    fn bytes(&mut self, text: &Text, indent: usize, inline: &[&Comment]) {
        match text.as_str() {
            Some(text) => self.text(text, indent, inline),
            None => {
                let packed = base64::engine::general_purpose::STANDARD.encode(text.as_bytes());
                self.out.push_str("!!binary ");
                self.out.push_str(&packed);
                self.inline(inline);
            }
        }
    }

    fn text(&mut self, text: &str, indent: usize, inline: &[&Comment]) {
        match scalar::style(text) {
            Style::Plain => self.plain(text),
            Style::Quoted(quoted) => self.out.push_str(&quoted),
            Style::Literal => return self.literal(text, indent, inline),
        }
        self.inline(inline);
    }

    fn plain(&mut self, text: &str) {
        // as in go-yaml, even for a value
        if text == "<<" {
            self.out.push_str("!!merge ");
        }
        self.out.push_str(text);
    }

    fn literal(&mut self, text: &str, indent: usize, inline: &[&Comment]) {
        self.out.push('|');
        if text.starts_with([' ', '\n']) {
            // as in go-yaml, the indicator may differ from the real indentation
            self.out.push_str(&INDENT.to_string());
        }
        let body = text.strip_suffix('\n');
        match body {
            None => self.out.push('-'),
            Some(body) if body.is_empty() || body.ends_with('\n') => self.out.push('+'),
            Some(_) => {}
        }
        self.inline(inline);
        for line in body.unwrap_or(text).split('\n') {
            if !line.is_empty() {
                self.indent(indent);
                self.out.push_str(line);
            }
            self.out.push('\n');
        }
    }

    fn inline(&mut self, comments: &[&Comment]) {
        for (at, comment) in comments.iter().enumerate() {
            self.out.push_str(if at == 0 { " #" } else { "\n#" });
            self.out
                .push_str(&String::from_utf8_lossy(comment.text.as_bytes()));
        }
        self.out.push('\n');
    }

    fn begin(&mut self, heads: &[&Comment], indent: usize, new_line: &mut bool) {
        let (first, rest) = match heads.split_first() {
            Some((first, rest)) if !*new_line => (Some(first), rest),
            _ => (None, heads),
        };
        if let Some(first) = first {
            self.heads(&[first], 0);
            *new_line = true;
        }
        self.heads(rest, indent);
        if *new_line {
            self.indent(indent);
        }
        *new_line = true;
    }

    fn heads(&mut self, comments: &[&Comment], indent: usize) {
        for comment in comments {
            self.indent(indent);
            self.out.push('#');
            self.out
                .push_str(&String::from_utf8_lossy(comment.text.as_bytes()));
            self.out.push('\n');
        }
    }

    fn indent(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }
}

/// Whether a value is written behind its key: scalars, and collections with comments only.
fn is_empty(value: &Node) -> bool {
    match value {
        Node::Map(entries) => !entries.iter().any(|entry| matches!(entry, Entry::Pair { .. })),
        Node::List(items) => items.iter().all(|item| matches!(item, Node::Comment(_))),
        _ => true,
    }
}

/// Below a key, everything aligns to multiples of the indentation.
fn deeper(indent: usize) -> usize {
    INDENT * ((indent + INDENT) / INDENT)
}
