//! Matches one segment of a pattern against one name, like Go's `filepath.Match`.

/// A parsed segment: `*`, `?`, `[a-z]`, `[^a-z]`, and `\` before a literal character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Vec<Token>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Character(char),
    One,
    Any,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Glob {
    /// `None` for a malformed segment, which matches no name.
    pub fn parse(text: &str) -> Option<Glob> {
        let mut rest = text.chars();
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
        Some(Glob(tokens))
    }

    /// Whether it matches a whole name.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut token, mut at) = (0, 0);
        // the restart point when the last `*` takes one more character; only the last one ever has to
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let matched = match self.0.get(token) {
                Some(Token::Any) => {
                    retry = Some((token, at + 1));
                    token += 1;
                    continue;
                }
                Some(one) => name.get(at).is_some_and(|character| one.matches(*character)),
                None if at == name.len() => return true,
                None => false,
            };
            if matched {
                (token, at) = (token + 1, at + 1);
                continue;
            }
            match retry {
                Some((star, next)) if next <= name.len() => {
                    retry = Some((star, next + 1));
                    (token, at) = (star + 1, next);
                }
                _ => return false,
            }
        }
    }
}

impl Token {
    fn matches(&self, character: char) -> bool {
        match self {
            Token::Character(own) => *own == character,
            Token::One => true,
            Token::Any => false,
            Token::Class { negated, ranges } => {
                ranges
                    .iter()
                    .any(|(low, high)| (*low..=*high).contains(&character))
                    != *negated
            }
        }
    }
}

/// After a `[`: at least one range, then `]`.
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
        let high = match rest.as_str().starts_with('-') {
            true => {
                rest.next();
                bound(rest)?
            }
            false => low,
        };
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
