//! One line of a pattern file.

use std::sync::Arc;

use super::glob::Glob;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    domain: Arc<[String]>,
    includes: bool,
    directories_only: bool,
    matcher: Matcher,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Matcher {
    /// Without `/`: any name at any depth.
    Name(Glob),
    /// Compared from the domain on, segment by segment.
    Path(Vec<Segment>),
    /// Malformed: matches nothing, as in Flux.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    /// From a leading or doubled `/`.
    Empty,
    /// `**`
    AnyDirectories,
    Name(Glob),
}

impl Pattern {
    /// `domain` is the names of the directory that has the pattern.
    pub(crate) fn parse(line: &str, domain: &Arc<[String]>) -> Pattern {
        let includes = line.starts_with('!');
        let text = line.strip_prefix('!').unwrap_or(line);
        let text = if text.ends_with("\\ ") {
            text
        } else {
            text.trim_end_matches(' ')
        };
        let directories_only = text.ends_with('/');
        let text = text.strip_suffix('/').unwrap_or(text);
        let matcher = match text.contains('/') {
            true => text
                .split('/')
                .map(segment)
                .collect::<Option<_>>()
                .map(Matcher::Path),
            false => Glob::parse(text).map(Matcher::Name),
        };
        Pattern {
            domain: Arc::clone(domain),
            includes,
            directories_only,
            matcher: matcher.unwrap_or(Matcher::Nothing),
        }
    }

    pub(crate) fn includes(&self) -> bool {
        self.includes
    }

    /// Whether it matches `path` itself. The caller extends a directory's match to its content.
    pub(crate) fn matches(&self, path: &[&str], is_directory: bool) -> bool {
        let Some(below) = self.below_domain(path).filter(|below| !below.is_empty()) else {
            return false;
        };
        match &self.matcher {
            Matcher::Nothing => false,
            Matcher::Name(glob) => {
                (is_directory || !self.directories_only)
                    && below.last().is_some_and(|name| glob.matches(name))
            }
            Matcher::Path(segments) => along(segments, below)
                .is_some_and(|rest| is_directory || !self.directories_only || !rest.is_empty()),
        }
    }

    /// Whether a path below the directory `path` could match. May return true without need.
    pub(crate) fn may_match_below(&self, path: &[&str]) -> bool {
        let shared = self.domain.len().min(path.len());
        if self.domain.iter().zip(path).any(|(own, name)| own != name) {
            return false;
        }
        match &self.matcher {
            Matcher::Nothing => false,
            Matcher::Name(_) => true,
            Matcher::Path(segments) => {
                let mut names = path[shared..].iter();
                for segment in segments {
                    match segment {
                        Segment::Empty => {}
                        Segment::AnyDirectories => return true,
                        Segment::Name(glob) => match names.next() {
                            Some(name) if !glob.matches(name) => return false,
                            Some(_) => {}
                            None => return true,
                        },
                    }
                }
                true
            }
        }
    }

    fn below_domain<'p, 'n>(&self, path: &'p [&'n str]) -> Option<&'p [&'n str]> {
        let (above, below) = path.split_at_checked(self.domain.len())?;
        (above.iter().zip(&*self.domain).all(|(name, own)| name == own)).then_some(below)
    }
}

/// `None` also for `**` inside a longer segment, which matches nothing in Flux.
fn segment(text: &str) -> Option<Segment> {
    match text {
        "" => Some(Segment::Empty),
        "**" => Some(Segment::AnyDirectories),
        text if text.contains("**") => None,
        text => Glob::parse(text).map(Segment::Name),
    }
}

/// Consumes `segments` along `path` and returns the rest of the path. After `**` the first matching name is
/// final.
fn along<'p, 'n>(segments: &[Segment], path: &'p [&'n str]) -> Option<&'p [&'n str]> {
    let mut rest = path;
    let mut anywhere = false;
    let mut named = false;
    for (at, segment) in segments.iter().enumerate() {
        match segment {
            Segment::Empty => anywhere = false,
            Segment::AnyDirectories if at + 1 == segments.len() => break,
            Segment::AnyDirectories => anywhere = true,
            Segment::Name(glob) => {
                let candidates = if anywhere {
                    rest
                } else {
                    &rest[..rest.len().min(1)]
                };
                let taken = candidates.iter().position(|name| glob.matches(name))?;
                rest = &rest[taken + 1..];
                anywhere = false;
                named = true;
            }
        }
    }
    named.then_some(rest)
}
