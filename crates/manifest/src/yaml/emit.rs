//! The emitter.
//!
//! Output equals `sigs.k8s.io/yaml` v1.6 (go.yaml.in/yaml/v2 2.4): block style, two spaces, list items at
//! their key's indentation, go-yaml's "natural" key order, lines of plain and quoted scalars folded after
//! column 80. The output depends on the cursor, so the emitter tracks the column, and whether the line has
//! only indentation or indicators.

use super::resolve::{Dialect, Resolved, resolve};
use serde_json::{Map, Number, Value};
use std::cmp::Ordering;

/// Scalars may be broken at a space beyond this column.
const WIDTH: usize = 80;
const INDENT: usize = 2;
/// Longer keys are written as `? key`.
const SIMPLE_KEY_BYTES_MAX: usize = 128;

/// Writes one document, without `---`.
pub fn to_string(value: &Value) -> String {
    emit(value, natural_order)
}

/// The same with the keys of maps in the order of their bytes.
pub fn to_string_by_key(value: &Value) -> String {
    emit(value, Ord::cmp)
}

fn emit(value: &Value, order: fn(&str, &str) -> Ordering) -> String {
    let mut emitter = Emitter {
        order,
        out: String::new(),
        column: 0,
        indent: None,
        after_blank: true,
        only_indentation: true,
    };
    emitter.node(value, Context::Root);
    emitter.indent = None;
    emitter.write_indent();
    emitter.out
}

#[derive(Clone, Copy, PartialEq)]
enum Context {
    Root,
    Item,
    Mapping,
    SimpleKey,
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

struct Emitter {
    order: fn(&str, &str) -> Ordering,
    out: String,
    column: usize,
    /// The current indentation; none before the first collection.
    indent: Option<usize>,
    /// Whether the last character was blank, a break or an indicator that needs no blank after it.
    after_blank: bool,
    /// Whether the line has only indentation and block indicators.
    only_indentation: bool,
}

impl Emitter {
    fn node(&mut self, value: &Value, context: Context) {
        match value {
            Value::Array(items) if items.is_empty() => {
                self.indicator("[", true, true, false);
                self.indicator("]", false, false, false);
            }
            Value::Object(map) if map.is_empty() => {
                self.indicator("{", true, true, false);
                self.indicator("}", false, false, false);
            }
            Value::Array(items) => {
                let outer = self.indent;
                let indentless = context == Context::Mapping && !self.only_indentation;
                self.indent = Some(match outer {
                    None => 0,
                    Some(indent) if indentless => indent,
                    Some(indent) => indent + INDENT,
                });
                for item in items {
                    self.write_indent();
                    self.indicator("-", true, false, true);
                    self.node(item, Context::Item);
                }
                self.indent = outer;
            }
            Value::Object(map) => {
                let outer = self.indent;
                self.indent = Some(outer.map_or(0, |indent| indent + INDENT));
                self.entries(map);
                self.indent = outer;
            }
            Value::Null => self.scalar("null", Style::Plain, context),
            Value::Bool(flag) => self.scalar(if *flag { "true" } else { "false" }, Style::Plain, context),
            Value::Number(number) => self.scalar(&number_text(number), Style::Plain, context),
            Value::String(text) => self.scalar(text, preferred_style(text), context),
        }
    }

    fn entries(&mut self, map: &Map<String, Value>) {
        let mut entries: Vec<_> = map.iter().collect();
        entries.sort_by(|(left, _), (right, _)| (self.order)(left, right));
        for (key, value) in entries {
            self.write_indent();
            if key.len() <= SIMPLE_KEY_BYTES_MAX && !key.contains(is_break) {
                self.scalar(key, preferred_style(key), Context::SimpleKey);
                self.indicator(":", false, false, false);
            } else {
                self.indicator("?", true, false, true);
                self.scalar(key, preferred_style(key), Context::Mapping);
                self.write_indent();
                self.indicator(":", true, false, true);
            }
            self.node(value, Context::Mapping);
        }
    }

    fn put(&mut self, character: char) {
        self.out.push(character);
        if character == '\n' {
            self.column = 0;
        } else {
            self.column += 1;
        }
    }

    fn write_indent(&mut self) {
        let indent = self.indent.unwrap_or(0);
        if !self.only_indentation || self.column > indent || (self.column == indent && !self.after_blank) {
            self.put('\n');
        }
        while self.column < indent {
            self.put(' ');
        }
        self.after_blank = true;
        self.only_indentation = true;
    }

    fn indicator(&mut self, text: &str, blank_before: bool, blank_after: bool, indents: bool) {
        if blank_before && !self.after_blank {
            self.put(' ');
        }
        for character in text.chars() {
            self.put(character);
        }
        self.after_blank = blank_after;
        self.only_indentation = self.only_indentation && indents;
    }

    fn scalar(&mut self, text: &str, preferred: Style, context: Context) {
        let outer = self.indent;
        self.indent = Some(outer.map_or(INDENT, |indent| indent + INDENT));
        let simple = context == Context::SimpleKey;
        match Shape::of(text).style(preferred, text, simple) {
            Style::Plain => self.plain(text, !simple),
            Style::Single => self.single(text, !simple),
            Style::Double => self.double(text, !simple),
            Style::Literal => self.literal(text),
        }
        self.indent = outer;
    }

    fn plain(&mut self, text: &str, may_break: bool) {
        if !self.after_blank {
            self.put(' ');
        }
        self.folded(text, may_break, false);
        self.after_blank = false;
        self.only_indentation = false;
    }

    fn single(&mut self, text: &str, may_break: bool) {
        self.indicator("'", true, false, false);
        self.folded(text, may_break, true);
        self.indicator("'", false, false, false);
        self.after_blank = false;
        self.only_indentation = false;
    }

    /// Writes a plain or single-quoted scalar. A break may replace a lone space.
    fn folded(&mut self, text: &str, may_break: bool, quoted: bool) {
        if is_word(text) {
            self.out.push_str(text);
            self.column += text.len();
            self.only_indentation = false;
            return;
        }
        let (mut spaces, mut breaks) = (false, false);
        let mut characters = text.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            let next = characters.peek().map(|(_, character)| *character);
            if character == ' ' {
                let inside = !quoted || (at > 0 && next.is_some());
                if may_break && !spaces && self.column > WIDTH && inside && next != Some(' ') {
                    self.write_indent();
                } else {
                    self.put(' ');
                }
                spaces = true;
            } else if is_break(character) {
                if !breaks && character == '\n' {
                    self.put('\n');
                }
                self.put_break(character);
                self.only_indentation = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                if quoted && character == '\'' {
                    self.put('\'');
                }
                self.put(character);
                self.only_indentation = false;
                spaces = false;
                breaks = false;
            }
        }
    }

    fn put_break(&mut self, character: char) {
        self.put(character);
        self.column = 0;
    }

    fn double(&mut self, text: &str, may_break: bool) {
        self.indicator("\"", true, false, false);
        // go-yaml tests the start of the text for a byte order mark at every character
        let marked = text.starts_with('\u{feff}');
        let mut spaces = false;
        let mut characters = text.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            if marked || !is_printable(character) || is_break(character) || matches!(character, '"' | '\\') {
                self.escape(character);
                spaces = false;
            } else if character == ' ' {
                let next = characters.peek().map(|(_, character)| *character);
                if may_break && !spaces && self.column > WIDTH && at > 0 && next.is_some() {
                    self.write_indent();
                    if next == Some(' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(' ');
                }
                spaces = true;
            } else {
                self.put(character);
                spaces = false;
            }
        }
        self.indicator("\"", false, false, false);
        self.after_blank = false;
        self.only_indentation = false;
    }

    fn escape(&mut self, character: char) {
        let short = match character {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{a0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => {
                let code = u32::from(character);
                let text = match code {
                    0..=0xff => format!("\\x{code:02X}"),
                    0x100..=0xffff => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                };
                text.chars().for_each(|character| self.put(character));
                return;
            }
        };
        self.put('\\');
        self.put(short);
    }

    fn literal(&mut self, text: &str) {
        self.indicator("|", true, false, false);
        if text.starts_with(|first| first == ' ' || is_break(first)) {
            self.indicator("2", false, false, false);
        }
        let mut from_end = text.chars().rev();
        match (from_end.next().is_some_and(is_break), from_end.next()) {
            (false, _) => self.indicator("-", false, false, false),
            (true, None) => self.indicator("+", false, false, false),
            (true, Some(before)) if is_break(before) => self.indicator("+", false, false, false),
            (true, Some(_)) => {}
        }
        self.put('\n');
        self.only_indentation = true;
        self.after_blank = true;
        let mut breaks = true;
        for character in text.chars() {
            if is_break(character) {
                self.put_break(character);
                self.only_indentation = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                self.put(character);
                self.only_indentation = false;
                breaks = false;
            }
        }
    }
}

/// The styles a text's characters allow.
pub(super) struct Shape {
    multiline: bool,
    pub(super) plain: bool,
    pub(super) single: bool,
    pub(super) block: bool,
}

impl Shape {
    pub(super) fn of(text: &str) -> Self {
        if is_word(text) {
            return Self {
                multiline: false,
                plain: true,
                single: true,
                block: true,
            };
        }
        if text.is_empty() {
            return Self {
                multiline: false,
                plain: true,
                single: true,
                block: false,
            };
        }
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut breaks, mut special) = (false, false);
        let (mut break_space, mut space_break) = (false, false);
        let (mut previous_space, mut previous_break) = (false, false);
        let mut after_blank = true;
        let mut characters = text.chars().peekable();
        let mut first = true;
        while let Some(character) = characters.next() {
            let before_blank = characters.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
            indicators |= match character {
                '#' if first || after_blank => true,
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    first
                }
                ':' => before_blank,
                '?' | '-' => first && before_blank,
                _ => false,
            };
            special |= !is_printable(character);
            if character == ' ' {
                break_space |= previous_break;
                (previous_space, previous_break) = (true, false);
            } else if is_break(character) {
                breaks = true;
                space_break |= previous_space;
                (previous_space, previous_break) = (false, true);
            } else {
                (previous_space, previous_break) = (false, false);
            }
            after_blank = matches!(character, ' ' | '\t' | '\0') || is_break(character);
            first = false;
        }
        let edge = |character: char| character == ' ' || is_break(character);
        let edges = text.starts_with(edge) || text.ends_with(edge);
        let spoiled = space_break || special;
        Self {
            multiline: breaks,
            plain: !(indicators || edges || breaks || break_space || spoiled),
            single: !(break_space || spoiled),
            block: !(text.ends_with(' ') || spoiled),
        }
    }

    fn style(&self, preferred: Style, text: &str, simple: bool) -> Style {
        let mut style = if simple && self.multiline {
            Style::Double
        } else {
            preferred
        };
        if style == Style::Plain && (!self.plain || (simple && text.is_empty())) {
            style = Style::Single;
        }
        if (style == Style::Single && !self.single) || (style == Style::Literal && (!self.block || simple)) {
            style = Style::Double;
        }
        style
    }
}

/// The requested style; [`Shape::style`] may have to refuse it.
fn preferred_style(text: &str) -> Style {
    if text.contains('\n') {
        Style::Literal
    } else if resolve(Dialect::Yaml11, text) == Resolved::String && !is_base60(text) {
        Style::Plain
    } else {
        Style::Double
    }
}

/// Whether a text is one word without YAML syntax, as most are.
fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/'))
}

/// YAML 1.1's sexagesimal numbers, which go-yaml quotes for other readers:
/// `[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?`.
fn is_base60(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut parts = text.split(':');
    let whole = parts.next().unwrap_or_default();
    if !whole.starts_with(|first: char| first.is_ascii_digit())
        || !whole.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    {
        return false;
    }
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return false;
    };
    let sixtieth = |part: &str| match part.as_bytes() {
        [digit] => digit.is_ascii_digit(),
        [tens, digit] => (b'0'..=b'5').contains(tens) && digit.is_ascii_digit(),
        _ => false,
    };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    middle.iter().all(|part| sixtieth(part))
        && sixtieth(last)
        && fraction.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

fn is_break(character: char) -> bool {
    matches!(character, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// libyaml's descendants escape characters beyond the basic plane.
fn is_printable(character: char) -> bool {
    matches!(character, '\n' | ' '..='~' | '\u{a0}'..='\u{fffd}') && character != '\u{feff}'
}

fn number_text(number: &Number) -> String {
    // upstream goes through JSON text, which turns 1.0 into an integer and 1e20 into a float
    let text = crate::json::to_go_string(&Value::Number(number.clone()));
    match text.parse::<f64>() {
        _ if text == "-0" => "0".to_owned(),
        Ok(float) if text.parse::<i64>().is_err() && text.parse::<u64>().is_err() => {
            crate::json::go_float(float)
        }
        _ => text,
    }
}

/// go-yaml's key order: letters after other characters, runs of digits by value.
pub fn natural_order(left: &str, right: &str) -> Ordering {
    // most keys differ in a letter first
    let mut pairs = left.bytes().zip(right.bytes());
    if let Some((one, other)) = pairs.find(|(one, other)| one != other)
        && one.is_ascii_alphabetic()
        && other.is_ascii_alphabetic()
    {
        return one.cmp(&other);
    }
    let left_chars: Vec<char> = left.chars().collect();
    let right_chars: Vec<char> = right.chars().collect();
    let Some(at) = left_chars
        .iter()
        .zip(&right_chars)
        .position(|(left, right)| left != right)
    else {
        return left_chars.len().cmp(&right_chars.len());
    };
    let (one, other) = (left_chars[at], right_chars[at]);
    match (one.is_alphabetic(), other.is_alphabetic()) {
        (true, true) => return one.cmp(&other),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // differing zeros inside a number count as its digits
    let begun = (one == '0' || other == '0')
        && left_chars[..at]
            .iter()
            .rev()
            .take_while(|character| character.is_numeric())
            .any(|character| *character != '0');
    let number = |characters: &[char]| {
        let digits = characters[at..]
            .iter()
            .take_while(|character| character.is_numeric());
        digits.fold((i64::from(begun), at), |(number, end), digit| {
            let digit = i64::from(u32::from(*digit)) - i64::from(u32::from('0'));
            (number.wrapping_mul(10).wrapping_add(digit), end + 1)
        })
    };
    number(&left_chars)
        .cmp(&number(&right_chars))
        .then(one.cmp(&other))
}
