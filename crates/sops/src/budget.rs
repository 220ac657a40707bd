//! Limits on the work for one document: values, comments, and their bytes.
//!
//! Recipients are public keys, so anybody who can write to a repository can submit a document of any shape.
//! Its size does not bound the work: an alias repeats its value, and a long key is authenticated with every
//! value below it. Reading and decrypting have one count each, for all formats, and the caller can stop
//! both.

use std::cell::Cell;

use crate::decrypter::Limits;

/// The bytes that count as one more value.
const BYTES_PER_ENTRY: usize = 64;

/// The reason for stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// There are too many values.
    #[error("there are more than {0} values and comments (long ones count several times)")]
    Entries(usize),
    /// A key is too long.
    #[error("a key is longer than {0} bytes")]
    Key(usize),
    /// The caller has stopped it.
    #[error("it was cancelled")]
    Stopped,
}

pub(crate) struct Budget<'s> {
    left: Cell<usize>,
    limits: Limits,
    stop: Option<&'s dyn Fn() -> bool>,
    /// The first limit, for callers that cannot return it.
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

    pub(crate) fn entry(&self, bytes: usize) -> Result<(), Exhausted> {
        self.entries(cost(bytes))
    }

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

    pub(crate) fn key(&self, key: &str) -> Result<(), Exhausted> {
        let max = self.limits.key_bytes_max;
        if key.len() > max {
            return Err(self.ends(Exhausted::Key(max)));
        }
        Ok(())
    }

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

pub(crate) fn cost(bytes: usize) -> usize {
    1 + bytes / BYTES_PER_ENTRY
}
