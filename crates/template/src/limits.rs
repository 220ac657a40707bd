//! How much a render may take.
//!
//! Charts come from strangers. A template can ask for a text of a gigabyte in one call or run for
//! ever; each of these ends in an error that names the limit.

/// The limits of a render. Each counts over the whole life of a [`crate::Session`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest output of one template, in bytes.
    pub output_bytes_max: usize,
    /// What all texts, slices and maps that are made may take together, in bytes.
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
            output_bytes_max: 64 << 20,
            made_bytes_max: 512 << 20,
            steps_max: 40_000_000,
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
}

/// What is left of the limits.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    made: usize,
    steps: u64,
}

/// So many bytes looked at count as one step.
const BYTES_PER_STEP: usize = 256;

impl Meter {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            made: 0,
            steps: 0,
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts one step.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<(), Limit> {
        self.steps += 1;
        if self.steps > self.limits.steps_max {
            return Err(Limit::Steps(self.limits.steps_max));
        }
        Ok(())
    }

    /// Counts the work of going through so many bytes.
    pub(crate) fn work(&mut self, bytes: usize) -> Result<(), Limit> {
        self.steps = self.steps.saturating_add((bytes / BYTES_PER_STEP) as u64);
        self.step()
    }

    /// Counts what is about to be made.
    pub(crate) fn make(&mut self, bytes: usize) -> Result<(), Limit> {
        self.made = self.made.saturating_add(bytes);
        if self.made > self.limits.made_bytes_max {
            return Err(Limit::Made(self.limits.made_bytes_max));
        }
        Ok(())
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
            Value::Map(map) => self.make_items(map.len()),
            _ => self.step(),
        }
    }

    /// Counts a slice or map of so many elements.
    pub(crate) fn make_items(&mut self, count: usize) -> Result<(), Limit> {
        self.work(count.saturating_mul(8))?;
        self.make(count.saturating_mul(size_of::<crate::Value>()))
    }
}
