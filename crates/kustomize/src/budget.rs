//! Limits on one build: bytes copied into objects, bytes of compiled expressions, nesting depth, work.
//!
//! Limits on input do not bound a build: a replacement can double its source, and a diamond of bases reads
//! one file a thousand times. So every copy is charged here first, to one account for the whole build: the
//! length of the text plus a constant per value.
//!
//! Work is charged in steps of some ten nanoseconds, wherever it is not proportional to a copy. A thread
//! collects its steps and settles them every few hundred microseconds: there a build ends or pauses, and
//! tells how much memory it holds. That is an estimate: nothing is subtracted when values are dropped.

use crate::error::Exhausted;
use crate::spec::Limits;
use crate::workers::Workers;
use equate_manifest::regexp::is_simple;
use equate_manifest::yaml::{self, Document, YamlError};
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The deepest nesting a build may produce; files are read with a smaller limit.
const NESTING_MAX: usize = 512;
/// The charge per value, in addition to its text.
const VALUE_BYTES: usize = 24;
/// The memory of a value of an object, with its key and its part of maps and of the object. Measured.
const HELD_PER_VALUE: usize = 256;
/// The memory of a step while a text is loaded, until its values are counted. Measured.
const HELD_PER_LOADING_STEP: usize = 4;
/// Keeps the sum from overflowing.
const HELD_COUNTED_MAX: usize = usize::MAX / 4;
/// The memory of a copied value for each byte of its charge.
const HELD_PER_COPIED: usize = 4;
/// Size limits for a compiled expression, and its steps per byte searched unless it is simple. Tried in this
/// order: most need the smallest.
const PATTERNS: [(usize, usize); 5] = [
    (4 << 10, 100),
    (16 << 10, 250),
    (64 << 10, 700),
    (256 << 10, 2_000),
    (1 << 20, 8_000),
];
const SIMPLE_STEPS: usize = 2;
/// A match that may take longer ends the build.
const MATCH_STEPS_MAX: usize = 20_000_000;
/// Compiling costs a step for this many bytes of the compiled expression.
const PATTERN_BYTES_PER_STEP: usize = 2;
/// The steps a thread collects before it settles them.
const STEPS_PER_PAUSE: u64 = 20_000;
/// Keeps the sum from overflowing.
const STEPS_AT_ONCE_MAX: u64 = 1 << 40;
/// The bytes that are copied, compared or scanned in a step.
pub(crate) const BYTES_PER_STEP: usize = 32;

thread_local! {
    static COLLECTED: Cell<u64> = const { Cell::new(0) };
}

/// Stops a build from another thread, or lets it pause for other work.
#[derive(Clone, Default)]
pub struct Stop(Arc<State>);

#[derive(Default)]
struct State {
    stopped: AtomicBool,
    /// Steps of other crates that no build has taken yet.
    elsewhere: AtomicU64,
    /// The bytes of the present build.
    held: AtomicUsize,
    pause: Option<Box<dyn Fn(usize) -> bool + Send + Sync>>,
}

impl Stop {
    /// A build calls `pause` after each few hundred microseconds of work, on the thread that works. It
    /// continues when `pause` returns true, and ends when it returns false. The argument is an estimate of
    /// the bytes that the build holds.
    pub fn pausing(pause: impl Fn(usize) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(State {
            pause: Some(Box::new(pause)),
            ..State::default()
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
        if let Some(pause) = &self.0.pause
            && !pause(self.0.held.load(Ordering::Relaxed))
        {
            self.stop();
        }
        self.is_stopped()
    }

    /// Charges the build for work outside this crate, such as decryption, in steps of ten nanoseconds. Tells
    /// whether to end it.
    pub fn work(&self, steps: u64) -> bool {
        match collect(steps) {
            None => self.is_stopped(),
            Some(steps) => {
                self.0.elsewhere.fetch_add(steps, Ordering::Relaxed);
                self.checkpoint()
            }
        }
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stop").field(&self.is_stopped()).finish()
    }
}

/// Adds to the steps of this thread; returns them if they must be settled.
fn collect(steps: u64) -> Option<u64> {
    let collected = COLLECTED.get().saturating_add(steps);
    let settles = collected >= STEPS_PER_PAUSE;
    COLLECTED.set(if settles { 0 } else { collected });
    settles.then_some(collected)
}

#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    made: AtomicUsize,
    made_max: usize,
    /// Bytes held beyond those that are made.
    held: AtomicUsize,
    patterns: AtomicUsize,
    patterns_max: usize,
    steps: AtomicU64,
    steps_max: u64,
    compiled: Mutex<HashMap<String, Expression>>,
    workers: Workers,
    stop: Stop,
}

/// A compiled expression.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    regex: Regex,
    steps_per_byte: usize,
}

impl Expression {
    pub(crate) fn is_match(&self, text: &str, budget: &Budget) -> bool {
        let steps = 12 + text.len().saturating_mul(self.steps_per_byte);
        if steps > MATCH_STEPS_MAX {
            // it could not be interrupted
            budget.owe(usize::MAX);
            return false;
        }
        budget.owe(steps);
        self.regex.is_match(text)
    }
}

impl Default for Budget {
    /// The budget of the default limits.
    fn default() -> Self {
        Self::new(&Limits::default())
    }
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self::within(limits, Stop::default())
    }

    /// The budget of a new build.
    pub(crate) fn stopped_by(limits: &Limits, stop: Stop) -> Self {
        // left over from an earlier build
        COLLECTED.set(0);
        stop.0.held.store(0, Ordering::Relaxed);
        Self::within(limits, stop)
    }

    fn within(limits: &Limits, stop: Stop) -> Self {
        Self(Arc::new(Account {
            made: AtomicUsize::new(0),
            made_max: limits.made_bytes_max,
            held: AtomicUsize::new(0),
            patterns: AtomicUsize::new(0),
            patterns_max: limits.pattern_bytes_max,
            steps: AtomicU64::new(0),
            steps_max: limits.steps_max,
            compiled: Mutex::default(),
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
        take(&account.made, account.made_max, bytes).ok_or(Exhausted::Made(account.made_max))?;
        self.spend(1 + bytes / BYTES_PER_STEP)
    }

    /// Charges work.
    pub(crate) fn spend(&self, steps: usize) -> Result<(), Exhausted> {
        match collect(steps as u64) {
            None => Ok(()),
            Some(steps) => self.settle(steps),
        }
    }

    /// Charges work where no error can be returned; the next charge returns it.
    pub(crate) fn owe(&self, steps: usize) {
        if self.spend(steps).is_err() {
            // the next one settles at once
            COLLECTED.set(STEPS_PER_PAUSE);
        }
    }

    #[cold]
    fn settle(&self, steps: u64) -> Result<(), Exhausted> {
        let account = &self.0;
        self.check()?;
        let held = account.made.load(Ordering::Relaxed) + account.held.load(Ordering::Relaxed);
        account.stop.0.held.store(held, Ordering::Relaxed);
        account.stop.checkpoint();
        let steps = steps.saturating_add(account.stop.0.elsewhere.swap(0, Ordering::Relaxed));
        account
            .steps
            .fetch_add(steps.min(STEPS_AT_ONCE_MAX), Ordering::Relaxed);
        self.check()
    }

    /// Whether the build must end.
    pub(crate) fn check(&self) -> Result<(), Exhausted> {
        let account = &self.0;
        if account.stop.is_stopped() {
            return Err(Exhausted::Stopped);
        }
        if account.steps.load(Ordering::Relaxed) > account.steps_max {
            return Err(Exhausted::Steps(account.steps_max));
        }
        Ok(())
    }

    /// Charges a copy of a value that is placed this many levels deep.
    pub(crate) fn charge_copy(&self, value: &Value, below: usize) -> Result<(), Exhausted> {
        let (bytes, levels) = measure(value);
        if levels.saturating_add(below) > NESTING_MAX {
            return Err(Exhausted::Nesting(NESTING_MAX));
        }
        if levels > 1 {
            self.hold(bytes.saturating_mul(HELD_PER_COPIED - 1));
        }
        self.charge(bytes)
    }

    /// Counts values of objects that were read.
    pub(crate) fn hold_values(&self, values: usize) {
        self.hold(values.saturating_mul(HELD_PER_VALUE));
    }

    fn hold(&self, bytes: usize) {
        self.change_held(|held| held.saturating_add(bytes).min(HELD_COUNTED_MAX));
    }

    fn release(&self, bytes: usize) {
        self.change_held(|held| held.saturating_sub(bytes));
    }

    fn change_held(&self, change: impl Fn(usize) -> usize) {
        let changed = |held: usize| Some(change(held));
        let held = &self.0.held;
        held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed)
            .ok();
    }

    /// Refuses to create maps on a path of this many segments.
    pub(crate) fn check_depth(segments: usize) -> Result<(), Exhausted> {
        match segments > NESTING_MAX {
            true => Err(Exhausted::Nesting(NESTING_MAX)),
            false => Ok(()),
        }
    }

    /// Loads documents. If the build must end, the next charge says so.
    pub(crate) fn load(&self, text: &str, options: &yaml::Options) -> Result<Vec<Document>, YamlError> {
        self.owe(text.len() / 8);
        let mut meanwhile = 0_usize;
        let mut watch = |steps: usize| {
            let bytes = steps.saturating_mul(HELD_PER_LOADING_STEP);
            meanwhile = meanwhile.saturating_add(bytes);
            self.hold(bytes);
            self.spend(steps).is_ok()
        };
        let documents = yaml::load_watched(text, options, &mut watch);
        self.release(meanwhile);
        let documents = documents?;
        self.hold_values(documents.iter().map(|document| values(&document.value)).sum());
        Ok(documents)
    }

    pub(crate) fn watch(&self) -> impl FnMut(usize) -> bool {
        |steps| self.spend(steps).is_ok()
    }

    /// Compiles an expression once; `chosen` is the part that an author chose. The inner error is the regular
    /// expression's own.
    pub(crate) fn pattern(
        &self,
        pattern: &str,
        chosen: &str,
    ) -> Result<Result<Expression, regex::Error>, Exhausted> {
        let account = &self.0;
        let compiled = || account.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled().get(pattern) {
            return Ok(Ok(known.clone()));
        }
        let mut last = regex::Error::CompiledTooBig(0);
        let is_simple = is_simple(chosen);
        for (bytes, steps_per_byte) in PATTERNS {
            let steps_per_byte = if is_simple { SIMPLE_STEPS } else { steps_per_byte };
            self.spend(pattern.len() + bytes / PATTERN_BYTES_PER_STEP)?;
            match RegexBuilder::new(pattern).size_limit(bytes).build() {
                Ok(regex) => {
                    take(&account.patterns, account.patterns_max, bytes)
                        .ok_or(Exhausted::Patterns(account.patterns_max))?;
                    let expression = Expression {
                        regex,
                        steps_per_byte,
                    };
                    compiled().insert(pattern.to_owned(), expression.clone());
                    return Ok(Ok(expression));
                }
                Err(error @ regex::Error::CompiledTooBig(_)) => last = error,
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Err(last))
    }
}

/// Adds to a counter unless that exceeds the limit.
fn take(sum: &AtomicUsize, limit: usize, more: usize) -> Option<()> {
    let add = |sum: usize| sum.checked_add(more).filter(|sum| *sum <= limit);
    sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
        .ok()
        .map(drop)
}

/// The number of values in a value.
fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values).sum(),
        Value::Object(map) => map.values().map(values).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
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
    fn every_thread_pauses_and_ends() {
        let pauses = Arc::new(Mutex::new(HashMap::new()));
        let counted = Arc::clone(&pauses);
        let stop = Stop::pausing(move |_| {
            let mut pauses = counted.lock().unwrap_or_else(PoisonError::into_inner);
            *pauses.entry(std::thread::current().id()).or_insert(0_u64) += 1;
            true
        });
        let limits = Limits {
            steps_max: 40 * STEPS_PER_PAUSE,
            ..Limits::default()
        };
        let budget = Budget::stopped_by(&limits, stop);
        let work = || (0..10 * STEPS_PER_PAUSE).try_for_each(|_| budget.spend(1));
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            for one in all {
                assert_eq!(one.join().unwrap(), Ok(()));
            }
        });
        assert_eq!(
            pauses.lock().unwrap().values().copied().collect::<Vec<_>>(),
            [10; 4]
        );
        budget.owe(STEPS_PER_PAUSE as usize);
        let limit = Exhausted::Steps(limits.steps_max);
        assert_eq!(budget.check(), Err(limit));
        assert_eq!(budget.spend(usize::MAX), Err(limit));
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
            let found = budget(0, patterns).pattern(pattern, pattern);
            assert_eq!(found.map(|found| found.is_ok()), Ok(compiles), "{pattern}");
        }
        let small = budget(0, 6 << 10);
        assert!(small.pattern("a+", "a+").is_ok());
        assert!(small.pattern("a+", "a+").is_ok());
        let second = small.pattern("b+", "b+");
        assert!(matches!(second, Err(Exhausted::Patterns(limit)) if limit == 6 << 10));
    }
}
