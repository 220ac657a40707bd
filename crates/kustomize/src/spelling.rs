//! Spellings of scalars that affect the output beyond their value.
//!
//! kustomize keeps scalar text to the end. Values here do not, with three exceptions: annotations keep their
//! text (`1.50`), a plain date becomes a time, and a null left blank may vanish or become an empty string,
//! unlike a written `null`. A text without any of these, which is most, costs one scan.

use crate::budget::Budget;
use crate::error::BuildError;
use equate_manifest::calendar::days_in_month;
use equate_manifest::yaml::{Document, Options};
use serde_json::{Map, Value};
use std::collections::HashMap;

#[derive(Debug, Clone, Default)]
pub(crate) struct Spelling {
    pub(crate) blanks: Vec<Blank>,
    pub(crate) annotations: Vec<NonTextAnnotation>,
}

#[derive(Debug, Clone)]
pub(crate) struct Blank {
    pub(crate) path: Vec<String>,
    /// Whether it is in a flow collection: it becomes an empty string unless a merge visits it.
    in_flow: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct NonTextAnnotation {
    key: String,
    written: String,
    /// Its text after a JSON patch: the value's, not the file's.
    canonical: String,
}

/// The texts of nulls in labels and annotations, by field and key.
#[derive(Debug, Default)]
pub(crate) struct Nulls<'s>(HashMap<(&'s str, &'s str), &'s str>);

impl Nulls<'_> {
    pub(crate) fn text(&self, field: &str, key: &str) -> &str {
        self.0.get(&(field, key)).copied().unwrap_or("null")
    }
}

impl Spelling {
    pub(crate) fn nulls(&self) -> Nulls<'_> {
        let mut nulls = HashMap::new();
        for bare in &self.annotations {
            let key = ("annotations", bare.key.as_str());
            nulls.entry(key).or_insert(bare.written.as_str());
        }
        for blank in &self.blanks {
            if let [metadata, field, key] = &blank.path[..]
                && metadata == "metadata"
            {
                nulls.insert((field, key), "");
            }
        }
        Nulls(nulls)
    }

    /// The steps to look at all of it.
    pub(crate) fn steps(&self) -> usize {
        const STEPS: usize = 8;
        let blanks = self.blanks.iter().map(|blank| STEPS * blank.path.len());
        blanks.sum::<usize>() + STEPS * self.annotations.len()
    }

    pub(crate) fn resolve_blanks(&mut self, object: &mut Map<String, Value>) {
        for blank in std::mem::take(&mut self.blanks) {
            let annotation = blank.path.len() == 3 && blank.path[..2] == ["metadata", "annotations"];
            if let Some(value @ Value::Null) = at(object, &blank.path)
                && (blank.in_flow || annotation)
            {
                *value = "".into();
            }
        }
    }

    /// Applies a JSON patch's side effects: kustomize serializes to JSON, which normalizes annotations and
    /// turns numbers into floats.
    pub(crate) fn pass_through_json(&mut self, object: &mut Map<String, Value>) {
        for blank in std::mem::take(&mut self.blanks) {
            if let Some(value @ Value::Null) = at(object, &blank.path)
                && blank.in_flow
            {
                *value = "".into();
            }
        }
        for bare in std::mem::take(&mut self.annotations) {
            if let Some(value) = object
                .get_mut("metadata")
                .and_then(|metadata| metadata.get_mut("annotations")?.get_mut(&bare.key))
                && *value == bare.written
            {
                *value = bare.canonical.into();
            }
        }
        object.values_mut().for_each(round);
    }
}

/// The largest integer up to which every integer is an exact float.
const EXACT_MAX: u64 = 1 << 53;

fn round(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let exact = number
                .as_i64()
                .is_some_and(|whole| whole.unsigned_abs() <= EXACT_MAX);
            if !exact && let Some(float) = number.as_f64() {
                *value = float_value(float);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(round),
        Value::Object(map) => map.values_mut().for_each(round),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// A float after Go has written it as JSON and read it again.
fn float_value(float: f64) -> Value {
    let text = equate_manifest::json::to_go_string(&Value::from(float));
    if let Ok(whole) = text.parse::<i64>() {
        return whole.into();
    }
    text.parse::<u64>().map_or_else(|_| float.into(), Value::from)
}

fn at<'v>(object: &'v mut Map<String, Value>, path: &[String]) -> Option<&'v mut Value> {
    let (first, rest) = path.split_first()?;
    rest.iter()
        .try_fold(object.get_mut(first)?, |value, segment| match value {
            Value::Object(map) => map.get_mut(segment),
            Value::Array(items) => items.get_mut(segment.parse::<usize>().ok()?),
            _ => None,
        })
}

pub(crate) fn load(
    text: &str,
    path: &str,
    options: &Options,
    budget: &Budget,
) -> Result<Vec<(Document, Spelling)>, BuildError> {
    let read = |options: &Options| {
        let documents = budget.load(text, options);
        documents.map_err(|error| BuildError::yaml(path, error))
    };
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
        .map(|document| spelled(document, text, budget))
        .collect())
}

pub(crate) fn depends(value: &Value) -> bool {
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

fn spelled(mut document: Document, text: &str, budget: &Budget) -> (Document, Spelling) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut spelling = Spelling::default();
    let mut changes = Vec::new();
    for (pointer, place) in document.spans.iter() {
        budget.owe(8 + pointer.len() / 2);
        let Some(value) = document.value.pointer(pointer) else {
            continue;
        };
        let raw = text.get(place.bytes.clone()).unwrap_or_default();
        let annotation = pointer.strip_prefix(ANNOTATIONS).map(segments);
        let written = |canonical: String| match &annotation.as_deref() {
            Some([key]) => Some(NonTextAnnotation {
                key: key.clone(),
                written: raw.to_owned(),
                canonical,
            }),
            _ => None,
        };
        match value {
            Value::Null if raw.is_empty() => spelling.blanks.push(Blank {
                path: segments(pointer),
                in_flow: document.spans.is_in_flow(pointer),
            }),
            Value::Null => spelling.annotations.extend(written("null".to_owned())),
            Value::String(text) if raw == text => match (time(text), annotation.is_some()) {
                (Some(time), true) => spelling.annotations.extend(written(time)),
                // a time with a colon in a flow collection gets quoted
                (Some(time), false) if !(text.contains(':') && document.spans.is_in_flow(pointer)) => {
                    changes.push((pointer.to_owned(), time));
                }
                _ => {}
            },
            Value::Bool(_) | Value::Number(_) if annotation.is_some() => {
                let canonical = match value.as_f64() {
                    Some(number) => equate_manifest::json::go_float(number),
                    None => value.to_string(),
                };
                spelling.annotations.extend(written(canonical));
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

const ANNOTATIONS: &str = "/metadata/annotations";

fn segments(pointer: &str) -> Vec<String> {
    pointer
        .split('/')
        .skip(1)
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
        .collect()
}

/// A plain date as Go formats it as a time; `None` if it is not a date.
fn time(text: &str) -> Option<String> {
    let (date, clock, has_zone) = match (text.split_once(['T', 't']), text.split_once(' ')) {
        (Some((date, clock)), _) => (date, Some(clock), true),
        (None, Some((date, clock))) => (date, Some(clock), false),
        (None, None) => (text, None, false),
    };
    let mut parts = date.split('-');
    let (year, month, day) = (
        parts.next()?,
        number(parts.next()?, 12)?,
        number(parts.next()?, 31)?,
    );
    let days = days_in_month(year.parse().ok()?, month);
    let is_year = year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next().is_some() || !is_year || month == 0 || day == 0 || day > days {
        return None;
    }
    let date = format!("{year}-{month:02}-{day:02}");
    let Some(clock) = clock else {
        return Some(format!("{date}T00:00:00Z"));
    };
    let (clock, zone) = match has_zone {
        true => clock.split_at(clock.find(['Z', '+', '-'])?),
        false => (clock, "Z"),
    };
    let zone = match zone {
        "+00:00" | "-00:00" => "Z",
        zone => zone,
    };
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

/// Parses one or two digits up to a bound.
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
            ("2001-12-14 21:59:43.10", Some("2001-12-14T21:59:43.1Z")),
            ("2001-12-14 21:59:43Z", None),
            ("2020-01-01T10:00:00+00:00", Some("2020-01-01T10:00:00Z")),
            ("2020-01-01-x", None),
            ("2020-01", None),
        ] {
            assert_eq!(time(text).as_deref(), expected, "{text}");
        }
    }
}
