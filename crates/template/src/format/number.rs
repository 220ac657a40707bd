//! Formats floats and characters as Go does.

use equate_manifest::json::go_float;

/// More digits than a float has: zeros follow. Rust writes at most 65,535 digits at once.
const DIGITS_MAX: usize = 1_100;

fn split(precision: usize) -> (usize, String) {
    let asked = precision.min(DIGITS_MAX);
    (asked, "0".repeat(precision - asked))
}

/// Formats a float with `e`, `f` or `g`; no precision means the shortest text. Always with a sign.
pub(super) fn float(value: f64, verb: char, precision: Option<usize>) -> String {
    if value.is_nan() {
        return "+NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    let sign = if value.is_sign_negative() { '-' } else { '+' };
    let size = value.abs();
    let text = match (verb.to_ascii_lowercase(), precision) {
        ('e', Some(precision)) => {
            let (asked, zeros) = split(precision);
            exponent(&format!("{size:.asked$e}"), &zeros)
        }
        ('e', None) => exponent(&format!("{size:e}"), ""),
        ('f', Some(precision)) => {
            let (asked, zeros) = split(precision);
            format!("{size:.asked$}{zeros}")
        }
        ('f', None) => format!("{size}"),
        (_, None) => go_float(size),
        (_, Some(precision)) => general(size, precision.clamp(1, DIGITS_MAX)),
    };
    let text = if verb.is_ascii_uppercase() {
        text.to_ascii_uppercase()
    } else {
        text
    };
    format!("{sign}{text}")
}

pub(crate) fn float_general(value: f64) -> String {
    let text = float(value, 'g', None);
    match text.strip_prefix('+') {
        Some("Inf") | None => text,
        Some(rest) => rest.to_owned(),
    }
}

/// Pads a float with a point and zeros to this many digits.
pub(super) fn with_zeros(text: &str, digits: usize, upper: bool) -> String {
    let (mantissa, exponent) = match text.find('e') {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    if text.ends_with(['f', 'N']) {
        return text.to_owned();
    }
    let first = mantissa.find(|c: char| ('1'..='9').contains(&c)).unwrap_or(1);
    let count = mantissa[first..].bytes().filter(u8::is_ascii_digit).count();
    let point = if mantissa.contains('.') { "" } else { "." };
    let zeros = "0".repeat(digits.saturating_sub(count));
    let text = format!("{mantissa}{point}{zeros}{exponent}");
    if upper { text.to_ascii_uppercase() } else { text }
}

fn parts(value: f64) -> (u64, i64) {
    let bits = value.abs().to_bits();
    let (exponent, fraction) = ((bits >> 52) as i64, bits & ((1 << 52) - 1));
    if exponent == 0 {
        (fraction, -1074)
    } else {
        (fraction | 1 << 52, exponent - 1075)
    }
}

fn sign(value: f64) -> char {
    if value.is_sign_negative() { '-' } else { '+' }
}

/// `4503599627370496p-52`
pub(super) fn binary(value: f64) -> String {
    let (mantissa, exponent) = parts(value);
    format!("{}{mantissa}p{exponent:+}", sign(value))
}

/// `0x1.91eb851eb851fp+01`
pub(super) fn hexadecimal(value: f64, precision: Option<usize>, sharp: bool, upper: bool) -> String {
    if !value.is_finite() {
        return float(value, 'g', None);
    }
    let (mut mantissa, mut exponent) = parts(value);
    if mantissa == 0 {
        exponent = 0;
    } else {
        // one digit before the point
        let shift = mantissa.leading_zeros() - 11;
        mantissa <<= shift;
        exponent += 52 - i64::from(shift);
    }
    if let Some(precision) = precision.filter(|precision| *precision < 13) {
        let drop = 4 * (13 - precision) as u32;
        let (kept, rest, half) = (mantissa >> drop, mantissa & ((1 << drop) - 1), 1u64 << (drop - 1));
        let up = rest > half || rest == half && kept & 1 == 1;
        mantissa = (kept + u64::from(up)) << drop;
        if mantissa >> 53 != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let digits = format!("{:013x}", mantissa & ((1 << 52) - 1));
    let digits = match precision {
        Some(precision) => {
            let zeros = "0".repeat(precision.saturating_sub(digits.len()));
            format!("{}{zeros}", &digits[..precision.min(digits.len())])
        }
        None => {
            let least = if sharp { 4 } else { 0 };
            format!("{:0<least$}", digits.trim_end_matches('0'))
        }
    };
    let point = if digits.is_empty() { "" } else { "." };
    let power = if exponent < 0 { '-' } else { '+' };
    let (whole, size) = (mantissa >> 52, exponent.abs());
    let text = format!("{}0x{whole}{point}{digits}p{power}{size:02}", sign(value));
    if upper { text.to_ascii_uppercase() } else { text }
}

/// Converts Rust's `1.5e-7` to Go's `1.5e-07`, with zeros after the mantissa.
fn exponent(text: &str, zeros: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{zeros}e{sign}{:02}", exponent.abs())
}

fn general(size: f64, digits: usize) -> String {
    let before = digits - 1;
    let scientific = format!("{size:.before$e}");
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or_default();
    // the actual digits decide if they are fewer than requested and all before the point
    let shown = mantissa.trim_end_matches('0').trim_end_matches('.');
    let count = shown.bytes().filter(u8::is_ascii_digit).count() as i32;
    let mut limit = digits as i32;
    if limit > count && count > power {
        limit = count;
    }
    if size != 0.0 && (power < -4 || power >= limit.max(power.min(digits as i32 - 1) + 1)) {
        let shown = if mantissa.contains('.') { shown } else { mantissa };
        return exponent(&format!("{shown}e{power}"), "");
    }
    let decimals = usize::try_from(before as i32 - power).unwrap_or(0);
    let text = format!("{size:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

pub(crate) fn quote_char(code: i64, ascii: bool) -> String {
    let character = u32::try_from(code)
        .ok()
        .and_then(char::from_u32)
        .unwrap_or(char::REPLACEMENT_CHARACTER);
    equate_manifest::go::quote_char(character, ascii)
}
