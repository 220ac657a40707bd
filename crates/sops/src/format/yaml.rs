//! YAML with its order and comments.
//!
//! The loader of `manifest` returns sorted maps without comments. A MAC needs the order, and some rules
//! need comments, so this is a second, smaller loader over the same parser. It reads the subset that
//! go-yaml v3 writes. Aliases are resolved, and as in SOPS, `<<` is an ordinary key.
//!
//! Refused: repeated keys, keys other than strings, documents other than mappings, tags except `!!str`,
//! `!!merge` and `!!binary`, infinities, and integers beyond 64 bits.
//!
//! A comment belongs to the key or item below it if it is indented at least as far as its collection,
//! otherwise to an outer one. A comment behind a value precedes that value's key in the tree.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use granit_parser::{Event, Marker, Options, Parser, Placement, ScalarStyle, Span, Tag};

use super::{FormatError, scalar};
use crate::budget::{Budget, Exhausted, cost};
use crate::tree::{Comment, Entry, Node};

const YAML_TAGS: &str = "tag:yaml.org,2002:";

const DOCUMENTS_MAX: usize = 1_000;

pub(super) fn read(text: &str, budget: &Budget<'_>) -> Result<Vec<Vec<Entry>>, FormatError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let limits = budget.limits();
    let mut options = Options::default();
    options.set_emit_comments(true);
    options.max_buffered_comment_events = limits.entries_max;
    options.flow_nesting_limit = limits.depth_max;
    options.block_nesting_limit = limits.depth_max;
    let mut reader = Reader::new(budget);
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| at(error.marker(), error.info()))?;
        reader.event(event, &span)?;
    }
    Ok(reader.done)
}

fn at(marker: &Marker, fault: impl Into<String>) -> FormatError {
    FormatError::Syntax {
        line: marker.line(),
        column: marker.col() + 1,
        fault: fault.into(),
    }
}

struct Pending {
    comment: Comment,
    column: usize,
}

fn exhausted(span: &Span, source: Exhausted) -> FormatError {
    FormatError::Exhausted {
        line: span.start.line(),
        column: span.start.col() + 1,
        source,
    }
}

struct Reader<'b> {
    budget: &'b Budget<'b>,
    frames: Vec<Frame>,
    pending: Vec<Pending>,
    /// Anchored nodes and their costs.
    anchors: HashMap<usize, (Node, usize)>,
    root: Option<Node>,
    done: Vec<Vec<Entry>>,
}

struct Frame {
    column: usize,
    anchor: usize,
    spent_before: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        keys: HashSet<String>,
        key: Option<String>,
    },
}

impl Content {
    fn comment(&mut self, comment: Comment) {
        match self {
            Self::List(items) => items.push(Node::Comment(comment)),
            Self::Map { entries, .. } => entries.push(Entry::Comment(comment)),
        }
    }

    /// Adds a comment before the last value, if that is a scalar.
    fn inline(&mut self, comment: Comment) {
        let scalar = |node: &Node| !matches!(node, Node::List(_) | Node::Map(_) | Node::Comment(_));
        match self {
            Self::List(items) => match items.pop_if(|node| scalar(node)) {
                Some(last) => items.extend([Node::Comment(comment), last]),
                None => self.comment(Comment {
                    inline: false,
                    ..comment
                }),
            },
            Self::Map { entries, key, .. } => {
                let complete = key.is_none();
                let last = entries
                    .pop_if(|entry| complete && matches!(entry, Entry::Pair { value, .. } if scalar(value)));
                match last {
                    Some(last) => entries.extend([Entry::Comment(comment), last]),
                    None => self.comment(Comment {
                        inline: false,
                        ..comment
                    }),
                }
            }
        }
    }

    fn wants_key(&self) -> bool {
        matches!(self, Self::Map { key: None, .. })
    }
}

impl<'b> Reader<'b> {
    fn new(budget: &'b Budget<'b>) -> Self {
        Self {
            budget,
            frames: Vec::new(),
            pending: Vec::new(),
            anchors: HashMap::new(),
            root: None,
            done: Vec::new(),
        }
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), FormatError> {
        match event {
            Event::Comment(text, placement) => {
                self.count(cost(text.len()), span)?;
                self.comment(&text, placement, span);
            }
            Event::DocumentStart(..) => {
                self.anchors.clear();
                self.root = None;
            }
            Event::DocumentEnd => self.end_document(span)?,
            Event::Scalar(text, style, anchor, tag) => {
                let absent =
                    style == ScalarStyle::Plain && span.byte_range().is_none_or(|range| range.is_empty());
                let text = if absent { "" } else { &text };
                if self.wants_key() {
                    return self.key(text, style, tag.as_deref(), span);
                }
                if self.frames.is_empty() && absent {
                    return Ok(());
                }
                self.place_pending();
                let node = scalar_node(text, style, tag.as_deref(), span)?;
                self.finish(node, anchor, cost(text.len()), span)?;
            }
            Event::SequenceStart(_, anchor, _) => self.open(Content::List(Vec::new()), anchor, span)?,
            Event::MappingStart(_, anchor, _) => {
                let content = Content::Map {
                    entries: Vec::new(),
                    keys: HashSet::new(),
                    key: None,
                };
                self.open(content, anchor, span)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span)?,
            Event::Alias(id) => {
                if self.wants_key() {
                    return Err(at(&span.start, "a key is an alias"));
                }
                let known = self.anchors.get(&id).cloned();
                let (node, spent) = known.ok_or_else(|| at(&span.start, "an alias refers to itself"))?;
                self.place_pending();
                self.finish(node, 0, spent, span)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn comment(&mut self, text: &str, placement: Placement, span: &Span) {
        let inline = placement == Placement::Right;
        let comment = Comment {
            text: text.into(),
            inline,
        };
        match self.frames.last_mut() {
            Some(frame) if inline => frame.content.inline(comment),
            _ => self.pending.push(Pending {
                comment: Comment {
                    inline: false,
                    ..comment
                },
                column: span.start.col(),
            }),
        }
    }

    fn wants_key(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.content.wants_key())
    }

    fn place_pending(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            for pending in self.pending.drain(..) {
                frame.content.comment(pending.comment);
            }
        }
    }

    fn key(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: &Span,
    ) -> Result<(), FormatError> {
        self.place_pending();
        let node = match text {
            "<<" => Node::Text(text.into()),
            _ => scalar_node(text, style, tag, span)?,
        };
        let name = node
            .as_str()
            .ok_or_else(|| at(&span.start, format!("a key is {} and not a string", node.kind())))?;
        self.budget.key(name).map_err(|source| exhausted(span, source))?;
        let Some(Frame {
            content: Content::Map { keys, key, .. },
            ..
        }) = self.frames.last_mut()
        else {
            return Ok(());
        };
        if !keys.insert(name.to_owned()) {
            return Err(at(&span.start, format!("the key {name:?} appears twice")));
        }
        *key = Some(name.to_owned());
        Ok(())
    }

    fn open(&mut self, content: Content, anchor: usize, span: &Span) -> Result<(), FormatError> {
        if self.wants_key() {
            return Err(at(&span.start, "a key is a collection"));
        }
        if matches!(
            self.frames.last().map(|frame| &frame.content),
            Some(Content::List(_))
        ) {
            self.place_pending();
        }
        self.count(1, span)?;
        self.frames.push(Frame {
            column: span.start.col(),
            anchor,
            spent_before: self.budget.spent(),
            content,
        });
        Ok(())
    }

    fn close(&mut self, span: &Span) -> Result<(), FormatError> {
        let Some(mut frame) = self.frames.pop() else {
            return Ok(());
        };
        // a list may be indented like its key; later comments belong to the key
        let outer = self.frames.last().map(|frame| frame.column);
        let mine = match (&frame.content, outer) {
            (Content::List(_), Some(outer)) if outer == frame.column => frame.column + 1,
            _ => frame.column,
        };
        let count = self
            .pending
            .iter()
            .take_while(|pending| pending.column >= mine)
            .count();
        for pending in self.pending.drain(..count) {
            frame.content.comment(pending.comment);
        }
        let node = match frame.content {
            Content::List(items) => Node::List(items),
            Content::Map { entries, .. } => Node::Map(entries),
        };
        let spent = self.budget.spent() - frame.spent_before;
        self.add(node, frame.anchor, spent, span)
    }

    fn finish(&mut self, node: Node, anchor: usize, spent: usize, span: &Span) -> Result<(), FormatError> {
        self.count(spent, span)?;
        self.add(node, anchor, spent, span)
    }

    fn add(&mut self, node: Node, anchor: usize, spent: usize, span: &Span) -> Result<(), FormatError> {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), spent));
        }
        match self.frames.last_mut().map(|frame| &mut frame.content) {
            None => self.root = Some(node),
            Some(Content::List(items)) => items.push(node),
            Some(Content::Map { entries, key, .. }) => match key.take() {
                Some(key) => entries.push(Entry::Pair { key, value: node }),
                None => return Err(at(&span.start, "a key is a collection")),
            },
        }
        Ok(())
    }

    fn count(&self, entries: usize, span: &Span) -> Result<(), FormatError> {
        let counted = self.budget.entries(entries);
        counted.map_err(|source| exhausted(span, source))
    }

    fn end_document(&mut self, span: &Span) -> Result<(), FormatError> {
        if self.done.len() == DOCUMENTS_MAX {
            return Err(at(
                &span.start,
                format!("there are more than {DOCUMENTS_MAX} documents"),
            ));
        }
        let mut entries = match self.root.take() {
            None | Some(Node::Null) => Vec::new(),
            Some(Node::Map(entries)) => entries,
            Some(node) => {
                let fault = format!("the document is {} and not a mapping", node.kind());
                return Err(at(&span.start, fault));
            }
        };
        let rest = self.pending.drain(..);
        entries.extend(rest.map(|pending| Entry::Comment(pending.comment)));
        self.done.push(entries);
        Ok(())
    }
}

/// Errors do not quote the value.
fn scalar_node(text: &str, style: ScalarStyle, tag: Option<&Tag>, span: &Span) -> Result<Node, FormatError> {
    let core = tag.map(|tag| tag.suffix_in_namespace(YAML_TAGS));
    match (tag, core.flatten().as_deref()) {
        (None, _) if style == ScalarStyle::Plain => scalar::resolve(text).ok_or_else(|| {
            at(
                &span.start,
                "a number that is infinite, NaN or beyond 64 bits, which SOPS cannot store",
            )
        }),
        (None, _) | (Some(_), Some("str" | "merge")) => Ok(Node::Text(text.into())),
        (Some(_), Some("binary")) => {
            let packed: String = text.split_ascii_whitespace().collect();
            match base64::engine::general_purpose::STANDARD.decode(packed) {
                Ok(bytes) => Ok(Node::Text(bytes.as_slice().into())),
                Err(_) => Err(at(&span.start, "a value tagged !!binary is not base64")),
            }
        }
        (Some(tag), _) => Err(at(&span.start, format!("the tag {tag} is not supported"))),
    }
}
