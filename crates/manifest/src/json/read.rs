//! Decodes JSON with Go's errors and a list of repeated keys.

use super::DEPTH_MAX;
use crate::go::quote_char;
use serde_json::{Map, Number, Value};
use std::collections::HashSet;
use std::fmt::Write as _;

/// Kubernetes stops collecting repeated keys here.
const DUPLICATES_MAX: usize = 100;

/// A JSON value and its repeated keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The value; the last of repeated keys wins.
    pub value: Value,
    /// Repeated keys as paths (`data.a`, `spec.containers[0].x`), each once, in order of appearance, at most
    /// 100.
    pub duplicates: Vec<String>,
}

/// Why bytes are not one JSON value. The texts are Go's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// An invalid byte.
    #[error("invalid character {} {context}", quote(*.byte))]
    Character {
        /// The byte.
        byte: u8,
        /// Go's text for the place, `looking for beginning of value`.
        context: &'static str,
        /// The offset in bytes.
        offset: usize,
    },
    /// The input ends inside the value.
    #[error("unexpected end of JSON input")]
    End,
    /// Nesting beyond [`DEPTH_MAX`].
    #[error("exceeded max depth")]
    Depth {
        /// The offset in bytes.
        offset: usize,
    },
    /// A number that float64 cannot hold.
    #[error("json: cannot unmarshal number {literal} into Go value of type float64")]
    Range {
        /// The number as written.
        literal: String,
        /// The offset in bytes.
        offset: usize,
    },
}

/// Parses exactly one value.
///
/// Numbers without `.` that fit int64 become integers, all others float64. Invalid UTF-8 and lone surrogates
/// become U+FFFD.
pub fn decode(data: &[u8]) -> Result<Decoded, JsonError> {
    let mut reader = Reader {
        data,
        at: 0,
        path: Vec::new(),
        duplicates: Vec::new(),
        seen: HashSet::new(),
    };
    reader.space();
    let value = reader.value(0)?;
    reader.space();
    if reader.at < data.len() {
        return Err(reader.unexpected("after top-level value"));
    }
    Ok(Decoded {
        value,
        duplicates: reader.duplicates,
    })
}

enum Step {
    Key(String),
    Index(usize),
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    path: Vec<Step>,
    duplicates: Vec<String>,
    seen: HashSet<String>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.data.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// The error at the current byte or at the end of input.
    fn unexpected(&self, context: &'static str) -> JsonError {
        match self.peek() {
            Some(byte) => JsonError::Character {
                byte,
                context,
                offset: self.at,
            },
            None => JsonError::End,
        }
    }

    /// [`Self::unexpected`] inside a token: Go's scanner feeds a blank to test whether the end of input ends
    /// the token.
    fn unexpected_inside(&self, context: &'static str) -> JsonError {
        JsonError::Character {
            byte: self.peek().unwrap_or(b' '),
            context,
            offset: self.at,
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, JsonError> {
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal(&TRUE, Value::Bool(true)),
            Some(b'f') => self.literal(&FALSE, Value::Bool(false)),
            Some(b'n') => self.literal(&NULL, Value::Null),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn enter(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth > DEPTH_MAX {
            return Err(JsonError::Depth { offset: self.at });
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.enter(depth)?;
        let mut map = Map::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(map));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            self.space();
            if map.contains_key(&key) {
                self.duplicate(&key);
            }
            self.path.push(Step::Key(key));
            let value = self.value(depth)?;
            if let Some(Step::Key(key)) = self.path.pop() {
                map.insert(key, value);
            }
            self.space();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.space();
                }
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(map));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.enter(depth)?;
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            self.path.push(Step::Index(items.len()));
            let value = self.value(depth)?;
            self.path.pop();
            items.push(value);
            self.space();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.space();
                }
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn duplicate(&mut self, key: &str) {
        if self.duplicates.len() >= DUPLICATES_MAX {
            return;
        }
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(key);
                }
                Step::Index(index) => {
                    let _ = write!(text, "[{index}]");
                }
            }
        }
        if !self.path.is_empty() {
            text.push('.');
        }
        text.push_str(key);
        if self.seen.insert(text.clone()) {
            self.duplicates.push(text);
        }
    }

    fn literal(&mut self, word: &[(u8, &'static str)], value: Value) -> Result<Value, JsonError> {
        self.at += 1;
        for (byte, context) in word {
            if self.peek() != Some(*byte) {
                return Err(self.unexpected_inside(context));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        let (mut fraction, mut exponent) = (false, false);
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected_inside("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            fraction = true;
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.unexpected_inside("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            exponent = true;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.unexpected_inside("in exponent of numeric literal"));
            }
            self.digits();
        }
        // ASCII by construction
        let literal = String::from_utf8_lossy(&self.data[start..self.at]);
        if !fraction
            && !exponent
            && let Ok(integer) = literal.parse::<i64>()
        {
            return Ok(Value::Number(integer.into()));
        }
        literal
            .parse::<f64>()
            .ok()
            .and_then(Number::from_f64)
            .map(Value::Number)
            .ok_or_else(|| JsonError::Range {
                literal: literal.into_owned(),
                offset: start,
            })
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let start = self.at;
            while matches!(self.peek(), Some(byte) if byte >= 0x20 && byte != b'"' && byte != b'\\') {
                self.at += 1;
            }
            push_lossy(&mut text, &self.data[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    let escaped = match self.peek() {
                        Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
                        Some(b'b') => '\u{8}',
                        Some(b'f') => '\u{c}',
                        Some(b'n') => '\n',
                        Some(b'r') => '\r',
                        Some(b't') => '\t',
                        Some(b'u') => {
                            self.at += 1;
                            let character = self.unicode()?;
                            text.push(character);
                            continue;
                        }
                        _ => return Err(self.unexpected_inside("in string escape code")),
                    };
                    self.at += 1;
                    text.push(escaped);
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    /// Parses `\uXXXX` from its first digit, together with a second escape that completes a pair.
    fn unicode(&mut self) -> Result<char, JsonError> {
        let first = self.hex4()?;
        if let Some(character) = char::from_u32(first) {
            return Ok(character);
        }
        if (0xd800..0xdc00).contains(&first) && self.data[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            // not a pair: the second escape stands alone
            self.at = back;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            match self.peek().and_then(|byte| char::from(byte).to_digit(16)) {
                Some(digit) => code = code * 16 + digit,
                None => return Err(self.unexpected_inside("in \\u hexadecimal character escape")),
            }
            self.at += 1;
        }
        Ok(code)
    }
}

/// Go replaces each invalid byte by U+FFFD, one by one; `from_utf8_lossy` replaces each maximal prefix.
fn push_lossy(text: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for _ in chunk.invalid() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

const TRUE: [(u8, &str); 3] = [
    (b'r', "in literal true (expecting 'r')"),
    (b'u', "in literal true (expecting 'u')"),
    (b'e', "in literal true (expecting 'e')"),
];
const FALSE: [(u8, &str); 4] = [
    (b'a', "in literal false (expecting 'a')"),
    (b'l', "in literal false (expecting 'l')"),
    (b's', "in literal false (expecting 's')"),
    (b'e', "in literal false (expecting 'e')"),
];
const NULL: [(u8, &str); 3] = [
    (b'u', "in literal null (expecting 'u')"),
    (b'l', "in literal null (expecting 'l')"),
    (b'l', "in literal null (expecting 'l')"),
];

/// The byte as a Latin-1 character in Go's single quotes.
fn quote(byte: u8) -> String {
    quote_char(char::from(byte), false)
}
