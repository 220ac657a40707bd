//! Texts with a form. A form that is not known holds for every text.

use equate_manifest::calendar::days_in_month;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What is wrong with a text of a format, if anything.
pub(super) fn wrong(format: &str, text: &str) -> Option<String> {
    let checked = match format {
        "ipv4" => ipv4(text),
        "ipv6" => ipv6(text),
        "hostname" => hostname(text),
        "email" => email(text),
        "date" => date(text),
        "time" => time(text),
        "date-time" => date_time(text),
        "uri" | "iri" => uri(text),
        "uri-reference" | "iri-reference" => uri_reference(text),
        "json-pointer" => json_pointer(text),
        "uuid" => uuid(text),
        "regex" => equate_template::go_pattern(text, 1 << 20).map(|_| ()),
        "duration" => duration(text),
        "semver" => semver(text),
        _ => Ok(()),
    };
    checked.err()
}

type Checked = Result<(), String>;

fn unless(right: bool, why: &str) -> Checked {
    if right { Ok(()) } else { Err(why.to_owned()) }
}

fn ipv4(text: &str) -> Checked {
    let groups: Vec<&str> = text.split('.').collect();
    unless(groups.len() == 4, "expected four decimals")?;
    let zeros = |group: &&str| group.len() > 1 && group.starts_with('0');
    unless(!groups.iter().any(zeros), "leading zeros")?;
    unless(
        text.parse::<Ipv4Addr>().is_ok(),
        "decimal must be between 0 and 255",
    )
}

fn ipv6(text: &str) -> Checked {
    unless(text.contains(':'), "missing colon")?;
    unless(!text.contains('%'), "zone id is not a part of ipv6 address")?;
    unless(text.parse::<Ipv6Addr>().is_ok(), "unable to parse IP")
}

fn hostname(text: &str) -> Checked {
    let text = text.strip_suffix('.').unwrap_or(text);
    unless(text.len() <= 253, "more than 253 characters long")?;
    for label in text.split('.') {
        unless(
            (1..=63).contains(&label.len()),
            "label must be 1 to 63 characters long",
        )?;
        unless(!label.starts_with('-'), "label starts with hyphen")?;
        unless(!label.ends_with('-'), "label ends with hyphen")?;
        characters(label, |c| c.is_ascii_alphanumeric() || c == '-')?;
    }
    Ok(())
}

fn characters(text: &str, fits: impl Fn(char) -> bool) -> Checked {
    match text.chars().find(|c| !fits(*c)) {
        Some(c) => Err(format!("invalid character '{c}'")),
        None => Ok(()),
    }
}

fn email(text: &str) -> Checked {
    unless(text.len() <= 254, "more than 255 characters long")?;
    let (local, domain) = text.rsplit_once('@').ok_or("missing @")?;
    unless(local.len() <= 64, "local part more than 64 characters long")?;
    if local.len() > 1 && local.starts_with('"') {
        // only the first quote is asked for, so the last byte may lie within a character
        let inner = &local.as_bytes()[1..local.len() - 1];
        unless(
            !inner.iter().any(|byte| b"\\\"".contains(byte)),
            "backslash and quote are not allowed within quoted local part",
        )?;
    } else {
        unless(!local.starts_with('.'), "starts with dot")?;
        unless(!local.ends_with('.'), "ends with dot")?;
        unless(!local.contains(".."), "consecutive dots")?;
        characters(local, |c| {
            c.is_ascii_alphanumeric() || ".!#$%&'*+-/=?^_`{|}~".contains(c)
        })?;
    }
    if let Some(address) = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match address.strip_prefix("IPv6:") {
            Some(address) => ipv6(address).map_err(|why| format!("invalid ipv6 address: {why}")),
            None => ipv4(address).map_err(|why| format!("invalid ipv4 address: {why}")),
        };
    }
    hostname(domain).map_err(|why| format!("invalid domain: {why}"))
}

fn number(text: Option<&str>) -> Option<u32> {
    let text = text?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
    text.parse().ok()
}

fn date(text: &str) -> Checked {
    let quoted = equate_template::quote(text);
    let part = |from: usize, to: usize| number(text.get(from..to));
    let dash = |at: usize| text.as_bytes().get(at) == Some(&b'-');
    let (true, true, true, Some(year), Some(month), Some(day)) = (
        text.len() == 10,
        dash(4),
        dash(7),
        part(0, 4),
        part(5, 7),
        part(8, 10),
    ) else {
        return Err(format!("parsing time {quoted} as \"2006-01-02\": it is no date"));
    };
    if !(1..=12).contains(&month) {
        return Err(format!("parsing time {quoted}: month out of range"));
    }
    match (1..=days_in_month(year, month)).contains(&day) {
        true => Ok(()),
        false => Err(format!("parsing time {quoted}: day out of range")),
    }
}

fn semver(text: &str) -> Checked {
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = core.split('.').collect();
    unless(
        numbers.len() == 3,
        "versionCore must have 3 numbers separated by dot",
    )?;
    let is_number = |part: &&str| number(Some(part)).is_some() && (*part == "0" || !part.starts_with('0'));
    unless(numbers.iter().all(is_number), "version core is not three numbers")?;
    equate_template::Version::parse(text)
        .map(|_| ())
        .map_err(|error| error.to_string())
}

fn duration(text: &str) -> Checked {
    let rest = text.strip_prefix('P').ok_or("must start with P")?;
    unless(!rest.is_empty(), "nothing after P")?;
    if let Some(weeks) = rest.strip_suffix('W') {
        unless(!weeks.is_empty(), "no number in week")?;
        return unless(number(Some(weeks)).is_some(), "invalid week");
    }
    let (days, clock) = rest.split_once('T').map_or((rest, None), |(d, c)| (d, Some(c)));
    unless(clock != Some(""), "no time elements")?;
    for (part, units) in [(days, "YMD"), (clock.unwrap_or_default(), "HMS")] {
        let (mut part, mut units) = (part, units);
        while !part.is_empty() {
            let unit = part.trim_start_matches(|c: char| c.is_ascii_digit());
            unless(unit.len() < part.len(), "missing number")?;
            let first = unit.chars().next().ok_or("missing unit")?;
            let at = units
                .find(first)
                .ok_or_else(|| format!("invalid unit '{first}'"))?;
            units = &units[at + 1..];
            part = &unit[first.len_utf8()..];
        }
    }
    Ok(())
}

fn time(text: &str) -> Checked {
    unless(text.len() >= 9, "less than 9 characters long")?;
    let colon = |at: usize| text.as_bytes().get(at) == Some(&b':');
    unless(colon(2) && colon(5), "missing colon in correct place")?;
    let part = |from: usize| number(text.get(from..from + 2)).ok_or("invalid hour/min/sec");
    let (hour, minute, second) = (part(0)?, part(3)?, part(6)?);
    unless(
        hour <= 23 && minute <= 59 && second <= 60,
        "hour/min/sec out of range",
    )?;
    let mut zone = text.get(8..).unwrap_or_default();
    if let Some(fraction) = zone.strip_prefix('.') {
        let rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        unless(rest.len() < fraction.len(), "no digits in second fraction")?;
        zone = rest;
    }
    let mut minutes = hour * 60 + minute;
    if !matches!(zone, "z" | "Z") {
        unless(zone.len() == 6, "offset must be 6 characters long")?;
        unless(zone.starts_with(['+', '-']), "offset must begin with plus/minus")?;
        unless(
            zone.as_bytes()[3] == b':',
            "missing colon in offset in correct place",
        )?;
        let part = |from: usize| number(zone.get(from..from + 2)).ok_or("invalid hour/min in offset");
        let (hours, rest) = (part(1)?, part(4)?);
        unless(hours <= 23 && rest <= 59, "hour/min in offset out of range")?;
        const DAY: u32 = 24 * 60;
        let offset = hours * 60 + rest;
        minutes = match zone.starts_with('+') {
            true => (minutes + DAY - offset) % DAY,
            false => minutes + offset,
        };
    }
    unless(second < 60 || minutes == 23 * 60 + 59, "invalid leap second")
}

fn date_time(text: &str) -> Checked {
    unless(text.len() >= 20, "less than 20 characters long")?;
    let marked = matches!(text.as_bytes()[10], b't' | b'T');
    unless(marked, "11th character must be t or T")?;
    let (day, clock) = (
        text.get(..10).unwrap_or_default(),
        text.get(11..).unwrap_or_default(),
    );
    date(day).map_err(|why| format!("invalid date element: {why}"))?;
    time(clock).map_err(|why| format!("invalid time element: {why}"))
}

fn uri(text: &str) -> Checked {
    uri_reference(text)?;
    unless(super::address::scheme(text).is_some(), "relative url")
}

fn uri_reference(text: &str) -> Checked {
    let shown = || equate_template::quote(text);
    if text.chars().any(|c| c.is_ascii_control()) {
        return Err(format!(
            "parse {}: net/url: invalid control character in URL",
            shown()
        ));
    }
    if text.contains('\\') {
        return Err("contains \\".into());
    }
    let host = text
        .split_once("//")
        .map(|(_, rest)| rest.split(['/', '?', '#']).next());
    if let Some(c) = host
        .flatten()
        .and_then(|host| host.chars().find(|c| " \"<>^`{|}".contains(*c)))
    {
        return Err(format!(
            "parse {}: invalid character \"{}\" in host name",
            shown(),
            c.escape_default()
        ));
    }
    if super::address::scheme(text).is_none() {
        let first = text.split(['/', '?', '#']).next().unwrap_or_default();
        if text.starts_with(':') {
            return Err(format!("parse {}: missing protocol scheme", shown()));
        }
        if first.contains(':') {
            return Err(format!(
                "parse {}: first path segment in URL cannot contain colon",
                shown()
            ));
        }
    }
    Ok(())
}

fn json_pointer(text: &str) -> Checked {
    unless(text.is_empty() || text.starts_with('/'), "not starting with /")?;
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('~') {
        unless(after.starts_with(['0', '1']), "~ must be followed by 0 or 1")?;
        rest = after;
    }
    Ok(())
}

fn uuid(text: &str) -> Checked {
    let groups: Vec<&str> = text.split('-').collect();
    unless(groups.len() == 5, "must have 5 elements")?;
    for (index, (group, length)) in groups.into_iter().zip([8, 4, 4, 4, 12]).enumerate() {
        let why = format!("element {} must be {length} characters long", index + 1);
        unless(group.len() == length, &why)?;
        if let Some(c) = group.chars().find(|c| !c.is_ascii_hexdigit()) {
            return Err(format!("non-hex character '{c}'"));
        }
    }
    Ok(())
}
