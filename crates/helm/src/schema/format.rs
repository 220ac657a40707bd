//! String formats. An unknown format accepts every text.

use super::address;

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
        "relative-json-pointer" => relative_json_pointer(text),
        "uri-template" => uri_template(text),
        "period" => period(text),
        "uuid" => uuid(text),
        "regex" => equate_manifest::regexp::compile(text, 1 << 20).map(|_| ()),
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
    for group in groups {
        unless(group.len() <= 1 || !group.starts_with('0'), "leading zeros")?;
        let digits = group.strip_prefix(['-', '+']).unwrap_or(group);
        if number(Some(digits)).is_none() || digits.is_empty() {
            let shown = equate_manifest::go::quote(group);
            return Err(format!("strconv.Atoi: parsing {shown}: invalid syntax"));
        }
        unless(group.parse::<u8>().is_ok(), "decimal must be between 0 and 255")?;
    }
    Ok(())
}

fn ipv6(text: &str) -> Checked {
    unless(text.contains(':'), "missing colon")?;
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    let shown = equate_manifest::go::quote(text);
    if zone == Some("") {
        return Err(format!("ParseAddr({shown}): zone must be a non-empty string"));
    }
    let parsed = address::ipv6(address).map_err(|(why, at)| match at {
        "" => format!("ParseAddr({shown}): {why}"),
        at => format!(
            "ParseAddr({shown}): {why} (at {})",
            equate_manifest::go::quote(at)
        ),
    });
    parsed?;
    unless(zone.is_none(), "zone id is not a part of ipv6 address")
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
        // only the first byte is known to be a quote, so the last may lie within a character
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
    equate_template::parse_time("2006-01-02", text)
}

fn semver(text: &str) -> Checked {
    let (rest, build) = match text.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (text, None),
    };
    let (core, release) = match rest.split_once('-') {
        Some((core, release)) => (core, Some(release)),
        None => (rest, None),
    };
    if let Some(build) = build {
        unless(!build.is_empty(), "build is empty")?;
        for one in build.split('.') {
            unless(!one.is_empty(), "build identifier is empty")?;
            identifier(one, "build")?;
        }
    }
    if let Some(release) = release {
        for one in release.split('.') {
            unless(!one.is_empty(), "pre-release identifier is empty")?;
            identifier(one, "pre-release")?;
            unless(
                one.len() == 1 || !one.starts_with('0') || number(Some(one)).is_none(),
                "pre-release numeric identifier starts with zero",
            )?;
        }
    }
    let numbers: Vec<&str> = core.split('.').collect();
    unless(
        numbers.len() == 3,
        "versionCore must have 3 numbers separated by dot",
    )?;
    for (part, name) in numbers.into_iter().zip(["major", "minor", "patch"]) {
        unless(!part.is_empty(), &format!("{name} is empty"))?;
        unless(
            part.bytes().all(|byte| byte.is_ascii_digit()),
            &format!("{name} contains non-digit"),
        )?;
        unless(
            part.len() == 1 || !part.starts_with('0'),
            &format!("{name} starts with zero"),
        )?;
    }
    Ok(())
}

fn identifier(text: &str, what: &str) -> Checked {
    match text.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '-') {
        Some(c) => Err(format!("invalid character '{c}' in {what} identifier")),
        None => Ok(()),
    }
}

fn period(text: &str) -> Checked {
    let (start, end) = text.split_once('/').ok_or("missing slash")?;
    if start.starts_with('P') {
        duration(start).map_err(|why| format!("invalid start duration: {why}"))?;
    } else {
        date_time(start).map_err(|why| format!("invalid start date-time: {why}"))?;
        if end.starts_with('P') {
            return duration(end).map_err(|why| format!("invalid end duration: {why}"));
        }
    }
    date_time(end).map_err(|why| format!("invalid end date-time: {why}"))
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
            let Some(at) = units.find(first) else {
                let known = ["YMD", "HMS"]
                    .iter()
                    .any(|known| known.ends_with(units) && known.contains(first));
                return Err(match known {
                    true => format!("unit '{first}' out of order"),
                    false => format!("invalid unit '{first}'"),
                });
            };
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
    unless(address::scheme(text).is_some(), "relative url")
}

fn uri_reference(text: &str) -> Checked {
    let shown = || equate_manifest::go::quote(text);
    if text.chars().any(|c| c.is_ascii_control()) {
        return Err(format!(
            "parse {}: net/url: invalid control character in URL",
            shown()
        ));
    }
    if text.contains('\\') {
        return Err("contains \\".into());
    }
    if let Some(escape) = bad_escape(text) {
        let escape = equate_manifest::go::quote(escape);
        return Err(format!("parse {}: invalid URL escape {escape}", shown()));
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
    if address::scheme(text).is_none() {
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

/// A URI with variables in braces.
fn uri_template(text: &str) -> Checked {
    uri_reference(text)?;
    let path = text.split(['?', '#']).next().unwrap_or_default();
    for part in path.split('/') {
        let mut open = false;
        for c in part.chars() {
            open = match (c, open) {
                ('{', false) => true,
                ('}', true) => false,
                ('{' | '}', _) => return Err("nested curly braces".into()),
                (_, open) => open,
            };
        }
        unless(!open, "no matching closing brace")?;
    }
    Ok(())
}

fn relative_json_pointer(text: &str) -> Checked {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = text.len() - rest.len();
    unless(digits > 0, "must start with non-negative integer")?;
    unless(digits == 1 || !text.starts_with('0'), "starts with zero")?;
    match rest {
        "#" => Ok(()),
        rest => json_pointer(rest),
    }
}

/// The first invalid `%` escape of a URL, with the text after it.
fn bad_escape(text: &str) -> Option<&str> {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    text.match_indices('%').find_map(|(at, _)| {
        let digits = text.as_bytes().get(at + 1..at + 3);
        let is_good = digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let end = text.ceil_char_boundary((at + 3).min(text.len()));
        (!is_good).then(|| &text[at..end])
    })
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
