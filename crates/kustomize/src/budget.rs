//! Limits on the output of one build: bytes copied into objects, bytes of compiled expressions, nesting
//! depth.
//!
//! Limits on input do not bound a build: a replacement can double its source, and a diamond of bases reads
//! one file a thousand times. So every copy is charged here first, to one account for the whole build. The
//! charge is the length of the text plus a constant per value, which is proportional to its memory.

use crate::error::Exhausted;
use crate::spec::Limits;
use crate::workers::Workers;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The deepest nesting a build may produce; files are read with a smaller limit.
const NESTING_MAX: usize = 512;
/// The charge per value, in addition to its text.
const VALUE_BYTES: usize = 24;
/// Size limits for a compiled expression, tried in this order: most need the smallest.
const PATTERN_BYTES: [usize; 3] = [16 << 10, 256 << 10, 1 << 20];

/// Stops a build from another thread, or lets it pause for other work.
#[derive(Clone, Default)]
pub struct Stop(Arc<State>);

#[derive(Default)]
struct State {
    stopped: AtomicBool,
    pause: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Stop {
    /// A build calls `pause` after each few hundred microseconds of work, on the thread that works. It
    /// continues when `pause` returns.
    pub fn pausing(pause: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(State {
            stopped: AtomicBool::new(false),
            pause: Some(Box::new(pause)),
        }))
    }

    /// Stops every build that was given this handle.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether [`Self::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Relaxed)
    }

    /// Pauses if others have their turn, then tells whether [`Self::stop`] was called.
    pub fn checkpoint(&self) -> bool {
        if let Some(pause) = &self.0.pause {
            pause();
        }
        self.is_stopped()
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stop").field(&self.is_stopped()).finish()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    made: AtomicUsize,
    made_max: usize,
    patterns: AtomicUsize,
    patterns_max: usize,
    workers: Workers,
    stop: Stop,
}

impl Default for Budget {
    /// The budget of the default limits.
    fn default() -> Self {
        Self::new(&Limits::default())
    }
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self::stopped_by(limits, Stop::default())
    }

    pub(crate) fn stopped_by(limits: &Limits, stop: Stop) -> Self {
        Self(Arc::new(Account {
            made: AtomicUsize::new(0),
            made_max: limits.made_bytes_max,
            patterns: AtomicUsize::new(0),
            patterns_max: limits.pattern_bytes_max,
            workers: Workers(limits.threads_max),
            stop,
        }))
    }

    pub(crate) fn workers(&self) -> Workers {
        self.0.workers
    }

    pub(crate) fn charge(&self, bytes: usize) -> Result<(), Exhausted> {
        let account = &self.0;
        if account.stop.is_stopped() {
            return Err(Exhausted::Stopped);
        }
        take(&account.made, account.made_max, bytes).ok_or(Exhausted::Made(account.made_max))
    }

    /// Charges a copy of a value that is placed this many levels deep.
    pub(crate) fn charge_copy(&self, value: &Value, below: usize) -> Result<(), Exhausted> {
        let (bytes, levels) = measure(value);
        if levels.saturating_add(below) > NESTING_MAX {
            return Err(Exhausted::Nesting(NESTING_MAX));
        }
        self.charge(bytes)
    }

    /// Compiles an expression. The inner error is the regular expression's own.
    pub(crate) fn pattern(&self, pattern: &str) -> Result<Result<Regex, regex::Error>, Exhausted> {
        let account = &self.0;
        let mut last = Err(regex::Error::CompiledTooBig(0));
        for bytes in PATTERN_BYTES {
            take(&account.patterns, account.patterns_max, bytes)
                .ok_or(Exhausted::Patterns(account.patterns_max))?;
            last = RegexBuilder::new(pattern).size_limit(bytes).build();
            if !matches!(last, Err(regex::Error::CompiledTooBig(_))) {
                break;
            }
        }
        Ok(last)
    }
}

/// Adds to a counter unless that exceeds the limit.
fn take(sum: &AtomicUsize, limit: usize, more: usize) -> Option<()> {
    let add = |sum: usize| sum.checked_add(more).filter(|sum| *sum <= limit);
    sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
        .ok()
        .map(drop)
}

/// Returns the charge for a value and its depth; a scalar has depth 1.
pub(crate) fn measure(value: &Value) -> (usize, usize) {
    let (bytes, levels) = match value {
        Value::String(text) => (text.len(), 0),
        Value::Array(items) => items.iter().map(measure).fold((0, 0), both),
        Value::Object(map) => return measure_map(map),
        Value::Null | Value::Bool(_) | Value::Number(_) => (0, 0),
    };
    (bytes + VALUE_BYTES, levels + 1)
}

pub(crate) fn measure_map(map: &Map<String, Value>) -> (usize, usize) {
    let entries = map.iter().map(|(key, value)| {
        let (bytes, levels) = measure(value);
        (bytes + key.len(), levels)
    });
    let (bytes, levels) = entries.fold((0, 0), both);
    (bytes + VALUE_BYTES, levels + 1)
}

fn both(left: (usize, usize), right: (usize, usize)) -> (usize, usize) {
    (left.0 + right.0, left.1.max(right.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn budget(made: usize, patterns: usize) -> Budget {
        Budget::new(&Limits {
            made_bytes_max: made,
            pattern_bytes_max: patterns,
            ..Limits::default()
        })
    }

    #[test]
    fn clones_share_one_budget() {
        let one = budget(10, 0);
        let other = one.clone();
        assert_eq!(one.charge(6), Ok(()));
        assert_eq!(other.charge(5), Err(Exhausted::Made(10)));
        assert_eq!(other.charge(4), Ok(()));
        assert_eq!(one.charge(usize::MAX), Err(Exhausted::Made(10)));
    }

    #[test]
    fn measure_counts_bytes_and_levels() {
        for (value, bytes, levels) in [
            (json!(1), 24, 1),
            (json!("four"), 28, 1),
            (json!({"ab": [1, "x"]}), 24 * 4 + 3, 3),
        ] {
            assert_eq!(measure(&value), (bytes, levels), "{value}");
        }
    }

    #[test]
    fn deep_copy_is_refused() {
        let deep = (0..NESTING_MAX - 1).fold(json!(1), |value, _| json!([value]));
        let budget = Budget::default();
        assert_eq!(budget.charge_copy(&deep, 0), Ok(()));
        assert_eq!(budget.charge_copy(&deep, 1), Err(Exhausted::Nesting(NESTING_MAX)));
    }

    #[test]
    fn pattern_is_charged_by_size() {
        for (pattern, patterns, compiles) in [
            ("^a.*$", 16 << 10, true),
            ("^(?:(.*a.*b.*c){50}N)$", 1 << 20, true),
            ("^(?:(.*a.*b.*c){5000}N)$", 4 << 20, false),
            ("(", 16 << 10, false),
        ] {
            let found = budget(0, patterns).pattern(pattern);
            assert_eq!(found.map(|found| found.is_ok()), Ok(compiles), "{pattern}");
        }
        let small = budget(0, 20 << 10);
        assert!(small.pattern("a+").is_ok());
        assert!(matches!(small.pattern("a+"), Err(Exhausted::Patterns(limit)) if limit == 20 << 10));
    }
}
