//! Rewrites regular expressions from Go's syntax to the regex crate's.
//!
//! Parses like Go's `regexp/syntax`, with its errors. The output has the same meaning: classes such as `\d`
//! are spelled out (they mean ASCII), special characters are escaped, and group names are omitted but
//! returned separately.

use regex::{Regex, RegexBuilder};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{LazyLock, PoisonError, RwLock};

/// The most repetitions, nested ones multiplied.
const REPEAT_MAX: u32 = 1_000;
const DEPTH_MAX: usize = 1_000;
/// Numbers of this size are too large in any case.
const NUMBER_MAX: u32 = 100_000_000;
const NEVER: &str = "[^\\x00-\\x{10FFFF}]";

/// The memory for the states of a search.
pub const STATES_BYTES_MAX: usize = 256 << 10;

/// An expression in the regex crate's syntax.
#[derive(Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The expression, without names of groups.
    pub text: String,
    /// The names of groups, with their numbers.
    pub names: Vec<(String, usize)>,
}

/// Compiles an expression with Go's meaning; `None` if it exceeds the size.
///
/// # Errors
///
/// Go's text for an expression that is not valid.
pub fn compile(source: &str, bytes_max: usize) -> Result<Option<Regex>, String> {
    let failed = |reason| format!("error parsing regexp: {reason}");
    let rewritten = rewrite(source).map_err(failed)?;
    build(source, &rewritten, bytes_max).map_err(failed)
}

/// Compiles a rewritten expression; `None` if it exceeds the size.
///
/// # Errors
///
/// The regex crate's text about syntax that only Go supports.
pub fn build(source: &str, rewritten: &Rewritten, bytes_max: usize) -> Result<Option<Regex>, String> {
    let built = RegexBuilder::new(&rewritten.text)
        .size_limit(bytes_max)
        .dfa_size_limit(STATES_BYTES_MAX)
        .build();
    match built {
        Ok(regex) => Ok(Some(regex)),
        Err(regex::Error::CompiledTooBig(_)) => Ok(None),
        Err(error) => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            Err(format!("{}: `{source}`", last.trim_start_matches("error: ")))
        }
    }
}

/// Rewrites an expression.
///
/// # Errors
///
/// Go's text without its common prefix.
pub fn rewrite(source: &str) -> Result<Rewritten, String> {
    let mut reader = Reader {
        source,
        rest: source,
        out: String::with_capacity(source.len() + 16),
        names: Vec::new(),
        groups: 0,
        open: Vec::new(),
        level: Level::default(),
        classes: HashMap::new(),
    };
    reader.all()?;
    Ok(Rewritten {
        text: reader.out,
        names: reader.names,
    })
}

fn error<T>(what: &str, shown: &str) -> Result<T, String> {
    Err(format!("{what}: `{shown}`"))
}

/// A repeatable element.
#[derive(Debug, Clone, Copy)]
struct Atom {
    end: usize,
    /// The most repetitions of anything inside, nested ones multiplied.
    times: u32,
}

/// The whole expression or an open group.
#[derive(Debug, Default)]
struct Level {
    last: Option<Atom>,
    times: u32,
}

struct Reader<'s> {
    source: &'s str,
    rest: &'s str,
    out: String,
    names: Vec<(String, usize)>,
    groups: usize,
    open: Vec<Level>,
    level: Level,
    classes: HashMap<String, Option<String>>,
}

impl<'s> Reader<'s> {
    fn all(&mut self) -> Result<(), String> {
        // the start of the last element, if that was a repetition
        let mut repetition = None;
        while let Some(first) = self.rest.chars().next() {
            let before = self.rest;
            let repeated = match first {
                '*' | '+' | '?' => {
                    self.rest = &before[1..];
                    self.repeat(before, &before[..1], repetition)?;
                    true
                }
                '{' => match counts(before) {
                    Some((low, high, after)) => {
                        self.rest = after;
                        let written = &before[..before.len() - after.len()];
                        let range = 0..=REPEAT_MAX;
                        let is_good = range.contains(&low)
                            && high.is_none_or(|high| range.contains(&high) && high >= low);
                        if !is_good {
                            return error("invalid repeat count", written);
                        }
                        self.repeat(before, written, repetition)?;
                        self.within(low, high, before)?;
                        true
                    }
                    None => {
                        self.rest = &before[1..];
                        self.put("\\{");
                        false
                    }
                },
                _ => {
                    self.one(first)?;
                    false
                }
            };
            repetition = repeated.then_some(before);
        }
        match self.open.is_empty() {
            true => Ok(()),
            false => error("missing closing )", self.source),
        }
    }

    fn one(&mut self, first: char) -> Result<(), String> {
        match first {
            '(' if self.rest.starts_with("(?") => return self.group_with_flags(),
            '(' => {
                self.rest = &self.rest[1..];
                self.groups += 1;
                return self.enter("(");
            }
            ')' => {
                let Some(outer) = self.open.pop() else {
                    return error("unexpected )", self.source);
                };
                self.rest = &self.rest[1..];
                self.out.push(')');
                let inner = std::mem::replace(&mut self.level, outer);
                self.follows(inner.times);
            }
            '|' => {
                self.rest = &self.rest[1..];
                self.out.push('|');
                self.level.last = None;
            }
            '^' | '$' | '.' => {
                self.rest = &self.rest[1..];
                let mut bytes = [0; 4];
                self.put(first.encode_utf8(&mut bytes));
            }
            '[' => return self.class(),
            '\\' => return self.escaped(),
            other => {
                self.rest = &self.rest[other.len_utf8()..];
                self.put(&literal(u32::from(other)));
            }
        }
        Ok(())
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.follows(1);
    }

    fn follows(&mut self, times: u32) {
        self.level.times = self.level.times.max(times);
        self.level.last = Some(Atom {
            end: self.out.len(),
            times,
        });
    }

    fn enter(&mut self, text: &str) -> Result<(), String> {
        if self.open.len() == DEPTH_MAX {
            return error("expression nests too deeply", self.source);
        }
        let level = Level { last: None, times: 1 };
        self.open.push(std::mem::replace(&mut self.level, level));
        self.out.push_str(text);
        Ok(())
    }

    /// Repeats the last element; a lazy suffix is still unread.
    fn repeat(&mut self, before: &str, operator: &str, last: Option<&str>) -> Result<(), String> {
        let mut operator = operator.to_owned();
        if let Some(after) = self.rest.strip_prefix('?') {
            self.rest = after;
            operator.push('?');
        }
        if let Some(last) = last {
            let shown = &last[..last.len() - self.rest.len()];
            return error("invalid nested repetition operator", shown);
        }
        let Some(atom) = self.level.last.as_mut() else {
            let shown = &before[..before.len() - self.rest.len()];
            return error("missing argument to repetition operator", shown);
        };
        // flags may come between
        self.out.insert_str(atom.end, &operator);
        atom.end += operator.len();
        Ok(())
    }

    /// Multiplies nested repetitions and checks the limit.
    fn within(&mut self, low: u32, high: Option<u32>, before: &str) -> Result<(), String> {
        let Some(atom) = self.level.last.as_mut() else {
            return Ok(());
        };
        atom.times = match high {
            Some(0) => 1,
            high => atom.times.saturating_mul(high.unwrap_or(low).max(1)),
        };
        self.level.times = self.level.times.max(atom.times);
        if atom.times > REPEAT_MAX && (low >= 2 || high.is_some_and(|high| high >= 2)) {
            return error("invalid repeat count", &before[..before.len() - self.rest.len()]);
        }
        Ok(())
    }

    fn group_with_flags(&mut self) -> Result<(), String> {
        let begun = self.rest;
        let named = ["(?P<", "(?<"].into_iter().find(|sign| {
            // Go requires something after the bracket
            begun.starts_with(sign) && begun.len() > sign.len()
        });
        if let Some(sign) = named {
            let Some(end) = begun.find('>') else {
                return error("invalid named capture", begun);
            };
            let name = &begun[sign.len()..end];
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(is_name) {
                return error("invalid named capture", &begun[..=end]);
            }
            self.rest = &begun[end + 1..];
            self.groups += 1;
            self.names.push((name.to_owned(), self.groups));
            return self.enter("(");
        }
        let mut rest = &begun[2..];
        let (mut negative, mut any) = (false, false);
        while let Some(flag) = rest.chars().next() {
            rest = &rest[flag.len_utf8()..];
            match flag {
                'i' | 'm' | 's' | 'U' => any = true,
                '-' if !negative => (negative, any) = (true, false),
                ':' | ')' if !negative || any => {
                    self.rest = rest;
                    let written = &begun[..begun.len() - rest.len()];
                    match flag {
                        ':' => self.enter(written)?,
                        // the regex crate rejects empty flags
                        _ if written == "(?)" => {}
                        _ => self.out.push_str(written),
                    }
                    return Ok(());
                }
                _ => {
                    return error(
                        "invalid or unsupported Perl syntax",
                        &begun[..begun.len() - rest.len()],
                    );
                }
            }
        }
        error("invalid or unsupported Perl syntax", begun)
    }

    fn escaped(&mut self) -> Result<(), String> {
        let begun = self.rest;
        let sign = begun[1..].chars().next();
        let simple = match sign {
            Some('A') => Some("\\A"),
            Some('b') => Some("(?-u:\\b)"),
            Some('B') => Some("(?-u:\\B)"),
            Some('z') => Some("\\z"),
            Some('C') => return error("invalid escape sequence", "\\C"),
            _ => None,
        };
        if let Some(text) = simple {
            self.rest = &begun[2..];
            self.put(text);
            return Ok(());
        }
        if let Some(after) = begun.strip_prefix("\\Q") {
            let (quoted, after) = after.split_once("\\E").unwrap_or((after, ""));
            self.rest = after;
            for character in quoted.chars() {
                self.put(&literal(u32::from(character)));
            }
            return Ok(());
        }
        if let Some((class, after)) = self.named_class(begun)? {
            self.rest = after;
            self.put(&format!("[{class}]"));
            return Ok(());
        }
        let (code, after) = character(begun)?;
        self.rest = after;
        self.put(&literal(code));
        Ok(())
    }

    fn class(&mut self) -> Result<(), String> {
        let begun = self.rest;
        let mut rest = &begun[1..];
        let mut items = String::new();
        let negative = match rest.strip_prefix('^') {
            Some(after) => {
                rest = after;
                true
            }
            None => false,
        };
        let mut first = true;
        loop {
            if !first && let Some(after) = rest.strip_prefix(']') {
                self.rest = after;
                break;
            }
            first = false;
            if rest.starts_with("[:")
                && let Some(end) = rest[2..].find(":]")
            {
                let name = &rest[..end + 4];
                let word = &name[2..name.len() - 2];
                if !POSIX.contains(&word.strip_prefix('^').unwrap_or(word)) {
                    return error("invalid character class range", name);
                }
                items.push_str(name);
                rest = &rest[name.len()..];
                continue;
            }
            if let Some((class, after)) = self.named_class(rest)? {
                items.push_str(&class);
                rest = after;
                continue;
            }
            let range = rest;
            let low = class_character(&mut rest, begun)?;
            let mut high = low;
            if rest.len() >= 2 && rest.starts_with('-') && !rest[1..].starts_with(']') {
                rest = &rest[1..];
                high = class_character(&mut rest, begun)?;
                if high < low {
                    return error(
                        "invalid character class range",
                        &range[..range.len() - rest.len()],
                    );
                }
            }
            // the regex crate has no surrogates
            let low = if (0xd800..0xe000).contains(&low) {
                0xe000
            } else {
                low
            };
            let high = if (0xd800..0xe000).contains(&high) {
                0xd7ff
            } else {
                high
            };
            if low <= high {
                let _ = write!(items, "\\x{{{low:X}}}-\\x{{{high:X}}}");
            }
        }
        let class = match (items.is_empty(), negative) {
            (true, false) => NEVER.to_owned(),
            (true, true) => "(?s:.)".to_owned(),
            (false, false) => format!("[{items}]"),
            (false, true) => format!("[^{items}]"),
        };
        self.put(&class);
        Ok(())
    }

    /// Parses `\d` or `\p{Greek}`; returns its form inside brackets, and the rest.
    fn named_class<'t>(&mut self, text: &'t str) -> Result<Option<(String, &'t str)>, String> {
        let mut characters = text.chars();
        let (Some('\\'), Some(sign)) = (characters.next(), characters.next()) else {
            return Ok(None);
        };
        let rest = characters.as_str();
        let plain = match sign {
            'd' => "0-9",
            'D' => "[^0-9]",
            'w' => "0-9A-Za-z_",
            'W' => "[^0-9A-Za-z_]",
            's' => "\\t\\n\\x0C\\r ",
            'S' => "[^\\t\\n\\x0C\\r ]",
            'p' | 'P' => "",
            _ => return Ok(None),
        };
        if !plain.is_empty() {
            return Ok(Some((plain.to_owned(), rest)));
        }
        let (name, after) = match rest.chars().next() {
            None => return error("invalid character class range", text),
            Some('{') => {
                let Some(end) = rest.find('}') else {
                    return error("invalid character class range", text);
                };
                (&rest[1..end], &rest[end + 1..])
            }
            Some(letter) => rest.split_at(letter.len_utf8()),
        };
        let (word, turned) = match name.strip_prefix('^') {
            Some(word) => (word, true),
            None => (name, false),
        };
        let Some(class) = self.unicode(word) else {
            return error("invalid character class range", &text[..text.len() - after.len()]);
        };
        let sign = if turned == (sign == 'P') { 'p' } else { 'P' };
        Ok(Some((format!("\\{sign}{{{class}}}"), after)))
    }

    fn unicode(&mut self, name: &str) -> Option<String> {
        let bare: String = name.chars().filter(|c| !matches!(c, ' ' | '_' | '-')).collect();
        let known = self.classes.entry(bare.to_ascii_lowercase());
        known.or_insert_with_key(|name| known_unicode(name)).clone()
    }
}

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

fn literal(code: u32) -> String {
    match char::from_u32(code) {
        Some(character) if character.is_alphanumeric() => character.to_string(),
        Some(_) => format!("\\x{{{code:X}}}"),
        None => NEVER.to_owned(),
    }
}

/// Parses `{2}`, `{2,}` or `{2,3}`; returns the counts and the rest.
fn counts(text: &str) -> Option<(u32, Option<u32>, &str)> {
    let (low, rest) = number(text.strip_prefix('{')?)?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((low, Some(low), rest));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((low, None, rest));
    }
    let (high, rest) = number(rest)?;
    Some((low, Some(high), rest.strip_prefix('}')?))
}

/// Parses digits without leading zeros.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() || digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().unwrap_or(NUMBER_MAX), rest))
}

/// The names that exist: some hundred. To find one takes longer than to compile an expression.
static CLASSES: LazyLock<RwLock<HashMap<String, String>>> = LazyLock::new(RwLock::default);

fn known_unicode(name: &str) -> Option<String> {
    let known = CLASSES.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(class) = known.get(name) {
        return Some(class.clone());
    }
    drop(known);
    let class = unicode(name)?;
    let mut known = CLASSES.write().unwrap_or_else(PoisonError::into_inner);
    known.insert(name.to_owned(), class.clone());
    Some(class)
}

/// The regex crate's name of a category or script: lower-case letters and digits only.
fn unicode(name: &str) -> Option<String> {
    if matches!(name, "any" | "ascii" | "assigned") {
        return Some(name.to_owned());
    }
    // the regex crate accepts `is` before any name
    if name.starts_with("is") || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    ["gc", "sc"].into_iter().find_map(|kind| {
        let class = format!("{kind}={name}");
        let is_short_script = kind == "sc" && name.len() == 4 && !FOUR_LETTERS.contains(&name);
        let known = !is_short_script && Regex::new(&format!("\\p{{{class}}}")).is_ok();
        known.then_some(class)
    })
}

/// Scripts whose full names have four letters, like all short names, which Go does not know.
const FOUR_LETTERS: [&str; 6] = ["thai", "cham", "lisu", "yezi", "toto", "kawi"];

fn class_character(rest: &mut &str, whole: &str) -> Result<u32, String> {
    let Some(first) = rest.chars().next() else {
        return error("missing closing ]", whole);
    };
    if first == '\\' {
        let (code, after) = character(rest)?;
        *rest = after;
        return Ok(code);
    }
    *rest = &rest[first.len_utf8()..];
    Ok(u32::from(first))
}

fn character(text: &str) -> Result<(u32, &str), String> {
    let mut rest = text[1..].chars();
    let Some(sign) = rest.next() else {
        return error("trailing backslash at end of expression", "");
    };
    let is_octal = |c: &char| matches!(c, '0'..='7');
    let code = match sign {
        '0'..='7' if sign == '0' || rest.clone().next().is_some_and(|c| is_octal(&c)) => {
            let mut code = u32::from(sign) - u32::from('0');
            for _ in 0..2 {
                let Some(digit) = rest.clone().next().filter(is_octal) else {
                    break;
                };
                code = code * 8 + u32::from(digit) - u32::from('0');
                rest.next();
            }
            Some(code)
        }
        'x' => hexadecimal(&mut rest),
        'a' => Some(7),
        'f' => Some(12),
        'n' => Some(10),
        'r' => Some(13),
        't' => Some(9),
        'v' => Some(11),
        sign if sign.is_ascii() && !sign.is_ascii_alphanumeric() => Some(u32::from(sign)),
        _ => None,
    };
    let after = rest.as_str();
    match code {
        Some(code) => Ok((code, after)),
        None => error("invalid escape sequence", &text[..text.len() - after.len()]),
    }
}

/// Parses the part after `\x`: two digits, or any number in braces.
fn hexadecimal(rest: &mut std::str::Chars<'_>) -> Option<u32> {
    let first = rest.next()?;
    if first != '{' {
        let high = first.to_digit(16);
        let low = rest.next()?.to_digit(16)?;
        return Some(high? * 16 + low);
    }
    let (mut code, mut any) = (0_u32, false);
    loop {
        let digit = rest.next()?;
        if digit == '}' {
            return any.then_some(code);
        }
        code = code * 16 + digit.to_digit(16)?;
        if code > 0x10_ffff {
            return None;
        }
        any = true;
    }
}

/// Whether a search takes the same short time for each byte. Otherwise a byte may visit the whole expression:
/// each choice can double the states of its automaton, and too many of them are not kept.
pub fn is_simple(pattern: &str) -> bool {
    const CHOICES_MAX: usize = 10;
    const BYTES_MAX: usize = 200;
    let choices = pattern.bytes().filter(|byte| b".[\\|?*+".contains(byte));
    !pattern.contains('{') && choices.count() <= CHOICES_MAX && pattern.len() <= BYTES_MAX
}
