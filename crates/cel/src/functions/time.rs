//! Durations and the parts of times.

use super::Function;
use crate::error::Fail;
use crate::eval::Run;
use crate::value::{Evaluated, Val};
use jiff::Zoned;
use jiff::tz::{Offset, TimeZone};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("getFullYear", |_, args| part(args, |at| i64::from(at.year()))),
    Function::new("getMonth", |_, args| part(args, |at| i64::from(at.month()) - 1)),
    Function::new("getDayOfYear", |_, args| {
        part(args, |at| i64::from(at.day_of_year()) - 1)
    }),
    Function::new("getDayOfMonth", |_, args| {
        part(args, |at| i64::from(at.day()) - 1)
    }),
    Function::new("getDate", |_, args| part(args, |at| i64::from(at.day()))),
    Function::new("getDayOfWeek", |_, args| {
        part(args, |at| i64::from(at.weekday().to_sunday_zero_offset()))
    }),
    Function::new("getHours", |_, args| {
        part_or_unit(args, 3_600_000_000_000, |at| i64::from(at.hour()))
    }),
    Function::new("getMinutes", |_, args| {
        part_or_unit(args, 60_000_000_000, |at| i64::from(at.minute()))
    }),
    Function::new("getSeconds", |_, args| {
        part_or_unit(args, 1_000_000_000, |at| i64::from(at.second()))
    }),
    Function::new("getMilliseconds", milliseconds),
];

fn milliseconds<'a>(_run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    part_or_unit(args, 1_000_000, |at| i64::from(at.millisecond()))
}

fn part_or_unit<'a>(args: &[Val<'a>], unit: i64, part_of: fn(&Zoned) -> i64) -> Evaluated<'a> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / unit)),
        _ => part(args, part_of),
    }
}

fn part<'a>(args: &[Val<'a>], part_of: fn(&Zoned) -> i64) -> Evaluated<'a> {
    let (time, zone) = match args {
        [Val::Time(time)] => (*time, TimeZone::UTC),
        [Val::Time(time), Val::Text(name)] => (*time, time_zone(name.as_str())?),
        _ => return Err(Fail::no_overload()),
    };
    Ok(Val::Int(part_of(&time.to_zoned(zone))))
}

fn time_zone(name: &str) -> Result<TimeZone, Fail> {
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
