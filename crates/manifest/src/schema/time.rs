//! Times as Kubernetes writes them: RFC 3339 in UTC, to the second or the microsecond.
//!
//! Parses the same texts as Go's `time.Parse` with those two layouts, and fails with its errors. Knows
//! offsets, but no time zones and no clock.

use crate::calendar::days_in_month;
use crate::go::quote_time as quote;

/// The two layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// `metav1.Time`: a fraction is parsed and dropped.
    Seconds,
    /// `metav1.MicroTime`: exactly six digits.
    Micros,
}

impl Precision {
    fn layout(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// An invalid time; prints as Go's error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TimeError(String);

/// The canonical text of a time in UTC. `None` for Go's zero time, which is written as null.
pub fn normalize(text: &str, precision: Precision) -> Result<Option<String>, TimeError> {
    let parsed = parse(text, precision)?;
    // the stored form has no fraction for times to the second
    if parsed.seconds == ZERO && (parsed.nanos == 0 || precision == Precision::Seconds) {
        return Ok(None);
    }
    Ok(Some(format(parsed.seconds, parsed.nanos, precision)))
}

/// Whether the text already has the shape of [`normalize`]'s result.
pub fn is_normal(text: &str, precision: Precision) -> bool {
    let shape: &[u8] = match precision {
        Precision::Seconds => b"0000-00-00T00:00:00Z",
        Precision::Micros => b"0000-00-00T00:00:00.000000Z",
    };
    let bytes = text.as_bytes();
    let two = |at: usize| (bytes[at] - b'0') * 10 + (bytes[at + 1] - b'0');
    bytes.len() == shape.len()
        && bytes.iter().zip(shape).all(|(b, s)| match s {
            b'0' => b.is_ascii_digit(),
            _ => b == s,
        })
        && (1..=12).contains(&two(5))
        && (1..=28).contains(&two(8))
        && two(11) < 24
        && two(14) < 60
        && two(17) < 60
        && !text.starts_with("0001-01-01")
}

/// A time as seconds since 1970 and nanoseconds.
pub fn parse_seconds(text: &str) -> Result<(i64, u32), TimeError> {
    parse(text, Precision::Seconds).map(|time| (time.seconds, time.nanos))
}

const ZERO: i64 = -62_135_596_800;

/// The last second of the year 9999.
const END: i64 = 253_402_300_799;

/// The text of a Unix time, if it has a year of four digits.
pub(super) fn of_unix(seconds: i64, nanos: u32, precision: Precision) -> Option<String> {
    (ZERO..=END)
        .contains(&seconds)
        .then(|| format(seconds, nanos, precision))
}

/// The Unix time of a text.
pub(super) fn to_unix(text: &str, precision: Precision) -> Option<(i64, u32)> {
    let parsed = parse(text, precision).ok()?;
    let nanos = match precision {
        Precision::Seconds => 0,
        Precision::Micros => parsed.nanos / 1000 * 1000,
    };
    Some((parsed.seconds, nanos))
}

struct Parsed {
    seconds: i64,
    nanos: u32,
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    precision: Precision,
}

impl<'a> Reader<'a> {
    fn cannot(&self, rest: &str, element: &str) -> TimeError {
        TimeError(format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(self.text),
            quote(self.precision.layout()),
            quote(rest),
            quote(element)
        ))
    }

    fn out_of_range(&self, what: &str) -> TimeError {
        TimeError(format!("parsing time {}: {what} out of range", quote(self.text)))
    }

    fn literal(&mut self, literal: &str) -> Result<(), TimeError> {
        match self.rest.strip_prefix(literal) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.cannot(self.rest, literal)),
        }
    }

    /// Parses exactly `count` digits; with `short`, one digit suffices if no second follows.
    fn digits(&mut self, count: usize, short: bool, element: &str) -> Result<u32, TimeError> {
        let found = self
            .rest
            .bytes()
            .take(count)
            .take_while(u8::is_ascii_digit)
            .count();
        let taken = if short && found == 1 { 1 } else { count };
        if found < taken {
            return Err(self.cannot(self.rest, element));
        }
        let number = self.rest[..taken]
            .bytes()
            .fold(0, |n, b| n * 10 + u32::from(b - b'0'));
        self.rest = &self.rest[taken..];
        Ok(number)
    }

    fn fraction(&mut self) -> Result<u32, TimeError> {
        let digits = self.rest.strip_prefix(['.', ',']).map_or("", |rest| {
            &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()]
        });
        match self.precision {
            Precision::Seconds if digits.is_empty() => return Ok(0),
            Precision::Micros if digits.len() < 6 => return Err(self.cannot(self.rest, ".000000")),
            _ => {}
        }
        let digits = match self.precision {
            Precision::Seconds => digits,
            Precision::Micros => &digits[..6],
        };
        self.rest = &self.rest[1 + digits.len()..];
        let nanos = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
        Ok(nanos.fold(0, |n, b| n * 10 + u32::from(b - b'0')))
    }

    /// Parses `Z` or `+01:00`, in seconds.
    fn offset(&mut self) -> Result<i64, TimeError> {
        const ELEMENT: &str = "Z07:00";
        let start = self.rest;
        if let Some(rest) = start.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = start.as_bytes();
        let sign = match bytes.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(self.cannot(start, ELEMENT)),
        };
        let number = |at: usize| match (bytes.get(at), bytes.get(at + 1)) {
            (Some(a @ b'0'..=b'9'), Some(b @ b'0'..=b'9')) => Some(i64::from((a - b'0') * 10 + (b - b'0'))),
            _ => None,
        };
        let (Some(hours), Some(b':'), Some(minutes)) = (number(1), bytes.get(3), number(4)) else {
            return Err(self.cannot(start, ELEMENT));
        };
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        self.rest = &start[6..];
        Ok(sign * (hours * 60 + minutes) * 60)
    }
}

fn parse(text: &str, precision: Precision) -> Result<Parsed, TimeError> {
    let mut reader = Reader {
        text,
        rest: text,
        precision,
    };
    let year = reader.digits(4, false, "2006")?;
    reader.literal("-")?;
    let month = reader.digits(2, false, "01")?;
    if !(1..=12).contains(&month) {
        return Err(reader.out_of_range("month"));
    }
    reader.literal("-")?;
    let day = reader.digits(2, false, "02")?;
    reader.literal("T")?;
    let hour = reader.digits(2, true, "15")?;
    if hour >= 24 {
        return Err(reader.out_of_range("hour"));
    }
    reader.literal(":")?;
    let minute = reader.digits(2, false, "04")?;
    if minute >= 60 {
        return Err(reader.out_of_range("minute"));
    }
    reader.literal(":")?;
    let second = reader.digits(2, false, "05")?;
    if second >= 60 {
        return Err(reader.out_of_range("second"));
    }
    let nanos = reader.fraction()?;
    let offset = reader.offset()?;
    if !reader.rest.is_empty() {
        return Err(TimeError(format!(
            "parsing time {}: extra text: {}",
            quote(text),
            quote(reader.rest)
        )));
    }
    if day < 1 || day > days_in_month(year, month) {
        return Err(reader.out_of_range("day"));
    }
    let days = days_from_civil(i64::from(year), i64::from(month), i64::from(day));
    let seconds = days * 86_400 + i64::from(hour * 3600 + minute * 60 + second) - offset;
    Ok(Parsed { seconds, nanos })
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar (Hinnant's `days_from_civil`).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Seconds since 1970 and nanoseconds as text, in UTC.
pub fn format(seconds: i64, nanos: u32, precision: Precision) -> String {
    let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = match precision {
        Precision::Seconds => String::new(),
        Precision::Micros => format!(".{:06}", nanos / 1000),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}
