//! Readers that stop at a limit and record which.
//!
//! The tar reader shows only an I/O error, so the limit is kept in a cell beside it.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use crate::limits::LimitExceeded;
use crate::pauses::Pauses;

#[derive(Clone, Debug, Default)]
pub(super) struct ReachedLimit(Rc<Cell<Option<LimitExceeded>>>);

impl ReachedLimit {
    pub(super) fn get(&self) -> Option<LimitExceeded> {
        self.0.get()
    }

    fn set(&self, limit: LimitExceeded) -> io::Error {
        self.0.set(Some(limit));
        io::Error::other(limit.to_string())
    }
}

/// It pauses as it reads.
pub(super) struct Bounded<'a, R> {
    pub(super) inner: R,
    pub(super) pauses: &'a Pauses<'a>,
    pub(super) max: u64,
    pub(super) limit: LimitExceeded,
    pub(super) reached: ReachedLimit,
    pub(super) read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.pauses.count(read).map_err(io::Error::other)?;
        self.read.set(self.read.get().saturating_add(read as u64));
        match self.read.get() > self.max {
            true => Err(self.reached.set(self.limit)),
            false => Ok(read),
        }
    }
}

/// Compares decompressed bytes with compressed ones.
pub(super) struct Expanding<R> {
    pub(super) inner: R,
    pub(super) compressed: Rc<Cell<u64>>,
    pub(super) expanded: u64,
    pub(super) expansion_max: u64,
    pub(super) reached: ReachedLimit,
}

/// Small archives of padding and zeros expand a lot without harm.
const EXPANDED_FREE: u64 = 1 << 20;

impl<R: Read> Read for Expanding<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.expanded = self.expanded.saturating_add(read as u64);
        let allowed = self
            .compressed
            .get()
            .saturating_mul(self.expansion_max)
            .max(EXPANDED_FREE);
        match self.expanded > allowed {
            true => Err(self.reached.set(LimitExceeded::Expansion(self.expansion_max))),
            false => Ok(read),
        }
    }
}
