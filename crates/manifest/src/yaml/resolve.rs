//! Resolves plain scalars in both dialects.

use crate::calendar::days_in_month;
use serde_json::Value;

/// The rules for plain scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// go-yaml v2, as in `sigs.k8s.io/yaml`, kubectl and the API server: `y`, `yes`, `on` and their opposites
    /// are booleans.
    #[default]
    Yaml11,
    /// go-yaml v3, as in kustomize: only `true` and `false` are.
    Yaml12,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Resolved {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer beyond `i64`.
    Unsigned(u64),
    Float(f64),
    /// A date; a string everywhere but in the emitter, which quotes it.
    Timestamp,
    String,
}

impl Resolved {
    pub(super) fn tag(&self) -> &'static str {
        match self {
            Self::Null => "!!null",
            Self::Bool(_) => "!!bool",
            Self::Int(_) | Self::Unsigned(_) => "!!int",
            Self::Float(_) => "!!float",
            Self::Timestamp => "!!timestamp",
            Self::String => "!!str",
        }
    }
}

/// The value of a plain scalar; `None` for infinities and NaN.
pub fn scalar(dialect: Dialect, text: &str) -> Option<Value> {
    to_value(&resolve(dialect, text), text)
}

pub(super) fn resolve(dialect: Dialect, text: &str) -> Resolved {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Resolved::Null,
        "true" | "True" | "TRUE" => return Resolved::Bool(true),
        "false" | "False" | "FALSE" => return Resolved::Bool(false),
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" if dialect == Dialect::Yaml11 => {
            return Resolved::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" if dialect == Dialect::Yaml11 => {
            return Resolved::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Resolved::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Resolved::Float(f64::NEG_INFINITY),
        _ => {}
    }
    match text.as_bytes().first() {
        // Go's own rule for underscores: each between two digits
        Some(b'.') => {
            let bytes = text.as_bytes();
            let misplaced = bytes.iter().enumerate().any(|(at, byte)| {
                let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
                *byte == b'_' && !(digit(at.wrapping_sub(1)) && digit(at + 1))
            });
            if misplaced {
                Resolved::String
            } else {
                decimal(&text.replace('_', ""))
            }
        }
        Some(b'+' | b'-' | b'0'..=b'9') => {
            if is_timestamp(text) {
                return Resolved::Timestamp;
            }
            let plain = text.replace('_', "");
            integer(&plain).unwrap_or_else(|| decimal(&plain))
        }
        _ => Resolved::String,
    }
}

/// The JSON value of a resolved scalar, `None` for infinities and NaN.
///
/// A float without a fraction becomes an integer: the tools go through JSON text, where Go writes 1.0 as `1`.
pub(super) fn to_value(resolved: &Resolved, text: &str) -> Option<Value> {
    Some(match *resolved {
        Resolved::Null => Value::Null,
        Resolved::Bool(flag) => flag.into(),
        Resolved::Int(number) => number.into(),
        Resolved::Unsigned(number) => number.into(),
        Resolved::Float(number) => {
            let is_minus_zero = number == 0.0 && number.is_sign_negative();
            let number = serde_json::Number::from_f64(number)?;
            if is_minus_zero {
                return Some(Value::Number(number));
            }
            let written = crate::json::to_go_string(&number.clone().into());
            written
                .parse::<i64>()
                .map_or_else(|_| Value::Number(number), Value::from)
        }
        Resolved::Timestamp | Resolved::String => text.into(),
    })
}

/// Go's `ParseInt` with base 0: `0x`, `0o`, `0b` and a plain leading `0` for octal.
fn integer(text: &str) -> Option<Resolved> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let prefix = digits.get(..2).map(str::to_ascii_lowercase);
    let (radix, digits) = match prefix.as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        Some(_) if digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.starts_with(|first: char| first.is_digit(radix)) {
        return None;
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        0_i64.checked_sub_unsigned(size).map(Resolved::Int)
    } else if text.starts_with('+') {
        // ParseUint takes no sign
        i64::try_from(size).ok().map(Resolved::Int)
    } else {
        Some(i64::try_from(size).map_or(Resolved::Unsigned(size), Resolved::Int))
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, if it fits float64.
fn decimal(text: &str) -> Resolved {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let whole = digits(rest);
    rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = digits(fraction);
        if whole == 0 && length == 0 {
            return Resolved::String;
        }
        rest = &fraction[length..];
    } else if whole == 0 {
        return Resolved::String;
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        let length = digits(exponent);
        if length == 0 {
            return Resolved::String;
        }
        rest = &exponent[length..];
    }
    match text.parse::<f64>() {
        Ok(number) if rest.is_empty() && number.is_finite() => Resolved::Float(number),
        _ => Resolved::String,
    }
}

/// Whether Go would parse the text by one of go-yaml's four date layouts.
pub(super) fn is_timestamp(text: &str) -> bool {
    let mut scan = Scan {
        rest: text.as_bytes(),
    };
    scan.timestamp() && scan.rest.is_empty()
}

struct Scan<'t> {
    rest: &'t [u8],
}

impl Scan<'_> {
    fn take(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn digits(&mut self, at_least: usize, at_most: usize) -> Option<u32> {
        let count = self
            .rest
            .iter()
            .take(at_most)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if count < at_least {
            return None;
        }
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        Some(
            digits
                .iter()
                .fold(0, |number, byte| number * 10 + u32::from(byte - b'0')),
        )
    }

    fn timestamp(&mut self) -> bool {
        let Some(year) = self.digits(4, 4) else {
            return false;
        };
        if !self.take(b'-') {
            return false;
        }
        let Some(month) = self.digits(1, 2) else {
            return false;
        };
        if !self.take(b'-') {
            return false;
        }
        let Some(day) = self.digits(1, 2) else {
            return false;
        };
        if !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
            return false;
        }
        if self.rest.is_empty() {
            return true;
        }
        if self.take(b'T') || self.take(b't') {
            self.clock() && self.zone()
        } else {
            self.take(b' ') && self.clock()
        }
    }

    fn clock(&mut self) -> bool {
        let hour = self.digits(1, 2);
        let minute = if self.take(b':') { self.digits(1, 2) } else { None };
        let second = if self.take(b':') { self.digits(1, 2) } else { None };
        if matches!(self.rest, [b'.' | b',', digit, ..] if digit.is_ascii_digit()) {
            self.rest = &self.rest[1..];
            while self.digits(1, 1).is_some() {}
        }
        matches!((hour, minute, second), (Some(0..24), Some(0..60), Some(0..60)))
    }

    fn zone(&mut self) -> bool {
        if self.take(b'Z') {
            return true;
        }
        if !self.take(b'+') && !self.take(b'-') {
            return false;
        }
        let hours = self.digits(2, 2);
        let minutes = if self.take(b':') { self.digits(2, 2) } else { None };
        matches!((hours, minutes), (Some(0..=24), Some(0..60)))
    }
}
