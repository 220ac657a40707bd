//! Shell patterns: `*`, `?`, `[a-z]`, `[^x]`, `\c`. `*` matches slashes too.

use crate::budget::Budget;
use crate::error::Exhausted;
use std::collections::HashMap;

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

#[derive(Debug)]
pub(super) struct Pattern(Vec<Part>);

impl Pattern {
    pub(super) fn new(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            if c == '*' && parts.last() == Some(&Part::Any) {
                continue;
            }
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

    /// The end of the shortest or longest matching prefix of a text; an empty one does not count.
    ///
    /// One pass over the text tracks all possible positions in the pattern as a bit set. The cost is
    /// characters times parts, 64 parts at a time.
    pub(super) fn beginning(
        &self,
        text: &str,
        which: MatchLength,
        budget: &Budget,
    ) -> Result<Option<usize>, Exhausted> {
        let words = self.0.len() / 64 + 1;
        let stays = mask(words, &self.0, |part| *part == Part::Any);
        let mut consumes = Masks::new(&self.0, words);
        let mut places = vec![0; words];
        places[0] = 1;
        skip(&mut places, &stays);
        let end = |places: &[u64]| places[self.0.len() / 64] >> (self.0.len() % 64) & 1 == 1;
        let mut found = None;
        for (at, c) in text.char_indices() {
            budget.spend(1 + words / 4)?;
            let consumes = consumes.of(c, budget);
            let mut carry = 0;
            for ((place, stays), consumes) in places.iter_mut().zip(&stays).zip(consumes) {
                let on = *place & consumes;
                *place = *place & stays | on << 1 | carry;
                carry = on >> 63;
            }
            skip(&mut places, &stays);
            if end(&places) {
                found = Some(at + c.len_utf8());
                if which == MatchLength::Shortest {
                    break;
                }
            }
            if places.iter().all(|place| *place == 0) {
                break;
            }
        }
        Ok(found)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchLength {
    Shortest,
    Longest,
}

/// A bit for each part that satisfies `is`.
fn mask(words: usize, parts: &[Part], is: impl Fn(&Part) -> bool) -> Vec<u64> {
    let mut mask = vec![0; words];
    for (at, _) in parts.iter().enumerate().filter(|(_, part)| is(part)) {
        mask[at / 64] |= 1 << (at % 64);
    }
    mask
}

/// Adds the position after each `*`, which may match nothing. There are no two adjacent ones.
fn skip(places: &mut [u64], stays: &[u64]) {
    let mut carry = 0;
    for (place, stays) in places.iter_mut().zip(stays) {
        let on = *place & stays;
        *place |= on << 1 | carry;
        carry = on >> 63;
    }
}

/// The parts that match a character, for recently seen characters.
struct Masks<'p> {
    parts: &'p [Part],
    words: usize,
    /// The steps to make a mask.
    steps: usize,
    /// A table is faster than a map, and most texts are ASCII.
    ascii: [Vec<u64>; 128],
    known: HashMap<char, Vec<u64>>,
}

/// The most mask words to keep.
const MASK_WORDS_MAX: usize = 1 << 16;

impl<'p> Masks<'p> {
    fn new(parts: &'p [Part], words: usize) -> Self {
        let ranges = parts.iter().map(|part| match part {
            Part::Class { ranges, .. } => ranges.len(),
            Part::Any | Part::One | Part::Char(_) => 0,
        });
        Self {
            parts,
            words,
            steps: (parts.len() + ranges.sum::<usize>()) / 4,
            ascii: std::array::from_fn(|_| Vec::new()),
            known: HashMap::new(),
        }
    }

    fn of(&mut self, c: char, budget: &Budget) -> &[u64] {
        let (words, parts) = (self.words, self.parts);
        if let Some(known) = self.ascii.get_mut(c as usize) {
            if known.is_empty() {
                budget.owe(self.steps);
                *known = mask(words, parts, |part| part.is(c));
            }
            return known;
        }
        if !self.known.contains_key(&c) && (self.known.len() + 1) * self.words > MASK_WORDS_MAX {
            self.known.clear();
        }
        let steps = self.steps;
        self.known.entry(c).or_insert_with(|| {
            budget.owe(steps);
            mask(words, parts, |part| part.is(c))
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(parts: &[Part], text: &[char]) -> bool {
        match parts {
            [] => text.is_empty(),
            [Part::Any, rest @ ..] => (0..=text.len()).any(|at| matches(rest, &text[at..])),
            [one, rest @ ..] => matches!(text, [c, after @ ..] if one.is(*c) && matches(rest, after)),
        }
    }

    fn by_definition(pattern: &Pattern, text: &str, which: MatchLength) -> Option<usize> {
        let mut ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
        let fits = |end: &usize| {
            let head: Vec<char> = text[..*end].chars().collect();
            matches(&pattern.0, &head)
        };
        match which {
            MatchLength::Shortest => ends.find(fits),
            MatchLength::Longest => ends.rfind(fits),
        }
    }

    proptest! {
        #[test]
        fn prefix_equals_the_definition(
            pattern in r"([ab\u{e9}]|\*|\?|\[a-b\]|\[\^a\]){0,7}",
            times in 0_usize..2,
            text in "[ab\u{e9}/]{0,12}",
        ) {
            // more positions than one word holds
            let head = "b".repeat(times * 63);
            let (whole, text) = (format!("{head}{pattern}"), format!("{head}{text}"));
            let pattern = Pattern::new(&whole).unwrap();
            for which in [MatchLength::Shortest, MatchLength::Longest] {
                prop_assert_eq!(
                    pattern.beginning(&text, which, &Budget::default()).unwrap(),
                    by_definition(&pattern, &text, which),
                    "{:?} {} {}", which, whole, text
                );
            }
        }
    }

    /// Testing prefix by prefix would take an hour.
    #[test]
    fn long_text_is_scanned_once() {
        let text = "a".repeat(1 << 18);
        for (pattern, which, expected) in [
            ("*/", MatchLength::Longest, None),
            ("*a", MatchLength::Longest, Some(text.len())),
            ("*a*b", MatchLength::Shortest, None),
            ("?*?*?", MatchLength::Shortest, Some(3)),
        ] {
            let pattern = Pattern::new(pattern).unwrap();
            let found = pattern.beginning(&text, which, &Budget::default());
            assert_eq!(found, Ok(expected), "{pattern:?}");
        }
    }
}
