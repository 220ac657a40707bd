//! Cron schedules: the times of a checked expression, by the rules of `robfig/cron` v3.

use equate_manifest::go::duration;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

/// An expression whose times do not come within these years has none.
const YEARS_MAX: i16 = 5;
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// Written as `*`: it does not restrict.
    any: bool,
}

impl Field {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits & (1 << value) != 0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Times {
    Every(SignedDuration),
    Fields {
        minute: Field,
        hour: Field,
        day: Field,
        month: Field,
        weekday: Field,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Schedule {
    times: Times,
    zone: TimeZone,
}

/// The times between an earlier one and now that a CronJob has not served.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missed {
    /// The newest of them.
    pub(super) last: Option<Timestamp>,
    pub(super) count: i64,
}

fn field(text: &str, low: u32, high: u32, names: &[&str]) -> Option<Field> {
    let number = |word: &str| -> Option<u32> {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(word));
        match named {
            Some(nth) => Some(low + u32::try_from(nth).ok()?),
            None => word.parse().ok(),
        }
    };
    let (mut bits, mut any) = (0, false);
    for part in text.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(r, s)| (r, Some(s)));
        let step = match step {
            None => 1,
            Some(step) => step.parse::<usize>().ok().filter(|step| *step > 0)?,
        };
        let (first, last) = match range.split_once('-') {
            _ if matches!(range, "*" | "?") => {
                any |= step == 1;
                (low, high)
            }
            Some((first, last)) => (number(first)?, number(last)?),
            None if part.contains('/') => (number(range)?, high),
            None => (number(range)?, number(range)?),
        };
        for value in (first..=last.min(high)).step_by(step) {
            bits |= 1 << value;
        }
    }
    Some(Field { bits, any })
}

impl Schedule {
    /// `None` if the expression or the zone is not valid.
    pub(super) fn parse(expression: &str, zone: &str) -> Option<Self> {
        let zone = match zone {
            "" | "UTC" => TimeZone::UTC,
            name => TimeZone::get(name).ok()?,
        };
        let expression = match expression.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        if let Some(every) = expression.strip_prefix("@every ") {
            let seconds = duration::parse(every).ok()? / duration::SECOND;
            let times = Times::Every(SignedDuration::from_secs(seconds.max(1)));
            return Some(Self { times, zone });
        }
        let parts: Vec<&str> = expression.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = parts[..] else {
            return None;
        };
        let times = Times::Fields {
            minute: field(minute, 0, 59, &[])?,
            hour: field(hour, 0, 23, &[])?,
            day: field(day, 1, 31, &[])?,
            month: field(month, 1, 12, &MONTHS)?,
            weekday: field(weekday, 0, 6, &DAYS)?,
        };
        Some(Self { times, zone })
    }

    pub(super) fn show(&self, time: Timestamp) -> String {
        let local = time.to_zoned(self.zone.clone());
        match local.offset().seconds() {
            0 => local.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            _ => local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        }
    }

    /// The first time after another.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let (minute, hour, day, month, weekday) = match &self.times {
            Times::Every(delay) => {
                let whole = Timestamp::from_second(after.as_second()).ok()?;
                return whole.checked_add(*delay).ok();
            }
            Times::Fields {
                minute,
                hour,
                day,
                month,
                weekday,
            } => (minute, hour, day, month, weekday),
        };
        let minutes = after.as_second().div_euclid(60) + 1;
        let mut at = Timestamp::from_second(minutes * 60)
            .ok()?
            .to_zoned(self.zone.clone());
        let last_year = at.year().saturating_add(YEARS_MAX);
        while at.year() <= last_year {
            let of_month = day.has(at.day());
            let of_week = weekday.has(at.weekday().to_sunday_zero_offset());
            let day_fits = match day.any || weekday.any {
                true => of_month && of_week,
                false => of_month || of_week,
            };
            at = if !month.has(at.month()) {
                let next = at.date().last_of_month().tomorrow().ok()?;
                next.to_zoned(self.zone.clone()).ok()?
            } else if !day_fits {
                at.date().tomorrow().ok()?.to_zoned(self.zone.clone()).ok()?
            } else if !hour.has(at.hour()) {
                later(&at, 60 - i64::from(at.minute()))?
            } else if !minute.has(at.minute()) {
                later(&at, 1)?
            } else {
                return Some(at.timestamp());
            };
        }
        None
    }

    /// The unserved times after `since`, up to `now`. `None` if the schedule has no times.
    pub(super) fn missed(&self, since: Timestamp, now: Timestamp) -> Option<Missed> {
        let first = self.next(since)?;
        let second = self.next(first)?;
        if now < first {
            return Some(Missed { last: None, count: 0 });
        }
        if now < second {
            return Some(Missed {
                last: Some(first),
                count: 0,
            });
        }
        // An estimate as upstream's: the times may not be regular.
        let between = (second.as_second() - first.as_second()).max(1);
        let count = (now.as_second() - first.as_second()) / between + 1;
        let start = first
            .checked_add(SignedDuration::from_secs((count - 2) * between))
            .ok()?;
        let mut last = None;
        let mut next = self.next(start);
        while let Some(time) = next.filter(|time| *time <= now) {
            last = Some(time);
            next = self.next(time);
        }
        Some(Missed { last, count })
    }
}

fn later(at: &Zoned, minutes: i64) -> Option<Zoned> {
    at.checked_add(SignedDuration::from_mins(minutes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_times_follow_the_fields() {
        let check = |expression: &str, zone: &str, after: &str, expected: &str| {
            let schedule = Schedule::parse(expression, zone).unwrap();
            let next = schedule.next(after.parse().unwrap());
            let shown = next.map_or_else(|| "never".to_owned(), |time| schedule.show(time));
            assert_eq!(shown, expected, "{expression} after {after}");
        };
        let after = "2027-01-15T08:00:00Z";
        check("*/5 * * * *", "", after, "2027-01-15T08:05:00Z");
        check("* * * * *", "", "2027-01-15T08:00:30.5Z", "2027-01-15T08:01:00Z");
        check("30 6-16/4 * * 1-5", "", after, "2027-01-15T10:30:00Z");
        check("0 0 29 feb *", "", after, "2028-02-29T00:00:00Z");
        check("59 23 31 2 *", "", after, "never");
        check("@monthly", "", after, "2027-02-01T00:00:00Z");
        check("@every 90s", "", after, "2027-01-15T08:01:30Z");
        // either day fits, unless one of them is any
        check("0 0 13 * fri", "", after, "2027-01-22T00:00:00Z");
        check("0 0 * * fri", "", after, "2027-01-22T00:00:00Z");
        check("0 9 * * *", "Europe/Berlin", after, "2027-01-16T09:00:00+01:00");
        // in the skipped hour, and in the repeated one
        check(
            "30 2 * * *",
            "Europe/Berlin",
            "2027-03-27T12:00:00Z",
            "2027-03-29T02:30:00+02:00",
        );
        check(
            "30 2 * * *",
            "Europe/Berlin",
            "2027-10-31T00:30:00Z",
            "2027-10-31T02:30:00+01:00",
        );
    }

    #[test]
    fn missed_times_end_with_the_newest() {
        let schedule = Schedule::parse("0 * * * *", "").unwrap();
        let check = |now: &str, last: Option<&str>, count: i64| {
            let expected = Missed {
                last: last.map(|time| time.parse().unwrap()),
                count,
            };
            let since = "2027-01-15T08:10:00Z".parse().unwrap();
            assert_eq!(
                schedule.missed(since, now.parse().unwrap()),
                Some(expected),
                "{now}"
            );
        };
        check("2027-01-15T08:59:59Z", None, 0);
        check("2027-01-15T09:00:00Z", Some("2027-01-15T09:00:00Z"), 0);
        check("2027-01-15T12:30:00Z", Some("2027-01-15T12:00:00Z"), 4);
    }
}
