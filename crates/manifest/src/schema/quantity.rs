//! Resource quantities: `500m`, `1.5Gi`, `1e3`.
//!
//! A number in units of 10^-9 with its suffix family and canonical text. Refuses numbers beyond 1.7e29, which
//! Kubernetes carries in arbitrary precision. Behaviour: k8s.io/apimachinery `api/resource` v0.36.

use std::cmp::Ordering;
use std::fmt;

const NANO: i128 = 1_000_000_000;

/// The suffix family of a quantity's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `Ki`, `Mi`, `Gi`, ...
    BinarySi,
    /// `m`, none, `k`, `M`, ...
    DecimalSi,
    /// `e3`, `e6`, ...
    DecimalExponent,
}

/// Why a text is not a quantity. The texts are Kubernetes'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a signed number with a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number cannot be parsed, or is too large.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// An unknown suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// A parsed quantity. Equality and order are by value.
#[derive(Debug, Clone)]
pub struct Quantity {
    nanos: i128,
    format: Format,
    /// Upstream keeps some almost canonical texts as written (`+5`, `1.001`).
    written: Option<String>,
}

struct Parts<'a> {
    negative: bool,
    /// Digits before the point, without leading zeros; `0` if none are left.
    whole: &'a str,
    fraction: &'a str,
    number: &'a str,
    suffix: &'a str,
}

impl Quantity {
    /// Parses a quantity. An empty text is invalid.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let parts = scan(text)?;
        let (base, exponent, mut format) = suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
        let written = is_kept_as_written(&parts, base, exponent).then(|| text.to_owned());
        let exact = fits_fast_path(&parts, base, exponent);
        if !exact && !parts.number.bytes().any(|b| b.is_ascii_digit()) {
            return Err(QuantityError::Numeric);
        }
        let (base_exponent, shift) = match base {
            2 => (0, u32::try_from(exponent).unwrap_or(0)),
            _ => (exponent, 0),
        };
        let magnitude = match nanos(&parts, base_exponent, shift) {
            Some(nanos) => nanos,
            // binary quantities are capped at the largest 64-bit integer
            None if format == Format::BinarySi => i128::from(i64::MAX) * NANO,
            None => return Err(QuantityError::Numeric),
        };
        let magnitude = match format {
            Format::BinarySi if !exact => magnitude.min(i128::from(i64::MAX) * NANO),
            _ => magnitude,
        };
        if format == Format::BinarySi && !exact && magnitude > 0 && magnitude < NANO {
            format = Format::DecimalSi;
        }
        Ok(Self {
            nanos: if parts.negative { -magnitude } else { magnitude },
            format,
            written,
        })
    }

    /// The value in units of 10^-9.
    pub fn nanos(&self) -> i128 {
        self.nanos
    }

    /// The value in thousandths, rounded away from zero.
    pub fn millis(&self) -> i128 {
        round_away(self.nanos, 1_000_000)
    }

    /// The value in units, rounded away from zero.
    pub fn value(&self) -> i128 {
        round_away(self.nanos, NANO)
    }

    /// The suffix family.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Rounds away from zero to thousandths, as Kubernetes does in resource lists.
    pub fn round_up_to_milli(&mut self) {
        let rounded = self.millis() * 1_000_000;
        if rounded != self.nanos {
            self.nanos = rounded;
            self.written = None;
        }
    }

    /// The sum, in this family; a zero takes the other's.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            format: if self.nanos == 0 {
                other.format
            } else {
                self.format
            },
            written: None,
        }
    }

    /// The difference, or zero if it is negative.
    #[must_use]
    pub fn minus_at_least_zero(&self, other: &Self) -> Self {
        Self {
            nanos: self.nanos.saturating_sub(other.nanos).max(0),
            format: self.format,
            written: None,
        }
    }

    /// A quantity of whole units.
    pub fn from_units(units: i64, format: Format) -> Self {
        Self {
            nanos: i128::from(units) * NANO,
            format,
            written: None,
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(written) = &self.written {
            return f.write_str(written);
        }
        let small = self.nanos > -1024 * NANO && self.nanos < 1024 * NANO;
        if self.format == Format::BinarySi && !small && self.nanos % NANO == 0 {
            let mut amount = self.nanos / NANO;
            let mut power = 0;
            while amount % 1024 == 0 {
                amount /= 1024;
                power += 1;
            }
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(power).unwrap_or(&"");
            return write!(f, "{amount}{suffix}");
        }
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let mut amount = self.nanos;
        let mut exponent = -9;
        while amount % 10 == 0 {
            amount /= 10;
            exponent += 1;
        }
        while exponent % 3 != 0 {
            amount *= 10;
            exponent -= 1;
        }
        write!(f, "{amount}")?;
        match self.format {
            Format::DecimalExponent if exponent != 0 => write!(f, "e{exponent}"),
            Format::DecimalExponent => Ok(()),
            Format::DecimalSi | Format::BinarySi => f.write_str(match exponent {
                -9 => "n",
                -6 => "u",
                -3 => "m",
                3 => "k",
                6 => "M",
                9 => "G",
                12 => "T",
                15 => "P",
                18 => "E",
                _ => "",
            }),
        }
    }
}

fn round_away(nanos: i128, unit: i128) -> i128 {
    let whole = nanos / unit;
    whole + (nanos % unit).signum()
}

fn scan(text: &str) -> Result<Parts<'_>, QuantityError> {
    let bytes = text.as_bytes();
    let negative = bytes.first() == Some(&b'-');
    let mut at = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let skip = |mut at: usize, wanted: &dyn Fn(u8) -> bool| {
        while bytes.get(at).is_some_and(|b| wanted(*b)) {
            at += 1;
        }
        at
    };
    let digit = |b: u8| b.is_ascii_digit();
    at = skip(at, &|b| b == b'0');
    if at == bytes.len() {
        return Ok(Parts {
            negative,
            whole: "0",
            fraction: "",
            number: "0",
            suffix: "",
        });
    }
    let start = at;
    at = skip(at, &digit);
    let whole = match &text[start..at] {
        "" => "0",
        digits => digits,
    };
    let mut fraction = "";
    if bytes.get(at) == Some(&b'.') {
        let start = at + 1;
        at = skip(start, &digit);
        fraction = &text[start..at];
    }
    let number = &text[..at];
    let start = at;
    at = skip(at, &|b| b"eEinumkKMGTP".contains(&b));
    if at < bytes.len() {
        at += usize::from(matches!(bytes[at], b'-' | b'+'));
        at = skip(at, &digit);
    }
    if at < bytes.len() {
        return Err(QuantityError::Format);
    }
    Ok(Parts {
        negative,
        whole,
        fraction,
        number,
        suffix: &text[start..],
    })
}

/// Base, exponent and family of a suffix.
fn suffix(text: &str) -> Option<(u32, i32, Format)> {
    let decimal = |exponent| Some((10, exponent, Format::DecimalSi));
    let binary = |exponent| Some((2, exponent, Format::BinarySi));
    match text {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = text.strip_prefix(['e', 'E'])?.parse::<i64>().ok()?;
            let exponent = i32::try_from(exponent).unwrap_or(if exponent > 0 { i32::MAX } else { i32::MIN });
            Some((10, exponent, Format::DecimalExponent))
        }
    }
}

/// Whether upstream parses the number as a 64-bit integer with a power of ten.
fn fits_fast_path(parts: &Parts<'_>, base: u32, exponent: i32) -> bool {
    let digits = parts.whole.len() + parts.fraction.len();
    match base {
        2 => parts.fraction.is_empty() && 14_i32 - parts.whole.len() as i32 - exponent * 3 / 10 >= 0,
        _ => digits <= 18 && i64::from(exponent) - parts.fraction.len() as i64 >= -9,
    }
}

fn is_kept_as_written(parts: &Parts<'_>, base: u32, exponent: i32) -> bool {
    if !fits_fast_path(parts, base, exponent) {
        return false;
    }
    match base {
        2 => parts.whole.parse::<u64>().is_ok_and(|value| value % 8 != 0),
        _ => {
            let scale = i64::from(exponent) - parts.fraction.len() as i64;
            let backwards = parts.fraction.bytes().rev().chain(parts.whole.bytes().rev());
            let zeros = backwards.take_while(|b| *b == b'0').count();
            scale % 3 == 0 && zeros < 3 && !parts.whole.starts_with('0')
        }
    }
}

/// The magnitude in nanos, rounded up: `whole.fraction * 10^exponent * 2^shift`. `None` beyond the limit.
fn nanos(parts: &Parts<'_>, exponent: i32, shift: u32) -> Option<i128> {
    let digits: Vec<i128> = parts
        .whole
        .bytes()
        .chain(parts.fraction.bytes())
        .map(|b| i128::from(b - b'0'))
        .collect();
    if digits.iter().all(|digit| *digit == 0) {
        return Some(0);
    }
    // the value is 0.d1d2d3... * 10^point nanos, before the shift
    let point = i64::from(exponent) + parts.whole.len() as i64 + 9;
    let mut whole: i128 = 0;
    let mut rest: u128 = 0;
    let mut rest_digits = 0_u32;
    let mut sticky = false;
    for i in 0..point.max(digits.len() as i64) {
        let digit = usize::try_from(i)
            .ok()
            .and_then(|i| digits.get(i))
            .copied()
            .unwrap_or(0);
        if i < point {
            whole = whole.checked_mul(10)?.checked_add(digit)?;
        } else if rest_digits < 18 {
            rest = rest * 10 + digit.unsigned_abs();
            rest_digits += 1;
        } else {
            sticky |= digit != 0;
        }
    }
    if point < 0 {
        // far below one nano: only the fact that it is not zero matters
        let zeros = u32::try_from(-point).unwrap_or(u32::MAX);
        match 10_u128.checked_pow(zeros.min(30)) {
            Some(scale) if zeros <= 18 => {
                sticky |= !rest.is_multiple_of(scale);
                rest /= scale;
            }
            _ => {
                sticky |= rest != 0;
                rest = 0;
            }
        }
    }
    let whole = whole.checked_mul(1_i128.checked_shl(shift)?)?;
    let scale = 10_u128.pow(rest_digits);
    let shifted = rest << shift;
    let carry = shifted / scale + u128::from(!shifted.is_multiple_of(scale) || sticky);
    whole.checked_add(i128::try_from(carry).ok()?)
}
