//! Versions and constraints as Masterminds/semver parses them: `v1.2`, and `>=1.2 <2 || ^3.1`.

use super::{Function, table};
use crate::call::{Call, Outcome, Ty};
use crate::fault::Fault;
use crate::value::{Host, Int, Kind, Method, Uint, Value};
use regex::Regex;
use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::LazyLock;

pub(super) const FUNCTIONS: &[Function] = table! {
    "semver" (Str) => |call| {
        call.exec.meter().steps(READ_STEPS)?;
        match Version::parse(&call.text(0)) {
            Ok(version) => Ok(Value::Host(Rc::new(version))),
            Err(error) => call.fail(error.to_string()),
        }
    };
    "semverCompare" (Str, Str) => compare;
};

fn compare(call: &mut Call<'_, '_>) -> Outcome {
    call.exec.meter().steps(COMPARE_STEPS)?;
    call.charge_slow_read(64)?;
    let constraint = Constraint::parse(&call.text(0)).map_err(|error| Fault::Message(error.to_string()))?;
    let version = Version::parse(&call.text(1)).map_err(|error| Fault::Message(error.to_string()))?;
    Ok(Value::Bool(constraint.allows(&version)))
}

/// The cost of parsing a short constraint and two versions.
const COMPARE_STEPS: u64 = 80;
const READ_STEPS: u64 = 16;
/// Longer texts are invalid.
const BYTES_MAX: usize = 4_096;

/// Why a text is not a version. The texts are Masterminds'.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Its form is invalid.
    #[error("invalid semantic version")]
    Invalid,
    /// One of its numbers is too large.
    #[error("error parsing version segment: strconv.ParseUint: parsing {}: value out of range", crate::literal::quote(.0))]
    Range(String),
    /// A number of its prerelease begins with a zero.
    #[error("version segment starts with 0")]
    LeadingZero,
}

/// The invalid part of a constraint, with Masterminds' text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("improper constraint: {}", crate::literal::quote(.0))]
pub struct ConstraintError(String);

/// A version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    prerelease: String,
    metadata: String,
    original: String,
}

const SUFFIX: &str = r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?";

fn built(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

static VERSION: LazyLock<Option<Regex>> =
    LazyLock::new(|| built(&format!(r"^v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?{SUFFIX}$")));

impl Version {
    /// Parses a version; minor and patch are optional, and so is a leading `v`.
    ///
    /// # Errors
    /// When it is invalid.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.len() > BYTES_MAX {
            return Err(VersionError::Invalid);
        }
        let found = VERSION
            .as_ref()
            .and_then(|regex| regex.captures(text))
            .ok_or(VersionError::Invalid)?;
        let part = |index: usize| found.get(index).map_or("", |part| part.as_str());
        let mut numbers = [0; 3];
        for (index, number) in numbers.iter_mut().enumerate() {
            let digits = part(index + 1);
            if !digits.is_empty() {
                *number = digits
                    .parse()
                    .map_err(|_| VersionError::Range(digits.to_owned()))?;
            }
        }
        let has_leading_zero =
            |part: &str| part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit());
        if part(4).split('.').any(has_leading_zero) {
            return Err(VersionError::LeadingZero);
        }
        Ok(Self {
            numbers,
            prerelease: part(4).to_owned(),
            metadata: part(5).to_owned(),
            original: text.to_owned(),
        })
    }

    fn text_of(&self) -> String {
        let [major, minor, patch] = self.numbers;
        let mut text = format!("{major}.{minor}.{patch}");
        for (sign, part) in [('-', &self.prerelease), ('+', &self.metadata)] {
            if !part.is_empty() {
                text.push(sign);
                text.push_str(part);
            }
        }
        text
    }

    /// Orders versions by precedence; build metadata is ignored.
    pub fn order(&self, other: &Self) -> Ordering {
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| prereleases(&self.prerelease, &other.prerelease))
    }
}

fn prereleases(left: &str, right: &str) -> Ordering {
    match (left.is_empty(), right.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        _ => {}
    }
    let (mut lefts, mut rights) = (left.split('.'), right.split('.'));
    loop {
        let (left, right) = match (lefts.next(), rights.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(left), Some(right)) => (left, right),
        };
        let order = match (left.parse::<u64>(), right.parse::<u64>()) {
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

const NONE: Method = Method {
    params: &[],
    variadic: None,
};
const OTHER: Method = Method {
    params: &[Ty::Struct("*semver.Version")],
    variadic: None,
};
const TEXT: Method = Method {
    params: &[Ty::Str],
    variadic: None,
};

impl Host for Version {
    fn type_name(&self) -> &'static str {
        "*semver.Version"
    }

    fn kind(&self) -> Kind {
        Kind::Ptr
    }

    fn method(&self, name: &str) -> Option<Method> {
        match name {
            "Major" | "Minor" | "Patch" | "Prerelease" | "Metadata" | "Original" | "String" | "IncMajor"
            | "IncMinor" | "IncPatch" => Some(NONE),
            "Compare" | "Equal" | "GreaterThan" | "LessThan" | "GreaterThanEqual" | "LessThanEqual" => {
                Some(OTHER)
            }
            "SetPrerelease" | "SetMetadata" => Some(TEXT),
            _ => None,
        }
    }

    fn call(&self, name: &str, args: &[Value]) -> Result<Value, Fault> {
        let [major, minor, patch] = self.numbers;
        let next = |numbers: [u64; 3]| {
            let mut version = Self {
                numbers,
                prerelease: String::new(),
                metadata: String::new(),
                original: String::new(),
            };
            let prefix = if self.original.starts_with('v') { "v" } else { "" };
            version.original = format!("{prefix}{}", version.text_of());
            Value::Host(Rc::new(version))
        };
        let number = |number| Value::Uint(number, Uint::Uint64);
        let order = || match args.first() {
            Some(Value::Host(other)) => match other.as_any().downcast_ref::<Self>() {
                Some(other) => Ok(self.order(other)),
                None => Err(Fault::message("not a version")),
            },
            _ => Err(Fault::message("not a version")),
        };
        Ok(match name {
            "Major" => number(major),
            "Minor" => number(minor),
            "Patch" => number(patch),
            "Prerelease" => self.prerelease.as_str().into(),
            "Metadata" => self.metadata.as_str().into(),
            "Original" => self.original.as_str().into(),
            "IncMajor" => next([major.saturating_add(1), 0, 0]),
            "IncMinor" => next([major, minor.saturating_add(1), 0]),
            // the next patch of a prerelease is its release
            "IncPatch" if !self.prerelease.is_empty() => next([major, minor, patch]),
            "IncPatch" => next([major, minor, patch.saturating_add(1)]),
            "Compare" => Value::Int(order()? as i64, Int::Int),
            "Equal" => Value::Bool(order()? == Ordering::Equal),
            "GreaterThan" => Value::Bool(order()? == Ordering::Greater),
            "LessThan" => Value::Bool(order()? == Ordering::Less),
            "GreaterThanEqual" => Value::Bool(order()? != Ordering::Less),
            "LessThanEqual" => Value::Bool(order()? != Ordering::Greater),
            "SetPrerelease" | "SetMetadata" => {
                let text = match args.first() {
                    Some(Value::String(text)) => text.lossy().into_owned(),
                    _ => String::new(),
                };
                let mut version = self.clone();
                if name == "SetPrerelease" {
                    version.prerelease = text;
                } else {
                    version.metadata = text;
                }
                version.original = version.text_of();
                Value::Host(Rc::new(version))
            }
            _ => self.text_of().into(),
        })
    }

    fn text(&self) -> Option<String> {
        Some(self.text_of())
    }

    fn to_json(&self) -> Result<serde_json::Value, Fault> {
        Ok(self.text_of().into())
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
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

/// One comparison; omitted parts and wildcards count as zero and match loosely.
#[derive(Debug)]
struct Comparison {
    operator: Operator,
    version: Version,
    is_loose: bool,
    minor_loose: bool,
    patch_loose: bool,
}

/// Alternatives, each of which is a list of comparisons that must all match.
#[derive(Debug)]
pub struct Constraint(Vec<Vec<Comparison>>);

static COMPARISON: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let number = r"([0-9]+|[xX*])";
    built(&format!(
        r"^[\s,]*(=>|=<|>=|<=|~>|!=|=|>|<|~|\^)?\s*(v?{number}(?:\.{number})?(?:\.{number})?{SUFFIX})(?:[\s,]+|$)"
    ))
});

static RANGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let version = r"(v?[0-9xX*]+(?:\.[0-9xX*]+)?(?:\.[0-9xX*]+)?(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)";
    built(&format!(r"\s*{version}\s+-\s+{version}\s*"))
});

impl Constraint {
    /// Parses a constraint.
    ///
    /// # Errors
    /// When it is invalid.
    pub fn parse(text: &str) -> Result<Self, ConstraintError> {
        let improper = |part: &str| ConstraintError(part.to_owned());
        if text.len() > BYTES_MAX {
            return Err(improper(text));
        }
        let (Some(range), Some(comparison)) = (RANGE.as_ref(), COMPARISON.as_ref()) else {
            return Err(improper(text));
        };
        let plain = range.replace_all(text, ">= $1, <= $2 ");
        let mut groups = Vec::new();
        for group in plain.split("||") {
            let mut rest = group.trim();
            let mut all = Vec::new();
            if rest.is_empty() || rest.ends_with(',') {
                return Err(improper(group));
            }
            while !rest.is_empty() {
                let found = comparison.captures(rest).ok_or_else(|| improper(group))?;
                all.push(Comparison::new(&found).ok_or_else(|| improper(group))?);
                rest = &rest[found.get(0).map_or(rest.len(), |whole| whole.end())..];
            }
            groups.push(all);
        }
        Ok(Self(groups))
    }

    /// Whether a version satisfies it.
    pub fn allows(&self, version: &Version) -> bool {
        self.0.iter().any(|group| {
            // prereleases match only if the group names one
            let names_one = group.iter().any(|one| !one.version.prerelease.is_empty());
            (version.prerelease.is_empty() || names_one) && group.iter().all(|one| one.allows(version))
        })
    }
}

impl Comparison {
    fn new(found: &regex::Captures<'_>) -> Option<Self> {
        let part = |index: usize| found.get(index).map_or("", |part| part.as_str());
        let is_wild = |part: &str| matches!(part, "" | "x" | "X" | "*");
        let operator = match part(1) {
            "" | "=" => Operator::Equal,
            "!=" => Operator::Not,
            ">" => Operator::Greater,
            "<" => Operator::Less,
            ">=" | "=>" => Operator::GreaterEqual,
            "<=" | "=<" => Operator::LessEqual,
            "~" | "~>" => Operator::Tilde,
            _ => Operator::Caret,
        };
        let (major_wild, minor_wild, patch_wild) = (is_wild(part(3)), is_wild(part(4)), is_wild(part(5)));
        let numbers = match (major_wild, minor_wild, patch_wild) {
            (true, ..) => "0.0.0".to_owned(),
            (_, true, _) => format!("{}.0.0", part(3)),
            (_, _, true) => format!("{}.{}.0", part(3), part(4)),
            _ => format!("{}.{}.{}", part(3), part(4), part(5)),
        };
        let suffix = if part(6).is_empty() {
            String::new()
        } else {
            format!("-{}", part(6))
        };
        Some(Self {
            operator,
            version: Version::parse(&format!("{numbers}{suffix}")).ok()?,
            is_loose: major_wild || minor_wild || patch_wild,
            minor_loose: !major_wild && minor_wild,
            patch_loose: !major_wild && !minor_wild && patch_wild,
        })
    }

    fn allows(&self, version: &Version) -> bool {
        let order = version.order(&self.version);
        let ([major, minor, patch], [wanted_major, wanted_minor, wanted_patch]) =
            (version.numbers, self.version.numbers);
        match self.operator {
            Operator::Equal if self.is_loose => self.tilde(version),
            Operator::Equal => order == Ordering::Equal,
            Operator::Not if self.is_loose => {
                if major != wanted_major {
                    return true;
                }
                if self.minor_loose {
                    return false;
                }
                if minor != wanted_minor {
                    return true;
                }
                !self.patch_loose && patch != wanted_patch
            }
            Operator::Not => order != Ordering::Equal,
            Operator::Greater if self.is_loose => {
                let same = match (self.minor_loose, self.patch_loose) {
                    (true, _) => false,
                    (_, true) => minor > wanted_minor,
                    // `>*`: more than 0.0.0
                    _ => order == Ordering::Greater,
                };
                major > wanted_major || major == wanted_major && same
            }
            Operator::Greater => order == Ordering::Greater,
            Operator::Less => order == Ordering::Less,
            Operator::GreaterEqual => order != Ordering::Less,
            Operator::LessEqual if self.is_loose => {
                !(major > wanted_major || major == wanted_major && minor > wanted_minor && !self.minor_loose)
            }
            Operator::LessEqual => order != Ordering::Greater,
            Operator::Tilde => self.tilde(version),
            Operator::Caret => {
                if order == Ordering::Less {
                    return false;
                }
                if wanted_major > 0 || self.minor_loose {
                    return major == wanted_major;
                }
                if major > 0 {
                    return false;
                }
                if wanted_minor > 0 || self.patch_loose {
                    return minor == wanted_minor;
                }
                minor == 0 && patch == wanted_patch
            }
        }
    }

    fn tilde(&self, version: &Version) -> bool {
        let ([major, minor, _], [wanted_major, wanted_minor, _]) = (version.numbers, self.version.numbers);
        if version.order(&self.version) == Ordering::Less {
            return false;
        }
        if self.version.numbers == [0, 0, 0] && !self.minor_loose && !self.patch_loose {
            return true;
        }
        major == wanted_major && (self.minor_loose || minor == wanted_minor)
    }
}
