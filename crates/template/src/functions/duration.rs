//! Durations, months and weekdays: integers with methods.

use crate::value::{Int, Value};

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// The result of such a number's `String` method.
pub(crate) fn number_text(number: i64, kind: Int) -> String {
    let named = |names: &[&str], from: i64| {
        let index = usize::try_from(number - from).ok();
        index
            .and_then(|index| names.get(index))
            .map(|name| (*name).to_owned())
    };
    match kind {
        Int::Duration => duration_text(number),
        Int::Month => named(&MONTHS, 1).unwrap_or_else(|| format!("%!Month({number})")),
        Int::Weekday => named(&WEEKDAYS, 0).unwrap_or_else(|| format!("%!Weekday({number})")),
        Int::Int | Int::Int32 | Int::Int64 => number.to_string(),
    }
}

pub(crate) fn number_method(number: i64, kind: Int, name: &str) -> Option<Value> {
    if name == "String" {
        return Some(number_text(number, kind).into());
    }
    if kind != Int::Duration {
        return None;
    }
    // converting whole units and the rest separately keeps digits
    let float = |unit: i64| Value::Float((number / unit) as f64 + (number % unit) as f64 / unit as f64);
    Some(match name {
        "Hours" => float(HOUR),
        "Minutes" => float(MINUTE),
        "Seconds" => float(SECOND),
        "Milliseconds" => Value::int64(number / 1_000_000),
        "Microseconds" => Value::int64(number / 1_000),
        "Nanoseconds" => Value::int64(number),
        "Abs" => Value::Int(number.saturating_abs(), Int::Duration),
        _ => return None,
    })
}

/// A duration in Go's format: `1h2m0.5s`.
pub(crate) fn duration_text(nanoseconds: i64) -> String {
    let size = nanoseconds.unsigned_abs();
    if size == 0 {
        return "0s".into();
    }
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let fraction = |value: u64, unit: u64| {
        let digits = unit.to_string().len() - 1;
        let (whole, rest) = (value / unit, value % unit);
        let rest = format!("{rest:0digits$}");
        match rest.trim_end_matches('0') {
            "" => whole.to_string(),
            rest => format!("{whole}.{rest}"),
        }
    };
    match size {
        0..1_000 => format!("{sign}{size}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", fraction(size, 1_000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", fraction(size, 1_000_000)),
        _ => {
            let minutes = size / 60_000_000_000;
            let seconds = fraction(size % 60_000_000_000, 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", crate::literal::quote(text));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let split = |text: &str, is: fn(char) -> bool| text.find(|c| !is(c)).unwrap_or(text.len());
        let whole = split(rest, |c| c.is_ascii_digit());
        let (digits, after) = rest.split_at(whole);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(split(after, |c| c.is_ascii_digit())),
            None => ("", after),
        };
        if digits.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = split(after, |c| c != '.' && !c.is_ascii_digit());
        let (unit, after) = after.split_at(end);
        let size: i128 = match unit {
            "" => {
                let text = crate::literal::quote(text);
                return Err(format!("time: missing unit in duration {text}"));
            }
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND.into(),
            "m" => MINUTE.into(),
            "h" => HOUR.into(),
            _ => {
                let quote = crate::literal::quote;
                return Err(format!(
                    "time: unknown unit {} in duration {}",
                    quote(unit),
                    quote(text)
                ));
            }
        };
        let number = if digits.is_empty() {
            0
        } else {
            digits.parse::<i128>().map_err(|_| invalid())?
        };
        total = number
            .checked_mul(size)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(invalid)?;
        if !fraction.is_empty() {
            let digits = &fraction[..fraction.len().min(18)];
            let scale = 10i128.pow(digits.len() as u32);
            total += digits.parse::<i128>().unwrap_or_default() * size / scale;
        }
        rest = after;
    }
    let total = if negative { -total } else { total };
    i64::try_from(total).map_err(|_| invalid())
}
