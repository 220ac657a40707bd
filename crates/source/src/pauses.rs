//! Pauses of long work on a processor: others go first meanwhile, and it can be ended.

use std::cell::Cell;
use std::fmt;

use thiserror::Error;

/// Steps between two pauses. A step is a byte of a path that is compared with a pattern, or a byte of content.
const STEPS: usize = 16 << 10;
/// The steps of a file or directory.
pub(crate) const ENTRY: usize = 64;

/// Asks again and again during work whether it goes on.
pub struct Pauses<'a> {
    go_on: &'a dyn Fn() -> bool,
    /// Since the last pause.
    steps: Cell<usize>,
    stopped: Cell<bool>,
}

/// The work was ended at a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it was stopped")]
pub struct Stopped;

impl<'a> Pauses<'a> {
    /// `go_on` lets others go first, then tells whether the work goes on.
    pub fn new(go_on: &'a dyn Fn() -> bool) -> Pauses<'a> {
        Pauses {
            go_on,
            steps: Cell::new(0),
            stopped: Cell::new(false),
        }
    }

    /// Work without pauses.
    pub fn none() -> Pauses<'static> {
        Pauses::new(&|| true)
    }

    /// Pauses now.
    ///
    /// # Errors
    /// The work is to end.
    pub fn here(&self) -> Result<(), Stopped> {
        self.steps.set(0);
        let stopped = self.stopped.get() || !(self.go_on)();
        self.stopped.set(stopped);
        match stopped {
            false => Ok(()),
            true => Err(Stopped),
        }
    }

    /// After work that hides [`Stopped`] in errors of its own.
    pub(crate) fn ended(&self) -> Result<(), Stopped> {
        match self.stopped.get() {
            false => Ok(()),
            true => Err(Stopped),
        }
    }

    /// Readers of other crates hide [`Stopped`] in errors of their own.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Counts steps; pauses if there were enough.
    pub(crate) fn count(&self, steps: usize) -> Result<(), Stopped> {
        let steps = self.steps.get().saturating_add(steps);
        self.steps.set(steps);
        match steps >= STEPS {
            true => self.here(),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for Pauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pauses")
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}
