//! Times and durations; the clock is the caller's.

use super::{Function, layout, table};
use crate::call::{Call, Outcome, Ty};
use crate::fault::Fault;
use crate::value::{Host, Int, Method, Value};
use equate_manifest::go::duration::{self, SECOND};
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
        let passed = now.timestamp().duration_since(then.timestamp()).as_nanos();
        // to the nearest second, halves away from zero
        let second = i128::from(SECOND);
        let seconds = (passed + passed.signum() * second / 2) / second;
        let passed = i64::try_from(seconds.saturating_mul(second)).unwrap_or(i64::MAX);
        Ok(duration::format(passed).into())
    };
    "duration" (Any) => |call| {
        // other numbers are ignored
        let seconds = match call.arg(0) {
            Value::Int(seconds, Int::Int64) => *seconds,
            text @ Value::String(_) => super::cast::int(text),
            _ => 0,
        };
        Ok(duration::format(seconds.saturating_mul(SECOND)).into())
    };
    "durationRound" (Any) "clock" => rounded;
    "toDate" (Str, Str) => |call| {
        call.charge_slow_read(64)?;
        Ok(read(call).unwrap_or_else(|_| zero()).into())
    };
    "mustToDate" (Str, Str) => |call| {
        call.charge_slow_read(64)?;
        read(call).map(Into::into).map_err(Fault::Message)
    };
};

/// The cost of converting to a time zone.
const NOW_STEPS: u64 = 4;

#[derive(Debug, Clone)]
pub(super) struct Time {
    pub(super) at: Zoned,
    /// The zone's name if it is unknown.
    pub(super) zone: Option<Rc<str>>,
}

impl Time {
    pub(super) fn new(at: Zoned) -> Self {
        Self { at, zone: None }
    }

    pub(super) fn format(&self, layout: &str) -> String {
        layout::format(&self.at, self.zone.as_deref(), layout)
    }
}

impl From<Time> for Value {
    fn from(time: Time) -> Self {
        Self::Host(Rc::new(time))
    }
}

fn time(at: Zoned) -> Value {
    Time::new(at).into()
}

fn instant(value: &Value) -> Option<Zoned> {
    match value {
        Value::Host(host) => host.as_any().downcast_ref::<Time>().map(|time| time.at.clone()),
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
    call.exec.meter().steps(NOW_STEPS)?;
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
    call.charge_slow_read(64)?;
    let text = layout::format(&at, None, &call.text(0));
    call.done(text)
}

fn in_zone(call: &mut Call<'_, '_>) -> Outcome {
    let name = call.text(2).into_owned();
    formatted(call, 1, &name)
}

fn html(call: &mut Call<'_, '_>, name: &str) -> Outcome {
    let at = moment(call, 0)?.with_time_zone(zone(name));
    call.done(layout::format(&at, None, "2006-01-02"))
}

fn modify(call: &mut Call<'_, '_>, lenient: bool) -> Outcome {
    let Some(at) = instant(call.arg(1)) else {
        return call.fail("not a time");
    };
    match duration::parse(&call.text(0)) {
        Ok(by) => match at.checked_add(SignedDuration::from_nanos(by)) {
            Ok(at) => Ok(time(at)),
            Err(error) => call.fail(error.to_string()),
        },
        Err(_) if lenient => Ok(call.arg(1).clone()),
        Err(error) => call.fail(error.to_string()),
    }
}

/// Parses a time as Go does; without a zone in the text it is local.
fn read(call: &mut Call<'_, '_>) -> Result<Time, String> {
    let read = layout::parse(&call.text(0), &call.text(1))?;
    let at = jiff::civil::DateTime::new(
        read.year,
        read.month,
        read.day,
        read.hour,
        read.minute,
        read.second,
        read.nanosecond,
    );
    let at = at.map_err(|error| error.to_string())?;
    let local = zone(&call.exec.session().world.zone());
    let in_zone = |zone: &TimeZone| at.to_zoned(zone.clone()).map_err(|error| error.to_string());
    if read.is_utc {
        return in_zone(&TimeZone::UTC).map(Time::new);
    }
    if let Some(seconds) = read.offset {
        let offset = jiff::tz::Offset::from_seconds(seconds).map_err(|error| error.to_string())?;
        let at = in_zone(&TimeZone::fixed(offset))?;
        let locally = at.with_time_zone(local);
        let is_local = locally.offset() == offset
            && read
                .zone
                .as_ref()
                .is_none_or(|name| *name == layout::format(&locally, None, "MST"));
        return Ok(if is_local {
            Time::new(locally)
        } else {
            Time {
                at,
                zone: read.zone.map(Into::into),
            }
        });
    }
    let Some(name) = read.zone else {
        return in_zone(&local).map(Time::new);
    };
    let locally = in_zone(&local)?;
    if layout::format(&locally, None, "MST") == name {
        return Ok(Time::new(locally));
    }
    // an unknown name has no offset, except forms such as GMT+3, where the clock is UTC's
    let hours = name
        .strip_prefix("GMT")
        .and_then(|hours| hours.parse::<i32>().ok());
    let offset = jiff::tz::Offset::from_seconds(hours.unwrap_or(0).saturating_mul(3_600));
    let offset = offset.map_err(|error| error.to_string())?;
    Ok(Time {
        at: in_zone(&TimeZone::UTC)?.with_time_zone(TimeZone::fixed(offset)),
        zone: Some(name.into()),
    })
}

fn zero() -> Time {
    Time::new(
        jiff::civil::date(1, 1, 1)
            .at(0, 0, 0, 0)
            .to_zoned(TimeZone::UTC)
            .unwrap_or_default(),
    )
}

/// Rounds a duration down to its largest unit with a count above one.
fn rounded(call: &mut Call<'_, '_>) -> Outcome {
    const HOURS: u64 = 3_600_000_000_000;
    const UNITS: [(u64, &str); 6] = [
        (HOURS * 24 * 365, "y"),
        (HOURS * 24 * 30, "mo"),
        (HOURS * 24, "d"),
        (HOURS, "h"),
        (HOURS / 60, "m"),
        (HOURS / 3_600, "s"),
    ];
    let nanoseconds = match call.arg(0) {
        Value::String(text) => duration::parse(&text.lossy()).unwrap_or(0),
        Value::Int(nanoseconds, Int::Int64) => *nanoseconds,
        value => match instant(value) {
            Some(then) => {
                let passed = now(call)?.timestamp().duration_since(then.timestamp()).as_nanos();
                i64::try_from(passed).unwrap_or(if passed < 0 { i64::MIN } else { i64::MAX })
            }
            None => 0,
        },
    };
    let size = nanoseconds.unsigned_abs();
    let unit = UNITS.iter().find(|(unit, _)| size > *unit);
    Ok(unit
        .map_or_else(
            || "0s".to_owned(),
            |(unit, name)| format!("{}{name}", size / unit),
        )
        .into())
}

const NONE: Method = Method {
    params: &[],
    variadic: None,
};

impl Host for Time {
    fn type_name(&self) -> &'static str {
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
        let at = &self.at;
        let stamp = at.timestamp();
        Ok(match name {
            "Format" => match args.first() {
                Some(Value::String(layout)) => self.format(&layout.lossy()).into(),
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
            "IsZero" => Value::Bool(stamp == zero().at.timestamp()),
            _ => self.text().unwrap_or_default().into(),
        })
    }

    fn text(&self) -> Option<String> {
        Some(self.format("2006-01-02 15:04:05.999999999 -0700 MST"))
    }

    fn to_json(&self) -> Result<serde_json::Value, Fault> {
        Ok(self.format("2006-01-02T15:04:05.999999999Z07:00").into())
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
