//! Go's literals: quoted texts, characters, numbers; and quoting.

use equate_manifest::go::quote;

/// A numeric constant, with every type it fits without loss.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Number {
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) text: Box<str>,
}

/// Parses a text in double quotes or backticks; `None` if it is invalid.
pub(crate) fn unquote(quoted: &str) -> Option<Vec<u8>> {
    let mut chars = quoted.chars();
    let quote = chars.next()?;
    let inner = chars.as_str().strip_suffix(quote)?;
    match quote {
        // Go drops carriage returns from raw texts
        '`' => Some(inner.replace('\r', "").into_bytes()),
        '"' => {
            let mut bytes = Vec::with_capacity(inner.len());
            let mut rest = inner;
            while !rest.is_empty() {
                rest = unescape(rest, '"', &mut bytes)?.0;
            }
            Some(bytes)
        }
        _ => None,
    }
}

/// Parses one character or escape; returns the rest and the character.
fn unescape<'a>(text: &'a str, quote: char, out: &mut Vec<u8>) -> Option<(&'a str, u32)> {
    let mut chars = text.chars();
    let push = |out: &mut Vec<u8>, character: char| {
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    };
    let first = chars.next()?;
    if first != '\\' {
        if first == quote || first == '\n' {
            return None;
        }
        push(out, first);
        return Some((chars.as_str(), first.into()));
    }
    let escape = chars.next()?;
    let rest = chars.as_str();
    let simple = match escape {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        '\'' | '"' if escape == quote => escape as u8,
        'x' => {
            let value = u8::from_str_radix(digits(rest, 2)?, 16).ok()?;
            out.push(value);
            return Some((rest.get(2..)?, value.into()));
        }
        '0'..='7' => {
            let octal = text.get(1..4)?;
            if !octal.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
                return None;
            }
            let value = u8::from_str_radix(octal, 8).ok()?;
            out.push(value);
            return Some((text.get(4..)?, value.into()));
        }
        'u' | 'U' => {
            let length = if escape == 'u' { 4 } else { 8 };
            let code = u32::from_str_radix(digits(rest, length)?, 16).ok()?;
            push(out, char::from_u32(code)?);
            return Some((rest.get(length..)?, code));
        }
        _ => return None,
    };
    out.push(simple);
    Some((rest, simple.into()))
}

fn digits(text: &str, count: usize) -> Option<&str> {
    let digits = text.get(..count)?;
    digits
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then_some(digits)
}

pub(crate) fn character(text: &str) -> Result<Number, String> {
    let malformed = || format!("malformed character constant: {text}");
    let inner = text.strip_prefix('\'').ok_or_else(malformed)?;
    let (rest, code) = unescape(inner, '\'', &mut Vec::new()).ok_or("invalid syntax")?;
    if rest != "'" {
        return Err(malformed());
    }
    Ok(Number {
        int: Some(code.into()),
        uint: Some(code.into()),
        float: Some(code.into()),
        text: text.into(),
    })
}

pub(crate) fn number(text: &str) -> Result<Number, String> {
    let mut number = Number {
        int: integer(text, true),
        uint: integer_unsigned(text),
        float: None,
        text: text.into(),
    };
    if number.int == Some(0) {
        number.uint = Some(0);
    }
    if let Some(int) = number.int {
        number.float = Some(int as f64);
    } else if let Some(uint) = number.uint {
        number.float = Some(uint as f64);
    } else if let Some(float) = float(text) {
        if !text.contains(['.', 'e', 'E', 'p', 'P']) {
            return Err(format!("integer overflow: {}", quote(text)));
        }
        number.float = Some(float);
        if float.fract() == 0.0 && float.abs() < 9.2e18 {
            number.int = Some(float as i64);
            if float >= 0.0 {
                number.uint = Some(float as u64);
            }
        }
    }
    if number.float.is_none() {
        return Err(if text.ends_with('i') {
            format!("complex constants are not supported: {}", quote(text))
        } else {
            format!("illegal number syntax: {}", quote(text))
        });
    }
    Ok(number)
}

/// Go's `strconv.ParseInt(text, 0, 64)`; without `prefixes` only decimal digits count.
pub(crate) fn integer(text: &str, prefixes: bool) -> Option<i64> {
    let (negative, body) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = magnitude(body, prefixes)?;
    if negative {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

fn integer_unsigned(text: &str) -> Option<u64> {
    magnitude(text, true)
}

fn magnitude(body: &str, prefixes: bool) -> Option<u64> {
    let lower = body.to_ascii_lowercase();
    let (radix, rest) = match lower.as_bytes() {
        [b'0', b'x', ..] if prefixes => (16, &lower[2..]),
        [b'0', b'b', ..] if prefixes => (2, &lower[2..]),
        [b'0', b'o', ..] if prefixes => (8, &lower[2..]),
        [b'0', _, ..] if prefixes => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let plain = if prefixes {
        // an underscore is between digits, or after a prefix
        if rest.ends_with('_') || rest.contains("__") || (radix == 10 && rest.starts_with('_')) {
            return None;
        }
        rest.replace('_', "")
    } else {
        rest.to_owned()
    };
    if plain.is_empty() || plain.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(&plain, radix).ok()
}

/// Go's `strconv.ParseFloat`, hexadecimal floats included.
pub(crate) fn float(text: &str) -> Option<f64> {
    let (negative, body) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = body.to_ascii_lowercase();
    let value = match lower.as_str() {
        "inf" | "infinity" => f64::INFINITY,
        "nan" => f64::NAN,
        _ if lower.starts_with("0x") => hexadecimal(&lower[2..])?,
        _ => {
            if !lower.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
                return None;
            }
            if lower.starts_with('_') || lower.ends_with('_') || lower.contains("__") {
                return None;
            }
            let value: f64 = lower.replace('_', "").parse().ok()?;
            if value.is_infinite() {
                return None;
            }
            value
        }
    };
    Some(if negative { -value } else { value })
}

fn hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once('p')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + fraction.len() == 0 || whole.len() + fraction.len() > 16 {
        return None;
    }
    let digits = u64::from_str_radix(&format!("{whole}{fraction}"), 16).ok()?;
    let exponent: i32 = exponent.parse().ok()?;
    Some(digits as f64 * 2f64.powi(exponent.checked_sub(4 * fraction.len() as i32)?))
}
