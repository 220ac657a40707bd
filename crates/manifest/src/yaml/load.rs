//! Loads YAML from granit-parser's events, within limits.

use super::copies::Copies;
use super::error::{Fault, YamlError};
use super::place::{Place, Spans};
use super::resolve::{Dialect, Resolved, resolve, to_value};
use super::{fold, libyaml};
use base64::Engine as _;
use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, Span, Tag};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

const YAML_TAGS: &str = "tag:yaml.org,2002:";

/// The cost of a parser's event, in steps of ten nanoseconds.
const EVENT_STEPS: usize = 60;
/// The events between two calls of the watch.
const WATCHED_EVENTS: usize = 256;

/// The most bytes of JSON pointers: a long key repeats in those of all values below it.
const POINTER_BYTES_MAX: usize = 256 << 20;

/// Rules and limits for loading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The rules for plain scalars.
    pub dialect: Dialect,
    /// The handling of repeated keys.
    pub duplicates: Duplicates,
    /// Whether to record the places of values.
    pub spans: bool,
    /// The handling of folded texts (`>`).
    pub folded: Folded,
    /// The longest input, in bytes.
    pub bytes_max: usize,
    /// The deepest nesting.
    pub depth_max: usize,
    /// The most values in all documents, with aliases expanded.
    pub nodes_max: usize,
    /// The most documents.
    pub documents_max: usize,
}

impl Default for Options {
    /// YAML 1.1, duplicates refused, no spans, 16 MiB, 200 levels, a million nodes, 10,000 documents.
    fn default() -> Self {
        Self {
            dialect: Dialect::Yaml11,
            duplicates: Duplicates::Refuse,
            spans: false,
            folded: Folded::AsRead,
            bytes_max: 16 << 20,
            depth_max: 200,
            nodes_max: 1_000_000,
            documents_max: 10_000,
        }
    }
}

/// The handling of repeated keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// They are an error.
    #[default]
    Refuse,
    /// The last value wins and [`Document::duplicates`] lists them.
    Collect,
}

/// The handling of folded texts (`>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Folded {
    /// As YAML defines it.
    #[default]
    AsRead,
    /// As go-yaml v3 leaves them after writing and reading them, which adds or drops some breaks.
    Rewritten {
        /// The path of a mapping whose own texts follow YAML nevertheless.
        but_in: &'static [&'static str],
    },
}

/// One document.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its value.
    pub value: Value,
    /// The start of its content.
    pub place: Place,
    /// Its repeated keys, with [`Duplicates::Collect`].
    pub duplicates: Vec<Duplicate>,
    /// The places of its values, with [`Options::spans`].
    pub spans: Spans,
}

/// A repeated key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The key.
    pub key: String,
    /// The place of its second occurrence.
    pub place: Place,
}

/// Loads all documents of a text. Documents with only comments are skipped.
pub fn load(text: &str, options: &Options) -> Result<Vec<Document>, YamlError> {
    load_watched(text, options, &mut |_| true)
}

/// Is called every few hundred microseconds with the work since, in steps of some ten nanoseconds. False ends
/// the work with [`Fault::Stopped`].
pub type Watch<'w> = dyn FnMut(usize) -> bool + 'w;

/// [`load`] that can be watched and stopped.
pub fn load_watched(
    text: &str,
    options: &Options,
    watch: &mut Watch<'_>,
) -> Result<Vec<Document>, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > options.bytes_max {
        return Err(YamlError {
            line: 1,
            column: 1,
            fault: Fault::Bytes(options.bytes_max),
        });
    }
    match super::plain::read(text, options, watch) {
        Some(documents) => Ok(documents),
        None => documents(text, options, false, watch),
    }
}

/// Loads the first document of a text and nothing after it. `None` if it is empty.
pub fn load_first(text: &str, options: &Options) -> Result<Option<Document>, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let begins_another = |line: &str| line.starts_with("---") || line.starts_with("...");
    if text.lines().any(begins_another) && text.len() <= options.bytes_max {
        return Ok(documents(text, options, true, &mut |_| true)?.pop());
    }
    let mut all = load(text, options)?;
    all.truncate(1);
    Ok(all.pop())
}

/// Loads documents; indents quoted lines that granit refuses.
pub(super) fn documents(
    text: &str,
    options: &Options,
    first_only: bool,
    watch: &mut Watch<'_>,
) -> Result<Vec<Document>, YamlError> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..libyaml::moves_max(&text) {
        match read(&text, options, first_only, watch) {
            Err((_, Some(line))) if !options.spans => {
                text = Cow::Owned(libyaml::moved(&text, line));
            }
            read => return read.map_err(|(error, _)| error),
        }
    }
    read(&text, options, first_only, watch).map_err(|(error, _)| error)
}

/// Loads documents once; the error for an unindented quoted line has its place.
fn read(
    text: &str,
    options: &Options,
    first_only: bool,
    watch: &mut Watch<'_>,
) -> Result<Vec<Document>, (YamlError, Option<usize>)> {
    let mut parser_options = granit_parser::Options::default();
    parser_options.set_emit_comments(false);
    parser_options.flow_nesting_limit = options.depth_max;
    parser_options.block_nesting_limit = options.depth_max;
    let mut loader = Loader {
        text,
        options,
        frames: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        copies: Copies::default(),
        pointer_bytes: 0,
        passed: Passed::default(),
        done: Vec::new(),
        current: None,
    };
    let mut unwatched = 0;
    for event in Parser::new_from_str_with_options(text, parser_options) {
        unwatched += 1;
        if unwatched == WATCHED_EVENTS && !watch(std::mem::take(&mut unwatched) * EVENT_STEPS) {
            let marker = event.map_or_else(|error| *error.marker(), |(_, span)| span.start);
            return Err((at(&marker, Fault::Stopped), None));
        }
        let (event, span) = event.map_err(|error| {
            let is_of_quotes = *error.kind() == ErrorKind::InvalidQuotedScalarIndent;
            let line = error.marker().byte_offset().filter(|_| is_of_quotes);
            (at(error.marker(), Fault::Syntax(error.info())), line)
        })?;
        let ends = matches!(event, Event::DocumentEnd);
        loader.event(event, &span).map_err(|error| (error, None))?;
        if ends && first_only {
            break;
        }
    }
    // a text that ends here is complete
    watch(unwatched * EVENT_STEPS);
    Ok(loader.done)
}

fn at(marker: &Marker, fault: Fault) -> YamlError {
    YamlError {
        line: marker.line(),
        column: marker.col() + 1,
        fault,
    }
}

struct Loader<'t> {
    text: &'t str,
    options: &'t Options,
    /// The open collections, outermost first.
    frames: Vec<Frame>,
    /// Finished anchored values of the current document, with their node counts.
    anchors: HashMap<usize, (Value, usize)>,
    nodes: usize,
    copies: Copies,
    pointer_bytes: usize,
    passed: Passed,
    done: Vec<Document>,
    current: Option<Document>,
}

#[derive(Debug, Default)]
struct Passed {
    end: usize,
    /// After a plain scalar, the spaces before a tab that continues its line.
    goes_on: Option<usize>,
}

struct Frame {
    content: Content,
    anchor: usize,
    start: Marker,
    flow: bool,
    /// The node count when it was opened.
    nodes_before: usize,
}

enum Content {
    List(Vec<Value>),
    Map {
        map: Map<String, Value>,
        /// The keys merged by `<<` and not overridden.
        merged: BTreeSet<String>,
        key: Key,
    },
}

enum Key {
    /// A key is next.
    Wanted,
    /// The value of this key is next.
    Is(String),
    /// A value to merge is next.
    Merge,
}

impl Loader<'_> {
    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), YamlError> {
        match event {
            Event::DocumentStart(..) => {
                let start = span.end.byte_offset().unwrap_or_default();
                let before = self.text.get(self.passed.end..start).unwrap_or_default();
                let is_first = self.passed.end == 0 && self.done.is_empty();
                libyaml::check_before_document(before, is_first, self.options.dialect)
                    .map_err(|what| at(&span.start, Fault::Syntax(what.to_owned())))?;
                self.anchors.clear();
                self.current = None;
            }
            Event::DocumentEnd => {
                self.no_tab_lines(span)?;
                if let Some(document) = self.current.take() {
                    if self.done.len() == self.options.documents_max {
                        return Err(at(&span.start, Fault::Documents(self.options.documents_max)));
                    }
                    self.done.push(document);
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.starts(span)?;
                // granit gives absent scalars the text `~`
                let absent =
                    style == ScalarStyle::Plain && span.byte_range().is_none_or(|range| range.is_empty());
                let text = if absent { Cow::Borrowed("") } else { text };
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                if block
                    && !libyaml::has_indentation_indicator(self.text, span)
                    && text.trim_start_matches(['\n', ' ']).starts_with('\t')
                {
                    // libyaml counts it as indentation
                    return Err(at(&span.start, Fault::Tab));
                }
                if style == ScalarStyle::DoubleQuoted
                    && let Some(written) = span.byte_range().and_then(|range| self.text.get(range))
                    && libyaml::escapes_a_slash(written)
                {
                    let what = "found unknown escape character".to_owned();
                    return Err(at(&span.start, Fault::Syntax(what)));
                }
                let text = self.without_invented_break(text, style, span);
                let text = match style {
                    ScalarStyle::Folded if self.rewrites() => {
                        fold::after_go_yaml(&text).map_or(text, Cow::Owned)
                    }
                    _ => text,
                };
                if self.frames.is_empty() && absent && tag.is_none() && anchor == 0 {
                    return Ok(());
                }
                if self.is_merge_key(&text, style, tag.as_deref()) {
                    if let Some(Frame {
                        content: Content::Map { key, .. },
                        ..
                    }) = self.frames.last_mut()
                    {
                        *key = Key::Merge;
                    }
                    return Ok(());
                }
                self.passes(span, style == ScalarStyle::Plain && !absent);
                let scalar = self.scalar(text, style, tag.as_deref(), span)?;
                self.finish(scalar, anchor, span.start, span, 1)?;
            }
            Event::SequenceStart(style, anchor, _) => {
                self.open(Content::List(Vec::new()), style, anchor, span)?;
            }
            Event::MappingStart(style, anchor, _) => {
                let content = Content::Map {
                    map: Map::new(),
                    merged: BTreeSet::new(),
                    key: Key::Wanted,
                };
                self.open(content, style, anchor, span)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.frames.pop() else {
                    return Ok(());
                };
                if frame.flow {
                    self.passes(span, false);
                }
                let value = match frame.content {
                    Content::List(items) => Value::Array(items),
                    Content::Map { map, .. } => Value::Object(map),
                };
                let nodes = self.nodes - frame.nodes_before;
                self.finish(Scalar::plain(value), frame.anchor, frame.start, span, nodes)?;
            }
            Event::Alias(id) => {
                self.starts(span)?;
                self.passes(span, false);
                let nodes = self.anchors.get(&id).map(|(_, nodes)| *nodes);
                self.count(nodes.unwrap_or_default(), span)?;
                let known = self.anchors.get(&id);
                let (value, nodes) = known.ok_or_else(|| at(&span.start, Fault::Cycle))?;
                let copied = self.copies.add(value);
                copied.map_err(|fault| at(&span.start, fault))?;
                let (value, nodes) = (value.clone(), *nodes);
                let scalar = Scalar {
                    key: key_text(&value),
                    value,
                };
                self.finish(scalar, 0, span.start, span, nodes)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks for every node: the tab rule (granit accepts tabs as indentation, go-yaml does not) and the
    /// budget.
    fn starts(&mut self, span: &Span) -> Result<(), YamlError> {
        let flow = self.frames.last().is_some_and(|frame| frame.flow);
        if !flow && let Some(start) = span.start.byte_offset() {
            let before = &self.text[..start.min(self.text.len())];
            let line = before
                .rfind(['\n', '\r'])
                .map_or(before, |end| &before[end + 1..]);
            if line.contains('\t')
                && (line.trim_matches([' ', '\t']).is_empty() || libyaml::is_tab_behind_indicator(line))
            {
                return Err(at(&span.start, Fault::Tab));
            }
            self.no_tab_lines(span)?;
        }
        Ok(())
    }

    /// Refuses lines that begin with a tab between the last token and this one, blank lines and comments
    /// included: granit skips them, libyaml does not.
    fn no_tab_lines(&self, span: &Span) -> Result<(), YamlError> {
        let until = span.start.byte_offset().unwrap_or_default();
        let Some(between) = self.text.get(self.passed.end..until) else {
            return Ok(());
        };
        let mut goes_on = self.passed.goes_on;
        let mut begin = self.passed.end;
        if begin > 0 {
            begin += between.find('\n').map_or(0, |end| end + 1);
        }
        for line in between.split('\n').skip(usize::from(self.passed.end > 0)) {
            let spaces = line.len() - line.trim_start_matches(' ').len();
            let rest = &line[spaces..];
            if rest.starts_with('\t') && goes_on.is_none_or(|least| spaces < least)
                || libyaml::is_tab_behind_indicator(line)
            {
                return Err(YamlError {
                    line: 1 + self.text[..begin].matches('\n').count(),
                    column: spaces + 1,
                    fault: Fault::Tab,
                });
            }
            if rest.starts_with('#') {
                goes_on = None;
            }
            begin += line.len() + 1;
        }
        Ok(())
    }

    fn passes(&mut self, span: &Span, plain: bool) {
        if let Some(end) = span.end.byte_offset() {
            let column = self.frames.last().map_or(0, |frame| frame.start.col());
            self.passed = Passed {
                end,
                goes_on: plain.then_some(column + 1),
            };
        }
    }

    fn count(&mut self, nodes: usize, span: &Span) -> Result<(), YamlError> {
        self.nodes += nodes;
        if self.nodes > self.options.nodes_max {
            return Err(at(&span.start, Fault::Nodes(self.options.nodes_max)));
        }
        Ok(())
    }

    fn open(
        &mut self,
        content: Content,
        style: granit_parser::StructureStyle,
        anchor: usize,
        span: &Span,
    ) -> Result<(), YamlError> {
        self.starts(span)?;
        if self.frames.len() == self.options.depth_max {
            return Err(at(&span.start, Fault::Depth(self.options.depth_max)));
        }
        if let Some(Frame {
            content: Content::Map { key: Key::Wanted, .. },
            ..
        }) = self.frames.last()
        {
            let what = if matches!(content, Content::List(_)) {
                "a list"
            } else {
                "a mapping"
            };
            return Err(at(&span.start, Fault::Key(what)));
        }
        let nodes_before = self.nodes;
        self.count(1, span)?;
        let flow = style == granit_parser::StructureStyle::Flow;
        self.frames.push(Frame {
            content,
            anchor,
            start: span.start,
            flow,
            nodes_before,
        });
        Ok(())
    }

    /// Whether the next folded text is rewritten.
    fn rewrites(&self) -> bool {
        let Folded::Rewritten { but_in } = self.options.folded else {
            return false;
        };
        let stands_there = self.frames.len() == but_in.len() + 1
            && self.frames.iter().zip(but_in).all(|(frame, wanted)| {
                matches!(&frame.content, Content::Map { key: Key::Is(key), .. } if key == wanted)
            });
        !stands_there
    }

    fn is_merge_key(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>) -> bool {
        let wanted = matches!(
            self.frames.last(),
            Some(Frame {
                content: Content::Map { key: Key::Wanted, .. },
                ..
            })
        );
        let merge = match tag {
            None => style == ScalarStyle::Plain,
            Some(tag) => tag.suffix_in_namespace(YAML_TAGS).as_deref() == Some("merge"),
        };
        wanted && text == "<<" && merge
    }

    fn finish(
        &mut self,
        scalar: Scalar,
        anchor: usize,
        start: Marker,
        span: &Span,
        nodes: usize,
    ) -> Result<(), YamlError> {
        if anchor != 0 {
            let copied = self.copies.add(&scalar.value);
            copied.map_err(|fault| at(&start, fault))?;
            self.anchors.insert(anchor, (scalar.value.clone(), nodes));
        }
        let refuse = self.options.duplicates == Duplicates::Refuse;
        let place = || place(&start, span);
        let spans = self.options.spans;
        let pointer = if spans { self.pointer() } else { None };
        self.pointer_bytes += pointer.as_ref().map_or(0, String::len);
        if self.pointer_bytes > POINTER_BYTES_MAX {
            return Err(at(&start, Fault::Pointers(POINTER_BYTES_MAX)));
        }
        let Some(frame) = self.frames.last_mut() else {
            let whole = place();
            let document = self.current_document(&start, span);
            if let Some(pointer) = pointer {
                document.spans.places.insert(pointer, whole.clone());
            }
            document.place = whole;
            document.value = scalar.value;
            return Ok(());
        };
        let flow = frame.flow;
        match &mut frame.content {
            Content::List(items) => items.push(scalar.value),
            Content::Map { map, merged, key } => match std::mem::replace(key, Key::Wanted) {
                Key::Wanted => {
                    let text = scalar.key.map_err(|what| at(&start, Fault::Key(what)))?;
                    // merged values may be overridden, so only the mapping's own keys count
                    if map.contains_key(&text) && !merged.contains(&text) {
                        if refuse {
                            return Err(at(&start, Fault::DuplicateKey(text)));
                        }
                        let duplicate = Duplicate {
                            key: text.clone(),
                            place: place(),
                        };
                        self.current_document(&start, span).duplicates.push(duplicate);
                        if let Some(Frame {
                            content: Content::Map { key, .. },
                            ..
                        }) = self.frames.last_mut()
                        {
                            *key = Key::Is(text);
                        }
                        return Ok(());
                    }
                    *key = Key::Is(text);
                    return Ok(());
                }
                Key::Is(text) => {
                    merged.remove(&text);
                    map.insert(text, scalar.value);
                }
                Key::Merge => merge(map, merged, scalar.value, self.options.dialect)
                    .map_err(|fault| at(&start, fault))?,
            },
        }
        if let Some(pointer) = pointer {
            let place = place();
            let spans = &mut self.current_document(&start, span).spans;
            if flow {
                spans.in_flow.insert(pointer.clone());
            }
            spans.places.insert(pointer, place);
        }
        Ok(())
    }

    fn current_document(&mut self, start: &Marker, span: &Span) -> &mut Document {
        self.current.get_or_insert_with(|| Document {
            value: Value::Null,
            place: place(start, span),
            duplicates: Vec::new(),
            spans: Spans::default(),
        })
    }

    /// The JSON pointer of the next value; none for keys and merged values.
    fn pointer(&self) -> Option<String> {
        let mut pointer = String::new();
        for frame in &self.frames {
            pointer.push('/');
            match &frame.content {
                Content::List(items) => pointer.push_str(&items.len().to_string()),
                Content::Map {
                    key: Key::Is(key), ..
                } => {
                    pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                }
                Content::Map { .. } => return None,
            }
        }
        Some(pointer)
    }

    /// Undoes granit's invention: if the input ends within the last line of a block scalar, libyaml has no
    /// final break to clip or keep.
    fn without_invented_break<'e>(
        &self,
        text: Cow<'e, str>,
        style: ScalarStyle,
        span: &Span,
    ) -> Cow<'e, str> {
        if !matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
            return text;
        }
        let at_end = span.end.byte_offset().is_none_or(|end| end >= self.text.len());
        if !at_end {
            return text;
        }
        let last_line = self.text.rsplit(['\n', '\r']).next().unwrap_or_default();
        let is_content = !last_line.trim_matches(' ').is_empty() || {
            // spaces count beyond the indentation, which the lines of text define
            let first = text.lines().find(|line| !line.trim_matches(' ').is_empty());
            let start = span.start.byte_offset().unwrap_or_default();
            let before = self.text.get(..start).unwrap_or_default();
            let begin = before.rfind('\n').map_or(0, |end| end + 1);
            let written = &self.text[begin..];
            let shown = first.and_then(|first| {
                written
                    .lines()
                    .find(|line| line.ends_with(first))
                    .zip(Some(first))
            });
            shown.is_some_and(|(line, first)| last_line.len() > line.len() - first.len())
        };
        if is_content && text.ends_with('\n') {
            return text[..text.len() - 1].to_owned().into();
        }
        text
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: &Span,
    ) -> Result<Scalar, YamlError> {
        self.count(1, span)?;
        let fail = |fault| Err(at(&span.start, fault));
        let core = tag.and_then(|tag| tag.suffix_in_namespace(YAML_TAGS));
        let core = core.as_deref();
        let as_string = |text: Cow<'_, str>| Scalar {
            key: Ok(text.clone().into_owned()),
            value: text.into_owned().into(),
        };
        let resolved = match (tag, core) {
            (None, _) if style == ScalarStyle::Plain => resolve(self.options.dialect, &text),
            (None, _) | (Some(_), None | Some("str" | "merge")) => return Ok(as_string(text)),
            (Some(_), Some("binary")) => {
                let packed: String = text.split_ascii_whitespace().collect();
                let decoded = base64::engine::general_purpose::STANDARD.decode(packed);
                return match decoded.ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
                    Some(decoded) => Ok(as_string(decoded.into())),
                    None => fail(Fault::Tag {
                        found: "!!str",
                        text: text.into_owned(),
                        tag: "!!binary".to_owned(),
                    }),
                };
            }
            (Some(_), Some(wanted @ ("bool" | "int" | "float" | "null" | "timestamp"))) => {
                let resolved = match resolve(self.options.dialect, &text) {
                    Resolved::Int(number) if wanted == "float" => Resolved::Float(number as f64),
                    other => other,
                };
                if resolved.tag().strip_prefix("!!") != Some(wanted) {
                    return fail(Fault::Tag {
                        found: resolved.tag(),
                        text: text.into_owned(),
                        tag: format!("!!{wanted}"),
                    });
                }
                resolved
            }
            (Some(_), Some(_)) => return Ok(as_string(text)),
        };
        let key = match &resolved {
            Resolved::Null => Err("null"),
            Resolved::Bool(flag) => Ok(flag.to_string()),
            Resolved::Int(number) => Ok(number.to_string()),
            Resolved::Unsigned(number) => Ok(number.to_string()),
            // go through float32, as sigs.k8s.io/yaml does
            Resolved::Float(number) => Ok(crate::json::go_float32(*number as f32)),
            Resolved::Timestamp | Resolved::String => Ok(text.clone().into_owned()),
        };
        let is_key = matches!(
            self.frames.last(),
            Some(Frame {
                content: Content::Map { key: Key::Wanted, .. },
                ..
            })
        );
        match to_value(&resolved, &text) {
            Some(value) => Ok(Scalar { key, value }),
            None if is_key => Ok(Scalar {
                key: Ok(text.to_ascii_lowercase().replace('+', "")),
                value: Value::Null,
            }),
            None => fail(Fault::NotFinite(text.into_owned())),
        }
    }
}

struct Scalar {
    value: Value,
    key: Result<String, &'static str>,
}

impl Scalar {
    fn plain(value: Value) -> Self {
        Self {
            key: key_text(&value),
            value,
        }
    }
}

fn key_text(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::Null => Err("null"),
        Value::Array(_) => Err("a list"),
        Value::Object(_) => Err("a mapping"),
        Value::String(text) => Ok(text.clone()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Number(number) => Ok(number.to_string()),
    }
}

/// Applies `<<`. The first of several mappings wins. The mapping's own keys win; with go-yaml v2 only if they
/// come after.
fn merge(
    map: &mut Map<String, Value>,
    merged: &mut BTreeSet<String>,
    value: Value,
    dialect: Dialect,
) -> Result<(), Fault> {
    let sources = match value {
        Value::Object(source) => vec![source],
        Value::Array(items) => items
            .into_iter()
            .map(|item| match item {
                Value::Object(source) => Ok(source),
                _ => Err(Fault::Merge),
            })
            .collect::<Result<_, _>>()?,
        _ => return Err(Fault::Merge),
    };
    for source in sources.into_iter().rev() {
        for (key, value) in source {
            let own = map.contains_key(&key) && !merged.contains(&key);
            if own && dialect == Dialect::Yaml12 {
                continue;
            }
            merged.insert(key.clone());
            map.insert(key, value);
        }
    }
    Ok(())
}

fn place(start: &Marker, span: &Span) -> Place {
    let from = start.byte_offset().unwrap_or_default();
    let to = span.end.byte_offset().unwrap_or(from);
    Place {
        bytes: from..to.max(from),
        line: start.line(),
        column: start.col() + 1,
    }
}
