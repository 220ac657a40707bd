//! Version ranges of `spec.ref.semver`, and the highest tag inside one.
//!
//! The language is that of Masterminds/semver v3 (its README and the behaviour of v3.5.0, with its
//! oddities, because fleets rely on them): operators, `x` and `*`, `~`, `^`, `A - B`, commas or blanks for
//! "and", `||` for "or". The `semver` crate provides only the order of versions. Every constraint becomes
//! an interval or the complement of one.

use std::cmp::Ordering;

use semver::{BuildMetadata, Prerelease, Version};

/// Upstream's limits.
const RANGE_BYTES_MAX: usize = 512;
const GROUPS_MAX: usize = 32;
const VERSION_BYTES_MAX: usize = 256;

#[derive(Debug, Clone)]
pub(crate) struct Range {
    groups: Vec<Group>,
}

#[derive(Debug, Clone)]
struct Group {
    constraints: Vec<Constraint>,
    /// Without a prerelease in a constraint, none matches.
    prereleases: bool,
}

#[derive(Debug, Clone)]
enum Constraint {
    Inside(Interval),
    /// `!=`. A prerelease matches if only the patch was left open: 1.2.0-rc.1 is "not 1.2.x".
    Outside {
        interval: Interval,
        spares_prereleases: bool,
    },
}

#[derive(Debug, Clone)]
struct Interval {
    from: Option<(Version, Edge)>,
    to: Option<(Version, Edge)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    Included,
    Excluded,
}

pub(crate) type Problem = String;

impl Range {
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        if text.len() > RANGE_BYTES_MAX {
            return Err(format!("longer than {RANGE_BYTES_MAX} bytes"));
        }
        let groups: Vec<&str> = text.split("||").collect();
        if groups.len() > GROUPS_MAX {
            return Err(format!("more than {GROUPS_MAX} alternatives"));
        }
        let groups = groups.into_iter().map(Group::parse).collect::<Result<_, _>>()?;
        Ok(Self { groups })
    }

    pub(crate) fn contains(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| group.contains(version))
    }

    /// Versions that differ only in spelling or build metadata are ordered by that text, because commit
    /// dates are unknown before a fetch.
    pub(crate) fn highest<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        let inside = names.into_iter().filter_map(|name| {
            let version = version(name)?;
            self.contains(&version).then_some((version, name))
        });
        inside.max().map(|(_, name)| name)
    }
}

impl Group {
    fn parse(text: &str) -> Result<Self, Problem> {
        let mut scanner = Scanner { rest: text };
        let mut constraints = Vec::new();
        let mut prereleases = false;
        loop {
            let (operator, partial) = scanner.constraint()?;
            prereleases |= !partial.pre.is_empty();
            if operator.is_empty() && scanner.hyphen() {
                let (_, upper) = scanner.constraint()?;
                prereleases |= !upper.pre.is_empty();
                constraints.push(constraint(">=", &partial)?);
                constraints.push(constraint("<=", &upper)?);
            } else {
                constraints.push(constraint(operator, &partial)?);
            }
            if !scanner.separator()? {
                return Ok(Self {
                    constraints,
                    prereleases,
                });
            }
        }
    }

    fn contains(&self, version: &Version) -> bool {
        (version.pre.is_empty() || self.prereleases)
            && self
                .constraints
                .iter()
                .all(|constraint| constraint.allows(version))
    }
}

impl Constraint {
    fn allows(&self, version: &Version) -> bool {
        match self {
            Self::Inside(interval) => interval.contains(version),
            Self::Outside {
                interval,
                spares_prereleases,
            } => {
                let spared = *spares_prereleases && !version.pre.is_empty();
                spared || !interval.contains(version)
            }
        }
    }
}

impl Interval {
    fn contains(&self, version: &Version) -> bool {
        let after = self
            .from
            .as_ref()
            .is_none_or(|(from, edge)| match version.cmp_precedence(from) {
                Ordering::Greater => true,
                Ordering::Equal => *edge == Edge::Included,
                Ordering::Less => false,
            });
        let before = self
            .to
            .as_ref()
            .is_none_or(|(to, edge)| match version.cmp_precedence(to) {
                Ordering::Less => true,
                Ordering::Equal => *edge == Edge::Included,
                Ordering::Greater => false,
            });
        after && before
    }

    fn from(version: Version) -> Self {
        Self {
            from: Some((version, Edge::Included)),
            to: None,
        }
    }

    fn between(from: Version, below: Version) -> Self {
        Self {
            from: Some((from, Edge::Included)),
            to: Some((below, Edge::Excluded)),
        }
    }

    fn exactly(version: Version) -> Self {
        Self {
            from: Some((version.clone(), Edge::Included)),
            to: Some((version, Edge::Included)),
        }
    }
}

#[derive(Debug, Clone)]
struct Partial {
    major: u64,
    minor: u64,
    patch: u64,
    pre: Prerelease,
    written: usize,
}

impl Partial {
    fn version(&self) -> Version {
        Version {
            major: self.major,
            minor: self.minor,
            patch: self.patch,
            pre: self.pre.clone(),
            build: BuildMetadata::EMPTY,
        }
    }
}

/// Prereleases included. As an exclusive upper end it keeps `^1` from matching 2.0.0-rc.1.
fn start(major: u64, minor: u64, patch: u64) -> Version {
    let lowest = Prerelease::new("0").unwrap_or(Prerelease::EMPTY);
    Version {
        pre: lowest,
        ..Version::new(major, minor, patch)
    }
}

fn constraint(operator: &str, partial: &Partial) -> Result<Constraint, Problem> {
    let Partial {
        major,
        minor,
        patch,
        written,
        ..
    } = *partial;
    let version = partial.version();
    let inside = match operator {
        "" | "=" if written == 3 => Interval::exactly(version),
        "" | "=" | "~" | "~>" => tilde(partial),
        "^" => caret(partial),
        ">=" | "=>" => Interval::from(version),
        "<" => Interval {
            from: None,
            to: Some((version, Edge::Excluded)),
        },
        ">" => match written {
            1 => Interval::from(start(major.saturating_add(1), 0, 0)),
            2 => Interval::from(start(major, minor.saturating_add(1), 0)),
            _ => Interval {
                from: Some((version, Edge::Excluded)),
                to: None,
            },
        },
        "<=" | "=<" => {
            let to = match written {
                3 => (version, Edge::Included),
                1 => (start(major.saturating_add(1), 0, 0), Edge::Excluded),
                _ => (start(major, minor.saturating_add(1), 0), Edge::Excluded),
            };
            Interval {
                from: None,
                to: Some(to),
            }
        }
        "!=" => {
            let interval = match written {
                1 => Interval::between(start(major, 0, 0), start(major.saturating_add(1), 0, 0)),
                2 => Interval::between(start(major, minor, 0), start(major, minor.saturating_add(1), 0)),
                _ => Interval::exactly(Version { patch, ..version }),
            };
            return Ok(Constraint::Outside {
                interval,
                spares_prereleases: written == 2,
            });
        }
        other => return Err(format!("operator {other:?} is unknown")),
    };
    Ok(Constraint::Inside(inside))
}

/// Up to the next minor, or the next major if only that was written. `~0.0.0` and `*` match any version.
fn tilde(partial: &Partial) -> Interval {
    let Partial {
        major,
        minor,
        patch,
        written,
        ..
    } = *partial;
    let from = partial.version();
    match written {
        1 => Interval::between(from, start(major.saturating_add(1), 0, 0)),
        2 => Interval::between(from, start(major, minor.saturating_add(1), 0)),
        _ if (major, minor, patch) == (0, 0, 0) => Interval::from(from),
        _ => Interval::between(from, start(major, minor.saturating_add(1), 0)),
    }
}

/// Up to the next change of the leftmost number that is not zero.
fn caret(partial: &Partial) -> Interval {
    let Partial {
        major,
        minor,
        patch,
        written,
        ..
    } = *partial;
    let below = if major > 0 || written == 1 {
        start(major.saturating_add(1), 0, 0)
    } else if minor > 0 || written == 2 {
        start(0, minor.saturating_add(1), 0)
    } else {
        start(0, 0, patch.saturating_add(1))
    };
    Interval::between(partial.version(), below)
}

struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    fn constraint(&mut self) -> Result<(&'a str, Partial), Problem> {
        self.rest = self.rest.trim_start();
        let end = self
            .rest
            .find(|c| !"=!<>~^".contains(c))
            .unwrap_or(self.rest.len());
        let operator = self.take(end);
        self.rest = self.rest.trim_start();
        let text = self.version_text();
        if text.is_empty() {
            return Err(match self.rest {
                "" => "a version is missing".to_owned(),
                rest => format!("{rest:?} is not a version"),
            });
        }
        let partial = partial(text).ok_or_else(|| format!("{text:?} is not a version"))?;
        Ok((operator, partial))
    }

    fn version_text(&mut self) -> &'a str {
        let end = self
            .rest
            .find(|c: char| c.is_whitespace() || c == ',' || "=!<>~^".contains(c))
            .unwrap_or(self.rest.len());
        self.take(end)
    }

    /// Without blanks on both sides it would begin a prerelease.
    fn hyphen(&mut self) -> bool {
        let after = self.rest.trim_start();
        let found = after.len() < self.rest.len()
            && after
                .strip_prefix('-')
                .is_some_and(|rest| rest.starts_with(char::is_whitespace));
        if found {
            self.rest = after[1..].trim_start();
        }
        found
    }

    fn separator(&mut self) -> Result<bool, Problem> {
        let after = self.rest.trim_start();
        if after.is_empty() {
            return Ok(false);
        }
        if let Some(rest) = after.strip_prefix(',') {
            self.rest = rest;
            return Ok(true);
        }
        if after.len() == self.rest.len() {
            return Err(format!("a blank or a comma is missing before {after:?}"));
        }
        self.rest = after;
        Ok(true)
    }

    fn take(&mut self, end: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

/// Allows leading zeros and `x`, `X` or `*`. Parts after a wildcard must be well-formed but are ignored.
fn partial(text: &str) -> Option<Partial> {
    let (numbers, pre) = pieces(text)?;
    let mut parts = [0; 3];
    let mut written = 0;
    let mut open = false;
    for (at, number) in numbers.split('.').enumerate() {
        let slot = parts.get_mut(at)?;
        if matches!(number, "x" | "X" | "*") {
            open = true;
            continue;
        }
        let number = digits(number)?;
        if !open {
            *slot = number;
            written = at + 1;
        }
    }
    let [major, minor, patch] = parts;
    Some(Partial {
        major,
        minor,
        patch,
        pre,
        written,
    })
}

/// Allows a leading `v`, leading zeros, and a missing patch before a dotted prerelease, but not fewer than
/// two dots.
pub(crate) fn version(tag: &str) -> Option<Version> {
    if tag.len() > VERSION_BYTES_MAX || tag.splitn(3, '.').count() < 3 {
        return None;
    }
    let (numbers, pre) = pieces(tag)?;
    let mut parts = [0; 3];
    for (at, number) in numbers.split('.').enumerate() {
        *parts.get_mut(at)? = digits(number)?;
    }
    let build = tag.split_once('+').map_or("", |(_, build)| build);
    let [major, minor, patch] = parts;
    Some(Version {
        major,
        minor,
        patch,
        pre,
        build: BuildMetadata::new(build).ok()?,
    })
}

fn pieces(text: &str) -> Option<(&str, Prerelease)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, build) = match text.split_once('+') {
        Some((text, build)) => (text, Some(build)),
        None => (text, None),
    };
    if build.is_some_and(|build| build.is_empty() || BuildMetadata::new(build).is_err()) {
        return None;
    }
    match text.split_once('-') {
        Some((_, "")) => None,
        Some((numbers, pre)) => Some((numbers, Prerelease::new(pre).ok()?)),
        None => Some((text, Prerelease::EMPTY)),
    }
}

fn digits(text: &str) -> Option<u64> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
