//! Durations and the parts of times.

use super::Function;
use crate::error::Fail;
use crate::eval::Run;
use crate::value::{Evaluated, Val};
use jiff::Zoned;
use jiff::tz::{Offset, TimeZone};

/// The units for finding a time zone.
const ZONE_UNITS: usize = 150;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("getFullYear", |run, args| {
        part(run, args, |at| i64::from(at.year()))
    }),
    Function::new("getMonth", |run, args| {
        part(run, args, |at| i64::from(at.month()) - 1)
    }),
    Function::new("getDayOfYear", |run, args| {
        part(run, args, |at| i64::from(at.day_of_year()) - 1)
    }),
    Function::new("getDayOfMonth", |run, args| {
        part(run, args, |at| i64::from(at.day()) - 1)
    }),
    Function::new("getDate", |run, args| part(run, args, |at| i64::from(at.day()))),
    Function::new("getDayOfWeek", |run, args| {
        part(run, args, |at| i64::from(at.weekday().to_sunday_zero_offset()))
    }),
    Function::new("getHours", |run, args| {
        part_or_unit(run, args, 3_600_000_000_000, |at| i64::from(at.hour()))
    }),
    Function::new("getMinutes", |run, args| {
        part_or_unit(run, args, 60_000_000_000, |at| i64::from(at.minute()))
    }),
    Function::new("getSeconds", |run, args| {
        part_or_unit(run, args, 1_000_000_000, |at| i64::from(at.second()))
    }),
    Function::new("getMilliseconds", milliseconds),
];

fn milliseconds<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    part_or_unit(run, args, 1_000_000, |at| i64::from(at.millisecond()))
}

fn part_or_unit<'a>(
    run: &mut Run<'a, '_, '_>,
    args: &[Val<'a>],
    unit: i64,
    part_of: fn(&Zoned) -> i64,
) -> Evaluated<'a> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / unit)),
        _ => part(run, args, part_of),
    }
}

fn part<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>], part_of: fn(&Zoned) -> i64) -> Evaluated<'a> {
    let (time, zone) = match args {
        [Val::Time(time)] => (*time, TimeZone::UTC),
        [Val::Time(time), Val::Text(name)] => (*time, time_zone(run, name.as_str())?),
        _ => return Err(Fail::no_overload()),
    };
    Ok(Val::Int(part_of(&time.to_zoned(zone))))
}

fn time_zone(run: &mut Run<'_, '_, '_>, name: &str) -> Result<TimeZone, Fail> {
    let unknown = || Fail::new(format!("unknown time zone {name}"));
    let (sign, rest) = match name.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, name.strip_prefix('+').unwrap_or(name)),
    };
    if let Some((hours, minutes)) = rest.split_once(':')
        && let (Ok(hours), Ok(minutes)) = (hours.parse::<u16>(), minutes.parse::<u16>())
    {
        let seconds = i32::from(hours) * 3600 + i32::from(minutes) * 60;
        let offset = Offset::from_seconds(sign * seconds);
        return offset.map(TimeZone::fixed).map_err(|_| unknown());
    }
    run.spend(ZONE_UNITS)?;
    TimeZone::get(name).map_err(|_| unknown())
}

/// Seconds, as `string()` shows them.
pub(super) fn show_duration(nanos: i64) -> String {
    let whole = nanos / 1_000_000_000;
    let rest = (nanos % 1_000_000_000).abs();
    let sign = if nanos < 0 && whole == 0 { "-" } else { "" };
    if rest == 0 {
        return format!("{whole}s");
    }
    let digits = format!("{rest:09}");
    format!("{sign}{whole}.{}s", digits.trim_end_matches('0'))
}
