//! YAML's plain scalars as go-yaml v3, the base of SOPS, reads and writes them.

use equate_manifest::calendar::days_in_month;
use equate_manifest::yaml::{Dialect, scalar, to_string};
use serde_json::Value;

use crate::tree::Node;

/// Returns `None` for an infinity, NaN, or an integer beyond 64 bits.
pub(super) fn resolve(text: &str) -> Option<Node> {
    if let Some(time) = time(text) {
        return Some(Node::Time(time));
    }
    Some(match scalar(Dialect::Yaml12, text)? {
        Value::Null => Node::Null,
        Value::Bool(flag) => Node::Bool(flag),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Node::Int(integer),
            None if number.is_f64() => Node::Float(number.as_f64()?),
            None => return None,
        },
        Value::String(_) | Value::Array(_) | Value::Object(_) => Node::Text(text.into()),
    })
}

/// A date or a time, in RFC 3339: `2001-12-14`, `2001-12-14t21:59:43.10-05:00`, `2001-12-14 21:59:43`.
fn time(text: &str) -> Option<String> {
    let mut rest = Rest(text);
    let year = rest.digits(4, 4)?;
    let month = rest.byte(b"-")?.digits(1, 2)?;
    let day = rest.byte(b"-")?.digits(1, 2)?;
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let date = format!("{year:04}-{month:02}-{day:02}");
    if rest.0.is_empty() {
        return Some(date + "T00:00:00Z");
    }
    let spaced = rest.0.starts_with(' ');
    let hour = rest.byte(b"Tt ")?.digits(1, 2)?;
    let minute = rest.byte(b":")?.digits(1, 2)?;
    let second = rest.byte(b":")?.digits(1, 2)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut fraction = "";
    if rest.0.starts_with('.') {
        let digits = rest.0[1..]
            .find(|next: char| !next.is_ascii_digit())
            .unwrap_or(rest.0.len() - 1);
        fraction = rest.0[..=digits].trim_end_matches(['0', '.']);
        rest.0 = &rest.0[digits + 1..];
    }
    let zone = match rest.0 {
        "" if spaced => "Z".to_owned(),
        "Z" if !spaced => "Z".to_owned(),
        zone if !spaced => offset(zone)?,
        _ => return None,
    };
    Some(format!(
        "{date}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}"
    ))
}

/// `+05:30`; a missing zone becomes `Z`.
fn offset(zone: &str) -> Option<String> {
    let sign = zone.chars().next().filter(|sign| matches!(sign, '+' | '-'))?;
    let mut rest = Rest(&zone[1..]);
    let hours = rest.digits(2, 2)?;
    let minutes = rest.byte(b":")?.digits(2, 2)?;
    if !rest.0.is_empty() || hours > 24 || minutes > 59 {
        return None;
    }
    Some(match (hours, minutes) {
        (0, 0) => "Z".to_owned(),
        _ => format!("{sign}{hours:02}:{minutes:02}"),
    })
}

struct Rest<'t>(&'t str);

impl Rest<'_> {
    fn digits(&mut self, min: usize, max: usize) -> Option<u32> {
        let count = self.0.bytes().take(max).take_while(u8::is_ascii_digit).count();
        if count < min {
            return None;
        }
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        digits.parse().ok()
    }

    fn byte(&mut self, of: &[u8]) -> Option<&mut Self> {
        let first = self.0.bytes().next().filter(|byte| of.contains(byte));
        self.0 = &self.0[first.map(|_| 1)?..];
        Some(self)
    }
}

pub(super) enum Style {
    /// As it is.
    Plain,
    /// With its quotes.
    Quoted(String),
    Literal,
}

/// go-yaml v3 uses v2's emitter, but never breaks long lines and quotes a few more texts that look like
/// numbers.
pub(super) fn style(text: &str) -> Style {
    // in v2, only double quotes can show a tab
    if text.contains('\n')
        && text.contains('\t')
        && let Style::Literal = style(&text.replace('\t', "x"))
    {
        return Style::Literal;
    }
    let written = to_string(&Value::String(text.to_owned()));
    match written.as_bytes().first() {
        Some(b'|') => Style::Literal,
        Some(b'"') => Style::Quoted(unbroken(&written)),
        Some(b'\'') => Style::Quoted(format!("'{}'", text.replace('\'', "''"))),
        _ => match resolve(text) {
            Some(Node::Text(_)) => Style::Plain,
            _ => Style::Quoted(format!("\"{text}\"")),
        },
    }
}

fn unbroken(written: &str) -> String {
    let mut lines = written.trim_end_matches('\n').split('\n');
    let mut out = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        let line = line.trim_start_matches(' ');
        out.push(' ');
        out.push_str(line.strip_prefix("\\ ").map_or(line, |_| &line[1..]));
    }
    out
}

/// Go's `FormatFloat(f, 'g', -1, 64)`.
pub(super) fn float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let Ok(exponent) = exponent.parse::<i32>() else {
        return scientific;
    };
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    crate::tree::fixed(number)
}
