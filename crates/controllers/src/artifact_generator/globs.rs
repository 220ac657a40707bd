//! Patterns of paths in copy operations.
//!
//! `from` has the segments of Go's `path.Match`; with the strategy `Extract`, and in `exclude`, `**` stands
//! for any directories and `{a,b}` for alternatives, as in the library doublestar.

use std::cell::Cell;
use std::fmt;

use equate_source::Glob;

/// Alternatives of one pattern: a tenant's braces multiply.
const ALTERNATIVES_MAX: usize = 64;
/// Bytes of a pattern: no path is longer.
const PATTERN_BYTES_MAX: usize = 4096;
/// Bytes of all patterns of one operation's `exclude`, with all alternatives of each; the same for its `from`.
const EXPANDED_BYTES_MAX: usize = 64 << 10;
/// The most memory of a parsed byte.
const HELD_PER_BYTE: usize = 64;
const STEPS: usize = 1 << 20;

/// Why patterns are not parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternError {
    Malformed,
    TooLarge,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => write!(f, "it is malformed"),
            Self::TooLarge => write!(
                f,
                "with all alternatives in braces, the patterns have more than {EXPANDED_BYTES_MAX} bytes; use fewer"
            ),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Segment {
    /// `**`
    Deep,
    Name(Glob),
}

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pattern {
    alternatives: Vec<Vec<Segment>>,
    /// Of all alternatives.
    bytes: usize,
}

impl Pattern {
    /// A pattern without `**` and alternatives.
    pub(super) fn plain(text: &str) -> Result<Self, PatternError> {
        let segments: Option<Vec<Segment>> = text
            .split('/')
            .map(|segment| Glob::parse(segment).map(Segment::Name))
            .collect();
        Ok(Self {
            alternatives: vec![segments.ok_or(PatternError::Malformed)?],
            bytes: text.len(),
        })
    }

    /// A pattern with `**` and alternatives.
    pub(super) fn deep(text: &str) -> Result<Self, PatternError> {
        Self::within(text, EXPANDED_BYTES_MAX)
    }

    fn within(text: &str, bytes_max: usize) -> Result<Self, PatternError> {
        let expanded = expand(text, bytes_max)?;
        let parsed: Option<Vec<Vec<Segment>>> = expanded
            .iter()
            .map(|text| {
                let segments = text.split('/').map(|segment| match segment {
                    "**" => Some(Segment::Deep),
                    // both begin a negated class there
                    segment => Glob::parse(&segment.replace("[!", "[^")).map(Segment::Name),
                });
                segments.collect()
            })
            .collect();
        Ok(Self {
            alternatives: parsed.ok_or(PatternError::Malformed)?,
            bytes: expanded.iter().map(String::len).sum(),
        })
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        let names: Vec<&str> = path.split('/').collect();
        self.alternatives.iter().any(|segments| along(segments, &names))
    }
}

/// Compares segment by segment; each `**` restarts at most once per name.
fn along(segments: &[Segment], names: &[&str]) -> bool {
    let (mut segment, mut name) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let matched = match segments.get(segment) {
            Some(Segment::Deep) => {
                retry = Some((segment, name + 1));
                segment += 1;
                continue;
            }
            Some(Segment::Name(glob)) => names.get(name).is_some_and(|name| glob.matches(name)),
            None if name == names.len() => return true,
            None => false,
        };
        if matched {
            (segment, name) = (segment + 1, name + 1);
            continue;
        }
        match retry {
            Some((deep, next)) if next <= names.len() => {
                retry = Some((deep, next + 1));
                (segment, name) = (deep + 1, next);
            }
            _ => return false,
        }
    }
}

/// The alternatives of the braces in a text.
fn expand(text: &str, bytes_max: usize) -> Result<Vec<String>, PatternError> {
    use PatternError::{Malformed, TooLarge};
    if text.len() > PATTERN_BYTES_MAX {
        return Err(Malformed);
    }
    if text.len() > bytes_max {
        return Err(TooLarge);
    }
    let mut done = Vec::new();
    let mut open = vec![text.to_owned()];
    let mut bytes = text.len();
    while let Some(text) = open.pop() {
        if open.len() + done.len() > ALTERNATIVES_MAX {
            return Err(Malformed);
        }
        let Some(begin) = text.find('{') else {
            if text.contains('}') {
                return Err(Malformed);
            }
            done.push(text);
            continue;
        };
        let (mut depth, mut cuts, mut end) = (0_usize, vec![begin], None);
        for (at, byte) in text.bytes().enumerate().skip(begin) {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                b',' if depth == 1 => cuts.push(at),
                _ => {}
            }
            if depth == 0 {
                end = Some(at);
                break;
            }
        }
        let end = end.ok_or(Malformed)?;
        cuts.push(end);
        // before the copies are made
        if cuts.len() > ALTERNATIVES_MAX {
            return Err(Malformed);
        }
        let (before, after) = (text.get(..begin), text.get(end + 1..));
        let (before, after) = before.zip(after).ok_or(Malformed)?;
        let around = before.len() + after.len();
        let copied: usize = cuts
            .iter()
            .zip(cuts.iter().skip(1))
            .map(|(from, to)| around + to - from - 1)
            .sum();
        bytes = bytes - text.len() + copied;
        if bytes > bytes_max {
            return Err(TooLarge);
        }
        for pair in cuts.windows(2).rev() {
            if let [from, to] = pair {
                let inner = text.get(from + 1..*to).ok_or(Malformed)?;
                open.push(format!("{before}{inner}{after}"));
            }
        }
    }
    Ok(done)
}

/// Whether a path has characters of patterns.
pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '[', ']'])
}

/// The paths that `exclude` leaves out: whole ones, relative to the selected directory, and names where a
/// pattern has no slash.
#[derive(Debug, Clone, Default)]
pub(super) struct Excluded {
    patterns: Vec<(Pattern, bool)>,
    /// Since the last pause.
    steps: Cell<usize>,
}

impl Excluded {
    /// The error names the pattern.
    pub(super) fn new(patterns: &[String]) -> Result<Self, String> {
        let (mut parsed, mut left) = (Vec::new(), EXPANDED_BYTES_MAX);
        for text in patterns {
            let pattern = Pattern::within(text, left).map_err(|error| {
                let shown: String = text.chars().take(200).collect();
                match error {
                    PatternError::Malformed => format!("invalid exclude pattern '{shown}'"),
                    PatternError::TooLarge => format!("too many exclude patterns at '{shown}': {error}"),
                }
            })?;
            left = left.saturating_sub(pattern.bytes);
            parsed.push((pattern, !text.contains('/')));
        }
        Ok(Self {
            patterns: parsed,
            steps: Cell::default(),
        })
    }

    /// An estimate of its memory.
    pub(super) fn held(&self) -> usize {
        let bytes = self.patterns.iter().map(|(pattern, _)| pattern.bytes);
        bytes.sum::<usize>().saturating_mul(HELD_PER_BYTE)
    }

    /// Pauses often; an error of a pause ends it.
    pub(super) fn has<E>(
        &self,
        path: &str,
        base: &str,
        pause: &dyn Fn() -> Result<(), E>,
    ) -> Result<bool, E> {
        let below = path.strip_prefix(base).and_then(|rest| rest.strip_prefix('/'));
        let below = below.filter(|_| !base.is_empty());
        for path in [Some(path), below].into_iter().flatten() {
            let name = path.rsplit('/').next().unwrap_or_default();
            for (pattern, of_name) in &self.patterns {
                let steps = path.len().saturating_mul(pattern.bytes);
                self.steps.set(self.steps.get().saturating_add(steps));
                if self.steps.get() >= STEPS {
                    self.steps.set(0);
                    pause()?;
                }
                if pattern.matches(path) || *of_name && pattern.matches(name) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        let plain = |pattern: &str, path: &str| Pattern::plain(pattern).unwrap().matches(path);
        assert!(plain("apps/*.yaml", "apps/a.yaml"));
        assert!(!plain("apps/*.yaml", "apps/x/a.yaml"));
        assert!(plain("apps/**", "apps/x"));
        assert!(!plain("apps/**", "apps/x/y"));
        assert!(plain("[^a]?", "bc"));
        let deep = |pattern: &str, path: &str| Pattern::deep(pattern).unwrap().matches(path);
        assert!(deep("**/*.tgz", "a.tgz"));
        assert!(deep("**/*.tgz", "x/y/a.tgz"));
        assert!(deep("x/**", "x/y/z"));
        assert!(deep("x/**/z", "x/z"));
        assert!(!deep("x/**/z", "x/y"));
        assert!(deep("*.{md,txt}", "a.txt"));
        assert!(deep("{a,b{c,d}}/x", "bd/x"));
        assert!(!deep("[!a]", "a"));
        for malformed in [
            "{a",
            "a}",
            &"{a,b}".repeat(20),
            &format!("{{{}}}", ",".repeat(64)),
            &"{a}".repeat(2000),
        ] {
            assert_eq!(Pattern::deep(malformed), Err(PatternError::Malformed));
        }
    }

    #[test]
    fn alternatives_are_counted_before_they_are_made() {
        let all = |patterns: &[String]| Excluded::new(patterns).map(|excluded| excluded.held());
        // 60 alternatives of 1,000 bytes
        let large = format!("{}{{{}}}", "a".repeat(1000), ",".repeat(59));
        assert_eq!(all(std::slice::from_ref(&large)), Ok(60_000 * HELD_PER_BYTE));
        let long = format!("{}{{{}}}", "a".repeat(4000), ",".repeat(59));
        let why = "with all alternatives in braces, the patterns have more than 65536 bytes; use fewer";
        for patterns in [
            vec![long.clone()],
            vec![large.clone(), large],
            vec!["a".repeat(4000); 17],
        ] {
            let error = all(&patterns).unwrap_err();
            assert!(error.starts_with("too many exclude patterns at 'aaa"), "{error}");
            assert!(error.ends_with(why), "{error}");
        }
        assert_eq!(expand(&long, 60 * 4000 - 1), Err(PatternError::TooLarge));
        assert_eq!(expand(&long, 60 * 4000).map(|all| all.len()), Ok(60));
    }

    #[test]
    fn comparisons_pause() {
        let patterns: Vec<String> = (0..4).map(|number| number.to_string().repeat(4000)).collect();
        let excluded = Excluded::new(&patterns).unwrap();
        let path = "a/".repeat(STEPS / 4000 / 2 + 1);
        let asked = Cell::new(0);
        let after = |answers: usize| {
            asked.set(0);
            let pause = || {
                asked.set(asked.get() + 1);
                if asked.get() > answers { Err(()) } else { Ok(()) }
            };
            excluded.has(&path, "", &pause)
        };
        assert_eq!((after(4), asked.get()), (Ok(false), 4));
        assert_eq!((after(1), asked.get()), (Err(()), 2));
    }

    #[test]
    fn excluded_paths_are_whole_relative_or_names() {
        let has = |patterns: &[&str], path: &str, base: &str| {
            let patterns: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
            let excluded = Excluded::new(&patterns).unwrap();
            excluded.has(path, base, &|| Ok::<(), ()>(())).unwrap()
        };
        assert!(has(&["*.md"], "docs/x/a.md", ""));
        assert!(!has(&["docs/*.md"], "docs/x/a.md", ""));
        assert!(has(&["docs/**"], "docs/x/a.md", ""));
        assert!(has(&["x/*.md"], "docs/x/a.md", "docs"));
        assert!(!has(&["x/*.md"], "docs/x/a.md", ""));
        assert!(!has(&[], "docs/x/a.md", ""));
        assert_eq!(
            Excluded::new(&["{".to_owned()]).unwrap_err(),
            "invalid exclude pattern '{'"
        );
    }
}
