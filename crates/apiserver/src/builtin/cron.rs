//! Validation of cron schedules, with the messages of `robfig/cron` v3. Five fields or a descriptor.

use equate_manifest::go::duration;

struct Field {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &[
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Field; 5] = [
    Field {
        low: 0,
        high: 59,
        names: &[],
    },
    Field {
        low: 0,
        high: 23,
        names: &[],
    },
    Field {
        low: 1,
        high: 31,
        names: &[],
    },
    Field {
        low: 1,
        high: 12,
        names: MONTHS,
    },
    Field {
        low: 0,
        high: 6,
        names: DAYS,
    },
];

pub(super) fn check(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if rest.starts_with("TZ=") || rest.starts_with("CRON_TZ=") {
        let (zone, after) = rest.split_once(' ').unwrap_or((rest, ""));
        let name = zone.split_once('=').map_or("", |(_, name)| name);
        if name != "UTC" && jiff::tz::TimeZone::get(name).is_err() {
            return Err(format!("provided bad location {name}: unknown time zone {name}"));
        }
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    fields
        .iter()
        .zip(&FIELDS)
        .try_for_each(|(text, field)| text.split(',').try_for_each(|part| range(part, field)))
}

fn descriptor(text: &str) -> Result<(), String> {
    if matches!(
        text,
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly"
    ) {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(every) => match duration::parse(every) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("failed to parse duration {text}: {error}")),
        },
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

fn range(text: &str, field: &Field) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let bounds: Vec<&str> = parts.first().map_or_else(Vec::new, |p| p.split('-').collect());
    let single = bounds.len() == 1;
    let (start, mut end) = match bounds[..] {
        ["*" | "?", ..] => (field.low, field.high),
        [one] => {
            let start = number(one, field)?;
            (start, start)
        }
        [from, to] => (number(from, field)?, number(to, field)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            let step = number(
                step,
                &Field {
                    low: 0,
                    high: 0,
                    names: &[],
                },
            )?;
            if single {
                end = field.high;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < field.low {
        return Err(format!(
            "beginning of range ({start}) below minimum ({}): {text}",
            field.low
        ));
    }
    if end > field.high {
        return Err(format!(
            "end of range ({end}) above maximum ({}): {text}",
            field.high
        ));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number(text: &str, field: &Field) -> Result<u32, String> {
    let lower = text.to_lowercase();
    if let Some(i) = field.names.iter().position(|name| *name == lower) {
        return Ok(field.low + u32::try_from(i).unwrap_or(0));
    }
    match text.parse::<i64>() {
        Ok(n) if n < 0 => Err(format!("negative number ({n}) not allowed: {text}")),
        Ok(n) => u32::try_from(n).map_err(|_| format!("failed to parse int from {text}: out of range")),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": invalid syntax"
        )),
    }
}
