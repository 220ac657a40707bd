//! Durations and freeze windows.

use super::error::ConfigError;
use super::reader::Reader;
use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _, Zoned};
use serde_json::Value;
use std::time::Duration;

/// A time without changes.
#[derive(Debug, Clone)]
pub struct Freeze {
    /// When.
    pub window: Window,
    /// The time zone of the window.
    pub zone: TimeZone,
    /// The reason.
    pub reason: Option<String>,
    /// The line in the file.
    pub line: usize,
}

/// The times of a freeze.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Window {
    /// Every week, from a day and time until the next such day and time.
    Weekly {
        /// The start.
        from: (Weekday, Time),
        /// The end.
        until: (Weekday, Time),
    },
    /// Once. A date without a time begins with the day, and ends with it.
    Once {
        /// The start.
        from: Timestamp,
        /// The end.
        until: Timestamp,
    },
}

impl Freeze {
    /// The end of the window that contains a time; `None` outside.
    pub fn until(&self, now: Timestamp) -> Option<Timestamp> {
        match &self.window {
            Window::Once { from, until } => (*from <= now && now < *until).then_some(*until),
            Window::Weekly { from, until } => {
                let now = now.to_zoned(self.zone.clone());
                let began = last(&now, *from)?;
                let ends = next(&began, *until)?;
                (now < ends).then(|| ends.timestamp())
            }
        }
    }
}

/// The last time at or before `now` that is this day and time on the clocks of the zone.
fn last(now: &Zoned, (day, time): (Weekday, Time)) -> Option<Zoned> {
    (0..=7).find_map(|back| {
        let date = now.date().checked_sub(back.days()).ok()?;
        let at = at(date, time, now.time_zone())?;
        (date.weekday() == day && at <= *now).then_some(at)
    })
}

/// The first time after `from` that is this day and time.
fn next(from: &Zoned, (day, time): (Weekday, Time)) -> Option<Zoned> {
    (0..=7).find_map(|ahead| {
        let date = from.date().checked_add(ahead.days()).ok()?;
        let at = at(date, time, from.time_zone())?;
        (date.weekday() == day && at > *from).then_some(at)
    })
}

/// A time that clocks skip is the time after the gap.
fn at(date: Date, time: Time, zone: &TimeZone) -> Option<Zoned> {
    date.to_datetime(time).to_zoned(zone.clone()).ok()
}

/// Reads `30m`, `4h`, `2d`, `1w` and sums such as `1d12h`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].chars().next()?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(Duration::from_secs(number.checked_mul(seconds)?))?;
        rest = &rest[digits + unit.len_utf8()..];
    }
    Some(total)
}

pub(super) fn freeze(reader: &Reader<'_>, at: &str, item: &Value) -> Result<Freeze, ConfigError> {
    let map = reader.map(at, item, &["from", "until", "zone", "reason"])?;
    let text = |key: &str| {
        map.get(key)
            .map(|value| reader.text(&format!("{at}/{key}"), value))
            .transpose()
    };
    let needed = |key: &str| -> Result<String, ConfigError> {
        text(key)?.ok_or_else(|| {
            let hint = "give `from` and `until`: `{from: Fri 16:00, until: Mon 07:00}`";
            reader.missing(at, key, hint)
        })
    };
    let zone = match text("zone")? {
        None => TimeZone::UTC,
        Some(name) => TimeZone::get(&name).map_err(|_| {
            let hint = "write a name such as Europe/Copenhagen";
            reader.error(&format!("{at}/zone"), format!("unknown time zone {name:?}"), hint)
        })?,
    };
    let (from, until) = (needed("from")?, needed("until")?);
    let wrong = |key: &str, text: &str| {
        let hint = "write `Fri 16:00`, `2026-12-20` or `2026-12-20 16:00`";
        reader.error(&format!("{at}/{key}"), format!("{text:?} is not a time"), hint)
    };
    let start = moment(&from).ok_or_else(|| wrong("from", &from))?;
    let end = moment(&until).ok_or_else(|| wrong("until", &until))?;
    let window = match (start, end) {
        (Moment::Weekly(from), Moment::Weekly(until)) => Window::Weekly { from, until },
        (Moment::Once(from, time), Moment::Once(until, end)) => {
            let zoned = |key: &str, date: Date, time: Time, days: Span| {
                date.checked_add(days)
                    .and_then(|date| date.to_datetime(time).to_zoned(zone.clone()))
                    .map(|zoned| zoned.timestamp())
                    .map_err(|_| wrong(key, &date.to_string()))
            };
            let from = zoned("from", from, time.unwrap_or(Time::midnight()), 0.days())?;
            let days = if end.is_some() { 0.days() } else { 1.days() };
            let until = zoned("until", until, end.unwrap_or(Time::midnight()), days)?;
            if until <= from {
                let hint = "let it end after it begins";
                let problem = "the freeze ends before it begins".to_owned();
                return Err(reader.error(&format!("{at}/until"), problem, hint));
            }
            Window::Once { from, until }
        }
        _ => {
            let hint = "give two days of the week, or two dates";
            let problem = "a day of the week and a date do not go together".to_owned();
            return Err(reader.error(&format!("{at}/until"), problem, hint));
        }
    };
    Ok(Freeze {
        window,
        zone,
        reason: text("reason")?,
        line: reader.line(at),
    })
}

enum Moment {
    Weekly((Weekday, Time)),
    Once(Date, Option<Time>),
}

fn moment(text: &str) -> Option<Moment> {
    let (first, rest) = match text.trim().split_once([' ', 'T']) {
        Some((first, rest)) if !first.is_empty() => (first, Some(rest)),
        _ => (text.trim(), None),
    };
    let time = rest.map(clock);
    if let Some(day) = weekday(first) {
        return Some(Moment::Weekly((day, time??)));
    }
    let date: Date = first.parse().ok()?;
    match time {
        None => Some(Moment::Once(date, None)),
        Some(time) => Some(Moment::Once(date, Some(time?))),
    }
}

/// `16:00` or `16:00:30`.
fn clock(text: &str) -> Option<Time> {
    let parts: Vec<&str> = text.trim().split(':').collect();
    let number = |at: usize| parts.get(at)?.parse::<i8>().ok();
    let seconds = match parts.len() {
        2 => 0,
        3 => number(2)?,
        _ => return None,
    };
    Time::new(number(0)?, number(1)?, seconds, 0).ok()
}

fn weekday(text: &str) -> Option<Weekday> {
    let text = text.to_ascii_lowercase();
    let days = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    let found = days
        .into_iter()
        .find(|(name, _)| text.len() >= 3 && name.starts_with(&text));
    found.map(|(_, day)| day)
}
