//! The patterns of `.Files.Glob`: `*` and `?` stop at a `/`, `**` does not; `[a-z]`, `[!a]` and `{a,b}`.

use regex::bytes::Regex;

/// The longest pattern that is read.
const PATTERN_BYTES_MAX: usize = 4 << 10;

/// A pattern over paths. One that cannot be read matches everything, as in Helm.
#[derive(Debug)]
pub(super) struct Glob(Option<Regex>);

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        Self(translate(pattern).and_then(|regex| Regex::new(&regex).ok()))
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        self.0
            .as_ref()
            .is_none_or(|regex| regex.is_match(path.as_bytes()))
    }
}

/// The pattern as a regular expression; nothing when it is none.
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
                let mut some = false;
                loop {
                    match chars.next()? {
                        ']' if some => break,
                        ']' => return None,
                        '\\' => literal(&mut out, chars.next()?),
                        '-' if some && chars.peek().is_some_and(|next| *next != ']') => out.push('-'),
                        c => literal(&mut out, c),
                    }
                    some = true;
                }
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
            '\\' => literal(&mut out, chars.next()?),
            c => literal(&mut out, c),
        }
    }
    if open > 0 {
        return None;
    }
    out.push('$');
    Some(out)
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
        // what cannot be read matches everything
        check("[a", "anything", true);
        check("{a", "anything", true);
    }
}
