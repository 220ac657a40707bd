//! The time that one build, fetch or download may take: a spec's, but never more than the operator's.

use std::fmt;
use std::time::Duration;

/// A time, and who set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimit {
    /// The time.
    pub time: Duration,
    /// Whether `--timeout-max` is lower than the spec's.
    pub is_operators: bool,
}

impl TimeLimit {
    pub(crate) fn of(spec: Duration, max: Duration) -> Self {
        Self {
            time: spec.min(max),
            is_operators: max < spec,
        }
    }

    /// The flag, for a text that names no limit; empty if a spec's limit is lower.
    pub(crate) fn operators(self) -> String {
        match self.is_operators {
            true => format!("; the limit is {self}"),
            false => String::new(),
        }
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time: equate_api::meta::Duration = self.time.into();
        let by = match self.is_operators {
            true => "--timeout-max",
            false => "spec.timeout",
        };
        write!(f, "{time} ({by})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_limit_counts_and_is_named() {
        let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
        assert_eq!(TimeLimit::of(minute, hour).to_string(), "1m0s (spec.timeout)");
        assert_eq!(TimeLimit::of(hour, minute).to_string(), "1m0s (--timeout-max)");
        assert_eq!(TimeLimit::of(hour, hour).to_string(), "1h0m0s (spec.timeout)");
        assert_eq!(
            TimeLimit::of(hour, minute).operators(),
            "; the limit is 1m0s (--timeout-max)"
        );
        assert_eq!(TimeLimit::of(minute, hour).operators(), "");
    }
}
