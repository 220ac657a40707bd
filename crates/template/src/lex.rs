//! Tokens of a template text.
//!
//! Read on demand: the parser stops at the first error, and a token depends only on whether it is in an
//! action and on the open parentheses.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Error,
    Bool,
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

#[derive(Debug, Clone)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) pos: usize,
    pub(crate) text: &'a str,
    /// The error, for [`Kind::Error`].
    pub(crate) message: String,
}

impl Token<'_> {
    pub(crate) fn shown(&self) -> String {
        const SHOWN_CHARS: usize = 10;
        match self.kind {
            Kind::Eof => "EOF".into(),
            Kind::Error => self.message.clone(),
            _ if keyword(self.text) == Some(self.kind) => format!("<{}>", self.text),
            Kind::Dot => "<.>".into(),
            _ if self.text.len() > SHOWN_CHARS => {
                let start: String = self.text.chars().take(SHOWN_CHARS).collect();
                format!("{}...", equate_manifest::go::quote(&start))
            }
            _ => equate_manifest::go::quote(self.text),
        }
    }
}

fn keyword(word: &str) -> Option<Kind> {
    Some(match word {
        "block" => Kind::Block,
        "break" => Kind::Break,
        "continue" => Kind::Continue,
        "define" => Kind::Define,
        "else" => Kind::Else,
        "end" => Kind::End,
        "if" => Kind::If,
        "nil" => Kind::Nil,
        "range" => Kind::Range,
        "template" => Kind::Template,
        "with" => Kind::With,
        _ => return None,
    })
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

fn is_word(character: char) -> bool {
    character == '_' || character.is_alphabetic() || character.is_numeric()
}

/// Go's `%#U`.
fn code_point(character: char) -> String {
    let code = u32::from(character);
    if equate_manifest::go::is_printable(character) {
        format!("U+{code:04X} '{character}'")
    } else {
        format!("U+{code:04X}")
    }
}

pub(crate) struct Lexer<'a> {
    input: &'a str,
    pos: usize,
    inside: bool,
    parens: usize,
    stopped: bool,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(input: &'a str) -> Self {
        Self {
            input,
            pos: 0,
            inside: false,
            parens: 0,
            stopped: false,
        }
    }

    pub(crate) fn next(&mut self) -> Token<'a> {
        if self.stopped {
            return self.token(Kind::Eof, self.pos, self.pos);
        }
        if self.inside { self.action() } else { self.text() }
    }

    fn rest(&self) -> &'a str {
        self.input.get(self.pos..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.pos += character.len_utf8();
        Some(character)
    }

    fn token(&self, kind: Kind, start: usize, end: usize) -> Token<'a> {
        Token {
            kind,
            pos: start,
            text: self.input.get(start..end).unwrap_or_default(),
            message: String::new(),
        }
    }

    fn fail(&mut self, start: usize, message: impl Into<String>) -> Token<'a> {
        self.stopped = true;
        Token {
            kind: Kind::Error,
            pos: start,
            text: "",
            message: message.into(),
        }
    }

    fn text(&mut self) -> Token<'a> {
        loop {
            let start = self.pos;
            let Some(length) = self.rest().find("{{") else {
                self.pos = self.input.len();
                let kind = if start < self.pos { Kind::Text } else { Kind::Eof };
                return self.token(kind, start, self.pos);
            };
            let delim = start + length;
            let after = &self.input[delim + 2..];
            let trims = after.starts_with('-') && after[1..].starts_with(is_space);
            let mut end = delim;
            if trims {
                end = start + self.input[start..delim].trim_end_matches(SPACES).len();
            }
            if end > start {
                self.pos = delim;
                return self.token(Kind::Text, start, end);
            }
            let inner = delim + 2 + if trims { 2 } else { 0 };
            if self.input[inner..].starts_with("/*") {
                self.pos = inner;
                if let Some(fault) = self.comment() {
                    return fault;
                }
                continue;
            }
            self.pos = inner;
            self.inside = true;
            self.parens = 0;
            return self.token(Kind::LeftDelim, delim, delim + 2);
        }
    }

    fn comment(&mut self) -> Option<Token<'a>> {
        let start = self.pos;
        let Some(end) = self.input[start + 2..].find("*/") else {
            return Some(self.fail(start, "unclosed comment"));
        };
        self.pos = start + 2 + end + 2;
        let Some(trims) = self.right_delim() else {
            return Some(self.fail(start, "comment ends before closing delimiter"));
        };
        self.close(trims);
        None
    }

    /// Whether an action ends here, and whether it trims.
    fn right_delim(&self) -> Option<bool> {
        let rest = self.rest();
        if rest.starts_with(is_space) && rest[1..].starts_with("-}}") {
            return Some(true);
        }
        rest.starts_with("}}").then_some(false)
    }

    fn close(&mut self, trims: bool) {
        self.pos += if trims { 4 } else { 2 };
        if trims {
            let rest = self.rest();
            self.pos += rest.len() - rest.trim_start_matches(SPACES).len();
        }
    }

    fn action(&mut self) -> Token<'a> {
        let start = self.pos;
        if let Some(trims) = self.right_delim() {
            if self.parens > 0 {
                return self.fail(start, "unclosed left paren");
            }
            let delim = start + if trims { 2 } else { 0 };
            self.close(trims);
            self.inside = false;
            return self.token(Kind::RightDelim, delim, delim + 2);
        }
        let Some(character) = self.take() else {
            return self.fail(start, "unclosed action");
        };
        let kind = match character {
            ' ' | '\t' | '\r' | '\n' => return self.space(start),
            '=' => Kind::Assign,
            ':' => {
                if self.take() != Some('=') {
                    return self.fail(start, "expected :=");
                }
                Kind::Declare
            }
            '|' => Kind::Pipe,
            '"' => return self.quoted(start, '"', Kind::String, "unterminated quoted string"),
            '\'' => {
                return self.quoted(start, '\'', Kind::CharConstant, "unterminated character constant");
            }
            '`' => match self.rest().find('`') {
                Some(length) => {
                    self.pos += length + 1;
                    Kind::RawString
                }
                None => return self.fail(start, "unterminated raw quoted string"),
            },
            '$' => return self.word_after(start, Kind::Variable),
            '.' if !self.peek().is_some_and(|next| next.is_ascii_digit()) => {
                if self.rest().is_empty() {
                    return self.token(Kind::Dot, start, self.pos);
                }
                return self.word_after(start, Kind::Field);
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.pos = start;
                return self.number(start);
            }
            '(' => {
                self.parens += 1;
                Kind::LeftParen
            }
            ')' => {
                let Some(parens) = self.parens.checked_sub(1) else {
                    return self.fail(start, "unexpected right paren");
                };
                self.parens = parens;
                Kind::RightParen
            }
            _ if is_word(character) => return self.identifier(start),
            ' '..='~' => Kind::Char,
            _ => {
                let message = format!("unrecognized character in action: {}", code_point(character));
                return self.fail(start, message);
            }
        };
        self.token(kind, start, self.pos)
    }

    /// Reads white space, up to that of a closing trim marker.
    fn space(&mut self, start: usize) -> Token<'a> {
        self.pos = start;
        loop {
            if self.right_delim() == Some(true) {
                if self.pos == start {
                    return self.action();
                }
                break;
            }
            match self.peek() {
                Some(character) if is_space(character) => self.pos += 1,
                _ => break,
            }
        }
        self.token(Kind::Space, start, self.pos)
    }

    fn quoted(&mut self, start: usize, quote: char, kind: Kind, unterminated: &str) -> Token<'a> {
        loop {
            match self.take() {
                Some('\\') => {
                    if matches!(self.take(), None | Some('\n')) {
                        return self.fail(start, unterminated);
                    }
                }
                None | Some('\n') => return self.fail(start, unterminated),
                Some(character) if character == quote => break,
                Some(_) => {}
            }
        }
        self.token(kind, start, self.pos)
    }

    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some('.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(character) => is_space(character) || self.rest().starts_with("}}"),
        }
    }

    fn word_after(&mut self, start: usize, kind: Kind) -> Token<'a> {
        if self.at_terminator() {
            let kind = if kind == Kind::Field { Kind::Dot } else { kind };
            return self.token(kind, start, self.pos);
        }
        self.take_word();
        if !self.at_terminator() {
            return self.bad_character(start);
        }
        self.token(kind, start, self.pos)
    }

    fn take_word(&mut self) {
        let rest = self.rest();
        self.pos += rest.find(|character| !is_word(character)).unwrap_or(rest.len());
    }

    fn bad_character(&mut self, start: usize) -> Token<'a> {
        let shown = self.peek().map_or_else(String::new, code_point);
        self.fail(start, format!("bad character {shown}"))
    }

    fn identifier(&mut self, start: usize) -> Token<'a> {
        self.take_word();
        if !self.at_terminator() {
            return self.bad_character(start);
        }
        let word = &self.input[start..self.pos];
        let kind = keyword(word).unwrap_or(match word {
            "true" | "false" => Kind::Bool,
            _ => Kind::Identifier,
        });
        self.token(kind, start, self.pos)
    }

    fn number(&mut self, start: usize) -> Token<'a> {
        let bad = |lexer: &mut Self| {
            let written = equate_manifest::go::quote(&lexer.input[start..lexer.pos]);
            lexer.fail(start, format!("bad number syntax: {written}"))
        };
        if !self.scan_number() {
            return bad(self);
        }
        if matches!(self.peek(), Some('+' | '-')) {
            if !self.scan_number() || !self.input[..self.pos].ends_with('i') {
                return bad(self);
            }
            return self.token(Kind::Complex, start, self.pos);
        }
        self.token(Kind::Number, start, self.pos)
    }

    fn accept(&mut self, characters: &str) -> bool {
        let found = self.peek().is_some_and(|next| characters.contains(next));
        if found {
            self.pos += 1;
        }
        found
    }

    fn accept_run(&mut self, characters: &str) {
        while self.accept(characters) {}
    }

    fn scan_number(&mut self) -> bool {
        const DECIMAL: &str = "0123456789_";
        self.accept("+-");
        let mut digits = DECIMAL;
        if self.accept("0") {
            if self.accept("xX") {
                digits = "0123456789abcdefABCDEF_";
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        let exponent = match digits.len() {
            11 => "eE",
            23 => "pP",
            _ => "",
        };
        if self.accept(exponent) {
            self.accept("+-");
            self.accept_run(DECIMAL);
        }
        self.accept("i");
        if self.peek().is_some_and(is_word) {
            self.take();
            return false;
        }
        true
    }
}
