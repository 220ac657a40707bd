//! The patterns of `.Files.Glob`: `*` and `?` stop at a `/`, `**` does not; `[a-z]`, `[!a]` and `{a,b}`.

use regex::bytes::Regex;
use std::iter::Peekable;
use std::str::Chars;

const PATTERN_BYTES_MAX: usize = 4 << 10;

#[derive(Debug)]
pub(super) enum Glob {
    Regex(Regex),
    /// `start**end`; Helm's library lets both match the same bytes of a short path.
    Ends(String, String),
    /// As in Helm, an invalid pattern matches everything.
    Everything,
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        let is_plain = |text: &str| !text.is_empty() && !text.contains(['*', '?', '[', '{', '\\']);
        if let Some((start, end)) = pattern.split_once("**")
            && is_plain(start)
            && is_plain(end)
        {
            return Self::Ends(start.to_owned(), end.to_owned());
        }
        let regex = translate(pattern).and_then(|regex| Regex::new(&regex).ok());
        regex.map_or(Self::Everything, Self::Regex)
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        match self {
            Self::Regex(regex) => regex.is_match(path.as_bytes()),
            Self::Ends(start, end) => path.starts_with(start.as_str()) && path.ends_with(end.as_str()),
            Self::Everything => true,
        }
    }
}

fn translate(pattern: &str) -> Option<String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return None;
    }
    let mut out = String::from("(?su)^");
    let mut chars = pattern.chars().peekable();
    let mut open = 0_usize;
    while let Some(c) = chars.next() {
        match c {
            '*' if chars.peek() == Some(&'*') => {
                while chars.next_if_eq(&'*').is_some() {}
                out.push_str(".*");
            }
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            '[' => {
                out.push('[');
                if chars.next_if_eq(&'!').is_some() {
                    out.push('^');
                }
                class(&mut out, &mut chars)?;
                out.push(']');
            }
            '{' => {
                open += 1;
                out.push_str("(?:");
            }
            '}' if open > 0 => {
                open -= 1;
                out.push(')');
            }
            ',' if open > 0 => out.push('|'),
            '\\' => {
                if let Some(c) = chars.next() {
                    literal(&mut out, c);
                }
            }
            c => literal(&mut out, c),
        }
    }
    out.push_str(&")".repeat(open));
    out.push('$');
    Some(out)
}

/// A bracket class: one range, or single characters. A `-` is literal unless it is second.
fn class(out: &mut String, chars: &mut Peekable<Chars<'_>>) -> Option<()> {
    let first = chars.next()?;
    if chars.next_if_eq(&'-').is_some() {
        let last = chars.next()?;
        literal(out, first);
        out.push('-');
        literal(out, last);
        return (chars.next()? == ']' && first <= last).then_some(());
    }
    let mut next = first;
    if next == ']' {
        return None;
    }
    while next != ']' {
        match next {
            '\\' => literal(out, chars.next()?),
            next => literal(out, next),
        }
        next = chars.next()?;
    }
    Some(())
}

fn literal(out: &mut String, c: char) {
    let mut buffer = [0; 4];
    out.push_str(&regex::escape(c.encode_utf8(&mut buffer)));
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn paths_match_as_in_helm() {
        #[track_caller]
        fn check(pattern: &str, path: &str, want: bool) {
            assert_eq!(Glob::new(pattern).matches(path), want, "{pattern} {path}");
        }
        check("config/*", "config/a.toml", true);
        check("config/*", "config/sub/a.toml", false);
        check("config/**", "config/sub/a.toml", true);
        check("**.yaml", "a/b.yaml", true);
        check("*.{yaml,yml}", "a.yml", true);
        check("*.{yaml,yml}", "a.json", false);
        check("a?c", "abc", true);
        check("a?c", "a/c", false);
        check("[a-c]x", "bx", true);
        check("[!a-c]x", "bx", false);
        check("[!a-c]x", "dx", true);
        check(r"a\*", "a*", true);
        check(r"a\*", "ab", false);
        check("a.c", "abc", false);
        check("[a", "anything", true);
        check("[a-]", "anything", true);
        check("{a", "anything", false);
        check("{a", "a", true);
        check("f/**/a", "f/a", true);
    }
}
