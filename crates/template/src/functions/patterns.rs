//! Regular expressions in Go's syntax.
//!
//! [`equate_manifest::regexp`] rewrites differences to the regex crate's syntax.

use super::{Function, table};
use crate::call::{Call, Outcome};
use crate::fault::Fault;
use crate::limits::Limit;
use crate::value::{Elements, List, Str, Value};
use equate_manifest::regexp::{build, is_simple, rewrite};
use regex::Regex;
use std::collections::HashMap;
use std::sync::Arc;

/// The largest compiled expression that is cached, in bytes.
const SMALL_BYTES_MAX: usize = 64 << 10;
/// Size limits of a compiled expression in bytes, and the charges for each byte searched with it: for a simple
/// one, and for one whose lazy states are too many, so that each byte visits the whole expression.
const SIZES: [(usize, usize, usize); 5] = [
    (4 << 10, 4, 5 << 10),
    (16 << 10, 4, 10 << 10),
    (SMALL_BYTES_MAX, 64, 32 << 10),
    (512 << 10, 4 << 10, 160 << 10),
    (4 << 20, 64 << 10, 512 << 10),
];
/// Compiling costs as much as searching this many times its size.
const COMPILED_AS_BYTES: usize = 12;

pub(super) const FUNCTIONS: &[Function] = table! {
    "regexMatch" (Str, Str) => |call| match pattern(call) {
        Ok(pattern) => Ok(Value::Bool(pattern.regex.is_match(&call.text(1)))),
        Err(Fault::Message(_)) => Ok(Value::Bool(false)),
        Err(fault) => Err(fault),
    };
    "mustRegexMatch" (Str, Str) => |call| Ok(Value::Bool(pattern(call)?.regex.is_match(&call.text(1))));
    "regexFind" (Str, Str) => |call| find(call, true);
    "mustRegexFind" (Str, Str) => |call| find(call, false);
    "regexFindAll" (Str, Str, Int) => |call| find_all(call, true);
    "mustRegexFindAll" (Str, Str, Int) => |call| find_all(call, false);
    "regexReplaceAll" (Str, Str, Str) => |call| replace(call, true, false);
    "mustRegexReplaceAll" (Str, Str, Str) => |call| replace(call, false, false);
    "regexReplaceAllLiteral" (Str, Str, Str) => |call| replace(call, true, true);
    "mustRegexReplaceAllLiteral" (Str, Str, Str) => |call| replace(call, false, true);
    "regexSplit" (Str, Str, Int) => |call| split(call, true);
    "mustRegexSplit" (Str, Str, Int) => |call| split(call, false);
    "regexQuoteMeta" (Str) => |call| {
        let mut quoted = String::new();
        for character in call.text(0).chars() {
            if r"\.+*?()|[]{}^$".contains(character) {
                quoted.push('\\');
            }
            quoted.push(character);
        }
        call.done(quoted)
    };
};

#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    regex: Regex,
    names: Arc<[(String, usize)]>,
    cost: usize,
}

/// The expression of the first argument, compiled once per set; charges a search of the second.
fn pattern(call: &mut Call<'_, '_>) -> Result<Pattern, Fault> {
    call.charge_slow_read(8)?;
    let text = call.str(0);
    let pattern = match call.exec.cache().pattern(&text) {
        Some(pattern) => pattern,
        None => new_pattern(call, &text)?,
    };
    let searched = call.bytes(1).len();
    call.exec.meter().work(searched.saturating_mul(pattern.cost))?;
    Ok(pattern)
}

fn new_pattern(call: &mut Call<'_, '_>, text: &Str) -> Result<Pattern, Fault> {
    call.exec
        .meter()
        .work(text.len().saturating_mul(256).saturating_add(SMALL_BYTES_MAX))?;
    let source = text.lossy();
    let rewritten = match rewrite(&source) {
        Ok(rewritten) => rewritten,
        Err(reason) => return call.fail(format!("error parsing regexp: {reason}")),
    };
    let is_simple = is_simple(&source);
    for (size_max, simple_cost, cost) in SIZES {
        let cost = if is_simple { simple_cost } else { cost };
        if size_max > SMALL_BYTES_MAX {
            call.exec.meter().work(size_max * COMPILED_AS_BYTES)?;
        }
        match build(&source, &rewritten, size_max) {
            Ok(None) => {}
            Ok(Some(regex)) => {
                let names = rewritten.names.into();
                let pattern = Pattern { regex, names, cost };
                if size_max <= SMALL_BYTES_MAX {
                    call.exec.cache().keep_pattern(text.clone(), pattern.clone());
                }
                return Ok(pattern);
            }
            Err(reason) => return call.fail(format!("error parsing regexp: {reason}")),
        }
    }
    call.fail(format!("error parsing regexp: expression too large: `{source}`"))
}

/// [`pattern`] with the text of a panic where the function returns no error.
fn compiled(call: &mut Call<'_, '_>, panics: bool) -> Result<Pattern, Fault> {
    pattern(call).map_err(|fault| match fault {
        Fault::Message(message) if panics => {
            let text = call.text(0);
            let shown = if text.contains('`') {
                equate_manifest::go::quote(&text)
            } else {
                format!("`{text}`")
            };
            Fault::Message(format!("regexp: Compile({shown}): {message}"))
        }
        other => other,
    })
}

fn find(call: &mut Call<'_, '_>, panics: bool) -> Outcome {
    let Pattern { regex, .. } = compiled(call, panics)?;
    let found = regex
        .find(&call.text(1))
        .map_or_else(String::new, |found| found.as_str().to_owned());
    call.done(found)
}

/// Charges another search, which may have gone to the end of the text.
fn searched(call: &mut Call<'_, '_>, bytes: usize, cost: usize) -> Result<(), Fault> {
    Ok(call.exec.meter().work(bytes.saturating_mul(cost))?)
}

/// Charges a part of the text, twice: a growing list is copied.
fn charge_part(call: &mut Call<'_, '_>, bytes: usize) -> Result<(), Limit> {
    const PART_BYTES: usize = 2 * size_of::<&str>() + 2 * size_of::<usize>() + size_of::<Value>();
    call.made(bytes.saturating_add(PART_BYTES))
}

fn most(count: i64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn find_all(call: &mut Call<'_, '_>, panics: bool) -> Outcome {
    let Pattern { regex, cost, .. } = compiled(call, panics)?;
    let text = call.str(1);
    let lossy = text.lossy();
    let mut found: Vec<Str> = Vec::new();
    for one in regex.find_iter(&lossy).take(most(call.int(2))) {
        searched(call, lossy.len() - one.start(), cost)?;
        charge_part(call, one.len())?;
        found.push(one.as_str().into());
    }
    Ok(if found.is_empty() {
        List::nil(Elements::String).into()
    } else {
        List::strings(found).into()
    })
}

fn replace(call: &mut Call<'_, '_>, panics: bool, literal: bool) -> Outcome {
    let Pattern { regex, names, cost } = compiled(call, panics)?;
    let (text, with) = (call.str(1), call.str(2));
    let (text, with) = (text.lossy(), with.lossy());
    // replacements may repeat many times
    let mut out = Bounded {
        text: String::with_capacity(text.len()),
        limit: call.exec.limits().output_bytes_max,
    };
    let pieces = if literal {
        vec![Piece::Text(&with)]
    } else {
        let groups = memchr::memchr_iter(b'$', with.as_bytes()).count();
        call.exec
            .meter()
            .make(groups.saturating_mul(2 * size_of::<Piece<'_>>()))?;
        pieces(&names, &with)
    };
    let mut from = 0;
    for found in regex.captures_iter(&text) {
        let Some(whole) = found.get(0) else { continue };
        searched(call, text.len() - whole.start(), cost)?;
        out.push(&text[from..whole.start()])?;
        call.exec.meter().work(pieces.len().saturating_mul(8))?;
        for piece in &pieces {
            match piece {
                Piece::Text(text) => out.push(text)?,
                Piece::Group(group) => out.push(found.get(*group).map_or("", |group| group.as_str()))?,
            }
        }
        from = whole.end();
    }
    out.push(&text[from..])?;
    call.done(out.text)
}

struct Bounded {
    text: String,
    limit: usize,
}

impl Bounded {
    fn push(&mut self, text: &str) -> Result<(), Limit> {
        if self.text.len() + text.len() > self.limit {
            return Err(Limit::Output(self.limit));
        }
        self.text.push_str(text);
        Ok(())
    }
}

enum Piece<'w> {
    Text(&'w str),
    Group(usize),
}

/// Parses `$1`, `${1}` and `${name}`: `$$` is a dollar, and an unknown group is empty.
fn pieces<'w>(names: &[(String, usize)], with: &'w str) -> Vec<Piece<'w>> {
    // the first of two groups with one name wins
    let names: HashMap<&str, usize> = names
        .iter()
        .rev()
        .map(|(name, group)| (&**name, *group))
        .collect();
    let numbered = |name: &str| {
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        let is_plain = is_number && (name.len() == 1 || !name.starts_with('0'));
        name.parse().ok().filter(|_| is_plain)
    };
    let mut pieces = Vec::new();
    let mut rest = with;
    while let Some(at) = rest.find('$') {
        pieces.push(Piece::Text(&rest[..at]));
        let after = &rest[at + 1..];
        let (inner, is_braced) = match after.strip_prefix('{') {
            Some(inner) => (inner, true),
            None => (after, false),
        };
        let end = inner.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (name, behind) = inner.split_at(end.unwrap_or(inner.len()));
        let behind = if is_braced {
            behind.strip_prefix('}')
        } else {
            Some(behind)
        };
        let named = behind.filter(|_| !name.is_empty());
        rest = match named {
            _ if after.starts_with('$') => {
                pieces.push(Piece::Text("$"));
                &after[1..]
            }
            Some(behind) => {
                if let Some(group) = numbered(name).or_else(|| names.get(name).copied()) {
                    pieces.push(Piece::Group(group));
                }
                behind
            }
            None => {
                pieces.push(Piece::Text("$"));
                after
            }
        };
    }
    pieces.push(Piece::Text(rest));
    pieces
}

fn split(call: &mut Call<'_, '_>, panics: bool) -> Outcome {
    let Pattern { regex, cost, .. } = compiled(call, panics)?;
    let (text, count) = (call.str(1), call.int(2));
    if count == 0 {
        return Ok(List::nil(Elements::String).into());
    }
    let text = text.lossy();
    if text.is_empty() && !call.bytes(0).is_empty() {
        return Ok(List::strings([""]).into());
    }
    let (mut parts, mut begin, mut end): (Vec<&str>, usize, usize) = (Vec::new(), 0, 0);
    for found in regex.find_iter(&text).take(most(count)) {
        searched(call, text.len() - found.start(), cost)?;
        if count > 0 && parts.len() as i64 == count - 1 {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            charge_part(call, end - begin)?;
            parts.push(&text[begin..end]);
        }
        begin = found.end();
    }
    if end != text.len() {
        charge_part(call, text.len() - begin)?;
        parts.push(&text[begin..]);
    }
    Ok(List::strings(parts).into())
}
