//! Limits of a render.
//!
//! Charts are untrusted: a template can make a gigabyte in one call or run forever. Exceeding a limit is an
//! error that names it. A step is some fifty nanoseconds, and slower work counts as several; memory is
//! charged when allocated and never given back. [`Limits::default`] ends any render within one to three
//! seconds of processor time and 200 MB (`cargo bench -p equate-template --bench hostile` measures each
//! case). Keys are the exception: thirty may be made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The limits of a render. Each counts over the whole life of a [`crate::Session`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest output of one template, in bytes.
    pub output_bytes_max: usize,
    /// The output of all templates together, included ones too, in bytes.
    pub output_total_bytes_max: usize,
    /// The memory of all created texts, slices and maps, in bytes; each of them at most 32 MiB.
    pub made_bytes_max: usize,
    /// Actions, calls and iterations; long texts count as several.
    pub steps_max: u64,
    /// The deepest nesting of template calls.
    pub calls_depth_max: usize,
    /// The deepest nesting of a value that is printed, copied or merged.
    pub value_depth_max: usize,
    /// The deepest recursion of a template through `include`, as Helm counts.
    pub include_depth_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            output_bytes_max: 32 << 20,
            output_total_bytes_max: 64 << 20,
            made_bytes_max: 128 << 20,
            steps_max: 20_000_000,
            calls_depth_max: 4_000,
            value_depth_max: 1_000,
            include_depth_max: 1_000,
        }
    }
}

/// An exceeded limit, with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// [`Limits::output_bytes_max`].
    #[error("limit: more than {0} bytes of output")]
    Output(usize),
    /// [`Limits::output_total_bytes_max`].
    #[error("limit: more than {0} bytes of output in total")]
    OutputTotal(usize),
    /// [`Limits::made_bytes_max`].
    #[error("limit: more than {0} bytes of values")]
    Made(usize),
    /// [`Limits::steps_max`].
    #[error("limit: more than {0} steps")]
    Steps(u64),
    /// [`Limits::calls_depth_max`].
    #[error("limit: templates called more than {0} deep")]
    Calls(usize),
    /// [`Limits::value_depth_max`].
    #[error("limit: a value nested deeper than {0} levels")]
    Depth(usize),
    /// The memory of parsed templates: up to forty times their text for dense actions.
    #[error("limit: parsed templates take more than {0} bytes")]
    Read(usize),
    /// [`crate::Options::stop`] was set.
    #[error("limit: the render was stopped")]
    Stopped,
}

#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    stop: Option<Arc<AtomicBool>>,
    /// The number of steps at which to check for a stop.
    next_check: u64,
    made: usize,
    written: usize,
    steps: u64,
}

/// The bytes read per step.
const BYTES_PER_STEP: usize = 256;
/// The most bytes allocated at once: a text briefly exists twice.
const AT_ONCE_BYTES_MAX: usize = 32 << 20;
/// The steps between checks for a stop: some fifty microseconds.
const STEPS_PER_CHECK: u64 = 1_024;

impl Meter {
    pub(crate) fn new(limits: Limits, stop: Option<Arc<AtomicBool>>) -> Self {
        Self {
            limits,
            stop,
            next_check: 0,
            made: 0,
            written: 0,
            steps: 0,
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    #[inline]
    pub(crate) fn step(&mut self) -> Result<(), Limit> {
        self.steps = self.steps.saturating_add(1);
        if self.steps > self.next_check {
            return self.check_stop();
        }
        Ok(())
    }

    #[cold]
    fn check_stop(&mut self) -> Result<(), Limit> {
        if self.steps > self.limits.steps_max {
            return Err(Limit::Steps(self.limits.steps_max));
        }
        let stop = self.stop.as_ref();
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(Limit::Stopped);
        }
        self.next_check = self
            .limits
            .steps_max
            .min(self.steps.saturating_add(STEPS_PER_CHECK));
        Ok(())
    }

    pub(crate) fn work(&mut self, bytes: usize) -> Result<(), Limit> {
        self.steps = self.steps.saturating_add((bytes / BYTES_PER_STEP) as u64);
        self.step()
    }

    /// Charges output, and the work to write it.
    #[inline]
    pub(crate) fn write(&mut self, bytes: usize) -> Result<(), Limit> {
        self.written = self.written.saturating_add(bytes);
        if self.written > self.limits.output_total_bytes_max {
            return Err(Limit::OutputTotal(self.limits.output_total_bytes_max));
        }
        if bytes < BYTES_PER_STEP {
            return Ok(());
        }
        self.work(bytes)
    }

    pub(crate) fn steps(&mut self, count: u64) -> Result<(), Limit> {
        self.steps = self.steps.saturating_add(count);
        self.step()
    }

    /// Charges an allocation.
    pub(crate) fn make(&mut self, bytes: usize) -> Result<(), Limit> {
        if bytes > AT_ONCE_BYTES_MAX {
            return Err(Limit::Made(AT_ONCE_BYTES_MAX));
        }
        self.made = self.made.saturating_add(bytes);
        if self.made > self.limits.made_bytes_max {
            return Err(Limit::Made(self.limits.made_bytes_max));
        }
        Ok(())
    }

    /// Charges a call: a step, and its long texts.
    pub(crate) fn call(&mut self, args: &[crate::Value]) -> Result<(), Limit> {
        const LONG_BYTES: usize = 4 << 10;
        for arg in args {
            if let crate::Value::String(text) = arg
                && text.len() > LONG_BYTES
            {
                self.work(text.len())?;
            }
        }
        self.step()
    }

    /// Charges a method call, which may read its texts slowly.
    pub(crate) fn method(&mut self, args: &[crate::Value]) -> Result<(), Limit> {
        const TIMES: usize = 64;
        for arg in args {
            if let crate::Value::String(text) = arg {
                self.work(text.len().saturating_mul(TIMES))?;
            }
        }
        self.step()
    }

    /// Charges the result of a method of the caller's values.
    pub(crate) fn charge_result(&mut self, value: &crate::Value) -> Result<(), Limit> {
        use crate::Value;
        match value {
            Value::String(text) | Value::Bytes(text) => {
                self.work(text.len())?;
                self.make(text.len())
            }
            Value::List(list) => self.make_items(list.len()),
            Value::Map(map) => self.make_map(map.len()),
            // such as the files a pattern selects
            Value::Host(host) => self.make_map(host.count().unwrap_or_default()),
            _ => self.step(),
        }
    }

    /// Charges a cluster's answer recursively.
    pub(crate) fn charge_answer(&mut self, value: &crate::Value) -> Result<(), Limit> {
        use crate::Value;
        self.charge_result(value)?;
        match value {
            Value::List(list) => list.items().iter().try_for_each(|item| self.charge_answer(item)),
            Value::Map(map) => map.snapshot().iter().try_for_each(|(key, item)| {
                self.make(key.len())?;
                self.charge_answer(item)
            }),
            _ => Ok(()),
        }
    }

    pub(crate) fn make_items(&mut self, count: usize) -> Result<(), Limit> {
        const SLICE_BYTES: usize = 96;
        self.work(count.saturating_mul(8))?;
        self.make(
            count
                .saturating_mul(size_of::<crate::Value>())
                .saturating_add(SLICE_BYTES),
        )
    }

    /// Charges a map of this many entries: the smallest has room for eleven.
    pub(crate) fn make_map(&mut self, count: usize) -> Result<(), Limit> {
        const MAP_BYTES: usize = 560;
        const ENTRY_BYTES: usize = 80;
        self.work(count.saturating_mul(32))?;
        self.make(count.saturating_mul(ENTRY_BYTES).saturating_add(MAP_BYTES))
    }
}
