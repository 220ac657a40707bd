//! Go's `filepath.Match`, for `.helmignore` and `--show-only`.
//!
//! `*` and `?` stop at a `/`, `[a-z]` and `[^a-z]` are classes, `\` escapes the next character. Matching
//! is on bytes; an invalid UTF-8 byte is one character.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadPattern;

/// Whether a shell pattern matches the whole text. `*` and `?` do not match a slash.
///
/// On a mismatch the last star takes one more character: the time is bounded by the product of the
/// lengths. As in Go, the rest of a pattern is validated after a mismatch.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> Result<bool, BadPattern> {
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

/// Matches one character against one pattern element other than a star.
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
        // the class must go on: at least its bracket is missing
        Some((c, rest)) if !rest.is_empty() => Ok((c, rest)),
        _ => Err(BadPattern),
    }
}

/// The first character; an invalid byte counts as itself.
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

#[cfg(test)]
mod tests {
    use super::{BadPattern, matches};

    #[test]
    fn patterns() {
        for (pattern, path, expected) in [
            ("templates/a.yaml", "templates/a.yaml", true),
            ("templates/*", "templates/a.yaml", true),
            ("templates/*", "templates/b/a.yaml", false),
            ("*", "templates/a.yaml", false),
            ("*/*.yaml", "templates/a.yaml", true),
            ("templates/?.yaml", "templates/a.yaml", true),
            ("templates?a.yaml", "templates/a.yaml", false),
            ("templates[/]a.yaml", "templates/a.yaml", true),
            ("templates/[^b].yaml", "templates/a.yaml", true),
            ("templates/[b-d].yaml", "templates/a.yaml", false),
            ("templates/\\a.yaml", "templates/a.yaml", true),
            ("*a*b*c", "xaxbxc", true),
            ("*a*b*c", "xaxbx", false),
            ("", "", true),
        ] {
            let told = matches(pattern.as_bytes(), path.as_bytes());
            assert_eq!(told, Ok(expected), "{pattern} {path}");
        }
        for pattern in ["templates/[a", "x[]", "x[a-]", "x\\"] {
            assert_eq!(matches(pattern.as_bytes(), b"x"), Err(BadPattern), "{pattern}");
        }
        // time must not grow exponentially
        let pattern = format!("{}b", "a*".repeat(60));
        assert_eq!(matches(pattern.as_bytes(), &[b'a'; 5_000]), Ok(false));
    }
}
