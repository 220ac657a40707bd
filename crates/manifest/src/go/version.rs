//! Versions and ranges of versions: `v1.2`, `>=1.2 <2 || ^3.1`.
//!
//! Results and errors are those of Masterminds/semver 3.5.0, as in Flux and Helm, oddities included: fleets
//! rely on them. The `semver` crate has other ranges, and refuses `v1.2`.

use super::quote;
use std::cmp::Ordering;
use std::fmt;

/// Upstream's limits.
const VERSION_BYTES_MAX: usize = 256;
const RANGE_BYTES_MAX: usize = 512;
const GROUPS_MAX: usize = 32;

/// A text is not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Another form.
    #[error("invalid semantic version")]
    Form,
    /// Too long.
    #[error("version string is too long (max {VERSION_BYTES_MAX} bytes)")]
    Length,
    /// A number is too large.
    #[error("error parsing version segment: strconv.ParseUint: parsing {}: value out of range", quote(.0))]
    Number(String),
    /// Such as `1.0.0-01`.
    #[error("version segment starts with 0")]
    LeadingZero,
    /// Such as `a..b`.
    #[error("invalid prerelease string")]
    Prerelease,
    /// Such as `a_b`.
    #[error("invalid metadata string")]
    Metadata,
}

/// A text is not a range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// Another form of a group.
    #[error("improper constraint: {}", quote(.0))]
    Form(String),
    /// A version such as `1x`.
    #[error("constraint parser error")]
    Version,
    /// Too long.
    #[error("constraint string is too long (max {RANGE_BYTES_MAX} bytes)")]
    Length,
    /// Too many groups.
    #[error("too many constraint groups (max {GROUPS_MAX})")]
    Groups,
}

/// A version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    prerelease: String,
    metadata: String,
    original: String,
}

impl Version {
    /// Allows a leading `v`, leading zeros, and a missing minor or patch.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.len() > VERSION_BYTES_MAX {
            return Err(VersionError::Length);
        }
        let (spelled, rest) = Spelled::read(text, |byte| byte.is_ascii_digit()).ok_or(VersionError::Form)?;
        if !rest.is_empty() {
            return Err(VersionError::Form);
        }
        let mut numbers = [0; 3];
        for (number, digits) in numbers.iter_mut().zip(spelled.numbers) {
            if !digits.is_empty() {
                *number = digits
                    .parse()
                    .map_err(|_| VersionError::Number(digits.to_owned()))?;
            }
        }
        check_prerelease(spelled.prerelease)?;
        Ok(Self {
            numbers,
            prerelease: spelled.prerelease.to_owned(),
            metadata: spelled.metadata.to_owned(),
            original: text.to_owned(),
        })
    }

    /// Flux demands two dots of tags: `v1.2.3`, but not `v1.2`.
    pub fn parse_tag(text: &str) -> Result<Self, VersionError> {
        match text.bytes().filter(|byte| *byte == b'.').count() {
            0 | 1 => Err(VersionError::Form),
            _ => Self::parse(text),
        }
    }

    /// Major, minor and patch.
    #[must_use]
    pub fn numbers(&self) -> [u64; 3] {
        self.numbers
    }

    /// The part after `-`.
    #[must_use]
    pub fn prerelease(&self) -> &str {
        &self.prerelease
    }

    /// The part after `+`.
    #[must_use]
    pub fn metadata(&self) -> &str {
        &self.metadata
    }

    /// The parsed text.
    #[must_use]
    pub fn original(&self) -> &str {
        &self.original
    }

    /// `2.0.0` after `1.2.3`.
    #[must_use]
    pub fn next_major(&self) -> Self {
        let [major, ..] = self.numbers;
        self.release([major.saturating_add(1), 0, 0])
    }

    /// `1.3.0` after `1.2.3`.
    #[must_use]
    pub fn next_minor(&self) -> Self {
        let [major, minor, _] = self.numbers;
        self.release([major, minor.saturating_add(1), 0])
    }

    /// `1.2.4` after `1.2.3`, and `1.2.3` after its prereleases.
    #[must_use]
    pub fn next_patch(&self) -> Self {
        let [major, minor, patch] = self.numbers;
        match self.prerelease.as_str() {
            "" => self.release([major, minor, patch.saturating_add(1)]),
            _ => self.release(self.numbers),
        }
    }

    /// Replaces the prerelease.
    pub fn with_prerelease(&self, prerelease: &str) -> Result<Self, VersionError> {
        check_prerelease(prerelease)?;
        let mut version = self.clone();
        version.prerelease = prerelease.to_owned();
        Ok(version.respelled(&self.original))
    }

    /// Replaces the build metadata.
    pub fn with_metadata(&self, metadata: &str) -> Result<Self, VersionError> {
        let is_part = |part: &str| !part.is_empty() && part.bytes().all(is_identifier);
        if !metadata.is_empty() && !metadata.split('.').all(is_part) {
            return Err(VersionError::Metadata);
        }
        let mut version = self.clone();
        version.metadata = metadata.to_owned();
        Ok(version.respelled(&self.original))
    }

    /// Ignores build metadata.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            // a release follows its prereleases
            let is_release = |version: &Self| version.prerelease.is_empty();
            is_release(self)
                .cmp(&is_release(other))
                .then_with(|| order_dotted(&self.prerelease, &other.prerelease))
        })
    }

    /// Orders equal versions by build metadata.
    #[must_use]
    pub fn order_with_metadata(&self, other: &Self) -> Ordering {
        self.order(other)
            .then_with(|| order_dotted(&self.metadata, &other.metadata))
    }

    fn release(&self, numbers: [u64; 3]) -> Self {
        let version = Self {
            numbers,
            prerelease: String::new(),
            metadata: String::new(),
            original: String::new(),
        };
        version.respelled(&self.original)
    }

    /// Keeps only the `v` of the earlier text.
    fn respelled(mut self, earlier: &str) -> Self {
        let prefix = if earlier.starts_with('v') { "v" } else { "" };
        self.original = format!("{prefix}{self}");
        self
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (sign, part) in [('-', &self.prerelease), ('+', &self.metadata)] {
            if !part.is_empty() {
                write!(f, "{sign}{part}")?;
            }
        }
        Ok(())
    }
}

fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn check_prerelease(text: &str) -> Result<(), VersionError> {
    let parts = text.split('.').filter(|_| !text.is_empty());
    for part in parts {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        if part.is_empty() || !part.bytes().all(is_identifier) {
            return Err(VersionError::Prerelease);
        }
        if is_number && part.len() > 1 && part.starts_with('0') {
            return Err(VersionError::LeadingZero);
        }
    }
    Ok(())
}

/// Numbers precede texts; those of more than 64 bits are texts.
fn order_dotted(left: &str, right: &str) -> Ordering {
    let (mut lefts, mut rights) = (left.split('.'), right.split('.'));
    loop {
        let (left, right) = match (lefts.next(), rights.next()) {
            (None, None) => return Ordering::Equal,
            (left, right) => (left.unwrap_or_default(), right.unwrap_or_default()),
        };
        let order = match (left.parse::<u64>(), right.parse::<u64>()) {
            _ if left.is_empty() || right.is_empty() => left.len().cmp(&right.len()),
            (Ok(left), Ok(right)) => left.cmp(&right),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            _ => left.cmp(right),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// The parts of a version's text, as written.
struct Spelled<'a> {
    whole: &'a str,
    numbers: [&'a str; 3],
    prerelease: &'a str,
    metadata: &'a str,
}

impl<'a> Spelled<'a> {
    /// Reads the longest version at the start of a text.
    fn read(text: &'a str, is_number: fn(u8) -> bool) -> Option<(Self, &'a str)> {
        let run = |text: &'a str, inside: fn(u8) -> bool| {
            let end = text.bytes().position(|byte| !inside(byte));
            text.split_at(end.unwrap_or(text.len()))
        };
        let after_sign = |text: &'a str, sign: char, inside: fn(u8) -> bool| {
            let (found, rest) = run(text.strip_prefix(sign)?, inside);
            (!found.is_empty()).then_some((found, rest))
        };
        let (first, mut rest) = run(text.strip_prefix('v').unwrap_or(text), is_number);
        if first.is_empty() {
            return None;
        }
        let mut numbers = [first, "", ""];
        for number in &mut numbers[1..] {
            if let Some((found, after)) = after_sign(rest, '.', is_number) {
                (*number, rest) = (found, after);
            }
        }
        let mut dotted = |sign| {
            let Some((_, mut after)) = after_sign(rest, sign, is_identifier) else {
                return "";
            };
            while let Some((_, further)) = after_sign(after, '.', is_identifier) {
                after = further;
            }
            let found = &rest[1..rest.len() - after.len()];
            rest = after;
            found
        };
        let (prerelease, metadata) = (dotted('-'), dotted('+'));
        let spelled = Self {
            whole: &text[..text.len() - rest.len()],
            numbers,
            prerelease,
            metadata,
        };
        Some((spelled, rest))
    }

    /// Upstream's pattern of wildcards contains `|` by mistake, which decides between two errors.
    fn read_partial(text: &'a str) -> Option<(Self, &'a str)> {
        Self::read(text, |byte| {
            byte.is_ascii_digit() || matches!(byte, b'x' | b'X' | b'*' | b'|')
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    Not,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
    Tilde,
    Caret,
}

/// The first number that is missing or a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    None,
    Major,
    Minor,
    Patch,
}

/// The numbers from the open one on are zero.
#[derive(Debug, Clone)]
struct Comparison {
    operator: Operator,
    version: Version,
    open: Open,
}

/// A range of versions: alternative groups of comparisons that must all match.
#[derive(Debug, Clone)]
pub struct Constraint {
    groups: Vec<Vec<Comparison>>,
}

impl Constraint {
    /// `,` or a blank means "and", `||` means "or".
    pub fn parse(text: &str) -> Result<Self, ConstraintError> {
        if text.len() > RANGE_BYTES_MAX {
            return Err(ConstraintError::Length);
        }
        let plain = without_hyphens(text);
        let groups: Vec<&str> = plain.split("||").collect();
        if groups.len() > GROUPS_MAX {
            return Err(ConstraintError::Groups);
        }
        let groups = groups.into_iter().map(group).collect::<Result<_, _>>()?;
        Ok(Self { groups })
    }

    /// Whether a version is inside.
    #[must_use]
    pub fn matches(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| {
            // prereleases match only if the group names one
            let names_one = group.iter().any(|one| !one.version.prerelease.is_empty());
            (version.prerelease.is_empty() || names_one) && group.iter().all(|one| one.matches(version))
        })
    }
}

/// Replaces each `A - B` by `>= A, <= B`.
fn without_hyphens(text: &str) -> String {
    let mut plain = text.to_owned();
    let mut rest = text;
    while !rest.is_empty() {
        match hyphenated(rest) {
            Some((from, to, after)) => {
                let written = &rest[..rest.len() - after.len()];
                plain = plain.replacen(written, &format!(">= {from}, <= {to} "), 1);
                rest = after;
            }
            None => {
                let mut characters = rest.chars();
                characters.next();
                rest = characters.as_str();
            }
        }
    }
    plain
}

fn hyphenated(text: &str) -> Option<(&str, &str, &str)> {
    let blanks = |text: &str| text.len() - text.trim_ascii_start().len();
    let (from, rest) = Spelled::read_partial(text.trim_ascii_start())?;
    let after = rest.trim_ascii_start().strip_prefix('-')?;
    if blanks(rest) == 0 || blanks(after) == 0 {
        return None;
    }
    let (to, rest) = Spelled::read_partial(after.trim_ascii_start())?;
    Some((from.whole, to.whole, rest.trim_ascii_start()))
}

fn group(text: &str) -> Result<Vec<Comparison>, ConstraintError> {
    let improper = || ConstraintError::Form(text.to_owned());
    let mut spelled = Vec::new();
    let mut rest = text.trim_ascii_start();
    loop {
        let (operator, after) = operator(rest).ok_or_else(improper)?;
        let (version, after) = Spelled::read_partial(after.trim_ascii_start()).ok_or_else(improper)?;
        spelled.push((operator, version));
        let next = after.trim_ascii_start();
        rest = match next.strip_prefix(',') {
            _ if next.is_empty() => break,
            Some(next) => next.trim_ascii_start(),
            None if next.len() < after.len() => next,
            None => return Err(improper()),
        };
    }
    spelled
        .into_iter()
        .map(|(operator, version)| Comparison::new(operator, &version).ok_or(ConstraintError::Version))
        .collect()
}

fn operator(text: &str) -> Option<(Operator, &str)> {
    let end = text.bytes().position(|byte| !b"=!<>~^".contains(&byte));
    let (sign, rest) = text.split_at(end.unwrap_or(text.len()));
    let operator = match sign {
        "" | "=" => Operator::Equal,
        "!=" => Operator::Not,
        ">" => Operator::Greater,
        "<" => Operator::Less,
        ">=" | "=>" => Operator::GreaterEqual,
        "<=" | "=<" => Operator::LessEqual,
        "~" | "~>" => Operator::Tilde,
        "^" => Operator::Caret,
        _ => return None,
    };
    Some((operator, rest))
}

impl Comparison {
    /// Ignores numbers after an open one. `None` if the version is invalid.
    fn new(operator: Operator, spelled: &Spelled<'_>) -> Option<Self> {
        let is_open = |number: &&str| matches!(*number, "" | "x" | "X" | "*");
        let [major, minor, _] = spelled.numbers;
        let (open, text) = match spelled.numbers.iter().position(is_open) {
            None => (Open::None, spelled.whole.to_owned()),
            Some(0) => (Open::Major, "0.0.0".to_owned()),
            Some(1) => (Open::Minor, format!("{major}.0.0")),
            Some(_) => (Open::Patch, format!("{major}.{minor}.0")),
        };
        let text = match (open, spelled.prerelease) {
            (Open::None, _) | (_, "") => text,
            (_, prerelease) => format!("{text}-{prerelease}"),
        };
        let version = Version::parse(&text).ok()?;
        Some(Self {
            operator,
            version,
            open,
        })
    }

    fn matches(&self, version: &Version) -> bool {
        let order = version.order(&self.version);
        match self.operator {
            Operator::Equal => match self.open {
                Open::None => order == Ordering::Equal,
                _ => self.matches_tilde(version),
            },
            Operator::Not => self.matches_not(version),
            Operator::Greater => match self.open {
                // `>1` begins with 2.0.0, and `>1.2` with 1.3.0
                Open::Minor => version.numbers[0] > self.version.numbers[0],
                Open::Patch => version.numbers[..2] > self.version.numbers[..2],
                Open::None | Open::Major => order == Ordering::Greater,
            },
            Operator::Less => order == Ordering::Less,
            Operator::GreaterEqual => order != Ordering::Less,
            Operator::LessEqual => match self.open {
                Open::None => order != Ordering::Greater,
                Open::Minor => version.numbers[0] <= self.version.numbers[0],
                Open::Major | Open::Patch => version.numbers[..2] <= self.version.numbers[..2],
            },
            Operator::Tilde => self.matches_tilde(version),
            Operator::Caret => order != Ordering::Less && self.matches_caret(version),
        }
    }

    /// `!=1.2.x`: a prerelease is not a 1.2.x, unless a prerelease was written.
    fn matches_not(&self, version: &Version) -> bool {
        let (left, right) = (version.numbers, self.version.numbers);
        match self.open {
            Open::Minor => left[0] != right[0],
            Open::Patch => {
                let one_is_release = version.prerelease.is_empty() != self.version.prerelease.is_empty();
                let prereleases_differ = one_is_release
                    || order_dotted(&version.prerelease, &self.version.prerelease) != Ordering::Equal;
                left[..2] != right[..2] || prereleases_differ
            }
            Open::None | Open::Major => version.order(&self.version) != Ordering::Equal,
        }
    }

    /// Up to the next minor, or the next major if only that was written. `~0.0.0` and `*` have no end.
    fn matches_tilde(&self, version: &Version) -> bool {
        let (left, right) = (version.numbers, self.version.numbers);
        let same = match self.open {
            Open::Minor => left[0] == right[0],
            Open::Patch => left[..2] == right[..2],
            Open::None | Open::Major => right == [0; 3] || left[..2] == right[..2],
        };
        same && version.order(&self.version) != Ordering::Less
    }

    /// Up to the next change of the leftmost number that is not zero.
    fn matches_caret(&self, version: &Version) -> bool {
        let (left, right) = (version.numbers, self.version.numbers);
        if right[0] > 0 || self.open == Open::Minor {
            left[0] == right[0]
        } else if right[1] > 0 || self.open == Open::Patch {
            left[..2] == right[..2]
        } else {
            left == right
        }
    }
}

#[cfg(test)]
mod tests;
