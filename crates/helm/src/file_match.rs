//! A path against a pattern, as Go's `filepath.Match` compares them.
//!
//! `*` and `?` stop at a `/`, `[a-z]` and `[^a-z]` are classes, `\` takes the next character as it is. A
//! malformed pattern matches nothing.

enum Token {
    Character(char),
    One,
    Any,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// Whether all of a path matches.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    let Some(tokens) = tokens(pattern) else {
        return false;
    };
    let path: Vec<char> = path.chars().collect();
    let (mut token, mut at) = (0, 0);
    // where to go on when the last `*` takes one more character: only the last one ever has to
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let next = path.get(at);
        let matched = match (tokens.get(token), next) {
            (Some(Token::Any), _) => {
                retry = Some((token + 1, at));
                token += 1;
                continue;
            }
            (None, None) => return true,
            (Some(one), Some(character)) => one.matches(*character),
            _ => false,
        };
        if matched {
            (token, at) = (token + 1, at + 1);
            continue;
        }
        match retry {
            Some((after, from)) if path.get(from).is_some_and(|taken| *taken != '/') => {
                retry = Some((after, from + 1));
                (token, at) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

impl Token {
    fn matches(&self, character: char) -> bool {
        match self {
            Self::Character(own) => *own == character,
            Self::One => character != '/',
            Self::Any => false,
            Self::Class { negated, ranges } => {
                let within = |(low, high): &(char, char)| (*low..=*high).contains(&character);
                ranges.iter().any(within) != *negated
            }
        }
    }
}

fn tokens(pattern: &str) -> Option<Vec<Token>> {
    let mut rest = pattern.chars();
    let mut tokens = Vec::new();
    while let Some(next) = rest.next() {
        tokens.push(match next {
            '*' => Token::Any,
            '?' => Token::One,
            '\\' => Token::Character(rest.next()?),
            '[' => class(&mut rest)?,
            other => Token::Character(other),
        });
    }
    Some(tokens)
}

/// After a `[`: at least one range, ended by `]`.
fn class(rest: &mut std::str::Chars<'_>) -> Option<Token> {
    let negated = rest.as_str().starts_with('^');
    if negated {
        rest.next();
    }
    let mut ranges = Vec::new();
    loop {
        if !ranges.is_empty() && rest.as_str().starts_with(']') {
            rest.next();
            return Some(Token::Class { negated, ranges });
        }
        let low = bound(rest)?;
        let mut high = low;
        if rest.as_str().starts_with('-') {
            rest.next();
            high = bound(rest)?;
        }
        ranges.push((low, high));
    }
}

fn bound(rest: &mut std::str::Chars<'_>) -> Option<char> {
    match rest.next()? {
        '-' | ']' => None,
        '\\' => rest.next(),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

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
            ("templates/[a", "templates/a", false),
            ("templates/\\a.yaml", "templates/a.yaml", true),
            ("*a*b*c", "xaxbxc", true),
            ("*a*b*c", "xaxbx", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
        // in time that grows with the lengths, not with their power
        let pattern = format!("{}b", "a*".repeat(60));
        assert!(!matches(&pattern, &"a".repeat(5_000)));
    }
}
