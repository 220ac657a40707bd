//! Durations, months and weekdays: integers with methods.

use crate::value::{Int, Value};
use equate_manifest::go::duration::{self, HOUR, MINUTE, SECOND};

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
        Int::Duration => duration::format(number),
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
