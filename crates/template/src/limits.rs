//! How much a render may take.
//!
//! Charts come from strangers. A template can ask for a text of a gigabyte in one call or run for
//! ever; each of these ends in an error that names the limit. A step is some fifty nanoseconds, and what
//! takes longer counts as several; what is made is counted when it is made and never given back. So the
//! limits of [`Limits::default`] end a render that does nothing else within one to three seconds of
//! processor time and 200 MB (`cargo bench -p equate-template --bench hostile` shows each case; keys are
//! the exception, of which thirty may be made).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The limits of a render. Each counts over the whole life of a [`crate::Session`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest output of one template, in bytes.
    pub output_bytes_max: usize,
    /// What all templates write together, those that are included too, in bytes.
    pub output_total_bytes_max: usize,
    /// What all texts, slices and maps that are made may take together, in bytes; each of them at most 32 MiB.
    pub made_bytes_max: usize,
    /// Actions, calls and iterations; long texts count as several.
    pub steps_max: u64,
    /// How deep templates may call each other.
    pub calls_depth_max: usize,
    /// How deep a value may nest that is printed, copied or merged.
    pub value_depth_max: usize,
    /// How often a template may include itself before the first is done, as Helm counts.
    pub include_depth_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            output_bytes_max: 32 << 20,
            output_total_bytes_max: 128 << 20,
            made_bytes_max: 128 << 20,
            steps_max: 20_000_000,
            calls_depth_max: 4_000,
            value_depth_max: 1_000,
            include_depth_max: 1_000,
        }
    }
}

/// A limit that was reached, with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// [`Limits::output_bytes_max`].
    #[error("limit: more than {0} bytes of output")]
    Output(usize),
    /// [`Limits::output_total_bytes_max`].
    #[error("limit: more than {0} bytes of output of all templates")]
    OutputTotal(usize),
    /// [`Limits::made_bytes_max`].
    #[error("limit: more than {0} bytes of values made")]
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
    /// Templates that take so much memory once they are read: forty times their text if there is nothing
    /// but actions in it.
    #[error("limit: templates that take more than {0} bytes once they are read")]
    Read(usize),
    /// [`crate::Options::stop`] was set.
    #[error("limit: the render was stopped")]
    Stopped,
}

/// What is left of the limits.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    stop: Option<Arc<AtomicBool>>,
    /// As many steps may be taken before the next look at what may end the render.
    look_at: u64,
    made: usize,
    written: usize,
    steps: u64,
}

/// So many bytes looked at count as one step.
const BYTES_PER_STEP: usize = 256;
/// The most that is made at once: a text is there twice for a moment.
const AT_ONCE_BYTES_MAX: usize = 32 << 20;
/// After so many steps it is looked whether to stop: some fifty microseconds.
const STEPS_PER_LOOK: u64 = 1_024;

impl Meter {
    pub(crate) fn new(limits: Limits, stop: Option<Arc<AtomicBool>>) -> Self {
        Self {
            limits,
            stop,
            look_at: 0,
            made: 0,
            written: 0,
            steps: 0,
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts one step.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<(), Limit> {
        self.steps = self.steps.saturating_add(1);
        if self.steps > self.look_at {
            return self.look();
        }
        Ok(())
    }

    /// Whether to go on.
    #[cold]
    fn look(&mut self) -> Result<(), Limit> {
        if self.steps > self.limits.steps_max {
            return Err(Limit::Steps(self.limits.steps_max));
        }
        let stop = self.stop.as_ref();
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(Limit::Stopped);
        }
        self.look_at = self
            .limits
            .steps_max
            .min(self.steps.saturating_add(STEPS_PER_LOOK));
        Ok(())
    }

    /// Counts the work of going through so many bytes.
    pub(crate) fn work(&mut self, bytes: usize) -> Result<(), Limit> {
        self.steps = self.steps.saturating_add((bytes / BYTES_PER_STEP) as u64);
        self.step()
    }

    /// Counts what a template is about to write, as work too.
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

    /// Counts work that takes as long as so many steps.
    pub(crate) fn steps(&mut self, count: u64) -> Result<(), Limit> {
        self.steps = self.steps.saturating_add(count);
        self.step()
    }

    /// Counts what is about to be made.
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

    /// Counts a call: a step, and the long texts it may look at.
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

    /// Counts a call of a method, which may read its texts slowly.
    pub(crate) fn method(&mut self, args: &[crate::Value]) -> Result<(), Limit> {
        const TIMES: usize = 64;
        for arg in args {
            if let crate::Value::String(text) = arg {
                self.work(text.len().saturating_mul(TIMES))?;
            }
        }
        self.step()
    }

    /// Counts what a method of the caller's values returned.
    pub(crate) fn given(&mut self, value: &crate::Value) -> Result<(), Limit> {
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

    /// Counts what a cluster answered, to its innermost.
    pub(crate) fn answered(&mut self, value: &crate::Value) -> Result<(), Limit> {
        use crate::Value;
        self.given(value)?;
        match value {
            Value::List(list) => list.items().iter().try_for_each(|item| self.answered(item)),
            Value::Map(map) => map.snapshot().iter().try_for_each(|(key, item)| {
                self.make(key.len())?;
                self.answered(item)
            }),
            _ => Ok(()),
        }
    }

    /// Counts a slice of so many elements, with what any slice takes.
    pub(crate) fn make_items(&mut self, count: usize) -> Result<(), Limit> {
        const SLICE_BYTES: usize = 96;
        self.work(count.saturating_mul(8))?;
        self.make(
            count
                .saturating_mul(size_of::<crate::Value>())
                .saturating_add(SLICE_BYTES),
        )
    }

    /// Counts a map of so many entries: the smallest has room for eleven.
    pub(crate) fn make_map(&mut self, count: usize) -> Result<(), Limit> {
        const MAP_BYTES: usize = 560;
        const ENTRY_BYTES: usize = 80;
        self.work(count.saturating_mul(32))?;
        self.make(count.saturating_mul(ENTRY_BYTES).saturating_add(MAP_BYTES))
    }
}
