//! Rewrites a text to another value and keeps its form: order of keys, styles, comments.
//!
//! The output is go-yaml v3's for its nodes, with two spaces and list items under their key's first letter:
//! indentation and blank lines are its own, the rest is the text's. Unsupported text gives `None`: anchors,
//! tags, several documents, control characters, comments not attached to a following line.

use super::emit::Shape;
use super::resolve::{Dialect, Resolved, resolve, to_value};
use granit_parser::{Event, Parser, Placement, ScalarStyle, Span, StructureStyle};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

const DEPTH_MAX: usize = 100;

/// Writes `value` in the form of `text`; `None` if the form is not supported.
pub fn rewrite(text: &str, value: &Value) -> Option<String> {
    let mut reader = Reader::of(text)?;
    let mut root = reader.node(0)?;
    if !reader.events.is_empty() {
        return None;
    }
    let mut gone = Vec::new();
    root.set_value(value, &mut gone);
    reader.forget(&gone);
    let last_line = reader.last_line;
    let mut writer = Writer {
        out: String::new(),
        beside: reader.beside,
        above: reader.above,
        letters: reader.letters,
    };
    writer.block(&root, 0, "")?;
    writer.last_comments(last_line)?;
    Some(writer.out)
}

#[derive(Debug)]
struct Node {
    /// Its first and last line; none for a new node.
    lines: Option<(usize, usize)>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Scalar(Scalar),
    List { flow: bool, items: Vec<Node> },
    Map { flow: bool, entries: Vec<(Node, Node)> },
}

#[derive(Debug)]
struct Scalar {
    text: String,
    style: ScalarStyle,
    value: Value,
    /// The short tag of its original value.
    tag: &'static str,
}

#[derive(Debug)]
struct Comment {
    line: usize,
    column: usize,
    text: String,
}

/// Whether a text has only characters that are written verbatim.
fn is_followed(text: &str) -> bool {
    text.chars().all(|character| {
        matches!(character, '\n' | ' '..='~' | '\u{a1}'..='\u{d7ff}')
            && !matches!(character, '\u{2028}' | '\u{2029}')
    })
}

struct Reader {
    events: VecDeque<(Form, usize, usize)>,
    beside: BTreeMap<usize, String>,
    above: VecDeque<Comment>,
    /// The position and character of the first letter of each line.
    letters: Vec<(usize, char)>,
    last_line: usize,
}

enum Form {
    Scalar(String, ScalarStyle),
    List(bool),
    Map(bool),
    End,
}

impl Reader {
    fn of(text: &str) -> Option<Self> {
        if !is_followed(text) {
            return None;
        }
        let mut reader = Self {
            events: VecDeque::new(),
            beside: BTreeMap::new(),
            above: VecDeque::new(),
            letters: Vec::new(),
            last_line: 0,
        };
        reader.letters = text
            .lines()
            .map(|line| {
                let rest = line.trim_start_matches(' ');
                (line.len() - rest.len(), rest.chars().next().unwrap_or_default())
            })
            .collect();
        let mut documents = 0;
        for event in Parser::new_from_str(text) {
            let (event, span) = event.ok()?;
            if matches!(event, Event::DocumentStart(..)) {
                documents += 1;
            }
            reader.event(event, &span)?;
        }
        (documents == 1).then_some(reader)
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Option<()> {
        let (mut first, mut last) = (span.start.line(), span.end.line());
        let form = match event {
            Event::Scalar(text, style, 0, None) => {
                if matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
                    // the header counts, one line above the span
                    first = first.saturating_sub(1).max(1);
                    last = first;
                }
                let absent =
                    style == ScalarStyle::Plain && span.byte_range().is_none_or(|range| range.is_empty());
                let text = if absent { String::new() } else { text.into_owned() };
                Form::Scalar(text, style)
            }
            Event::SequenceStart(style, 0, None) => Form::List(style == StructureStyle::Flow),
            Event::MappingStart(style, 0, None) => Form::Map(style == StructureStyle::Flow),
            Event::SequenceEnd | Event::MappingEnd => Form::End,
            Event::Comment(text, Placement::Right) => {
                self.beside.insert(first, text.into_owned());
                return Some(());
            }
            Event::Comment(text, _) => {
                let text = text.into_owned();
                let column = span.start.col();
                self.above.push_back(Comment {
                    line: first,
                    column,
                    text,
                });
                return Some(());
            }
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentEnd
            | Event::DocumentStart(false, None) => {
                return Some(());
            }
            _ => return None,
        };
        if !matches!(form, Form::End) {
            self.last_line = last;
        }
        self.events.push_back((form, first, last));
        Some(())
    }

    /// Drops the comments on and between these lines, and those above an item.
    fn forget(&mut self, gone: &[(usize, usize)]) {
        let mut gone = gone.to_vec();
        for (first, _) in &mut gone {
            let is_item = |line: usize| matches!(self.letters.get(line - 1), Some((_, '-')));
            let commented = |line: usize| self.above.iter().any(|comment| comment.line == line);
            while *first > 1 && (is_item(*first) || commented(*first)) && commented(*first - 1) {
                *first -= 1;
            }
        }
        let stays = |line: usize| !gone.iter().any(|(first, last)| (*first..=*last).contains(&line));
        self.beside.retain(|line, _| stays(*line));
        self.above.retain(|comment| stays(comment.line));
    }

    fn node(&mut self, depth: usize) -> Option<Node> {
        if depth > DEPTH_MAX {
            return None;
        }
        let (form, first, mut last) = self.events.pop_front()?;
        let kind = match form {
            Form::Scalar(text, style) => {
                let resolved = match style {
                    ScalarStyle::Plain => resolve(Dialect::Yaml12, &text),
                    _ => Resolved::String,
                };
                Kind::Scalar(Scalar {
                    value: to_value(&resolved, &text)?,
                    tag: resolved.tag(),
                    style,
                    text,
                })
            }
            Form::List(flow) => {
                let mut items = Vec::new();
                while !self.at_end(&mut last) {
                    items.push(self.node(depth + 1)?);
                }
                Kind::List { flow, items }
            }
            Form::Map(flow) => {
                let mut entries = Vec::new();
                while !self.at_end(&mut last) {
                    let key = self.node(depth + 1)?;
                    if key.name().is_none_or(|name| name == "<<" || name.contains('\n')) {
                        return None;
                    }
                    entries.push((key, self.node(depth + 1)?));
                }
                Kind::Map { flow, entries }
            }
            Form::End => return None,
        };
        Some(Node {
            lines: Some((first, last)),
            kind,
        })
    }

    fn at_end(&mut self, last: &mut usize) -> bool {
        match self.events.front() {
            Some((Form::End, _, line)) => {
                *last = *line;
                self.events.pop_front();
                true
            }
            Some(_) => false,
            None => true,
        }
    }
}

impl Node {
    /// A node known only by its value.
    fn of(value: &Value) -> Self {
        let scalar = |text: String, tag| {
            let style = match text.contains('\n') {
                true => ScalarStyle::Literal,
                false => ScalarStyle::Plain,
            };
            Kind::Scalar(Scalar {
                text,
                style,
                value: value.clone(),
                tag,
            })
        };
        let kind = match value {
            // a replacement's text has no type of its own
            Value::String(text) if text.is_empty() => scalar(String::new(), "!!null"),
            Value::String(text) => match resolve(Dialect::Yaml12, text) {
                Resolved::Timestamp => scalar(text.clone(), Resolved::Timestamp.tag()),
                _ => scalar(text.clone(), "!!str"),
            },
            Value::Array(items) => Kind::List {
                flow: false,
                items: items.iter().map(Self::of).collect(),
            },
            Value::Object(map) => Kind::Map {
                flow: false,
                entries: map
                    .iter()
                    .map(|(key, value)| (Self::of(&key.as_str().into()), Self::of(value)))
                    .collect(),
            },
            other => {
                let text = crate::json::to_go_string(other);
                let tag = resolve(Dialect::Yaml12, &text).tag();
                scalar(text, tag)
            }
        };
        Self { lines: None, kind }
    }

    fn name(&self) -> Option<String> {
        match &self.kind {
            Kind::Scalar(scalar) => match &scalar.value {
                Value::String(text) => Some(text.clone()),
                Value::Null => None,
                other => Some(crate::json::to_go_string(other)),
            },
            Kind::List { .. } | Kind::Map { .. } => None,
        }
    }

    fn last_line(&self) -> usize {
        let own = self.lines.map_or(0, |(_, last)| last);
        match &self.kind {
            Kind::List { flow: false, items } => items.last().map_or(own, Self::last_line),
            Kind::Map { flow: false, entries } => entries.last().map_or(own, |(_, value)| value.last_line()),
            _ => own,
        }
    }

    /// Changes the node to a value; unchanged parts keep their spelling. Collects the lines of removed parts.
    fn set_value(&mut self, value: &Value, gone: &mut Vec<(usize, usize)>) {
        match (&mut self.kind, value) {
            (Kind::Map { entries, flow }, Value::Object(map)) => {
                // in a flow collection comments belong to the whole
                let mut kept = Vec::new();
                let gone = if *flow { &mut kept } else { gone };
                entries.retain(|(key, _)| key.name().is_some_and(|name| map.contains_key(&name)));
                let mut known = Vec::with_capacity(entries.len());
                for (key, node) in entries.iter_mut() {
                    let name = key.name().unwrap_or_default();
                    if let Some(value) = map.get(&name) {
                        node.set_value(value, gone);
                    }
                    known.push(name);
                }
                for (key, value) in map.iter().filter(|(key, _)| !known.contains(key)) {
                    entries.push((Self::of(&key.as_str().into()), Self::of(value)));
                }
            }
            (Kind::List { items, flow }, Value::Array(values)) => {
                let mut kept = Vec::new();
                let gone = if *flow { &mut kept } else { gone };
                items.truncate(values.len());
                for (item, value) in items.iter_mut().zip(values) {
                    item.set_value(value, gone);
                }
                let more = values.iter().skip(items.len()).map(Self::of);
                items.extend(more.collect::<Vec<_>>());
            }
            (_, Value::Object(_) | Value::Array(_)) | (Kind::Map { .. } | Kind::List { .. }, _) => {
                if let Some((first, _)) = self.lines {
                    gone.push((first, self.last_line()));
                }
                *self = Self::of(value);
            }
            (Kind::Scalar(scalar), value) if scalar.value != *value => {
                scalar.text = match value {
                    Value::String(text) => text.clone(),
                    other => crate::json::to_go_string(other),
                };
                scalar.value = value.clone();
            }
            (Kind::Scalar(_), _) => {}
        }
    }

    /// Whether it is written on lines of its own, below its key.
    fn is_block(&self) -> bool {
        match &self.kind {
            Kind::Scalar(_) => false,
            Kind::List { flow, items } => !flow && !items.is_empty(),
            Kind::Map { flow, entries } => !flow && !entries.is_empty(),
        }
    }

    fn inline(&self, in_flow: bool) -> Option<String> {
        match &self.kind {
            Kind::Scalar(scalar) => scalar.inline(in_flow),
            Kind::List { items, .. } => {
                let items: Option<Vec<String>> = items.iter().map(|item| item.inline(true)).collect();
                Some(format!("[{}]", items?.join(", ")))
            }
            Kind::Map { entries, .. } => {
                let entries: Option<Vec<String>> = entries
                    .iter()
                    .map(|(key, value)| Some(format!("{}: {}", key.inline(true)?, value.inline(true)?)))
                    .collect();
                Some(format!("{{{}}}", entries?.join(", ")))
            }
        }
    }
}

impl Scalar {
    fn inline(&self, in_flow: bool) -> Option<String> {
        let text = &self.text;
        if !is_followed(text) {
            return None;
        }
        let shape = Shape::of(text);
        let resolved = resolve(Dialect::Yaml12, text);
        let single = || match shape.single && !text.contains('\n') {
            true => format!("'{}'", text.replace('\'', "''")),
            false => double(text),
        };
        match self.style {
            ScalarStyle::Plain if self.tag == "!!str" && resolved != Resolved::String => Some(double(text)),
            ScalarStyle::Plain => {
                // go-yaml keeps a value's type with an explicit tag
                let tag = match resolved.tag() == self.tag {
                    true => String::new(),
                    false => format!("{} ", self.tag),
                };
                let flow_indicators = [',', '[', ']', '{', '}', '?', ':'];
                let plain = shape.plain && !(in_flow && (text.contains(flow_indicators) || text.is_empty()));
                let written = tag + &if plain { text.clone() } else { single() };
                Some(written.trim_end().to_owned())
            }
            ScalarStyle::SingleQuoted if text.contains('\n') => None,
            ScalarStyle::SingleQuoted => Some(single()),
            ScalarStyle::DoubleQuoted | ScalarStyle::Literal | ScalarStyle::Folded => Some(double(text)),
        }
    }

    /// The lines of a literal or folded text, its header first; none if it is written on one line.
    fn block(&self) -> Option<Vec<String>> {
        let header = match self.style {
            ScalarStyle::Literal => '|',
            ScalarStyle::Folded if !self.text.trim_end_matches('\n').contains('\n') => '>',
            _ => return None,
        };
        let text = &self.text;
        if text.trim().is_empty() || !is_followed(text) || !Shape::of(text).block {
            return None;
        }
        let hint = if text.starts_with([' ', '\n']) { "2" } else { "" };
        let content = text.strip_suffix('\n');
        let chomp = match content {
            None => "-",
            Some(content) if content.ends_with('\n') => "+",
            Some(_) => "",
        };
        let mut lines = vec![format!("{header}{hint}{chomp}")];
        lines.extend(content.unwrap_or(text).split('\n').map(str::to_owned));
        Some(lines)
    }
}

fn double(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}

struct Writer {
    out: String,
    beside: BTreeMap<usize, String>,
    above: VecDeque<Comment>,
    letters: Vec<(usize, char)>,
}

impl Writer {
    /// Writes a block collection, or a whole flow text. `lead` precedes its first line.
    fn block(&mut self, node: &Node, indent: usize, lead: &str) -> Option<()> {
        let pad = " ".repeat(indent);
        match &node.kind {
            Kind::Map { entries, .. } if node.is_block() => {
                for (at, (key, value)) in entries.iter().enumerate() {
                    self.comments_above(key, indent, false, at == 0 && lead != pad)?;
                    self.out.push_str(if at == 0 { lead } else { &pad });
                    self.out.push_str(&key.inline(false)?);
                    self.out.push(':');
                    self.value(key, value, indent)?;
                }
            }
            Kind::List { items, .. } if node.is_block() => {
                for (at, item) in items.iter().enumerate() {
                    let lead = if at == 0 { lead } else { &pad };
                    self.comments_above(item, indent, true, at == 0 && lead != pad)?;
                    if item.is_block() {
                        self.block(item, indent + 2, &format!("{lead}- "))?;
                    } else {
                        self.out.push_str(lead);
                        self.out.push('-');
                        self.value(item, item, indent)?;
                    }
                }
            }
            _ => {
                self.out.push_str(&node.inline(false)?);
                self.comment_beside(node.lines.map(|(_, last)| last));
            }
        }
        Some(())
    }

    /// Writes the value after a key's colon or an item's dash, up to the end of its line or lines.
    fn value(&mut self, key: &Node, value: &Node, indent: usize) -> Option<()> {
        let key_line = key.lines.map(|(first, _)| first);
        if value.is_block() {
            self.comment_beside(key_line);
            let is_map = matches!(value.kind, Kind::Map { .. });
            let indent = if is_map { indent + 2 } else { indent };
            return self.block(value, indent, &" ".repeat(indent));
        }
        let lines = match &value.kind {
            Kind::Scalar(scalar) => scalar.block(),
            Kind::List { .. } | Kind::Map { .. } => None,
        };
        let mut lines = match lines {
            Some(lines) => lines.into_iter(),
            None => vec![value.inline(false)?].into_iter(),
        };
        let first = lines.next().unwrap_or_default();
        if !first.is_empty() {
            self.out.push(' ');
            self.out.push_str(&first);
        }
        let value_line = value.lines.map(|(_, last)| last);
        let commented = value_line.is_some_and(|line| self.beside.contains_key(&line));
        self.comment_beside(if commented { value_line } else { key_line });
        for line in lines {
            if !line.is_empty() {
                self.out.push_str(&" ".repeat(indent + 2));
                self.out.push_str(&line);
            }
            self.out.push('\n');
        }
        Some(())
    }

    fn comment_beside(&mut self, line: Option<usize>) {
        if let Some(comment) = line.and_then(|line| self.beside.remove(&line)) {
            self.out.push_str(" #");
            self.out.push_str(&comment);
        }
        self.out.push('\n');
    }

    /// Writes the comments above an entry. A blank line below one of them stays.
    fn comments_above(
        &mut self,
        entry: &Node,
        indent: usize,
        is_item: bool,
        inside_line: bool,
    ) -> Option<()> {
        let Some((line, _)) = entry.lines else {
            return Some(());
        };
        let (column, letter) = *self.letters.get(line - 1)?;
        while self.above.front().is_some_and(|comment| comment.line < line) {
            let comment = self.above.pop_front()?;
            let dash_is_above = is_item && letter != '-';
            if inside_line || dash_is_above || comment.column != column {
                return None;
            }
            self.own_line(&comment, indent);
            let next = self.above.front().map_or(line, |next| next.line.min(line));
            if next > comment.line + 1 {
                self.out.push('\n');
            }
        }
        Some(())
    }

    fn own_line(&mut self, comment: &Comment, indent: usize) {
        self.out.push_str(&" ".repeat(indent));
        self.out.push('#');
        self.out.push_str(&comment.text);
        self.out.push('\n');
    }

    /// Writes the comments at the end; `None` if some comment has no place.
    fn last_comments(&mut self, last: usize) -> Option<()> {
        let mut last = last;
        while let Some(comment) = self.above.pop_front() {
            if comment.column != 0 || comment.line != last + 1 {
                return None;
            }
            last = comment.line;
            self.own_line(&comment, 0);
        }
        self.beside.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::{Options, load};
    use serde_json::json;

    fn value(text: &str) -> Value {
        let options = Options {
            dialect: Dialect::Yaml12,
            ..Options::default()
        };
        load(text, &options).unwrap().remove(0).value
    }

    /// go-yaml v3's output, recorded from kustomize's replacements.
    #[test]
    fn a_text_keeps_its_form() {
        let before = "# top comment

# head of z
z: 1   # line of z


# head of a
a:  # line of a
  # head of b
  b: \"old\"  # line of b
  c: 'single'
  d: |
    lit
    two
  e: >-
    folded text
    more
  f: [1, 'x', \"y\", {k: v}]   # flow
  g: {}
  h: []
  \"q k\": ~
  i:
  - x
  # before item
  - y: 1
    z: 2
  - - n1
    - n2
  j:
    - deep: yes
      er: 0x10
# foot of a

m: 2020-01-01
# last
";
        let after = "# top comment

# head of z
z: 1 # line of z
# head of a
a: # line of a
  # head of b
  b: \"X\" # line of b
  c: 'single'
  d: |
    lit
    two
  e: >-
    folded text more
  f: [1, 'x', \"y\", {k: v}] # flow
  g: {}
  h: []
  \"q k\": ~
  i:
  - x
  # before item
  - y: 1
    z: 2
  - - n1
    - n2
  j:
  - deep: yes
    er: 0x10
# foot of a

m: 2020-01-01
# last
";
        let mut changed = value(before);
        changed["a"]["b"] = "X".into();
        assert_eq!(rewrite(before, &changed).as_deref(), Some(after));
    }

    #[test]
    fn a_scalar_keeps_its_style_and_type() {
        let check = |before: &str, new: Value, expected: Option<&str>| {
            let mut changed = value(before);
            changed["a"] = new;
            assert_eq!(rewrite(before, &changed).as_deref(), expected, "{before}");
        };
        check("a: x\n", "3".into(), Some("a: \"3\"\n"));
        check("a: 1\n", 3.into(), Some("a: 3\n"));
        check("a: \"x\"\n", "3".into(), Some("a: \"3\"\n"));
        check("a: 'x'\n", "it's".into(), Some("a: 'it''s'\n"));
        check("a: true\n", 3.into(), Some("a: !!bool 3\n"));
        check("a: 1\n", "b: c".into(), Some("a: !!int 'b: c'\n"));
        check("a: 1\n", "".into(), Some("a: !!int\n"));
        check("a: |\n  text\n", "3".into(), Some("a: |-\n  3\n"));
        check("{a: x, b: [y]}\n", "z,".into(), Some("{a: 'z,', b: [y]}\n"));
        check("b: c\n", json!({"d": ["e"]}), Some("b: c\na:\n  d:\n  - e\n"));
        // unsupported
        check("a: &x 1\n", 3.into(), None);
        check("a: !!str 1\n", 3.into(), None);
        check("b:\n  c: 1\n  # of nothing that follows\na: 1\n", 3.into(), None);
        check("--- \na: 1\n", 3.into(), None);
    }
}
