//! Exact numbers: 0.3 is three times 0.1.

use serde_json::Number;
use std::cmp::Ordering;

/// A decimal number: digits and an exponent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decimal {
    digits: i128,
    exponent: i32,
    float: f64,
}

/// Beyond this exponent, floats are exact enough.
const PLACES_MAX: i32 = 30;

impl Decimal {
    pub(super) fn new(number: &Number) -> Self {
        let float = number.as_f64().unwrap_or_default();
        let text = match number
            .as_i64()
            .map(i128::from)
            .or(number.as_u64().map(i128::from))
        {
            Some(whole) => format!("{whole}e0"),
            None => format!("{float:e}"),
        };
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let places = i32::try_from(fraction.len()).unwrap_or_default();
        Self {
            digits: format!("{whole}{fraction}").parse().unwrap_or_default(),
            exponent: exponent.parse().unwrap_or(0) - places,
            float,
        }
    }

    fn aligned(self, other: Self) -> Option<(i128, i128)> {
        let exponent = self.exponent.min(other.exponent);
        let at = |number: Self| {
            let places = number.exponent - exponent;
            let power = (places <= PLACES_MAX).then(|| 10i128.checked_pow(u32::try_from(places).ok()?))??;
            number.digits.checked_mul(power)
        };
        Some((at(self)?, at(other)?))
    }

    pub(super) fn order(self, other: Self) -> Ordering {
        match self.aligned(other) {
            Some((left, right)) => left.cmp(&right),
            None => self.float.total_cmp(&other.float),
        }
    }

    /// Digits without trailing zeros, and the exponent: the same for equal numbers.
    pub(super) fn shortest(self) -> (i128, i32) {
        let (mut digits, mut exponent) = (self.digits, self.exponent);
        while digits != 0 && digits % 10 == 0 {
            digits /= 10;
            exponent += 1;
        }
        (digits, if digits == 0 { 0 } else { exponent })
    }

    pub(super) fn is_multiple_of(self, other: Self) -> bool {
        match self.aligned(other) {
            Some((_, 0)) => false,
            Some((left, right)) => left % right == 0,
            None => (self.float / other.float).fract() == 0.0,
        }
    }

    pub(super) fn is_whole(self) -> bool {
        self.float.fract() == 0.0
    }

    /// As the validator prints it, with thousands separators.
    pub(super) fn shown(self) -> String {
        shown(self.float)
    }
}

pub(super) fn count(count: usize) -> String {
    grouped(&count.to_string())
}

fn shown(float: f64) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let text = equate_manifest::json::go_float(float);
    let (mantissa, exponent) = match text.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, exponent),
        None => (text.as_str(), ""),
    };
    let (sign, plain) = match mantissa.strip_prefix('-') {
        Some(plain) => ("-", plain),
        None => ("", mantissa),
    };
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let mut out = format!("{sign}{}", grouped(whole));
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    if !exponent.is_empty() {
        out.push_str("×10");
        out.extend(exponent.chars().filter_map(|c| match c.to_digit(10) {
            Some(digit) => RAISED.get(digit as usize).copied(),
            None => (c == '-').then_some('⁻'),
        }));
    }
    out
}

fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
