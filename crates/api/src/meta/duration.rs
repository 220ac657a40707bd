//! Durations in Go's text form, as in Flux's fields.

use std::fmt;
use std::str::FromStr;
use std::time::Duration as Std;

/// A duration, written as `1h30m0s`; `0.5s` and `1h30m` are accepted too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(Std);

/// Go's durations are signed 64-bit nanoseconds: 292 years. Longer texts are capped: an error would make
/// one odd object fail the reading of all.
const NANOSECONDS_MAX: u128 = i64::MAX as u128;

const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Empty, or not a sequence of numbers with units.
    #[error("{0:?} is not a duration such as 10m, 1h30m or 500ms")]
    Form(String),
    /// A number whose unit is unknown or missing.
    #[error("unknown unit {unit:?} in duration {text:?}; use ns, us, ms, s, m or h")]
    Unit {
        /// The whole duration.
        text: String,
        /// The unit.
        unit: String,
    },
    /// Below zero.
    #[error("duration {0:?} is negative")]
    Negative(String),
}

impl Duration {
    /// A whole number of seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Std::from_secs(seconds))
    }

    /// A whole number of milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Std::from_millis(milliseconds))
    }

    /// As the standard library's type.
    pub const fn get(self) -> Std {
        self.0
    }
}

impl From<Std> for Duration {
    fn from(duration: Std) -> Self {
        Self(duration)
    }
}

impl From<Duration> for Std {
    fn from(duration: Duration) -> Self {
        duration.0
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        if text.starts_with('-') {
            return Err(DurationError::Negative(text.to_owned()));
        }
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(DurationError::Form(text.to_owned()));
        }
        let mut nanoseconds: u128 = 0;
        while !rest.is_empty() {
            let (part, after) = component(text, rest)?;
            nanoseconds = nanoseconds.saturating_add(part).min(NANOSECONDS_MAX);
            rest = after;
        }
        let seconds = u64::try_from(nanoseconds / 1_000_000_000).unwrap_or(u64::MAX);
        Ok(Self(Std::new(seconds, (nanoseconds % 1_000_000_000) as u32)))
    }
}

/// Parses one number with its unit to nanoseconds. Returns the rest of the text too.
fn component<'a>(text: &str, rest: &'a str) -> Result<(u128, &'a str), DurationError> {
    let (whole, after) = digits(rest);
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => digits(after),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationError::Form(text.to_owned()));
    }
    let end = after
        .find(|c: char| c.is_ascii_digit() || c == '.')
        .unwrap_or(after.len());
    let (unit, after) = after.split_at(end);
    let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(DurationError::Unit {
            text: text.to_owned(),
            unit: unit.to_owned(),
        });
    };
    let whole = match whole {
        "" => 0,
        // Too many digits mean too long for any engine.
        digits => digits.parse::<u128>().unwrap_or(NANOSECONDS_MAX),
    };
    let mut part = whole.saturating_mul(*size);
    let mut place = *size;
    for digit in fraction.bytes() {
        place /= 10;
        part = part.saturating_add(u128::from(digit - b'0') * place);
    }
    Ok((part, after))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        for (unit, size) in [("ns", 1), ("\u{b5}s", 1_000), ("ms", 1_000_000)] {
            if nanoseconds > 0 && nanoseconds < size * 1_000 && nanoseconds < 1_000_000_000 {
                return write!(f, "{}{unit}", fractional(nanoseconds, size));
            }
        }
        let seconds = nanoseconds / 1_000_000_000;
        let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if seconds >= 60 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", fractional(nanoseconds % 60_000_000_000, 1_000_000_000))
    }
}

/// A count of nanoseconds in units of `size`, without trailing zeros.
fn fractional(nanoseconds: u128, size: u128) -> String {
    let (whole, rest) = (nanoseconds / size, nanoseconds % size);
    if rest == 0 {
        return whole.to_string();
    }
    let width = size.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

impl serde::Serialize for Duration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Duration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": crate::schema::DURATION })
    }
}
