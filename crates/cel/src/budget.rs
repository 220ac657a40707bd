//! The limits of a run: cost, memory, and the caller's interruption.
//!
//! A step costs one unit, some ten nanoseconds. Elements and bytes cost in proportion.

use crate::error::Fail;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Units between looks at the clock and the stop flag: some ten microseconds.
const SLICE: u64 = 1024;

/// Bytes of text for a unit.
const BYTES: usize = 16;

/// The limits of a run, and the part of them that is left.
#[derive(Debug, Clone)]
pub struct Budget<'s> {
    slice: u64,
    /// After this slice.
    later: u64,
    memory: usize,
    stop: Option<&'s AtomicBool>,
    deadline: Option<Instant>,
}

impl<'s> Budget<'s> {
    /// Limits the cost, and the bytes of new values.
    pub fn new(cost_max: u64, bytes_max: usize) -> Self {
        Self {
            slice: 0,
            later: cost_max,
            memory: bytes_max,
            stop: None,
            deadline: None,
        }
    }

    /// Ends the run after the flag is set.
    #[must_use]
    pub fn stopped_by(self, stop: &'s AtomicBool) -> Self {
        Self {
            stop: Some(stop),
            ..self
        }
    }

    /// Ends the run after this instant.
    #[must_use]
    pub fn until(self, deadline: Instant) -> Self {
        Self {
            deadline: Some(deadline),
            ..self
        }
    }

    /// The units that are left.
    pub fn left(&self) -> u64 {
        self.slice + self.later
    }

    pub(crate) fn spend(&mut self, units: usize) -> Result<(), Fail> {
        let units = units as u64;
        match self.slice.checked_sub(units) {
            Some(left) => {
                self.slice = left;
                Ok(())
            }
            None => self.refill(units),
        }
    }

    #[cold]
    fn refill(&mut self, units: u64) -> Result<(), Fail> {
        let stops = self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        if stops || self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Fail::Stopped);
        }
        let left = self.left().checked_sub(units);
        let rest = left.unwrap_or(0);
        self.slice = rest.min(SLICE);
        self.later = rest - self.slice;
        left.map(|_| ()).ok_or(Fail::Cost)
    }

    /// Pays for reading text.
    pub(crate) fn read(&mut self, bytes: usize) -> Result<(), Fail> {
        self.spend(bytes / BYTES)
    }

    /// Pays for a new text.
    pub(crate) fn write(&mut self, bytes: usize) -> Result<(), Fail> {
        self.hold(bytes)?;
        self.read(bytes)
    }

    /// Counts memory alone.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Fail> {
        self.memory = self.memory.checked_sub(bytes).ok_or(Fail::Memory)?;
        Ok(())
    }
}
