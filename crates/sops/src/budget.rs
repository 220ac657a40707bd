//! Limits on the work for one document: values, comments, and their bytes.
//!
//! Recipients are public keys, so anybody who can write to a repository can submit a document of any shape.
//! Its size does not bound the work: an alias repeats its value, and a long key is authenticated with every
//! value below it. Reading and decrypting have one count each, for all formats.
//!
//! Work with private keys and expressions is counted in steps of ten nanoseconds: a document can name a
//! thousand recipients, each with many keys to try. The caller is told all work in these steps, and can stop
//! it.

use std::cell::Cell;

use crate::decrypter::Limits;

/// The bytes that count as one more value.
const BYTES_PER_ENTRY: usize = 64;
/// The cost of a value, in steps.
const ENTRY_STEPS: u64 = 100;

/// The caller's check: gets the steps ahead and returns whether to stop.
pub(crate) type Meter<'s> = &'s dyn Fn(u64) -> bool;

/// The reason for stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// There are too many values.
    #[error("there are more than {0} values and comments (long ones count several times)")]
    Entries(usize),
    /// A key is too long.
    #[error("a key is longer than {0} bytes")]
    Key(usize),
    /// Private keys or expressions take too long.
    #[error(
        "its recipients and rule take more than {0} steps of work; name fewer recipients, give fewer keys, or \
         simplify the rule"
    )]
    Steps(u64),
    /// The caller has stopped it.
    #[error("it was cancelled")]
    Stopped,
}

pub(crate) struct Budget<'s> {
    left: Cell<usize>,
    steps_left: Cell<u64>,
    limits: Limits,
    meter: Option<Meter<'s>>,
    /// The first limit, for callers that cannot return it.
    exhausted: Cell<Option<Exhausted>>,
}

impl<'s> Budget<'s> {
    pub(crate) fn new(limits: Limits, meter: Option<Meter<'s>>) -> Self {
        Self {
            left: Cell::new(limits.entries_max),
            steps_left: Cell::new(limits.steps_max),
            limits,
            meter,
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
        self.tell(ENTRY_STEPS.saturating_mul(entries as u64))?;
        match self.left.get().checked_sub(entries) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(self.ends(Exhausted::Entries(self.limits.entries_max))),
        }
    }

    /// Charges work with private keys or expressions.
    pub(crate) fn steps(&self, steps: u64) -> Result<(), Exhausted> {
        self.tell(steps)?;
        match self.steps_left.get().checked_sub(steps) {
            Some(left) => {
                self.steps_left.set(left);
                Ok(())
            }
            None => Err(self.ends(Exhausted::Steps(self.limits.steps_max))),
        }
    }

    fn tell(&self, steps: u64) -> Result<(), Exhausted> {
        match self.meter.is_some_and(|meter| meter(steps)) {
            true => Err(self.ends(Exhausted::Stopped)),
            false => Ok(()),
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
