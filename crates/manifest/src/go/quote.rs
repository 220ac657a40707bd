//! Quoted texts.

use std::fmt::Write;

/// A text in double quotes, as Go's `strconv.Quote` writes it.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quote_into(&mut quoted, text.as_bytes(), '"', false);
    quoted
}

/// Appends quoted bytes, optionally as ASCII only.
pub fn quote_into(out: &mut String, bytes: &[u8], quote: char, ascii: bool) {
    out.push(quote);
    let mut rest = bytes;
    while !rest.is_empty() {
        let valid = match std::str::from_utf8(rest) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
        };
        for character in valid.chars() {
            push_escaped(out, character, quote, ascii);
        }
        rest = &rest[valid.len()..];
        if let Some((byte, after)) = rest.split_first() {
            let _ = write!(out, "\\x{byte:02x}");
            rest = after;
        }
    }
    out.push(quote);
}

/// A character in single quotes, optionally as ASCII only.
#[must_use]
pub fn quote_char(character: char, ascii: bool) -> String {
    let mut quoted = String::new();
    quote_into(
        &mut quoted,
        character.encode_utf8(&mut [0; 4]).as_bytes(),
        '\'',
        ascii,
    );
    quoted
}

fn push_escaped(out: &mut String, character: char, quote: char, ascii: bool) {
    match character {
        '\\' => out.push_str("\\\\"),
        _ if character == quote => {
            out.push('\\');
            out.push(character);
        }
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        '\0'..='\x1f' | '\x7f' => {
            let _ = write!(out, "\\x{:02x}", u32::from(character));
        }
        _ if is_printable(character) && (!ascii || character.is_ascii()) => out.push(character),
        _ if u32::from(character) < 0x1_0000 => {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        }
        _ => {
            let _ = write!(out, "\\U{:08x}", u32::from(character));
        }
    }
}

/// Go's `unicode.IsPrint`. Rust escapes the same categories.
#[must_use]
pub fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return (' '..='~').contains(&character);
    }
    // alone or in front, Rust also escapes combining characters
    let mut text = [b'a'; 5];
    let bytes = 1 + character.encode_utf8(&mut text[1..]).len();
    let text = std::str::from_utf8(&text[..bytes]).unwrap_or_default();
    text.escape_debug().nth(2).is_none()
}

/// A text in double quotes, as the errors of Go's `time` package show it: bytes outside ASCII as `\x..`.
#[must_use]
pub fn quote_time(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            ' '..='\u{7f}' => quoted.push(c),
            _ => {
                let mut buffer = [0; 4];
                for byte in c.encode_utf8(&mut buffer).bytes() {
                    let _ = write!(quoted, "\\x{byte:02x}");
                }
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_those_of_go() {
        let text = "a\"b\\c'\n\t\0\u{7f}\u{a0}\u{e9}\u{301}\u{200b}\u{2028}\u{feff}\u{1f600}\u{e0001}\u{fffd}\u{378}";
        let quoted = r#""a\"b\\c'\n\t\x00\x7f\u00a0@\u200b\u2028\ufeff#\U000e0001%\u0378""#;
        let shown = |accented: &str, face: &str, odd: &str| {
            quoted.replace('@', accented).replace('#', face).replace('%', odd)
        };
        assert_eq!(quote(text), shown("\u{e9}\u{301}", "\u{1f600}", "\u{fffd}"));
        let mut ascii = String::new();
        quote_into(&mut ascii, text.as_bytes(), '"', true);
        assert_eq!(ascii, shown(r"\u00e9\u0301", r"\U0001f600", r"\ufffd"));
        let mut bytes = String::new();
        quote_into(&mut bytes, b"a\xff\xc3(", '"', false);
        assert_eq!(bytes, r#""a\xff\xc3(""#);
        assert_eq!(quote_char('\'', false), r"'\''");
        assert_eq!(quote_char('"', false), "'\"'");
        assert_eq!(quote_time("\"\n\u{7f}\u{b5}"), "\"\\\"\\x0a\u{7f}\\xc2\\xb5\"");
    }
}
