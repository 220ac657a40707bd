//! `.helmignore`: which files of a directory are no part of the chart.
//!
//! Looks like `.gitignore` and is not: patterns are shell patterns of Go's `filepath.Match`, one without a
//! slash is held against the file's own name, the first rule that matches decides, and a rule with `!`
//! ignores whatever does *not* match. `**` is refused.

use super::LoadError;
use crate::limits::LimitExceeded;

/// The most rules: each is held against each file.
const RULES_MAX: usize = 1_000;

/// What is always ignored: dot files directly in `templates/`.
const DEFAULT: &str = "templates/.?*";

/// The rules of a chart directory.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    pattern: String,
    negated: bool,
    /// Ended with `/`.
    directories: bool,
    /// Has no slash: held against the last part of the path.
    name_only: bool,
}

impl Rules {
    /// Reads the text of a `.helmignore` and adds what is always ignored.
    pub(super) fn parse(text: &str) -> Result<Self, LoadError> {
        let mut rules = Self::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for line in text.lines() {
            rules.add(line)?;
            if rules.0.len() > RULES_MAX {
                return Err(LimitExceeded::IgnoreRules(RULES_MAX).into());
            }
        }
        rules.add(DEFAULT)?;
        Ok(rules)
    }

    fn add(&mut self, line: &str) -> Result<(), LoadError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line.contains("**") {
            return Err(LoadError::IgnoreStars);
        }
        // tried on a text, which finds most of what is wrong with a pattern, as in Helm
        matches(line.as_bytes(), b"abc").map_err(|BadPattern| LoadError::IgnorePattern)?;
        let (negated, line) = match line.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (directories, line) = match line.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (rooted, pattern) = match line.strip_prefix('/') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        self.0.push(Rule {
            name_only: !rooted && !pattern.contains('/'),
            pattern: pattern.to_owned(),
            negated,
            directories,
        });
        Ok(())
    }

    /// Whether a path below the chart's directory is ignored.
    pub(super) fn ignores(&self, path: &str, is_directory: bool) -> bool {
        for rule in &self.0 {
            let fits = !rule.directories || is_directory;
            if rule.negated {
                if !fits || !rule.matches(path) {
                    return true;
                }
            } else if fits && rule.matches(path) {
                return true;
            }
        }
        false
    }
}

impl Rule {
    fn matches(&self, path: &str) -> bool {
        let text = if self.name_only {
            path.rsplit('/').next().unwrap_or(path)
        } else {
            path
        };
        matches(self.pattern.as_bytes(), text.as_bytes()).unwrap_or(false)
    }
}

struct BadPattern;

/// Whether a shell pattern describes the whole text. `*` and `?` match no slash.
///
/// When a piece does not fit, the last star takes one character more: the time is bounded by the product
/// of the lengths. As in Go, a pattern that does not match is read to its end all the same.
fn matches(pattern: &[u8], text: &[u8]) -> Result<bool, BadPattern> {
    let (mut pattern, mut text) = (pattern, text);
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        let step = match pattern.first() {
            None if text.is_empty() => return Ok(true),
            None => None,
            Some(b'*') => {
                pattern = &pattern[1..];
                star = Some((pattern, text));
                continue;
            }
            Some(_) => one(pattern, text)?,
        };
        if let Some(rest) = step {
            (pattern, text) = rest;
            continue;
        }
        let taken = star.and_then(|(after, from)| {
            let (c, left) = character(from)?;
            (c != '/').then_some((after, left))
        });
        let Some(again) = taken else {
            while !pattern.is_empty() {
                pattern = after_one(pattern)?;
            }
            return Ok(false);
        };
        star = Some(again);
        (pattern, text) = again;
    }
}

type Step<'p, 't> = Option<(&'p [u8], &'t [u8])>;

/// Matches one piece of a pattern that is no star with one character.
fn one<'p, 't>(pattern: &'p [u8], text: &'t [u8]) -> Result<Step<'p, 't>, BadPattern> {
    let rest = after_one(pattern)?;
    let Some((found, left)) = character(text) else {
        return Ok(None);
    };
    let fits = match pattern.first() {
        Some(b'?') => found != '/',
        Some(b'[') => in_class(&pattern[1..], found)?,
        Some(b'\\') => character(&pattern[1..]).is_some_and(|(c, _)| c == found),
        _ => character(pattern).is_some_and(|(c, _)| c == found),
    };
    Ok(fits.then_some((rest, left)))
}

/// What follows the first piece of a pattern.
fn after_one(pattern: &[u8]) -> Result<&[u8], BadPattern> {
    match pattern.first() {
        Some(b'[') => {
            let mut rest = &pattern[1..];
            rest = rest.strip_prefix(b"^").unwrap_or(rest);
            let mut ranges = 0;
            while ranges == 0 || rest.first() != Some(&b']') {
                (_, rest) = range(rest)?;
                ranges += 1;
            }
            Ok(&rest[1..])
        }
        Some(b'\\') => character(&pattern[1..]).map(|(_, rest)| rest).ok_or(BadPattern),
        _ => Ok(character(pattern).map_or(&[][..], |(_, rest)| rest)),
    }
}

fn in_class(class: &[u8], found: char) -> Result<bool, BadPattern> {
    let (negated, mut rest) = match class.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, class),
    };
    let (mut ranges, mut within) = (0, false);
    while ranges == 0 || rest.first() != Some(&b']') {
        let ((low, high), left) = range(rest)?;
        within |= low <= found && found <= high;
        rest = left;
        ranges += 1;
    }
    Ok(within != negated)
}

/// One range of a class, `a` or `a-z`.
fn range(text: &[u8]) -> Result<((char, char), &[u8]), BadPattern> {
    let (low, rest) = class_character(text)?;
    match rest.strip_prefix(b"-") {
        Some(rest) => {
            let (high, rest) = class_character(rest)?;
            Ok(((low, high), rest))
        }
        None => Ok(((low, low), rest)),
    }
}

fn class_character(text: &[u8]) -> Result<(char, &[u8]), BadPattern> {
    let text = match text.first() {
        None | Some(b'-' | b']') => return Err(BadPattern),
        Some(b'\\') => &text[1..],
        Some(_) => text,
    };
    match character(text) {
        // the class has to go on: at least its bracket is missing
        Some((c, rest)) if !rest.is_empty() => Ok((c, rest)),
        _ => Err(BadPattern),
    }
}

/// The first character; a byte that is none stands for itself.
fn character(text: &[u8]) -> Option<(char, &[u8])> {
    let length = match text.first()? {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    let whole = text
        .get(..length)
        .and_then(|bytes| std::str::from_utf8(bytes).ok());
    match whole.and_then(|whole| whole.chars().next()) {
        Some(c) => Some((c, &text[length..])),
        None => Some((char::REPLACEMENT_CHARACTER, &text[1..])),
    }
}
