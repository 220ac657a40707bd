//! The smallest edits of a text: byte ranges of values, with comments, quotes and format kept.
//!
//! A value that cannot be edited without a new layout is refused: block scalars, texts over several lines,
//! aliases, and entries that share their line with a list's dash.

use super::load::Document;
use super::resolve::{Dialect, scalar};
use serde_json::Value;
use std::ops::Range;

const BOM: char = '\u{feff}';

/// A range of a text and its new content. The range does not count a byte order mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// The range in bytes.
    pub bytes: Range<usize>,
    /// The new content.
    pub text: String,
}

/// The reason why a value cannot be edited in place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text has no value there.
    #[error("there is no value at {0}")]
    Absent(String),
    /// The value is written in a form that an edit would lay out anew.
    #[error("line {line}: {form} cannot be edited in place")]
    Form {
        /// The line, from 1.
        line: usize,
        /// The form.
        form: &'static str,
    },
}

/// Applies splices that do not overlap.
pub fn apply(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|splice| (splice.bytes.start, splice.bytes.end));
    let offset = text.len() - without_mark(text).len();
    let mut result = text.to_owned();
    for splice in splices.iter().rev() {
        let range = splice.bytes.start + offset..splice.bytes.end + offset;
        result.replace_range(range, &splice.text);
    }
    result
}

/// Replaces a scalar by a text, in the same quotes. A plain scalar gets quotes if it would not be read as the
/// same text without them.
///
/// # Errors
/// There is no scalar, or it is not on one line.
pub fn set(text: &str, document: &Document, pointer: &str, value: &str) -> Result<Splice, EditError> {
    let text = without_mark(text);
    let (bytes, line) = range(document, pointer)?;
    let raw = text
        .get(bytes.clone())
        .ok_or_else(|| EditError::Absent(pointer.to_owned()))?;
    let refuse = |form| Err(EditError::Form { line, form });
    match document.value.pointer(pointer) {
        Some(Value::Object(_) | Value::Array(_)) => return refuse("a collection"),
        Some(_) => {}
        None => return Err(EditError::Absent(pointer.to_owned())),
    }
    if is_below_block_header(text, bytes.start) {
        return refuse("a block scalar");
    }
    if raw.contains('\n') {
        return refuse("a text over several lines");
    }
    let before = text[..bytes.start].trim_end_matches([' ', '\t']);
    let written = match raw.chars().next() {
        Some('"') => double_quoted(value),
        Some('\'') if value.chars().all(|c| !c.is_control()) => format!("'{}'", value.replace('\'', "''")),
        Some('*') => return refuse("an alias"),
        Some('&' | '!') => return refuse("a value with an anchor or tag"),
        // an empty value has no place of its own: a space must stay before the text
        None if before.len() == bytes.start => format!(" {}", plain(value)),
        Some(_) | None => plain(value),
    };
    Ok(Splice { bytes, text: written })
}

/// Adds a key with a scalar after the scalar at `pointer`, in the same mapping.
///
/// # Errors
/// There is no scalar at the pointer, or its mapping has a form that cannot be extended.
pub fn insert_after(
    text: &str,
    document: &Document,
    pointer: &str,
    key: &str,
    value: &str,
) -> Result<Splice, EditError> {
    let text = without_mark(text);
    let (bytes, line) = range(document, pointer)?;
    if document.spans.is_in_flow(pointer) {
        return Ok(Splice {
            bytes: bytes.end..bytes.end,
            text: format!(", {}: {}", plain(key), plain(value)),
        });
    }
    let Some(column) = key_column(text, &bytes, pointer) else {
        let form = "an entry whose key is on another line";
        return Err(EditError::Form { line, form });
    };
    let indent = " ".repeat(column);
    Ok(after_line(
        text,
        bytes.end,
        &[format!("{indent}{}: {}", plain(key), plain(value))],
    ))
}

/// Removes a key and its scalar from a mapping.
///
/// # Errors
/// The entry shares its line with something else.
pub fn remove(text: &str, document: &Document, pointer: &str) -> Result<Splice, EditError> {
    let text = without_mark(text);
    let (bytes, line) = range(document, pointer)?;
    if document.spans.is_in_flow(pointer) {
        let key = pointer.rsplit('/').next().unwrap_or_default();
        let before = text[..bytes.start].trim_end();
        let before = before.strip_suffix(':').map(str::trim_end);
        let before = before
            .and_then(|before| before.strip_suffix(key))
            .map(str::trim_end);
        return match before {
            Some(before) if before.ends_with(',') => Ok(Splice {
                bytes: before.len() - 1..bytes.end,
                text: String::new(),
            }),
            _ => {
                let form = "the first entry of a flow mapping";
                Err(EditError::Form { line, form })
            }
        };
    }
    let start = line_start(text, bytes.start);
    let end = text[bytes.end..]
        .find('\n')
        .map_or(text.len(), |at| bytes.end + at + 1);
    let column = key_column(text, &bytes, pointer);
    let is_alone = column.is_some_and(|column| text[start..start + column].trim().is_empty());
    if !is_alone {
        let form = "an entry that begins a list's item";
        return Err(EditError::Form { line, form });
    }
    Ok(Splice {
        bytes: start..end,
        text: String::new(),
    })
}

/// Adds an item, a mapping of scalars, to the end of the list at a key of the root. Adds the key if it is
/// missing.
///
/// # Errors
/// The list or the document is in flow form, or the document has an end marker.
pub fn append_item(
    text: &str,
    document: &Document,
    list: &str,
    entries: &[(&str, &str)],
) -> Result<Splice, EditError> {
    let text = without_mark(text);
    let pointer = format!("/{list}");
    let lines = |indent: &str| -> Vec<String> {
        let entries = entries.iter().enumerate();
        entries
            .map(|(at, (key, value))| {
                let dash = if at == 0 { "- " } else { "  " };
                format!("{indent}{dash}{key}: {}", plain(value))
            })
            .collect()
    };
    let last = match document.value.get(list) {
        Some(Value::Array(items)) if !items.is_empty() => items.len() - 1,
        Some(_) => {
            let line = range(document, &pointer).map_or(1, |(_, line)| line);
            let form = "an empty list";
            return Err(EditError::Form { line, form });
        }
        None => {
            let refuse = |form| Err(EditError::Form { line: 1, form });
            if text
                .lines()
                .any(|line| line.starts_with("...") || line.starts_with("--- "))
            {
                return refuse("a document with an end marker");
            }
            if document.value.as_object().is_none_or(serde_json::Map::is_empty)
                || text[document.place.bytes.start..].starts_with('{')
            {
                return refuse("a document that is no block mapping");
            }
            let mut added = vec![format!("{list}:")];
            added.extend(lines(""));
            return Ok(after_line(text, text.trim_end().len(), &added));
        }
    };
    let item = format!("{pointer}/{last}");
    let (bytes, line) = range(document, &item)?;
    let start = line_start(text, bytes.start);
    let before = &text[start..bytes.start];
    let dash = before.trim_end();
    if document.spans.is_in_flow(&item) || !dash.ends_with('-') || dash.trim() != "-" {
        let form = "a list in flow form";
        return Err(EditError::Form { line, form });
    }
    let indent = " ".repeat(dash.len() - 1);
    let below = format!("{item}/");
    let ends = document
        .spans
        .iter()
        .filter(|(pointer, _)| pointer.starts_with(&below));
    let end = ends.map(|(_, place)| place.bytes.end).max().unwrap_or(bytes.end);
    Ok(after_line(text, text[..end].trim_end().len(), &lines(&indent)))
}

/// Removes an item, a scalar, from a list. A list that becomes empty is written as `[]`.
///
/// # Errors
/// The item shares its line with something else, or it is no scalar.
pub fn remove_item(text: &str, document: &Document, pointer: &str) -> Result<Splice, EditError> {
    let text = without_mark(text);
    let (bytes, line) = range(document, pointer)?;
    let list = pointer.rsplit_once('/').map_or("", |(list, _)| list);
    let refuse = |form| Err(EditError::Form { line, form });
    let count = match (document.value.pointer(list), document.value.pointer(pointer)) {
        (Some(Value::Array(items)), Some(item)) if !item.is_object() && !item.is_array() => items.len(),
        (_, None) | (None, _) => return Err(EditError::Absent(pointer.to_owned())),
        _ => return refuse("an item that is no scalar"),
    };
    if document.spans.is_in_flow(pointer) {
        let before = text[..bytes.start].trim_end();
        let after = &text[bytes.end..];
        let rest = after.trim_start();
        let bytes = match (before.ends_with(','), rest.strip_prefix(',')) {
            (true, _) => before.len() - 1..bytes.end,
            (false, Some(rest)) => bytes.start..text.len() - rest.trim_start().len(),
            (false, None) => bytes,
        };
        return Ok(Splice {
            bytes,
            text: String::new(),
        });
    }
    let start = line_start(text, bytes.start);
    let is_alone = text[start..bytes.start].trim() == "-" && !text[bytes.clone()].contains('\n');
    if !is_alone {
        return refuse("an item that shares its line");
    }
    let end = text[bytes.end..]
        .find('\n')
        .map_or(text.len(), |at| bytes.end + at);
    if count > 1 {
        return Ok(Splice {
            bytes: start..(end + 1).min(text.len()),
            text: String::new(),
        });
    }
    let head = text[..start].trim_end_matches(['\n', '\r', ' ', '\t']);
    let key = list.rsplit('/').next().unwrap_or_default();
    let is_key = head.strip_suffix(':').is_some_and(|head| head.ends_with(key));
    if !is_key {
        return refuse("the last item of a list with a comment above it");
    }
    let end = start + text[start..end].trim_end_matches('\r').len();
    Ok(Splice {
        bytes: head.len()..end,
        text: " []".to_owned(),
    })
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix(BOM).unwrap_or(text)
}

fn range(document: &Document, pointer: &str) -> Result<(Range<usize>, usize), EditError> {
    let place = document.spans.get(pointer);
    let place = place.ok_or_else(|| EditError::Absent(pointer.to_owned()))?;
    Ok((place.bytes.clone(), place.line))
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |at| at + 1)
}

/// The column of the key on the line of its value, in bytes; `None` if it is on another line.
fn key_column(text: &str, bytes: &Range<usize>, pointer: &str) -> Option<usize> {
    let key = pointer.rsplit('/').next().unwrap_or_default();
    let key = key.replace("~1", "/").replace("~0", "~");
    let line = &text[line_start(text, bytes.start)..bytes.start];
    let before = line.trim_end().strip_suffix(':')?.trim_end();
    let quoted = [format!("\"{key}\""), format!("'{key}'"), key];
    let written = quoted.iter().find(|key| before.ends_with(key.as_str()))?;
    let column = before.len() - written.len();
    // the text before is spaces, or spaces and the dashes of lists
    let is_indent = before[..column].bytes().all(|byte| matches!(byte, b' ' | b'-'));
    is_indent.then_some(column)
}

fn is_below_block_header(text: &str, at: usize) -> bool {
    let start = line_start(text, at);
    if start == 0 || !text[start..at].trim().is_empty() {
        return false;
    }
    let above = text[..start - 1].rsplit('\n').next().unwrap_or_default();
    let above = above
        .find(" #")
        .map_or(above, |comment| &above[..comment])
        .trim_end();
    let header = above.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'));
    header.ends_with(['|', '>'])
}

/// Adds lines after the line that contains `at`, with the line ends of the text.
fn after_line(text: &str, at: usize, lines: &[String]) -> Splice {
    let end = text[at..].find('\n').map(|found| at + found);
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let joined = lines.join(newline);
    match end {
        Some(end) => Splice {
            bytes: end + 1..end + 1,
            text: format!("{joined}{newline}"),
        },
        None => Splice {
            bytes: text.len()..text.len(),
            text: format!("{newline}{joined}"),
        },
    }
}

/// A text as a plain scalar if every reader takes it for the same text, else in double quotes.
fn plain(value: &str) -> String {
    let is_safe =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '+' | '@' | ':' | '~');
    let starts_well = value.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.'));
    let is_text = |dialect| scalar(dialect, value).is_some_and(|read| read.as_str() == Some(value));
    let plain = starts_well
        && value.chars().all(is_safe)
        && !value.ends_with(':')
        && is_text(Dialect::Yaml11)
        && is_text(Dialect::Yaml12);
    if plain {
        value.to_owned()
    } else {
        double_quoted(value)
    }
}

/// A JSON string is a YAML string.
fn double_quoted(value: &str) -> String {
    Value::String(value.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::{Splice, append_item, apply, insert_after, remove, remove_item, set};
    use crate::yaml::{Document, Options, load};

    fn read(text: &str) -> Document {
        let options = Options {
            spans: true,
            ..Options::default()
        };
        load(text, &options).unwrap().remove(0)
    }

    #[track_caller]
    fn edited(text: &str, edit: impl Fn(&str, &Document) -> Result<Splice, super::EditError>) -> String {
        match edit(text, &read(text)) {
            Ok(splice) => apply(text, vec![splice]),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn scalars_keep_quotes_and_comments() {
        #[track_caller]
        fn check(text: &str, value: &str, expected: &str) {
            assert_eq!(
                edited(text, |text, document| set(text, document, "/a", value)),
                expected
            );
        }
        check(
            "a: 1.0.0 # {\"$imagepolicy\": \"x\"}\n",
            "2.0.0",
            "a: 2.0.0 # {\"$imagepolicy\": \"x\"}\n",
        );
        check("a: \"1.0\"\r\nb: 1\r\n", "1.1", "a: \"1.1\"\r\nb: 1\r\n");
        check("a: '1.0'\n", "it's", "a: 'it''s'\n");
        // plain 1.10 is a number
        check("a: v1\n", "1.10", "a: \"1.10\"\n");
        check("a: v1\n", "0x10", "a: \"0x10\"\n");
        check("a: v1\n", "1e3", "a: \"1e3\"\n");
        check("a: v1\n", ">=1.0.0", "a: \">=1.0.0\"\n");
        check(
            "a: v1\n",
            "host:5000/a/b:v2@sha256:ab",
            "a: host:5000/a/b:v2@sha256:ab\n",
        );
        check("{a: v1, b: 2}\n", "v2", "{a: v2, b: 2}\n");
        check("\u{feff}a: ü1\n", "v2", "\u{feff}a: v2\n");
        check("a:\n  v1\n", "v2", "a:\n  v2\n");
        check(
            "a: |\n  v1\n",
            "v2",
            "line 2: a block scalar cannot be edited in place",
        );
        check(
            "a: >-\n  v1\n",
            "v2",
            "line 2: a block scalar cannot be edited in place",
        );
        check(
            "b: &x v1\na: *x\n",
            "v2",
            "line 2: an alias cannot be edited in place",
        );
        check(
            "a: one\n  two\n",
            "v2",
            "line 1: a text over several lines cannot be edited in place",
        );
        check(
            "a: {b: c}\n",
            "v2",
            "line 1: a collection cannot be edited in place",
        );
        check("b: 1\n", "v2", "there is no value at /a");
    }

    #[test]
    fn keys_are_added_beside_their_sibling() {
        #[track_caller]
        fn check(text: &str, pointer: &str, expected: &str) {
            let insert =
                |text: &str, document: &Document| insert_after(text, document, pointer, "digest", "d");
            assert_eq!(edited(text, insert), expected);
        }
        check(
            "images:\n- name: a\n  newTag: b # c\nx: y\n",
            "/images/0/newTag",
            "images:\n- name: a\n  newTag: b # c\n  digest: d\nx: y\n",
        );
        check(
            "images:\n  -   newTag: b",
            "/images/0/newTag",
            "images:\n  -   newTag: b\n      digest: d",
        );
        check("a: {newTag: b}\n", "/a/newTag", "a: {newTag: b, digest: d}\n");
        check("a: b\r\n", "/a", "a: b\r\ndigest: d\r\n");
    }

    #[test]
    fn keys_are_removed_with_their_line() {
        #[track_caller]
        fn check(text: &str, pointer: &str, expected: &str) {
            assert_eq!(
                edited(text, |text, document| remove(text, document, pointer)),
                expected
            );
        }
        check("- a: 1\n  b: 2 # c\n  c: 3\n", "/0/b", "- a: 1\n  c: 3\n");
        check("{a: 1, b: 2}\n", "/b", "{a: 1}\n");
        check(
            "- a: 1\n  b: 2\n",
            "/0/a",
            "line 1: an entry that begins a list's item cannot be edited in place",
        );
        check(
            "{a: 1}\n",
            "/a",
            "line 1: the first entry of a flow mapping cannot be edited in place",
        );
    }

    #[test]
    fn items_are_appended_in_the_list_s_indentation() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            let append = |text: &str, document: &Document| {
                append_item(text, document, "images", &[("name", "web"), ("newTag", "1.0")])
            };
            assert_eq!(edited(text, append), expected);
        }
        check(
            "resources:\n- a\n",
            "resources:\n- a\nimages:\n- name: web\n  newTag: \"1.0\"\n",
        );
        check(
            "images:\n  - name: a\n    newTag: b # c\nx: y\n",
            "images:\n  - name: a\n    newTag: b # c\n  - name: web\n    newTag: \"1.0\"\nx: y\n",
        );
        check(
            "resources: [a]",
            "resources: [a]\nimages:\n- name: web\n  newTag: \"1.0\"",
        );
        check(
            "images: [{name: a}]\n",
            "line 1: a list in flow form cannot be edited in place",
        );
        check(
            "{a: b}\n",
            "line 1: a document that is no block mapping cannot be edited in place",
        );
    }

    #[test]
    fn items_are_removed_with_their_line() {
        #[track_caller]
        fn check(text: &str, pointer: &str, expected: &str) {
            let found = edited(text, |text, document| remove_item(text, document, pointer));
            assert_eq!(found, expected);
        }
        let block = "resources:\n# first\n- a  # the first\n- b\nimages: []\n";
        check(block, "/resources/0", "resources:\n# first\n- b\nimages: []\n");
        check(
            block,
            "/resources/1",
            "resources:\n# first\n- a  # the first\nimages: []\n",
        );
        check("r:\n  - \"a\"\n", "/r/0", "r: []\n");
        check("r:\r\n- a\r\nb: c\r\n", "/r/0", "r: []\r\nb: c\r\n");
        check("x: y\nr:\n- a", "/r/0", "x: y\nr: []");
        check("r:\n- a\n- b", "/r/1", "r:\n- a\n");
        check("r: [a, b, c]\n", "/r/0", "r: [b, c]\n");
        check("r: [a, 'b', c]\n", "/r/1", "r: [a, c]\n");
        check("r: [a]\n", "/r/0", "r: []\n");
        check("r: [\n  a,\n  b,\n]\n", "/r/1", "r: [\n  a,\n]\n");
        check(
            "r: # all\n- a\n",
            "/r/0",
            "line 2: the last item of a list with a comment above it cannot be edited in place",
        );
        check(
            "r:\n- a: b\n",
            "/r/0",
            "line 2: an item that is no scalar cannot be edited in place",
        );
        check("r: []\n", "/r/0", "there is no value at /r/0");
    }
}
