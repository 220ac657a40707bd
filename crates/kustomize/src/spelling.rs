//! How scalars are spelled, where it matters and the value does not tell.
//!
//! Upstream keeps the text of scalars to the end. Values do here, but for three
//! things: annotations come out as the texts they were written as (`1.50`), a
//! plain date becomes a time, and a null that was left blank goes where a patch
//! passes by, while one that was written stays. A text that has none of these,
//! as most, costs one look.

use crate::error::BuildError;
use equate_manifest::yaml::{self, Document, Options};
use serde_json::Value;

/// What a document's spelling adds to its value.
#[derive(Debug, Default)]
pub(crate) struct Spelling {
    /// Pointers to the nulls that were left blank.
    pub(crate) blanks: Vec<Vec<String>>,
}

/// Reads documents with their spelling.
pub(crate) fn load(
    text: &str,
    path: &str,
    options: &Options,
) -> Result<Vec<(Document, Spelling)>, BuildError> {
    let read = |options: &Options| yaml::load(text, options).map_err(|error| BuildError::yaml(path, error));
    let documents = read(options)?;
    if !documents.iter().any(|document| depends(&document.value)) {
        return Ok(documents
            .into_iter()
            .map(|document| (document, Spelling::default()))
            .collect());
    }
    let documents = read(&Options {
        spans: true,
        ..options.clone()
    })?;
    Ok(documents
        .into_iter()
        .map(|document| spelled(document, text))
        .collect())
}

/// Whether spelling may matter for a value.
fn depends(value: &Value) -> bool {
    let annotations = value
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations"));
    let annotations = annotations.and_then(Value::as_object);
    annotations.is_some_and(|map| map.values().any(|value| !value.is_string())) || has_null_or_date(value)
}

fn has_null_or_date(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => looks_like_date(text),
        Value::Array(items) => items.iter().any(has_null_or_date),
        Value::Object(map) => map.values().any(has_null_or_date),
        _ => false,
    }
}

fn looks_like_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= 40 && bytes.get(4) == Some(&b'-') && bytes.iter().take(4).all(u8::is_ascii_digit)
}

fn spelled(mut document: Document, text: &str) -> (Document, Spelling) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut spelling = Spelling::default();
    let mut changes = Vec::new();
    for (pointer, place) in document.spans.iter() {
        let Some(value) = document.value.pointer(pointer) else {
            continue;
        };
        let raw = text.get(place.bytes.clone()).unwrap_or_default();
        let annotation = pointer.starts_with("/metadata/annotations/");
        match value {
            Value::Null if raw.is_empty() => spelling.blanks.push(segments(pointer)),
            Value::String(text) if !annotation && raw == text => {
                if let Some(time) = time(text) {
                    changes.push((pointer.to_owned(), time));
                }
            }
            Value::Bool(_) | Value::Number(_) if annotation => {
                changes.push((pointer.to_owned(), raw.to_owned()));
            }
            _ => {}
        }
    }
    for (pointer, text) in changes {
        if let Some(value) = document.value.pointer_mut(&pointer) {
            *value = text.into();
        }
    }
    (document, spelling)
}

fn segments(pointer: &str) -> Vec<String> {
    pointer
        .split('/')
        .skip(1)
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
        .collect()
}

/// A plain date as Go writes the time it reads it as; `None` for what is no date.
fn time(text: &str) -> Option<String> {
    let (date, clock) = match text.split_once(['T', 't']) {
        Some((date, clock)) => (date, Some(clock)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let (year, month, day) = (
        parts.next()?,
        number(parts.next()?, 12)?,
        number(parts.next()?, 31)?,
    );
    let leap = |year: u32| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if leap(year.parse().ok()?) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let is_year = year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next().is_some() || !is_year || month == 0 || day == 0 || day > days {
        return None;
    }
    let date = format!("{year}-{month:02}-{day:02}");
    let Some(clock) = clock else {
        return Some(format!("{date}T00:00:00Z"));
    };
    let (clock, zone) = clock.split_at(clock.find(['Z', '+', '-'])?);
    let zone_is_sound = zone == "Z" || zone.len() == 6 && zone.as_bytes()[3] == b':';
    let (seconds, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = seconds.split(':');
    let (hour, minute, second) = (
        number(parts.next()?, 23)?,
        number(parts.next()?, 59)?,
        number(parts.next()?, 59)?,
    );
    if parts.next().is_some() || !zone_is_sound || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.get(..9).unwrap_or(fraction).trim_end_matches('0');
    let dot = if fraction.is_empty() { "" } else { "." };
    Some(format!(
        "{date}T{hour:02}:{minute:02}:{second:02}{dot}{fraction}{zone}"
    ))
}

/// One or two digits, up to a bound.
fn number(text: &str, bound: u32) -> Option<u32> {
    let digits = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number <= bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_dates_are_times() {
        for (text, expected) in [
            ("2020-01-01", Some("2020-01-01T00:00:00Z")),
            ("2020-1-2", Some("2020-01-02T00:00:00Z")),
            ("2020-02-30", None),
            ("2020-01-01T10:00:00Z", Some("2020-01-01T10:00:00Z")),
            ("2020-01-01T1:02:03.50+02:00", Some("2020-01-01T01:02:03.5+02:00")),
            ("2001-12-14 21:59:43.10", None),
            ("2020-01-01-x", None),
            ("2020-01", None),
        ] {
            assert_eq!(time(text).as_deref(), expected, "{text}");
        }
    }
}
