//! Times: Go's layouts, durations, and a clock that is the caller's.

use super::duration::{MONTHS, WEEKDAYS};
use super::duration::{duration_text, parse_duration};
use super::{Function, table};
use crate::call::{Call, Outcome, Ty};
use crate::fault::Fault;
use crate::value::{Host, Int, Method, Value};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use std::rc::Rc;

pub(super) const FUNCTIONS: &[Function] = table! {
    "now" () "clock" => |call| {
        let now = now(call)?;
        Ok(time(now))
    };
    "date" (Str, Any) "clock" => |call| {
        let zone = call.exec.session().world.zone();
        formatted(call, 1, &zone)
    };
    "dateInZone" (Str, Any, Str) "clock" => in_zone;
    "date_in_zone" (Str, Any, Str) "clock" => in_zone;
    "htmlDate" (Any) "clock" => |call| {
        let zone = call.exec.session().world.zone();
        html(call, &zone)
    };
    "htmlDateInZone" (Any, Str) "clock" => |call| {
        let zone = call.text(1).into_owned();
        html(call, &zone)
    };
    "dateModify" (Str, Time) => |call| modify(call, true);
    "date_modify" (Str, Time) => |call| modify(call, true);
    "mustDateModify" (Str, Time) => |call| modify(call, false);
    "must_date_modify" (Str, Time) => |call| modify(call, false);
    "unixEpoch" (Time) => |call| match instant(call.arg(0)) {
        Some(at) => Ok(at.timestamp().as_second().to_string().into()),
        None => call.fail("not a time"),
    };
    "ago" (Any) "clock" => |call| {
        let now = now(call)?;
        let then = moment(call, 0)?;
        let seconds = now.timestamp().duration_since(then.timestamp()).as_secs();
        Ok(duration_text(seconds.saturating_mul(SECOND)).into())
    };
    "duration" (Any) => |call| {
        // other numbers count for nothing
        let seconds = match call.arg(0) {
            Value::Int(seconds, Int::Int64) => *seconds,
            text @ Value::String(_) => super::cast::int(text),
            _ => 0,
        };
        Ok(duration_text(seconds.saturating_mul(SECOND)).into())
    };
};

const SECOND: i64 = 1_000_000_000;

/// A time in a zone.
#[derive(Debug, Clone)]
pub(crate) struct Time(Zoned);

fn time(at: Zoned) -> Value {
    Value::Host(Rc::new(Time(at)))
}

fn instant(value: &Value) -> Option<Zoned> {
    match value {
        Value::Host(host) => host.as_any().downcast_ref::<Time>().map(|time| time.0.clone()),
        _ => None,
    }
}

fn zone(name: &str) -> TimeZone {
    match name {
        "" | "UTC" => TimeZone::UTC,
        name => TimeZone::get(name).unwrap_or(TimeZone::UTC),
    }
}

fn now(call: &mut Call<'_, '_>) -> Result<Zoned, Fault> {
    let session = call.exec.session();
    let (nanoseconds, local) = (session.world.now(), session.world.zone());
    let now = Timestamp::from_nanosecond(nanoseconds).map_err(|error| Fault::message(error.to_string()))?;
    Ok(now.to_zoned(zone(&local)))
}

/// A time, or seconds since 1970; the present for anything else.
fn moment(call: &mut Call<'_, '_>, index: usize) -> Result<Zoned, Fault> {
    if let Some(at) = instant(call.arg(index)) {
        return Ok(at);
    }
    match call.arg(index) {
        Value::Int(seconds, Int::Int | Int::Int32 | Int::Int64) => {
            let at = Timestamp::from_second(*seconds).map_err(|error| Fault::message(error.to_string()))?;
            Ok(at.to_zoned(TimeZone::UTC))
        }
        _ => now(call),
    }
}

fn formatted(call: &mut Call<'_, '_>, index: usize, name: &str) -> Outcome {
    let at = moment(call, index)?.with_time_zone(zone(name));
    let text = format(&at, &call.text(0));
    call.done(text)
}

fn in_zone(call: &mut Call<'_, '_>) -> Outcome {
    let name = call.text(2).into_owned();
    formatted(call, 1, &name)
}

fn html(call: &mut Call<'_, '_>, name: &str) -> Outcome {
    let at = moment(call, 0)?.with_time_zone(zone(name));
    call.done(format(&at, "2006-01-02"))
}

fn modify(call: &mut Call<'_, '_>, lenient: bool) -> Outcome {
    let Some(at) = instant(call.arg(1)) else {
        return call.fail("not a time");
    };
    match parse_duration(&call.text(0)) {
        Ok(by) => match at.checked_add(SignedDuration::from_nanos(by)) {
            Ok(at) => Ok(time(at)),
            Err(error) => call.fail(error.to_string()),
        },
        Err(_) if lenient => Ok(call.arg(1).clone()),
        Err(message) => call.fail(message),
    }
}

/// The parts of a layout, the longer before those they begin with.
const PARTS: [&str; 34] = [
    "January",
    "Jan",
    "Monday",
    "Mon",
    "MST",
    "2006",
    "-07:00:00",
    "-070000",
    "-07:00",
    "-0700",
    "-07",
    "Z07:00:00",
    "Z070000",
    "Z07:00",
    "Z0700",
    "Z07",
    "002",
    "__2",
    "01",
    "02",
    "03",
    "04",
    "05",
    "06",
    "15",
    "PM",
    "pm",
    "_2",
    "1",
    "2",
    "3",
    "4",
    "5",
    "0",
];

/// A time by one of Go's layouts.
fn format(at: &Zoned, layout: &str) -> String {
    let mut out = String::new();
    let mut rest = layout;
    while let Some(character) = rest.chars().next() {
        if let Some(length) = fraction(rest, &out) {
            let digits = format!("{:09}", at.subsec_nanosecond());
            let kept = &digits[..length.min(9)];
            let kept = if rest[1..].starts_with('9') {
                kept.trim_end_matches('0')
            } else {
                kept
            };
            if !kept.is_empty() {
                out.push(character);
                out.push_str(kept);
            }
            rest = &rest[length + 1..];
            continue;
        }
        let part = PARTS
            .iter()
            .find(|part| rest.starts_with(**part) && fits(rest, part));
        match part {
            Some(part) => {
                out.push_str(&value(at, part));
                rest = &rest[part.len()..];
            }
            None => {
                out.push(character);
                rest = &rest[character.len_utf8()..];
            }
        }
    }
    out
}

/// How many digits of a fraction of the second begin here.
fn fraction(rest: &str, before: &str) -> Option<usize> {
    let digits = rest.strip_prefix(['.', ','])?;
    let digit = digits.chars().next().filter(|digit| matches!(digit, '0' | '9'))?;
    let length = digits.len() - digits.trim_start_matches(digit).len();
    let ends = !digits[length..].starts_with(|c: char| c.is_ascii_digit());
    (ends && before.ends_with(|c: char| c.is_ascii_digit())).then_some(length)
}

/// `Jan` is no part where a word goes on in lower case, and a lone `0` is none at all.
fn fits(rest: &str, part: &str) -> bool {
    match part {
        "Jan" | "Mon" => !rest[part.len()..].starts_with(|c: char| c.is_ascii_lowercase()),
        "0" => false,
        _ => true,
    }
}

fn value(at: &Zoned, part: &str) -> String {
    let month = MONTHS[(at.month() as usize + 11) % 12];
    let day = WEEKDAYS[at.weekday().to_sunday_zero_offset() as usize % 7];
    let hour12 = (at.hour() + 11) % 12 + 1;
    match part {
        "January" => month.into(),
        "Jan" => month[..3].into(),
        "Monday" => day.into(),
        "Mon" => day[..3].into(),
        "MST" => at.strftime("%Z").to_string(),
        "2006" => format!("{:04}", at.year()),
        "06" => format!("{:02}", at.year().rem_euclid(100)),
        "01" => format!("{:02}", at.month()),
        "1" => at.month().to_string(),
        "02" => format!("{:02}", at.day()),
        "_2" => format!("{:2}", at.day()),
        "2" => at.day().to_string(),
        "002" => format!("{:03}", at.day_of_year()),
        "__2" => format!("{:3}", at.day_of_year()),
        "15" => format!("{:02}", at.hour()),
        "03" => format!("{hour12:02}"),
        "3" => hour12.to_string(),
        "04" => format!("{:02}", at.minute()),
        "4" => at.minute().to_string(),
        "05" => format!("{:02}", at.second()),
        "5" => at.second().to_string(),
        "PM" => if at.hour() < 12 { "AM" } else { "PM" }.into(),
        "pm" => if at.hour() < 12 { "am" } else { "pm" }.into(),
        offset => {
            let seconds = at.offset().seconds();
            if offset.starts_with('Z') && seconds == 0 {
                return "Z".into();
            }
            let (sign, size) = (if seconds < 0 { '-' } else { '+' }, seconds.abs());
            let (hours, minutes, rest) = (size / 3_600, size / 60 % 60, size % 60);
            match &offset[1..] {
                "07" => format!("{sign}{hours:02}"),
                "0700" => format!("{sign}{hours:02}{minutes:02}"),
                "07:00" => format!("{sign}{hours:02}:{minutes:02}"),
                "070000" => format!("{sign}{hours:02}{minutes:02}{rest:02}"),
                _ => format!("{sign}{hours:02}:{minutes:02}:{rest:02}"),
            }
        }
    }
}

const NONE: Method = Method {
    params: &[],
    variadic: None,
};

impl Host for Time {
    fn type_name(&self) -> &str {
        "time.Time"
    }

    fn method(&self, name: &str) -> Option<Method> {
        match name {
            "Format" => Some(Method {
                params: &[Ty::Str],
                variadic: None,
            }),
            "Year" | "Month" | "Day" | "Hour" | "Minute" | "Second" | "Nanosecond" | "YearDay"
            | "Weekday" | "Unix" | "UnixMilli" | "UnixMicro" | "UnixNano" | "UTC" | "String" | "IsZero" => {
                Some(NONE)
            }
            _ => None,
        }
    }

    fn call(&self, name: &str, args: &[Value]) -> Result<Value, Fault> {
        let at = &self.0;
        let stamp = at.timestamp();
        Ok(match name {
            "Format" => match args.first() {
                Some(Value::String(layout)) => format(at, &layout.lossy()).into(),
                _ => "".into(),
            },
            "Year" => Value::int(at.year().into()),
            "Month" => Value::Int(at.month().into(), Int::Month),
            "Day" => Value::int(at.day().into()),
            "Hour" => Value::int(at.hour().into()),
            "Minute" => Value::int(at.minute().into()),
            "Second" => Value::int(at.second().into()),
            "Nanosecond" => Value::int(at.subsec_nanosecond().into()),
            "YearDay" => Value::int(at.day_of_year().into()),
            "Weekday" => Value::Int(at.weekday().to_sunday_zero_offset().into(), Int::Weekday),
            "Unix" => Value::int64(stamp.as_second()),
            "UnixMilli" => Value::int64(stamp.as_millisecond()),
            "UnixMicro" => Value::int64(stamp.as_microsecond()),
            "UnixNano" => Value::int64(i64::try_from(stamp.as_nanosecond()).unwrap_or(i64::MAX)),
            "UTC" => time(at.with_time_zone(TimeZone::UTC)),
            "IsZero" => Value::Bool(false),
            _ => self.text().unwrap_or_default().into(),
        })
    }

    fn text(&self) -> Option<String> {
        Some(format(&self.0, "2006-01-02 15:04:05.999999999 -0700 MST"))
    }

    fn to_json(&self) -> Result<serde_json::Value, Fault> {
        Ok(format(&self.0, "2006-01-02T15:04:05.999999999Z07:00").into())
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
