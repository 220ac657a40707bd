//! Durations such as `1h30m`, as Go's `time` package reads and prints them.

use super::quote_time;
use std::time::Duration;

/// In nanoseconds.
pub const SECOND: i64 = 1_000_000_000;
/// In nanoseconds.
pub const MINUTE: i64 = 60 * SECOND;
/// In nanoseconds.
pub const HOUR: i64 = 60 * MINUTE;

/// The longest negative duration.
const SIZE_MAX: u64 = 1 << 63;

/// A text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not numbers with units.
    #[error("time: invalid duration {}", quote_time(.text))]
    Form {
        /// The duration.
        text: String,
    },
    /// More than 292 years.
    #[error("time: invalid duration {}", quote_time(.text))]
    Overflow {
        /// The duration.
        text: String,
    },
    /// A number without a unit.
    #[error("time: missing unit in duration {}", quote_time(.text))]
    NoUnit {
        /// The duration.
        text: String,
    },
    /// A number with another unit.
    #[error("time: unknown unit {} in duration {}", quote_time(.unit), quote_time(.text))]
    Unit {
        /// The unit.
        unit: String,
        /// The duration.
        text: String,
    },
}

/// Parses a duration to nanoseconds.
pub fn parse(text: &str) -> Result<i64, DurationError> {
    let whole = || text.to_owned();
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(DurationError::Form { text: whole() });
    }
    let mut size: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = Number::parse(rest).map_err(|problem| match problem {
            Problem::Form => DurationError::Form { text: whole() },
            Problem::Overflow => DurationError::Overflow { text: whole() },
        })?;
        let (unit, after) = split(after, |c| c != '.' && !c.is_ascii_digit());
        let unit = match unit {
            "" => return Err(DurationError::NoUnit { text: whole() }),
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND.unsigned_abs(),
            "m" => MINUTE.unsigned_abs(),
            "h" => HOUR.unsigned_abs(),
            unit => {
                let unit = unit.to_owned();
                return Err(DurationError::Unit { unit, text: whole() });
            }
        };
        size = number
            .times(unit)
            .and_then(|part| size.checked_add(part))
            .filter(|size| *size <= SIZE_MAX)
            .ok_or_else(|| DurationError::Overflow { text: whole() })?;
        rest = after;
    }
    let signed = match negative {
        true => 0_i64.checked_sub_unsigned(size),
        false => i64::try_from(size).ok(),
    };
    signed.ok_or_else(|| DurationError::Overflow { text: whole() })
}

enum Problem {
    Form,
    Overflow,
}

/// Go multiplies the fraction as a float, which decides the last digits.
struct Number {
    whole: u64,
    fraction: u64,
    scale: f64,
}

impl Number {
    fn parse(text: &str) -> Result<(Self, &str), Problem> {
        let (digits, after) = split(text, |c| c.is_ascii_digit());
        let (fraction_digits, after) = match after.strip_prefix('.') {
            Some(after) => split(after, |c| c.is_ascii_digit()),
            None => ("", after),
        };
        if digits.is_empty() && fraction_digits.is_empty() {
            return Err(Problem::Form);
        }
        let whole = match digits {
            "" => 0,
            digits => digits
                .parse()
                .ok()
                .filter(|whole| *whole <= SIZE_MAX)
                .ok_or(Problem::Overflow)?,
        };
        let (mut fraction, mut scale) = (0_u64, 1.0);
        for digit in fraction_digits.bytes() {
            let longer = fraction
                .checked_mul(10)
                .and_then(|shifted| shifted.checked_add(u64::from(digit - b'0')));
            // Go ignores the digits that do not fit
            let Some(longer) = longer.filter(|longer| *longer <= SIZE_MAX) else {
                break;
            };
            fraction = longer;
            scale *= 10.0;
        }
        let number = Self {
            whole,
            fraction,
            scale,
        };
        Ok((number, after))
    }

    fn times(&self, unit: u64) -> Option<u64> {
        let part = (self.fraction as f64 * (unit as f64 / self.scale)) as u64;
        self.whole.checked_mul(unit)?.checked_add(part)
    }
}

fn split(text: &str, inside: fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !inside(c)).unwrap_or(text.len()))
}

/// Prints nanoseconds: `1h2m0.5s`.
#[must_use]
pub fn format(nanoseconds: i64) -> String {
    const SECOND: u64 = self::SECOND.unsigned_abs();
    let size = nanoseconds.unsigned_abs();
    let sign = if nanoseconds < 0 { "-" } else { "" };
    match size {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{size}ns"),
        1_000..1_000_000 => format!("{sign}{}\u{b5}s", fractional(size, 1_000)),
        1_000_000..SECOND => format!("{sign}{}ms", fractional(size, 1_000_000)),
        _ => {
            let minutes = size / (60 * SECOND);
            let seconds = fractional(size % (60 * SECOND), SECOND);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// Caps longer durations.
#[must_use]
pub fn format_std(duration: Duration) -> String {
    format(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

/// An age in `kubectl get`: `5s`, `3m20s`, `5h`, `2d3h`, `1y30d`. A second of clock skew counts as now, more
/// is `<invalid>`.
#[must_use]
pub fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => two(days, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{days}d"),
        () if hours < 24 * 365 * 8 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

/// Omits trailing zeros.
fn fractional(size: u64, unit: u64) -> String {
    let digits = unit.ilog10() as usize;
    let (whole, rest) = (size / unit, size % unit);
    let rest = format!("{rest:0digits$}");
    match rest.trim_end_matches('0') {
        "" => whole.to_string(),
        rest => format!("{whole}.{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are those of Go 1.26.
    #[test]
    fn durations_are_those_of_go() {
        let check = |text: &str, expected: &str| {
            let said = match parse(text) {
                Ok(nanoseconds) => format!("{nanoseconds} {}", format(nanoseconds)),
                Err(error) => error.to_string(),
            };
            assert_eq!(said, expected, "{text}");
        };
        check("", "time: invalid duration \"\"");
        check("0", "0 0s");
        check("-0", "0 0s");
        check("+", "time: invalid duration \"+\"");
        check("-", "time: invalid duration \"-\"");
        check("+0", "0 0s");
        check("1", "time: missing unit in duration \"1\"");
        check("1h30m", "5400000000000 1h30m0s");
        check("1.5h", "5400000000000 1h30m0s");
        check(".5m", "30000000000 30s");
        check("1.s", "1000000000 1s");
        check(".s", "time: invalid duration \".s\"");
        check("-.s", "time: invalid duration \"-.s\"");
        check("1..5s", "time: missing unit in duration \"1..5s\"");
        check("1.5.5s", "time: missing unit in duration \"1.5.5s\"");
        check("1d", "time: unknown unit \"d\" in duration \"1d\"");
        check("1\u{b5}s", "1000 1\u{b5}s");
        check("1\u{3bc}s", "1000 1\u{b5}s");
        check("1us1ns", "1001 1.001\u{b5}s");
        check("3000000h", "time: invalid duration \"3000000h\"");
        check(
            "9223372036854775807ns",
            "9223372036854775807 2562047h47m16.854775807s",
        );
        check(
            "9223372036854775808ns",
            "time: invalid duration \"9223372036854775808ns\"",
        );
        check(
            "-9223372036854775808ns",
            "-9223372036854775808 -2562047h47m16.854775808s",
        );
        check(
            "-9223372036854775809ns",
            "time: invalid duration \"-9223372036854775809ns\"",
        );
        check(
            "9223372036854775.808us",
            "time: invalid duration \"9223372036854775.808us\"",
        );
        check(
            "2562047h47m16.854775807s",
            "9223372036854775807 2562047h47m16.854775807s",
        );
        check(
            "2562047h47m16.854775808s",
            "time: invalid duration \"2562047h47m16.854775808s\"",
        );
        check(
            "-2562047h47m16.854775808s",
            "-9223372036854775808 -2562047h47m16.854775808s",
        );
        check("0.1h", "360000000000 6m0s");
        check("0.333333333333333333h", "1199999999999 19m59.999999999s");
        check("0.3333333333333333333h", "1200000000000 20m0s");
        check("0.9223372036854775807h", "3320413933267 55m20.413933267s");
        check("0.830103483285477580700h", "2988372539827 49m48.372539827s");
        check("0.100000000000000000000h", "360000000000 6m0s");
        check("9007199254.740993ms", "9007199254740993 2501h59m59.254740993s");
        check(
            "1\u{e9}",
            "time: unknown unit \"\\xc3\\xa9\" in duration \"1\\xc3\\xa9\"",
        );
        check("\"1x\\", "time: invalid duration \"\\\"1x\\\\\"");
        check("1\u{7f}", "time: unknown unit \"\u{7f}\" in duration \"1\u{7f}\"");
        check("1\n", "time: unknown unit \"\\x0a\" in duration \"1\\x0a\"");
        check(
            "99999999999999999999s",
            "time: invalid duration \"99999999999999999999s\"",
        );
        check("1m s", "time: unknown unit \"m s\" in duration \"1m s\"");
        check(
            "9999999999999999999d",
            "time: invalid duration \"9999999999999999999d\"",
        );
        check("10", "time: missing unit in duration \"10\"");
        check("1.999999999999s", "1999999999 1.999999999s");
        check("9999999h1d", "time: invalid duration \"9999999h1d\"");
        check("--1s", "time: invalid duration \"--1s\"");
        check("1 s", "time: unknown unit \" s\" in duration \"1 s\"");
        check("-1.5h", "-5400000000000 -1h30m0s");
        check("0.5ns", "0 0s");
        check("1h1h", "7200000000000 2h0m0s");
        check("0s0", "time: missing unit in duration \"0s0\"");
        check("\u{661}s", "time: invalid duration \"\\xd9\\xa1s\"");
        check(
            "1s\u{661}",
            "time: unknown unit \"s\\xd9\\xa1\" in duration \"1s\\xd9\\xa1\"",
        );
        check("0.000000000000000000000000001h", "0 0s");
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        #[track_caller]
        fn check(seconds: i64, expected: &str) {
            assert_eq!(human(seconds), expected);
        }
        check(-2, "<invalid>");
        check(-1, "0s");
        check(119, "119s");
        check(120, "2m");
        check(200, "3m20s");
        check(599, "9m59s");
        check(601, "10m");
        check(3 * 3600 - 1, "179m");
        check(3 * 3600, "3h");
        check(7 * 3600 + 120, "7h2m");
        check(8 * 3600 + 120, "8h");
        check(48 * 3600, "2d");
        check(49 * 3600, "2d1h");
        check(8 * 86400 + 3600, "8d");
        check(729 * 86400, "729d");
        check(731 * 86400, "2y1d");
        check(8 * 365 * 86400 + 86400, "8y");
    }
}
