//! Shell patterns: `*`, `?`, `[a-z]`, `[^x]`, `\c`. Unlike in paths, `*` matches slashes too.

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Char(char),
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// A pattern, read.
#[derive(Debug)]
pub(super) struct Pattern(Vec<Part>);

impl Pattern {
    /// `None` if it is malformed.
    pub(super) fn new(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            parts.push(match c {
                '*' => Part::Any,
                '?' => Part::One,
                '\\' => Part::Char(rest.next()?),
                '[' => {
                    let negated = rest.next_if_eq(&'^').is_some();
                    let mut ranges = Vec::new();
                    while ranges.is_empty() || rest.next_if_eq(&']').is_none() {
                        let from = member(&mut rest)?;
                        let to = if rest.next_if_eq(&'-').is_some() {
                            member(&mut rest)?
                        } else {
                            from
                        };
                        ranges.push((from, to));
                    }
                    Part::Class { negated, ranges }
                }
                other => Part::Char(other),
            });
        }
        Some(Self(parts))
    }

    /// Whether the whole text matches. The last `*` is where matching resumes: no more than
    /// parts times characters are compared.
    pub(super) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut part, mut at) = (0, 0);
        let mut resume: Option<(usize, usize)> = None;
        loop {
            match self.0.get(part) {
                Some(Part::Any) => {
                    resume = Some((part + 1, at));
                    part += 1;
                    continue;
                }
                Some(one) if text.get(at).is_some_and(|c| one.is(*c)) => {
                    part += 1;
                    at += 1;
                    continue;
                }
                None if at == text.len() => return true,
                _ => {}
            }
            match &mut resume {
                Some((after, from)) if *from < text.len() => {
                    *from += 1;
                    (part, at) = (*after, *from);
                }
                _ => return false,
            }
        }
    }
}

impl Part {
    fn is(&self, c: char) -> bool {
        match self {
            Self::Any => false,
            Self::One => true,
            Self::Char(own) => *own == c,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated
            }
        }
    }
}

fn member(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    match rest.next()? {
        '-' | ']' => None,
        '\\' => rest.next(),
        other => Some(other),
    }
}
