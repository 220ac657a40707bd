//! The string and number formats of schemas (kube-openapi's `strfmt`, as of 1.36). Unknown formats, and
//! formats on another type, are ignored.

use equate_cel::parse_go_duration;
use equate_manifest::schema::SchemaType;
use regex::Regex;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) name: String,
    /// Without dashes: the table's key.
    key: String,
}

const TEXT_FORMATS: &[&str] = &[
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

impl Format {
    pub(super) fn for_type(name: &str, kind: Option<SchemaType>, int_or_string: bool) -> Option<Self> {
        if !is_recognized(name, kind, int_or_string) {
            return None;
        }
        Some(Self {
            name: name.to_owned(),
            key: name.replace('-', ""),
        })
    }

    /// Number formats match any text.
    pub(super) fn matches(&self, text: &str) -> bool {
        matches(&self.key, text)
    }

    pub(super) fn is_textual(&self) -> bool {
        TEXT_FORMATS.contains(&self.key.as_str())
    }
}

pub(super) fn is_recognized(name: &str, kind: Option<SchemaType>, int_or_string: bool) -> bool {
    if name.is_empty() {
        return false;
    }
    let kind = if int_or_string { None } else { kind };
    match kind {
        None | Some(SchemaType::String) => TEXT_FORMATS.contains(&name.replace('-', "").as_str()),
        Some(SchemaType::Integer) => matches!(name, "int32" | "int64"),
        Some(SchemaType::Number) => matches!(name, "float" | "double"),
        Some(_) => false,
    }
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($text).ok());
    };
}

pattern!(
    HOSTNAME,
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
);
pattern!(
    UUID,
    r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
);
pattern!(
    UUID3,
    r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
);
pattern!(
    UUID4,
    r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"
);
pattern!(
    UUID5,
    r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"
);
pattern!(
    TIME,
    r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"
);
pattern!(
    BASE64,
    r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"
);
pattern!(HEX_COLOR, r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$");
pattern!(SSN, r"^\d{3}[- ]?\d{2}[- ]?\d{4}$");
pattern!(
    RGB_COLOR,
    r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$"
);
pattern!(
    CREDIT_CARD,
    r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}|6[27][0-9]{14})$"
);
pattern!(LOOSE_DURATION, r"(\d+)\s*([A-Za-zµ]+)");
pattern!(MAILBOX, r#"^[^\s@<>()\[\]:;,"\\]+@[^\s@<>()\[\]:;,"\\]+$"#);
pattern!(NAMED_MAILBOX, r#"^\s*[^<>@]*<([^\s@<>]+@[^\s@<>]+)>\s*$"#);

fn is(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|p| p.is_match(text))
}

fn matches(key: &str, text: &str) -> bool {
    match key {
        "bsonobjectid" => text.len() == 24 && text.chars().all(|c| c.is_ascii_hexdigit()),
        "uri" => is_uri(text),
        "email" => {
            is(&MAILBOX, text)
                || NAMED_MAILBOX
                    .as_ref()
                    .and_then(|p| p.captures(text))
                    .is_some_and(|c| c.get(1).is_some_and(|m| is(&MAILBOX, m.as_str())))
        }
        "hostname" => text.len() <= 255 && is(&HOSTNAME, text) && text.split('.').all(|p| p.len() <= 63),
        "ipv4" => text.contains('.') && is_ip(text),
        "ipv6" => text.contains(':') && is_ip(text),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is(&UUID, text),
        "uuid3" => is(&UUID3, text),
        "uuid4" => is(&UUID4, text),
        "uuid5" => is(&UUID5, text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => is(&SSN, text) && text.len() == 11,
        "hexcolor" => is(&HEX_COLOR, text),
        "rgbcolor" => is(&RGB_COLOR, text),
        "byte" => is(&BASE64, text),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => parse_duration(text).is_some(),
        "k8sshortname" => {
            text.len() <= 63 && super::names::dns1123_subdomain(text).is_empty() && !text.contains('.')
        }
        "k8slongname" => super::names::dns1123_subdomain(text).is_empty(),
        _ => true,
    }
}

fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|c| c.is_ascii_control()) {
        return false;
    }
    for (at, byte) in text.bytes().enumerate() {
        if byte == b'%' {
            let hex = text.as_bytes().get(at + 1..at + 3);
            if !hex.is_some_and(|h| h.iter().all(u8::is_ascii_hexdigit)) {
                return false;
            }
        }
    }
    if text.starts_with('/') {
        return true;
    }
    match text.split_once(':') {
        Some((scheme, rest)) => {
            let host = rest
                .strip_prefix("//")
                .map(|r| r.split(['/', '?', '#']).next().unwrap_or_default());
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
                && host.is_none_or(|h| !h.contains(' '))
        }
        None => text == "*",
    }
}

/// Leading zeros are tolerated in IPv4 parts.
fn is_ip(text: &str) -> bool {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().is_ok();
    }
    without_leading_zeros(text).parse::<Ipv4Addr>().is_ok()
}

fn without_leading_zeros(text: &str) -> String {
    let part = |p: &str| match p.trim_start_matches('0') {
        "" if !p.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    text.split('.').map(part).collect::<Vec<_>>().join(".")
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let max = if address.contains(':') { 128 } else { 32 };
    is_ip(address)
        && !length.is_empty()
        && length.chars().all(|c| c.is_ascii_digit())
        && length.parse::<u32>().is_ok_and(|n| n <= max)
}

fn is_mac(text: &str) -> bool {
    let hex = |part: &str, length: usize| part.len() == length && part.chars().all(|c| c.is_ascii_hexdigit());
    for separator in [':', '-'] {
        let parts: Vec<&str> = text.split(separator).collect();
        if matches!(parts.len(), 6 | 8 | 20) && parts.iter().all(|p| hex(p, 2)) {
            return true;
        }
    }
    let parts: Vec<&str> = text.split('.').collect();
    matches!(parts.len(), 3 | 4 | 10) && parts.iter().all(|p| hex(p, 4))
}

fn is_isbn10(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    if digits.len() != 10 {
        return false;
    }
    let mut sum = 0;
    for (index, c) in digits.iter().enumerate() {
        let value = match (index, c) {
            (9, 'X') => 10,
            (_, c) => match c.to_digit(10) {
                Some(d) => d,
                None => return false,
            },
        };
        sum += value * (index as u32 + 1);
    }
    sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits: Option<Vec<u32>> = text
        .chars()
        .filter(|c| !matches!(c, '-' | ' '))
        .map(|c| c.to_digit(10))
        .collect();
    let Some(digits) = digits.filter(|d| d.len() == 13) else {
        return false;
    };
    let sum: u32 = digits
        .iter()
        .enumerate()
        .map(|(i, d)| if i % 2 == 0 { *d } else { 3 * d })
        .sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !is(&CREDIT_CARD, &digits) {
        return false;
    }
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(|(i, d)| match (i % 2, d * 2) {
            (0, _) => d,
            (_, doubled) if doubled > 9 => doubled - 9,
            (_, doubled) => doubled,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    let b = text.as_bytes();
    b.len() == 10
        && b[4] == b'-'
        && b[7] == b'-'
        && [0, 1, 2, 3, 5, 6, 8, 9].iter().all(|i| b[*i].is_ascii_digit())
        && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    if !is_date(date) {
        return false;
    }
    let Some(captures) = TIME.as_ref().and_then(|p| p.captures(time)) else {
        return false;
    };
    let part = |n: usize| captures.get(n).map_or("", |m| m.as_str());
    part(1) <= "23" && part(2) <= "59" && part(3) <= "59"
}

/// A duration in nanoseconds: Go's `1h30m`, or the loose form `3 days`.
pub(super) fn parse_duration(text: &str) -> Option<i64> {
    parse_go_duration(text).or_else(|| parse_loose_duration(text))
}

fn parse_loose_duration(text: &str) -> Option<i64> {
    const UNITS: &[(&[&str], i64)] = &[
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], 1_000_000_000),
        (&["m", "min"], 60_000_000_000),
        (&["h", "hr", "hour"], 3_600_000_000_000),
        (&["d", "day"], 86_400_000_000_000),
        (&["w", "wk", "week"], 604_800_000_000_000),
    ];
    let mut total: i64 = 0;
    let mut found = false;
    for captures in LOOSE_DURATION.as_ref()?.captures_iter(text) {
        let factor: i64 = captures.get(1)?.as_str().parse().ok()?;
        let unit = captures.get(2)?.as_str().to_lowercase();
        for (variants, nanos) in UNITS {
            let last = variants.len() - 1;
            for (index, variant) in variants.iter().enumerate() {
                if unit == *variant || (index == last && unit.starts_with(variant)) {
                    found = true;
                    total = total.wrapping_add(factor.wrapping_mul(*nanos));
                }
            }
        }
    }
    found.then_some(total)
}
