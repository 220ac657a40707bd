//! How much one document may ask for: values, comments, and the bytes that each of them costs.
//!
//! Recipients are public keys, so whoever can write to a repository can have a document of any shape
//! opened. Its bytes do not bound the work: an alias repeats what it names, and a long key above a
//! thousand values is authenticated with each of them. So reading and opening each have one count,
//! the same for all formats, and who waits can end both.

use std::cell::Cell;

use crate::decrypter::Limits;

/// So many bytes count as one value more.
const BYTES_PER_ENTRY: usize = 64;

/// Why no more is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// There are too many values.
    #[error("there are more than {0} values and comments (long ones count several times)")]
    Entries(usize),
    /// A key is too long.
    #[error("a key is longer than {0} bytes")]
    Key(usize),
    /// Nobody waits any more.
    #[error("it was cancelled")]
    Stopped,
}

/// The count of one reading, or of one opening.
pub(crate) struct Budget<'s> {
    left: Cell<usize>,
    limits: Limits,
    stop: Option<&'s dyn Fn() -> bool>,
    /// What ended it, for who cannot be told otherwise.
    exhausted: Cell<Option<Exhausted>>,
}

impl<'s> Budget<'s> {
    pub(crate) fn new(limits: Limits, stop: Option<&'s dyn Fn() -> bool>) -> Self {
        Self {
            left: Cell::new(limits.entries_max),
            limits,
            stop,
            exhausted: Cell::new(None),
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Asks for one entry, and for so many bytes of work.
    pub(crate) fn entry(&self, bytes: usize) -> Result<(), Exhausted> {
        self.entries(cost(bytes))
    }

    /// Asks for so many entries.
    pub(crate) fn entries(&self, entries: usize) -> Result<(), Exhausted> {
        if self.stop.is_some_and(|stop| stop()) {
            return Err(self.ends(Exhausted::Stopped));
        }
        match self.left.get().checked_sub(entries) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(self.ends(Exhausted::Entries(self.limits.entries_max))),
        }
    }

    /// Asks for a key.
    pub(crate) fn key(&self, key: &str) -> Result<(), Exhausted> {
        let max = self.limits.key_bytes_max;
        if key.len() > max {
            return Err(self.ends(Exhausted::Key(max)));
        }
        Ok(())
    }

    /// How many entries were asked for.
    pub(crate) fn spent(&self) -> usize {
        self.limits.entries_max - self.left.get()
    }

    pub(crate) fn exhausted(&self) -> Option<Exhausted> {
        self.exhausted.get()
    }

    fn ends(&self, why: Exhausted) -> Exhausted {
        self.exhausted.set(Some(why));
        why
    }
}

/// What an entry with so many bytes counts.
pub(crate) fn cost(bytes: usize) -> usize {
    1 + bytes / BYTES_PER_ENTRY
}
