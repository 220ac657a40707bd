//! Readers that stop at a ceiling, and say that they did.
//!
//! The tar reader sees only an I/O error; which ceiling it was stays in a cell beside it.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use crate::limits::LimitExceeded;

/// Set once a ceiling was reached.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached(Rc<Cell<Option<LimitExceeded>>>);

impl Reached {
    pub(super) fn get(&self) -> Option<LimitExceeded> {
        self.0.get()
    }

    fn set(&self, limit: LimitExceeded) -> io::Error {
        self.0.set(Some(limit));
        io::Error::other(limit.to_string())
    }
}

/// Fails once more than `max` bytes came out of `inner`.
pub(super) struct Bounded<R> {
    pub(super) inner: R,
    pub(super) max: u64,
    pub(super) limit: LimitExceeded,
    pub(super) reached: Reached,
    pub(super) read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.set(self.read.get().saturating_add(read as u64));
        match self.read.get() > self.max {
            true => Err(self.reached.set(self.limit)),
            false => Ok(read),
        }
    }
}

/// What comes out of a decompressor, against what went in.
pub(super) struct Expanding<R> {
    pub(super) inner: R,
    pub(super) compressed: Rc<Cell<u64>>,
    pub(super) expanded: u64,
    pub(super) expansion_max: u64,
    pub(super) reached: Reached,
}

/// Small archives of padding and zeros expand a lot and harm nobody.
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
