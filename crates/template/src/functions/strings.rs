//! String functions.

use super::{Function, table};
use crate::call::{Call, Outcome};
use crate::fault::Fault;
use crate::format;
use crate::limits::Limit;
use crate::value::{Entries, List, Map, Str, Value};
use std::collections::HashSet;

pub(super) const FUNCTIONS: &[Function] = table! {
    "hello" () => |_| Ok("Hello!".into());
    "trim" (Str) => |call| same(call, |text| text.trim_matches(is_space).to_owned());
    "trimAll" (Str, Str) => trim_all;
    "trimall" (Str, Str) => trim_all;
    "trimPrefix" (Str, Str) => |call| {
        let (prefix, text) = (call.str(0), call.str(1));
        call.done(text.as_bytes().strip_prefix(prefix.as_bytes()).unwrap_or(text.as_bytes()))
    };
    "trimSuffix" (Str, Str) => |call| {
        let (suffix, text) = (call.str(0), call.str(1));
        call.done(text.as_bytes().strip_suffix(suffix.as_bytes()).unwrap_or(text.as_bytes()))
    };
    "upper" (Str) => |call| same(call, |text| text.chars().map(upper).collect());
    "lower" (Str) => |call| same(call, |text| text.chars().map(lower).collect());
    "title" (Str) => |call| slow(call, title);
    "untitle" (Str) => |call| same(call, untitle);
    "swapcase" (Str) => |call| same(call, |text| text.chars().map(swap).collect());
    "repeat" (Int, Str) => repeat;
    "substr" (Int, Int, Str) => substr;
    "nospace" (Str) => |call| {
        let kept = call.bytes(0).iter().map(|byte| char::from(*byte)).filter(|c| !is_space(*c));
        let kept: String = kept.collect();
        call.done(kept)
    };
    "trunc" (Int, Str) => trunc;
    "abbrev" (Int, Str) => |call| {
        let (width, text) = (call.int(0), call.str(1));
        if width < 4 { return Ok(text.into()); }
        call.done(abbreviate(text.as_bytes(), 0, width))
    };
    "abbrevboth" (Int, Int, Str) => |call| {
        let (left, width, text) = (call.int(0), call.int(1), call.str(2));
        if width < 4 || (left > 0 && width < 7) { return Ok(text.into()); }
        call.done(abbreviate(text.as_bytes(), left, width))
    };
    "initials" (Str) => |call| same(call, |text| {
        // sprig's library takes the first byte for the first character
        let words = text.split(is_space).filter_map(|word| word.bytes().next());
        words.map(char::from).collect()
    });
    "wrap" (Int, Str) => |call| wrap(call.int(0), "\n".into(), call.str(1), false, call);
    "wrapWith" (Int, Str, Str) => |call| wrap(call.int(0), call.str(1), call.str(2), true, call);
    "contains" (Str, Str) => |call| {
        call.read()?;
        Ok(Value::Bool(find(call.bytes(1), call.bytes(0)).is_some()))
    };
    "hasPrefix" (Str, Str) => |call| Ok(Value::Bool(call.bytes(1).starts_with(call.bytes(0))));
    "hasSuffix" (Str, Str) => |call| Ok(Value::Bool(call.bytes(1).ends_with(call.bytes(0))));
    "quote" (;Any) => |call| quoted(call, |text| {
        let mut quoted = String::with_capacity(text.len() + 2);
        equate_manifest::go::quote_into(&mut quoted, text.as_bytes(), '"', false);
        quoted.into_bytes()
    });
    "squote" (;Any) => |call| quoted(call, |text| [b"'", text.as_bytes(), b"'"].concat());
    "cat" (;Any) => cat;
    "indent" (Int, Str) => |call| indent(call, false);
    "nindent" (Int, Str) => |call| indent(call, true);
    "replace" (Str, Str, Str) => replace;
    "plural" (Str, Str, Int) => |call| Ok(call.arg(usize::from(call.int(2) != 1)).clone());
    "snakecase" (Str) => |call| slow(call, |text| super::case::joined(text, '_'));
    "kebabcase" (Str) => |call| slow(call, |text| super::case::joined(text, '-'));
    "camelcase" (Str) => |call| slow(call, super::case::pascal);
    "toString" (Any) => |call| {
        let value = call.arg(0).clone();
        let text = text_of(call, &value)?;
        call.done(text)
    };
    "toStrings" (Any) => |call| {
        let value = call.arg(0).clone();
        let texts = texts_of(call, &value)?;
        call.charge_items(texts.len())?;
        Ok(List::strings(texts).into())
    };
    "join" (Str, Any) => join;
    "sortAlpha" (Any) => |call| {
        let value = call.arg(0).clone();
        let mut texts = match &value {
            Value::List(_) => texts_of(call, &value)?,
            other => vec![text_of(call, other)?],
        };
        call.charge_items(texts.len() * 8)?;
        texts.sort();
        Ok(List::strings(texts).into())
    };
    "split" (Str, Str) => |call| {
        let parts = split(call, 0, 1, None)?;
        call.exec.meter().make_map(parts.len())?;
        Ok(numbered(parts).into())
    };
    "splitn" (Str, Int, Str) => |call| {
        let parts = split(call, 0, 2, Some(call.int(1)))?;
        call.exec.meter().make_map(parts.len())?;
        Ok(numbered(parts).into())
    };
    "splitList" (Str, Str) => |call| {
        let parts = split(call, 0, 1, None)?;
        Ok(List::strings(parts).into())
    };
};

/// Go's `unicode.IsSpace`.
fn is_space(character: char) -> bool {
    character.is_whitespace()
}

/// Maps the text of the only argument.
fn same(call: &mut Call<'_, '_>, make: fn(&str) -> String) -> Outcome {
    call.charge_slow_read(8)?;
    let text = make(&call.text(0));
    call.done(text)
}

/// [`same`] for slow functions.
fn slow(call: &mut Call<'_, '_>, make: fn(&str) -> String) -> Outcome {
    call.charge_slow_read(64)?;
    same(call, make)
}

/// Maps case like Go: one character to one character.
fn upper(character: char) -> char {
    let mut upper = character.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => upper,
        _ => character,
    }
}

fn lower(character: char) -> char {
    // the one letter that becomes two characters in Rust
    if character == 'İ' {
        return 'i';
    }
    let mut lower = character.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) => lower,
        _ => character,
    }
}

/// Title case: digraphs have a form for it, Georgian letters stay lower case.
fn first_of_word(character: char) -> char {
    match character {
        'Ǆ' | 'ǅ' | 'ǆ' => 'ǅ',
        'Ǉ' | 'ǈ' | 'ǉ' => 'ǈ',
        'Ǌ' | 'ǋ' | 'ǌ' => 'ǋ',
        'Ǳ' | 'ǲ' | 'ǳ' => 'ǲ',
        'ა'..='ჺ' | 'ჽ'..='ჿ' => character,
        other => upper(other),
    }
}

fn swap(character: char) -> char {
    if character.is_uppercase() {
        lower(character)
    } else {
        upper(character)
    }
}

fn title(text: &str) -> String {
    let mut before = ' ';
    let separates = |c: char| {
        if c.is_ascii() {
            !(c.is_ascii_alphanumeric() || c == '_')
        } else {
            !c.is_alphanumeric() && is_space(c)
        }
    };
    text.chars()
        .map(|character| {
            let starts = separates(before);
            before = character;
            if starts {
                first_of_word(character)
            } else {
                character
            }
        })
        .collect()
}

fn untitle(text: &str) -> String {
    let mut starts = true;
    text.chars()
        .map(|character| {
            let first = std::mem::replace(&mut starts, is_space(character));
            if first && !starts {
                lower(character)
            } else {
                character
            }
        })
        .collect()
}

fn trim_all(call: &mut Call<'_, '_>) -> Outcome {
    let (cut, text) = (call.text(0).into_owned(), call.text(1).into_owned());
    // each character of the text is looked up in all of them
    let cut: HashSet<char> = cut.chars().collect();
    call.done(text.trim_matches(|c| cut.contains(&c)))
}

fn repeat(call: &mut Call<'_, '_>) -> Outcome {
    let (count, text) = (call.int(0), call.str(1));
    let Ok(count) = usize::try_from(count) else {
        return call.fail("strings: negative Repeat count");
    };
    call.made(text.len().saturating_mul(count))?;
    Ok(Value::string(text.as_bytes().repeat(count)))
}

fn substr(call: &mut Call<'_, '_>) -> Outcome {
    let (start, end, text) = (call.int(0), call.int(1), call.str(2));
    let length = text.len() as i64;
    let range = if start < 0 {
        if end > length || end < 0 {
            let with = if end < 0 {
                String::new()
            } else {
                format!(" with length {length}")
            };
            return call.fail(format!("runtime error: slice bounds out of range [:{end}]{with}"));
        }
        0..end
    } else {
        let end = if end < 0 || end > length { length } else { end };
        if start > end {
            return call.fail(format!(
                "runtime error: slice bounds out of range [{start}:{end}]"
            ));
        }
        start..end
    };
    call.done(&text.as_bytes()[range.start as usize..range.end as usize])
}

fn trunc(call: &mut Call<'_, '_>) -> Outcome {
    let (count, text) = (call.int(0), call.str(1));
    let length = text.len() as i64;
    let bytes = text.as_bytes();
    let part = if count < 0 && length.saturating_add(count) > 0 {
        &bytes[(length + count) as usize..]
    } else if count >= 0 && length > count {
        &bytes[..count as usize]
    } else {
        return Ok(text.into());
    };
    call.done(part)
}

/// Abbreviates a text to a width, with dots for omitted parts.
fn abbreviate(text: &[u8], offset: i64, width: i64) -> Vec<u8> {
    let length = text.len() as i64;
    if length <= width {
        return text.to_vec();
    }
    let room = width - 3;
    let offset = offset.min(length);
    let offset = if length - offset < room {
        length - room
    } else {
        offset
    };
    let at = |index: i64| usize::try_from(index.clamp(0, length)).unwrap_or(0);
    if offset <= 4 {
        return [&text[..at(room)], b"..."].concat();
    }
    if offset + room < length {
        return [b"...", &abbreviate(&text[at(offset)..], 0, room)[..]].concat();
    }
    [b"...", &text[at(length - room)..]].concat()
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "read from the call before it is borrowed"
)]
fn wrap(width: i64, line_break: Str, text: Str, cuts_words: bool, call: &mut Call<'_, '_>) -> Outcome {
    let width = usize::try_from(width).unwrap_or(1).max(1);
    let line_break = if line_break.is_empty() {
        "\n".into()
    } else {
        line_break
    };
    let bytes = text.as_bytes();
    call.made(bytes.len().saturating_mul(1 + line_break.len() / width))?;
    let mut out: Vec<u8> = Vec::with_capacity(bytes.len() + 16);
    let mut at = 0;
    while bytes.len() - at > width {
        if bytes[at] == b' ' {
            at += 1;
            continue;
        }
        let space = |range: std::ops::Range<usize>, last: bool| {
            let mut spaces = range.clone().filter(|index| bytes[*index] == b' ');
            if last { spaces.next_back() } else { spaces.next() }
        };
        let (end, next) = match space(at..at + width + 1, true) {
            Some(space) => (space, space + 1),
            None if cuts_words => (at + width, at + width),
            None => match space(at + width..bytes.len(), false) {
                Some(space) => (space, space + 1),
                None => {
                    out.extend_from_slice(&bytes[at..]);
                    at = bytes.len();
                    break;
                }
            },
        };
        call.exec.meter().step()?;
        out.extend_from_slice(&bytes[at..end]);
        out.extend_from_slice(line_break.as_bytes());
        at = next;
    }
    out.extend_from_slice(&bytes[at..]);
    Ok(Value::string(out))
}

pub(super) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return Some(0);
    }
    memchr::memmem::find(text, part)
}

/// A value as text: itself if it is one, otherwise its `%v`.
///
/// Charges the text, because a small value may contain another many times.
pub(super) fn text_of(call: &mut Call<'_, '_>, value: &Value) -> Result<Str, Limit> {
    match value {
        Value::String(text) | Value::Bytes(text) => Ok(text.clone()),
        value => {
            let text = format::plain(value, call.exec.limits())?;
            call.made(text.len())?;
            Ok(text.into())
        }
    }
}

/// The elements of a list as texts, without nil; any other value is the only one.
pub(super) fn texts_of(call: &mut Call<'_, '_>, value: &Value) -> Result<Vec<Str>, Limit> {
    match value {
        Value::List(list) => {
            call.charge_items(list.len())?;
            let there = list.items().iter().filter(|item| !matches!(item, Value::Nil));
            there.map(|item| text_of(call, item)).collect()
        }
        Value::Absent | Value::Nil => Ok(Vec::new()),
        other => Ok(vec![text_of(call, other)?]),
    }
}

fn quoted(call: &mut Call<'_, '_>, quote: fn(&Str) -> Vec<u8>) -> Outcome {
    let mut out: Vec<u8> = Vec::new();
    for index in 0..call.count() {
        if matches!(call.arg(index), Value::Nil) {
            continue;
        }
        let value = call.arg(index).clone();
        let text = text_of(call, &value)?;
        call.made(text.len())?;
        if !out.is_empty() {
            out.push(b' ');
        }
        out.append(&mut quote(&text));
    }
    call.done(out)
}

fn cat(call: &mut Call<'_, '_>) -> Outcome {
    let mut out: Vec<u8> = Vec::new();
    let mut first = true;
    for index in 0..call.count() {
        let arg = call.arg(index).clone();
        if matches!(arg, Value::Nil) {
            continue;
        }
        if !first {
            out.push(b' ');
        }
        first = false;
        let text = format::plain(&arg, call.exec.limits())?;
        call.made(text.len())?;
        out.extend_from_slice(&text);
    }
    call.done(out)
}

fn indent(call: &mut Call<'_, '_>, breaks: bool) -> Outcome {
    let (count, text) = (call.int(0), call.str(1));
    let Ok(count) = usize::try_from(count) else {
        return call.fail("strings: negative Repeat count");
    };
    let lines = 1 + text.as_bytes().iter().filter(|byte| **byte == b'\n').count();
    let length = count.saturating_mul(lines).saturating_add(text.len() + 1);
    call.made(length)?;
    let mut out = Vec::with_capacity(length);
    if breaks {
        out.push(b'\n');
    }
    for (index, line) in text.as_bytes().split(|byte| *byte == b'\n').enumerate() {
        if index > 0 {
            out.push(b'\n');
        }
        out.resize(out.len() + count, b' ');
        out.extend_from_slice(line);
    }
    Ok(Value::string(out))
}

fn replace(call: &mut Call<'_, '_>) -> Outcome {
    call.read()?;
    let (old, new, text) = (call.str(0), call.str(1), call.str(2));
    // an empty pattern matches before each character and at the end
    let places = if old.is_empty() {
        text.len() + 1
    } else {
        text.len() / old.len() + 1
    };
    if new.len() > old.len() {
        let worst = places.saturating_mul(new.len());
        if worst > 1 << 20 {
            call.made(worst)?;
        }
    }
    let done = match (
        std::str::from_utf8(text.as_bytes()),
        std::str::from_utf8(old.as_bytes()),
        std::str::from_utf8(new.as_bytes()),
    ) {
        (Ok(text), Ok(old), Ok(new)) => text.replace(old, new).into_bytes(),
        _ => replace_bytes(text.as_bytes(), old.as_bytes(), new.as_bytes()),
    };
    call.done(done)
}

fn replace_bytes(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    if old.is_empty() {
        return text.to_vec();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    for at in memchr::memmem::find_iter(text, old) {
        out.extend_from_slice(&text[from..at]);
        out.extend_from_slice(new);
        from = at + old.len();
    }
    out.extend_from_slice(&text[from..]);
    out
}

fn join(call: &mut Call<'_, '_>) -> Outcome {
    let value = call.arg(1).clone();
    let texts = texts_of(call, &value)?;
    let separator = call.str(0);
    let length: usize = texts.iter().map(|text| text.len() + separator.len()).sum();
    call.made(length)?;
    let texts: Vec<&[u8]> = texts.iter().map(Str::as_bytes).collect();
    Ok(Value::string(texts.join(separator.as_bytes())))
}

fn split(
    call: &mut Call<'_, '_>,
    separator: usize,
    text: usize,
    count: Option<i64>,
) -> Result<Vec<Str>, Fault> {
    let (separator, text) = (call.str(separator), call.str(text));
    let most = match count {
        Some(0) => return Ok(Vec::new()),
        Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    let text = text.lossy();
    let separator = separator.lossy();
    call.exec.meter().work(text.len())?;
    let parts = match separator.is_empty() {
        true => text.chars().count(),
        false => 1 + memchr::memmem::find_iter(text.as_bytes(), separator.as_bytes()).count(),
    };
    charge_parts(call, parts.min(most), text.len())?;
    if separator.is_empty() {
        // each character on its own
        let mut parts: Vec<Str> = Vec::new();
        let mut rest = &*text;
        while let Some(character) = rest.chars().next() {
            let (first, after) = rest.split_at(character.len_utf8());
            if parts.len() + 1 == most {
                break;
            }
            parts.push(first.into());
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(rest.into());
        }
        return Ok(parts);
    }
    Ok(text.splitn(most, &*separator).map(Str::from).collect())
}

/// Charges parts of a text, which are copied.
pub(super) fn charge_parts(call: &mut Call<'_, '_>, count: usize, bytes: usize) -> Result<(), Limit> {
    const COUNTS: usize = 2 * size_of::<usize>();
    call.charge_items(count)?;
    call.made(count.saturating_mul(COUNTS).saturating_add(bytes))
}

fn numbered(parts: Vec<Str>) -> Map {
    let entries = parts.into_iter().enumerate();
    let entries = entries.map(|(index, part)| (format!("_{index}").into(), Value::String(part)));
    Map::of(Entries::String, entries.collect())
}
