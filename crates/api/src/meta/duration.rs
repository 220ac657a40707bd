//! Durations in Go's text form, as in Flux's fields.

use std::fmt;
use std::str::FromStr;
use std::time::Duration as Std;

use equate_manifest::go::duration::{self, DurationError as Problem};

/// A duration, written as `1h30m0s`; `0.5s` and `1h30m` are accepted too. Longer ones than Go's, 292 years,
/// are capped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(Std);

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Empty, or not a sequence of numbers with units.
    #[error("{0:?} is not a duration such as 10m, 1h30m or 500ms")]
    Form(String),
    /// A number whose unit is unknown or missing.
    #[error("unknown unit {unit:?} in duration {text:?}; use ns, us, ms, s, m or h")]
    Unit {
        /// The whole duration.
        text: String,
        /// The unit.
        unit: String,
    },
    /// Below zero.
    #[error("duration {0:?} is negative")]
    Negative(String),
}

impl Duration {
    /// A whole number of seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Std::from_secs(seconds))
    }

    /// A whole number of milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Std::from_millis(milliseconds))
    }

    /// As the standard library's type.
    pub const fn get(self) -> Std {
        self.0
    }
}

impl From<Std> for Duration {
    fn from(duration: Std) -> Self {
        Self(duration)
    }
}

impl From<Duration> for Std {
    fn from(duration: Duration) -> Self {
        duration.0
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let nanoseconds = match duration::parse(text) {
            Ok(nanoseconds) => nanoseconds,
            Err(_) if text.starts_with('-') => -1,
            // an error would make one odd object fail the reading of all
            Err(Problem::Overflow { .. }) => i64::MAX,
            Err(Problem::Form { text }) => return Err(DurationError::Form(text)),
            Err(Problem::NoUnit { text }) => {
                return Err(DurationError::Unit {
                    text,
                    unit: String::new(),
                });
            }
            Err(Problem::Unit { unit, text }) => return Err(DurationError::Unit { text, unit }),
        };
        match u64::try_from(nanoseconds) {
            Ok(nanoseconds) => Ok(Self(Std::from_nanos(nanoseconds))),
            Err(_) => Err(DurationError::Negative(text.to_owned())),
        }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration::format_std(self.0))
    }
}

impl serde::Serialize for Duration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Duration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": crate::schema::DURATION })
    }
}
