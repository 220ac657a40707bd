//! Patterns of paths in copy operations.
//!
//! `from` has the segments of Go's `path.Match`; with the strategy `Extract`, and in `exclude`, `**` stands
//! for any directories and `{a,b}` for alternatives, as in the library doublestar.

use equate_source::Glob;

/// Alternatives of one pattern: a tenant's braces multiply.
const ALTERNATIVES_MAX: usize = 64;
/// Bytes of a pattern: no path is longer.
const PATTERN_BYTES_MAX: usize = 4096;

#[derive(Debug, Clone, PartialEq)]
enum Segment {
    /// `**`
    Deep,
    Name(Glob),
}

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pattern(Vec<Vec<Segment>>);

impl Pattern {
    /// A pattern without `**` and alternatives; `None` if it is malformed.
    pub(super) fn plain(text: &str) -> Option<Self> {
        let segments: Option<Vec<Segment>> = text
            .split('/')
            .map(|segment| Glob::parse(segment).map(Segment::Name))
            .collect();
        Some(Self(vec![segments?]))
    }

    /// A pattern with `**` and alternatives; `None` if it is malformed.
    pub(super) fn deep(text: &str) -> Option<Self> {
        let alternatives = expand(text)?;
        let parsed: Option<Vec<Vec<Segment>>> = alternatives
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
        parsed.map(Self)
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        let names: Vec<&str> = path.split('/').collect();
        self.0.iter().any(|segments| along(segments, &names))
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
fn expand(text: &str) -> Option<Vec<String>> {
    if text.len() > PATTERN_BYTES_MAX {
        return None;
    }
    let mut done = Vec::new();
    let mut open = vec![text.to_owned()];
    while let Some(text) = open.pop() {
        if open.len() + done.len() > ALTERNATIVES_MAX {
            return None;
        }
        let Some(begin) = text.find('{') else {
            if text.contains('}') {
                return None;
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
        let end = end?;
        cuts.push(end);
        // before the copies are made
        if cuts.len() > ALTERNATIVES_MAX {
            return None;
        }
        for pair in cuts.windows(2).rev() {
            if let [from, to] = pair {
                let (before, inner, after) =
                    (text.get(..begin)?, text.get(from + 1..*to)?, text.get(end + 1..)?);
                open.push(format!("{before}{inner}{after}"));
            }
        }
    }
    Some(done)
}

/// Whether a path has characters of patterns.
pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '[', ']'])
}

/// The paths that `exclude` leaves out: whole ones, relative to the selected directory, and names where a
/// pattern has no slash.
#[derive(Debug, Clone, Default)]
pub(super) struct Excluded(Vec<(Pattern, bool)>);

impl Excluded {
    /// The error names the malformed pattern.
    pub(super) fn new(patterns: &[String]) -> Result<Self, String> {
        let parsed = patterns.iter().map(|text| {
            let pattern = Pattern::deep(text);
            let pattern = pattern.ok_or_else(|| {
                let shown: String = text.chars().take(200).collect();
                format!("invalid exclude pattern '{shown}'")
            })?;
            Ok((pattern, !text.contains('/')))
        });
        parsed.collect::<Result<_, String>>().map(Self)
    }

    pub(super) fn has(&self, path: &str, base: &str) -> bool {
        let below = path.strip_prefix(base).and_then(|rest| rest.strip_prefix('/'));
        let below = below.filter(|_| !base.is_empty());
        let one = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            self.0
                .iter()
                .any(|(pattern, of_name)| pattern.matches(path) || *of_name && pattern.matches(name))
        };
        one(path) || below.is_some_and(one)
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
        assert_eq!(Pattern::deep("{a"), None);
        assert_eq!(Pattern::deep("a}"), None);
        assert_eq!(Pattern::deep(&"{a,b}".repeat(20)), None);
        assert_eq!(Pattern::deep(&format!("{{{}}}", ",".repeat(64))), None);
        assert_eq!(Pattern::deep(&"{a}".repeat(2000)), None);
    }

    #[test]
    fn excluded_paths_are_whole_relative_or_names() {
        let has = |patterns: &[&str], path: &str, base: &str| {
            let patterns: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
            Excluded::new(&patterns).unwrap().has(path, base)
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
