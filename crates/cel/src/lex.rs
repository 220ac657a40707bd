//! Tokens of an expression.
//!
//! Errors and the place at which reading goes on are those of cel-go's lexer: it takes the longest token,
//! and drops the text up to the letter that fits none.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ident,
    /// A name in backticks.
    Escaped,
    Int,
    UInt,
    Float,
    Text,
    Bytes,
    /// An operator, a bracket or a keyword.
    Symbol(&'static str),
    End,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Longer ones before their beginnings.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%",
];

const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// The tokens, and the errors with their offsets.
pub(crate) fn tokens(text: &str) -> (Vec<Token>, Vec<(usize, String)>) {
    let mut tokens = Vec::new();
    let mut errors = Vec::new();
    let mut at = 0;
    loop {
        at = skip(text, at);
        if at >= text.len() {
            break;
        }
        match token(text, at) {
            Ok((kind, end)) => {
                tokens.push(Token { kind, start: at, end });
                at = end;
            }
            Err(end) => {
                let dropped = &text[at..end];
                errors.push((
                    at,
                    format!("Syntax error: token recognition error at: '{dropped}'"),
                ));
                at = end;
            }
        }
    }
    tokens.push(Token {
        kind: Kind::End,
        start: text.len(),
        end: text.len(),
    });
    (tokens, errors)
}

fn skip(text: &str, mut at: usize) -> usize {
    loop {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{c}']).len();
        at += blank;
        match text[at..].strip_prefix("//") {
            Some(comment) => at = text.len() - comment.len() + comment.find('\n').unwrap_or(comment.len()),
            None if blank == 0 => return at,
            None => {}
        }
    }
}

/// The offset behind the letter at this one, as far as there is one.
fn beyond(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(0, char::len_utf8)
}

/// The token at an offset, or the end of the text that is none.
fn token(text: &str, at: usize) -> Result<(Kind, usize), usize> {
    let rest = &text[at..];
    let first = rest.as_bytes()[0];
    let second = rest.as_bytes().get(1);
    if let Some(read) = quoted(text, at) {
        return read;
    }
    match first {
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
            let name = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let end = at + name.unwrap_or(rest.len());
            let keyword = KEYWORDS.into_iter().find(|word| *word == &text[at..end]);
            return Ok((keyword.map_or(Kind::Ident, Kind::Symbol), end));
        }
        b'0'..=b'9' => return Ok(number(text, at)),
        b'.' if second.is_some_and(u8::is_ascii_digit) => return Ok(number(text, at)),
        b'`' => {
            let name = |c: char| c.is_ascii_alphanumeric() || "_.-/ ".contains(c);
            let end = at + 1 + rest[1..].find(|c| !name(c)).unwrap_or(rest.len() - 1);
            return match text[end..].starts_with('`') && end > at + 1 {
                true => Ok((Kind::Escaped, end + 1)),
                false => Err(beyond(text, end)),
            };
        }
        _ => {}
    }
    if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
        return Ok((Kind::Symbol(symbol), at + symbol.len()));
    }
    let end = beyond(text, at);
    // the beginning of a longer symbol takes the next letter with it
    Err(match first {
        b'=' | b'&' | b'|' => beyond(text, end),
        _ => end,
    })
}

fn number(text: &str, at: usize) -> (Kind, usize) {
    let bytes = text.as_bytes();
    let digits = |from: usize, is_digit: fn(&u8) -> bool| {
        let count = bytes
            .get(from..)
            .unwrap_or_default()
            .iter()
            .take_while(|b| is_digit(b))
            .count();
        from + count
    };
    let unsigned = |end: usize| match bytes.get(end) {
        Some(b'u' | b'U') => (Kind::UInt, end + 1),
        _ => (Kind::Int, end),
    };
    if bytes[at] == b'0' && bytes.get(at + 1) == Some(&b'x') {
        let end = digits(at + 2, u8::is_ascii_hexdigit);
        if end > at + 2 {
            return unsigned(end);
        }
    }
    let mut end = digits(at, u8::is_ascii_digit);
    let mut is_float = false;
    if bytes.get(end) == Some(&b'.') {
        let fraction = digits(end + 1, u8::is_ascii_digit);
        if fraction > end + 1 {
            (end, is_float) = (fraction, true);
        }
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign, u8::is_ascii_digit);
        if exponent > end + 1 + sign {
            (end, is_float) = (exponent, true);
        }
    }
    match is_float {
        true => (Kind::Float, end),
        false => unsigned(end),
    }
}

/// A text or bytes, if one begins here.
fn quoted(text: &str, at: usize) -> Option<Result<(Kind, usize), usize>> {
    let bytes = text.as_bytes();
    let mut start = at;
    let is_bytes = matches!(bytes[start], b'b' | b'B');
    start += usize::from(is_bytes);
    let is_raw = matches!(bytes.get(start), Some(b'r' | b'R'));
    start += usize::from(is_raw);
    let quote = *bytes.get(start).filter(|b| matches!(b, b'"' | b'\''))?;
    let kind = if is_bytes { Kind::Bytes } else { Kind::Text };
    let is_long = bytes.get(start + 1) == Some(&quote) && bytes.get(start + 2) == Some(&quote);
    if is_long && let Ok(end) = close(text, start + 3, quote, is_raw, true) {
        return Some(Ok((kind, end)));
    }
    match close(text, start + 1, quote, is_raw, false) {
        // without an end, the prefix is a name
        Err(_) if start > at => None,
        read => Some(read.map(|end| (kind, end))),
    }
}

/// The offset behind the closing quotes, or behind the letter that does not fit.
fn close(text: &str, from: usize, quote: u8, is_raw: bool, is_long: bool) -> Result<usize, usize> {
    let bytes = text.as_bytes();
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        match *byte {
            b if b == quote && !is_long => return Ok(at + 1),
            b if b == quote => {
                if bytes.get(at + 1) == Some(&quote) && bytes.get(at + 2) == Some(&quote) {
                    return Ok(at + 3);
                }
                at += 1;
            }
            b'\n' | b'\r' if !is_long => return Err(at + 1),
            b'\\' if !is_raw => at = escape(text, at + 1)?,
            _ => at = beyond(text, at),
        }
    }
    Err(at)
}

/// The offset behind an escape sequence, whose letter is at `at`.
fn escape(text: &str, at: usize) -> Result<usize, usize> {
    let bytes = text.as_bytes();
    let wants = |from: usize, count: usize, fits: fn(&u8) -> bool| {
        for at in from..from + count {
            if !bytes.get(at).is_some_and(fits) {
                return Err(beyond(text, at.min(bytes.len())));
            }
        }
        Ok(from + count)
    };
    match bytes.get(at) {
        Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`') => {
            Ok(at + 1)
        }
        Some(b'x' | b'X') => wants(at + 1, 2, u8::is_ascii_hexdigit),
        Some(b'u') => wants(at + 1, 4, u8::is_ascii_hexdigit),
        Some(b'U') => wants(at + 1, 8, u8::is_ascii_hexdigit),
        Some(b'0'..=b'3') => wants(at + 1, 2, |b| matches!(b, b'0'..=b'7')),
        _ => Err(beyond(text, at)),
    }
}

/// Why a literal has no value, as cel-go says.
pub(crate) type BadLiteral = &'static str;

/// The bytes of a literal, with its quotes and prefix.
pub(crate) fn unquote(literal: &str, is_bytes: bool) -> Result<Vec<u8>, BadLiteral> {
    let body = literal.trim_start_matches(['b', 'B']);
    let is_raw = body.starts_with(['r', 'R']);
    let body = body.trim_start_matches(['r', 'R']);
    let is_long = body.len() >= 6 && (body.starts_with("'''") || body.starts_with("\"\"\""));
    let quotes = if is_long { 3 } else { 1 };
    // inside long quotes, all line ends are one letter
    let body = body[quotes..body.len() - quotes].replace("\r\n", "\n");
    let body = if is_long { body.replace('\r', "\n") } else { body };
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body.as_str();
    while let Some(at) = rest.find('\\').filter(|_| !is_raw) {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let letter = rest.as_bytes()[at + 1];
        let digits = |from: usize, count: usize, radix: u32| {
            let digits = rest.get(at + from..at + from + count).unwrap_or_default();
            (
                u32::from_str_radix(digits, radix).unwrap_or(u32::MAX),
                at + from + count,
            )
        };
        let simple = |byte: u8| (u32::from(byte), at + 2);
        let (code, end) = match letter {
            b'a' => simple(7),
            b'b' => simple(8),
            b'f' => simple(12),
            b'n' => simple(b'\n'),
            b'r' => simple(b'\r'),
            b't' => simple(b'\t'),
            b'v' => simple(11),
            b'x' | b'X' => digits(2, 2, 16),
            b'u' | b'U' if is_bytes => return Err("unable to unescape string"),
            b'u' => digits(2, 4, 16),
            b'U' => digits(2, 8, 16),
            b'0'..=b'3' => digits(1, 3, 8),
            other => simple(other),
        };
        match u8::try_from(code).ok().filter(|_| is_bytes) {
            Some(byte) => out.push(byte),
            None => {
                let letter = char::from_u32(code).ok_or("invalid unicode code point")?;
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        rest = &rest[end..];
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}
