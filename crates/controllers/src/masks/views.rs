//! A text with and without its escapes.

use std::borrow::Cow;
use std::ops::Range;

/// Unescaped bytes, each with its place in the text.
pub(super) struct View<'t> {
    bytes: Cow<'t, [u8]>,
    at: Option<Vec<usize>>,
}

impl View<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn range(&self, of: Range<usize>) -> Range<usize> {
        match &self.at {
            None => of,
            Some(at) => at[of.start]..at[of.end],
        }
    }

    fn place(&self, of: usize) -> usize {
        self.at.as_ref().map_or(of, |at| at[of])
    }

    /// `step` reads an escape: its bytes, and the length read.
    fn decoded(&self, step: fn(&[u8]) -> Option<(Few, usize)>) -> Option<View<'static>> {
        let (mut bytes, mut at, mut from) = (Vec::new(), Vec::new(), 0);
        while from < self.bytes.len() {
            let (few, read) = step(&self.bytes[from..]).unwrap_or((Few::one(self.bytes[from]), 1));
            for byte in few.bytes() {
                bytes.push(*byte);
                at.push(self.place(from));
            }
            from += read;
        }
        at.push(self.place(from));
        (bytes[..] != self.bytes[..]).then(|| View {
            bytes: bytes.into(),
            at: Some(at),
        })
    }
}

/// The most views of a text.
pub(super) const VIEWS_MAX: usize = 32;

/// Plain, without one and two levels of backslashes, without doubled quotes; each also as part of a URL and
/// with the standard alphabet of base64.
pub(super) fn views(text: &str) -> Vec<View<'_>> {
    let plain = View {
        bytes: text.as_bytes().into(),
        at: None,
    };
    let once = plain.decoded(backslash);
    let twice = once.as_ref().and_then(|once| once.decoded(backslash));
    let quoted = plain.decoded(doubled_quote);
    let mut all: Vec<View<'_>> = [Some(plain), once, twice, quoted].into_iter().flatten().collect();
    for step in [percent, percent_or_plus, base64url] {
        let decoded: Vec<View<'_>> = all.iter().filter_map(|view| view.decoded(step)).collect();
        all.extend(decoded);
    }
    all
}

struct Few([u8; 4], usize);

impl Few {
    fn one(byte: u8) -> Few {
        Few([byte, 0, 0, 0], 1)
    }

    fn char(code: u32) -> Option<Few> {
        let mut bytes = [0; 4];
        let length = char::from_u32(code)?.encode_utf8(&mut bytes).len();
        Some(Few(bytes, length))
    }

    fn bytes(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

/// The escapes in strings of JSON, YAML, Go and Rust.
fn backslash(rest: &[u8]) -> Option<(Few, usize)> {
    let (b'\\', letter) = (*rest.first()?, *rest.get(1)?) else {
        return None;
    };
    let one = |byte| Some((Few::one(byte), 2));
    match letter {
        b'n' => one(b'\n'),
        b't' => one(b'\t'),
        b'r' => one(b'\r'),
        b'b' => one(8),
        b'f' => one(12),
        b'a' => one(7),
        b'v' => one(11),
        b'e' => one(27),
        b'"' | b'\\' | b'/' | b'\'' | b' ' => one(letter),
        b'x' => Some((Few::one(u8::try_from(number(rest.get(2..4)?, 16)?).ok()?), 4)),
        b'u' if rest.get(2) == Some(&b'{') => {
            let digits = rest[3..].iter().take(7).position(|byte| *byte == b'}')?;
            Some((Few::char(number(&rest[3..3 + digits], 16)?)?, digits + 4))
        }
        b'u' => {
            let code = number(rest.get(2..6)?, 16)?;
            match code {
                0xd800..=0xdbff => {
                    let low = rest.get(6..8).filter(|next| *next == b"\\u");
                    let low = number(low.and(rest.get(8..12))?, 16)?.checked_sub(0xdc00)?;
                    Some((Few::char(0x10000 + ((code - 0xd800) << 10) + low)?, 12))
                }
                code => Some((Few::char(code)?, 6)),
            }
        }
        b'U' => Some((Few::char(number(rest.get(2..10)?, 16)?)?, 10)),
        b'0'..=b'7' => match rest.get(1..4).and_then(|digits| number(digits, 8)) {
            Some(code) => Some((Few::one(u8::try_from(code).ok()?), 4)),
            None => (letter == b'0').then_some((Few::one(0), 2)),
        },
        // a line of YAML that goes on
        b'\n' => {
            let indent = rest[2..].iter().take_while(|byte| **byte == b' ').count();
            Some((Few([0; 4], 0), 2 + indent))
        }
        _ => None,
    }
}

fn doubled_quote(rest: &[u8]) -> Option<(Few, usize)> {
    rest.starts_with(b"''").then_some((Few::one(b'\''), 2))
}

fn percent(rest: &[u8]) -> Option<(Few, usize)> {
    let digits = rest.strip_prefix(b"%")?.get(..2)?;
    Some((Few::one(u8::try_from(number(digits, 16)?).ok()?), 3))
}

fn percent_or_plus(rest: &[u8]) -> Option<(Few, usize)> {
    match rest.first()? {
        b'+' => Some((Few::one(b' '), 1)),
        _ => percent(rest),
    }
}

fn base64url(rest: &[u8]) -> Option<(Few, usize)> {
    match rest.first()? {
        b'-' => Some((Few::one(b'+'), 1)),
        b'_' => Some((Few::one(b'/'), 1)),
        _ => None,
    }
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let mut all = digits.iter().map(|digit| char::from(*digit).to_digit(radix));
    let is_some = !digits.is_empty();
    let number = all.try_fold(0_u32, |number, digit| {
        number.checked_mul(radix)?.checked_add(digit?)
    });
    number.filter(|_| is_some)
}
