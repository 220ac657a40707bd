//! Functions of texts. Indexes count letters, not bytes.

use super::{Function, format};
use crate::budget::Budget;
use crate::error::{Fail, FailureKind};
use crate::eval::Run;
use crate::value::{Evaluated, Text, VAL_BYTES, Val};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("contains", |_, args| {
        compare(args, |text, part| text.contains(part))
    }),
    Function::new("startsWith", |_, args| {
        compare(args, |text, part| text.starts_with(part))
    }),
    Function::new("endsWith", |_, args| {
        compare(args, |text, part| text.ends_with(part))
    }),
    Function::new("charAt", char_at),
    Function::new("substring", substring),
    Function::new("replace", replace),
    Function::new("split", split),
    Function::new("lowerAscii", |run, args| {
        change(run.budget, args, str::to_ascii_lowercase)
    }),
    Function::new("upperAscii", |run, args| {
        change(run.budget, args, str::to_ascii_uppercase)
    }),
    Function::new("trim", |run, args| match args {
        [Val::Text(text)] => {
            let whole = text.as_str();
            let start = whole.len() - whole.trim_start().len();
            part(run.budget, text, start, start + whole.trim().len())
        }
        _ => Err(Fail::no_overload()),
    }),
    Function::new("join", join),
    Function::new("strings.quote", |run, args| match args {
        [Val::Text(text)] => {
            let text = text.as_str();
            run.budget.write(2 * text.len())?;
            Ok(Val::text(quote(text)))
        }
        _ => Err(Fail::no_overload()),
    }),
    Function::flux("reverse", |run, args| {
        change(run.budget, args, |text| text.chars().rev().collect())
    }),
    Function::flux("indexOf", |_, args| index_of(args)),
    Function::flux("lastIndexOf", |run, args| last_index_of(run.budget, args)),
    Function::flux("format", format::flux),
    Function::kubernetes("format", format::kubernetes),
];

fn compare<'a>(args: &[Val<'a>], holds: fn(&str, &str) -> bool) -> Evaluated<'a> {
    match args {
        [Val::Text(text), Val::Text(part)] => Ok(Val::Bool(holds(text.as_str(), part.as_str()))),
        _ => Err(Fail::no_overload()),
    }
}

fn change<'a>(budget: &mut Budget<'_>, args: &[Val<'a>], change: fn(&str) -> String) -> Evaluated<'a> {
    match args {
        [Val::Text(text)] => {
            budget.write(text.as_str().len())?;
            Ok(Val::text(change(text.as_str())))
        }
        _ => Err(Fail::no_overload()),
    }
}

/// A part of a text by bytes: borrowed from an object, copied from a text made during the run.
pub(super) fn part<'a>(budget: &mut Budget<'_>, text: &Text<'a>, start: usize, end: usize) -> Evaluated<'a> {
    Ok(match text {
        Text::Borrowed(text) => Val::Text(Text::Borrowed(&text[start..end])),
        Text::Shared(text) => {
            budget.write(end - start)?;
            Val::text(&text[start..end])
        }
    })
}

fn out_of_range(index: i64) -> Fail {
    Fail::of(FailureKind::Index, format!("index out of range: {index}"))
}

/// The byte at which a letter begins; the end of the text counts as one.
fn offset(text: &str, index: i64) -> Result<usize, Fail> {
    let wanted = usize::try_from(index).map_err(|_| out_of_range(index))?;
    let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.nth(wanted).ok_or_else(|| out_of_range(index))
}

fn char_at<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::Text(text), Val::Int(index)] = args else {
        return Err(Fail::no_overload());
    };
    let start = offset(text.as_str(), *index)?;
    let letter = text.as_str()[start..].chars().next();
    part(run.budget, text, start, start + letter.map_or(0, char::len_utf8))
}

fn substring<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    let (text, start, end) = match args {
        [Val::Text(text), Val::Int(start)] => (text, offset(text.as_str(), *start)?, text.as_str().len()),
        [Val::Text(_), Val::Int(start), Val::Int(end)] if start > end => {
            let why = format!("invalid substring range. start: {start}, end: {end}");
            return Err(Fail::of(FailureKind::Index, why));
        }
        [Val::Text(text), Val::Int(start), Val::Int(end)] => {
            let whole = text.as_str();
            (text, offset(whole, *start)?, offset(whole, *end)?)
        }
        _ => return Err(Fail::no_overload()),
    };
    part(run.budget, text, start, end)
}

/// How many times at most; a negative count has no limit.
fn most(count: i64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn replace<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    let (text, from, to, times) = match args {
        [Val::Text(text), Val::Text(from), Val::Text(to)] => (text, from, to, usize::MAX),
        [Val::Text(text), Val::Text(from), Val::Text(to), Val::Int(times)] => (text, from, to, most(*times)),
        _ => return Err(Fail::no_overload()),
    };
    let (text, from, to) = (text.as_str(), from.as_str(), to.as_str());
    let times = text.matches(from).take(times).count();
    // paid before it is made
    run.spend(times)?;
    run.budget
        .write(text.len().saturating_add(times.saturating_mul(to.len())))?;
    Ok(Val::text(text.replacen(from, to, times)))
}

fn split<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    let (text, separator, count) = match args {
        [Val::Text(text), Val::Text(separator)] => (text, separator.as_str(), usize::MAX),
        [Val::Text(text), Val::Text(separator), Val::Int(count)] => (text, separator.as_str(), most(*count)),
        _ => return Err(Fail::no_overload()),
    };
    let whole = text.as_str();
    if count == 0 || (whole.is_empty() && separator.is_empty()) {
        return Ok(Val::list(Vec::new()));
    }
    let mut out = Vec::new();
    let mut piece = |start: usize, end: usize| {
        run.budget.spend(1)?;
        run.budget.hold(2 * VAL_BYTES)?;
        out.push(part(run.budget, text, start, end)?);
        Ok::<(), Fail>(())
    };
    let mut start = 0;
    let mut left = count;
    while left > 1 {
        // without a separator, each letter is a piece
        let next = match separator.is_empty() {
            true => whole[start..].char_indices().nth(1).map(|(at, _)| at),
            false => whole[start..].find(separator),
        };
        let Some(at) = next else { break };
        piece(start, start + at)?;
        start += at + separator.len();
        left -= 1;
    }
    piece(start, whole.len())?;
    Ok(Val::list(out))
}

fn join<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    let (list, separator) = match args {
        [Val::List(list)] => (list, ""),
        [Val::List(list), Val::Text(separator)] => (list, separator.as_str()),
        _ => return Err(Fail::no_overload()),
    };
    let mut out = String::new();
    for (index, item) in list.items().enumerate() {
        run.spend(1)?;
        let Val::Text(text) = item? else {
            return Err(Fail::new("join: invalid input"));
        };
        let before = if index > 0 { separator } else { "" };
        run.budget.write(before.len() + text.as_str().len())?;
        out.push_str(before);
        out.push_str(text.as_str());
    }
    Ok(Val::text(out))
}

fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The letters before an offset.
fn index(text: &str, offset: Option<usize>) -> Val<'static> {
    match offset {
        Some(offset) => Val::count(text[..offset].chars().count()),
        None => Val::Int(-1),
    }
}

pub(super) fn index_of<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let (text, part, from) = match args {
        [Val::Text(text), Val::Text(part)] => (text.as_str(), part.as_str(), 0),
        [Val::Text(text), Val::Text(part), Val::Int(from)] => (text.as_str(), part.as_str(), *from),
        _ => return Err(Fail::no_overload()),
    };
    if part.is_empty() {
        return Ok(Val::Int(from));
    }
    if from < 0 {
        return Err(out_of_range(from));
    }
    // beyond the end, nothing is found
    let Ok(start) = offset(text, from) else {
        return Ok(Val::Int(-1));
    };
    Ok(index(text, text[start..].find(part).map(|at| start + at)))
}

pub(super) fn last_index_of<'a>(budget: &mut Budget<'_>, args: &[Val<'a>]) -> Evaluated<'a> {
    let (text, part, last) = match args {
        [Val::Text(text), Val::Text(part)] => (text.as_str(), part.as_str(), None),
        [Val::Text(text), Val::Text(part), Val::Int(last)] => (text.as_str(), part.as_str(), Some(*last)),
        _ => return Err(Fail::no_overload()),
    };
    if part.is_empty() {
        return Ok(last.map_or_else(|| Val::count(text.chars().count()), Val::Int));
    }
    let mut end = text.len();
    if let Some(last) = last {
        if last < 0 {
            return Err(out_of_range(last));
        }
        match offset(text, last) {
            Ok(start) if start < text.len() => end = text.len().min(start + part.len()),
            _ => return Ok(Val::Int(-1)),
        }
    }
    // matches may overlap, so every place is tried
    budget.read(end.saturating_mul(part.len()))?;
    let mut windows = text.as_bytes()[..end].windows(part.len());
    let found = windows.rposition(|window| window == part.as_bytes());
    Ok(index(text, found))
}
