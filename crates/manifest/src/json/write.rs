//! Encodes JSON with Go's spelling of numbers and strings.

use serde_json::{Number, Value};
use std::fmt::Write as _;

/// Compact JSON as Go's `json.Marshal` writes it: sorted keys, `<`, `>`, `&`, U+2028 and U+2029 escaped, Go's
/// float format. The API server's bodies add a newline.
pub fn to_go_string(value: &Value) -> String {
    let mut out = String::new();
    write_go(&mut out, value);
    out
}

/// Appends what [`to_go_string`] returns.
pub fn write_go(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_go(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_go(out, item);
            }
            out.push('}');
        }
    }
}

fn write_number(out: &mut String, number: &Number) {
    if let Some(integer) = number.as_i64() {
        let _ = write!(out, "{integer}");
    } else if let Some(integer) = number.as_u64() {
        let _ = write!(out, "{integer}");
    } else if let Some(float) = number.as_f64() {
        write_float(out, float);
    }
}

/// Go prints plainly between 1e-6 and 1e21 and with a shortest exponent outside.
fn write_float(out: &mut String, float: f64) {
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = half_to_even(format!("{float:e}"), float);
        match text.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => {
                let _ = write!(out, "{mantissa}e+{exponent}");
            }
            _ => out.push_str(&text),
        }
    } else {
        out.push_str(&half_to_even(float.to_string(), float));
    }
}

/// Of two shortest texts that are equally near, Go takes the one with the even digit.
fn half_to_even(text: String, float: f64) -> String {
    /// Only numbers with this many digits or more have two equally near shortest texts.
    const DIGITS: usize = 16;
    let mantissa = text.split('e').next().unwrap_or_default();
    let digits = mantissa.trim_start_matches(['-', '0', '.']).replace('.', "");
    let digits = digits.trim_end_matches('0').len();
    let last = mantissa.rfind(|character: char| ('1'..='9').contains(&character));
    let (Some(last), true) = (last, digits >= DIGITS) else {
        return text;
    };
    let digit = text.as_bytes()[last];
    let exact = format!("{float:.60e}");
    let beyond = exact
        .split('e')
        .next()
        .unwrap_or_default()
        .replace(['-', '.'], "");
    let beyond = beyond.get(digits..).and_then(|beyond| beyond.strip_prefix('5'));
    let is_tie = beyond.is_some_and(|rest| rest.bytes().all(|digit| digit == b'0'));
    if is_tie && digit % 2 == 1 {
        return format!("{}{}{}", &text[..last], char::from(digit - 1), &text[last + 1..]);
    }
    text
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// A float as Go's `%v` and go-yaml print it: `FormatFloat(f, 'g', -1, 64)`.
pub fn go_float(float: f64) -> String {
    let text = |text| half_to_even(text, float);
    shortest(&text(format!("{float:e}")), || text(float.to_string()))
}

pub(crate) fn go_float32(float: f32) -> String {
    shortest(&format!("{float:e}"), || float.to_string())
}

fn shortest(scientific: &str, plain: impl Fn() -> String) -> String {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return plain();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Go's `%q`.
pub fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\u{b}' => out.push_str("\\v"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
